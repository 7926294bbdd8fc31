//! Nearest deadline among a few sampled entries, as in Redis's `volatile-ttl`.
//!
//! # Idea
//! The entry that would expire first is evicted first: an eviction samples a few entries and takes
//! the one with the nearest deadline. An entry without a deadline is evicted only when all samples
//! have none.
//!
//! # Source
//! Redis documentation, *Key eviction* (`volatile-ttl`),
//! <https://redis.io/docs/latest/develop/reference/eviction/>; sampling goes back to K. Psounis,
//! B. Prabhakar, *A randomized Web-cache replacement scheme*, INFOCOM 2001,
//! <https://doi.org/10.1109/INFCOM.2001.916636>.
//!
//! # State
//! Per entry: 0 bytes; the deadline is the host's. Besides: 16 bytes, the best sample of an
//! eviction under way.
//!
//! # Cost
//! hit, insert, remove: nothing · evict: one step per sample, at most 64.
//!
//! # Knobs
//! `samples` (5; 1 to 64): entries sampled for one eviction.
//!
//! # Departures
//! Redis keeps the runners-up of earlier samples in a pool; here each eviction draws new samples.
//!
//! # Avoid when
//! Deadlines say nothing about use. An exact expiry index frees dead entries in any case.

use crate::knobs::Knobs;
use crate::parts::chance::Chance;
use crate::{Budget, Cells, Eviction, Facts, OnHit, Policy, Slot, Tick};

crate::knobs! {
    /// Knobs of [`SampledTtl`].
    pub struct SampledTtlConfig {
        /// Number of entries sampled for one eviction.
        samples: u8 = 5, 1 => 64;
    }
}

/// Eviction of the entry with the nearest deadline among samples.
#[derive(Clone, Debug)]
pub struct SampledTtl {
    chance: Chance,
    samples: u8,
    /// Number of samples taken so far by the current eviction.
    taken: u8,
    /// Sample with the nearest deadline so far. Cleared if its entry is relocated or removed.
    best: Option<Slot>,
}

impl SampledTtl {
    fn deadline(facts: &impl Facts, slot: Slot) -> Tick {
        facts.deadline(slot).unwrap_or(Tick(u64::MAX))
    }

    fn forget(&mut self, slot: Slot) {
        if self.best == Some(slot) {
            self.best = None;
        }
    }
}

impl Policy for SampledTtl {
    type Meta = ();
    type Config = SampledTtlConfig;
    const NAME: &'static str = "sampled-ttl";
    const ON_HIT: OnHit = OnHit::Ignore;

    fn new(_capacity: u64, config: &SampledTtlConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        SampledTtl {
            chance: Chance::new(seed),
            samples: config.samples,
            taken: 0,
            best: None,
        }
    }

    fn insert(&mut self, _cells: &mut impl Cells<()>, _slot: Slot) {}

    fn moved(&mut self, _cells: &mut impl Cells<()>, old: Slot, _new: Slot) {
        self.forget(old);
    }

    fn remove(&mut self, _cells: &mut impl Cells<()>, slot: Slot) {
        self.forget(slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<()>, budget: &mut Budget) -> Eviction {
        if cells.is_empty() {
            return Eviction::Empty;
        }
        loop {
            while self.taken < self.samples {
                if !budget.spend() {
                    return Eviction::Again;
                }
                let Some(slot) = cells.sample(self.chance.bits()) else {
                    continue;
                };
                self.taken += 1;
                let is_nearer = |best| Self::deadline(cells, slot) < Self::deadline(cells, best);
                if self.best.is_none_or(is_nearer) {
                    self.best = Some(slot);
                }
            }
            self.taken = 0;
            if let Some(slot) = self.best.take() {
                return Eviction::Victim(slot);
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self, cells: &impl Cells<()>) {
        assert!(self.taken < self.samples);
        assert!(self.best.is_none_or(|slot| cells.is_live(slot)));
    }
}
