//! The part of the keyspace under one lock: a part of every database, and the state of its keys.

use crate::event::{Class, Event, EventQueue};
use crate::facts::Counters;
use crate::memory::SLACK_BYTES;
use crate::object::{Object, has_deadlines};
use crate::shared::{DATABASES, Db, Shared};
use crate::waiting::{DbKey, WaitQueues};
use cache::Outside;
use policy::{Budget, Due, Eviction, ExpiryIndex, Facts, Slot, Tick};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod edit;

pub(crate) use edit::{EditedValue, IndexState, file, is_dead};

/// Number of evictions and entries looked at that any write may cost.
const EVICT_STEPS: u32 = 128;
/// Bytes written per further step. The smallest entries are of this size, so large values over many
/// small ones do not exceed the limit.
const BYTES_PER_STEP: usize = 32;
/// Maximum number of steps per write, a few milliseconds. Background work does the rest.
const EVICT_STEPS_MAX: u32 = 1 << 15;
/// Number of deferred values dropped at once.
const DROPS_PER_CALL: usize = 64;
/// Number of steps for one collection, after which other due entries have their turn.
const PURGE_STEPS: u32 = 256;
/// Number of writes between two calls of [`Locked::resize_policies`].
const RESIZE_INTERVAL_WRITES: u32 = 4096;

#[derive(Default)]
pub(crate) struct Locked {
    pub dbs: [Option<Box<Db>>; DATABASES],
    pub watched: HashMap<DbKey, Vec<Arc<AtomicBool>>>,
    pub waiting: WaitQueues,
    pub events: EventQueue,
    pub counters: Counters,
    /// Values that wait to be dropped outside the lock, some at a time.
    pub deferred: Vec<Object>,
    /// Values of many parts that wait to be freed in steps.
    pub deferred_large: Vec<Object>,
    /// Flushed databases that wait to be freed in steps.
    #[expect(clippy::vec_box, reason = "the databases are boxed already")]
    pub flushed: Vec<Box<Db>>,
    /// Bytes of this shard in the published sum.
    published_bytes: u64,
    /// Whether slots are nearly used up, as published.
    is_full: bool,
    /// Bytes of each database when it was last counted.
    db_bytes: [u64; DATABASES],
    used_bytes: u64,
    writes: u32,
    /// Positions at which the drain of a replaced policy continues, by database.
    drain_cursors: [u32; DATABASES],
    /// Number of the settings that the policies follow.
    pub settings: u64,
    /// Instant of the last background work.
    last_seen: Tick,
    /// Buffer for a value that is being changed.
    pub scratch: Vec<u8>,
    /// Number given to the last write of an item.
    pub last_cas: u64,
}

impl Locked {
    pub fn db(&self, db: u8) -> Option<&Db> {
        self.dbs[db as usize].as_deref()
    }

    /// Fails the transactions that watch a changed key.
    #[inline]
    pub fn mark_watchers(&mut self, db: u8, key: &[u8]) {
        if !self.watched.is_empty()
            && let Some(flags) = self.watched.get(&(db, Box::from(key)))
        {
            for flag in flags {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Fails the transactions that watch a key of database `db`, if it is present there or in
    /// `other`. It is called before a database is flushed or swapped.
    pub fn mark_db_watchers(&mut self, db: u8, other: Option<u8>, shared: &Shared) {
        for ((of, bytes), flags) in &self.watched {
            let is_held = |db: u8| {
                let hash = shared.key(db, bytes).hash;
                self.db(db).is_some_and(|db| db.find(hash, bytes).is_some())
            };
            if *of == db && (is_held(db) || other.is_some_and(is_held)) {
                for flag in flags {
                    flag.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Counts a database's bytes after a write and publishes the sum.
    #[inline]
    pub fn account(&mut self, db: u8, shared: &Shared) {
        let bytes = self.dbs[db as usize].as_ref().map_or(0, |d| db_bytes(d));
        let before = std::mem::replace(&mut self.db_bytes[db as usize], bytes);
        self.used_bytes = self.used_bytes + bytes - before;
        if self.used_bytes.abs_diff(self.published_bytes) > SLACK_BYTES {
            shared.memory.publish(self.published_bytes, self.used_bytes);
            self.published_bytes = self.used_bytes;
            let is_full = self.dbs.iter().flatten().any(|d| d.entries.is_full());
            if is_full != std::mem::replace(&mut self.is_full, is_full) {
                shared.memory.publish_full(is_full);
            }
        }
        self.writes = self.writes.wrapping_add(1);
        if self.writes.is_multiple_of(RESIZE_INTERVAL_WRITES) {
            self.resize_policies(shared);
        }
    }

    /// Notifies the policies of their capacity. It is the part of the shard's share of memory that
    /// entries take; tables, indexes and ghosts are measured and subtracted.
    pub fn resize_policies(&mut self, shared: &Shared) {
        let max = shared.memory.max_bytes();
        if max == 0 || self.used_bytes == 0 {
            return;
        }
        let share = max / shared.shard_count as u64;
        for (db, bytes) in self.dbs.iter_mut().zip(self.db_bytes) {
            let Some(db) = db else { continue };
            let part = u128::from(share) * u128::from(db.entries.entry_bytes());
            // Share of the database in the shard, and in it the part that is entries.
            let capacity = part / u128::from(self.used_bytes.max(bytes));
            db.resize((capacity as u64).max(1));
        }
    }

    /// Records the instant. If the clock went back, notifies all indexes and returns true.
    pub fn observe_clock(&mut self, now: Tick) -> bool {
        let has_gone_back = now < std::mem::replace(&mut self.last_seen, now);
        if has_gone_back {
            for db in self.dbs.iter_mut().flatten() {
                db.clock_went_back(now);
            }
        }
        has_gone_back
    }

    /// Returns the earliest instant at which an index must run.
    pub fn next_due(&self) -> Option<Tick> {
        self.dbs
            .iter()
            .flatten()
            .filter_map(|d| d.expiry().next_due())
            .min()
    }

    /// Defers the drop of a value that an entry no longer holds.
    pub fn defer_drop(&mut self, object: Option<Object>) {
        match object {
            Some(object) if object.inline().is_none() => self.deferred_large.push(object),
            object => self.deferred.extend(object),
        }
    }

    /// Removes an entry, with the event and the counter that its reason requires.
    pub fn remove_entry(&mut self, db: u8, slot: Slot, removal: Removal, shared: &Shared) {
        let is_told = shared.is_notifying() && removal != Removal::Deleted;
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        let key = (is_told || !self.watched.is_empty()).then(|| data.entries.key(slot).to_vec());
        let object = match removal {
            Removal::Deleted | Removal::ExpiredOnAccess | Removal::Emptied(IndexState::Indexed) => {
                data.delete(slot)
            }
            Removal::ExpiredByIndex | Removal::Emptied(IndexState::Removed) => {
                data.remove_expired(slot)
            }
            Removal::Evicted => data.remove_evicted(slot),
        };
        self.defer_drop(object);
        let (class, name) = match removal {
            Removal::Deleted | Removal::Emptied(_) => (Class::Generic, "del"),
            Removal::ExpiredOnAccess | Removal::ExpiredByIndex => {
                self.counters.expired_keys += 1;
                (Class::Expired, "expired")
            }
            Removal::Evicted => {
                self.counters.evicted_keys += 1;
                (Class::Evicted, "evicted")
            }
        };
        let Some(key) = key else { return };
        self.mark_watchers(db, &key);
        if is_told {
            self.push_event(db, class, name, key, shared);
        }
    }

    fn push_event(
        &mut self,
        db: u8,
        class: Class,
        name: &'static str,
        key: Vec<u8>,
        shared: &Shared,
    ) {
        let event = Event {
            db,
            class,
            name,
            key,
        };
        self.events.push((shared.next_event(), event));
    }

    /// Evicts while the memory is over its limit, first from database `first`. A larger value
    /// allows more steps. Returns false if the memory is still over its limit and nothing more can
    /// be evicted here.
    pub fn make_room(&mut self, first: u8, value_bytes: usize, shared: &Shared) -> bool {
        assert!((first as usize) < DATABASES);
        if !shared.memory.is_over() {
            return true;
        }
        let more = u32::try_from(value_bytes / BYTES_PER_STEP).unwrap_or(u32::MAX);
        let mut budget = Budget(EVICT_STEPS.saturating_add(more).min(EVICT_STEPS_MAX));
        for db in std::iter::once(first).chain(0..DATABASES as u8) {
            while let Some(data) = &mut self.dbs[db as usize] {
                match data.evict(&mut budget) {
                    // A victim that is kept costs a step, too, so that the loop ends.
                    Eviction::Victim(slot) if data.retain_if_out_of_scope(slot) => {
                        budget.0 = budget.0.saturating_sub(1);
                    }
                    Eviction::Victim(slot) => {
                        self.remove_entry(db, slot, Removal::Evicted, shared);
                        self.account(db, shared);
                    }
                    Eviction::Again => return true,
                    Eviction::Empty => break,
                }
                if !shared.memory.is_over() || budget.0 == 0 {
                    return true;
                }
            }
        }
        false
    }

    /// Removes due entries and elements in the order of their deadlines. Returns true if the budget
    /// was used up.
    pub fn expire(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        shared: &Shared,
        report: &mut dyn FnMut(Tick, u32),
    ) -> bool {
        loop {
            let due = |d: &Option<Box<Db>>| d.as_ref().and_then(|d| d.expiry().next_due());
            let next = (0..DATABASES)
                .filter_map(|i| due(&self.dbs[i]).map(|t| (t, i)))
                .min();
            let Some((at, db)) = next else { return false };
            if at > now {
                return false;
            }
            let data = self.dbs[db].as_mut().expect("the database exists");
            match data.pop_expired(now, budget) {
                Due::Slot(slot) if has_deadlines(&data.value(slot)) => {
                    let mut slice = Budget(budget.0.min(PURGE_STEPS));
                    budget.0 -= slice.0;
                    let index_state = IndexState::Removed;
                    self.expire_due(db as u8, slot, index_state, now, &mut slice, shared, report);
                    budget.0 += slice.0;
                }
                Due::Slot(slot) => {
                    report(
                        data.entries
                            .deadline(slot)
                            .expect("an expired entry has a deadline"),
                        1,
                    );
                    self.remove_entry(db as u8, slot, Removal::ExpiredByIndex, shared);
                    self.account(db as u8, shared);
                }
                Due::Again => return true,
                // The index was due but had nothing to return; it now requests a later run.
                Due::Nothing if due(&self.dbs[db]).is_some_and(|t| t <= now) => return false,
                Due::Nothing => {}
            }
        }
    }

    /// Swaps two databases with all state kept by their numbers.
    pub fn swap(&mut self, a: u8, b: u8, shared: &Shared) {
        assert!((a as usize) < DATABASES);
        assert!((b as usize) < DATABASES);
        if a == b {
            return;
        }
        self.mark_db_watchers(a, Some(b), shared);
        self.mark_db_watchers(b, Some(a), shared);
        let (i, j) = (a as usize, b as usize);
        self.dbs.swap(i, j);
        self.db_bytes.swap(i, j);
        self.drain_cursors.swap(i, j);
        self.waiting.mark_all_ready([a, b], || shared.next_event());
    }

    /// Returns the bytes of all its databases.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Takes some deferred values. The caller drops them after it has released the lock.
    pub fn take_deferred(&mut self) -> Vec<Object> {
        let keep = self.deferred.len().saturating_sub(DROPS_PER_CALL);
        let taken = self.deferred.split_off(keep);
        debug_assert!(taken.len() <= DROPS_PER_CALL);
        self.counters.dropped_objects += taken.len() as u64;
        taken
    }

    /// Returns the number of deferred values and of keys of flushed databases.
    pub fn pending_objects(&self) -> u64 {
        let keys: usize = self.flushed.iter().map(|db| db.entries.len()).sum();
        (self.deferred.len() + self.deferred_large.len() + keys) as u64
    }

    /// Panics if a structure is inconsistent.
    pub fn check(&mut self) {
        for (db, bytes) in self.dbs.iter_mut().zip(self.db_bytes) {
            if let Some(db) = db {
                db.check();
                edit::check(db);
            } else {
                assert_eq!(bytes, 0);
            }
        }
        assert_eq!(self.db_bytes.iter().sum::<u64>(), self.used_bytes);
    }

    /// Does background work and returns whether there is more.
    pub fn background_step(&mut self, steps: u32, shared: &Shared) -> bool {
        let mut more = false;
        if shared.memory.is_over()
            && self.used_bytes > shared.memory.max_bytes() / shared.shard_count as u64
        {
            more |= self.make_room(0, 0, shared);
        }
        for db in 0..DATABASES {
            let Some(data) = &mut self.dbs[db] else {
                continue;
            };
            if data.needs_drain() {
                let next = data.drain(self.drain_cursors[db], steps);
                self.drain_cursors[db] = next.unwrap_or(0);
                more |= next.is_some();
            }
            more |= data.compact(steps);
            self.account(db as u8, shared);
        }
        if let Some(object) = self.deferred_large.last_mut() {
            if !object.dismantle(steps) {
                self.deferred_large.pop();
                self.counters.dropped_objects += 1;
            }
            more |= !self.deferred_large.is_empty();
        }
        if let Some(db) = self.flushed.last_mut() {
            if !db.entries.dismantle(steps) {
                self.counters.dropped_objects += db.entries.len() as u64;
                self.flushed.pop();
            }
            more |= !self.flushed.is_empty();
        }
        more
    }
}

/// Reason for which an entry is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// A command deleted it; the command notifies the event.
    Deleted,
    /// A command accessed it after its deadline.
    ExpiredOnAccess,
    /// The expiry index returned it.
    ExpiredByIndex,
    /// The policy returned it.
    Evicted,
    /// The last element of its collection expired.
    Emptied(IndexState),
}

/// Returns the bytes of a database that count against the limit, with those that policies will
/// allocate for ghosts.
fn db_bytes(db: &Db) -> u64 {
    let (policies, index) = db.algorithm_bytes();
    let ahead = db.algorithm_bytes_ahead();
    db.entries.entry_bytes() + db.entries.table_bytes() + policies + ahead + index
}
