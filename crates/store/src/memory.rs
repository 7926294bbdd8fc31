//! How much memory all shards use together, and how much they may.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The sum over all shards, as far as they have published it, and the bound.
///
/// A shard publishes what it gained or lost when that exceeds [`SLACK_BYTES`], so that workers do
/// not write to one cache line with every command; the sum is off by at most that times the shards.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    used_bytes: AtomicU64,
    /// 0: no bound.
    max_bytes: AtomicU64,
    /// Shards whose slots are about to run out (28 GiB of small entries in one database's part).
    full_shards: AtomicUsize,
}

/// What a shard may keep to itself.
pub(crate) const SLACK_BYTES: u64 = 2048;

impl Memory {
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }
    pub fn set_max_bytes(&self, bytes: u64) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
    }
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
    /// A shard's use went from `old` to `new`.
    pub fn publish(&self, old: u64, new: u64) {
        // Wrapping: the order in which shards publish may pass through values below zero.
        self.used_bytes
            .fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
    }
    /// A shard's slots are about to run out, or no longer.
    pub fn publish_full(&self, is_full: bool) {
        let order = Ordering::Relaxed;
        match is_full {
            true => self.full_shards.fetch_add(1, order),
            false => self.full_shards.fetch_sub(1, order),
        };
    }
    /// Whether writes must be refused although memory is not over its bound.
    #[inline]
    pub fn has_full_shard(&self) -> bool {
        self.full_shards.load(Ordering::Relaxed) > 0
    }
    #[inline]
    pub fn is_over(&self) -> bool {
        let max = self.max_bytes();
        max > 0 && self.used_bytes() > max
    }
}
