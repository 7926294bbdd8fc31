//! LIRS: low inter-reference recency set.
//!
//! # Idea
//! Entries are ranked not by how long ago they were requested, but by how many other entries were
//! requested between their last two requests. Nearly all of the cache is for the *LIR* entries, for
//! which that number is small. The rest is a small queue *Q* of the *HIR* entries, which alone are
//! evicted. A stack *S* orders the entries requested since the last request for the oldest LIR
//! entry, evicted entries included. An HIR entry that is requested while it is in the stack has a
//! shorter distance than the oldest LIR entry, and takes its place.
//!
//! # Source
//! S. Jiang, X. Zhang, *LIRS: an efficient low inter-reference recency set replacement policy to
//! improve buffer cache performance*, SIGMETRICS 2002, <https://doi.org/10.1145/511334.511340>.
//! Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 4 bytes (the number of its node) and a node of 48 bytes; as much, and 4 bytes in a
//! table, for each evicted entry in the stack: up to one for an entry.
//!
//! # Cost
//! hit, insert, remove, evict O(1): a bounded number of nodes each · miss: a look-up in a hash
//! table.
//!
//! # Knobs
//! `hir` (0.01; 0.001 to 0.5): Q's share of the capacity. `stack` (2; 1 to 10): maximum weight of
//! the stack, with evicted entries, as a multiple of the capacity; beyond it the entry evicted
//! first is dropped.
//!
//! # Departures
//! The stack is two lists, of LIR and of HIR entries, with the time of the last request in each
//! node. Whether an HIR entry is above the oldest LIR entry is a comparison, so *stack pruning*
//! changes no decision and is done a few nodes per call. When a heavy entry becomes LIR, at most
//! four others are demoted at once, the rest later.
//!
//! The reference follows the source except for a hit on an HIR entry that is in Q alone: it demotes
//! an LIR entry, evicts for it, and so keeps one entry fewer until the next miss. With a queue of
//! one entry it evicts the very entry that was hit and still counts it as cached. It also rejects
//! objects larger than Q.
//!
//! # Avoid when
//! Memory per entry or hits on several threads matter, or popularity changes quickly.

use crate::knobs::Knobs;
use crate::parts::lookup::{Lookup, keyed};
use crate::parts::pool::{Chain, Links, Pool, chained};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// List number of both lists that form the stack.
const STACK: usize = 0;
/// List number of Q, and of the list of evicted entries in the order of their eviction.
const QUEUE: usize = 1;
/// Maximum number of nodes of each kind that one call prunes, demotes or drops; each call adds at
/// most one.
const STEPS_MAX: usize = 4;

crate::knobs! {
    /// Knobs of [`Lirs`].
    pub struct LirsConfig {
        /// Q's share of the capacity.
        hir: f64 = 0.01, 0.001 => 0.5;
        /// Maximum weight of the stack, as a multiple of the capacity.
        stack: f64 = 2.0, 1.0 => 10.0;
    }
}

/// State of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    /// An LIR entry, which is in the stack's list of LIR entries.
    Lir,
    /// An HIR entry that is held, which is in Q.
    Hir,
    /// An evicted entry, which is only in the stack's list of HIR entries.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key_hash: u64,
    /// Number of the request that put the node on top of the stack.
    stamp: u64,
    slot: Slot,
    weight: u32,
    stack: Links,
    queue: Links,
    /// Next node in the same bucket of the hash table.
    chain: u32,
    status: Status,
    /// Whether the node of an HIR entry is in the stack's list of HIR entries.
    is_stacked: bool,
}

chained!(Node, STACK => stack);
chained!(Node, QUEUE => queue);
keyed!(Node);

/// The LIRS policy.
#[derive(Clone, Debug)]
pub struct Lirs {
    nodes: Pool<Node>,
    /// Index of the evicted entries by key.
    lookup: Lookup,
    lir: Chain<STACK>,
    /// HIR entries of the stack, and some below its bottom that remain to be pruned.
    hir: Chain<STACK>,
    queue: Chain<QUEUE>,
    gone: Chain<QUEUE>,
    lir_weight: u64,
    /// Weight of the members of `hir`.
    hir_weight: u64,
    lir_capacity: u64,
    stack_capacity: u64,
    /// Number of requests so far.
    now: u64,
    /// Key that was found among the evicted entries and is about to be inserted.
    returning: Option<u64>,
    config: LirsConfig,
}

impl Lirs {
    fn set_capacity(&mut self, capacity: u64) {
        let hir = ((capacity as f64 * self.config.hir) as u64).max(1);
        self.lir_capacity = capacity.saturating_sub(hir);
        self.stack_capacity = (capacity as f64 * self.config.stack) as u64;
    }

    /// Whether the node is above the stack's bottom, which is the oldest LIR entry.
    #[inline]
    fn is_in_stack(&self, node: &Node) -> bool {
        let bottom = self.lir.oldest();
        node.is_stacked && bottom.is_some_and(|bottom| self.nodes.at(bottom).stamp < node.stamp)
    }

    /// Puts a node on top of one of the stack's lists.
    #[inline]
    fn stack(&mut self, index: u32, status: Status) {
        let node = self.nodes.at_mut(index);
        node.status = status;
        node.stamp = self.now;
        let weight = u64::from(node.weight);
        if status == Status::Lir {
            self.lir_weight += weight;
            self.lir.push(&mut self.nodes, index);
        } else {
            node.is_stacked = true;
            self.hir_weight += weight;
            self.hir.push(&mut self.nodes, index);
        }
    }

    #[inline]
    fn unstack(&mut self, index: u32) {
        let node = self.nodes.at_mut(index);
        let weight = u64::from(node.weight);
        if node.status == Status::Lir {
            self.lir_weight -= weight;
            self.lir.unlink(&mut self.nodes, index);
        } else if node.is_stacked {
            node.is_stacked = false;
            self.hir_weight -= weight;
            self.hir.unlink(&mut self.nodes, index);
        }
    }

    /// Drops an evicted entry.
    fn forget(&mut self, index: u32) {
        self.unstack(index);
        self.gone.unlink(&mut self.nodes, index);
        self.lookup.remove(&mut self.nodes, index);
        self.nodes.remove(index);
    }

    /// Moves the oldest LIR entry from the stack to the young end of Q.
    fn demote(&mut self) {
        let oldest = self.lir.oldest();
        let index = oldest.expect("LIR entries above their capacity are some");
        self.unstack(index);
        self.nodes.at_mut(index).status = Status::Hir;
        self.queue.push(&mut self.nodes, index);
    }

    /// Demotes LIR entries beyond their share, prunes the stack below the oldest LIR entry, and
    /// drops evicted entries beyond the stack's bound. Each call handles only a few nodes.
    #[inline]
    fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.lir_weight <= self.lir_capacity || self.lir.len() < 2 {
                break;
            }
            self.demote();
        }
        for _ in 0..STEPS_MAX {
            let Some(index) = self.hir.oldest() else {
                break;
            };
            let node = self.nodes.at(index);
            if self.is_in_stack(&node) {
                break;
            }
            if node.status == Status::Gone {
                self.forget(index);
            } else {
                self.unstack(index);
            }
        }
        for _ in 0..STEPS_MAX {
            let is_over = self.lir_weight + self.hir_weight > self.stack_capacity;
            let Some(index) = self.gone.oldest().filter(|_| is_over) else {
                break;
            };
            self.forget(index);
        }
    }

    fn check_node(&self, cells: &impl Cells<u32>, index: u32, status: Status) -> Node {
        let node = self.nodes.at(index);
        assert_eq!(node.status, status);
        if status != Status::Gone {
            assert!(cells.is_live(node.slot));
            assert_eq!(cells.get(node.slot), index);
            assert_eq!(cells.weight(node.slot), node.weight);
            assert_eq!(cells.key_hash(node.slot), node.key_hash);
        }
        node
    }
}

impl Policy for Lirs {
    type Meta = u32;
    type Config = LirsConfig;
    const NAME: &'static str = "lirs";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &LirsConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let mut policy = Lirs {
            nodes: Pool::new(),
            lookup: Lookup::new(),
            lir: Chain::new(),
            hir: Chain::new(),
            queue: Chain::new(),
            gone: Chain::new(),
            lir_weight: 0,
            hir_weight: 0,
            lir_capacity: 0,
            stack_capacity: 0,
            now: 0,
            returning: None,
            config: config.clone(),
        };
        policy.set_capacity(capacity);
        policy
    }

    fn resize(&mut self, capacity: u64) {
        self.set_capacity(capacity);
    }

    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, _weight: u32) -> Admit {
        self.returning = None;
        if let Some(index) = self.lookup.find(&self.nodes, key_hash) {
            if self.is_in_stack(&self.nodes.at(index)) {
                self.returning = Some(key_hash);
            }
            self.forget(index);
        }
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.now += 1;
        let (key_hash, weight) = (cells.key_hash(slot), cells.weight(slot));
        // An entry that was removed, not evicted, and is inserted again without a miss may still
        // have a node.
        if let Some(known) = self.lookup.find(&self.nodes, key_hash) {
            self.forget(known);
        }
        let index = self.nodes.add(Node {
            key_hash,
            stamp: self.now,
            slot,
            weight,
            stack: Links::default(),
            queue: Links::default(),
            chain: 0,
            status: Status::Hir,
            is_stacked: false,
        });
        cells.set(slot, index);
        let has_room = self.lir_weight + u64::from(weight) <= self.lir_capacity;
        if self.returning.take() == Some(key_hash) || has_room {
            self.stack(index, Status::Lir);
        } else {
            self.stack(index, Status::Hir);
            self.queue.push(&mut self.nodes, index);
        }
        self.settle();
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.now += 1;
        let index = cells.get(slot);
        let node = self.nodes.at(index);
        let is_in_stack = self.is_in_stack(&node);
        self.unstack(index);
        if node.status == Status::Lir {
            self.stack(index, Status::Lir);
        } else if is_in_stack {
            self.queue.unlink(&mut self.nodes, index);
            self.stack(index, Status::Lir);
        } else {
            self.queue.promote(&mut self.nodes, index);
            self.stack(index, Status::Hir);
        }
        self.settle();
    }

    fn reweigh(&mut self, cells: &mut impl Cells<u32>, slot: Slot, old_weight: u32) {
        let node = self.nodes.at_mut(cells.get(slot));
        node.weight = cells.weight(slot);
        let (old, new) = (u64::from(old_weight), u64::from(node.weight));
        if node.status == Status::Lir {
            self.lir_weight = self.lir_weight - old + new;
        } else if node.is_stacked {
            self.hir_weight = self.hir_weight - old + new;
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.nodes.at_mut(cells.get(new)).slot = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let index = cells.get(slot);
        self.unstack(index);
        if self.nodes.at(index).status == Status::Hir {
            self.queue.unlink(&mut self.nodes, index);
        }
        self.nodes.remove(index);
        self.settle();
    }

    fn evict(&mut self, _cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        if self.queue.is_empty() && self.lir.is_empty() {
            return Eviction::Empty;
        }
        if !budget.spend() {
            return Eviction::Again;
        }
        if self.queue.is_empty() {
            self.demote();
        }
        let index = self.queue.oldest().expect("an entry was just demoted");
        self.queue.unlink(&mut self.nodes, index);
        let node = self.nodes.at(index);
        if self.is_in_stack(&node) {
            self.nodes.at_mut(index).status = Status::Gone;
            self.gone.push(&mut self.nodes, index);
            self.lookup.add(&mut self.nodes, index);
        } else {
            self.unstack(index);
            self.nodes.remove(index);
        }
        self.settle();
        Eviction::Victim(node.slot)
    }

    fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.lookup.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        let (mut stamp, mut weight) = (0, 0);
        let lir = self.lir.members(&self.nodes);
        for &index in &lir {
            let node = self.check_node(cells, index, Status::Lir);
            assert!(!node.is_stacked, "a list has it twice");
            assert!(node.stamp > stamp, "the stack is in order");
            stamp = node.stamp;
            weight += u64::from(node.weight);
        }
        assert_eq!(weight, self.lir_weight);
        let (mut stamp, mut weight) = (0, 0);
        for index in self.hir.members(&self.nodes) {
            let node = self.nodes.at(index);
            assert!(node.is_stacked, "a member of the stack says so");
            assert!(node.stamp > stamp, "the stack is in order");
            stamp = node.stamp;
            weight += u64::from(node.weight);
        }
        assert_eq!(weight, self.hir_weight);
        for index in self.queue.members(&self.nodes) {
            self.check_node(cells, index, Status::Hir);
        }
        for index in self.gone.members(&self.nodes) {
            let node = self.check_node(cells, index, Status::Gone);
            assert!(
                node.is_stacked,
                "an evicted entry has a node only while it is in the stack"
            );
            assert_eq!(self.lookup.find(&self.nodes, node.key_hash), Some(index));
        }
        assert_eq!(self.gone.len(), self.lookup.len());
        let held = lir.len() + self.queue.len() + self.gone.len();
        assert_eq!(held, self.nodes.len());
    }
}
