//! The concurrent cache and its basic operations.

use crate::builder::{BuildError, CacheBuilder, RandomState};
#[cfg(feature = "serde")]
use crate::clock::until;
use crate::epoch::pin;
use crate::inner::{Inner, Seen, absent_capacity, part};
use crate::shard::{Expect, Removed, Shard};
use crate::stats::Stats;
use policy::any::PolicySpec;
use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

mod expiry;

/// A concurrent cache with expiry. Clones share the same entries.
///
/// Look-ups take no lock, and write to shared memory only to mark an entry that was not marked
/// before. Expired entries are never returned, and are removed on time even without any traffic.
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
    /// Creates a cache for at most `capacity` entries, with the default settings. Use
    /// [`Cache::builder`] for other settings.
    pub fn new(capacity: u64) -> Self {
        let builder = CacheBuilder::new(capacity);
        Cache {
            inner: Inner::build(builder, &PolicySpec::default()),
        }
    }

    /// Returns a builder for a cache with this capacity, measured in entries, or in weight if a
    /// [weigher](CacheBuilder::weigher) is set.
    ///
    /// ```
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let cache: mayfly::Cache<u64, String> =
    ///     mayfly::Cache::builder(1_000).policy_named("lru").build()?;
    /// # Ok(())
    /// # }
    /// ```
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
    /// Returns a clone of the value of a key, and registers a hit. Returns `None` if the key is
    /// absent or its entry has expired.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("key", 1);
    /// assert_eq!(cache.get("key"), Some(1));
    /// assert_eq!(cache.get("other"), None);
    /// ```
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.read(key, V::clone)
    }

    /// Calls `see` with a reference to the value of a key, returns its result, and registers a hit.
    /// Unlike [`Cache::get`], it does not require that values are `Clone`.
    ///
    /// `see` may use the cache. It should return soon, because memory of entries that leave any
    /// cache of the process is not freed until then.
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

    /// Returns a clone of the value of a key without any effect on the cache: the call registers no
    /// hit, is not counted, and extends no idle time.
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

    /// Returns true if the key has an entry that has not expired. Registers no hit.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let pinned = pin();
        self.inner.find_live(&pinned, key).is_some()
    }

    /// Returns clones of the values of several keys, in the order of the keys, and registers the
    /// hits.
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

    /// Inserts a value with the builder's time to live, or replaces the key's current value.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("key", 1);
    /// cache.insert("key", 2);
    /// assert_eq!(cache.get("key"), Some(2));
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) {
        let ttl = self.inner.ttl;
        self.store(key, value, ttl);
    }

    fn store(&self, key: K, value: V, ttl: Option<Duration>) {
        let hash = self.inner.hash(&key);
        // `Expect::Anything` cannot conflict with another change.
        let _ = self.inner.store_if(hash, key, value, ttl, Expect::Anything);
    }

    /// Returns references to all live entries and their remaining times to live, not counting idle
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

    /// Stores an entry that was saved, with its remaining time to live.
    #[cfg(feature = "serde")]
    pub(crate) fn restore(&self, key: K, value: V, ttl: Option<Duration>) {
        self.store(key, value, ttl.filter(|_| self.inner.has_deadlines));
    }

    /// Removes a key, and returns true if it had a live entry. If the key was remembered as having
    /// [no value](CacheBuilder::negative_ttl), that is forgotten, too.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("key", 1);
    /// assert!(cache.remove("key"));
    /// assert!(!cache.remove("key"));
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.inner.hash(key);
        self.inner.remove_if(hash, key, Expect::Anything) == Removed::Entry
    }

    /// Removes a key, and returns a clone of its value if it had a live entry.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("key", 1);
    /// assert_eq!(cache.take("key"), Some(1));
    /// assert_eq!(cache.take("key"), None);
    /// ```
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
                // Another thread has replaced, removed or inserted the entry since the look-up.
                Removed::Conflict => {}
            }
        }
    }

    /// Returns the number of entries, including expired ones that have not been removed yet.
    pub fn len(&self) -> usize {
        let shards = self.inner.shards.iter();
        shards.map(|shard| shard.writer().core.len).sum()
    }

    /// Returns true if the cache holds no entry, not even an expired one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the capacity, in entries or in weight.
    pub fn capacity(&self) -> u64 {
        self.inner.capacity.load(Relaxed)
    }

    /// Changes the capacity. If the new one is lower, entries are evicted immediately, a bounded
    /// number at a time under one lock. The number of shards does not change.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(100);
    /// (0..100).for_each(|key| cache.insert(key, key));
    /// cache.set_capacity(10);
    /// assert!(cache.len() <= 10);
    /// ```
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

    /// Removes all entries that were present at the time of the call, one shard at a time. Entries
    /// that had expired are reported as expired. Loads in progress do not store their values.
    pub fn clear(&self) {
        self.invalidate_if(|_, _| true);
        self.inner.expire_all();
    }

    /// Ends all current loads, and forgets all keys remembered as having no value.
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
    /// inserted during the call may or may not be checked.
    ///
    /// The function is called without locks, and no lock is held for more than one removal. Loads
    /// in progress do not store their values, because the function cannot see values that are still
    /// being loaded. Keys [without a value](CacheBuilder::negative_ttl) are forgotten.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("user:1", 1);
    /// cache.insert("page:1", 2);
    /// assert_eq!(cache.invalidate_if(|key, _| key.starts_with("user:")), 1);
    /// assert_eq!(cache.get("page:1"), Some(2));
    /// ```
    pub fn invalidate_if(&self, mut is_invalid: impl FnMut(&K, &V) -> bool) -> usize {
        // This must precede the visit, so that the visit sees all values that loads have stored.
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

    /// Calls `see` with each live entry, without locks. An entry that stays throughout the call is
    /// visited exactly once; others may be.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("a", 1);
    /// cache.insert("b", 2);
    /// let mut sum = 0;
    /// cache.for_each(|_, value| sum += value);
    /// assert_eq!(sum, 3);
    /// ```
    pub fn for_each(&self, mut see: impl FnMut(&K, &V)) {
        self.visit(|seen| see(seen.found.key, seen.found.value));
    }

    /// Returns an iterator over clones of all live entries. It reads one shard at a time: an entry
    /// that stays throughout the iteration is returned exactly once; others may be.
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

    /// Returns the counters since the cache was created, and its present size.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("key", 1);
    /// cache.get("key");
    /// cache.get("other");
    /// let stats = cache.stats();
    /// assert_eq!((stats.hits, stats.misses()), (1, 1));
    /// ```
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

    /// Panics if an internal structure is inconsistent. Slow; meant for tests.
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
    /// Builds the cache.
    ///
    /// # Errors
    ///
    /// Returns an error if the policy is unknown, a setting is out of range, or two settings
    /// contradict each other; see [`BuildError`].
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
