//! Hyperbolic caching: entries ranked by requests per time in the cache.
//!
//! # Idea
//! An entry's worth is its number of requests divided by its time in the cache. The worth of an
//! entry that is no longer requested falls like a hyperbola, and the order of two entries may
//! change without a request for either, so no queue can keep it: an eviction samples entries and
//! evicts the least worthy.
//!
//! # Source
//! A. Blankstein, S. Sen, M. J. Freedman, *Hyperbolic caching: flexible caching for web
//! applications*, USENIX ATC 2017,
//! <https://www.usenix.org/conference/atc17/technical-sessions/presentation/blankstein>. Compared
//! with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bytes (32 bits each of hits and of the request number at its birth).
//!
//! # Cost
//! hit: one write of the entry's word · insert O(1) · remove 0 · evict: one step per sample.
//!
//! # Knobs
//! `samples` (64; 1 to 1024): entries sampled for one eviction.
//!
//! # Departures
//! Time is counted in requests. `samples` is 64 as in the source, but its pool of candidates kept
//! from the last eviction is left out.
//!
//! # Avoid when
//! Evictions must be cheap: each reads 64 entries. Entries that were popular once stay for long.

use crate::knobs::Knobs;
use crate::marker::Count;
use crate::parts::chance::Chance;
use crate::{Budget, Cells, Eviction, Marker, OnHit, Policy, Slot};

crate::knobs! {
    /// Knobs of [`Hyperbolic`].
    pub struct HyperbolicConfig {
        /// Number of entries sampled for one eviction.
        samples: u32 = 64, 1 => 1024;
    }
}

/// The hyperbolic caching policy.
#[derive(Clone, Debug)]
pub struct Hyperbolic {
    chance: Chance,
    samples: u32,
    /// Number of samples taken so far by the current eviction.
    taken: u32,
    /// Sample with the lowest worth so far.
    least: Option<(f64, Slot)>,
}

/// The entry's word:
/// ```text
/// bit 63   32 31    0
///     [ hits ][ born ]     insertion counts as a hit: 0 means not inserted
/// ```
const ONE_HIT: u64 = 1 << 32;

/// Returns the requests for the entry divided by the requests since its insertion.
fn worth(meta: u64, requests: u64) -> f64 {
    let age = (requests as u32).wrapping_sub(meta as u32).max(1);
    (meta >> 32) as f64 / f64::from(age)
}

impl Policy for Hyperbolic {
    type Meta = u64;
    type Config = HyperbolicConfig;
    const NAME: &'static str = "hyperbolic";
    const ALIASES: &'static [&'static str] = &["hyperbolic-caching"];
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(_capacity: u64, config: &HyperbolicConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Hyperbolic {
            chance: Chance::new(seed),
            samples: config.samples,
            taken: 0,
            least: None,
        }
    }

    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        cells.set(slot, ONE_HIT | u64::from(cells.requests() as u32));
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count {
            mask: !0 << 32,
            max: !0 << 32,
            one: ONE_HIT,
        })
    }
    mark_by_marker!(u64);

    fn moved(&mut self, _cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
        if let Some((_, slot)) = &mut self.least
            && *slot == old
        {
            *slot = new;
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        cells.set(slot, 0);
        self.least.take_if(|(_, least)| *least == slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<u64>, budget: &mut Budget) -> Eviction {
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
                self.taken += 1;
                let worth = worth(cells.get(slot), cells.requests());
                if self.least.is_none_or(|(least, _)| worth < least) {
                    self.least = Some((worth, slot));
                }
            }
            self.taken = 0;
            if let Some((_, slot)) = self.least.take() {
                cells.set(slot, 0);
                return Eviction::Victim(slot);
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self, cells: &impl Cells<u64>) {
        assert!(self.least.is_none_or(|(_, slot)| cells.is_live(slot)));
    }
}
