//! LFU-DA: least frequently used, with dynamic aging.
//!
//! # Idea
//! LFU never gives up what was popular once. Here the rank of the last victim, the *cache age*, is added
//! to an entry's frequency when it is ranked, so that newcomers overtake who is not asked for any more.
//!
//! # Source
//! M. Arlitt, L. Cherkasova, J. Dilley, R. Friedrich, T. Jin, *Evaluating content management techniques
//! for web proxy caches*, ACM SIGMETRICS Performance Evaluation Review 27(4), 2000,
//! <https://doi.org/10.1145/346000.346003>.
//!
//! # State
//! Per entry: 8 bytes (its place in a heap, its frequency) and 24 in the heap.
//!
//! # Cost
//! hit, insert, remove, evict O(log n).
//!
//! # Knobs
//! None.
//!
//! # Departures
//! None. Among equals the one asked for the longest ago goes.
//!
//! # Avoid when
//! Hits must be cheap (`s3fifo` forgets too, and only marks).

use super::gdsf::{GreedyDual, Worth};

/// Frequency alone: LFU-DA.
#[derive(Clone, Debug)]
pub struct ByFrequency;

impl Worth for ByFrequency {
    const NAME: &'static str = "lfuda";
    #[inline]
    fn of(frequency: u32, _weight: u32) -> f64 {
        f64::from(frequency)
    }
}

/// LFU-DA.
pub type Lfuda = GreedyDual<ByFrequency>;
