//! `radix-capped`: sampling, with a small tree of the sampled entries that die earliest_tree.
//!
//! # Idea
//! Redis's cycle unchanged, and an ordered radix tree of at most 1 % of the entries. A live entry
//! that is sampled enters the tree, in place of the latest there if the tree is full and that one
//! dies later. A cycle begins with the tree: dead entries at its front are returned. The tree is a
//! hint: an entry that changes or is removed stays in it, and is dropped when it comes up.
//!
//! # Source
//! S. Sanfilippo: New keyspace representation and expire algorithm of Redis, 2019 (a published
//! note), under "Alternative implementations".
//!
//! # State
//! Per entry: as [`sampled`](super::sampled), 8 bytes. Besides: for at most a hundredth of the
//! entries 16 bytes of deadline and slot, and the tree's 8 to 24 bytes.
//!
//! # Cost
//! The same as in `sampled`, and a walk down the tree for each live entry read that dies sooner
//! than one in the tree. A step is an entry read, in the tree or at random.
//!
//! # Knobs
//! `hz` (10; 1 to 500) and `shards` (1; 1 to 4096): as for `sampled`. The other rules are those of
//! Redis 5.0, the last release when the note was written.
//!
//! # Departures
//! The note ends a cycle when a sample has few dead and "the tree of keys to expire is empty";
//! taken literally, a tree that holds live keys would keep the cycle going. Here the tree must hold
//! none that is dead.
//!
//! # Avoid when
//! Clients wait for the dead: the tree contains what was sampled, and 20 samples in a tenth of a
//! second see little of a million entries.

use super::radix::key;
use super::sampled::{CyclesConfig, Sampled};
use crate::parts::radix_tree::RadixTree;
use crate::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};
use alloc::vec::Vec;

/// Number of entries per place in the tree.
const ENTRIES_PER_KEY: usize = 100;

/// The tree of the earliest deadlines, and the entries that its leaves refer to by their index in
/// `items`.
#[derive(Default)]
struct EarliestTree {
    tree: RadixTree,
    items: Vec<(Tick, Slot)>,
}

impl EarliestTree {
    fn item(&self, leaf: u32) -> (Tick, Slot) {
        self.items[leaf as usize]
    }

    fn first(&self) -> Option<(Tick, Slot)> {
        self.tree.first().map(|leaf| self.item(leaf))
    }

    /// Adds a live entry if there is room, or if it expires before the latest entry of the tree.
    fn offer(&mut self, cap: usize, deadline: Tick, slot: Slot) {
        if cap == 0 {
            return;
        }
        if self.tree.len() >= cap {
            let last = self.tree.last().expect("the tree is full");
            if (deadline, slot) >= self.item(last) {
                return;
            }
        }
        let leaf = self.items.len() as u32;
        self.items.push((deadline, slot));
        let items = &self.items;
        let key_of = |leaf: u32| key(items[leaf as usize].0, items[leaf as usize].1);
        if !self.tree.insert(key(deadline, slot), leaf, key_of) {
            self.items.pop();
        }
        self.trim(cap);
    }

    /// Drops the latest entries until at most `cap` are left.
    fn trim(&mut self, cap: usize) {
        while self.tree.len() > cap {
            let last = self.tree.last().expect("it holds more than none");
            self.drop_leaf(last);
        }
    }

    fn drop_first(&mut self) {
        let first = self.tree.first().expect("there is a first");
        self.drop_leaf(first);
    }

    /// Removes a leaf's item. The last of `items` takes its place, so that `items` shrinks with the
    /// tree.
    fn drop_leaf(&mut self, leaf: u32) {
        let items = &self.items;
        let key_of = |leaf: u32| key(items[leaf as usize].0, items[leaf as usize].1);
        self.tree.remove(key_of(leaf), leaf, key_of);
        self.items.swap_remove(leaf as usize);
        let moved = self.items.len() as u32;
        if moved != leaf {
            let (deadline, slot) = self.item(leaf);
            self.tree.rename(key(deadline, slot), moved, leaf);
        }
        if self.tree.is_empty() {
            *self = EarliestTree::default();
        } else if self.items.len() <= self.items.capacity() / 4 {
            self.items.shrink_to(self.items.len() * 2);
        }
    }

    fn heap_bytes(&self) -> usize {
        self.tree.heap_bytes() + self.items.capacity() * size_of::<(Tick, Slot)>()
    }
}

/// Sampling with a hint; see the [module](self).
pub struct RadixCapped {
    expires: Sampled,
    earliest_tree: EarliestTree,
    /// Whether a cycle is running and has not finished reading the tree.
    is_at_tree: bool,
}

impl RadixCapped {
    fn cap(&self) -> usize {
        self.expires.len() / ENTRIES_PER_KEY
    }

    /// Returns dead entries at the front of the tree.
    fn run_tree(&mut self, cells: &mut impl Cells<u32>, now: Tick, budget: &mut Budget) -> Due {
        while let Some((_, slot)) = self.earliest_tree.first().filter(|first| first.0 < now) {
            if !budget.spend() {
                return Due::Again;
            }
            self.earliest_tree.drop_first();
            let is_dead = cells.deadline(slot).is_some_and(|deadline| deadline < now);
            if is_dead && self.expires.holds(cells, slot) {
                self.expires.remove(cells, slot);
                return Due::Slot(slot);
            }
        }
        Due::Nothing
    }
}

impl ExpiryIndex for RadixCapped {
    /// The link is the same as in [`Sampled`].
    type Link = u32;
    type Config = CyclesConfig;
    const NAME: &'static str = "radix-capped";

    fn new(now: Tick, config: &CyclesConfig, seed: u64) -> Self {
        RadixCapped {
            expires: Sampled::new(now, &config.release_5(0), seed),
            earliest_tree: EarliestTree::default(),
            is_at_tree: false,
        }
    }

    fn granularity(&self) -> Option<u64> {
        None
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.expires.insert(cells, slot);
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.expires.remove(cells, slot);
        self.earliest_tree.trim(self.cap());
    }

    fn update(&mut self, cells: &mut impl Cells<u32>, slot: Slot, old: Tick) {
        self.expires.update(cells, slot, old);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, old: Slot, new: Slot) {
        self.expires.moved(cells, old, new);
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<u32>, now: Tick, budget: &mut Budget) -> Due {
        self.is_at_tree |= self.expires.is_slow_due(now);
        let mut due = Due::Nothing;
        if self.is_at_tree {
            due = self.run_tree(cells, now, budget);
            self.is_at_tree = due != Due::Nothing;
        }
        if due == Due::Nothing {
            let cap = self.cap();
            let earliest_tree = &mut self.earliest_tree;
            let see = |deadline, slot| earliest_tree.offer(cap, deadline, slot);
            due = self.expires.pop_seeing(cells, now, budget, see);
        }
        self.earliest_tree.trim(self.cap());
        self.is_at_tree &= !self.expires.is_empty();
        due
    }

    fn clock_went_back(&mut self, now: Tick) {
        self.expires.clock_went_back(now);
    }

    fn next_due(&self) -> Option<Tick> {
        if self.is_at_tree {
            Some(Tick(0))
        } else {
            self.expires.next_due()
        }
    }

    fn backlog(&self, now: Tick) -> usize {
        self.expires.backlog(now)
    }

    fn len(&self) -> usize {
        self.expires.len()
    }

    fn heap_bytes(&self) -> usize {
        self.expires.heap_bytes() + self.earliest_tree.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        self.expires.check(cells);
        let earliest_tree = &self.earliest_tree;
        earliest_tree.tree.check(|leaf| {
            let (deadline, slot) = earliest_tree.item(leaf);
            key(deadline, slot)
        });
        assert!(earliest_tree.tree.len() <= self.cap());
        assert_eq!(earliest_tree.tree.len(), earliest_tree.items.len());
        assert!(earliest_tree.items.capacity() <= 4 * earliest_tree.items.len().max(4));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::host::Host;

    crate::index_suite!(RadixCapped);

    #[test]
    fn the_tree_holds_the_earliest_hundredth_and_is_run_first() {
        let start = Tick(1_000_000);
        let mut host = Host::new(start);
        let mut index = RadixCapped::new(start, &CyclesConfig::default(), 1);
        for number in 0..10_000 {
            let slot = host.add(number, 1, Some(Tick(start.0 + 100_000 + number)));
            host.hold(slot);
            index.insert(&mut host, slot);
        }
        let cycles = |index: &mut RadixCapped, host: &mut Host<u32>, from: u64, until: u64| {
            let mut found = 0;
            for now in (from..until).step_by(100).map(|at| Tick(start.0 + at)) {
                host.set_now(now);
                while let Due::Slot(slot) = index.pop_expired(host, now, &mut Budget(u32::MAX)) {
                    host.free(slot);
                    found += 1;
                }
            }
            found
        };
        assert_eq!(cycles(&mut index, &mut host, 100, 60_000), 0);
        assert_eq!(index.earliest_tree.tree.len(), 100);
        // Some 12,000 samples of 10,000 entries have read about 70 % of them, so that the latest
        // entry in the tree is about the 140th to expire.
        let last = index.earliest_tree.tree.last().expect("it is full");
        let latest = index.earliest_tree.item(last).0.0 - start.0 - 100_000;
        assert!((110..200).contains(&latest), "{latest}");
        // When these entries have expired, the tree finds them, where a sample of 20 would find a
        // few.
        let found = cycles(&mut index, &mut host, 100_200, 100_300);
        assert!(found >= 90, "{found} found by the tree");
        index.check(&host);
    }

    #[test]
    fn the_tree_shrinks_with_the_entries() {
        let start = Tick(1_000_000);
        let mut host = Host::new(start);
        let mut index = RadixCapped::new(start, &CyclesConfig::default(), 1);
        let mut slots = vec![];
        for number in 0..20_000 {
            let slot = host.add(number, 1, Some(Tick(start.0 + 3_600_000 + number)));
            host.hold(slot);
            index.insert(&mut host, slot);
            slots.push(slot);
        }
        for now in (1..60_000).step_by(100).map(|at| Tick(start.0 + at)) {
            host.set_now(now);
            let due = index.pop_expired(&mut host, now, &mut Budget(1_000));
            assert_eq!(due, Due::Nothing);
        }
        assert_eq!(index.earliest_tree.items.len(), 200);
        let full = index.earliest_tree.heap_bytes();
        for (left, slot) in (0..slots.len()).rev().zip(slots) {
            index.remove(&mut host, slot);
            host.free(slot);
            assert!(index.earliest_tree.items.len() <= left / 100);
            if left % 500 == 0 {
                index.check(&host);
            }
            if left == 2_000 {
                assert!(index.earliest_tree.items.capacity() <= 80);
                assert!(index.earliest_tree.heap_bytes() < full);
            }
        }
        assert_eq!(index.earliest_tree.heap_bytes(), 0);
    }

    #[test]
    fn a_stale_hint_is_dropped() {
        let start = Tick(1_000_000);
        let mut host = Host::new(start);
        let mut index = RadixCapped::new(start, &CyclesConfig::default(), 1);
        let mut slots = vec![];
        for number in 0..200 {
            let slot = host.add(number, 1, Some(Tick(start.0 + 1_000 + number)));
            host.hold(slot);
            index.insert(&mut host, slot);
            slots.push(slot);
        }
        for now in (1..900).step_by(100).map(|at| Tick(start.0 + at)) {
            host.set_now(now);
            assert_eq!(
                index.pop_expired(&mut host, now, &mut Budget(1_000)),
                Due::Nothing
            );
        }
        assert_eq!(index.earliest_tree.tree.len(), 2);
        for slot in slots {
            let old = host.set_deadline(slot, Some(Tick(start.0 + 3_600_000)));
            index.update(&mut host, slot, old.expect("it had one"));
        }
        let now = Tick(start.0 + 5_000);
        host.set_now(now);
        assert_eq!(
            index.pop_expired(&mut host, now, &mut Budget(1_000)),
            Due::Nothing
        );
        assert!(
            index
                .earliest_tree
                .first()
                .is_some_and(|first| first.0 > now)
        );
        index.check(&host);
    }
}
