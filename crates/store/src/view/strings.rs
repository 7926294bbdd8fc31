//! Access to strings, and storing of any value as a whole.

use super::{NewDeadline, View};
use crate::item::{WrongType, item_of, string_of, value_of};
use crate::object::Object;
use crate::shard::Room;
use crate::shared::{Db, HUGE_BYTES, Key};
use crate::tagging::Labels;
use crate::tags::TAG_STRING;
use crate::tracking::InvalidationCause;
use cache::{NewValue, Value};
use policy::{Slot, Tick};
use std::sync::atomic::Ordering;

/// Number of bytes of keys and values that [`View::set_all`] stores before it counts the memory.
const UNCOUNTED_BYTES_MAX: usize = 2048;

/// Returns a string as a value for an entry of this key.
fn new_string<'a>(key: &[u8], bytes: &'a [u8]) -> NewValue<'a, Object> {
    if Db::must_be_outside(key, bytes.len()) {
        NewValue::Outside(Object::String(bytes.to_vec()))
    } else {
        NewValue::Inline(TAG_STRING, bytes)
    }
}

impl View<'_> {
    /// Returns the bytes of a string. Counts a hit or a miss and notifies the policy.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    #[inline]
    pub fn get(&mut self, key: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        self.get_value(key).map(string_of).transpose()
    }

    /// Returns the bytes of a string without counting the access or notifying the policy.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    pub fn peek(&mut self, key: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        self.peek_value(key).map(string_of).transpose()
    }

    /// Stores a string under a key and replaces a value of any type. Evicts entries if memory is
    /// needed.
    pub fn set(&mut self, key: &Key<'_>, value: &[u8], deadline: NewDeadline) {
        self.put(key, new_string(key.bytes, value), deadline);
    }

    /// Like [`View::set`] for a value that results from the present one: the key keeps its tags and
    /// its stale time, and is negative no longer.
    pub fn update(&mut self, key: &Key<'_>, value: &[u8], deadline: NewDeadline) {
        let found = self.live(key);
        let soft_until = found.and_then(|slot| self.db(key).soft_until(slot));
        let mut labels = match found {
            Some(slot) if self.db(key).has_groups() => self.labels_at(key, slot),
            _ => Labels::default(),
        };
        labels.soft.is_negative = false;
        self.set(key, value, deadline);
        if !labels.is_empty() {
            self.pass_labels(key, &labels);
        }
        if let Some(until) = soft_until {
            let own = self.deadline(key).flatten();
            self.set_deadline(key, own.into_iter().chain([until]).min());
        }
    }

    pub(super) fn put(
        &mut self,
        key: &Key<'_>,
        value: NewValue<'_, Object>,
        deadline: NewDeadline,
    ) {
        let found = self.live(key);
        let found = self.retagged(key, found, deadline);
        let deadline = self.ruled(key, found, deadline);
        if deadline != NewDeadline::Keep {
            self.note_write(key, found, deadline);
        }
        let at = match (deadline, found) {
            (NewDeadline::At(deadline), _) => Some(deadline.min(Tick::MAX)),
            (NewDeadline::Keep, Some(slot)) => self.db(key).entries.own_deadline(slot),
            _ => None,
        };
        self.put_at(key, found, value, at);
    }

    /// Notes for the statistics of TTLs and ages that a value replaces the value of the entry
    /// `found`, or belongs to a new entry.
    #[inline]
    pub(super) fn note_write(&mut self, key: &Key<'_>, found: Option<Slot>, deadline: NewDeadline) {
        let now = self.now;
        let locked = self.parts(key).2;
        // A new entry is noted where it is inserted.
        if found.is_some() {
            locked.lifetimes.written(key.hash, key.db, now);
        }
        if let NewDeadline::At(deadline) = deadline {
            locked.note_ttl(key, deadline, now);
        }
    }

    /// Stores a value in the entry `found` or in a new one, with the deadline for the expiry index.
    pub(super) fn put_at(
        &mut self,
        key: &Key<'_>,
        found: Option<Slot>,
        value: NewValue<'_, Object>,
        at: Option<Tick>,
    ) {
        self.put_uncounted(key, found, value, at);
        self.written(key, at);
    }

    /// Like [`View::put_at`], without the steps of [`View::written`].
    #[inline]
    fn put_uncounted(
        &mut self,
        key: &Key<'_>,
        found: Option<Slot>,
        value: NewValue<'_, Object>,
        at: Option<Tick>,
    ) {
        let (now, value_bytes) = (self.now, value.len());
        let (space, shard, locked) = self.parts(key);
        let shared = space.shared();
        if value_bytes > HUGE_BYTES {
            shared.has_huge_strings.store(true, Ordering::Relaxed);
        }
        locked.reach(key.db);
        if let Some(slot) = found {
            locked.preserve_whole(key.db, slot, shared);
        }
        let applied = &mut locked.applied[key.db as usize];
        let db = locked.dbs[key.db as usize].get_or_insert_with(|| {
            let (db, policy) = shared.new_db(shard, key.db, now);
            *applied = policy;
            db
        });
        cache::Entries::begin(&mut db.entries, now);
        if let Some(slot) = found {
            let (slot, dropped) = db.change(slot, value, at);
            db.hit(slot);
            locked.note_change(key, false);
            locked.defer_drop(dropped, shared);
            locked.make_room(key.db, Room::written(value_bytes), shared);
        } else {
            let weight = (key.bytes.len() + value_bytes + 8) as u32;
            // The result of an admission filter is not applied, because SET must store the value.
            // The entry may be the next victim.
            let own = value.embedded_deadline().unwrap_or(at);
            let _ = db.admit(key.hash, weight, own);
            let room = Room {
                written_bytes: value_bytes,
                needed_bytes: weight as usize,
            };
            locked.make_room(key.db, room, shared);
            let db = locked.dbs[key.db as usize]
                .as_mut()
                .expect("the database was created above");
            db.insert(key.hash, key.bytes, value, at);
            locked.lifetimes.written(key.hash, key.db, now);
            locked.note_change(key, true);
        }
    }

    /// Stores strings in order, like [`View::set`]. The memory is counted, and the next expiry
    /// published, once for several strings of one shard, because that takes part of the time of
    /// storing a short string.
    pub fn set_all<'e>(
        &mut self,
        strings: impl IntoIterator<Item = (Key<'e>, &'e [u8], Option<Tick>)>,
    ) {
        let mut uncounted: Option<(Key<'e>, usize)> = None;
        for (key, value, deadline) in strings {
            let shard = |key: &Key<'_>| (self.space.shard_of(key), key.db);
            let mut bytes = 0;
            if let Some((last, before)) = uncounted.take() {
                match shard(&last) == shard(&key) && before < UNCOUNTED_BYTES_MAX {
                    true => bytes = before,
                    false => self.count(&last),
                }
            }
            let found = self.live(&key);
            let found = self.without_tags(&key, found);
            let new = deadline.map_or(NewDeadline::Clear, NewDeadline::At);
            self.note_write(&key, found, new);
            let at = deadline.map(|deadline| deadline.min(Tick::MAX));
            self.put_uncounted(&key, found, new_string(key.bytes, value), at);
            let locked = self.parts(&key).2;
            locked.revoke_lease(key.db, key.hash);
            locked.mark_changed(key.db, key.bytes, InvalidationCause::Command);
            if let Some(at) = at {
                self.note_local(&key, at);
            }
            self.mark_ready(&key);
            uncounted = Some((key, bytes + key.bytes.len() + value.len()));
        }
        if let Some((last, _)) = uncounted {
            self.count(&last);
        }
    }

    /// Counts the memory of a key's database, and publishes its next expiry.
    fn count(&mut self, key: &Key<'_>) {
        let (space, shard, locked) = self.parts(key);
        locked.account(key.db, space.shared());
        space.publish_deadline(shard, key.db, locked);
    }

    /// Edits a string in place, or an empty one if the key is absent, and keeps the deadline. An
    /// absent key is created only if the result is not empty.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    pub fn edit<R>(
        &mut self,
        key: &Key<'_>,
        edit: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, WrongType> {
        let found = self.live(key);
        let mut bytes = self.take_scratch(key);
        if let Some(slot) = found {
            match self.db(key).value(slot) {
                Value::Inline(TAG_STRING, value) => bytes.extend_from_slice(value),
                Value::Outside(Object::String(_)) => return Ok(self.edit_large(key, slot, edit)),
                other => match item_of(&other) {
                    Some(item) => bytes.extend_from_slice(value_of(item)),
                    None => {
                        self.parts(key).2.scratch = bytes;
                        return Err(WrongType);
                    }
                },
            }
        }
        let result = edit(&mut bytes);
        if found.is_some() || !bytes.is_empty() {
            if Db::must_be_outside(key.bytes, bytes.len()) {
                let value = NewValue::Outside(Object::String(bytes));
                self.put(key, value, NewDeadline::Keep);
                return Ok(result);
            }
            self.put(key, NewValue::Inline(TAG_STRING, &bytes), NewDeadline::Keep);
        }
        self.parts(key).2.scratch = bytes;
        Ok(result)
    }

    fn edit_large<R>(
        &mut self,
        key: &Key<'_>,
        slot: Slot,
        edit: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        self.hit(key, slot);
        let (space, _, locked) = self.parts(key);
        locked.preserve(key.db, slot, space.shared());
        let mut added = 0;
        let result = self.db(key).edit_outside(slot, |object| {
            let Object::String(bytes) = object else {
                unreachable!("the caller has checked the type")
            };
            let before = bytes.capacity();
            let result = edit(bytes);
            added = bytes.capacity().saturating_sub(before);
            result
        });
        let (space, _, locked) = self.parts(key);
        locked.note_change(key, false);
        if added > 0 {
            let is_huge = |object: &mut Object| object.used_bytes() > HUGE_BYTES;
            let db = locked.dbs[key.db as usize].as_mut();
            if db.and_then(|db| db.edit_outside(slot, is_huge)) == Some(true) {
                let shared = space.shared();
                shared.has_huge_strings.store(true, Ordering::Relaxed);
            }
        }
        locked.make_room(key.db, Room::written(added), space.shared());
        let deadline = self.db(key).entries.own_deadline(slot);
        self.written(key, deadline);
        result.expect("the value is an outside object")
    }
}
