//! `ordered`: a sorted set of deadlines. The plain model that the exact indexes are tested against.
//!
//! # Idea
//! Every deadline in a balanced tree, with a number that counts up: the first of the tree is the
//! next to expire, and equal deadlines come in the order in which they were set.
//!
//! # Source
//! The textbook priority search: R. Bayer, E. McCreight: Organization and Maintenance of Large
//! Ordered Indexes, Acta Informatica 1, 1972, <https://doi.org/10.1007/BF00288683> (the standard
//! library's `BTreeMap`).
//!
//! # State
//! Per entry: an 8-byte number beside the deadline and 20 bytes in a tree that is half to wholly
//! full, 25 to 40 in all. Besides: nothing.
//!
//! # Cost
//! O(log n) for every operation: hundreds of nanoseconds at a million entries, about as many cache
//! misses as the tree has levels. A call of `pop_expired` spends one step.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! None.
//!
//! # Avoid when
//! Always, except to check another index or to rule one out as the cause of a fault.

use crate::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};
use alloc::collections::BTreeMap;

/// A simple index that serves as a model; see the [module](self).
pub struct Ordered {
    slots: BTreeMap<(Tick, u64), Slot>,
    /// Number of deadlines set so far. Each gets the current number as part of its key.
    count: u64,
}

impl Ordered {
    fn add(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry is inserted with its deadline");
        self.count += 1;
        cells.set(slot, self.count);
        self.slots.insert((deadline, self.count), slot);
    }

    fn take(&mut self, deadline: Tick, number: u64) -> Slot {
        self.slots
            .remove(&(deadline, number))
            .expect("the entry was inserted with this deadline")
    }
}

impl ExpiryIndex for Ordered {
    /// Number of the deadline in the key under which the entry is filed.
    type Link = u64;
    type Config = ();
    const NAME: &'static str = "ordered";

    fn new(_now: Tick, _config: &(), _seed: u64) -> Self {
        Ordered {
            slots: BTreeMap::new(),
            count: 0,
        }
    }

    fn granularity(&self) -> Option<u64> {
        Some(0)
    }

    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        self.add(cells, slot);
    }

    fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("a removed entry still has its deadline");
        let found = self.take(deadline, cells.get(slot));
        assert_eq!(found, slot);
    }

    fn update(&mut self, cells: &mut impl Cells<u64>, slot: Slot, old: Tick) {
        if cells.deadline(slot) == Some(old) {
            return;
        }
        let found = self.take(old, cells.get(slot));
        assert_eq!(found, slot);
        self.add(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
        let deadline = cells
            .deadline(new)
            .expect("an entry that moved kept its deadline");
        let filed = self.slots.get_mut(&(deadline, cells.get(new)));
        let filed = filed.expect("an entry that moved was inserted");
        assert_eq!(*filed, old);
        *filed = new;
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<u64>, now: Tick, budget: &mut Budget) -> Due {
        let _ = cells;
        match self.slots.first_entry() {
            Some(first) if first.key().0 < now => {
                if budget.spend() {
                    Due::Slot(first.remove())
                } else {
                    Due::Again
                }
            }
            _ => Due::Nothing,
        }
    }

    fn next_due(&self) -> Option<Tick> {
        self.slots
            .first_key_value()
            .map(|((deadline, _), _)| Tick(deadline.0 + 1))
    }

    /// Returns the number of all entries once the first is dead; 0 before. A tree without counts
    /// has no better bound in O(1).
    fn backlog(&self, now: Tick) -> usize {
        match self.slots.first_key_value() {
            Some(((deadline, _), _)) if *deadline < now => self.slots.len(),
            _ => 0,
        }
    }

    fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns an estimate: the tree's nodes have 11 places each and are about two thirds full.
    fn heap_bytes(&self) -> usize {
        const NODE_BYTES: usize = 11 * (size_of::<(Tick, u64)>() + size_of::<Slot>()) + 12;
        self.slots.len().div_ceil(7) * NODE_BYTES
    }

    fn check(&self, cells: &impl Cells<u64>) {
        for (&(deadline, number), &slot) in &self.slots {
            assert!(cells.is_live(slot));
            assert_eq!(cells.deadline(slot), Some(deadline));
            assert_eq!(cells.get(slot), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::index_suite!(Ordered);
}
