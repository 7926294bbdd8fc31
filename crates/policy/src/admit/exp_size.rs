//! Admission by chance and size: the larger an object, the less likely it is admitted.
//!
//! # Idea
//! An object of weight `w` is admitted with probability `exp(-w / c)`: small ones nearly always,
//! those of several times `c` nearly never. There is no hard limit, so a popular large object is
//! admitted after some misses.
//!
//! # Source
//! The static form of D. S. Berger, R. K. Sitaraman, M. Harchol-Balter, *AdaptSize: orchestrating
//! the hot object memory cache in a content delivery network*, NSDI 2017,
//! <https://www.usenix.org/conference/nsdi17/technical-sessions/presentation/berger>.
//!
//! # State
//! 8 bytes of a generator.
//!
//! # Cost
//! One random number and one exponential per miss.
//!
//! # Knobs
//! `c` (65536; 1 to 1e15): the weight that is admitted with probability 1/e.
//!
//! # Departures
//! None.
//!
//! # Avoid when
//! Objects are counted, not bytes: then it is `probability`. No single `c` fits all hours;
//! `adaptsize` adjusts it.

use super::{Admission, MissedKey, yes_if};
use crate::knobs::Knobs;
use crate::parts::chance::Chance;
#[cfg(not(any(test, feature = "std")))]
use crate::parts::float::Float as _;
use crate::{Admit, Facts};

crate::knobs! {
    /// Knobs of [`ExpSize`].
    pub struct ExpSizeConfig {
        /// Weight that is admitted with probability 1/e.
        c: f64 = 65536.0, 1.0 => 1e15;
    }
}

/// Admits by chance and size.
#[derive(Clone, Debug)]
pub struct ExpSize {
    c: f64,
    chance: Chance,
}

impl Admission for ExpSize {
    type Config = ExpSizeConfig;
    const NAME: &'static str = "exp-size";
    const LISTENS: bool = false;

    fn new(_capacity: u64, config: &ExpSizeConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        ExpSize {
            c: config.c,
            chance: Chance::new(seed),
        }
    }

    #[inline]
    fn admit(&mut self, _facts: &impl Facts, missed: MissedKey) -> Admit {
        yes_if(self.chance.unit() < (-f64::from(missed.weight) / self.c).exp())
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self) {}
}
