//! SIEVE: first in, first out, with a hand that leaves survivors where they are.
//!
//! # Idea
//! The hand walks from the old end to the young end. An entry that was hit since the hand last came
//! by survives *in its place*; one that was not goes. Survivors gather behind the hand, so that it
//! soon works among the newcomers: quick demotion without a second queue.
//!
//! # Source
//! Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, *SIEVE is Simpler than LRU*, NSDI 2024,
//! <https://www.usenix.org/conference/nsdi24/presentation/zhang-yazhuo>; algorithm 6 in J. Yang,
//! *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU 2024. Compared with
//! libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 7 bits (epoch tag, which queue, visited) and a 4-byte reference in a queue.
//!
//! # Cost
//! hit 0 or one write of the entry's byte · insert, remove O(1) · evict: one step per entry passed;
//! all entries may be visited, and the budget cuts the round anywhere.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The source has one linked list and a pointer into it. Here the list is cut at the hand into two
//! queues: `ahead` holds what the hand still has to pass, `passed` what it left behind. A survivor
//! goes from the old end of `ahead` to the young end of `passed`, a newcomer to the young end of
//! `ahead`; when nobody is left in `ahead` the two change roles. The order is the source's at half the bytes,
//! and nothing is chased through memory. An entry whose slot was vacated and reused within one epoch
//! may come up early, and a relocated one late, by at most one epoch.
//!
//! # Avoid when
//! The loops are longer than the cache (block traces), or scans come between reuses.

use crate::parts::epochs::{EpochRing, TAG_BITS, TAG_MASK, Tag};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

const QUEUE: u8 = 1 << TAG_BITS;
const VISITED: u8 = 1 << (TAG_BITS + 1);

/// SIEVE.
#[derive(Clone, Debug)]
pub struct Sieve {
    queues: [EpochRing; 2],
    /// Entries held by each queue.
    live: [usize; 2],
    /// Which queue the hand still has to pass; the other was passed.
    ahead: usize,
    capacity: u64,
}

/// The entry's byte:
/// ```text
/// bit 6       5       4   0
/// [visited][queue][ tag ]     tag 0: not filed
/// ```
#[inline]
fn is_filed(cells: &impl Cells<u8>, slot: Slot, queue: usize, tag: Tag) -> bool {
    cells.is_live(slot) && cells.get(slot) & (QUEUE | TAG_MASK) == (queue as u8) << TAG_BITS | tag
}

#[inline]
fn queue_of(meta: u8) -> usize {
    usize::from(meta >> TAG_BITS & 1)
}

impl Sieve {
    /// Where nothing is left ahead, the hand starts again at the old end. A newcomer is then the
    /// last to be passed.
    #[inline]
    fn wrap(&mut self) {
        if self.live[self.ahead] == 0 {
            self.ahead = 1 - self.ahead;
        }
    }

    #[inline]
    fn file(&mut self, cells: &mut impl Cells<u8>, slot: Slot, queue: usize) {
        let tag = self.queues[queue].push(slot, cells.weight(slot), self.capacity);
        cells.set(slot, (queue as u8) << TAG_BITS | tag);
        self.live[queue] += 1;
    }

    #[inline]
    fn compact(&mut self, cells: &impl Cells<u8>) {
        for queue in 0..2 {
            self.queues[queue].compact(self.live[queue], |slot, tag| {
                is_filed(cells, slot, queue, tag)
            });
        }
    }
}

impl Policy for Sieve {
    type Meta = u8;
    type Config = ();
    const NAME: &'static str = "sieve";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        let queues = [EpochRing::new(), EpochRing::new()];
        Sieve {
            queues,
            live: [0, 0],
            ahead: 0,
            capacity,
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
        self.wrap();
        self.file(cells, slot, self.ahead);
        self.compact(cells);
    }

    #[inline]
    fn mark(&self, _facts: &impl Facts, _slot: Slot, meta: u8) -> Option<u8> {
        (meta & VISITED == 0).then_some(meta | VISITED)
    }

    #[inline]
    fn reweigh(&mut self, _cells: &mut impl Cells<u8>, _slot: Slot, _old_weight: u32) {}

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        let meta = cells.get(new);
        self.queues[queue_of(meta)].push_in(meta & TAG_MASK, new);
        self.compact(cells);
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let meta = cells.get(slot);
        debug_assert_ne!(meta & TAG_MASK, 0, "removed without having been inserted");
        cells.set(slot, 0);
        self.live[queue_of(meta)] -= 1;
        self.compact(cells);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        if self.live == [0, 0] {
            return Eviction::Empty;
        }
        while budget.spend() {
            self.wrap();
            let (slot, tag) = self.queues[self.ahead]
                .pop()
                .expect("every entry has a reference");
            if !is_filed(cells, slot, self.ahead, tag) {
                continue;
            }
            self.live[self.ahead] -= 1;
            if cells.get(slot) & VISITED == 0 {
                cells.set(slot, 0);
                return Eviction::Victim(slot);
            }
            self.file(cells, slot, 1 - self.ahead);
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        self.queues.iter().map(EpochRing::heap_bytes).sum()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        for queue in 0..2 {
            self.queues[queue].check();
            let filed =
                self.queues[queue].live_slots(|slot, tag| is_filed(cells, slot, queue, tag));
            assert_eq!(
                filed.len(),
                self.live[queue],
                "every entry held has a reference"
            );
        }
    }
}
