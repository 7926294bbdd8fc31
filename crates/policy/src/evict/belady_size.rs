//! Belady by size: the victim is the entry that occupies the most room for the longest time until
//! its next request.
//!
//! # Idea
//! Where entries differ in weight, no rule is known that is both optimal and fast; this is the
//! common approximation. An entry of weight `w` whose next request is `d` requests away occupies `d
//! × w` for one hit. The largest product is evicted first, and entries that are never requested
//! again before all others.
//!
//! # Source
//! The rule is named "size-aware Belady" in J. Yang, *Designing efficient and scalable key-value
//! cache management systems*, Carnegie Mellon University 2024, sections 6.2 and 6.4, with D. S.
//! Berger, N. Beckmann, M. Harchol-Balter, *Practical bounds on optimal caching with variable
//! object sizes*, ACM POMACS 2(2), 2018, <https://doi.org/10.1145/3224427>.
//!
//! # State
//! 0 bytes.
//!
//! # Cost
//! hit, insert, remove: none · evict: one step for each of the 128 entries sampled.
//!
//! # Knobs
//! `samples` (128; 1 to 4096): number of entries among which the largest product is chosen.
//!
//! # Departures
//! The product changes with time, differently for each entry, so no order of all entries can be
//! kept: the victim is the largest of a sample. Counted in objects it therefore misses a little
//! more than `belady`. A new entry is always inserted, even if it would itself be the best victim.
//!
//! # Avoid when
//! The future is not known: only the simulator runs it, on a whole trace. All weigh the same:
//! `belady` is exact.

use crate::knobs::Knobs;
use crate::parts::chance::Chance;
use crate::{Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

crate::knobs! {
    /// Knobs of [`BeladySize`].
    pub struct BeladySizeConfig {
        /// Number of entries sampled. The one with the largest product of weight and distance is
        /// evicted.
        samples: u16 = 128, 1 => 4096;
    }
}

/// Belady by size.
#[derive(Clone, Debug)]
pub struct BeladySize {
    chance: Chance,
    samples: u16,
    /// Number of samples taken so far by the current eviction.
    taken: u16,
    /// Sample with the largest product so far.
    largest: Option<Slot>,
}

/// Returns the rank by which an entry is evicted, the largest first: its weight × the number of
/// requests until its next one. An entry without a next request has a larger rank than all others;
/// among these, the heaviest is evicted first.
#[inline]
fn occupied(facts: &impl Facts, slot: Slot) -> (bool, u128) {
    let next = facts.next_access(slot);
    let next = next.expect("belady-size is run where the future is known");
    let weight = u128::from(facts.weight(slot).max(1));
    match next {
        u64::MAX => (true, weight),
        next => {
            let distance = next.saturating_sub(facts.requests());
            (false, u128::from(distance) * weight)
        }
    }
}

impl Policy for BeladySize {
    type Meta = ();
    type Config = BeladySizeConfig;
    const NAME: &'static str = "belady-size";
    const ON_HIT: OnHit = OnHit::Ignore;
    const NEEDS_FUTURE: bool = true;

    fn new(_capacity: u64, config: &BeladySizeConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        BeladySize {
            chance: Chance::new(seed),
            samples: config.samples,
            taken: 0,
            largest: None,
        }
    }

    fn insert(&mut self, _cells: &mut impl Cells<()>, _slot: Slot) {}

    fn moved(&mut self, _cells: &mut impl Cells<()>, old: Slot, new: Slot) {
        if self.largest == Some(old) {
            self.largest = Some(new);
        }
    }

    fn remove(&mut self, _cells: &mut impl Cells<()>, slot: Slot) {
        if self.largest == Some(slot) {
            self.largest = None;
        }
    }

    fn evict(&mut self, cells: &mut impl Cells<()>, budget: &mut Budget) -> Eviction {
        loop {
            while self.taken < self.samples {
                if cells.is_empty() {
                    return Eviction::Empty;
                }
                if !budget.spend() {
                    return Eviction::Again;
                }
                let Some(slot) = cells.sample(self.chance.bits()) else {
                    continue;
                };
                self.taken += 1;
                let is_larger = |&largest: &Slot| occupied(cells, slot) > occupied(cells, largest);
                if self.largest.as_ref().is_none_or(is_larger) {
                    self.largest = Some(slot);
                }
            }
            self.taken = 0;
            if let Some(victim) = self.largest.take() {
                return Eviction::Victim(victim);
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self, cells: &impl Cells<()>) {
        assert!(self.taken <= self.samples);
        assert!(self.largest.is_none_or(|slot| cells.is_live(slot)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tick;
    use crate::suite::host::Host;

    /// Returns the order in which entries of these weights and next requests are evicted at request
    /// 10.
    fn order(entries: &[(u32, Option<u64>)]) -> Vec<u32> {
        let mut host: Host<()> = Host::new(Tick(0));
        (0..10).for_each(|_| host.count_request());
        // With thousands of draws among a few entries, each entry is drawn.
        let config = BeladySizeConfig { samples: 4096 };
        let mut policy = BeladySize::new(100, &config, 1);
        for (index, &(weight, next)) in entries.iter().enumerate() {
            let slot = host.add(index as u64, weight, None);
            host.set_next_access(slot, Some(next.unwrap_or(u64::MAX)));
            host.hold(slot);
            policy.insert(&mut host, slot);
        }
        let mut order = Vec::new();
        while let Eviction::Victim(slot) = policy.evict(&mut host, &mut Budget(10_000)) {
            order.push(slot.0);
            host.free(slot);
        }
        order
    }

    #[test]
    fn the_largest_product_is_evicted_after_entries_that_are_never_requested() {
        let entries = [
            (10, Some(15)), // 50
            (1, Some(100)), // 90
            (3, None),
            (40, Some(12)), // 80
            (5, None),
            (1, Some(20)), // 10
        ];
        assert_eq!(order(&entries), [4, 2, 1, 3, 0, 5]);
    }

    #[test]
    fn of_equal_weights_the_one_requested_last_is_evicted() {
        let entries = [(7, Some(11)), (7, Some(30)), (7, None), (7, Some(20))];
        assert_eq!(order(&entries), [2, 1, 3, 0]);
    }
}
