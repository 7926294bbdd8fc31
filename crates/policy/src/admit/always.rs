//! No filter: every missed key is admitted.
//!
//! # Idea
//! The eviction policy alone decides.
//!
//! # Source
//! The rule of nearly every cache, and the first of the schemes compared in J. Yang, *Designing
//! efficient and scalable key-value cache management systems*, Carnegie Mellon University 2024,
//! section 8.4.4.
//!
//! # State
//! 0 bytes.
//!
//! # Cost
//! None.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! None.
//!
//! # Avoid when
//! Writes are expensive, as on flash, or a few large objects evict many small ones.

use super::{Admission, MissedKey};
use crate::{Admit, Facts};

/// Admits everything.
#[derive(Clone, Debug)]
pub struct Always;

impl Admission for Always {
    type Config = ();
    const NAME: &'static str = "always";
    const ALIASES: &'static [&'static str] = &["none"];
    const LISTENS: bool = false;

    fn new(_capacity: u64, _config: &(), _seed: u64) -> Self {
        Always
    }

    #[inline]
    fn admit(&mut self, _facts: &impl Facts, _missed: MissedKey) -> Admit {
        Admit::Yes
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self) {}
}
