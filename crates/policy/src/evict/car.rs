//! CAR: clock with adaptive replacement.
//!
//! # Idea
//! ARC with clocks: T1 holds what was seen once lately, T2 what was seen again, and a hit only marks.
//! At the end of T1 a marked entry goes over to T2, at the end of T2 it goes round once more. As in ARC,
//! a miss that finds its key among the ghosts of T1 or T2 says which of them was too short.
//!
//! # Source
//! S. Bansal, D. S. Modha, *CAR: clock with adaptive replacement*, FAST 2004,
//! <https://www.usenix.org/conference/fast-04/car-clock-adaptive-replacement>. Compared with libCacheSim
//! 0.3.5.
//!
//! # State
//! Per entry: 7 bits (epoch tag, which clock, marked) and a 4-byte reference in a queue. Besides: up to
//! one ghost per entry at about 30 bytes (see [`history`](crate::parts::history)).
//!
//! # Cost
//! hit 0 or one write of the entry's byte · miss: a look into two hash tables · insert, remove O(1) ·
//! evict: one step per entry passed; all may be marked, and the budget cuts the round anywhere.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! All lengths are weights, and the aim moves by the weight of what came back (see `arc`). Stale
//! references as in `fifo`.
//!
//! The reference departs from the source: it adapts before it makes room and not after, truncates the
//! ratio of the ghosts to a whole number, and drops a ghost of T1 also when the key that comes is one
//! that came back. On `arc_oltp` at 1,868 objects it misses 0.635, more than LRU (0.584); this misses
//! 0.545 and ARC 0.546, and the source finds CAR as good as ARC. Elsewhere the two are within 6 %.
//!
//! # Avoid when
//! Memory is short, or loops are longer than the cache.

use crate::parts::epochs::{EpochRing, TAG_BITS, TAG_MASK, Tag};
use crate::parts::history::History;
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// T1 and B1.
const ONCE: usize = 0;
/// T2 and B2.
const AGAIN: usize = 1;
/// The bit of an entry's byte that names its clock.
const CLOCK: u8 = 1 << TAG_BITS;
const MARKED: u8 = 1 << (TAG_BITS + 1);
/// Ghosts that one call drops at most.
const DROPS_MAX: usize = 4;

/// The miss that is about to be inserted.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    key_hash: u64,
    /// The ghosts that remembered it.
    found: Option<usize>,
}

/// CAR.
#[derive(Clone, Debug)]
pub struct Car {
    clocks: [EpochRing; 2],
    live: [usize; 2],
    weight: [u64; 2],
    ghosts: [History; 2],
    /// The weight that T1 aims at.
    aim: f64,
    capacity: u64,
    incoming: Option<Incoming>,
}

/// The entry's byte:
/// ```text
/// bit 6       5       4   0
/// [marked][clock][ tag ]     tag 0: not filed
/// ```
#[inline]
fn is_filed(cells: &impl Cells<u8>, slot: Slot, clock: usize, tag: Tag) -> bool {
    cells.is_live(slot) && cells.get(slot) & (CLOCK | TAG_MASK) == (clock as u8) << TAG_BITS | tag
}

#[inline]
fn clock_of(meta: u8) -> usize {
    usize::from(meta >> TAG_BITS & 1)
}

impl Car {
    #[inline]
    fn file(&mut self, cells: &mut impl Cells<u8>, slot: Slot, clock: usize) {
        let weight = cells.weight(slot);
        let tag = self.clocks[clock].push(slot, weight, self.capacity);
        cells.set(slot, (clock as u8) << TAG_BITS | tag);
        self.live[clock] += 1;
        self.weight[clock] += u64::from(weight);
    }

    #[inline]
    fn forget(&mut self, weight: u32, clock: usize) {
        self.live[clock] -= 1;
        self.weight[clock] -= u64::from(weight);
    }

    #[inline]
    fn compact(&mut self, cells: &impl Cells<u8>) {
        for clock in [ONCE, AGAIN] {
            self.clocks[clock].compact(self.live[clock], |slot, tag| {
                is_filed(cells, slot, clock, tag)
            });
        }
    }

    /// What a key that came back says about the aim. It was among the ghosts until now.
    fn adapt(&mut self, found: usize, weight: u64) {
        let ghosts = [ONCE, AGAIN].map(|list| {
            let own = if list == found { weight } else { 0 };
            (self.ghosts[list].weight() + own) as f64
        });
        let step = (ghosts[1 - found] / ghosts[found]).max(1.0) * weight as f64;
        let aim = if found == ONCE {
            self.aim + step
        } else {
            self.aim - step
        };
        self.aim = aim.clamp(0.0, self.capacity as f64);
    }

    /// Before a stranger of this weight is inserted: T1 and B1 remember c, all four 2 c.
    fn bound_directory(&mut self, weight: u64) {
        for _ in 0..DROPS_MAX {
            let once = self.weight[ONCE] + self.ghosts[ONCE].weight();
            let again = self.weight[AGAIN] + self.ghosts[AGAIN].weight();
            let list = if once + weight > self.capacity && !self.ghosts[ONCE].is_empty() {
                ONCE
            } else if once + again + weight > 2 * self.capacity {
                AGAIN
            } else {
                return;
            };
            self.ghosts[list].pop();
        }
    }
}

impl Policy for Car {
    type Meta = u8;
    type Config = ();
    const NAME: &'static str = "car";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        Car {
            clocks: [EpochRing::new(), EpochRing::new()],
            live: [0, 0],
            weight: [0, 0],
            ghosts: [History::new(), History::new()],
            aim: 0.0,
            capacity,
            incoming: None,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.aim = self.aim.min(capacity as f64);
    }

    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, _weight: u32) -> Admit {
        let found = [ONCE, AGAIN]
            .into_iter()
            .find(|&list| self.ghosts[list].take(key_hash).is_some());
        self.incoming = Some(Incoming { key_hash, found });
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let key_hash = cells.key_hash(slot);
        let weight = u64::from(cells.weight(slot));
        let incoming = self.incoming.take();
        let found = incoming
            .filter(|incoming| incoming.key_hash == key_hash)
            .and_then(|incoming| incoming.found);
        match found {
            Some(found) => self.adapt(found, weight),
            None => self.bound_directory(weight),
        }
        self.file(cells, slot, if found.is_some() { AGAIN } else { ONCE });
        self.compact(cells);
    }

    #[inline]
    fn mark(&self, _facts: &impl Facts, _slot: Slot, meta: u8) -> Option<u8> {
        (meta & MARKED == 0).then_some(meta | MARKED)
    }

    fn reweigh(&mut self, cells: &mut impl Cells<u8>, slot: Slot, old_weight: u32) {
        let clock = clock_of(cells.get(slot));
        let weight = self.weight[clock] - u64::from(old_weight);
        self.weight[clock] = weight + u64::from(cells.weight(slot));
    }

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        let meta = cells.get(new);
        self.clocks[clock_of(meta)].push_in(meta & TAG_MASK, new);
        self.compact(cells);
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let meta = cells.get(slot);
        debug_assert_ne!(meta & TAG_MASK, 0, "removed without having been inserted");
        self.forget(cells.weight(slot), clock_of(meta));
        cells.set(slot, 0);
        self.compact(cells);
    }

    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        while self.live != [0, 0] {
            if !budget.spend() {
                return Eviction::Again;
            }
            let is_over = self.weight[ONCE] as f64 >= self.aim.max(1.0);
            let cuts_once = (is_over && self.live[ONCE] > 0) || self.live[AGAIN] == 0;
            let clock = if cuts_once { ONCE } else { AGAIN };
            let (slot, tag) = self.clocks[clock]
                .pop()
                .expect("every entry held has a reference");
            if !is_filed(cells, slot, clock, tag) {
                continue;
            }
            let weight = cells.weight(slot);
            self.forget(weight, clock);
            if cells.get(slot) & MARKED != 0 {
                self.file(cells, slot, AGAIN);
                continue;
            }
            cells.set(slot, 0);
            self.ghosts[clock].push(cells.key_hash(slot), weight, ());
            if self.incoming.is_none() {
                self.bound_directory(0);
            }
            return Eviction::Victim(slot);
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        let clocks: usize = self.clocks.iter().map(EpochRing::heap_bytes).sum();
        clocks + self.ghosts.iter().map(History::heap_bytes).sum::<usize>()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        for clock in [ONCE, AGAIN] {
            self.ghosts[clock].check();
            self.clocks[clock].check();
            let filed =
                self.clocks[clock].live_slots(|slot, tag| is_filed(cells, slot, clock, tag));
            assert_eq!(filed.len(), self.live[clock], "all have a reference");
            let weights = filed.iter().map(|&slot| u64::from(cells.weight(slot)));
            assert_eq!(weights.sum::<u64>(), self.weight[clock]);
        }
        assert!(self.aim >= 0.0);
        assert!(self.aim <= self.capacity as f64);
    }
}
