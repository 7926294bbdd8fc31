//! B-LRU: LRU that inserts a key from its second miss on.
//!
//! # Idea
//! Most keys are requested once. A Bloom filter remembers the keys that were missed; only a key
//! that is missed again is inserted, in LRU order. A key requested once takes no room, and every
//! other key pays one more miss for that.
//!
//! # Source
//! B. M. Maggs, R. K. Sitaraman, *Algorithmic nuggets in content delivery*, ACM SIGCOMM CCR 45(3),
//! 2015, <https://doi.org/10.1145/2805789.2805800>; compared by J. Yang, Y. Zhang, Z. Qiu, Y. Yue,
//! K. V. Rashmi, *FIFO queues are all you need for cache eviction*, SOSP 2023,
//! <https://doi.org/10.1145/3600006.3613147>.
//!
//! # State
//! Per entry: 8 bytes (two links of 31 bits). Besides: 4 to 8 bytes of filter per entry and unit of
//! `window`.
//!
//! # Cost
//! hit, insert, remove, evict O(1) · miss: one cache line of the filter.
//!
//! # Knobs
//! `window` (1; 1 to 1000): number of keys that the filter remembers, in entries of the cache.
//!
//! # Departures
//! Only simulated, because a server has to store what it is given. The study's simulator remembers
//! every key ever missed, exactly; here the filter forgets a key, block by block, between one and
//! two windows later, and mistakes one key in a hundred for another. (The same filter before any
//! other policy is the admission filter `bloom`.)
//!
//! # Avoid when
//! Requests for a key come close together, as is common: the source found it worse than LRU in most
//! cases. A small FIFO (`s3fifo`) does the same work and answers the second request with a hit.

use super::lru::Lru;
use crate::knobs::Knobs;
use crate::parts::bloom::{Bloom, KEYS_PER_BLOCK};
use crate::parts::list::Node;
use crate::{Admit, Cells, Facts, OnHit, Policy};

crate::knobs! {
    /// Knobs of [`BLru`].
    pub struct BLruConfig {
        /// Number of keys that the filter remembers, as a multiple of the number of entries in the
        /// cache.
        window: u32 = 1, 1 => 1000;
    }
}

/// The B-LRU policy.
#[derive(Clone, Debug)]
pub struct BLru {
    lru: Lru,
    missed: Bloom,
    /// Number of new keys since the filter's hand last moved.
    added: usize,
    window: usize,
}

impl Policy for BLru {
    type Meta = Node;
    type Config = BLruConfig;
    const NAME: &'static str = "b-lru";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &BLruConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        BLru {
            lru: Lru::new(capacity, &(), seed),
            missed: Bloom::new(),
            added: 0,
            window: config.window as usize,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.lru.resize(capacity);
    }

    #[inline]
    fn miss(&mut self, facts: &impl Facts, key_hash: u64, _weight: u32) -> Admit {
        self.missed.expect(facts.len() * self.window);
        if self.missed.see(key_hash) {
            return Admit::Yes;
        }
        self.added += 1;
        if self.added == KEYS_PER_BLOCK {
            self.added = 0;
            self.missed.turn();
        }
        Admit::No
    }

    forward!(lru: Node, insert reorder reweigh moved remove evict);

    fn heap_bytes(&self) -> usize {
        self.missed.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        self.lru.check(cells);
        assert!(self.added < KEYS_PER_BLOCK);
    }
}
