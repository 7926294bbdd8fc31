//! Memcached's LRU: one LRU queue per class of weights, and room stays with its class.
//!
//! # Idea
//! A new entry can take only the place of an entry of its own class, because memory is cut into
//! chunks of that class's size. The shares of the classes are settled while the cache fills up.
//!
//! # Source
//! Memcached without moving slabs, as described and compared in J. Yang, Y. Yue, K. V. Rashmi, *A
//! large scale analysis of hundreds of in-memory cache clusters at Twitter*, OSDI 2020,
//! <https://www.usenix.org/conference/osdi20/presentation/yang>, sections 2.1 and 5.
//!
//! # State
//! Per entry: 8 bytes (two links of 31 bits). Per class: 32 bytes, some hundred of them.
//!
//! # Cost
//! hit: a few list links · insert, remove O(1) · relocate: a search through all classes, some
//! hundred · evict: one step, and for a class without a slab a search through all classes.
//!
//! # Knobs
//! `slab` (1048576; 1 to 1073741824): the weight of a slab. `factor` (1.25; 1.05 to 4.0): from a
//! class to the next. `fewest` (100; 1 to 1000000): slabs in a full cache at least, for small
//! caches.
//!
//! # Departures
//! Weights are bound, not slabs: a class keeps the weight that its entries had when the cache was
//! first full, apart from what deletions free, which any class can take. A class that weighs less
//! than one slab takes from the heaviest class; this is how it gets its first slab, which Memcached
//! grants beyond the limit. The LRU is exact, not segmented. Classes begin at weight 1. Counted by
//! objects all entries are in one class: it is LRU.
//!
//! # Avoid when
//! Sizes shift over time: the classes that were large keep the room (*slab calcification*).

use super::slab::{Classes, slab_weight};
use crate::knobs::Knobs;
use crate::parts::list::{List, Node};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};
use alloc::vec;
use alloc::vec::Vec;

crate::knobs! {
    /// Knobs of [`MemcachedLru`].
    pub struct MemcachedLruConfig {
        /// Weight of a slab.
        slab: u32 = 1048576, 1 => 1073741824;
        /// Factor between the chunk sizes of two consecutive classes.
        factor: f64 = 1.25, 1.05 => 4.0;
        /// Minimum number of slabs in a full cache.
        fewest: u32 = 100, 1 => 1000000;
    }
}

#[derive(Clone, Debug)]
struct Class {
    list: List,
    weight: u64,
}

/// Memcached's LRU.
#[derive(Clone, Debug)]
pub struct MemcachedLru {
    queues: Vec<Class>,
    classes: Classes,
    /// Class of the entry for which room is made.
    newcomer: usize,
    slab_weight: u64,
    config: MemcachedLruConfig,
}

impl MemcachedLru {
    fn push(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let weight = cells.weight(slot);
        let queue = &mut self.queues[self.classes.of(weight)];
        queue.list.push(cells, slot);
        queue.weight += u64::from(weight);
    }

    /// Removes an entry from its queue, and from the counts of its class, which include it with
    /// `weight`.
    fn unlink(&mut self, cells: &mut impl Cells<Node>, slot: Slot, weight: u32) {
        let queue = &mut self.queues[self.classes.of(weight)];
        queue.list.unlink(cells, slot);
        queue.weight -= u64::from(weight);
    }
}

impl Policy for MemcachedLru {
    type Meta = Node;
    type Config = MemcachedLruConfig;
    const NAME: &'static str = "memcached-lru";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &MemcachedLruConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let classes = Classes::new(config.factor);
        let class = Class {
            list: List::new(0),
            weight: 0,
        };
        MemcachedLru {
            queues: vec![class; classes.count()],
            classes,
            newcomer: 0,
            slab_weight: slab_weight(config.slab, config.fewest, capacity),
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.slab_weight = slab_weight(self.config.slab, self.config.fewest, capacity);
    }

    #[inline]
    fn miss(&mut self, _facts: &impl Facts, _key_hash: u64, weight: u32) -> Admit {
        self.newcomer = self.classes.of(weight);
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.push(cells, slot);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let class = self.classes.of(cells.weight(slot));
        self.queues[class].list.promote(cells, slot);
    }

    fn reweigh(&mut self, cells: &mut impl Cells<Node>, slot: Slot, old_weight: u32) {
        let weight = cells.weight(slot);
        self.newcomer = self.classes.of(weight);
        if self.classes.of(old_weight) == self.newcomer {
            let queue = &mut self.queues[self.newcomer];
            queue.weight = queue.weight - u64::from(old_weight) + u64::from(weight);
        } else {
            self.unlink(cells, slot, old_weight);
            self.push(cells, slot);
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<Node>, old: Slot, new: Slot) {
        // The queue is not found by the entry's weight, because that may have changed already; then
        // a call of `reweigh` follows. The right queue is needed only if the entry is at one of its
        // ends. Any queue can unlink an entry that has two neighbours.
        let is_end =
            |queue: &Class| [queue.list.oldest(), queue.list.newest()].contains(&Some(old));
        let end = self.queues.iter().position(is_end);
        self.queues[end.unwrap_or(0)].list.moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let weight = cells.weight(slot);
        self.unlink(cells, slot, weight);
    }

    fn evict(&mut self, cells: &mut impl Cells<Node>, budget: &mut Budget) -> Eviction {
        let own = &self.queues[self.newcomer];
        let queue = if own.weight >= self.slab_weight {
            Some(own)
        } else {
            let queues = self.queues.iter().filter(|queue| !queue.list.is_empty());
            queues.max_by_key(|queue| queue.weight)
        };
        let Some(victim) = queue.and_then(|queue| queue.list.oldest()) else {
            return Eviction::Empty;
        };
        if !budget.spend() {
            return Eviction::Again;
        }
        let weight = cells.weight(victim);
        self.unlink(cells, victim, weight);
        Eviction::Victim(victim)
    }

    fn heap_bytes(&self) -> usize {
        self.queues.capacity() * size_of::<Class>()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        for (class, queue) in self.queues.iter().enumerate() {
            assert_eq!(queue.list.check(cells), queue.weight);
            if let Some(oldest) = queue.list.oldest() {
                assert_eq!(self.classes.of(cells.weight(oldest)), class);
            }
        }
    }
}
