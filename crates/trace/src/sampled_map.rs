//! A map with a bounded number of keys: beyond the bound, it keeps the keys with the smallest
//! hashes.
//!
//! Source: C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC construction with
//! SHARDS", FAST 2015, section 3.2: whether a key is in the sample depends on its hash only, so
//! that all of its requests are seen or none. Departure: the source removes the largest hash at
//! each new key. Here the larger half is removed when twice the bound is reached, which needs no
//! queue.

use crate::random::Random;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Returns the hash by which keys are chosen. Different keys have different hashes.
#[inline]
pub(crate) fn key_hash(key: u64, seed: u64) -> u64 {
    Random::of_key(seed, key).bits()
}

/// Hasher that returns its input, because the keys of the map are hashes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Map with the values of a sample of keys, by the hash of the key.
pub struct SampledMap<V> {
    values: HashMap<u64, V, BuildHasherDefault<Mixed>>,
    wanted: usize,
    seed: u64,
    /// Range of the hashes that are kept.
    first: u64,
    last: u64,
}

impl<V> SampledMap<V> {
    /// Creates a map that keeps the `wanted` ≥ 1 keys with the smallest hashes of at least `first`,
    /// and up to twice as many between two calls of [`SampledMap::shrink`].
    pub fn new(wanted: usize, first: u64, seed: u64) -> Self {
        assert!(wanted > 0);
        SampledMap {
            values: HashMap::default(),
            wanted,
            seed,
            first,
            last: u64::MAX,
        }
    }

    /// Returns the value of a key, which `new` creates at the first call; `None` for a key that is
    /// not kept.
    #[inline]
    pub fn entry(&mut self, key: u64, new: impl FnOnce() -> V) -> Option<&mut V> {
        let hash = key_hash(key, self.seed);
        if !(self.first..=self.last).contains(&hash) {
            return None;
        }
        if self.values.len() >= 2 * self.wanted && !self.values.contains_key(&hash) {
            self.shrink();
            if hash > self.last {
                return None;
            }
        }
        Some(self.values.entry(hash).or_insert_with(new))
    }

    /// Returns the value of a key if it is kept.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&V> {
        self.values.get(&key_hash(key, self.seed))
    }

    /// Returns a map of the same keys with converted values.
    pub fn map<W>(&self, other: impl Fn(&V) -> W) -> SampledMap<W> {
        let values = self.values.iter();
        SampledMap {
            values: values.map(|(hash, value)| (*hash, other(value))).collect(),
            wanted: self.wanted,
            seed: self.seed,
            first: self.first,
            last: self.last,
        }
    }

    /// Reduces the map to the wanted number of keys.
    pub fn shrink(&mut self) {
        if self.values.len() <= self.wanted {
            return;
        }
        let mut hashes: Vec<u64> = self.values.keys().copied().collect();
        let (_, largest, _) = hashes.select_nth_unstable(self.wanted - 1);
        self.last = *largest;
        let last = self.last;
        self.values.retain(|hash, _| *hash <= last);
        assert_eq!(self.values.len(), self.wanted);
    }

    /// Returns the largest hash that is kept; `u64::MAX` if no key was left out.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the share of all possible keys that are kept.
    pub fn share(&self) -> f64 {
        ((self.last - self.first) as f64 + 1.0) / (u64::MAX as f64 + 1.0)
    }

    /// Returns the values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }

    /// Returns the number of keys kept.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no key is kept.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_smallest_hash_are_kept_with_their_values() {
        let mut keyed = SampledMap::new(100, 0, 7);
        for key in (0..10_000u64).chain(0..10_000) {
            if let Some(count) = keyed.entry(key, || 0) {
                *count += 1;
            }
            assert!(keyed.len() <= 200);
        }
        keyed.shrink();
        let mut hashes: Vec<u64> = (0..10_000).map(|key| key_hash(key, 7)).collect();
        hashes.sort_unstable();
        assert_eq!(keyed.last(), hashes[99]);
        assert_eq!(keyed.len(), 100);
        assert!(keyed.values().all(|count| *count == 2));
        let halves = keyed.map(|count| count / 2);
        let found = (0..10_000).filter(|key| halves.get(*key) == Some(&1));
        assert_eq!(found.count(), 100);
        let estimate = keyed.len() as f64 / keyed.share();
        // The standard deviation is a tenth of the estimate.
        assert!((5_000.0..20_000.0).contains(&estimate), "{estimate}");
    }

    #[test]
    fn few_keys_are_all_kept() {
        let mut keyed = SampledMap::new(10, 0, 7);
        for key in 0..10 {
            assert!(keyed.entry(key, || ()).is_some());
        }
        keyed.shrink();
        assert_eq!((keyed.len(), keyed.last()), (10, u64::MAX));
        assert_eq!(keyed.share(), 1.0);
    }

    #[test]
    fn keys_below_the_range_are_not_kept() {
        let middle = key_hash(5, 1);
        let mut keyed = SampledMap::new(10, middle, 1);
        let kept = (0..8).filter(|key| keyed.entry(*key, || ()).is_some());
        assert_eq!(
            kept.count(),
            (0..8).filter(|key| key_hash(*key, 1) >= middle).count()
        );
    }
}
