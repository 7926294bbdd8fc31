//! Which shards background work evicts from while the memory is over its limit.
//!
//! A write evicts only from its own shard. Memory can therefore exceed its limit when the last
//! writes were to shards without anything to evict, when the limit was lowered, or when the host
//! uses more bytes outside of the shards. In these cases, background work evicts. Only bytes that
//! can be evicted count: under a policy for volatile keys, a large value without a deadline is no
//! reason to evict the other keys of its shard. The shards with more evictable bytes than their
//! share of the limit yield first. If there are none, those with at least the mean of all shards
//! yield.
//!
//! After background work, each shard publishes how much it has to yield, so that no shard waits for
//! one that has nothing, and a worker can decide without locks whether to continue.

use super::{Cell, Keyspace};
use crate::shard::{Locked, Room};
use std::sync::atomic::Ordering;

impl Keyspace {
    /// Returns whether background work on one of these shards would evict: the memory exceeds its
    /// limit, and the shard is one of those that yield. Takes no lock; the state of a shard is as
    /// of the last background work on it.
    pub fn must_evict(&self, shards: &[usize]) -> bool {
        if !self.lacks_memory() {
            return false;
        }
        let least = self.yielding_bytes_min();
        let evictable = |&shard: &usize| self.cells[shard].evictable_bytes.load(Ordering::Relaxed);
        let mut evictable = shards.iter().map(evictable);
        evictable.any(|bytes| bytes >= least)
    }

    /// Evicts some entries of a shard if the shard should yield. Returns whether it may have more
    /// to evict.
    pub(super) fn evict_in_background(&self, shard: usize, locked: &mut Locked) -> bool {
        let shared = self.shared();
        // So that the sum is exact as far as this shard is concerned.
        locked.publish_bytes(shared);
        self.publish_evictable(shard, locked);
        let yields =
            self.lacks_memory() && locked.evictable_bytes(shared) >= self.yielding_bytes_min();
        let evicts = yields && locked.make_room(0, Room::default(), shared);
        let evicts_own = self.evict_from_full(locked);
        self.publish_evictable(shard, locked);
        if yields && !evicts {
            self.cells[shard]
                .evictable_bytes
                .store(0, Ordering::Relaxed);
        }
        evicts || evicts_own
    }

    /// Evicts some entries from databases over their own limits. Returns whether there may be more
    /// to evict.
    fn evict_from_full(&self, locked: &mut Locked) -> bool {
        let shared = self.shared();
        if !shared.quotas.are_kept() || self.is_frozen() {
            return false;
        }
        let full = (0..self.databases()).map(|db| db as u8);
        let full = full.filter(|db| shared.quotas.lacks(*db, 0));
        // Shards with less than the mean do not yield, so that not the first ones lose everything.
        let shards = self.cells.len() as u64;
        let yields = |db: &u8| locked.db_bytes(*db) * shards >= shared.quotas.used_bytes(*db);
        let yielding: Vec<u8> = full.filter(yields).collect();
        let mut more = false;
        for db in yielding {
            more |= locked.make_room_in(db, shared);
        }
        more
    }

    /// Publishes how many bytes can be evicted from a shard.
    pub(crate) fn publish_evictable(&self, shard: usize, locked: &Locked) {
        let bytes = locked.evictable_bytes(self.shared());
        let cell = &self.cells[shard];
        cell.evictable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether the memory is over its limit and may be evicted.
    fn lacks_memory(&self) -> bool {
        self.shared.memory.is_over() && !self.is_frozen()
    }

    /// Returns the minimum number of evictable bytes in the shards that yield: more than a share of
    /// the limit if any shard has that, and otherwise the mean, so that one of them always yields
    /// if anything can be evicted.
    fn yielding_bytes_min(&self) -> u64 {
        let share = self.shared.memory.share_bytes(self.cells.len());
        let evictable = |cell: &Cell| cell.evictable_bytes.load(Ordering::Relaxed);
        let bytes = self.cells.iter().map(evictable);
        let (sum, most) = bytes.fold((0, 0), |(sum, most), one| (sum + one, most.max(one)));
        if most > share {
            return share + 1;
        }
        (sum / self.cells.len() as u64).max(1)
    }
}
