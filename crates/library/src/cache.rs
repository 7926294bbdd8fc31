//! The cache that threads share.

use crate::builder::{BuildError, CacheBuilder, RandomState};
use crate::clock::{after, ms_of, until};
use crate::epoch::pin;
use crate::inner::{IDLE_SLACK, Inner, Seen, absent_capacity, part};
use crate::shard::{Expect, Removed, Shard};
use crate::stats::Stats;
#[cfg(doc)]
use crate::timer::Timer;
use crate::timer::{self, Timed};
use policy::Tick;
use policy::any::PolicySpec;
use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A concurrent cache. Clones are the same cache.
///
/// Look-ups take no lock, and write shared memory only to mark an entry that was not marked before.
/// Expired entries are never returned, and are removed on time without any traffic.
///
/// ```
/// use mayfly::Cache;
/// use std::time::Duration;
///
/// let cache = Cache::new(10_000);
/// cache.insert("answer", 42);
/// cache.insert_with_ttl("session", 7, Duration::from_secs(60));
/// assert_eq!(cache.get("answer"), Some(42));
/// assert_eq!(cache.remove("answer"), true);
/// assert_eq!(cache.get("answer"), None);
/// ```
pub struct Cache<K, V, S = RandomState> {
    pub(crate) inner: Arc<Inner<K, V, S>>,
}

impl<K, V, S> Clone for Cache<K, V, S> {
    fn clone(&self) -> Self {
        Cache {
            inner: self.inner.clone(),
        }
    }
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Creates a cache of this many entries, with the default settings.
    pub fn new(capacity: u64) -> Self {
        let builder = CacheBuilder::new(capacity);
        Cache {
            inner: Inner::build(builder, &PolicySpec::default()),
        }
    }

    /// Returns the settings of a cache with a capacity in entries, or in weight if a weigher is
    /// set.
    pub fn builder(capacity: u64) -> CacheBuilder<K, V> {
        CacheBuilder::new(capacity)
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Returns a clone of the value, and registers a hit.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.read(key, V::clone)
    }

    /// Calls `see` with the value and returns its result, and registers a hit. The value need not
    /// be `Clone`.
    ///
    /// Memory of entries that leave any cache of the process is freed after `see` has returned, so
    /// that it should be short. It may use the cache.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert(1, vec![1, 2, 3]);
    /// assert_eq!(cache.read(&1, |value| value.len()), Some(3));
    /// ```
    #[inline]
    pub fn read<Q, R>(&self, key: &Q, see: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.inner.read(key, see)
    }

    /// Returns a clone of the value without registering a hit, nor counting the look-up, nor
    /// extending an idle time.
    pub fn peek<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        let pinned = pin();
        self.inner
            .find_live(&pinned, key)
            .map(|seen| seen.found.value.clone())
    }

    /// Whether a live entry has this key. Does not register a hit.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let pinned = pin();
        self.inner.find_live(&pinned, key).is_some()
    }

    /// Returns clones of the values of several keys, in their order, and registers the hits.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("a", 1);
    /// assert_eq!(cache.get_many(["a", "b"]), [Some(1), None]);
    /// ```
    pub fn get_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>) -> Vec<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'q,
        V: Clone,
    {
        let pinned = pin();
        let inner = &*self.inner;
        let value = |key: &Q| {
            let hash = inner.hash(key);
            let seen = inner.look(&pinned, hash, key)?;
            inner.touch(&pinned, &seen);
            Some(seen.found.value.clone())
        };
        keys.into_iter().map(value).collect()
    }

    /// Inserts a value, with the builder's time to live. Replaces the value of the key.
    #[inline]
    pub fn insert(&self, key: K, value: V) {
        let ttl = self.inner.ttl;
        self.store(key, value, ttl);
    }

    /// Inserts a value with a time to live of its own. A time of 0 removes the key.
    ///
    /// # Panics
    /// If the cache was built [without expiry](CacheBuilder::without_expiry).
    pub fn insert_with_ttl(&self, key: K, value: V, ttl: Duration) {
        assert!(
            self.inner.has_deadlines,
            "insert_with_ttl: the cache was built without expiry"
        );
        self.store(key, value, Some(ttl));
    }

    fn store(&self, key: K, value: V, ttl: Option<Duration>) {
        let hash = self.inner.hash(&key);
        // Nothing is expected, so that nothing can conflict.
        let _ = self.inner.store_if(hash, key, value, ttl, Expect::Anything);
    }

    /// Returns references to all live entries, and their remaining times to live, apart from idle
    /// times.
    #[cfg(feature = "serde")]
    pub(crate) fn live<'a>(
        &'a self,
        pinned: &'a crate::epoch::Pinned,
    ) -> Vec<(&'a K, &'a V, Option<Duration>)> {
        let now = self.inner.now();
        let mut entries = Vec::with_capacity(self.len());
        for shard in &self.inner.shards {
            shard.map.visit(pinned, |found| {
                let deadline = shard.deadline(found.slot);
                if deadline.is_none_or(|deadline| now <= deadline) {
                    let limit = shard.limit(found.slot);
                    let remaining = limit.map(|limit| until(now, limit));
                    entries.push((found.key, found.value, remaining));
                }
            });
        }
        entries
    }

    /// Stores an entry that was saved.
    #[cfg(feature = "serde")]
    pub(crate) fn restore(&self, key: K, value: V, ttl: Option<Duration>) {
        self.store(key, value, ttl.filter(|_| self.inner.has_deadlines));
    }

    /// Removes an entry. Returns whether it was there and live. The key is also no longer
    /// remembered as one [without a value](CacheBuilder::negative_ttl).
    pub fn remove<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.inner.hash(key);
        self.inner.remove_if(hash, key, Expect::Anything) == Removed::Entry
    }

    /// Removes an entry and returns a clone of its value.
    pub fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        let hash = self.inner.hash(key);
        loop {
            let pinned = pin();
            let seen = self.inner.find_live(&pinned, key);
            let (value, expect) = match &seen {
                Some(seen) => (
                    Some(seen.found.value.clone()),
                    Expect::Slot(seen.found.slot),
                ),
                None => (None, Expect::Nothing),
            };
            match self.inner.remove_if(hash, key, expect) {
                Removed::Entry => return value,
                Removed::Nothing => return None,
                // Another thread has replaced, removed or inserted the entry meanwhile.
                Removed::Conflict => {}
            }
        }
    }

    /// Returns the time until an entry expires; `None` if it is absent or does not expire.
    pub fn time_to_live<Q>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let pinned = pin();
        let seen = self.inner.find_live(&pinned, key)?;
        let deadline = seen.shard.deadline(seen.found.slot)?;
        Some(until(self.inner.now(), deadline))
    }

    /// Sets the time to live of an entry, from now on; `None` means that it does not expire, apart
    /// from its idle time. Returns whether the entry is there.
    ///
    /// # Panics
    /// If the cache was built [without expiry](CacheBuilder::without_expiry).
    pub fn set_ttl<Q>(&self, key: &Q, ttl: Option<Duration>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = &*self.inner;
        assert!(
            inner.has_deadlines,
            "set_ttl: the cache was built without expiry"
        );
        loop {
            let pinned = pin();
            let Some(seen) = self.inner.find_live(&pinned, key) else {
                return false;
            };
            // Before the deadline is set, which a load that ends in between would replace.
            seen.shard.changed(inner.hash(key));
            let now = inner.now();
            let limit = ttl.map(|ttl| after(now, ms_of(ttl)));
            let idle = inner
                .tti
                .map(|tti| after(now, tti.saturating_add(tti / IDLE_SLACK)));
            let wanted = match (limit, idle) {
                (Some(limit), Some(idle)) => Some(limit.min(idle)),
                (limit, idle) => limit.or(idle),
            };
            let present = seen.shard.deadline(seen.found.slot);
            if inner.set_deadline(seen.shard, &seen.found, present, wanted, limit, now) {
                if wanted.is_some() {
                    self.inner.notify(seen.shard.due());
                }
                return true;
            }
        }
    }

    /// Number of entries, including expired ones that are not removed yet.
    pub fn len(&self) -> usize {
        let shards = self.inner.shards.iter();
        shards.map(|shard| shard.writer().core.len).sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Capacity in entries, or in weight.
    pub fn capacity(&self) -> u64 {
        self.inner.capacity.load(Relaxed)
    }

    /// Sets the capacity. If it is lower, entries are evicted, a bounded number of them under one
    /// lock. The number of shards stays.
    pub fn set_capacity(&self, capacity: u64) {
        let inner = &self.inner;
        inner.capacity.store(capacity, Relaxed);
        if let (Some((_, absent)), None) = (&inner.negative, &inner.weigher) {
            let absent = Cache {
                inner: absent.clone(),
            };
            absent.set_capacity(absent_capacity(capacity, false, None));
        }
        let count = inner.shards.len() as u64;
        for (number, shard) in inner.shards.iter().enumerate() {
            shard.resize(part(capacity, count, number as u64));
            loop {
                let mut leaving = inner.leaving();
                let hash_of = inner.hash_of();
                let is_more = shard.shrink(&hash_of, inner.now(), &mut leaving);
                inner.release(shard, leaving);
                if !is_more {
                    break;
                }
            }
        }
    }

    /// Removes all entries that were there at the time of the call, one lock at a time. Those that
    /// have expired leave as expired ones. Loads that are under way do not store their values.
    pub fn clear(&self) {
        self.invalidate_if(|_, _| true);
        self.inner.expire_all();
    }

    /// Ends all current loads, and forgets all keys without a value.
    fn forget_unknown(&self) {
        self.inner.shards.iter().for_each(Shard::all_changed);
        if let Some((_, absent)) = &self.inner.negative {
            let absent = Cache {
                inner: absent.clone(),
            };
            absent.clear();
        }
    }

    /// Removes the entries for which `is_invalid` returns true, and returns their number. Entries
    /// inserted during the call may or may not be among them.
    ///
    /// The function is called without locks, and no lock is held for more than one removal. It
    /// cannot be called with values that are being loaded, so that no load that is under way stores
    /// its value, and keys without a value are forgotten.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("user:1", 1);
    /// cache.insert("page:1", 2);
    /// assert_eq!(cache.invalidate_if(|key, _| key.starts_with("user:")), 1);
    /// assert_eq!(cache.get("page:1"), Some(2));
    /// ```
    pub fn invalidate_if(&self, mut is_invalid: impl FnMut(&K, &V) -> bool) -> usize {
        // Before the visit, so that it sees what loads have stored before.
        self.forget_unknown();
        let mut count = 0;
        self.visit(|seen| {
            if is_invalid(seen.found.key, seen.found.value) {
                let hash = self.inner.hash(seen.found.key);
                let expect = Expect::Slot(seen.found.slot);
                let removed = self.inner.remove_if(hash, seen.found.key, expect);
                count += usize::from(removed == Removed::Entry);
            }
        });
        count
    }

    /// Calls `see` with each live entry. Entries that stay during the call are seen once; others
    /// may be. No lock is held.
    pub fn for_each(&self, mut see: impl FnMut(&K, &V)) {
        self.visit(|seen| see(seen.found.key, seen.found.value));
    }

    /// Returns clones of all live entries, a shard at a time: each entry that stays during the
    /// iteration once, others perhaps.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert(1, "one");
    /// assert_eq!(cache.iter().collect::<Vec<_>>(), [(1, "one")]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> + use<'_, K, V, S>
    where
        K: Clone,
        V: Clone,
    {
        self.inner.shards.iter().flat_map(|shard| {
            let mut entries = Vec::new();
            self.visit_shard(shard, |seen| {
                entries.push((seen.found.key.clone(), seen.found.value.clone()));
            });
            entries
        })
    }

    pub(crate) fn visit(&self, mut see: impl FnMut(&Seen<'_, K, V>)) {
        for shard in &self.inner.shards {
            self.visit_shard(shard, &mut see);
        }
    }

    fn visit_shard(&self, shard: &Shard<K, V>, mut see: impl FnMut(&Seen<'_, K, V>)) {
        let pinned = pin();
        let now = self.inner.now();
        shard.map.visit(&pinned, |found| {
            let deadline = shard.deadline(found.slot);
            if deadline.is_none_or(|deadline| now <= deadline) {
                see(&Seen {
                    shard,
                    found,
                    is_stale: false,
                });
            }
        });
    }

    /// Removes all entries that have expired, a slice under one lock, and returns their number.
    ///
    /// Only needed with [`Timer::Manual`]; with another timer, it removes early what the timer
    /// would remove soon. It also frees the memory of entries that left before.
    pub fn expire(&self) -> usize {
        let count = self.inner.expire_all();
        if let Some((_, absent)) = &self.inner.negative {
            absent.expire_all();
        }
        count
    }

    /// Same as [`Cache::expire`], but removes at most `slices` slices of 128 entries per shard.
    /// Returns whether more entries are due, for hosts that must not be kept waiting.
    pub fn expire_within(&self, slices: usize) -> bool {
        let is_more = self.inner.expire_slices(slices).1;
        let absent = self.inner.negative.as_ref();
        absent.is_some_and(|(_, absent)| absent.expire_slices(slices).1) || is_more
    }

    /// Returns the time until [`Cache::expire`] has work; `None` if no entry has a deadline. It may
    /// be earlier than the next deadline.
    pub fn next_expiry(&self) -> Option<Duration> {
        let due = self.inner.expiry_due();
        (due != u64::MAX).then(|| until(self.inner.now(), Tick(due)))
    }

    /// Returns the task of [`Timer::Task`]: a future that removes expired entries on time, and ends
    /// when the cache is dropped. The program spawns it on its runtime, with the runtime's sleep:
    ///
    /// ```text
    /// tokio::spawn(cache.expiry_task(tokio::time::sleep));
    /// ```
    pub fn expiry_task<F, Sleep>(
        &self,
        sleep: F,
    ) -> impl Future<Output = ()> + use<F, Sleep, K, V, S>
    where
        F: Fn(Duration) -> Sleep,
        Sleep: Future<Output = ()>,
    {
        let inner: Arc<dyn Timed> = self.inner.clone();
        let inner: Weak<dyn Timed> = Arc::downgrade(&inner);
        timer::run_task(inner, self.inner.alarm.clone(), sleep)
    }

    /// Returns counts since the cache was created, and its present size.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        if let Some(counters) = &self.inner.counters {
            stats.read(counters);
        }
        for shard in &self.inner.shards {
            {
                let writer = shard.writer();
                stats.add(&writer.core.departures, &writer.core.lag);
                stats.len += writer.core.len as u64;
                stats.weight += writer.core.weight;
                stats.backlog += writer.core.backlog(self.inner.now()) as u64;
            }
            stats.bytes += shard.bytes() as u64;
        }
        stats
    }

    /// Panics if a structure contradicts itself. For tests; slow.
    #[doc(hidden)]
    pub fn check(&self) {
        for shard in &self.inner.shards {
            shard.check(&self.inner.hash_of(), self.inner.now());
        }
    }
}

impl<K, V, S> fmt::Debug for Cache<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("shards", &self.inner.shards.len())
            .field("capacity", &self.inner.capacity.load(Relaxed))
            .finish_non_exhaustive()
    }
}

impl<K, V, S> CacheBuilder<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Builds the cache. Fails if a setting is wrong or contradicts another.
    pub fn build(self) -> Result<Cache<K, V, S>, BuildError> {
        let policy = self.check()?;
        Ok(Cache {
            inner: Inner::build(self, &policy),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn look_ups_take_no_lock() {
        for policy in ["s3fifo-w", "sieve", "lru", "w-tinylfu"] {
            let cache: Cache<u32, u32> = Cache::builder(1_000)
                .policy_named(policy)
                .ttl(Duration::from_secs(3_600))
                .tti(Duration::from_secs(3_600))
                .build()
                .expect("the settings are valid");
            (0..50).for_each(|key| cache.insert(key, key));
            let locks: Vec<_> = cache.inner.shards.iter().map(Shard::writer).collect();
            let reader = cache.clone();
            let (sender, receiver) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                for key in 0..100 {
                    let found = (key < 50).then_some(key);
                    assert_eq!((reader.get(&key), reader.peek(&key)), (found, found));
                    assert_eq!(reader.get_many([&key]), [found]);
                    assert_eq!(reader.time_to_live(&key).is_some(), found.is_some());
                }
                assert_eq!(reader.iter().count(), 50);
                let _ = sender.send(());
            });
            let ended = receiver.recv_timeout(Duration::from_secs(60));
            assert!(ended.is_ok(), "a reader under {policy} waits for a lock");
            drop(locks);
            thread.join().expect("the reader does not panic");
        }
    }
}
