//! A cache for one thread, with the same code behind `&mut self`.
//!
//! It supports all policies, times to live, and capacities in entries. It has no idle times,
//! weights or listeners. Values are returned by reference and need not be `Clone` or `Send`. Values
//! that leave are dropped immediately or returned.

use crate::builder::{BuildError, RandomState};
use crate::cause::Cause;
use crate::clock::{Clock, after, ms_of};
use crate::epoch;
use crate::map::Found;
use crate::rows::Columns;
use crate::shard::{Expect, Leaving, Shard, Terms};
use policy::any::{AnyPolicy, PolicySpec};
use policy::{Marker, Policy, Tick};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// A cache for one thread, whose values need not be `Clone`, `Send` or `Sync`.
///
/// ```
/// use mayfly::unsync::Cache;
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// let mut cache = Cache::new(100);
/// cache.insert("a", Rc::new(1));
/// cache.insert_with_ttl("b", Rc::new(2), Duration::from_secs(60));
/// assert_eq!(cache.get("a").map(|value| **value), Some(1));
/// assert_eq!(cache.remove("a"), Some(Rc::new(1)));
/// assert_eq!(cache.len(), 1);
/// ```
pub struct Cache<K, V, S = RandomState> {
    shard: Shard<K, V>,
    hasher: S,
    ttl: Option<Duration>,
    clock: Clock,
    /// Whether hits store the current time.
    has_stamps: bool,
}

/// Settings of a [`Cache`] for one thread.
///
/// ```
/// use mayfly::unsync::{Cache, Settings};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), mayfly::BuildError> {
/// let mut settings = Settings::new(1_000);
/// settings.ttl = Some(Duration::from_secs(60));
/// let mut cache: Cache<&str, u32> = settings.build()?;
/// cache.insert("key", 1);
/// assert_eq!(cache.get("key"), Some(&1));
/// # Ok(())
/// # }
/// ```
#[must_use = "settings do nothing until `build` is called"]
#[derive(Clone, Debug)]
pub struct Settings {
    /// Capacity in entries.
    pub capacity: u64,
    /// Eviction policy.
    pub policy: PolicySpec,
    /// Time to live of entries inserted without one.
    pub ttl: Option<Duration>,
    /// Time source.
    pub clock: Clock,
}

impl Settings {
    /// Returns the default settings for a capacity in entries.
    pub fn new(capacity: u64) -> Self {
        Settings {
            capacity,
            policy: PolicySpec::default(),
            ttl: None,
            clock: Clock::default(),
        }
    }

    /// Builds the cache with the default hash function.
    ///
    /// # Errors
    /// Returns an error if the policy runs only in the simulator.
    pub fn build<K: Hash + Eq, V>(self) -> Result<Cache<K, V>, BuildError> {
        self.build_with(RandomState::default())
    }

    /// Builds the cache with the given hash function; see
    /// [`CacheBuilder::hasher`](crate::CacheBuilder::hasher) for its requirements.
    ///
    /// # Errors
    /// Returns an error if the policy runs only in the simulator.
    pub fn build_with<K, V, S>(self, hasher: S) -> Result<Cache<K, V, S>, BuildError>
    where
        K: Hash + Eq,
        S: BuildHasher,
    {
        let not_served = BuildError::NotServed(self.policy.name());
        let policy = AnyPolicy::build(&self.policy, self.capacity.max(1), 1).ok_or(not_served)?;
        epoch::prepare();
        let columns = Columns {
            has_deadlines: true,
            has_limits: false,
            has_weights: false,
            policy_bits: policy.meta_bits(),
        };
        let expected = usize::try_from(self.capacity)
            .unwrap_or(usize::MAX)
            .min(1 << 20);
        let now = self.clock.now();
        Ok(Cache {
            has_stamps: policy.marker() == Marker::Stamp,
            shard: Shard::new(columns, policy, self.capacity, expected, now),
            hasher,
            ttl: self.ttl,
            clock: self.clock,
        })
    }
}

impl<K: Hash + Eq, V> Cache<K, V> {
    /// Creates a cache for at most `capacity` entries, with the default settings. Use [`Settings`]
    /// for others.
    pub fn new(capacity: u64) -> Self {
        let built = Settings::new(capacity).build();
        built.expect("the default policy is served")
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Returns the position of the live entry of a key.
    fn find<Q>(&mut self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let (position, slot) = self.shard.find_mut(hash, |other| other.borrow() == key)?;
        let deadline = self.shard.deadline(slot);
        let is_live = deadline.is_none_or(|deadline| self.clock.now() <= deadline);
        is_live.then_some(position)
    }

    /// Returns a reference to the value of a key, and registers a hit.
    pub fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_mut(key).map(|value| &*value)
    }

    /// Returns a mutable reference to the value of a key, and registers a hit.
    ///
    /// ```
    /// let mut cache = mayfly::unsync::Cache::new(100);
    /// cache.insert("a", 1);
    /// if let Some(value) = cache.get_mut("a") {
    ///     *value += 1;
    /// }
    /// assert_eq!(cache.get("a"), Some(&2));
    /// ```
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let position = self.find(key)?;
        let hasher = &self.hasher;
        // Only a policy that stores the time of hits needs the present time.
        let now = match self.has_stamps {
            true => self.clock.now(),
            false => Tick(1),
        };
        self.shard
            .hit_mut(position, &|key| hasher.hash_one(key), now);
        Some(self.shard.value_mut(position))
    }

    /// Returns true if the key has an entry that has not expired. Registers no hit.
    pub fn contains_key<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key).is_some()
    }

    /// Returns the value of a key, or stores the result of `load` and returns that. Returns `None`
    /// if the new value is not stored, because the capacity is 0 or the policy does not admit the
    /// key.
    ///
    /// ```
    /// let mut cache = mayfly::unsync::Cache::new(100);
    /// *cache.get_or_insert_with("a", || 1).expect("it is admitted") += 1;
    /// assert_eq!(cache.get_or_insert_with("a", || 7), Some(&mut 2));
    /// ```
    pub fn get_or_insert_with(&mut self, key: K, load: impl FnOnce() -> V) -> Option<&mut V>
    where
        K: Clone,
    {
        if self.contains_key(&key) {
            return self.get_mut(&key);
        }
        self.insert(key.clone(), load());
        // An insertion is not a hit.
        let position = self.find(&key)?;
        Some(self.shard.value_mut(position))
    }

    /// Returns a reference to the value of a key without registering a hit.
    pub fn peek<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let position = self.find(key)?;
        Some(self.shard.value_mut(position))
    }

    /// Inserts a value with the default time to live. Returns the value that it replaced, unless
    /// that value had expired.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let ttl = self.ttl;
        self.store(key, value, ttl)
    }

    /// Inserts a value with its own time to live. Returns the value that it replaced, unless that
    /// value had expired.
    pub fn insert_with_ttl(&mut self, key: K, value: V, ttl: Duration) -> Option<V> {
        self.store(key, value, Some(ttl))
    }

    fn store(&mut self, key: K, value: V, ttl: Option<Duration>) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        let now = self.clock.now();
        let terms = Terms {
            deadline: ttl.map(|ttl| after(now, ms_of(ttl))),
            limit: None,
            weight: 1,
        };
        let hasher = &self.hasher;
        let hash_of = |key: &K| hasher.hash_one(key);
        let mut leaving = Leaving::new(true);
        let expect = Expect::Anything;
        let _ = self
            .shard
            .insert(hash, key, value, terms, expect, now, &hash_of, &mut leaving);
        let left = self.shard.take_all(leaving);
        let replaced = left
            .into_iter()
            .find(|(_, _, cause)| *cause == Cause::Replaced);
        replaced.map(|(_, value, _)| value)
    }

    /// Removes a key, and returns its value if it had a live entry.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let now = self.clock.now();
        let hasher = &self.hasher;
        let hash_of = |key: &K| hasher.hash_one(key);
        let mut leaving = Leaving::new(true);
        let is_key = |other: &K| other.borrow() == key;
        let expect = Expect::Anything;
        self.shard
            .remove(hash, is_key, expect, now, &hash_of, &mut leaving);
        let left = self.shard.take_all(leaving);
        let removed = left
            .into_iter()
            .find(|(_, _, cause)| *cause == Cause::Removed);
        removed.map(|(_, value, _)| value)
    }

    /// Returns the capacity in entries.
    pub fn capacity(&self) -> u64 {
        self.shard.writer().core.capacity
    }

    /// Changes the capacity. If the new one is lower, entries are evicted and returned.
    pub fn set_capacity(&mut self, capacity: u64) -> Vec<(K, V)> {
        self.shard.resize(capacity);
        let now = self.clock.now();
        let mut evicted = Vec::new();
        loop {
            let mut leaving = Leaving::new(true);
            let hasher = &self.hasher;
            let hash_of = |key: &K| hasher.hash_one(key);
            let is_more = self.shard.shrink(&hash_of, now, &mut leaving);
            let left = self.shard.take_all(leaving);
            evicted.extend(left.into_iter().map(|(key, value, _)| (key, value)));
            if !is_more {
                return evicted;
            }
        }
    }

    /// Returns an iterator over the live entries, in arbitrary order.
    ///
    /// ```
    /// let mut cache = mayfly::unsync::Cache::new(100);
    /// cache.insert(1, "one");
    /// assert_eq!(cache.iter().collect::<Vec<_>>(), [(&1, &"one")]);
    /// ```
    pub fn iter(&mut self) -> impl Iterator<Item = (&K, &V)> {
        let now = self.clock.now();
        let is_live = move |found: &Found<'_, K, V>| {
            let deadline = found.lane.deadline_if_any();
            deadline.is_none_or(|deadline| now <= deadline)
        };
        let live = self.shard.each_mut().filter(is_live);
        live.map(|found| (found.key, found.value))
    }

    /// Removes the entries for which `is_wanted` returns false, and all expired entries.
    ///
    /// ```
    /// let mut cache = mayfly::unsync::Cache::new(100);
    /// cache.insert("user:1", 1);
    /// cache.insert("page:1", 2);
    /// cache.retain(|key, _| key.starts_with("user:"));
    /// assert!(!cache.contains_key("page:1"));
    /// ```
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&K, &V) -> bool) {
        let now = self.clock.now();
        let is_left = |found: Found<'_, K, V>| {
            let deadline = found.lane.deadline_if_any();
            let is_live = deadline.is_none_or(|deadline| now <= deadline);
            let stays = is_live && is_wanted(found.key, found.value);
            (!stays).then_some(found.position)
        };
        let positions: Vec<u32> = self.shard.each_mut().filter_map(is_left).collect();
        let hasher = &self.hasher;
        let hash_of = |key: &K| hasher.hash_one(key);
        let mut leaving = Leaving::new(true);
        self.shard
            .remove_all(&positions, &hash_of, now, &mut leaving);
        drop(self.shard.take_all(leaving));
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.retain(|_, _| false);
    }

    /// Removes all expired entries, and returns them.
    pub fn expire(&mut self) -> Vec<(K, V)> {
        let now = self.clock.now();
        let hasher = &self.hasher;
        let hash_of = |key: &K| hasher.hash_one(key);
        let mut expired = Vec::new();
        loop {
            let mut leaving = Leaving::new(true);
            let (_, is_more) = self.shard.expire(now, &hash_of, &mut leaving);
            let left = self.shard.take_all(leaving);
            expired.extend(left.into_iter().map(|(key, value, _)| (key, value)));
            if !is_more {
                return expired;
            }
        }
    }

    /// Returns the number of entries, including expired ones that have not been removed yet.
    pub fn len(&self) -> usize {
        self.shard.writer().core.len
    }

    /// Returns true if the cache holds no entry, not even an expired one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V, S> std::fmt::Debug for Cache<K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}
