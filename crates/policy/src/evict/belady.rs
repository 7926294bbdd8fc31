//! Belady's MIN: the victim is the entry whose next request is the farthest away.
//!
//! # Idea
//! No policy can miss less often when all entries weigh the same, so this is the bound that others
//! are measured by. It needs to know the future.
//!
//! # Source
//! L. A. Belady, *A study of replacement algorithms for a virtual-storage computer*, IBM Systems
//! Journal 5(2), 1966, <https://doi.org/10.1147/sj.52.0078>. Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 16 bytes in a heap, and as much again for references that a hit made stale.
//!
//! # Cost
//! hit, insert, evict O(log n) · remove, relocate O(1); evict drops what they leave behind.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The heap keeps stale references. One is dropped when it comes up, because its entry's bits then
//! have another number.
//!
//! # Avoid when
//! The future is not known: only the simulator runs it, on a whole trace. On a sampled trace, or
//! with weights that differ, the bound does not hold.

use crate::{Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

/// Number of stale references below which the heap is not rebuilt.
const STALE_MIN: usize = 64;

/// Belady's MIN.
#[derive(Clone, Debug)]
pub struct Belady {
    /// Next requests with their slots; the latest is at the top, and in a tie the higher slot.
    heap: BinaryHeap<(u64, Slot)>,
    live: usize,
}

/// Returns the word stored for an entry: the number of its next request plus 1. 0 means that the
/// entry was not inserted.
fn next_of(facts: &impl Facts, slot: Slot) -> u64 {
    let next = facts
        .next_access(slot)
        .expect("belady is run where the future is known");
    next.saturating_add(1)
}

impl Belady {
    fn is_current(cells: &impl Cells<u64>, next: u64, slot: Slot) -> bool {
        cells.is_live(slot) && cells.get(slot) == next
    }

    fn push(&mut self, cells: &mut impl Cells<u64>, slot: Slot, next: u64) {
        cells.set(slot, next);
        self.heap.push((next, slot));
        if self.heap.len() > 2 * self.live + STALE_MIN {
            self.heap
                .retain(|&(next, slot)| Self::is_current(cells, next, slot));
        }
    }
}

impl Policy for Belady {
    type Meta = u64;
    type Config = ();
    const NAME: &'static str = "belady";
    const ALIASES: &'static [&'static str] = &["opt", "min"];
    const ON_HIT: OnHit = OnHit::Reorder;
    const NEEDS_FUTURE: bool = true;

    fn new(_capacity: u64, _config: &(), _seed: u64) -> Self {
        Belady {
            heap: BinaryHeap::new(),
            live: 0,
        }
    }

    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        self.live += 1;
        let next = next_of(cells, slot);
        self.push(cells, slot, next);
    }

    fn reorder(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let next = next_of(cells, slot);
        if cells.get(slot) != next {
            self.push(cells, slot, next);
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<u64>, _old: Slot, new: Slot) {
        let next = cells.get(new);
        self.push(cells, new, next);
    }

    fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        cells.set(slot, 0);
        self.live -= 1;
    }

    fn evict(&mut self, cells: &mut impl Cells<u64>, budget: &mut Budget) -> Eviction {
        if self.live == 0 {
            return Eviction::Empty;
        }
        while budget.spend() {
            let (next, slot) = self.heap.pop().expect("every entry held has a reference");
            if Self::is_current(cells, next, slot) {
                cells.set(slot, 0);
                self.live -= 1;
                return Eviction::Victim(slot);
            }
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(u64, Slot)>()
    }

    fn check(&self, cells: &impl Cells<u64>) {
        let current = self
            .heap
            .iter()
            .filter(|&&(next, slot)| Self::is_current(cells, next, slot));
        let mut slots: Vec<Slot> = current.map(|&(_, slot)| slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), self.live);
    }
}
