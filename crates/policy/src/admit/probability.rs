//! Admission by chance: each missed key is admitted with a fixed probability.
//!
//! # Idea
//! A key that is requested often is missed often, and so is admitted soon; one that is requested
//! once mostly stays out. Nothing is remembered.
//!
//! # Source
//! The probabilistic admission to flash, at 20 %, in J. Yang, *Designing efficient and scalable
//! key-value cache management systems*, Carnegie Mellon University 2024, section 8.4.4; also in
//! B. Berg et al., *The CacheLib caching engine*, OSDI 2020,
//! <https://www.usenix.org/conference/osdi20/presentation/berg>.
//!
//! # State
//! 8 bytes of a generator.
//!
//! # Cost
//! One random number per miss.
//!
//! # Knobs
//! `p` (0.2; 0.0 to 1.0): the probability of admission.
//!
//! # Departures
//! None.
//!
//! # Avoid when
//! Misses are expensive: a key of middling popularity is missed `1 / p` times before it is
//! admitted.

use super::{Admission, MissedKey, yes_if};
use crate::knobs::Knobs;
use crate::parts::chance::Chance;
use crate::{Admit, Facts};

crate::knobs! {
    /// Knobs of [`Probability`].
    pub struct ProbabilityConfig {
        /// Probability of admission.
        p: f64 = 0.2, 0.0 => 1.0;
    }
}

/// Admits by chance.
#[derive(Clone, Debug)]
pub struct Probability {
    p: f64,
    chance: Chance,
}

impl Admission for Probability {
    type Config = ProbabilityConfig;
    const NAME: &'static str = "probability";
    const LISTENS: bool = false;

    fn new(_capacity: u64, config: &ProbabilityConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Probability {
            p: config.p,
            chance: Chance::new(seed),
        }
    }

    #[inline]
    fn admit(&mut self, _facts: &impl Facts, _missed: MissedKey) -> Admit {
        yes_if(self.chance.unit() < self.p)
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self) {}
}
