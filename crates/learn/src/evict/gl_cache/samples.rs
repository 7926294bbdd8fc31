//! Samples of groups: the features at the time of sampling, and the utility observed since then.

use super::features::WIDTH;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Minimum of the limit on samples, for small caches.
const LIMIT_MIN: usize = 512;

#[derive(Clone, Debug)]
struct Sample {
    features: [f32; WIDTH],
    /// Number of requests added to each measured distance, so that an immediate request does not
    /// outweigh all others.
    grace: u32,
    /// Number of the request at which the sample was taken.
    taken_at: u64,
    /// Sum of 1 / (distance × size) over the entries requested since then.
    utility: f64,
}

/// Entry of a sampled group that was evicted before it was requested.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    /// Low bits of the number of the entry's sample.
    sample: u32,
    weight: u32,
}

/// Hasher that returns key hashes unchanged, because they are evenly distributed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64");
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Samples in chronological order, and ghosts of their entries.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    all: VecDeque<Sample>,
    /// Number of the oldest sample. All samples with lower numbers have been used and removed.
    first: u64,
    ghosts: HashMap<u64, Ghost, BuildHasherDefault<IdentityHasher>>,
    limit: usize,
}

impl Samples {
    pub(super) fn new(limit: usize) -> Samples {
        Samples {
            all: VecDeque::new(),
            first: 0,
            ghosts: HashMap::default(),
            limit,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns true if there are as many samples as a cache of `held` entries may have.
    pub(super) fn is_full(&self, held: usize) -> bool {
        self.all.len() >= self.limit.min(held.max(LIMIT_MIN))
    }

    /// Returns true if the sample with this number is still collecting.
    pub(super) fn is_collecting(&self, sample: u64) -> bool {
        sample.wrapping_sub(self.first) < self.all.len() as u64
    }

    /// Adds a sample and returns its number.
    pub(super) fn add(&mut self, features: [f32; WIDTH], requests: u64, grace: u32) -> u64 {
        assert!(self.all.len() < self.limit);
        self.all.push_back(Sample {
            features,
            grace,
            taken_at: requests,
            utility: 0.0,
        });
        self.first + self.all.len() as u64 - 1
    }

    /// Adds a member's first request to the utility of the sample. Does nothing if the sample has
    /// been used.
    #[inline]
    pub(super) fn add_utility(&mut self, sample: u64, requests: u64, weight: u32) {
        if self.is_collecting(sample) {
            self.count((sample - self.first) as usize, requests, weight);
        }
    }

    fn count(&mut self, index: usize, requests: u64, weight: u32) {
        let sample = &mut self.all[index];
        let time = (requests - sample.taken_at).max(1) + u64::from(sample.grace);
        sample.utility += 1.0 / (time as f64 * f64::from(weight.max(1)));
    }

    /// Adds a ghost of a member that was not requested since the sample was taken. Returns false if
    /// there are already `limit` ghosts. A key has at most one ghost, for the last group that it
    /// was in.
    pub(super) fn add_ghost(
        &mut self,
        sample: u64,
        key_hash: u64,
        weight: u32,
        limit: usize,
    ) -> bool {
        if self.ghosts.len() >= limit && !self.ghosts.contains_key(&key_hash) {
            return false;
        }
        let ghost = Ghost {
            sample: sample as u32,
            weight,
        };
        self.ghosts.insert(key_hash, ghost);
        true
    }

    /// Counts a request for a key that may have a ghost, and removes the ghost.
    #[inline]
    pub(super) fn resolve_ghost(&mut self, key_hash: u64, requests: u64) {
        if self.ghosts.is_empty() {
            return;
        }
        if let Some(ghost) = self.ghosts.remove(&key_hash) {
            let index = ghost.sample.wrapping_sub(self.first as u32) as usize;
            assert!(index < self.all.len(), "ghosts go with their samples");
            self.count(index, requests, ghost.weight);
        }
    }

    /// Returns the number of samples taken before the request with this number.
    pub(super) fn older_than(&self, request: u64) -> usize {
        self.all.partition_point(|sample| sample.taken_at < request)
    }

    /// Removes the samples taken before the request with this number, oldest first, and calls
    /// `each` with the features and utility of each.
    pub(super) fn take_older_than(&mut self, request: u64, mut each: impl FnMut(&[f32], f64)) {
        let count = self.older_than(request);
        for sample in self.all.drain(..count) {
            each(&sample.features, sample.utility);
        }
        self.first += count as u64;
        let (first, left) = (self.first as u32, self.all.len());
        self.ghosts
            .retain(|_, ghost| (ghost.sample.wrapping_sub(first) as usize) < left);
        self.ghosts.shrink_to(2 * self.ghosts.len());
    }

    pub(super) fn heap_bytes(&self) -> usize {
        // A slot of the table takes one byte beside the key and the ghost, and one in eight slots
        // is free.
        self.all.capacity() * size_of::<Sample>() + self.ghosts.capacity() * 17 * 8 / 7
    }

    pub(super) fn check(&self) {
        assert!(self.all.len() <= self.limit);
        let samples = self.all.iter();
        assert!(samples.clone().is_sorted_by_key(|sample| sample.taken_at));
        assert!(samples.clone().all(|sample| sample.utility.is_finite()));
        for ghost in self.ghosts.values() {
            let index = ghost.sample.wrapping_sub(self.first as u32) as usize;
            assert!(index < self.all.len());
        }
    }
}
