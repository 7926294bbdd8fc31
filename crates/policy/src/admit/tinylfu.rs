//! TinyLFU: a new key is admitted if it is requested more often than an entry that would be evicted
//! for it.
//!
//! # Idea
//! A sketch counts how often each key was requested recently, held or not. A *doorkeeper*, a Bloom
//! filter before it, takes every key's first request, so that the many keys that come once do not
//! crowd the counters.
//!
//! # Source
//! G. Einziger, R. Friedman, B. Manes, *TinyLFU: a highly efficient cache admission policy*, ACM
//! Transactions on Storage 13(4), 2017, <https://doi.org/10.1145/3149371>.
//!
//! # State
//! 16 bytes for each entry of the cache, up to twice that after the tables doubled: half of them
//! counters of 4 bits, half the doorkeeper.
//!
//! # Cost
//! hit: a line of the doorkeeper, and four counters from the second request on · miss: the same,
//! and with a full cache the counters of two keys · eviction: one write.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! A filter that does not know the policy cannot see its next victim: the new key must be more
//! frequent than one of the last eight victims, drawn at random. One rejected key in 128 is
//! admitted, because otherwise no entry would be evicted any more once the last victims were
//! popular, and the eight would never change. (Comparing with entries sampled from the cache was
//! tried: the entries then evicted are others, and a scan is admitted.) Counters and doorkeeper are
//! aged step by step, not all at once, within ten times as many requests as there are entries.
//! Weights are not compared.
//!
//! # Avoid when
//! Popularity moves quickly, or the policy itself has such a filter (`w-tinylfu`). Objects that
//! differ much in size.

use super::{Admission, MissedKey, yes_if};
use crate::parts::bloom::{Bloom, KEYS_PER_BLOCK};
use crate::parts::chance::Chance;
use crate::parts::sketch::Sketch;
use crate::{Admit, Facts, Slot};

/// Number of requests for each entry of the cache during which counters and doorkeeper are aged
/// once.
const SAMPLE: usize = 10;
/// Number of keys per cache entry for which the doorkeeper is sized. In a round it gets up to
/// `SAMPLE` keys per entry. If all are new, one in three is mistaken for another and counted.
const DOOR: usize = 2;

/// One rejected key in this number is admitted.
const PARDON: u64 = 128;
/// Number of victims remembered.
const VICTIMS: usize = 8;

/// The TinyLFU filter.
#[derive(Clone, Debug)]
pub struct TinyLfu {
    sketch: Sketch,
    door: Bloom,
    /// Requests since the doorkeeper's hand last moved.
    passed: usize,
    /// Hashes of the last victims' keys, in no order.
    victims: [u64; VICTIMS],
    /// Number of victims so far. The last `VICTIMS` of them are remembered.
    left: usize,
    chance: Chance,
}

impl TinyLfu {
    fn count(&mut self, key_hash: u64) {
        if self.door.see(key_hash) {
            self.sketch.add(key_hash);
        } else {
            self.sketch.pass();
        }
        self.passed += 1;
        if self.passed == KEYS_PER_BLOCK * SAMPLE / DOOR {
            self.passed = 0;
            self.door.turn();
        }
    }

    /// Returns how often the key was requested recently, at most 16. The estimate is more often too
    /// high than too low.
    pub fn frequency(&self, key_hash: u64) -> u64 {
        self.sketch.frequency(key_hash) + u64::from(self.door.has_seen(key_hash))
    }
}

impl Admission for TinyLfu {
    type Config = ();
    const NAME: &'static str = "tinylfu";
    const LISTENS: bool = true;

    fn new(_capacity: u64, _config: &(), seed: u64) -> Self {
        TinyLfu {
            sketch: Sketch::new(),
            door: Bloom::new(),
            passed: 0,
            victims: [0; VICTIMS],
            left: 0,
            chance: Chance::new(seed),
        }
    }

    #[inline]
    fn hit(&mut self, facts: &impl Facts, slot: Slot) {
        self.count(facts.key_hash(slot));
    }

    #[inline]
    fn evicted(&mut self, facts: &impl Facts, slot: Slot) {
        self.victims[self.left % VICTIMS] = facts.key_hash(slot);
        self.left += 1;
    }

    fn admit(&mut self, facts: &impl Facts, missed: MissedKey) -> Admit {
        self.sketch.expect(facts.len());
        self.door.expect(DOOR * facts.len());
        self.count(missed.key_hash);
        if missed.has_room || self.left == 0 {
            return Admit::Yes;
        }
        let known = self.left.min(VICTIMS) as u64;
        let victim = self.victims[self.chance.below(known) as usize];
        let is_wanted = self.frequency(missed.key_hash) > self.frequency(victim);
        yes_if(is_wanted || self.chance.below(PARDON) == 0)
    }

    fn heap_bytes(&self) -> usize {
        self.sketch.heap_bytes() + self.door.heap_bytes()
    }

    fn check(&self) {
        assert!(self.passed < KEYS_PER_BLOCK * SAMPLE / DOOR);
        assert!(self.door.block_count().is_power_of_two());
    }
}
