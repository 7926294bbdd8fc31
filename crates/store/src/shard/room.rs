//! Room for writes: eviction from a shard's databases, and the bytes on which it depends.

use super::{Locked, Removal, Room};
use crate::shared::Shared;
use cache::Scope;
use policy::{Budget, Eviction};

/// Number of steps of eviction that any write may take. A step evicts or examines one entry.
const EVICT_STEPS: u32 = 128;
/// Number of written bytes that allow a write one more step of eviction. The smallest entries have
/// this size, so a large value can evict as many bytes as it needs.
const BYTES_PER_STEP: usize = 32;
/// Maximum number of steps per write, a few milliseconds. Background work does the rest.
const EVICT_STEPS_MAX: u32 = 1 << 15;
/// Number of steps that a write frees of values that wait for it, while they and the memory in use
/// exceed the limit. A step frees at least the hundred bytes that a small write adds.
const FREE_STEPS: u32 = 16;
/// Number of entries moved to a new policy before eviction is tried again.
const DRAIN_STEPS: u32 = 32;

impl Locked {
    /// Evicts until the memory has room for an entry that will be added, first from database
    /// `first`. Returns false if the memory is over its limit afterwards and this shard has nothing
    /// more to evict.
    ///
    /// If the policy has changed, entries that do not belong to it yet are moved to it first, so
    /// that a keyspace that is full when eviction is turned on refuses no write.
    pub fn make_room(&mut self, first: u8, room: Room, shared: &Shared) -> bool {
        let more = u32::try_from(room.written_bytes / BYTES_PER_STEP).unwrap_or(u32::MAX);
        if shared.memory.must_free(room.needed_bytes) {
            self.free_waste(FREE_STEPS.saturating_add(more).min(EVICT_STEPS_MAX), shared);
        }
        let mut budget = Budget(EVICT_STEPS.saturating_add(more).min(EVICT_STEPS_MAX));
        let lacks = || shared.quotas.lacks(first, room.needed_bytes as u64);
        if lacks() {
            self.evict_from(first, &lacks, &mut budget, shared);
        }
        let has_room =
            !shared.memory.lacks(room.needed_bytes) || self.evict(first, room, budget, shared);
        // Small values, above all those of victims, are freed at once then, because the next write
        // to this shard may be far.
        if !self.deferred.is_empty() && shared.memory.must_free(room.needed_bytes) {
            drop(self.take_deferred(shared));
        }
        has_room
    }

    /// Makes room in a database that has a limit of its own. Returns false if writes to it must be
    /// refused: it is over its limit and no entry of it in this shard can be evicted.
    pub fn make_room_in(&mut self, db: u8, shared: &Shared) -> bool {
        if (db as usize) < self.db_bytes.len() {
            self.publish_db(db, 0, shared);
        }
        let lacks = || shared.quotas.lacks(db, 0);
        if !lacks() || self.evict_from(db, &lacks, &mut Budget(EVICT_STEPS), shared) {
            return true;
        }
        // A policy that is not applied yet may evict.
        let policies = shared.policies();
        let (number, policy) = policies.of(db);
        let is_pending = self.applied.get(usize::from(db)) != Some(number);
        policy.spec.is_some() && self.db(db).is_some() && is_pending
    }

    /// Evicts entries until there is room or the budget is spent. Returns false if no entry can be
    /// evicted and the limit is exceeded.
    fn evict(&mut self, first: u8, room: Room, mut budget: Budget, shared: &Shared) -> bool {
        let others = 0..self.dbs.len() as u8;
        let lacks = || shared.memory.lacks(room.needed_bytes);
        for db in std::iter::once(first).chain(others) {
            if !shared.quotas.spares(db) && self.evict_from(db, &lacks, &mut budget, shared) {
                return true;
            }
        }
        // A database at or below its minimum makes room for its own writes only.
        if shared.quotas.spares(first) && self.evict_from(first, &lacks, &mut budget, shared) {
            return true;
        }
        !shared.memory.is_over() || self.settings != shared.settings_number()
    }

    /// Evicts entries of a database while `lacks` returns true, at most until the budget is spent.
    /// Returns false if it has nothing more to evict.
    fn evict_from(
        &mut self,
        db: u8,
        lacks: &impl Fn() -> bool,
        budget: &mut Budget,
        shared: &Shared,
    ) -> bool {
        while let Some(Some(data)) = self.dbs.get_mut(db as usize) {
            match data.evict(budget) {
                Eviction::Victim(slot) => match data.retain_if_out_of_scope(slot) {
                    // A victim that is kept costs a step, too, so that the loop ends.
                    Some(slot) => {
                        self.note_change_at(db, slot);
                        budget.0 = budget.0.saturating_sub(1);
                    }
                    None => {
                        self.remove_entry(db, slot, Removal::Evicted, shared);
                        self.account(db, shared);
                    }
                },
                Eviction::Again => return true,
                Eviction::Empty if data.needs_drain() && data.policy().1 != Scope::Nothing => {
                    let steps = budget.0.min(DRAIN_STEPS);
                    budget.0 -= steps;
                    self.drain(db, steps);
                }
                Eviction::Empty => return false,
            }
            if !lacks() || budget.0 == 0 {
                return true;
            }
        }
        false
    }

    /// Moves up to `steps` entries of a database from a replaced policy to the current one. Returns
    /// whether there are more.
    pub(super) fn drain(&mut self, db: u8, steps: u32) -> bool {
        let Some(data) = &mut self.dbs[db as usize] else {
            return false;
        };
        let cursor = self.drain_cursors[db as usize];
        let next = match &mut self.classes {
            None => data.drain(cursor, steps),
            Some(classes) => classes.drain(db, data, cursor, steps),
        };
        self.drain_cursors[db as usize] = next.unwrap_or(0);
        next.is_some()
    }

    /// Returns the scope of the policy of its first database; `None` without databases.
    pub fn scope(&self) -> Option<Scope> {
        let mut dbs = self.dbs.iter().flatten();
        dbs.next().map(|db| db.policy().1)
    }

    /// Returns approximately how many bytes eviction can free in all its databases; 0 if it cannot
    /// free any. Under a policy for all keys, these are the bytes of the databases; under a policy
    /// for volatile keys, the bytes of those keys.
    pub fn evictable_bytes(&self, shared: &Shared) -> u64 {
        let dbs = self.dbs.iter().zip(&self.db_bytes).enumerate();
        let dbs = dbs.filter(|(number, _)| !shared.quotas.spares(*number as u8));
        dbs.flat_map(|(_, (db, bytes))| db.as_ref().map(|db| db.evictable_bytes(*bytes)))
            .sum()
    }

    /// Adds the change of a database's bytes to the published sum if it exceeds `slack_bytes`.
    pub(super) fn publish_db(&mut self, db: u8, slack_bytes: u64, shared: &Shared) {
        let bytes = self.db_bytes[db as usize];
        let published = &mut self.published_db_bytes[db as usize];
        if bytes.abs_diff(*published) > slack_bytes {
            shared.quotas.publish(db, *published, bytes);
            *published = bytes;
        }
    }

    /// Returns the bytes of a database.
    pub fn db_bytes(&self, db: u8) -> u64 {
        self.db_bytes.get(usize::from(db)).copied().unwrap_or(0)
    }

    /// Returns the bytes of a database, which count as published from now on.
    pub fn take_db_bytes(&mut self, db: u8) -> u64 {
        let Some(bytes) = self.db_bytes.get(usize::from(db)) else {
            return 0;
        };
        self.published_db_bytes[usize::from(db)] = *bytes;
        *bytes
    }

    /// Sets the capacity of each policy to the bytes that its entries will have when memory is
    /// full, if all parts grow in proportion: entries, tables, indexes and ghosts of all shards,
    /// and the bytes that the host uses outside of them, which count towards the limit, too. An
    /// equal share for each shard would be wrong: shards differ in size and take memory from each
    /// other.
    pub fn resize_policies(&mut self, shared: &Shared) {
        self.resized_at_bytes = self.used_bytes;
        let max = shared.memory.max_bytes();
        if self.used_bytes == 0 {
            return;
        }
        let inside = shared.memory.share_bytes(1);
        let used = shared.memory.used_bytes().max(self.used_bytes);
        for (number, db) in self.dbs.iter_mut().enumerate() {
            let Some(db) = db else { continue };
            let bytes = db.entries.entry_bytes();
            let part = u128::from(inside) * u128::from(bytes) / u128::from(used);
            let of_all = (max > 0).then_some(part as u64);
            let own = shared.quotas.capacity(number as u8, bytes);
            if let Some(capacity) = of_all.into_iter().chain(own).min() {
                db.resize(capacity.max(1));
            }
        }
    }
}
