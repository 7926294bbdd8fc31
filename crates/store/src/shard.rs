//! The part of the keyspace under one lock: a part of every database, and the state of its keys.

use crate::classes::ShardClasses;
use crate::event::{Class, Event, EventQueue};
use crate::facts::Counters;
use crate::journal::{Journal, Lost, Removed};
use crate::leases::Leases;
use crate::lifetimes::Lifetimes;
use crate::memory::SLACK_BYTES;
use crate::object::{Object, has_deadlines};
use crate::saving::Saving;
use crate::shared::{DATABASES_MAX, Db, Shared};
use crate::tracking::{Discarded, InvalidationCause, Tracked};
use crate::waiting::{DbKey, WaitQueues};
use cache::Value;
use policy::{Budget, Due, ExpiryIndex, Facts, Slot, Tick};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod check;
mod classes;
mod edit;
mod invalidation;
mod leasing;
mod local;
mod removal;
mod room;
mod waste;

pub(crate) use edit::{EditedValue, file, is_dead};
use local::LocalKeys;
pub(crate) use removal::{IndexState, Removal, Room};
use waste::Waste;

/// Number of watched keys that a flush or a swap of databases looks up in a shard.
const WATCHED_LOOKUPS_MAX: u32 = 1024;
/// Maximum number of steps that one collection may take before other due entries are processed.
const PURGE_STEPS: u32 = 256;
/// Maximum number of withheld events of a shard. Further ones are not published.
const WITHHELD_MAX: usize = 1 << 20;
/// Number of writes between two calls of [`Locked::resize_policies`].
const RESIZE_INTERVAL_WRITES: u32 = 4096;
/// Reciprocal of the change of the shard's bytes after which [`Locked::resize_policies`] is called
/// immediately. While a small cache fills, its first estimates would otherwise stay until it is
/// full.
const RESIZE_CHANGE: u64 = 32;

#[derive(Default)]
pub(crate) struct Locked {
    /// Databases up to the highest number in which a key was stored.
    pub dbs: Vec<Option<Box<Db>>>,
    /// Keys that clients of a replica have written, by database. Empty unless there were some.
    local: Vec<LocalKeys>,
    /// Flags of the watched keys. A tree, because a hash table that grows delays a step of WATCH by
    /// milliseconds.
    pub watched: BTreeMap<DbKey, Vec<Arc<AtomicBool>>>,
    pub waiting: WaitQueues,
    /// Removals by expiry and eviction, while they are recorded.
    pub journal: Option<Box<Journal>>,
    /// Leases of keys, while there are some.
    pub leases: Option<Box<Leases>>,
    /// Keys that clients cache, while there are such clients.
    pub tracked: Option<Box<Tracked>>,
    /// Keys that are no longer tracked and must be freed in steps.
    pub discarded: Vec<Discarded>,
    pub events: EventQueue,
    /// Events that are withheld.
    pub withheld: Vec<Event>,
    pub counters: Counters,
    /// Classes of keys with their statistics, if there are some.
    pub classes: Option<Box<ShardClasses>>,
    /// TTLs and ages of keys.
    pub lifetimes: Lifetimes,
    /// Number of changes by commands.
    pub changes: u64,
    /// Number of bytes of deferred values and of flushed databases.
    pending_bytes: u64,
    /// Values to be dropped without the lock, a limited number at a time.
    pub deferred: Vec<Object>,
    /// Large byte arrays, which [`crate::Keyspace::take_large_blocks`] returns.
    pub large_blocks: Vec<Vec<u8>>,
    /// Values with many parts, to be freed in steps.
    pub deferred_large: Vec<Waste<Object>>,
    /// Snapshot in progress; `None` without one, or if it has all entries of this shard.
    pub saving: Option<Box<Saving>>,
    /// Flushed databases, to be freed in steps after a snapshot in progress has passed them.
    pub flushed: Vec<Waste<Box<Db>>>,
    /// Number of times that a database was flushed or swapped.
    pub flushes: u64,
    /// Number of bytes that the shard has contributed to the published sum.
    published_bytes: u64,
    /// Whether the shard has published that an arena is nearly full.
    is_full: bool,
    /// Number of bytes of each database when it was last counted.
    db_bytes: Vec<u64>,
    /// Number of bytes of each database that the shard has contributed to the database's sum, while
    /// there are such sums.
    published_db_bytes: Vec<u64>,
    /// Numbers of the policies that the databases have.
    pub applied: Vec<u64>,
    used_bytes: u64,
    writes: u32,
    /// Bytes of the shard when the capacity of its policies was last set.
    resized_at_bytes: u64,
    /// Positions at which draining a replaced policy continues, by database.
    drain_cursors: Vec<u32>,
    /// Number of the settings that the shard's policies follow. If it is not the keyspace's, a
    /// change may not have been applied to all databases yet.
    pub settings: u64,
    /// Instant since which entries with invalidated tags wait to be removed.
    pub stale_since: Option<Tick>,
    /// Instant of the last background work.
    last_seen: Tick,
    /// Buffer that is reused for values being changed.
    pub scratch: Vec<u8>,
    /// Key of the last edit of a collection, by database and hash, and the names of the elements
    /// that it changed. Only while events name elements.
    pub changed: Option<(u8, u64, Vec<Vec<u8>>)>,
    /// CAS number of the last write of an item.
    pub last_cas: u64,
}

impl Locked {
    pub fn db(&self, db: u8) -> Option<&Db> {
        self.dbs.get(db as usize)?.as_deref()
    }

    /// Makes room for the state of a database.
    #[inline]
    pub fn reach(&mut self, db: u8) {
        if db as usize >= self.dbs.len() {
            self.grow(db as usize + 1);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        debug_assert!(len <= DATABASES_MAX);
        self.dbs.resize_with(len, || None);
        self.db_bytes.resize(len, 0);
        self.published_db_bytes.resize(len, 0);
        self.applied.resize(len, 0);
        self.drain_cursors.resize(len, 0);
    }

    /// Returns whether invalidations of tracked keys are queued.
    #[inline]
    pub fn has_invalidated(&self) -> bool {
        self.tracked
            .as_deref()
            .is_some_and(|tracked| tracked.has_pending())
    }

    /// Fails the transactions that watch a changed key and invalidates it for clients that cache
    /// it. The key no longer counts as written by a client of a replica.
    #[inline]
    pub fn mark_changed(&mut self, db: u8, key: &[u8], cause: InvalidationCause) {
        if let Some(local) = self.local.get_mut(db as usize) {
            local.remove(key);
        }
        if let Some(tracked) = &mut self.tracked {
            tracked.invalidate(key, cause);
        }
        if !self.watched.is_empty()
            && let Some(flags) = self.watched.get(&(db, Box::from(key)))
        {
            for flag in flags {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Fails the transactions that watch a key of database `db` if the key exists in `db` or in
    /// `other`. The caller flushes or swaps the databases afterwards.
    ///
    /// After [`WATCHED_LOOKUPS_MAX`] look-ups the transactions fail without one, because many
    /// thousand would take long.
    pub fn mark_db_watchers(&mut self, db: u8, other: Option<u8>, shared: &Shared) {
        let is_empty = |db: u8| self.db(db).is_none_or(|db| db.entries.len() == 0);
        if is_empty(db) && other.is_none_or(is_empty) {
            return;
        }
        let of_db = self.watched.range::<DbKey, _>((db, Box::default())..);
        let mut lookups = 0;
        for ((_, bytes), flags) in of_db.take_while(|(name, _)| name.0 == db) {
            if flags.iter().all(|flag| flag.load(Ordering::Relaxed)) {
                continue;
            }
            lookups += 1;
            let hash = shared.key(db, bytes).hash;
            let is_held = |db: u8| self.db(db).is_some_and(|db| db.find(hash, bytes).is_some());
            let is_beyond = lookups > WATCHED_LOOKUPS_MAX;
            if is_beyond || is_held(db) || other.is_some_and(is_held) {
                for flag in flags {
                    flag.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Counts the bytes of a database after a write and publishes the shard's sum.
    #[inline]
    pub fn account(&mut self, db: u8, shared: &Shared) {
        let bytes = self.dbs[db as usize].as_ref().map_or(0, |d| db_bytes(d));
        let bytes = bytes + self.local_bytes(db as usize);
        let before = std::mem::replace(&mut self.db_bytes[db as usize], bytes);
        self.used_bytes = self.used_bytes + bytes - before;
        if shared.quotas.are_kept() {
            self.publish_db(
                db,
                shared.quotas.slack_bytes(db, shared.shard_count),
                shared,
            );
        }
        if self.used_bytes.abs_diff(self.published_bytes) > SLACK_BYTES {
            self.publish_bytes(shared);
            let is_full = self.dbs.iter().flatten().any(|d| d.entries.is_full());
            if is_full != std::mem::replace(&mut self.is_full, is_full) {
                shared.memory.publish_full(is_full);
            }
        }
        self.writes = self.writes.wrapping_add(1);
        let change = self.used_bytes.abs_diff(self.resized_at_bytes);
        if self.writes.is_multiple_of(RESIZE_INTERVAL_WRITES)
            || change > self.resized_at_bytes / RESIZE_CHANGE
        {
            self.resize_policies(shared);
        }
    }

    /// Adds the change of the shard's bytes to the published sum.
    pub fn publish_bytes(&mut self, shared: &Shared) {
        if self.used_bytes != self.published_bytes {
            shared.memory.publish(self.published_bytes, self.used_bytes);
            self.published_bytes = self.used_bytes;
        }
    }

    /// Compares the instant with the last one. If the clock went back, notifies all indexes and
    /// returns true.
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
            .filter_map(|d| {
                let soft = d.next_soft_end().map(|end| Tick(end.0 + 1));
                d.expiry().next_due().into_iter().chain(soft).min()
            })
            .min()
    }

    /// Removes an entry, with the event and the counter that its reason requires.
    pub fn remove_entry(&mut self, db: u8, slot: Slot, removal: Removal, shared: &Shared) {
        let is_stale = self.db(db).is_some_and(|data| data.is_stale(slot));
        // Readers of the record invalidate tags themselves. They do not end a time in which keys
        // were stale, though: they wait for the removal.
        let is_known = is_stale && self.db(db).is_some_and(|data| !data.has_only_ended(slot));
        let is_recorded = removal != Removal::Deleted && !is_known && self.journal.is_some();
        // Examined before a snapshot in progress takes the value, which makes it a lent one, too.
        let is_recorded = is_recorded && !self.is_lent(db, slot);
        self.preserve_whole(db, slot, shared);
        let is_published = shared.is_notifying() && removal != Removal::Deleted;
        let is_observed = self.is_observed() || !self.waiting.is_empty();
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        let key = (is_published || is_observed).then(|| data.entries.key(slot).to_vec());
        self.note_removal(db, slot, removal.gone(is_stale));
        let data = self.dbs[db as usize]
            .as_mut()
            .expect("the database holds the entry");
        let object = match removal {
            Removal::Deleted
            | Removal::Invalidated
            | Removal::ExpiredOnAccess
            | Removal::Emptied(IndexState::Indexed) => data.delete(slot),
            Removal::ExpiredByIndex | Removal::Emptied(IndexState::Removed) => {
                data.remove_expired(slot)
            }
            Removal::Evicted => data.remove_evicted(slot),
        };
        let now = data.entries.now().max(self.last_seen);
        let age = self.lifetimes.removed(data.entries.removed_hash(), db, now);
        self.defer_drop(object, shared);
        let (class, name) = self.count_removal(removal, is_stale, age);
        let Some(key) = key else { return };
        let cause = match removal {
            Removal::Deleted => InvalidationCause::Command,
            _ => InvalidationCause::Server,
        };
        self.mark_changed(db, &key, cause);
        if is_stale || removal == Removal::Deleted {
            self.revoke_lease(db, shared.key(db, &key).hash);
        }
        if removal != Removal::Deleted {
            // A client that reads a group of a stream gets an error.
            let number = || shared.next_event();
            self.waiting.mark_ready(db, &key, number);
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| is_recorded) {
            let lost = match removal {
                Removal::Evicted => Lost::Evicted,
                _ => Lost::Expired,
            };
            journal.push(Removed {
                db,
                key: key.clone(),
                lost,
            });
        }
        if is_published {
            self.push_event((db, class, name), key, Vec::new(), shared);
        }
    }

    /// Whether the name of a changed key is needed, apart from its event.
    pub fn is_observed(&self) -> bool {
        !self.watched.is_empty()
            || self.tracked.is_some()
            || self.journal.is_some()
            || self.leases.is_some()
            || !self.local.is_empty()
    }

    /// Whether the value of an entry was lent. The removal of such an entry is recorded when the
    /// value comes back: see [`crate::View::take_back`].
    fn is_lent(&self, db: u8, slot: Slot) -> bool {
        let value = self.db(db).map(|data| data.value(slot));
        matches!(value, Some(Value::Outside(Object::Lent(_))))
    }

    fn push_event(
        &mut self,
        (db, class, name): (u8, Class, &'static str),
        key: Vec<u8>,
        elements: Vec<Vec<u8>>,
        shared: &Shared,
    ) {
        let event = Event {
            db,
            class,
            name,
            key,
            elements,
        };
        match shared.withholds(&event.key) {
            true if self.withheld.len() < WITHHELD_MAX => self.withheld.push(event),
            true => {}
            false => self.events.push((shared.next_event(), event)),
        }
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
            let next = (0..self.dbs.len())
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
                    self.note_lateness(db as u8, slot, now);
                    self.remove_entry(db as u8, slot, Removal::ExpiredByIndex, shared);
                    self.account(db as u8, shared);
                }
                Due::Again => return true,
                // The index was due but returned nothing; it now requests a later run.
                Due::Nothing if due(&self.dbs[db]).is_some_and(|t| t <= now) => return false,
                Due::Nothing => {}
            }
        }
    }

    /// Swaps two databases with all state kept by their numbers.
    pub fn swap(&mut self, a: u8, b: u8, shared: &Shared) {
        if a == b {
            return;
        }
        self.mark_db_watchers(a, Some(b), shared);
        self.mark_db_watchers(b, Some(a), shared);
        let (i, j) = (a as usize, b as usize);
        self.flushes += 1;
        self.revoke_leases(a);
        self.revoke_leases(b);
        self.lifetimes.forget_all();
        self.reach(a.max(b));
        self.dbs.swap(i, j);
        self.db_bytes.swap(i, j);
        self.applied.swap(i, j);
        // A policy belongs to the number of a database.
        self.settings = u64::MAX;
        if shared.quotas.are_kept() {
            self.publish_db(a, 0, shared);
            self.publish_db(b, 0, shared);
        }
        self.drain_cursors.swap(i, j);
        self.recount_classes();
        if !self.local.is_empty() {
            let len = self.local.len().max(i.max(j) + 1);
            self.local.resize_with(len, LocalKeys::default);
            self.local.swap(i, j);
        }
        self.waiting.mark_all_ready([a, b], || shared.next_event());
    }

    /// Returns the bytes of all its databases.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Does up to `steps` steps of background work other than eviction and returns whether there is
    /// more.
    pub fn background_step(&mut self, steps: u32, shared: &Shared) -> bool {
        if self.discarded.pop_if(|last| !last.free(steps)).is_some() {
            self.discarded.shrink_to_fit();
        }
        let mut more = !self.discarded.is_empty();
        for db in 0..self.dbs.len() {
            let Some(data) = &mut self.dbs[db] else {
                continue;
            };
            if data.needs_drain() {
                more |= self.drain(db as u8, steps);
            }
            let Some(data) = &mut self.dbs[db] else {
                continue;
            };
            more |= data.compact(steps);
            more |= data.entries.shrink_table(steps);
            self.account(db as u8, shared);
        }
        more |= self.remove_ended_leases(self.last_seen, steps);
        more |= self.count_classes(steps);
        self.publish_bytes(shared);
        more | self.free_waste(steps, shared)
    }
}

/// Returns the number of bytes of a database that count against the limit. It includes the bytes
/// that the policies will still allocate for ghosts.
fn db_bytes(db: &Db) -> u64 {
    let (policies, index) = db.algorithm_bytes();
    let ahead = db.algorithm_bytes_ahead();
    let entries = db.entries.entry_bytes() + db.entries.table_bytes() + db.group_bytes();
    entries + policies + ahead + index
}
