//! Trials of the three strategies on miniature caches with a sample of the keys, to find the one
//! that misses least.
//!
//! ```text
//! merge   by age, a hundred entries at a time; keeps the half with the most hits per weight
//! asked   by age; of the entries that the paper keeps, only those requested in their group
//! model   by the model's predictions; keeps what the paper keeps
//! ```
//! A model may rank well and still not help, because the merge already keeps the useful entries of
//! an early group. Measures of its predictions cannot show that, but the number of misses does.

use super::GlCache;
use super::knobs::{COUNT, GlConfig, Strategy};
use super::miniature::Miniature;
use policy::Tick;
use policy::parts::chance::scramble;

/// Minimum number of entries in a miniature. The sample of keys is halved while a miniature would
/// have at least twice this number.
const ENTRIES_MIN: usize = 2048;
/// Number of decisions during the time in which the sample receives as many requests as a miniature
/// has entries.
const DECISIONS_PER_FILLING: usize = 4;
const PERIOD_MIN: usize = 16;
/// Factor that multiplies all counts at each decision, so that old requests lose weight.
const DECAY: f64 = 1.0 - 1.0 / 256.0;
/// Number of standard deviations by which the misses of two strategies must differ to count as
/// clearly different.
const MARGIN: f64 = 4.0;

/// Miniature caches, one per strategy, and their misses.
pub(super) struct Trials {
    miniatures: [Miniature; COUNT],
    /// Number of leading zero bits in the scrambled hash of a sampled key.
    shift: u32,
    /// Number of requests that the first strategy missed and the second did not, weighted by age.
    lost: [[f64; COUNT]; COUNT],
    /// Number of sampled requests until the next decision.
    left: usize,
    period: usize,
    way: Strategy,
}

impl Trials {
    /// Creates the trials for a cache that is full with `held` entries.
    pub(super) fn new(capacity: u64, held: usize, config: &GlConfig, seed: u64) -> Trials {
        let shift = (held / ENTRIES_MIN).max(1).ilog2();
        let period = ((held >> shift) / DECISIONS_PER_FILLING).max(PERIOD_MIN);
        let capacity = (capacity >> shift).max(1);
        Trials {
            miniatures: Strategy::ALL.map(|way| Miniature::new(capacity, config, way, seed)),
            shift,
            lost: [[0.0; COUNT]; COUNT],
            left: period,
            period,
            way: Strategy::default(),
        }
    }

    /// Returns true if the cache has outgrown its sample of keys, which is then too large.
    pub(super) fn is_outgrown(&self, held: usize) -> bool {
        held >> self.shift >= 2 * ENTRIES_MIN
    }

    /// Returns the best strategy so far.
    pub(super) fn strategy(&self) -> Strategy {
        self.way
    }

    /// Passes a request to the miniatures if its key is in the sample, and counts their misses.
    #[inline]
    pub(super) fn request(&mut self, key_hash: u64, weight: u32, now: Tick) {
        if scramble(key_hash).leading_zeros() >= self.shift {
            self.request_sampled(key_hash, weight, now);
        }
    }

    fn request_sampled(&mut self, key_hash: u64, weight: u32, now: Tick) {
        let miniatures = self.miniatures.each_mut();
        let is_hit = miniatures.map(|one| one.request(key_hash, weight, now));
        for (lost, _) in self
            .lost
            .iter_mut()
            .zip(is_hit)
            .filter(|(_, is_hit)| !is_hit)
        {
            for (count, is_hit) in lost.iter_mut().zip(is_hit) {
                *count += f64::from(u8::from(is_hit));
            }
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.period;
            self.decide();
        }
    }

    /// Changes the strategy if another one has missed clearly less.
    fn decide(&mut self) {
        let own = self.way as usize;
        let gain = |other: usize| {
            let (lost, won) = (self.lost[own][other], self.lost[other][own]);
            (lost - won) / (lost + won).max(1.0).sqrt()
        };
        for (other, way) in Strategy::ALL.into_iter().enumerate() {
            if gain(other) > MARGIN && gain(other) >= (0..COUNT).map(gain).fold(0.0, f64::max) {
                self.way = way;
                break;
            }
        }
        self.lost
            .iter_mut()
            .flatten()
            .for_each(|count| *count *= DECAY);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let miniatures = self.miniatures.iter().map(Miniature::heap_bytes);
        size_of::<Trials>() + miniatures.sum::<usize>()
    }

    pub(super) fn check(&self) {
        self.miniatures.iter().for_each(Miniature::check);
        assert!(self.left > 0);
    }
}

impl<const ORACLE: bool> GlCache<ORACLE> {
    /// Returns the strategy for the next merge.
    pub(super) fn strategy(&self) -> Strategy {
        let way = match (&self.trials, self.config.way) {
            (_, Some(way)) => way,
            (Some(trials), None) => trials.strategy(),
            (None, None) => Strategy::default(),
        };
        match way {
            _ if ORACLE => Strategy::Model,
            Strategy::Model if !self.regressor.is_trained() => Strategy::Merge,
            way => way,
        }
    }

    /// Returns true if a strategy in use or on trial needs the model.
    pub(super) fn learns(&self) -> bool {
        !ORACLE && self.config.way.is_none_or(|way| way == Strategy::Model)
    }

    /// Begins the trials once the cache is full, and again when it has outgrown them.
    pub(super) fn keep_trials(&mut self) {
        let trials = self.trials.as_ref();
        if ORACLE
            || self.config.way.is_some()
            || trials.is_some_and(|all| !all.is_outgrown(self.held))
        {
            return;
        }
        let trials = Trials::new(self.capacity, self.held, &self.config, self.seed);
        self.trials = Some(Box::new(trials));
    }
}
