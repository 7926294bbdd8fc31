//! Least frequently used.
//!
//! # Idea
//! The entry with the fewest requests is evicted, and among equals the one that reached its
//! frequency first. Entries of one frequency form a queue, and the queues are in order of
//! frequency: a hit moves an entry to the next one.
//!
//! # Source
//! K. Shah, A. Mitra, D. Matani, *An O(1) algorithm for implementing the LFU cache eviction
//! scheme*, 2010, <http://dhruvbird.com/lfu.pdf>; the policy itself is older (A. V. Aho, P. J.
//! Denning, J. D. Ullman, *Principles of optimal page replacement*, J. ACM 18(1), 1971). Compared
//! with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 4 bytes (the number of its node) and a node of 16 bytes; per frequency that occurs:
//! 28.
//!
//! # Cost
//! hit, insert, remove, evict O(1).
//!
//! # Knobs
//! None.
//!
//! # Departures
//! None. An entry that leaves takes its count with it, as in the source.
//!
//! # Avoid when
//! Popularity changes: entries that were popular once are never evicted (`lfuda` ages, `s3fifo`
//! forgets).

use crate::parts::frequencies::{Frequencies, counted};
use crate::parts::pool::{Links, Pool};
use crate::{Budget, Cells, Eviction, OnHit, Policy, Slot};

/// State of an entry, stored outside of the entry.
#[derive(Clone, Copy, Debug)]
struct Node {
    slot: Slot,
    /// Links within the queue of its frequency.
    links: Links,
    /// Number of the queue that it is in.
    group: u32,
}

counted!(Node: links);

/// The least-frequently-used policy.
#[derive(Clone, Debug)]
pub struct Lfu {
    nodes: Pool<Node>,
    queues: Frequencies,
}

impl Policy for Lfu {
    type Meta = u32;
    type Config = ();
    const NAME: &'static str = "lfu";
    const ALIASES: &'static [&'static str] = &["exact-lfu"];
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(_capacity: u64, _config: &(), _seed: u64) -> Self {
        Lfu {
            nodes: Pool::new(),
            queues: Frequencies::new(),
        }
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let node = self.nodes.add(Node {
            slot,
            links: Links::default(),
            group: 0,
        });
        cells.set(slot, node);
        self.queues.enter(&mut self.nodes, node, 1);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.queues.hit(&mut self.nodes, cells.get(slot));
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.nodes.at_mut(cells.get(new)).slot = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let node = cells.get(slot);
        self.queues.leave(&mut self.nodes, node);
        self.nodes.remove(node);
    }

    #[inline]
    fn evict(&mut self, _cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        let Some(node) = self.queues.oldest_of_least() else {
            return Eviction::Empty;
        };
        if !budget.spend() {
            return Eviction::Again;
        }
        let victim = self.nodes.at(node).slot;
        self.queues.leave(&mut self.nodes, node);
        self.nodes.remove(node);
        Eviction::Victim(victim)
    }

    fn usage(&self, cells: &impl Cells<u32>, slot: Slot) -> (Option<u64>, Option<u32>) {
        let frequency = self.queues.frequency(&self.nodes, cells.get(slot));
        (None, Some(frequency))
    }

    fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.queues.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        let nodes = self.queues.check(&self.nodes);
        assert_eq!(nodes.len(), self.nodes.len(), "every node is in a queue");
        for node in nodes {
            let slot = self.nodes.at(node).slot;
            assert!(cells.is_live(slot), "a node names a live entry");
            assert_eq!(cells.get(slot), node, "an entry names its node");
        }
    }
}
