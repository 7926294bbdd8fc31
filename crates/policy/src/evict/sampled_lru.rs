//! LRU by sampling with an eviction pool, as Redis does it.
//!
//! # Idea
//! Each entry keeps the time of its last hit; there is no list. An eviction samples a few entries,
//! merges them into a small pool of the longest idle ones seen so far, and evicts the most idle of
//! the pool.
//!
//! # Source
//! S. Sanfilippo, *Improving the LRU algorithm*, Redis documentation and `evict.c` (Redis 3.0 and
//! later), <https://redis.io/docs/latest/develop/reference/eviction/>; sampling goes back to
//! K. Psounis, B. Prabhakar, *A randomized Web-cache replacement scheme*, INFOCOM 2001,
//! <https://doi.org/10.1109/INFCOM.2001.916636>.
//!
//! # State
//! Per entry: 4 bytes (the number of the last request for it, modulo 2^32). Besides: a pool of 16.
//!
//! # Cost
//! hit: one write of 4 bytes · insert O(1) · remove, relocate: a search through the pool · evict:
//! one step per sample, at most 5, and a search through the pool.
//!
//! # Knobs
//! `samples` (5; 1 to 64): entries sampled for one eviction.
//!
//! # Departures
//! Idle time is counted in requests, not in seconds, so it stays exact in a simulator. An entry of
//! the pool that was hit since it was sampled is dropped from it; Redis evicts it all the same.
//!
//! # Avoid when
//! A true order costs less: `lru` needs 4 bytes more, `clock` and `sieve` need fewer than this.

use crate::knobs::Knobs;
use crate::marker::stamp_of;
use crate::parts::chance::Chance;
use crate::{Budget, Cells, Eviction, Marker, OnHit, Policy, Slot};
use alloc::vec::Vec;

/// Number of candidates kept between evictions, as in Redis.
const POOL: usize = 16;

crate::knobs! {
    /// Knobs of [`SampledLru`].
    pub struct SampledLruConfig {
        /// Number of entries sampled for one eviction.
        samples: u8 = 5, 1 => 64;
    }
}

/// An entry that was sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) slot: Slot,
    /// The entry's bits when they were last read. If the entry has other bits now, it was hit since
    /// then.
    pub(super) stamp: u32,
}

impl Candidate {
    /// Follows an entry from the slot `old` to `new`, if it is among the candidates.
    pub(super) fn relocate(candidates: &mut [Candidate], old: Slot, new: Slot) {
        for candidate in candidates.iter_mut().filter(|one| one.slot == old) {
            candidate.slot = new;
        }
    }

    /// Panics if an entry is a candidate twice, or one is not held by the policy.
    pub(super) fn check(candidates: &[Candidate], cells: &impl Cells<u32>) {
        for (index, candidate) in candidates.iter().enumerate() {
            assert!(cells.is_live(candidate.slot), "a candidate is held");
            assert_ne!(cells.get(candidate.slot), 0, "an entry held has a stamp");
            assert_ne!(candidate.stamp, 0, "an entry held has a stamp");
            let mut others = candidates[..index].iter();
            assert!(others.all(|other| other.slot != candidate.slot));
        }
    }
}

/// LRU by sampling.
#[derive(Clone, Debug)]
pub struct SampledLru {
    chance: Chance,
    /// Candidates in order of idle time; the entry that was not requested for the longest time is
    /// last.
    pool: Vec<Candidate>,
    samples: u8,
    /// Number of samples taken so far by the current eviction.
    taken: u8,
}

impl SampledLru {
    fn offer(&mut self, cells: &impl Cells<u32>, slot: Slot) {
        self.pool.retain(|candidate| candidate.slot != slot);
        let now = stamp_of(cells.requests());
        let stamp = cells.get(slot);
        let idle = now.wrapping_sub(stamp);
        let position = self
            .pool
            .partition_point(|one| now.wrapping_sub(one.stamp) < idle);
        if self.pool.len() < POOL {
            self.pool.insert(position, Candidate { slot, stamp });
        } else if position > 0 {
            self.pool[..position].rotate_left(1);
            self.pool[position - 1] = Candidate { slot, stamp };
        }
    }
}

impl Policy for SampledLru {
    type Meta = u32;
    type Config = SampledLruConfig;
    const NAME: &'static str = "sampled-lru";
    const ALIASES: &'static [&'static str] = &["approximate-lru"];
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(_capacity: u64, config: &SampledLruConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let (chance, pool) = (Chance::new(seed), Vec::with_capacity(POOL));
        SampledLru {
            chance,
            pool,
            samples: config.samples,
            taken: 0,
        }
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        cells.set(slot, stamp_of(cells.requests()));
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Stamp
    }
    mark_by_marker!(u32);

    fn moved(&mut self, _cells: &mut impl Cells<u32>, old: Slot, new: Slot) {
        Candidate::relocate(&mut self.pool, old, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        cells.set(slot, 0);
        self.pool.retain(|candidate| candidate.slot != slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        loop {
            while self.taken < self.samples {
                if !budget.spend() {
                    return Eviction::Again;
                }
                let Some(slot) = cells.sample(self.chance.bits()) else {
                    if cells.is_empty() {
                        return Eviction::Empty;
                    }
                    continue;
                };
                self.offer(cells, slot);
                self.taken += 1;
            }
            self.taken = 0;
            while let Some(Candidate { slot, stamp }) = self.pool.pop() {
                if cells.get(slot) == stamp {
                    cells.set(slot, 0);
                    return Eviction::Victim(slot);
                }
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        self.pool.capacity() * size_of::<Candidate>()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        assert!(self.pool.len() <= POOL);
        Candidate::check(&self.pool, cells);
    }
}
