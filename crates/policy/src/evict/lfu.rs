//! Least frequently used.
//!
//! # Idea
//! What was asked for often will be asked for again; the entry asked for least often goes, and among
//! equals the one that came to its frequency first. Entries of one frequency are a queue, and the
//! queues stand in order of frequency: a hit moves an entry to the next one.
//!
//! # Source
//! K. Shah, A. Mitra, D. Matani, *An O(1) algorithm for implementing the LFU cache eviction scheme*,
//! 2010, <http://dhruvbird.com/lfu.pdf>; the policy itself is older (A. V. Aho, P. J. Denning, J. D.
//! Ullman, *Principles of optimal page replacement*, J. ACM 18(1), 1971). Compared with libCacheSim
//! 0.3.5.
//!
//! # State
//! Per entry: 4 bytes (the number of its node) and a node of 16 bytes; per frequency that occurs: 28.
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
//! Popularity moves: what was popular once is never given up (`lfuda` ages, `s3fifo` forgets).

use crate::parts::pool::{Chain, Links, NONE, Pool, chained};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// What is kept of an entry beside it.
#[derive(Clone, Copy, Debug)]
struct Node {
    slot: Slot,
    links: Links,
    /// The queue that it is in.
    group: u32,
}

/// The queue of all entries of one frequency.
#[derive(Clone, Copy, Debug)]
struct Group {
    frequency: u32,
    /// The groups of the next lower and the next higher frequency.
    links: Links,
    queue: Chain,
}

chained!(Node: links);
chained!(Group: links);

/// Least frequently used.
#[derive(Clone, Debug)]
pub struct Lfu {
    nodes: Pool<Node>,
    groups: Pool<Group>,
    /// The groups, the lowest frequency at the old end. None is empty.
    order: Chain,
}

impl Lfu {
    /// The group of this frequency, whose place is just below the group `above`.
    #[inline]
    fn group(&mut self, frequency: u32, above: Option<u32>) -> u32 {
        if let Some(above) = above
            && self.groups.at(above).frequency == frequency
        {
            return above;
        }
        let group = self.groups.add(Group {
            frequency,
            links: Links::default(),
            queue: Chain::new(),
        });
        self.order
            .insert(&mut self.groups, group, above.unwrap_or(NONE));
        group
    }

    #[inline]
    fn enter(&mut self, node: u32, group: u32) {
        self.nodes.at_mut(node).group = group;
        let queue = &mut self.groups.at_mut(group).queue;
        queue.push(&mut self.nodes, node);
    }

    #[inline]
    fn leave(&mut self, node: u32) {
        let group = self.nodes.at(node).group;
        let queue = &mut self.groups.at_mut(group).queue;
        queue.unlink(&mut self.nodes, node);
        if queue.is_empty() {
            self.order.unlink(&mut self.groups, group);
            self.groups.remove(group);
        }
    }
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
            groups: Pool::new(),
            order: Chain::new(),
        }
    }

    fn resize(&mut self, _capacity: u64) {}

    #[inline]
    fn miss(&mut self, _facts: &impl Facts, _key_hash: u64, _weight: u32) -> Admit {
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let group = self.group(1, self.order.oldest());
        let node = self.nodes.add(Node {
            slot,
            links: Links::default(),
            group,
        });
        cells.set(slot, node);
        self.enter(node, group);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let node = cells.get(slot);
        let group = self.nodes.at(node).group;
        let above = self.order.newer(&self.groups, group);
        let Group {
            frequency, queue, ..
        } = self.groups.at(group);
        let higher = frequency.saturating_add(1);
        let is_free = above.is_none_or(|above| self.groups.at(above).frequency > higher);
        if queue.len() == 1 && is_free {
            // Alone, and nobody is at the next frequency: the group itself rises.
            self.groups.at_mut(group).frequency = higher;
            return;
        }
        if higher == frequency {
            return;
        }
        let next = self.group(higher, above);
        self.leave(node);
        self.enter(node, next);
    }

    #[inline]
    fn reweigh(&mut self, _cells: &mut impl Cells<u32>, _slot: Slot, _old_weight: u32) {}

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.nodes.at_mut(cells.get(new)).slot = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let node = cells.get(slot);
        self.leave(node);
        self.nodes.remove(node);
    }

    #[inline]
    fn evict(&mut self, _cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        let Some(lowest) = self.order.oldest() else {
            return Eviction::Empty;
        };
        if !budget.spend() {
            return Eviction::Again;
        }
        let node = self.groups.at(lowest).queue.oldest();
        let node = node.expect("a group that stands in the order is not empty");
        let victim = self.nodes.at(node).slot;
        self.leave(node);
        self.nodes.remove(node);
        Eviction::Victim(victim)
    }

    fn usage(&self, cells: &impl Cells<u32>, slot: Slot) -> (Option<u64>, Option<u32>) {
        let group = self.nodes.at(cells.get(slot)).group;
        (None, Some(self.groups.at(group).frequency))
    }

    fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.groups.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        let (mut below, mut count) = (0, 0);
        for group in self.order.members(&self.groups) {
            let Group {
                frequency, queue, ..
            } = self.groups.at(group);
            assert!(frequency > below, "frequencies rise");
            assert!(!queue.is_empty(), "an empty group stands in the order");
            for node in queue.members(&self.nodes) {
                let Node {
                    slot, group: own, ..
                } = self.nodes.at(node);
                assert!(cells.is_live(slot));
                assert_eq!((cells.get(slot), own), (node, group));
                count += 1;
            }
            below = frequency;
        }
        assert_eq!(count, self.nodes.len());
        assert_eq!(self.order.len(), self.groups.len());
    }
}
