//! First in, first out.
//!
//! # Idea
//! The entry that was inserted first goes first. A hit changes nothing at all, which makes it the
//! cheapest policy there is, the yardstick of the others, and the natural order of flash.
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
//! An entry whose slot was vacated and reused within one epoch may leave early, and a relocated one
//! late, by at most one epoch (about 1/24 of the cache's weight).
//!
//! # Avoid when
//! Some entries are asked for again and again: FIFO evicts them as readily as the others.

use crate::parts::epochs::{EpochRing, TAG_MASK, Tag};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Fifo {
    queue: EpochRing,
    capacity: u64,
    live: usize,
}

#[inline]
fn is_filed(cells: &impl Cells<u8>, slot: Slot, tag: Tag) -> bool {
    cells.is_live(slot) && cells.get(slot) & TAG_MASK == tag
}

impl Policy for Fifo {
    type Meta = u8;
    type Config = ();
    const NAME: &'static str = "fifo";
    const ON_HIT: OnHit = OnHit::Ignore;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        Fifo {
            queue: EpochRing::new(),
            capacity,
            live: 0,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    #[inline]
    fn miss(&mut self, _facts: &impl Facts, _key_hash: u64, _weight: u32) -> Admit {
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let tag = self.queue.push(slot, cells.weight(slot), self.capacity);
        cells.set(slot, tag);
        self.live += 1;
        self.queue
            .compact(self.live, |slot, tag| is_filed(cells, slot, tag));
    }

    #[inline]
    fn reweigh(&mut self, _cells: &mut impl Cells<u8>, _slot: Slot, _old_weight: u32) {}

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        self.queue.push_in(cells.get(new) & TAG_MASK, new);
        self.queue
            .compact(self.live, |slot, tag| is_filed(cells, slot, tag));
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        debug_assert_ne!(cells.get(slot), 0, "removed without having been inserted");
        cells.set(slot, 0);
        self.live -= 1;
        self.queue
            .compact(self.live, |slot, tag| is_filed(cells, slot, tag));
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        if self.live == 0 {
            return Eviction::Empty;
        }
        while budget.spend() {
            let (slot, tag) = self.queue.pop().expect("every entry held has a reference");
            if is_filed(cells, slot, tag) {
                cells.set(slot, 0);
                self.live -= 1;
                return Eviction::Victim(slot);
            }
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.queue.check();
        let filed = self
            .queue
            .live_slots(|slot, tag| is_filed(cells, slot, tag));
        assert_eq!(
            filed.len(),
            self.live,
            "every entry held has a reference that stands for it"
        );
    }
}
