//! Changes that depend on a key's current value.

use crate::cache::Cache;
use crate::epoch::pin;
use crate::shard::{Expect, Removed};
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// Change requested by the closure of [`Cache::compute`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op<V> {
    /// Leaves the entry unchanged.
    Keep,
    /// Stores a value with the builder's time to live.
    Put(V),
    /// Stores a value with its own time to live.
    PutWithTtl(V, Duration),
    /// Removes the entry.
    Remove,
}

/// An entry of a key, present or absent, from [`Cache::entry`].
pub struct Entry<'a, K, V, S> {
    cache: &'a Cache<K, V, S>,
    key: K,
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Changes an entry depending on its current value, atomically for other threads. `decide`
    /// receives the current value, or `None`, and returns the change. Returns true if the entry was
    /// changed.
    ///
    /// `decide` is called without a lock and may use the cache. If another thread changes the entry
    /// meanwhile, `decide` is called again with the new value.
    ///
    /// ```
    /// use mayfly::{Cache, Op};
    ///
    /// let cache = Cache::new(100);
    /// let add = |present: Option<&u32>| Op::Put(present.map_or(1, |count| count + 1));
    /// cache.compute("visits", add);
    /// cache.compute("visits", add);
    /// assert_eq!(cache.get("visits"), Some(2));
    /// cache.compute("visits", |present| match present {
    ///     Some(2) => Op::Remove,
    ///     _ => Op::Keep,
    /// });
    /// assert_eq!(cache.get("visits"), None);
    /// ```
    pub fn compute(&self, key: K, mut decide: impl FnMut(Option<&V>) -> Op<V>) -> bool {
        let hash = self.inner.hash(&key);
        loop {
            // While the thread is pinned, the slot of the entry is not reused. If the same slot is
            // still in the table, the entry has not changed.
            let pinned = pin();
            let seen = self.inner.find_live(&pinned, &key);
            let expect = match &seen {
                Some(seen) => Expect::Slot(seen.found.slot),
                None => Expect::Nothing,
            };
            let (value, ttl) = match decide(seen.as_ref().map(|seen| seen.found.value)) {
                Op::Keep => return false,
                Op::Remove => match self.inner.remove_if(hash, &key, expect) {
                    Removed::Conflict => continue,
                    removed => return removed == Removed::Entry,
                },
                Op::Put(value) => (value, self.inner.ttl),
                Op::PutWithTtl(value, ttl) => (value, Some(ttl)),
            };
            if self
                .inner
                .store_if(hash, key.clone(), value, ttl, expect)
                .is_ok()
            {
                return true;
            }
        }
    }

    /// Returns the entry of a key, present or absent, for changes in place.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(100);
    /// assert_eq!(cache.entry("a").or_insert(1), 1);
    /// assert_eq!(cache.entry("a").and_modify(|value| value + 1).or_insert(7), 2);
    /// ```
    pub fn entry(&self, key: K) -> Entry<'_, K, V, S> {
        Entry { cache: self, key }
    }
}

impl<K, V, S> Entry<'_, K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Replaces the current value by the result of `modify`, with the builder's time to live. Does
    /// nothing if the key is absent.
    pub fn and_modify(self, modify: impl Fn(&V) -> V) -> Self {
        self.cache.compute(self.key.clone(), |present| {
            present.map_or(Op::Keep, |value| Op::Put(modify(value)))
        });
        self
    }

    /// Returns the current value, or stores `value` and returns it.
    pub fn or_insert(self, value: V) -> V {
        let mut result = value.clone();
        self.cache.compute(self.key, |present| match present {
            Some(present) => {
                result = present.clone();
                Op::Keep
            }
            None => {
                result = value.clone();
                Op::Put(value.clone())
            }
        });
        result
    }

    /// Returns the current value, or stores the result of `load` and returns it. Like
    /// [`Cache::get_with`], it lets only one caller per key load at a time.
    pub fn or_insert_with(self, load: impl FnOnce() -> V) -> V {
        self.cache.get_with(self.key, load)
    }
}
