//! One or more locked shards at one instant, on which commands operate.
//!
//! Every method with a key first removes the key or its elements if they have expired, or the key
//! if one of its tags was invalidated, so that commands never find expired keys.
//!
//! Commands from an append-only file or a primary run on a view whose *horizon* precedes its time:
//! they still find entries that have expired, because the same source deletes those by commands.
//!
//! The methods in this file work on keys of any type. The others are in `strings`, `collections`,
//! `items` (memcached), `tagging`, `fetching` (leases), `databases`, `events`, `waiting` (blocked
//! clients), `tracking` (clients that cache keys), `journal` (removals for replicas and files),
//! `lease` (long commands) and `prefetch`.

use crate::facts::{EntryFacts, Kind};
use crate::keyspace::Keyspace;
use crate::object::{Object, encoding_of, has_deadlines, kind_of};
use crate::shard::{EditedValue, IndexState, Locked, Removal, is_dead};
use crate::shared::{Db, Key};
use crate::soft::deadline_of;
use crate::tracking::InvalidationCause;
use cache::{NewValue, Value};
use policy::{Budget, Slot, Tick};
use std::sync::MutexGuard;

mod classes;
mod collections;
mod databases;
mod events;
mod fetching;
mod items;
mod journal;
mod lease;
mod prefetch;
mod protection;
mod room;
mod strings;
mod tagging;
mod tracking;
mod waiting;
mod watching;

pub use collections::{AnyCollection, Edited};
pub use fetching::Freshness;
pub use lease::{Extent, Lease};
pub use prefetch::Pages;
pub use tracking::Tracking;

/// Maximum number of steps that a command spends on the expired elements of one collection.
const PURGE_STEPS: u32 = 64;

/// Number of bytes that an entry's slot and tag take in the table, at its usual load.
const TABLE_PLACE_BYTES: usize = 9;
/// Number of bytes that an entry's reference takes in the expiry index.
const INDEX_PLACE_BYTES: usize = 5;

/// Deadline that a write gives to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewDeadline {
    /// Keeps the deadline.
    Keep,
    /// Removes the deadline.
    Clear,
    /// Sets this deadline.
    At(Tick),
}

/// Purpose of looking up an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Write,
}

pub(crate) enum Guards<'a> {
    One(usize, MutexGuard<'a, Locked>),
    Some(Vec<(usize, MutexGuard<'a, Locked>)>),
    All(Vec<MutexGuard<'a, Locked>>),
}

/// The two instants of a command. They are equal unless the command comes from a source that itself
/// deletes expired entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// Time at which the command runs. TTLs, ages and idle times are counted from it.
    pub now: Tick,
    /// Instant that decides what has expired: everything with an earlier deadline.
    pub horizon: Tick,
}

impl From<Tick> for Instants {
    fn from(now: Tick) -> Instants {
        Instants { now, horizon: now }
    }
}

/// One or more locked shards at one instant, on which a command operates.
pub struct View<'a> {
    pub(crate) space: &'a Keyspace,
    guards: Guards<'a>,
    /// Time at which commands run.
    now: Tick,
    /// Instant that decides what has expired.
    horizon: Tick,
    /// Whether a command has written a key on which clients are blocked.
    pub(crate) has_ready: bool,
    /// Whether another thread held one of the shards when they were locked.
    has_waited: bool,
    /// Whether a command has queued invalidations of tracked keys.
    has_invalidated: bool,
    /// Number of changes by commands through this view.
    changes: u64,
}

impl Keyspace {
    /// Locks one shard at the instant `now`.
    #[inline]
    pub fn lock_one(&self, shard: usize, now: Tick) -> View<'_> {
        let mut has_waited = false;
        let guard = self.guard_noting(shard, &mut has_waited);
        View::new(self, Guards::One(shard, guard), now, has_waited)
    }

    /// Locks one shard, or returns `None` if it is locked.
    pub fn try_lock_one(&self, shard: usize, now: Tick) -> Option<View<'_>> {
        let locked = self.try_guard(shard)?;
        Some(View::new(self, Guards::One(shard, locked), now, false))
    }

    /// Locks several shards. `shards` must be ascending and distinct.
    pub fn lock_many(&self, shards: &[usize], now: Tick) -> View<'_> {
        debug_assert!(shards.is_sorted_by(|a, b| a < b));
        let mut has_waited = false;
        let guards = shards
            .iter()
            .map(|&shard| (shard, self.guard_noting(shard, &mut has_waited)))
            .collect();
        View::new(self, Guards::Some(guards), now, has_waited)
    }

    /// Locks all shards.
    pub fn lock_all(&self, now: Tick) -> View<'_> {
        let mut has_waited = false;
        let guards = (0..self.shard_count())
            .map(|shard| self.guard_noting(shard, &mut has_waited))
            .collect();
        View::new(self, Guards::All(guards), now, has_waited)
    }
}

impl<'a> View<'a> {
    fn new(space: &'a Keyspace, guards: Guards<'a>, now: Tick, has_waited: bool) -> Self {
        View {
            space,
            guards,
            now,
            horizon: now,
            has_waited,
            has_ready: false,
            has_invalidated: false,
            changes: 0,
        }
    }

    /// Whether another thread held one of the shards when they were locked, so that the caller's
    /// instant may have passed.
    pub fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Returns the time at which commands run. TTLs, ages and idle times are counted from it.
    pub fn now(&self) -> Tick {
        self.now
    }

    /// Returns the instant that decides what has expired: everything with an earlier deadline. It
    /// is the time at which commands run, unless [`View::set_horizon`] has set another one.
    pub fn horizon(&self) -> Tick {
        self.horizon
    }

    /// Returns both instants.
    pub fn instants(&self) -> Instants {
        Instants {
            now: self.now,
            horizon: self.horizon,
        }
    }

    /// Sets another time under the same locks, which also becomes the horizon. An earlier time is
    /// for reading values as they were then, before some of their elements expired.
    pub fn set_now(&mut self, now: Tick) {
        (self.now, self.horizon) = (now, now);
    }

    /// Sets the horizon to an earlier instant, for commands that must still find entries that have
    /// expired since then.
    pub fn set_horizon(&mut self, horizon: Tick) {
        self.horizon = horizon;
    }

    #[inline]
    fn locked(&mut self, shard: usize) -> &mut Locked {
        match &mut self.guards {
            Guards::One(of, guard) => {
                assert_eq!(*of, shard, "the command's shard is locked");
                guard
            }
            Guards::Some(guards) => {
                let at = guards.binary_search_by_key(&shard, |g| g.0);
                &mut guards[at.expect("the command's shards are locked")].1
            }
            Guards::All(guards) => &mut guards[shard],
        }
    }

    pub(crate) fn all(&mut self) -> &mut [MutexGuard<'a, Locked>] {
        match &mut self.guards {
            Guards::All(guards) => guards,
            _ => panic!("a command on the whole keyspace locks all shards"),
        }
    }

    /// Passes each locked shard to `each`.
    fn each_locked(&mut self, mut each: impl FnMut(&mut Locked)) {
        match &mut self.guards {
            Guards::One(_, guard) => each(guard),
            Guards::Some(guards) => guards.iter_mut().for_each(|guard| each(&mut guard.1)),
            Guards::All(guards) => guards.iter_mut().for_each(|guard| each(guard)),
        }
    }

    #[inline]
    pub(crate) fn parts(&mut self, key: &Key<'_>) -> (&'a Keyspace, usize, &mut Locked) {
        let (space, shard) = (self.space, self.space.shard_of(key));
        (space, shard, self.locked(shard))
    }

    /// Returns the slot of a live key. Removes the key if it has expired.
    #[inline]
    fn live(&mut self, key: &Key<'_>) -> Option<Slot> {
        self.live_or_dead(key, Purpose::Write).ok()
    }

    /// Returns the slot of a live key. The error is true if the key had expired and was removed.
    #[inline]
    fn live_or_dead(&mut self, key: &Key<'_>, purpose: Purpose) -> Result<Slot, bool> {
        let horizon = self.horizon;
        let (_, _, locked) = self.parts(key);
        let db = locked
            .dbs
            .get_mut(key.db as usize)
            .and_then(Option::as_mut)
            .ok_or(false)?;
        let slot = db.find(key.hash, key.bytes).ok_or(false)?;
        let deadline = db.entries.shape(slot).deadline;
        if db.may_be_stale(slot) && self.removes_stale(key, slot, purpose) {
            return Err(false);
        }
        if deadline.is_some_and(|deadline| horizon > deadline) {
            return self.expire_due_entry(key, slot, purpose).ok_or(true);
        }
        Ok(slot)
    }

    /// Removes an entry with an invalidated tag, unless it is stale at present and not gone.
    /// Returns whether the key does not exist.
    #[cold]
    fn removes_stale(&mut self, key: &Key<'_>, slot: Slot, purpose: Purpose) -> bool {
        let horizon = self.horizon;
        let until = self.space.shared().removal_instant(horizon);
        let db = self.db(key);
        if db.end_soft_of(slot, until) {
            // The other keys of the tag are removed in the background.
            let (space, shard, locked) = self.parts(key);
            locked.stale_since.get_or_insert(horizon);
            space.publish_due(shard, locked);
        }
        let db = self.db(key);
        if !db.is_stale(slot) {
            let end = db.soft_until(slot);
            return purpose == Purpose::Read && end.is_some_and(|until| horizon > until);
        }
        let (space, _, locked) = self.parts(key);
        locked.remove_entry(key.db, slot, Removal::Invalidated, space.shared());
        locked.account(key.db, space.shared());
        true
    }

    /// Handles an entry whose indexed deadline has passed. Returns its slot if it is still present.
    #[cold]
    fn expire_due_entry(&mut self, key: &Key<'_>, slot: Slot, purpose: Purpose) -> Option<Slot> {
        let now = self.horizon;
        let (space, shard, locked) = self.parts(key);
        let shared = space.shared();
        let is_held = match purpose {
            Purpose::Read => shared.removal_instant(now) < now,
            // A client writes to a replica. A second entry of the key must not be added, so that
            // what has expired is removed first. Commands of the primary find it, see
            // [`View::set_horizon`].
            Purpose::Write => shared.is_frozen(),
        };
        if is_held {
            // Readers skip expired elements. A key without live ones does not exist for them. A
            // writer finds it, because a second entry must not be added.
            let is_hidden = purpose == Purpose::Read && is_dead(self.db(key), slot, now);
            return (!is_hidden).then_some(slot);
        }
        // Where removals are recorded, a command must not find an expired element that is left,
        // because where the record is read, it has no deadline yet.
        let mut budget = Budget(match locked.journal {
            Some(_) => u32::MAX,
            None => PURGE_STEPS,
        });
        let (kept, db) = (IndexState::Indexed, key.db);
        let slot = locked.expire_due(db, slot, kept, now, &mut budget, shared, &mut |_, _| {})?;
        space.publish_deadline(shard, db, locked);
        if let Some(next) = self.db(key).entries.shape(slot).deadline {
            self.note_local(key, next);
        }
        Some(slot)
    }

    /// Returns the database of a key in which a slot was found.
    #[inline]
    fn db(&mut self, key: &Key<'_>) -> &mut Db {
        self.parts(key).2.dbs[key.db as usize]
            .as_mut()
            .expect("the database holds the slot")
    }

    /// Takes the empty buffer of the key's shard, so that its capacity is reused. The caller puts
    /// it back.
    pub(crate) fn take_scratch(&mut self, key: &Key<'_>) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.parts(key).2.scratch);
        bytes.clear();
        bytes
    }

    /// Notifies the policy of a hit.
    fn hit(&mut self, key: &Key<'_>, slot: Slot) {
        let now = self.now;
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        db.hit(slot);
    }

    /// Looks up a key, counts a hit or a miss and notifies the policy of a hit. Returns the
    /// database and the slot of a live key.
    #[inline]
    fn look_up(&mut self, key: &Key<'_>) -> Option<(&mut Db, Slot)> {
        let (found, now) = (self.live_or_dead(key, Purpose::Read), self.now);
        if let Ok(slot) = found
            && self.parts(key).2.classes.is_some()
        {
            return Some(self.look_up_in_class(key, slot));
        }
        let locked = self.parts(key).2;
        match found {
            Ok(slot) => {
                locked.counters.hits += 1;
                let db = &mut locked.dbs[key.db as usize];
                let db = db.as_mut().expect("the database holds the slot");
                cache::Entries::begin(&mut db.entries, now);
                db.read(slot);
                Some((db, slot))
            }
            Err(was_dead) => {
                locked.counters.misses += 1;
                locked.counters.expiration_misses += u64::from(was_dead);
                if let Some(classes) = &mut locked.classes {
                    classes.missed(key.db, key.hash, key.bytes, was_dead);
                }
                None
            }
        }
    }

    /// Returns a live key's value without counting the access or notifying the policy.
    pub(crate) fn peek_value(&mut self, key: &Key<'_>) -> Option<Value<'_, Object>> {
        let slot = self.live_or_dead(key, Purpose::Read).ok()?;
        Some(self.db(key).value(slot))
    }

    /// Returns a live key's value. Counts a hit or a miss and notifies the policy.
    #[inline]
    pub(crate) fn get_value(&mut self, key: &Key<'_>) -> Option<Value<'_, Object>> {
        self.look_up(key).map(|(db, slot)| db.value(slot))
    }

    /// Returns the type of a live key's value without counting the access or notifying the policy.
    pub fn kind(&mut self, key: &Key<'_>) -> Option<Kind> {
        self.peek_value(key).map(|value| kind_of(&value))
    }

    /// Returns whether the key is present. Counts a hit or a miss and notifies the policy.
    pub fn touch(&mut self, key: &Key<'_>) -> bool {
        self.look_up(key).is_some()
    }

    /// Returns the key's own deadline: `None` without such a key, `Some(None)` without a deadline.
    /// Does not count the access or notify the policy.
    pub fn deadline(&mut self, key: &Key<'_>) -> Option<Option<Tick>> {
        let slot = self.live_or_dead(key, Purpose::Read).ok()?;
        Some(deadline_of(self.db(key), slot))
    }

    /// Returns facts about one entry.
    pub fn facts(&mut self, key: &Key<'_>) -> Option<EntryFacts> {
        let slot = self.live_or_dead(key, Purpose::Read).ok()?;
        let db = self.db(key);
        let deadline = deadline_of(db, slot);
        let mut bytes = db.entries.weight_of(slot) as usize + TABLE_PLACE_BYTES;
        if db.entries.shape(slot).deadline.is_some() {
            bytes += INDEX_PLACE_BYTES;
        }
        let value = db.value(slot);
        let (kind, encoding) = (kind_of(&value), encoding_of(&value));
        let (idle_ms, frequency) = db.usage(slot);
        Some(EntryFacts {
            kind,
            encoding,
            bytes,
            idle_ms,
            frequency,
            deadline,
        })
    }

    /// Completes a write of a value, which ends the key's lease.
    #[inline]
    fn written(&mut self, key: &Key<'_>, deadline: Option<Tick>) {
        self.parts(key).2.revoke_lease(key.db, key.hash);
        self.changed(key, deadline);
    }

    /// Completes a change of a key: fails watching transactions, counts the memory, publishes the
    /// next expiry and marks the key for blocked clients.
    #[inline]
    fn changed(&mut self, key: &Key<'_>, deadline: Option<Tick>) {
        let (space, shard, locked) = self.parts(key);
        locked.mark_changed(key.db, key.bytes, InvalidationCause::Command);
        locked.account(key.db, space.shared());
        if let Some(deadline) = deadline {
            space.publish_deadline(shard, key.db, locked);
            self.note_local(key, deadline);
        }
        self.mark_ready(key);
    }

    /// Records a key that has a deadline, if a client of a replica has written it, because the
    /// primary will not remove it. Commands and snapshots of the primary have a horizon within the
    /// limit of removal.
    #[inline]
    fn note_local(&mut self, key: &Key<'_>, deadline: Tick) {
        if self.space.shared().is_beyond_limit(self.horizon) {
            let (space, shard, locked) = self.parts(key);
            locked.insert_local(key.db, key.bytes, deadline, space.shared());
            space.publish_local(shard, locked);
        }
    }

    /// Counts the change of a key that was written or removed, marks the key for clients blocked on
    /// it, and queues invalidations for clients that track it.
    #[inline]
    pub(crate) fn mark_ready(&mut self, key: &Key<'_>) {
        let (space, _, locked) = self.parts(key);
        let has_invalidated = locked.has_invalidated();
        locked.changes += 1;
        if !locked.waiting.is_empty() {
            let number = || space.shared().next_event();
            locked.waiting.mark_ready(key.db, key.bytes, number);
            // Others may have expired or been evicted before.
            self.has_ready |= locked.waiting.has_ready();
        }
        self.has_invalidated |= has_invalidated;
        self.changes += 1;
    }

    /// Deletes a live key. Returns whether there was one.
    pub fn delete(&mut self, key: &Key<'_>) -> bool {
        self.remove_live(key, Removal::Deleted)
    }

    /// Removes a live key whose new deadline has already passed. It counts as expired and is
    /// published as such. Returns whether there was one.
    pub fn expire_now(&mut self, key: &Key<'_>) -> bool {
        self.remove_live(key, Removal::ExpiredOnAccess)
    }

    fn remove_live(&mut self, key: &Key<'_>, removal: Removal) -> bool {
        self.revoke_lease(key);
        let Some(slot) = self.live(key) else {
            return false;
        };
        let (space, _, locked) = self.parts(key);
        locked.remove_entry(key.db, slot, removal, space.shared());
        locked.account(key.db, space.shared());
        self.mark_ready(key);
        true
    }

    /// Sets or removes the deadline of a live key. Returns whether there is one. For a deadline
    /// that has passed, use [`View::expire_now`].
    pub fn set_deadline(&mut self, key: &Key<'_>, deadline: Option<Tick>) -> bool {
        let Some(slot) = self.live(key) else {
            return false;
        };
        let deadline = self.ruled_change(key, deadline);
        let deadline = deadline.map(|deadline| deadline.min(Tick::MAX));
        let (_, deadline) = self.place_deadline(key, slot, deadline);
        self.changed(key, deadline);
        true
    }

    /// Sets or removes the deadline of an entry. Returns its slot and the deadline for the expiry
    /// index.
    fn place_deadline(
        &mut self,
        key: &Key<'_>,
        mut slot: Slot,
        mut deadline: Option<Tick>,
    ) -> (Slot, Option<Tick>) {
        let now = self.now;
        let (space, _, locked) = self.parts(key);
        locked.preserve(key.db, slot, space.shared());
        if let Some(deadline) = deadline {
            locked.note_ttl(key, deadline, now);
        }
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        if has_deadlines(&db.value(slot)) {
            let (space, _, locked) = self.parts(key);
            let (at, indexed) = ((key.db, slot), IndexState::Indexed);
            let work = |_: &mut Object| Some(());
            let worked = locked.edit_value(at, indexed, deadline, now, space.shared(), work);
            if let Some(((), EditedValue::Stored(at, filed))) = worked {
                (slot, deadline) = (at, filed);
            }
        } else {
            slot = db.change(slot, NewValue::Same, deadline).0;
        }
        self.parts(key).2.note_change(key, false);
        (slot, deadline)
    }
}
