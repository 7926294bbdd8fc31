//! First in, first out.
//!
//! # Idea
//! The oldest entry is evicted. A hit changes nothing, which makes it the cheapest policy, the
//! baseline of the others, and the natural order of flash.
//!
//! # Source
//! L. A. Belady, *A study of replacement algorithms for a virtual-storage computer*, IBM Systems
//! Journal 5(2), 1966, <https://doi.org/10.1147/sj.52.0078>. Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 5 bits (the tag of its epoch, see [`epochs`](crate::parts::epochs)) and a 4-byte
//! reference in the queue. Besides: nothing that grows.
//!
//! # Cost
//! hit 0 · insert, remove, evict O(1) · a stale reference costs one step of the budget.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! An entry whose slot was vacated and reused within one epoch may be evicted early, and a
//! relocated one late, by at most one epoch: 1/24 of the cache's weight, or 128 entries if these
//! weigh more and 1/24 is at least 128 units.
//!
//! # Avoid when
//! Some entries are requested again and again: FIFO evicts them as readily as the others.

use crate::parts::queue::Queue;
use crate::{Budget, Cells, Eviction, OnHit, Policy, Slot};

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Fifo(Queue);

impl Policy for Fifo {
    type Meta = u8;
    type Config = ();
    const NAME: &'static str = "fifo";
    const ON_HIT: OnHit = OnHit::Ignore;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        Fifo(Queue::new(0, capacity))
    }
    fn resize(&mut self, capacity: u64) {
        self.0.resize(capacity);
    }
    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.0.push(cells, slot);
    }
    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        self.0.moved(cells, new);
    }
    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.0.remove(cells, slot);
    }
    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        self.0.evict_oldest(cells, budget)
    }
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
    fn check(&self, cells: &impl Cells<u8>) {
        self.0.check(cells);
    }
}
