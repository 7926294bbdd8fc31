//! Which shards background work evicts from while the memory is over its limit.
//!
//! A write evicts from its own shard only. So the memory can be over its limit when the last writes
//! were to shards without anything to evict, when the limit was lowered, or when the host uses more
//! bytes outside the shards. Then background work evicts. The sum is over the limit only if a shard
//! uses more than its share, so the shards over their share yield first. If none of them has
//! anything that can be evicted, the others yield.
//!
//! Each shard publishes after background work what it has to yield, so that no shard waits for
//! another one that has nothing, and a worker knows without locks whether it has to continue.

use super::{Cell, Keyspace};
use crate::shard::{Locked, Room};
use std::sync::atomic::Ordering;

impl Keyspace {
    /// Returns whether background work on one of these shards would evict: the memory is over its
    /// limit, and the shard is over its share or no shard over its share can evict anything. Takes
    /// no lock; the state of a shard is that after the last background work on it.
    pub fn must_evict(&self, shards: &[usize]) -> bool {
        if !self.lacks_memory() {
            return false;
        }
        let is_any_over = self.is_any_over_share();
        let evictable = |&shard: &usize| self.cells[shard].evictable_bytes.load(Ordering::Relaxed);
        let mut evictable = shards.iter().map(evictable);
        evictable.any(|bytes| self.yields(bytes, is_any_over))
    }

    /// Evicts some entries of a shard if it is the one to yield. Returns whether it may have more
    /// to evict.
    pub(super) fn evict_in_background(&self, shard: usize, locked: &mut Locked) -> bool {
        let shared = self.shared();
        // So that the sum is exact as far as this shard is concerned.
        locked.publish_bytes(shared);
        let yields =
            self.lacks_memory() && self.yields(locked.evictable_bytes(), self.is_any_over_share());
        let evicts = yields && locked.make_room(0, Room::default(), shared);
        self.publish_evictable(shard, locked);
        if yields && !evicts {
            self.cells[shard]
                .evictable_bytes
                .store(0, Ordering::Relaxed);
        }
        evicts
    }

    /// Publishes how many bytes a shard uses if something in it can be evicted.
    pub(super) fn publish_evictable(&self, shard: usize, locked: &Locked) {
        let bytes = locked.evictable_bytes();
        let cell = &self.cells[shard];
        cell.evictable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether the memory is over its limit and may be evicted. What the host holds beyond its own
    /// limit for a moment is no reason to evict.
    fn lacks_memory(&self) -> bool {
        self.shared.memory.is_over_at_rest() && !self.is_frozen()
    }

    /// Whether a shard over its share of the limit can evict something.
    fn is_any_over_share(&self) -> bool {
        let share = self.shared.memory.share_bytes(self.cells.len());
        let evictable = |cell: &Cell| cell.evictable_bytes.load(Ordering::Relaxed);
        self.cells.iter().any(|cell| evictable(cell) > share)
    }

    /// Whether a shard with this number of evictable bytes evicts while the memory is over its
    /// limit.
    fn yields(&self, evictable_bytes: u64, is_any_over_share: bool) -> bool {
        let share = self.shared.memory.share_bytes(self.cells.len());
        evictable_bytes > share || evictable_bytes > 0 && !is_any_over_share
    }
}
