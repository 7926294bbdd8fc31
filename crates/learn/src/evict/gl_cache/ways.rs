//! Which way groups are chosen and merged: three are tried in miniature on a sample of the keys, and the cache goes
//! the one that misses least.
//!
//! ```text
//! merge   by age, a hundred entries at a time; those hit most for their weight stay, a half
//! asked   by age; of what the paper keeps, only what was asked for since it came to its group
//! model   by what the model predicts; what the paper keeps
//! ```
//! A model may rank well and still be no help, because what is useful in a group that goes early stays in
//! the merge; no figure about predictions tells that, misses do.

use super::miniature::Miniature;
use super::{GlCache, GlConfig};
use policy::Tick;
use policy::parts::chance::scramble;

/// How groups are chosen, and what stays of those that are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// As FIFO-Merge does.
    #[default]
    Merge,
    /// By age, and nothing stays that was not asked for.
    Asked,
    /// By the model, once there is one; until then as FIFO-Merge does.
    Model,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; COUNT] = [Way::Merge, Way::Asked, Way::Model];

    /// Its name.
    pub const fn name(self) -> &'static str {
        ["merge", "asked", "model"][self as usize]
    }
}

const COUNT: usize = 3;
/// Entries of a miniature: the sample is halved until there are fewer than twice as many.
const ENTRIES_MIN: usize = 2048;
/// Decisions in the time in which as many keys of the sample are asked for as a miniature holds.
const DECISIONS_PER_FILLING: usize = 4;
const PERIOD_MIN: usize = 16;
/// What remains of all counts from one decision to the next.
const FADING: f64 = 1.0 - 1.0 / 256.0;
/// By how many of its standard deviations a difference must exceed nothing.
const MARGIN: f64 = 4.0;

/// The miniatures and what they missed.
pub(super) struct Trials {
    miniatures: [Miniature; COUNT],
    /// A key is in the sample if so many leading bits of its scrambled hash are zero.
    shift: u32,
    /// How many requests one missed and the other did not, fading.
    lost: [[f64; COUNT]; COUNT],
    /// Requests of the sample until the next decision.
    left: usize,
    period: usize,
    way: Way,
}

impl Trials {
    /// Trials of a cache that `held` entries fill.
    pub(super) fn new(capacity: u64, held: usize, config: &GlConfig, seed: u64) -> Trials {
        let shift = (held / ENTRIES_MIN).max(1).ilog2();
        let period = ((held >> shift) / DECISIONS_PER_FILLING).max(PERIOD_MIN);
        let capacity = (capacity >> shift).max(1);
        Trials {
            miniatures: Way::ALL.map(|way| Miniature::new(capacity, config, way, seed)),
            shift,
            lost: [[0.0; COUNT]; COUNT],
            left: period,
            period,
            way: Way::default(),
        }
    }

    /// Whether the cache has outgrown its sample.
    pub(super) fn are_outgrown(&self, held: usize) -> bool {
        held >> self.shift >= 2 * ENTRIES_MIN
    }

    /// The way that is best as far as is known.
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// A key is asked for.
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

    /// Goes another way if that missed clearly less.
    fn decide(&mut self) {
        let own = self.way as usize;
        let gain = |other: usize| {
            let (lost, won) = (self.lost[own][other], self.lost[other][own]);
            (lost - won) / (lost + won).max(1.0).sqrt()
        };
        for (other, way) in Way::ALL.into_iter().enumerate() {
            if gain(other) > MARGIN && gain(other) >= (0..COUNT).map(gain).fold(0.0, f64::max) {
                self.way = way;
                break;
            }
        }
        self.lost
            .iter_mut()
            .flatten()
            .for_each(|count| *count *= FADING);
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
    /// The way that the next groups go.
    pub(super) fn way(&self) -> Way {
        let way = match (&self.trials, self.config.way) {
            (_, Some(way)) => way,
            (Some(trials), None) => trials.way(),
            (None, None) => Way::default(),
        };
        match way {
            _ if ORACLE => Way::Model,
            Way::Model if !self.regressor.is_trained() => Way::Merge,
            way => way,
        }
    }

    /// Whether there is a way that asks the model.
    pub(super) fn learns(&self) -> bool {
        !ORACLE && self.config.way.is_none_or(|way| way == Way::Model)
    }

    /// Sees to the trials, now that the cache is full.
    pub(super) fn keep_trials(&mut self) {
        let trials = self.trials.as_ref();
        if ORACLE
            || self.config.way.is_some()
            || trials.is_some_and(|all| !all.are_outgrown(self.held))
        {
            return;
        }
        let trials = Trials::new(self.capacity, self.held, &self.config, self.seed);
        self.trials = Some(Box::new(trials));
    }
}
