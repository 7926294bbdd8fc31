//! CAR: clock with adaptive replacement.
//!
//! # Idea
//! ARC with clocks: T1 holds entries seen once recently, T2 those seen again, and a hit only marks
//! an entry. At the end of T1 a marked entry moves to T2; at the end of T2 it goes round once more.
//! As in ARC, a miss that finds its key among the ghosts of T1 or T2 shows which of them was too
//! short.
//!
//! # Source
//! S. Bansal, D. S. Modha, *CAR: clock with adaptive replacement*, FAST 2004,
//! <https://www.usenix.org/conference/fast-04/car-clock-adaptive-replacement>. Compared with
//! libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 7 bits (epoch tag, which clock, marked) and a 4-byte reference in a queue. Besides:
//! up to one ghost per entry at about 30 bytes (see [`history`](crate::parts::history)).
//!
//! # Cost
//! hit 0 or one write of the entry's byte · miss: a look-up in two hash tables · insert, remove
//! O(1) · evict: one step per entry passed; all may be marked, and the budget can end the round
//! anywhere.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! All lengths are weights, and the aim moves by the weight of the returning entry (see `arc`).
//! Stale references as in `fifo`.
//!
//! The reference departs from the source: it adapts before it makes room and not after, truncates
//! the ratio of the ghosts to an integer, and also drops a ghost of T1 when the missed key is
//! itself a ghost. On `arc_oltp` at 1,868 objects it misses 0.635, more than LRU (0.584); this
//! misses 0.545 and ARC 0.546, and the source finds CAR as good as ARC. Elsewhere the two are
//! within 6 %.
//!
//! # Avoid when
//! Memory is short, or loops are longer than the cache.

use crate::marker::Count;
use crate::parts::epochs::TAG_BITS;
use crate::parts::history::History;
use crate::parts::queue::{TWO_QUEUES, WeighedQueue, queue_of};
use crate::{Admit, Budget, Cells, Eviction, Facts, Marker, OnHit, Policy, Slot};

/// Index of T1 and B1.
const ONCE: usize = 0;
/// Index of T2 and B2.
const AGAIN: usize = 1;
/// Bit of the entry's byte, above the queue's bits, that a hit sets.
const MARKED: u8 = 1 << (TAG_BITS + 1);
/// Maximum number of ghosts that one call drops.
const DROPS_MAX: usize = 4;

/// The missed key that is about to be inserted.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    key_hash: u64,
    /// Ghost list in which the key was found.
    found: Option<usize>,
}

/// The CAR policy.
#[derive(Clone, Debug)]
pub struct Car {
    clocks: [WeighedQueue; 2],
    ghosts: [History; 2],
    /// Target weight of T1.
    aim: f64,
    capacity: u64,
    incoming: Option<Incoming>,
}

impl Car {
    /// Changes the target weight of T1 after a key was found among the ghosts `found`, from which
    /// it was removed.
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

    /// Drops ghosts before a key of this weight without a ghost is inserted, so that the lists stay
    /// within their bounds: T1 and B1 together weigh at most c, all four lists 2 c.
    fn bound_directory(&mut self, weight: u64) {
        for _ in 0..DROPS_MAX {
            let once = self.clocks[ONCE].weight() + self.ghosts[ONCE].weight();
            let again = self.clocks[AGAIN].weight() + self.ghosts[AGAIN].weight();
            let list = if once + weight > self.capacity && !self.ghosts[ONCE].is_empty() {
                ONCE
            } else if once + again + weight > self.capacity.saturating_mul(2) {
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
            clocks: [0, 1].map(|clock| WeighedQueue::new(clock, capacity)),
            ghosts: [History::new(), History::new()],
            aim: 0.0,
            capacity,
            incoming: None,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.clocks
            .iter_mut()
            .for_each(|clock| clock.resize(capacity));
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
        let clock = if found.is_some() { AGAIN } else { ONCE };
        self.clocks[clock].push(cells, slot);
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count::bit(u64::from(MARKED)))
    }
    mark_by_marker!(u8);

    fn reweigh(&mut self, cells: &mut impl Cells<u8>, slot: Slot, old_weight: u32) {
        self.clocks[queue_of::<TWO_QUEUES>(cells.get(slot))].reweigh(cells, slot, old_weight);
    }

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        self.clocks[queue_of::<TWO_QUEUES>(cells.get(new))].moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.clocks[queue_of::<TWO_QUEUES>(cells.get(slot))].remove(cells, slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        while !self.clocks.iter().all(WeighedQueue::is_empty) {
            if !budget.spend() {
                return Eviction::Again;
            }
            let is_over = self.clocks[ONCE].weight() as f64 >= self.aim.max(1.0);
            let cuts_once =
                (is_over && !self.clocks[ONCE].is_empty()) || self.clocks[AGAIN].is_empty();
            let clock = if cuts_once { ONCE } else { AGAIN };
            let Some(slot) = self.clocks[clock].pop(cells) else {
                continue;
            };
            if cells.get(slot) & MARKED != 0 {
                self.clocks[AGAIN].push(cells, slot);
                continue;
            }
            cells.set(slot, 0);
            self.ghosts[clock].push(cells.key_hash(slot), cells.weight(slot), ());
            if self.incoming.is_none() {
                self.bound_directory(0);
            }
            return Eviction::Victim(slot);
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        let clocks: usize = self.clocks.iter().map(WeighedQueue::heap_bytes).sum();
        clocks + self.ghosts.iter().map(History::heap_bytes).sum::<usize>()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.ghosts.iter().for_each(History::check);
        self.clocks.iter().for_each(|clock| clock.check(cells));
        assert!(self.aim >= 0.0);
        assert!(self.aim <= self.capacity as f64);
    }
}
