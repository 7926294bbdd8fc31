//! Second request: a key is admitted if it was missed before, recently.
//!
//! # Idea
//! Most keys of a content delivery network are requested once. A pair of Bloom filters remembers
//! the keys that were missed; only a key that is missed again is admitted. When the younger filter
//! is full, it becomes the older one, and an empty one takes its place.
//!
//! # Source
//! B. M. Maggs, R. K. Sitaraman, *Algorithmic nuggets in content delivery*, ACM SIGCOMM CCR 45(3),
//! 2015, <https://doi.org/10.1145/2805789.2805800>.
//!
//! # State
//! 4 to 8 bytes for each entry of the cache, independent of the number of keys missed.
//!
//! # Cost
//! One cache line per miss.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The filters are replaced block by block instead of all at once. A filter is full when it has
//! seen as many new keys as the cache holds entries. One key in a hundred is mistaken for another.
//! Hits are not recorded: a key that was popular and then evicted counts as new once its admission
//! is forgotten.
//!
//! # Avoid when
//! Requests for a key come close together, as is common. Each key then costs one more miss, and a
//! small FIFO (`s3fifo`) does the same work with that miss as a hit.

use super::{Admission, MissedKey};
use crate::parts::bloom::{Bloom, KEYS_PER_BLOCK};
use crate::{Admit, Facts};

/// Admits a key at its second request.
#[derive(Clone, Debug)]
pub struct SecondRequest {
    filter: Bloom,
    /// Number of new keys since the filter's hand last moved.
    added: usize,
}

impl Admission for SecondRequest {
    type Config = ();
    const NAME: &'static str = "bloom";
    const ALIASES: &'static [&'static str] = &["bloom-filter", "second-request"];
    const LISTENS: bool = false;

    fn new(_capacity: u64, _config: &(), _seed: u64) -> Self {
        SecondRequest {
            filter: Bloom::new(),
            added: 0,
        }
    }

    #[inline]
    fn admit(&mut self, facts: &impl Facts, missed: MissedKey) -> Admit {
        self.filter.expect(facts.len());
        if self.filter.see(missed.key_hash) {
            return Admit::Yes;
        }
        self.added += 1;
        if self.added == KEYS_PER_BLOCK {
            self.added = 0;
            self.filter.turn();
        }
        Admit::No
    }

    fn heap_bytes(&self) -> usize {
        self.filter.heap_bytes()
    }

    fn check(&self) {
        assert!(self.added < KEYS_PER_BLOCK);
        assert!(self.filter.block_count().is_power_of_two());
    }
}
