//! Methods for clients that cache keys (CLIENT TRACKING).

use super::View;
use crate::keyspace::Keyspace;
use crate::shared::Key;
use crate::tracking::{Invalidation, Tracked};

/// Whether the keyspace tracks reads and changes of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// No client caches keys.
    Off,
    /// Clients cache keys that they have read.
    Reads,
    /// In addition, clients are notified of keys that they have not read.
    Broadcasts,
}

impl Keyspace {
    /// Sets whether reads and changes of keys are tracked.
    pub fn set_tracking(&self, tracking: Tracking) {
        for shard in 0..self.shard_count() {
            let mut locked = self.guard(shard);
            if tracking == Tracking::Off {
                if let Some(mut tracked) = locked.tracked.take() {
                    locked.discarded.push(tracked.discard());
                }
                continue;
            }
            let tracked = locked.tracked.get_or_insert_default();
            tracked.is_broadcasting = tracking == Tracking::Broadcasts;
        }
    }

    /// Returns the number of tracked keys and the number of pairs of a key and a client.
    pub fn tracked_counts(&self) -> (usize, usize) {
        (0..self.shard_count()).fold((0, 0), |(keys, readers), shard| {
            let locked = self.guard(shard);
            let tracked = locked.tracked.as_deref();
            let (more_keys, more_readers) = tracked.map_or((0, 0), |tracked| {
                (tracked.key_count(), tracked.reader_count())
            });
            (keys + more_keys, readers + more_readers)
        })
    }

    /// Moves the invalidations that expiry and eviction have queued in a shard to `into`. Does
    /// nothing if the shard is locked; then its next command moves them.
    pub fn take_invalidations(&self, shard: usize, into: &mut Vec<Invalidation>) {
        if let Some(mut locked) = self.try_guard(shard)
            && let Some(tracked) = &mut locked.tracked
        {
            tracked.take(into);
        }
    }
}

impl View<'_> {
    /// Records that a client has read a key. The keyspace holds at most about `keys_max` such keys;
    /// beyond that, another key is invalidated. `is_connected` returns whether there is a client
    /// with this id. Does nothing if tracking is off.
    pub fn track(
        &mut self,
        key: &Key<'_>,
        reader: u64,
        keys_max: usize,
        is_connected: &dyn Fn(u64) -> bool,
    ) {
        let (space, _, locked) = self.parts(key);
        let share = keys_max.div_ceil(space.shard_count());
        if let Some(tracked) = &mut locked.tracked {
            tracked.add(key.bytes, reader, share, is_connected);
            let has_pending = tracked.has_pending();
            self.has_invalidated |= has_pending;
        }
    }

    /// Invalidates tracked keys of the locked shards, at most `budget` of each shard, while the
    /// shard has more than its part of `keys_max`.
    pub fn limit_tracked(&mut self, keys_max: usize, budget: usize) {
        let share = keys_max.div_ceil(self.space.shard_count());
        let mut has_pending = false;
        self.each_locked(|locked| {
            if let Some(tracked) = &mut locked.tracked {
                tracked.limit(share, budget);
                has_pending |= tracked.has_pending();
            }
        });
        self.has_invalidated |= has_pending;
    }

    /// Forgets the tracked keys of all shards and queues an invalidation of all keys. Needs all
    /// shards.
    pub fn forget_tracked(&mut self) {
        for (shard, locked) in self.all().iter_mut().enumerate() {
            if let Some(tracked) = &mut locked.tracked {
                let discarded = tracked.clear(shard == 0);
                locked.discarded.push(discarded);
            }
        }
        self.has_invalidated = true;
    }

    /// Returns whether commands on these shards have queued invalidations since the last call of
    /// [`View::take_invalidations`].
    #[inline]
    pub fn has_invalidated(&self) -> bool {
        self.has_invalidated
    }

    /// Moves the queued invalidations of these shards to `into`.
    pub fn take_invalidations(&mut self, into: &mut Vec<Invalidation>) {
        self.has_invalidated = false;
        self.each_locked(|locked| {
            if let Some(tracked) = locked.tracked.as_deref_mut() {
                Tracked::take(tracked, into);
            }
        });
    }
}
