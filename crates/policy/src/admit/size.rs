//! Admission by size: an object above a weight limit is not admitted.
//!
//! # Idea
//! One large object takes the place of many small ones, each of which may be hit as often.
//!
//! # Source
//! The threshold rule, `THRESH` in M. Abrams, C. R. Standridge, G. Abdulla, S. Williams, E. A. Fox,
//! *Caching proxies: limitations and potentials*, WWW 4, 1995.
//!
//! # State
//! 0 bytes.
//!
//! # Cost
//! One comparison per miss.
//!
//! # Knobs
//! `max` (65536; 1 to 4294967295): the largest weight that is admitted.
//!
//! # Departures
//! None.
//!
//! # Avoid when
//! Objects are counted, not bytes: every one weighs 1. The best limit differs by workload and hour;
//! `adaptsize` searches for it.

use super::{Admission, MissedKey, yes_if};
use crate::knobs::Knobs;
use crate::{Admit, Facts};

crate::knobs! {
    /// Knobs of [`Size`].
    pub struct SizeConfig {
        /// Largest weight that is admitted.
        max: u32 = 65536, 1 => 4294967295;
    }
}

/// Admits objects up to a weight.
#[derive(Clone, Debug)]
pub struct Size {
    max: u32,
}

impl Admission for Size {
    type Config = SizeConfig;
    const NAME: &'static str = "size";
    const LISTENS: bool = false;

    fn new(_capacity: u64, config: &SizeConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Size { max: config.max }
    }

    #[inline]
    fn admit(&mut self, _facts: &impl Facts, missed: MissedKey) -> Admit {
        yes_if(missed.weight <= self.max)
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self) {}
}
