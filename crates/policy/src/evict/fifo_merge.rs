//! FIFO-Merge: Segcache's merge eviction as a policy of single entries.
//!
//! # Idea
//! Evictions come in groups. The hand examines the next hundred entries from the old end, leaves
//! the half with the most hits per weight in place, and evicts the rest one after the other.
//! Entries of similar age are compared, so plain counters suffice and need no aging.
//!
//! # Source
//! J. Yang, Y. Yue, K. V. Rashmi, *Segcache: a memory-efficient and scalable in-memory key-value
//! cache for small objects*, NSDI 2021,
//! <https://www.usenix.org/conference/nsdi21/presentation/yang-juncheng>; as a policy of single
//! entries in libCacheSim 0.3.5 (`FIFO_Merge`), with which results were compared.
//!
//! # State
//! Per entry: 16 bits (hits, place, epoch tag) and a 4-byte reference in a queue. Besides: the
//! group under examination.
//!
//! # Cost
//! hit: one write of the entry's 16 bits · insert O(1) · remove, relocate: a search through the
//! group · evict: one step per entry examined, a hundred for every forty-nine victims, and a sort
//! of them.
//!
//! # Knobs
//! `examine` (100; 2 to 1000): entries in a group. `keep` (50; 1 to 999): number of them that stay.
//!
//! # Departures
//! As in the reference's code, one entry fewer than `examine − keep` is evicted, and entries that
//! stay keep their hits; `keep` above `examine − 2` counts as that. A hit does not rescue a planned
//! victim. Ties are broken at random. Hits stop counting at 511. Stale references as in `fifo`.
//!
//! # Avoid when
//! The cache holds only a few hundred entries: it is then little better than FIFO.

use crate::knobs::Knobs;
use crate::marker::Count;
use crate::parts::chance::Chance;
use crate::parts::epochs::TAG_BITS;
use crate::parts::queue::{Queue, queue_of};
use crate::{Budget, Cells, Eviction, Marker, OnHit, Policy, Slot};
use alloc::vec::Vec;

crate::knobs! {
    /// Knobs of [`FifoMerge`].
    pub struct FifoMergeConfig {
        /// Number of entries in a group.
        examine: u16 = 100, 2 => 1000;
        /// Number of entries of a group that stay.
        keep: u16 = 50, 1 => 999;
    }
}

/// The entry's bits:
/// ```text
/// bit 15  7 6   5 4   0
///    [hits][place][tag]     place 0, 1: a queue; 2: in the group, with tag 1
/// ```
const PLACE_SHIFT: u32 = TAG_BITS;
const PLACED: u8 = 0x7F;
const HITS: u16 = !(PLACED as u16);
const IN_GROUP: u16 = 2 << PLACE_SHIFT | 1;
const ONE_HIT: u16 = 1 << 7;

#[derive(Clone, Copy, Debug)]
struct Examined {
    slot: Slot,
    /// Hits per weight, plus a small random number.
    worth: f64,
    /// Whether the hand has returned to the old end since the entry was examined.
    is_before_wrap: bool,
}

/// The FIFO-Merge policy.
#[derive(Clone, Debug)]
pub struct FifoMerge {
    queues: [Queue<PLACED>; 2],
    /// Index of the queue with the entries that the hand has not passed in this round. The other
    /// queue has those that it has passed.
    ahead: usize,
    /// Entries in order of age while the group is examined. After that, the planned victims, the
    /// next one last.
    group: Vec<Examined>,
    is_planned: bool,
    examine: usize,
    keep: usize,
    chance: Chance,
}

impl FifoMerge {
    fn held(&self) -> usize {
        self.queues[0].len() + self.queues[1].len() + self.group.len()
    }

    /// Moves the hand to the old end if it has passed all entries.
    fn wrap(&mut self) {
        if self.queues[self.ahead].is_empty() {
            self.ahead = 1 - self.ahead;
            self.group
                .iter_mut()
                .for_each(|one| one.is_before_wrap = true);
        }
    }

    fn examine(&mut self, cells: &mut impl Cells<u16>, slot: Slot) {
        let hits = cells.get(slot) & HITS;
        cells.set(slot, hits | IN_GROUP);
        let count = f64::from(hits / ONE_HIT) + self.chance.unit() / 10.0;
        let worth = count / f64::from(cells.weight(slot).max(1));
        self.group.push(Examined {
            slot,
            worth,
            is_before_wrap: false,
        });
    }

    /// Completes the group. The best entries return to the queue in their order, and the others
    /// become the planned victims.
    fn plan(&mut self, cells: &mut impl Cells<u16>) {
        let leaving = (self.examine - self.keep.min(self.examine - 2)) - 1;
        let mut order: Vec<usize> = (0..self.group.len()).collect();
        order.sort_by(|&a, &b| self.group[a].worth.total_cmp(&self.group[b].worth));
        let victims: Vec<Examined> = order[..leaving]
            .iter()
            .rev()
            .map(|&index| self.group[index])
            .collect();
        let mut staying = order.split_off(leaving);
        staying.sort_unstable();
        let group = core::mem::replace(&mut self.group, victims);
        for index in staying {
            let one = group[index];
            let hits = cells.get(one.slot) & HITS;
            let queue = if one.is_before_wrap {
                self.ahead
            } else {
                1 - self.ahead
            };
            self.queues[queue].put_back(cells, one.slot, hits);
        }
        self.is_planned = true;
    }
}

impl Policy for FifoMerge {
    type Meta = u16;
    type Config = FifoMergeConfig;
    const NAME: &'static str = "fifo-merge";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, config: &FifoMergeConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        FifoMerge {
            queues: [0, 1].map(|number| Queue::new(number, capacity)),
            ahead: 0,
            group: Vec::new(),
            is_planned: false,
            examine: usize::from(config.examine),
            keep: usize::from(config.keep),
            chance: Chance::new(seed),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.queues
            .iter_mut()
            .for_each(|queue| queue.resize(capacity));
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u16>, slot: Slot) {
        self.wrap();
        self.queues[self.ahead].push(cells, slot);
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count {
            mask: u64::from(!(ONE_HIT - 1)),
            max: u64::from(!(ONE_HIT - 1)),
            one: u64::from(ONE_HIT),
        })
    }
    mark_by_marker!(u16);

    fn moved(&mut self, cells: &mut impl Cells<u16>, old: Slot, new: Slot) {
        let place = queue_of::<PLACED>(cells.get(new));
        if let Some(queue) = self.queues.get_mut(place) {
            queue.moved(cells, new);
        } else {
            self.group
                .iter_mut()
                .filter(|one| one.slot == old)
                .for_each(|one| one.slot = new);
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<u16>, slot: Slot) {
        let place = queue_of::<PLACED>(cells.get(slot));
        if let Some(queue) = self.queues.get_mut(place) {
            queue.remove(cells, slot);
        } else {
            self.group.retain(|one| one.slot != slot);
            cells.set(slot, 0);
        }
    }

    fn evict(&mut self, cells: &mut impl Cells<u16>, budget: &mut Budget) -> Eviction {
        while self.held() > 0 {
            if !budget.spend() {
                return Eviction::Again;
            }
            self.is_planned &= !self.group.is_empty();
            let is_small = self.held() <= self.examine;
            if self.is_planned || (is_small && !self.group.is_empty()) {
                let next = if self.is_planned {
                    self.group.pop()
                } else {
                    Some(self.group.remove(0))
                };
                let slot = next.expect("the group was just seen not to be empty").slot;
                cells.set(slot, 0);
                return Eviction::Victim(slot);
            }
            self.wrap();
            let Some(slot) = self.queues[self.ahead].pop(cells) else {
                continue;
            };
            if is_small {
                cells.set(slot, 0);
                return Eviction::Victim(slot);
            }
            self.examine(cells, slot);
            if self.group.len() == self.examine {
                self.plan(cells);
            }
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        let queues: usize = self.queues.iter().map(Queue::heap_bytes).sum();
        queues + self.group.capacity() * size_of::<Examined>()
    }

    fn check(&self, cells: &impl Cells<u16>) {
        for queue in &self.queues {
            queue.check(cells);
        }
        assert!(self.group.len() < self.examine);
        for one in &self.group {
            assert!(cells.is_live(one.slot));
            assert_eq!(cells.get(one.slot) & !HITS, IN_GROUP);
        }
    }
}
