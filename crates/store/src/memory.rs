//! Accounting of the memory that all shards use together, and its limit.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The shards' memory as published by them, in total, and the limit.
///
/// A shard publishes its change when that exceeds [`SLACK_BYTES`], so that workers do not write to
/// one cache line with every command. The sum is off by at most that amount times the number of
/// shards.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    used_bytes: AtomicU64,
    /// Bytes that the host uses outside the shards and counts against the limit.
    outside_bytes: AtomicU64,
    /// Bytes of values that entries no longer hold and that wait to be freed.
    pending_bytes: AtomicU64,
    /// Bytes outside of the shards to which the host returns without help; 0 means that there is no
    /// such number.
    outside_bytes_max: AtomicU64,
    /// Whether the policy evicts entries.
    evicts: AtomicBool,
    /// Maximum number of bytes; 0 means no limit.
    max_bytes: AtomicU64,
    /// Maximum number of bytes of a value in an annex, which has no other limit; 0 means none.
    value_bytes_max: u64,
    /// Number of shards in which the arena of a database has nearly used up its slot numbers. That
    /// arena has 28 GiB of pages or more.
    full_shards: AtomicUsize,
}

/// Largest change in bytes that a shard may keep unpublished.
pub(crate) const SLACK_BYTES: u64 = 2048;

/// Divisor of the limit that gives the maximum number of bytes outside of the shards for which
/// entries are evicted, if the host does not return to a number of bytes without help.
const OUTSIDE_PART: u64 = 4;

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
    /// Returns the bytes that the host uses outside the shards.
    pub fn outside_bytes(&self) -> u64 {
        self.outside_bytes.load(Ordering::Relaxed)
    }
    /// Adds a change to the bytes that the host uses outside the shards.
    pub fn add_outside_bytes(&self, change: i64) {
        // The addition wraps, so that a negative change is subtracted.
        self.outside_bytes
            .fetch_add(change as u64, Ordering::Relaxed);
    }
    /// Sets the bytes outside of the shards to which the host returns without help; 0 means that
    /// there is no such number.
    pub fn set_outside_bytes_max(&self, bytes: u64) {
        // All threads call this often; a store would take the cache line from the others.
        if self.outside_bytes_max.load(Ordering::Relaxed) != bytes {
            self.outside_bytes_max.store(bytes, Ordering::Relaxed);
        }
    }
    /// Sets whether the policy evicts entries.
    pub fn set_evicts(&self, evicts: bool) {
        self.evicts.store(evicts, Ordering::Relaxed);
    }
    /// Returns the number of bytes outside of the shards for which entries may be evicted.
    fn outside_part(&self) -> u64 {
        match self.outside_bytes_max.load(Ordering::Relaxed) {
            0 => self.max_bytes() / OUTSIDE_PART,
            most => most,
        }
    }
    /// Returns the bytes outside the shards that count against the limit.
    fn counted_outside_bytes(&self) -> u64 {
        self.counted_of(self.outside_bytes())
    }
    /// Returns how many of these bytes outside of the shards count towards the limit. If the policy
    /// evicts, a part of the limit bounds them, so that a single large request does not evict all
    /// entries. Otherwise all of them count, because they only cause writes to be refused.
    fn counted_of(&self, outside_bytes: u64) -> u64 {
        let is_bounded = self.evicts.load(Ordering::Relaxed)
            || self.outside_bytes_max.load(Ordering::Relaxed) > 0;
        match is_bounded {
            true => outside_bytes.min(self.outside_part()),
            false => outside_bytes,
        }
    }
    /// Returns whether the host must not use more bytes outside the shards: all bytes together are
    /// over the limit, and the bytes outside exceed their part.
    pub fn is_outside_full(&self) -> bool {
        let (max, outside) = (self.max_bytes(), self.outside_bytes());
        max > 0 && outside > self.outside_part() && self.used_bytes().saturating_add(outside) > max
    }
    /// Returns the account of a keyspace that has no limit, and that holds values of this one for a
    /// while. A value there may have as many bytes as this account's limit.
    pub fn annex(&self) -> Memory {
        Memory {
            value_bytes_max: match self.max_bytes() {
                0 => self.value_bytes_max,
                max => max,
            },
            ..Memory::default()
        }
    }
    /// Returns the largest number of bytes that can be stored if all entries are evicted; `None`
    /// without a limit. `given_bytes` of the bytes outside of the shards are the value to be
    /// stored; they do not count, because they are freed once it is stored.
    pub fn value_bytes_max(&self, given_bytes: u64) -> Option<u64> {
        let outside = self.outside_bytes().saturating_sub(given_bytes);
        match self.max_bytes() {
            0 => Some(self.value_bytes_max).filter(|max| *max > 0),
            max => Some(max.saturating_sub(self.counted_of(outside))),
        }
    }
    /// Returns the part of the limit that each of `shard_count` shards may use: the counted bytes
    /// outside the shards are subtracted. If the memory is over its limit, a shard uses more than
    /// this part.
    pub fn share_bytes(&self, shard_count: usize) -> u64 {
        let max = self.max_bytes();
        max.saturating_sub(self.counted_outside_bytes()) / shard_count as u64
    }
    /// Returns the bytes of values waiting to be freed.
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Relaxed)
    }
    /// Adds a value waiting to be freed.
    pub fn add_pending(&self, bytes: u64) {
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    /// Removes a value that was freed.
    pub fn subtract_pending(&self, bytes: u64) {
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
    /// Publishes that a shard's memory changed from `old` to `new`.
    pub fn publish(&self, old: u64, new: u64) {
        // The addition wraps because shards may publish in an order in which the sum is temporarily
        // negative.
        self.used_bytes
            .fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
    }
    /// Publishes whether an arena of a shard has nearly used up its slot numbers.
    pub fn publish_full(&self, is_full: bool) {
        let order = Ordering::Relaxed;
        match is_full {
            true => self.full_shards.fetch_add(1, order),
            false => self.full_shards.fetch_sub(1, order),
        };
    }
    /// Returns whether writes must be refused because of a full arena, even if the memory is below
    /// its limit.
    #[inline]
    pub fn has_full_shard(&self) -> bool {
        self.full_shards.load(Ordering::Relaxed) > 0
    }
    #[inline]
    pub fn is_over(&self) -> bool {
        self.lacks(0)
    }
    /// Returns whether memory would exceed its limit with this many more bytes. Values waiting to
    /// be freed do not count, because evicting would not make room for them.
    #[inline]
    pub fn lacks(&self, bytes: usize) -> bool {
        self.exceeds(bytes as u64)
    }
    /// Returns whether the memory in use, together with values waiting to be freed, exceeds the
    /// limit. If so, writes must free some of these values.
    #[inline]
    pub fn must_free(&self, bytes: usize) -> bool {
        let pending = self.pending_bytes();
        pending > 0 && self.exceeds(pending.saturating_add(bytes as u64))
    }
    #[inline]
    fn exceeds(&self, more: u64) -> bool {
        let max = self.max_bytes();
        let used = self
            .used_bytes()
            .saturating_add(self.counted_outside_bytes());
        max > 0 && used.saturating_add(more) > max
    }
}
