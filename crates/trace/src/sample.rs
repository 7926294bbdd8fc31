//! Spatial samples: all requests of some objects, which are chosen by the hash of their keys.
//!
//! Source: C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC construction with
//! SHARDS", FAST 2015. A cache simulated on a sample is scaled down in proportion: for a share R of
//! the objects, a cache of R times the size. Departure: a sample of fixed size needs a pass of its
//! own before requests are chosen, so that it holds all requests of its objects, including the
//! earliest ones.

use crate::sampled_map::{SampledMap, key_hash};

/// A sample of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Largest hash in the sample; `None` for an empty sample.
    last: Option<u64>,
    seed: u64,
}

impl Sample {
    /// Creates a sample with a share of all objects, from 0 to 1.
    ///
    /// ```
    /// let sample = trace::Sample::of_share(0.1, 42);
    /// let kept = (0..10_000).filter(|key| sample.has(*key)).count();
    /// assert!((900..1_100).contains(&kept));
    /// ```
    pub fn of_share(share: f64, seed: u64) -> Self {
        assert!((0.0..=1.0).contains(&share));
        // The conversion saturates: a share of 1 has all hashes.
        let count = (share * 2f64.powi(64)) as u64;
        let last = if share >= 1.0 {
            Some(u64::MAX)
        } else {
            count.checked_sub(1)
        };
        Sample { last, seed }
    }

    /// Whether the object of this key is in the sample.
    #[inline]
    pub fn has(&self, key: u64) -> bool {
        self.last
            .is_some_and(|last| key_hash(key, self.seed) <= last)
    }

    /// Returns the share of all possible keys that are in the sample.
    pub fn share(&self) -> f64 {
        let count = self.last.map_or(0.0, |last| last as f64 + 1.0);
        count / 2f64.powi(64)
    }
}

/// Finds a sample with a fixed number of objects, in a pass over all keys.
pub struct FixedSizeSample {
    keys: SampledMap<()>,
    seed: u64,
}

impl FixedSizeSample {
    /// Creates a sample of at most `objects_max` ≥ 1 objects.
    pub fn new(objects_max: usize, seed: u64) -> Self {
        FixedSizeSample {
            keys: SampledMap::new(objects_max, 0, seed),
            seed,
        }
    }

    /// Adds the key of a request.
    #[inline]
    pub fn look(&mut self, key: u64) {
        self.keys.entry(key, || ());
    }

    /// Returns the sample of the objects added, or of all if there were fewer than the maximum.
    pub fn sample(mut self) -> Sample {
        self.keys.shrink();
        Sample {
            last: Some(self.keys.last()),
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_range_from_none_to_all() {
        assert!((0..1000).all(|key| !Sample::of_share(0.0, 1).has(key)));
        assert!((0..1000).all(|key| Sample::of_share(1.0, 1).has(key)));
        let (small, large) = (Sample::of_share(0.2, 1), Sample::of_share(0.3, 1));
        assert!((0..1000).all(|key| !small.has(key) || large.has(key)));
        assert!((0..1000).any(|key| small.has(key) != Sample::of_share(0.2, 2).has(key)));
        assert!((small.share() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_sample_of_fixed_size_has_exactly_that_size() {
        for (objects, wanted) in [(5_000u64, 300usize), (300, 300), (10, 300)] {
            let mut finder = FixedSizeSample::new(wanted, 9);
            for key in (0..objects).chain(0..objects) {
                finder.look(key * 31);
            }
            let sample = finder.sample();
            let kept = (0..objects).filter(|key| sample.has(key * 31)).count();
            assert_eq!(kept, wanted.min(objects as usize));
        }
    }
}
