//! The second request: a key is kept when it was missed before, lately.
//!
//! # Idea
//! Most keys of a content delivery network are asked for once. A pair of Bloom filters remembers who
//! was missed; only who comes again is kept. When the younger filter is full, it becomes the older,
//! and an empty one takes its place.
//!
//! # Source
//! B. M. Maggs, R. K. Sitaraman, *Algorithmic nuggets in content delivery*, ACM SIGCOMM CCR 45(3),
//! 2015, <https://doi.org/10.1145/2805789.2805800>.
//!
//! # State
//! 4 to 8 bytes for each entry of the cache, whatever the keys missed.
//!
//! # Cost
//! One cache line a miss.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The filters give way block by block instead of all at once. A filter is full when it has seen as
//! many new keys as the cache holds entries. One key in a hundred is taken for another. Hits are not
//! noted: a key that was popular and evicted is new again once its admission is forgotten.
//!
//! # Avoid when
//! Requests for a key come close together, as is common: then each costs a miss more, and a small
//! FIFO (`s3fifo`) does the same work with that miss as a hit.

use super::{Admission, Newcomer};
use crate::parts::bloom::{Bloom, KEYS_PER_BLOCK};
use crate::{Admit, Facts};

/// Admits at the second request.
#[derive(Clone, Debug)]
pub struct SecondRequest {
    filter: Bloom,
    /// New keys since the filter's hand last moved.
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
    fn admit(&mut self, facts: &impl Facts, newcomer: Newcomer) -> Admit {
        self.filter.expect(facts.len());
        if self.filter.see(newcomer.key_hash) {
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
