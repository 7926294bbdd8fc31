//! Groups that are learned from: their features when they were sampled, and the utility that has shown since.

use super::features::WIDTH;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// A cache of few entries may have so many samples all the same.
const WHATEVER_IS_HELD: usize = 512;

#[derive(Clone, Debug)]
struct Sample {
    features: [f32; WIDTH],
    /// What is added to each time until a request.
    grace: u32,
    /// The number of the request at which it was taken.
    taken_at: u64,
    /// One over time and size, summed over the entries that were asked for again.
    utility: f64,
}

/// An entry of a sampled group that has left it before it was asked for again.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    /// The low bits of the sample's number.
    sample: u32,
    weight: u32,
}

/// Key hashes are good bits already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Same(u64);

impl Hasher for Same {
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

/// The samples in the order in which they were taken, and the ghosts that still may tell of them.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    all: VecDeque<Sample>,
    /// The number of the oldest. Lower numbers were learned from.
    first: u64,
    ghosts: HashMap<u64, Ghost, BuildHasherDefault<Same>>,
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

    /// Whether there are as many as may be of a cache of so many entries.
    pub(super) fn are_enough(&self, held: usize) -> bool {
        self.all.len() >= self.limit.min(held.max(WHATEVER_IS_HELD))
    }

    /// Whether the sample of this number waits to be learned from.
    pub(super) fn is_collecting(&self, sample: u64) -> bool {
        sample.wrapping_sub(self.first) < self.all.len() as u64
    }

    /// A new sample's number.
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

    /// A member of the sampled group is asked for, for the first time since; no matter if the sample was learned
    /// from already.
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

    /// A member leaves the sampled group and was not asked for since. With as many ghosts as `limit` there
    /// are no more; one key has one ghost, that of its last group. Whether there is one now.
    pub(super) fn haunt(&mut self, sample: u64, key_hash: u64, weight: u32, limit: usize) -> bool {
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

    /// A key is asked for that may have a ghost, which is done with then.
    #[inline]
    pub(super) fn settle(&mut self, key_hash: u64, requests: u64) {
        if self.ghosts.is_empty() {
            return;
        }
        if let Some(ghost) = self.ghosts.remove(&key_hash) {
            let index = ghost.sample.wrapping_sub(self.first as u32) as usize;
            assert!(index < self.all.len(), "ghosts go with their samples");
            self.count(index, requests, ghost.weight);
        }
    }

    /// How many were taken before the request of this number.
    pub(super) fn older_than(&self, request: u64) -> usize {
        self.all.partition_point(|sample| sample.taken_at < request)
    }

    /// Takes these out, oldest first.
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
        // A slot of the table has a byte of its own beside key and ghost, and one in eight stays free.
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
