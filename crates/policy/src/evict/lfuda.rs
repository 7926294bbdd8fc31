//! LFU-DA: least frequently used, with dynamic aging.
//!
//! # Idea
//! LFU never evicts entries that were popular once. Here the rank of the last victim, the *cache
//! age*, is added to an entry's frequency when it is ranked, so that new entries overtake those
//! that are no longer requested.
//!
//! # Source
//! M. Arlitt, L. Cherkasova, J. Dilley, R. Friedrich, T. Jin, *Evaluating content management
//! techniques for web proxy caches*, ACM SIGMETRICS Performance Evaluation Review 27(4), 2000,
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
//! None. Among equals the least recently requested is evicted.
//!
//! # Avoid when
//! Hits must be cheap (`s3fifo` forgets as well, and only marks).

use super::gdsf::{GreedyDual, Worth};

/// Worth of LFU-DA: the frequency alone.
#[derive(Clone, Debug)]
pub struct ByFrequency;

impl Worth for ByFrequency {
    const NAME: &'static str = "lfuda";
    #[inline]
    fn of(frequency: u32, _weight: u32) -> f64 {
        f64::from(frequency)
    }
}

/// The LFU-DA policy.
pub type Lfuda = GreedyDual<ByFrequency>;
