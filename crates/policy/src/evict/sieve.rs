//! SIEVE: first in, first out, with a hand that leaves survivors where they are.
//!
//! # Idea
//! The hand moves from the old end to the young end. It evicts an entry that was not hit since it
//! last passed; an entry that was hit survives *in its place*. Survivors gather behind the hand, so
//! that it soon works among new entries: quick demotion without a second queue.
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
//! hit: at most one write of a byte · insert, remove O(1) · evict: one step per entry passed.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The source has one linked list and a pointer into it. Here the hand cuts the list into two
//! queues: survivors join the one behind it, new entries the one ahead. When that is empty the two
//! change roles. The order is the source's at half the bytes. Stale references as in `fifo`.
//!
//! # Avoid when
//! The loops are longer than the cache (block traces), or scans come between reuses.

use crate::marker::Count;
use crate::parts::queue::{Queue, TWO_QUEUES, queue_of};
use crate::{Budget, Cells, Eviction, Marker, OnHit, Policy, Slot};

/// Bit of the entry's byte, above the queue's bits, that a hit sets.
const VISITED: u8 = TWO_QUEUES + 1;

/// The SIEVE policy.
#[derive(Clone, Debug)]
pub struct Sieve {
    queues: [Queue<TWO_QUEUES>; 2],
    /// Index of the queue with the entries that the hand has not passed in this round. The other
    /// queue has those that it has passed.
    ahead: usize,
}

impl Sieve {
    /// Moves the hand to the old end if it has passed all entries.
    #[inline]
    fn wrap(&mut self) {
        if self.queues[self.ahead].is_empty() {
            self.ahead = 1 - self.ahead;
        }
    }
}

impl Policy for Sieve {
    type Meta = u8;
    type Config = ();
    const NAME: &'static str = "sieve";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        Sieve {
            queues: [0, 1].map(|number| Queue::new(number, capacity)),
            ahead: 0,
        }
    }
    fn resize(&mut self, capacity: u64) {
        for queue in &mut self.queues {
            queue.resize(capacity);
        }
    }
    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.wrap();
        self.queues[self.ahead].push(cells, slot);
    }
    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count::bit(u64::from(VISITED)))
    }
    mark_by_marker!(u8);
    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        self.queues[queue_of::<TWO_QUEUES>(cells.get(new))].moved(cells, new);
    }
    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.queues[queue_of::<TWO_QUEUES>(cells.get(slot))].remove(cells, slot);
    }
    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        loop {
            self.wrap();
            let slot = match self.queues[self.ahead].next(cells, budget) {
                Ok(slot) => slot,
                Err(none) => return none,
            };
            if cells.get(slot) & VISITED == 0 {
                cells.set(slot, 0);
                return Eviction::Victim(slot);
            }
            self.queues[1 - self.ahead].push(cells, slot);
        }
    }
    fn heap_bytes(&self) -> usize {
        self.queues.iter().map(Queue::heap_bytes).sum()
    }
    fn check(&self, cells: &impl Cells<u8>) {
        for queue in &self.queues {
            queue.check(cells);
        }
    }
}
