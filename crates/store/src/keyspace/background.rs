//! Expiry and background work on one shard at a time.

use super::Keyspace;
use crate::event::Event;
use crate::facts::Expired;
use crate::shard::Locked;
use policy::{Budget, Tick};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};

/// Number of calls of background work in a row that may find a shard locked, before further calls
/// try several times.
const MISSES_MAX: u32 = 8;
/// Number of attempts of such a call to lock the shard.
const PATIENT_TRIES: u32 = 1000;

impl Keyspace {
    /// Locks a shard for background work, or returns `None` if it is locked. After several
    /// unsuccessful calls in a row, further calls try several times, about 50 µs in total. A shard
    /// that is always locked for short times is therefore served too, and one that is locked for
    /// long delays no caller.
    pub(crate) fn background_guard(&self, shard: usize) -> Option<MutexGuard<'_, Locked>> {
        let cell = &self.cells[shard];
        let tries = match cell.missed.load(Ordering::Relaxed) {
            0..MISSES_MAX => 1,
            _ => PATIENT_TRIES,
        };
        for _ in 0..tries {
            match cell.locked.try_lock() {
                Ok(guard) => {
                    cell.missed.store(0, Ordering::Relaxed);
                    return Some(guard);
                }
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if tries > 1 => std::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        cell.missed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Removes expired keys and elements of one shard in the order of their deadlines, and then
    /// keys with invalidated tags.
    ///
    /// The work is limited to about `steps` steps. A step is an entry or element examined or
    /// removed, or an empty bucket of the index skipped. Each deadline is passed to `report`, with
    /// the number of keys and elements that had it.
    ///
    /// Does nothing if the shard is locked, which [`Expired::is_locked`] reports. The caller tries
    /// again later.
    pub fn expire(
        &self,
        shard: usize,
        now: Tick,
        steps: u32,
        events: &mut Vec<Event>,
        report: &mut dyn FnMut(Tick, u32),
    ) -> Expired {
        if !self.expires_actively() {
            return Expired {
                next_due: self.next_due(shard),
                ..Expired::default()
            };
        }
        let mut expired = Expired::default();
        let Some(mut locked) = self.background_guard(shard) else {
            expired.is_locked = true;
            return expired;
        };
        let used_before = locked.used_bytes();
        let mut budget = Budget(steps);
        locked.observe_clock(now);
        let until = self.removal_instant(now);
        let keys_before = locked.counters.expired_keys;
        let mut count = |deadline, count| {
            expired.count += count;
            report(deadline, count);
        };
        expired.more = locked.expire(until, &mut budget, &self.shared, &mut count);
        if self.cells[shard].next_local.load(Ordering::Relaxed) < now.0 {
            expired.more |= locked.expire_local(now, &mut budget, &self.shared, &mut count);
            self.publish_local(shard, &locked);
        }
        expired.more |= locked.remove_invalidated(until, &mut budget, &self.shared);
        expired.keys = (locked.counters.expired_keys - keys_before) as u32;
        expired.bytes = used_before.saturating_sub(locked.used_bytes());
        self.publish_due(shard, &locked);
        expired.next_due = self.next_due(shard);
        events.extend(locked.events.drain(..).map(|(_, event)| event));
        let deferred = locked.take_deferred(&self.shared);
        let blocks = std::mem::take(&mut locked.large_blocks);
        drop(locked);
        drop(deferred);
        self.hand_out(blocks);
        expired
    }

    /// Does about `steps` steps of background work in one shard and returns whether there is more.
    ///
    /// The work is: moving entries out of sparse pages, draining a replaced policy, evicting while
    /// the memory is over its limit, and dropping large values and flushed databases. It also
    /// detects a clock that went back, because [`Keyspace::next_due`] may then be far in the
    /// future.
    ///
    /// Shards that use more than their share of the limit evict first. The others evict when no
    /// shard over its share has anything that can be evicted, so that calls for all shards,
    /// repeated while [`Keyspace::must_evict`] returns true, bring the memory down to its limit.
    /// Several threads that do so at the same time evict too much by at most 2 KiB and one value
    /// each.
    ///
    /// Does nothing and returns false if the shard is locked.
    pub fn background_step(
        &self,
        shard: usize,
        now: Tick,
        steps: u32,
        events: &mut Vec<Event>,
    ) -> bool {
        let Some(mut locked) = self.background_guard(shard) else {
            return false;
        };
        self.apply_new_settings(shard, &mut locked);
        if locked.observe_clock(now) {
            self.publish_due(shard, &locked);
        }
        let evicts = self.evict_in_background(shard, &mut locked);
        let more = locked.background_step(steps, &self.shared) || evicts;
        // Removals can leave work for the index, which then requires an earlier run.
        self.publish_due(shard, &locked);
        events.extend(locked.events.drain(..).map(|(_, event)| event));
        let deferred = locked.take_deferred(&self.shared);
        let more = more || !locked.deferred.is_empty();
        let blocks = std::mem::take(&mut locked.large_blocks);
        drop(locked);
        drop(deferred);
        self.hand_out(blocks);
        more
    }

    /// Adds large byte arrays to those that [`Keyspace::take_large_blocks`] returns.
    fn hand_out(&self, blocks: Vec<Vec<u8>>) {
        if !blocks.is_empty() {
            let mut all = self.shared.large_blocks.lock();
            all.as_mut().expect("no holder panics").extend(blocks);
        }
    }

    /// Returns byte arrays of several megabytes that entries no longer hold, as found by
    /// [`Keyspace::expire`] and [`Keyspace::background_step`]. The caller calls this after them,
    /// and frees the arrays where nothing has to wait for it.
    pub fn take_large_blocks(&self) -> Vec<Vec<u8>> {
        let mut all = self.shared.large_blocks.lock();
        std::mem::take(all.as_mut().expect("no holder panics"))
    }
}
