//! Moves the values of keys to a separate keyspace for a long command, and back.
//!
//! The move takes constant time per key, because a large value is behind a pointer. A [`Lent`]
//! value remains in the entry meanwhile. If removals are being recorded, the removal of such an
//! entry is recorded when its value comes back ([`View::take_back`]).

use super::{Purpose, View};
use crate::collection::Scene;
use crate::journal::{Lost, Removed};
use crate::lent::Lent;
use crate::object::{Object, kind_of};
use crate::shard::{Removal, file};
use crate::shared::{Db, Key};
use crate::tagging::Labels;
use crate::types::{SortedSet, Stream};
use cache::{NewValue, Outside, Value};
use policy::{Slot, Tick};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of an element in a value that is inline, for an estimate of their number.
const INLINE_ELEMENT_BYTES: usize = 16;

/// Size of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of elements of a large collection; for any other value a small estimate.
    pub len: usize,
    /// Number of bytes: a string's length, or the memory of a collection.
    pub bytes: usize,
    /// Number of bytes that are allocated.
    pub capacity: usize,
}

/// The values of one name in all databases, as moved by [`View::lend`].
#[derive(Debug)]
pub struct Lease {
    name: Box<[u8]>,
    /// Number of times that a database of the shard had been flushed or swapped.
    flushes: u64,
    parts: Vec<Part>,
}

/// The value in one database.
#[derive(Debug)]
struct Part {
    was_present: bool,
    /// Whether the key was changed in the other keyspace.
    is_changed: Arc<AtomicBool>,
}

impl Lease {
    /// Whether a value was changed in the other keyspace, in any database.
    pub fn is_changed(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| part.is_changed.load(Ordering::Relaxed))
    }
}

impl View<'_> {
    /// Returns the size of a live key's value. Does not count the access or notify the policy.
    pub fn extent(&mut self, key: &Key<'_>) -> Option<Extent> {
        let scene = self.scene();
        let value = self.peek_value(key)?;
        Some(match value {
            Value::Inline(_, bytes) => Extent {
                len: 1 + bytes.len() / INLINE_ELEMENT_BYTES,
                bytes: bytes.len(),
                capacity: bytes.len(),
            },
            Value::Outside(object) => Extent {
                len: object.len(&scene),
                bytes: object.used_bytes(),
                capacity: object.heap_bytes(),
            },
        })
    }

    /// Returns the number of consumers and pending entries of a group of a stream; 0 if there is no
    /// such group.
    pub fn group_len(&mut self, key: &Key<'_>, group: &[u8]) -> usize {
        let Some(Value::Outside(Object::Stream(stream))) = self.peek_value(key) else {
            return 0;
        };
        let group = stream.group(group);
        group.map_or(0, |group| group.consumer_count() + group.pending_len())
    }

    /// Returns the number of groups of a stream.
    pub fn group_count(&mut self, key: &Key<'_>) -> usize {
        let count = self.peek_large_stream(key, |stream, _| stream.group_count());
        count.unwrap_or(0)
    }

    /// Returns the number of a stream's entries if the own deadlines of any have passed, and 0
    /// otherwise. Commands on groups look at each of these entries until they are removed.
    pub fn overdue_len(&mut self, key: &Key<'_>) -> usize {
        let len = self.peek_large_stream(key, |stream, scene| stream.overdue_len(scene));
        len.unwrap_or(0)
    }

    /// Passes a live key's stream to `read`, if it is not small. Returns `None` for any other
    /// value. Does not count the access or notify the policy.
    pub fn peek_large_stream<R>(
        &mut self,
        key: &Key<'_>,
        read: impl FnOnce(&Stream, &Scene<'_>) -> R,
    ) -> Option<R> {
        let scene = self.scene();
        match self.peek_value(key)? {
            Value::Outside(Object::Stream(stream)) => Some(read(stream, &scene)),
            _ => None,
        }
    }

    /// Whether a string of more than a mebibyte was ever stored.
    #[inline]
    pub fn has_huge_strings(&self) -> bool {
        self.space.shared().has_huge_strings.load(Ordering::Relaxed)
    }

    /// Passes a live key's large sorted set to `read`. Returns `None` for any other value. Does not
    /// count the access or notify the policy.
    pub fn peek_large_sorted_set<R>(
        &mut self,
        key: &Key<'_>,
        read: impl FnOnce(&SortedSet, &Scene<'_>) -> R,
    ) -> Option<R> {
        let scene = self.scene();
        match self.peek_value(key)? {
            Value::Outside(Object::SortedSet(set)) => Some(read(set, &scene)),
            _ => None,
        }
    }

    /// Marks a key as written for the clients blocked on it, because they were skipped when it was
    /// written.
    pub fn remind_waiters(&mut self, key: &Key<'_>) {
        let (space, _, locked) = self.parts(key);
        if !locked.waiting.is_empty() {
            let number = || space.shared().next_event();
            locked.waiting.mark_ready(key.db, key.bytes, number);
            self.has_ready |= locked.waiting.has_ready();
        }
    }

    /// Moves the values that a name has in all databases to the keyspace of another view. The
    /// caller ensures that no command accesses the name until [`View::take_back`].
    pub fn lend(&mut self, name: &[u8], to: &mut View<'_>) -> Lease {
        let databases = self.space.databases();
        let mut parts = Vec::with_capacity(databases);
        if self.records() {
            to.set_recording(true);
        }
        for db in 0..databases {
            let key = self.space.key(db as u8, name);
            let labels = self.labels(&key).unwrap_or_default();
            let is_protected = self.is_protected(&key) == Some(true);
            let soft_until = self
                .find(&key)
                .and_then(|slot| self.db(&key).soft_until(slot));
            let taken = self.lend_value(&key);
            let was_present = taken.is_some();
            if let Some((object, own)) = taken {
                let own = own.into_iter().chain(soft_until).min();
                to.place(&key, None, object, own);
                to.pass_labels(&key, &labels);
                to.pass_protection(&key, is_protected);
            }
            let is_changed = Arc::new(AtomicBool::new(false));
            to.watch(&key, &is_changed);
            parts.push(Part {
                was_present,
                is_changed,
            });
        }
        let key = self.space.key(0, name);
        Lease {
            name: name.into(),
            flushes: self.parts(&key).2.flushes,
            parts,
        }
    }

    /// Replaces the value of a live entry by a [`Lent`] one. Returns the value and the key's own
    /// deadline.
    fn lend_value(&mut self, key: &Key<'_>) -> Option<(Object, Option<Tick>)> {
        let slot = self.live_or_dead(key, Purpose::Read).ok()?;
        let (space, _, locked) = self.parts(key);
        locked.preserve(key.db, slot, space.shared());
        self.lend_slot(key, slot)
    }

    /// Replaces the value of an entry by a [`Lent`] one. Returns the value and the key's own
    /// deadline.
    pub(crate) fn lend_slot(
        &mut self,
        key: &Key<'_>,
        slot: Slot,
    ) -> Option<(Object, Option<Tick>)> {
        let now = self.now;
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        let own = db.entries.own_deadline(slot);
        let value = db.value(slot);
        let kind = kind_of(&value);
        let (inline, bytes) = match value {
            Value::Inline(tag, bytes) => (Some(Object::unpack(tag, bytes.to_vec())), bytes.len()),
            Value::Outside(Object::Lent(_)) => return None,
            Value::Outside(object) => (None, object.heap_bytes()),
        };
        let lent = NewValue::Outside(Object::Lent(Lent { kind, bytes }));
        let (_, taken) = db.change(slot, lent, own);
        self.parts(key).2.note_change(key, false);
        self.recount(key);
        Some((inline.or(taken)?, own))
    }

    /// Counts the memory of a key's database after a change that is not a write.
    fn recount(&mut self, key: &Key<'_>) {
        let (space, _, locked) = self.parts(key);
        locked.account(key.db, space.shared());
    }

    /// Stores an object in the entry `found` or in a new one. Keeps the spare capacity of a large
    /// object, because freeing it could copy the object.
    fn place(&mut self, key: &Key<'_>, found: Option<Slot>, mut object: Object, own: Option<Tick>) {
        let filed = file(&mut object, own, self.now);
        match object.inline() {
            Some((tag, bytes)) if !Db::must_be_outside(key.bytes, bytes.len()) => {
                self.put_at(key, found, NewValue::Inline(tag, bytes), filed);
            }
            _ => {
                if filed != own {
                    self.space.shared().note_timed_collection();
                }
                self.put_at(key, found, NewValue::Outside(object), filed);
            }
        }
    }

    /// Removes an entry and returns its value with the key's own deadline.
    fn take_value(&mut self, key: &Key<'_>) -> Option<(Object, Option<Tick>)> {
        let locked = self.parts(key).2;
        let db = locked.dbs.get_mut(key.db as usize)?.as_mut()?;
        let slot = db.find(key.hash, key.bytes)?;
        let own = db.entries.own_deadline(slot);
        let inline = match db.value(slot) {
            Value::Inline(tag, bytes) => Some(Object::unpack(tag, bytes.to_vec())),
            Value::Outside(_) => None,
        };
        let taken = db.delete(slot);
        self.recount(key);
        Some((inline.or(taken)?, own))
    }

    /// Moves the values of a lease back from the keyspace of another view, and counts a change of
    /// each key that was changed there. A value whose entry has expired, was evicted or was flushed
    /// meanwhile stays there, to be freed by the caller.
    ///
    /// Expiry and eviction of an entry whose value was lent are not recorded. Keys that they
    /// removed and that are still absent are added to `lost`. The caller passes them to
    /// [`View::record`] after the effect of the long command, because for readers of the record,
    /// the keys existed until then.
    pub fn take_back(&mut self, lease: &Lease, from: &mut View<'_>, lost: &mut Vec<Removed>) {
        for (db, part) in lease.parts.iter().enumerate() {
            let key = self.space.key(db as u8, &lease.name);
            let lent = self.lent_slot(&key);
            if part.is_changed.load(Ordering::Relaxed) {
                self.take_back_changed(&key, lease, part, from);
            } else if let Some(slot) = lent.filter(|_| part.was_present) {
                self.take_back_unchanged(&key, slot, from);
            }
            from.unwatch(&key, &part.is_changed);
            if part.was_present && lent.is_none() {
                lost.extend(self.lost_while_lent(&key));
            }
        }
    }

    /// Returns the record of a removal while the value was lent, if the key is absent.
    fn lost_while_lent(&mut self, key: &Key<'_>) -> Option<Removed> {
        self.find(key).is_none().then(|| Removed {
            db: key.db,
            key: key.bytes.to_vec(),
            lost: Lost::WhileLent,
        })
    }

    /// Returns the slot of an entry in the table, even if it has expired.
    pub(super) fn find(&mut self, key: &Key<'_>) -> Option<Slot> {
        self.parts(key).2.db(key.db)?.find(key.hash, key.bytes)
    }

    fn take_back_unchanged(&mut self, key: &Key<'_>, slot: Slot, from: &mut View<'_>) {
        let Some((object, _)) = from.take_value(key) else {
            return;
        };
        let mut slot = self.replace_lent(key, slot, object);
        if self.parts(key).2.classes.is_some() {
            slot = self.class_hit(key, slot);
        }
        self.db(key).hit(slot);
    }

    /// Moves a value back to its entry. Returns it if the entry no longer waits for it.
    pub(crate) fn put_lent_back(&mut self, key: &Key<'_>, object: Object) -> Option<Object> {
        let Some(slot) = self.lent_slot(key) else {
            let lost = self.lost_while_lent(key);
            self.record(lost);
            return Some(object);
        };
        self.replace_lent(key, slot, object);
        None
    }

    /// Returns the slot of an entry whose value was lent. Removes the entry if it has expired.
    fn lent_slot(&mut self, key: &Key<'_>) -> Option<Slot> {
        // While nothing is removed, an expired entry is still in the table.
        let _ = self.live_or_dead(key, Purpose::Read);
        let slot = self.find(key)?;
        let value = self.db(key).value(slot);
        matches!(value, Value::Outside(Object::Lent(_))).then_some(slot)
    }

    fn replace_lent(&mut self, key: &Key<'_>, slot: Slot, mut object: Object) -> Slot {
        let now = self.now;
        let (space, shard, locked) = self.parts(key);
        let db = locked.dbs[key.db as usize]
            .as_mut()
            .expect("the database holds the slot");
        cache::Entries::begin(&mut db.entries, now);
        let own = db.entries.own_deadline(slot);
        let filed = file(&mut object, own, now);
        if filed != own {
            space.shared().note_timed_collection();
        }
        let (slot, _) = match object.inline() {
            Some((tag, bytes)) if !Db::must_be_outside(key.bytes, bytes.len()) => {
                db.change(slot, NewValue::Inline(tag, bytes), filed)
            }
            _ => db.change(slot, NewValue::Outside(object), filed),
        };
        locked.note_change(key, false);
        locked.account(key.db, space.shared());
        if filed.is_some() {
            space.publish_deadline(shard, key.db, locked);
        }
        slot
    }

    fn take_back_changed(
        &mut self,
        key: &Key<'_>,
        lease: &Lease,
        part: &Part,
        from: &mut View<'_>,
    ) {
        if self.parts(key).2.flushes != lease.flushes {
            return;
        }
        let found = self.find(key);
        let (labels, is_protected) = match from.find(key) {
            Some(slot) => (from.labels_at(key, slot), from.db(key).is_protected(slot)),
            None => (Labels::default(), false),
        };
        match (from.take_value(key), found) {
            // The key expired here, with its event, before the command ended.
            (Some((object, Some(own))), None) if part.was_present && self.horizon > own => {
                let (space, _, locked) = from.parts(key);
                locked.defer_drop(Some(object), space.shared());
            }
            (Some((object, own)), found) => {
                let own = self.ruled_in_annex(key, found, own);
                self.place(key, found, object, own);
                self.pass_labels(key, &labels);
                self.pass_protection(key, is_protected);
            }
            (None, Some(slot)) => self.remove_slot(key, slot, Removal::Deleted),
            (None, None) => {}
        }
    }

    /// Moves the events and the counts of another keyspace's commands to this one. `key` selects
    /// the shard that gets them.
    pub fn adopt(&mut self, key: &Key<'_>, from: &mut View<'_>) {
        let mut events = Vec::new();
        from.take_events(&mut events);
        let counters = from
            .all()
            .iter_mut()
            .map(|locked| std::mem::take(&mut locked.counters));
        let counters: Vec<_> = counters.collect();
        let mut removed = Vec::new();
        from.take_removed(&mut removed);
        let (space, _, locked) = self.parts(key);
        if let Some(journal) = &mut locked.journal {
            journal.append(&mut removed);
        }
        for event in events {
            locked.events.push((space.shared().next_event(), event));
        }
        for counters in &counters {
            locked.counters.add(counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::saving::{Batch, SnapshotSink};
    use crate::{Keyspace, Lost, NewDeadline, Options, Removed};
    use policy::Tick;
    use std::sync::Arc;

    const NOW: Tick = Tick(1_700_000_000_000);
    const LATER: Tick = Tick(NOW.0 + 60);

    /// Returns a keyspace that records removals, with a large string that expires in 50 ms.
    fn keyspace() -> Keyspace {
        let options = Options {
            shards: 1,
            policy: "noeviction".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        let space = Keyspace::new(&options, NOW).expect("valid options");
        let mut view = space.lock_all(NOW);
        view.set_recording(true);
        let deadline = NewDeadline::At(Tick(NOW.0 + 50));
        view.set(&space.key(0, b"key"), &[b'v'; 100_000], deadline);
        drop(view);
        space
    }

    fn expire(space: &Keyspace) {
        space.expire(0, LATER, 100, &mut Vec::new(), &mut |_, _| {});
        assert_eq!(space.counters().expired_keys, 1);
    }

    fn removed(space: &Keyspace) -> Vec<Removed> {
        let mut removed = Vec::new();
        space.lock_all(LATER).take_removed(&mut removed);
        removed
    }

    fn lost_key() -> Removed {
        let (key, lost) = (b"key".to_vec(), Lost::WhileLent);
        Removed { db: 0, key, lost }
    }

    #[test]
    fn the_removal_of_an_entry_without_its_value_is_returned_with_the_value() {
        let space = keyspace();
        let annex = space.annex();
        let lease = space.lock_all(NOW).lend(b"key", &mut annex.lock_all(NOW));
        expire(&space);
        assert_eq!(removed(&space), []);
        let mut lost = Vec::new();
        let mut view = space.lock_all(LATER);
        view.take_back(&lease, &mut annex.lock_all(LATER), &mut lost);
        assert_eq!(lost, [lost_key()]);
        view.record(lost);
        drop(view);
        assert_eq!(removed(&space), [lost_key()]);
        space.check();
    }

    #[test]
    fn a_key_that_is_written_after_its_entry_was_removed_is_not_lost() {
        let space = keyspace();
        let annex = space.annex();
        let lease = space.lock_all(NOW).lend(b"key", &mut annex.lock_all(NOW));
        let key = space.key(0, b"key");
        annex.lock_all(NOW).set(&key, b"new", NewDeadline::Clear);
        expire(&space);
        let mut lost = Vec::new();
        let mut view = space.lock_all(LATER);
        view.take_back(&lease, &mut annex.lock_all(LATER), &mut lost);
        assert_eq!(lost, []);
        assert_eq!(view.peek(&key), Ok(Some(&b"new"[..])));
        drop(view);
        assert_eq!(removed(&space), []);
        space.check();
    }

    #[test]
    fn an_entry_that_is_hidden_gets_its_value_back() {
        // Regression: the value was dropped, and the entry stayed without one.
        let space = keyspace();
        space.set_removal_limit(Some(Tick(1)));
        let annex = space.annex();
        let lease = space.lock_all(NOW).lend(b"key", &mut annex.lock_all(NOW));
        let mut lost = Vec::new();
        let mut view = space.lock_all(LATER);
        view.take_back(&lease, &mut annex.lock_all(LATER), &mut lost);
        assert_eq!(lost, []);
        let key = space.key(0, b"key");
        assert_eq!(view.peek(&key), Ok(None));
        // A command that runs at an earlier instant.
        view.set_now(NOW);
        let value = view.peek(&key).expect("a string");
        assert_eq!(value.map(<[u8]>::len), Some(100_000));
    }

    struct NoSink;

    impl SnapshotSink for NoSink {
        fn put(&self, batch: Batch) -> Batch {
            batch
        }
    }

    #[test]
    fn the_removal_of_an_entry_that_a_snapshot_has_borrowed_is_recorded_with_the_value() {
        let space = keyspace();
        let sink: Arc<dyn SnapshotSink> = Arc::new(NoSink);
        let mut view = space.lock_all(NOW);
        view.begin_snapshot(&sink);
        let key = space.key(0, b"key");
        let loan = view.lend_unsaved(&key).expect("the value is large");
        drop(view);
        expire(&space);
        assert_eq!(removed(&space), []);
        space.lock_all(LATER).take_loan_back(loan);
        assert_eq!(removed(&space), [lost_key()]);
        // A large value that moves to a snapshot is no lent one.
        let space = keyspace();
        space.lock_all(NOW).begin_snapshot(&sink);
        expire(&space);
        let lost = Lost::Expired;
        assert_eq!(removed(&space), [Removed { lost, ..lost_key() }]);
    }
}
