//! `radix`: every deadline in an ordered radix tree, as once planned for Redis.
//!
//! # Idea
//! The key of an entry is its deadline in big-endian bytes, followed by its slot. A radix tree
//! keeps keys in the order of their bytes, so that its first leaf is the next to expire and there
//! is no search for the dead.
//!
//! # Source
//! S. Sanfilippo: New keyspace representation and expire algorithm of Redis, 2019 (a published note
//! with an implementation that was not adopted). The tree is [`RadixTree`], whose source stands
//! there.
//!
//! # State
//! Per entry: 0 bits in the entry, 4 bytes of reference and its share of the nodes: 24, 84, 244 or
//! 1,064 bytes for up to 4, 16, 48 or 256 children, 8 to 20 bytes in all. Besides: a page of 4 KiB
//! for each kind of node.
//!
//! # Cost
//! Insert, update, remove and pop walk down up to ten bytes, mostly four to six nodes, each a cache
//! miss in a large tree; an insertion also reads one other entry's deadline. `pop_expired` spends
//! one step per entry and never reads a live one, except the next one due.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The note's tree stores the key's object as a pointer of 8 bytes and its paths in full. Here a
//! leaf is a slot, and the host returns the deadline of the leaf at which a search ends.
//!
//! # Avoid when
//! Memory or the cost of setting a deadline matter: the wheel is as exact for a third of either.

use crate::parts::radix_tree::RadixTree;
use crate::{Budget, Cells, Due, ExpiryIndex, Facts, Slot, Tick};

/// A tree of deadlines; see the [module](self).
#[derive(Default)]
pub struct Radix {
    tree: RadixTree,
    /// First leaf of the tree, with its deadline.
    first: Option<(Tick, Slot)>,
}

/// Returns the key: the big-endian deadline in 6 bytes, then the slot in 4.
pub(super) fn key(deadline: Tick, slot: Slot) -> u128 {
    debug_assert!(deadline <= Tick::MAX);
    u128::from(deadline.0) << 32 | u128::from(slot.0)
}

fn key_of(facts: &impl Facts) -> impl Fn(u32) -> u128 {
    |leaf| {
        let deadline = facts.deadline(Slot(leaf));
        key(
            deadline.expect("an entry in the tree has a deadline"),
            Slot(leaf),
        )
    }
}

impl Radix {
    fn add(&mut self, cells: &impl Cells<()>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry is inserted with its deadline");
        let is_new = self.tree.insert(key(deadline, slot), slot.0, key_of(cells));
        assert!(is_new, "an entry is inserted once");
        let item = (deadline, slot);
        self.first = Some(self.first.map_or(item, |first| first.min(item)));
    }

    fn take(&mut self, cells: &impl Cells<()>, deadline: Tick, slot: Slot) {
        self.tree.remove(key(deadline, slot), slot.0, key_of(cells));
        if self.first == Some((deadline, slot)) {
            self.first = self.tree.first().map(|leaf| {
                let deadline = cells.deadline(Slot(leaf));
                (
                    deadline.expect("an entry in the tree has a deadline"),
                    Slot(leaf),
                )
            });
        }
    }
}

impl ExpiryIndex for Radix {
    type Link = ();
    type Config = ();
    const NAME: &'static str = "radix";

    fn new(_now: Tick, _config: &(), _seed: u64) -> Self {
        Radix::default()
    }

    fn granularity(&self) -> Option<u64> {
        Some(0)
    }

    fn insert(&mut self, cells: &mut impl Cells<()>, slot: Slot) {
        self.add(cells, slot);
    }

    fn remove(&mut self, cells: &mut impl Cells<()>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("a removed entry still has its deadline");
        self.take(cells, deadline, slot);
    }

    fn update(&mut self, cells: &mut impl Cells<()>, slot: Slot, old: Tick) {
        if cells.deadline(slot) == Some(old) {
            return;
        }
        self.take(cells, old, slot);
        self.add(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<()>, old: Slot, new: Slot) {
        let deadline = cells
            .deadline(new)
            .expect("an entry that moved kept its deadline");
        self.take(cells, deadline, old);
        self.add(cells, new);
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<()>, now: Tick, budget: &mut Budget) -> Due {
        match self.first {
            Some((deadline, slot)) if deadline < now => {
                if !budget.spend() {
                    return Due::Again;
                }
                self.take(cells, deadline, slot);
                Due::Slot(slot)
            }
            _ => Due::Nothing,
        }
    }

    fn next_due(&self) -> Option<Tick> {
        self.first.map(|(deadline, _)| Tick(deadline.0 + 1))
    }

    /// Returns the number of all entries once the first is dead; 0 before. A tree without counts
    /// has no better bound in O(1).
    fn backlog(&self, now: Tick) -> usize {
        match self.first {
            Some((deadline, _)) if deadline < now => self.tree.len(),
            _ => 0,
        }
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn heap_bytes(&self) -> usize {
        self.tree.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<()>) {
        self.tree.check(key_of(cells));
        assert_eq!(self.first.map(|first| first.1.0), self.tree.first());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::index_suite!(Radix);
}
