//! Random replacement: the victim is drawn uniformly.
//!
//! # Idea
//! Needs no state: the lower bound for every policy, and no worse than LRU where requests are
//! independent or loop.
//!
//! # Source
//! L. A. Belady, *A study of replacement algorithms for a virtual-storage computer*, IBM Systems
//! Journal 5(2), 1966, <https://doi.org/10.1147/sj.52.0078>. Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: nothing. Besides: 8 bytes of generator.
//!
//! # Cost
//! hit, insert, remove 0 · evict: one sample.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! None. The reference does not draw evenly: of entries whose keys share a bucket of its table only
//! the youngest can be drawn. It misses 4 % more often than this on `lirs_sprite` at 707 objects; a
//! model with such draws reproduces its miss ratios: `cargo test -p mayfly-cache-policy --test
//! reference draw`.
//!
//! # Avoid when
//! A byte per entry can be spared: `clock` is better nearly everywhere.

use crate::parts::chance::Chance;
use crate::{Budget, Cells, Eviction, OnHit, Policy, Slot};

/// Random replacement.
#[derive(Clone, Debug)]
pub struct Random {
    chance: Chance,
}

impl Policy for Random {
    type Meta = ();
    type Config = ();
    const NAME: &'static str = "random";
    const ALIASES: &'static [&'static str] = &["rand"];
    const ON_HIT: OnHit = OnHit::Ignore;

    fn new(_capacity: u64, _config: &(), seed: u64) -> Self {
        Random {
            chance: Chance::new(seed),
        }
    }

    #[inline]
    fn insert(&mut self, _cells: &mut impl Cells<()>, _slot: Slot) {}

    fn moved(&mut self, _cells: &mut impl Cells<()>, _old: Slot, _new: Slot) {}

    fn remove(&mut self, _cells: &mut impl Cells<()>, _slot: Slot) {}

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<()>, budget: &mut Budget) -> Eviction {
        if !budget.spend() {
            return Eviction::Again;
        }
        match cells.sample(self.chance.bits()) {
            Some(slot) => Eviction::Victim(slot),
            None if cells.is_empty() => Eviction::Empty,
            None => Eviction::Again,
        }
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self, _cells: &impl Cells<()>) {}
}
