//! Changes of a value in place, and the removal of its expired elements.

use super::{IndexState, Locked, Removal};
use crate::collection::{ChangedElements, Deadlines, NAMED_MAX};
use crate::elements::Elements;
use crate::event::Class;
use crate::journal::{Lost, Removed};
use crate::object::{Object, has_deadlines};
use crate::shared::{Db, Shared};
use crate::tracking::InvalidationCause;
use cache::{NewValue, Value};
use policy::{Budget, Slot, Tick};

/// Time in milliseconds after which the expired elements of a large collection are due again, if a
/// snapshot has not saved the collection yet.
const UNSAVED_RETRY_MS: u64 = 50;

/// Result of a change.
pub(crate) enum EditedValue {
    /// The collection has no element left. The entry is unchanged.
    Empty,
    /// The entry is stored in this slot, with this deadline in the expiry index.
    Stored(Slot, Option<Tick>),
}

/// Returns whether an entry has expired, holds only expired elements, or has a tag that was
/// invalidated. Looks at the value only if the indexed deadline has passed.
pub(crate) fn is_dead(db: &Db, slot: Slot, now: Tick) -> bool {
    if db.is_stale(slot) || db.soft_until(slot).is_some_and(|until| now > until) {
        return true;
    }
    let is_due = |deadline: Option<Tick>| deadline.is_some_and(|deadline| now > deadline);
    if !is_due(db.entries.shape(slot).deadline) {
        return false;
    }
    is_due(db.entries.own_deadline(slot))
        || match db.value(slot) {
            value if !has_deadlines(&value) => true,
            Value::Outside(object) => object.is_dead(now),
            Value::Inline(tag, bytes) => Object::unpack(tag, bytes.to_vec()).is_dead(now),
        }
}

/// Returns the deadline under which the expiry index must hold an object's entry. Stores the key's
/// own deadline in the object if its elements have deadlines.
pub(crate) fn file(object: &mut Object, own: Option<Tick>, now: Tick) -> Option<Tick> {
    if object.deadlines().is_none() {
        return own;
    }
    object.set_own(own);
    let deadlines = object.deadlines()?;
    // An index that must run at once returns an instant in the distant past. The entry gets a
    // recent instant instead, so that it does not precede the other entries that are due now.
    let nearest = deadlines
        .nearest
        .map(|t| t.max(Tick(now.0.saturating_sub(1))));
    let filed = Deadlines {
        nearest,
        ..deadlines
    };
    filed.filed().map(|deadline| deadline.min(Tick::MAX))
}

/// Panics if a collection is inconsistent with itself or its entry.
pub(crate) fn check(db: &Db) {
    let mut at = 0;
    while let Some(slot) = db.entries.walk(at) {
        at = slot.0 + 1;
        let unpacked;
        let object = match db.value(slot) {
            Value::Outside(object) => object,
            Value::Inline(tag, bytes) => {
                unpacked = Object::unpack(tag, bytes.to_vec());
                &unpacked
            }
        };
        object.check();
        assert!(!object.is_empty_collection());
        if let Some(deadlines) = object.deadlines() {
            let filed = db.entries.shape(slot).deadline;
            assert_eq!(filed.is_some(), deadlines.filed().is_some());
        }
    }
}

impl Locked {
    /// Changes the value of an entry with `work`, stores the result and updates the expiry index.
    /// `own` is the key's own deadline after the change. Returns `None` if `work` returns `None`,
    /// which means that it changed nothing.
    pub fn edit_value<R>(
        &mut self,
        at: (u8, Slot),
        index_state: IndexState,
        own: Option<Tick>,
        now: Tick,
        shared: &Shared,
        work: impl FnOnce(&mut Object) -> Option<R>,
    ) -> Option<(R, EditedValue)> {
        let (db, slot) = at;
        self.preserve(db, slot, shared);
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        let Value::Inline(tag, bytes) = data.value(slot) else {
            let edited = self.edit_outside_value(at, index_state, own, now, shared, work);
            if let Some((_, EditedValue::Stored(_, filed))) = &edited
                && *filed != own
            {
                shared.note_timed_collection();
            }
            return edited;
        };
        let mut buffer = std::mem::take(&mut self.scratch);
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let mut object = Object::unpack(tag, buffer);
        let Some(result) = work(&mut object) else {
            self.scratch = object.into_bytes();
            return None;
        };
        if object.is_empty_collection() {
            self.scratch = object.into_bytes();
            return Some((result, EditedValue::Empty));
        }
        let filed = file(&mut object, own, now);
        if index_state == IndexState::Removed {
            data.reindex(slot, filed.unwrap_or(Tick::MAX));
        }
        let at = match object.inline() {
            Some((tag, bytes)) if !Db::must_be_outside(data.entries.key(slot), bytes.len()) => {
                let (at, _) = data.change(slot, NewValue::Inline(tag, bytes), filed);
                self.scratch = object.into_bytes();
                at
            }
            _ => {
                object.trim();
                data.change(slot, NewValue::Outside(object), filed).0
            }
        };
        Some((result, EditedValue::Stored(at, filed)))
    }

    fn edit_outside_value<R>(
        &mut self,
        (db, slot): (u8, Slot),
        index_state: IndexState,
        own: Option<Tick>,
        now: Tick,
        shared: &Shared,
        work: impl FnOnce(&mut Object) -> Option<R>,
    ) -> Option<(R, EditedValue)> {
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        let worked = data.edit_outside(slot, |object| {
            let result = work(object)?;
            if object.is_empty_collection() {
                return Some((result, None));
            }
            let filed = file(object, own, now);
            let small = object.inline().map(|(tag, bytes)| (tag, bytes.len()));
            Some((result, Some((filed, small))))
        });
        let (result, rest) = worked.expect("the value is an outside object")?;
        let Some((filed, small)) = rest else {
            return Some((result, EditedValue::Empty));
        };
        if index_state == IndexState::Removed {
            data.reindex(slot, filed.unwrap_or(Tick::MAX));
        }
        let is_small = |len: usize| !Db::must_be_outside(data.entries.key(slot), len);
        let at = match small.filter(|(_, len)| is_small(*len)) {
            Some((tag, _)) => {
                let bytes = match data.value(slot) {
                    Value::Outside(object) => object.inline().map(|(_, bytes)| bytes.to_vec()),
                    Value::Inline(..) => None,
                };
                let bytes = bytes.expect("the object is small");
                let (at, dropped) = data.change(slot, NewValue::Inline(tag, &bytes), filed);
                self.defer_drop(dropped, shared);
                at
            }
            None => data.change(slot, NewValue::Same, filed).0,
        };
        Some((result, EditedValue::Stored(at, filed)))
    }

    /// Handles an entry whose indexed deadline has passed. Removes the entry if the deadline is the
    /// key's own or all elements have expired. Otherwise removes its expired elements, unless a
    /// snapshot still needs them. Returns the slot of the entry if it is still present.
    #[expect(
        clippy::too_many_arguments,
        reason = "instant, budget and callback are passed through"
    )]
    pub fn expire_due(
        &mut self,
        db: u8,
        slot: Slot,
        index_state: IndexState,
        now: Tick,
        budget: &mut Budget,
        shared: &Shared,
        report: &mut dyn FnMut(Tick, u32),
    ) -> Option<Slot> {
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        let own = data.entries.own_deadline(slot);
        if let Some(own) = own.filter(|own| now > *own) {
            report(own, 1);
            let removal = match index_state {
                IndexState::Indexed => Removal::ExpiredOnAccess,
                IndexState::Removed => Removal::ExpiredByIndex,
            };
            self.note_lateness(db, slot, now);
            self.remove_entry(db, slot, removal, shared);
            self.account(db, shared);
            return None;
        }
        if self.is_unsaved_large(db, slot) {
            return self.expire_unsaved(db, slot, index_state, now, shared);
        }
        let is_published = shared.is_notifying() || self.is_observed();
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        cache::Entries::begin(&mut data.entries, now);
        let is_recorded = self.journal.is_some();
        let key = is_published.then(|| data.entries.key(slot).to_vec());
        let mut count = 0;
        let names = ChangedElements::of_expired(is_recorded, shared.names_elements());
        let worked = self.edit_value((db, slot), index_state, own, now, shared, |object| {
            let mut expired = |deadline, n| {
                count += n;
                report(deadline, n);
            };
            object.purge(now, budget, &mut expired, names.as_ref());
            Some(object.expired_event())
        });
        let ((class, name), edited) = worked.expect("the closure returns a result");
        self.counters.expired_elements += u64::from(count);
        if let Some(key) = key.filter(|_| count > 0) {
            self.mark_changed(db, &key, InvalidationCause::Server);
            let elements = names.map_or_else(Vec::new, ChangedElements::into_names);
            let stays = matches!(edited, EditedValue::Stored(..));
            self.elements_expired((db, class, name), key, elements, stays, shared);
        }
        let stays = match edited {
            EditedValue::Stored(slot, _) => {
                self.note_change_at(db, slot);
                Some(slot)
            }
            EditedValue::Empty => {
                self.remove_entry(db, slot, Removal::Emptied(index_state), shared);
                None
            }
        };
        self.account(db, shared);
        stays
    }

    /// Handles a large collection with expired elements that the snapshot in progress has not
    /// saved. The elements stay until it is, because a copy would take long, unless all have
    /// expired: then the snapshot takes the value, and the event does not name the elements.
    fn expire_unsaved(
        &mut self,
        db: u8,
        slot: Slot,
        index_state: IndexState,
        now: Tick,
        shared: &Shared,
    ) -> Option<Slot> {
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        if !is_dead(data, slot, now) {
            if index_state == IndexState::Removed {
                data.reindex(slot, Tick(now.0.saturating_add(UNSAVED_RETRY_MS)));
            }
            return Some(slot);
        }
        let Value::Outside(object) = data.value(slot) else {
            unreachable!("a large value is outside of the entry");
        };
        let event = object.expired_event();
        let count = object.pages().map_or(0, Elements::len);
        let key = data.entries.key(slot).to_vec();
        self.counters.expired_elements += count as u64;
        self.elements_expired((db, event.0, event.1), key, Vec::new(), false, shared);
        self.remove_entry(db, slot, Removal::Emptied(index_state), shared);
        self.account(db, shared);
        None
    }

    /// Records and publishes the removal of expired elements. `stays` is false if the key is
    /// removed, too, so that its elements need not be recorded.
    fn elements_expired(
        &mut self,
        (db, class, name): (u8, Class, &'static str),
        key: Vec<u8>,
        mut elements: Vec<Vec<u8>>,
        stays: bool,
        shared: &Shared,
    ) {
        if let Some(journal) = self.journal.as_mut().filter(|_| stays) {
            journal.push(Removed {
                db,
                key: key.clone(),
                lost: Lost::Elements(class, elements.clone()),
            });
        }
        if shared.is_notifying() {
            elements.truncate(match shared.names_elements() {
                true => NAMED_MAX,
                false => 0,
            });
            self.push_event((db, class, name), key, elements, shared);
        }
    }
}
