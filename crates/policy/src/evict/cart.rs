//! CART: CAR with a temporal filter.
//!
//! # Idea
//! CAR counts an entry as popular at its second request, even if both requests are a moment apart.
//! CART gives each entry a filter bit, *short* or *long*. New entries enter T1 as short, and a hit
//! makes an entry long only if it comes at a later round of T1's hand. Only long entries move to
//! T2. A hit entry of T2 goes back to T1, so that T1 orders by recency. The target size of T1 and
//! the target size of its ghost list adapt apart from each other.
//!
//! # Source
//! S. Bansal, D. S. Modha, *CAR: clock with adaptive replacement*, FAST 2004, section V,
//! <https://www.usenix.org/conference/fast-04/car-clock-adaptive-replacement>. Compared with a
//! plain model of the source's figure.
//!
//! # State
//! Per entry: 8 bits (epoch tag, which clock, filter, marked) and a 4-byte reference in a queue.
//! Besides: up to one ghost per entry at about 30 bytes (see [`history`](crate::parts::history)).
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
//! All lengths are weights, and targets move by the weight of the entry that moves (see `arc`).
//! Stale references as in `fifo`. The head of a clock that stays where it is was taken out of its
//! queue and is kept beside it.
//!
//! Caffeine's simulator 3.1.8 misses up to 3 % less (`tests/reference/caffeine.rs` has the rows and
//! the reasons).
//!
//! # Avoid when
//! Memory is short, or loops are longer than the cache.

use crate::marker::Count;
use crate::parts::epochs::{TAG_BITS, TAG_MASK};
use crate::parts::history::History;
use crate::parts::queue::{TWO_QUEUES, WeighedQueue, queue_of};
use crate::{Admit, Budget, Cells, Eviction, Facts, Marker, OnHit, Policy, Slot};

/// Index of T1 and B1.
const ONE: usize = 0;
/// Index of T2 and B2.
const TWO: usize = 1;
/// Bit of the entry's byte, above the queue's bits, that a hit sets.
const MARKED: u8 = 1 << (TAG_BITS + 1);
/// Bit of an entry of long utility. Entries of T2 all have it.
const LONG: u8 = 1 << (TAG_BITS + 2);
/// Maximum number of ghosts that one call drops.
const DROPS_MAX: usize = 4;

/// The missed key that is about to be inserted.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    key_hash: u64,
    /// Ghost list in which the key was found, and the ghost's weight.
    found: Option<(usize, u64)>,
}

/// A clock whose head can be read without moving it.
#[derive(Clone, Debug)]
struct Clock {
    queue: WeighedQueue,
    number: u8,
    /// The oldest entry, if it was taken out of the queue to be read, and its weight. Its bits have
    /// the number of the clock and no tag.
    head: Option<(Slot, u64)>,
}

impl Clock {
    fn new(number: u8, capacity: u64) -> Self {
        Clock {
            queue: WeighedQueue::new(number, capacity),
            number,
            head: None,
        }
    }

    fn weight(&self) -> u64 {
        self.queue.weight() + self.head.map_or(0, |(_, weight)| weight)
    }

    fn is_empty(&self) -> bool {
        self.head.is_none() && self.queue.is_empty()
    }

    fn is_head(&self, slot: Slot) -> bool {
        self.head.is_some_and(|(head, _)| head == slot)
    }

    /// Ensures that the oldest entry is the head. Returns false if the step met a stale reference
    /// or the clock is empty.
    fn reach_head(&mut self, cells: &mut impl Cells<u8>) -> bool {
        if self.head.is_some() {
            return true;
        }
        if self.queue.is_empty() {
            return false;
        }
        let Some(slot) = self.queue.pop(cells) else {
            return false;
        };
        let own = cells.get(slot) & (MARKED | LONG);
        cells.set(slot, own | self.number << TAG_BITS);
        self.head = Some((slot, u64::from(cells.weight(slot))));
        true
    }
}

/// The CART policy.
#[derive(Clone, Debug)]
pub struct Cart {
    clocks: [Clock; 2],
    ghosts: [History; 2],
    /// Weight of the entries of T1 with a short filter bit.
    short: u64,
    /// Target weight of T1.
    aim: f64,
    /// Target weight of B1.
    ghost_aim: u64,
    capacity: u64,
    incoming: Option<Incoming>,
}

impl Cart {
    /// Weight of a ghost list, with the ghost whose key is about to be inserted.
    fn ghost_weight(&self, list: usize) -> u64 {
        let found = self.incoming.and_then(|incoming| incoming.found);
        let own = found.filter(|&(of, _)| of == list);
        self.ghosts[list].weight() + own.map_or(0, |(_, weight)| weight)
    }

    /// Weight of all entries with a long filter bit.
    fn long(&self) -> u64 {
        self.clocks[ONE].weight() + self.clocks[TWO].weight() - self.short
    }

    /// Changes the target weight of T1 after the key of an entry of this weight was found among the
    /// ghosts `found`.
    fn adapt(&mut self, found: usize, weight: u64) {
        let ghosts = self.ghost_weight(found).max(1) as f64;
        let (others, sign) = match found {
            ONE => (self.short, 1.0),
            _ => (self.long(), -1.0),
        };
        let step = (others as f64 / ghosts).max(1.0) * weight as f64;
        self.aim = (self.aim + sign * step).clamp(0.0, self.capacity as f64);
    }

    /// Raises the target weight of B1 if entries of long utility, with the ghosts of T2, take as
    /// much as the cache holds.
    fn raise_ghost_aim(&mut self, weight: u64) {
        let [one, two] = [ONE, TWO].map(|clock| self.clocks[clock].weight());
        if two + self.ghost_weight(TWO) + one - self.short >= self.capacity {
            let most = self.capacity.saturating_mul(2).saturating_sub(one);
            self.ghost_aim = (self.ghost_aim + weight).min(most);
        }
    }

    /// Drops ghosts while both lists weigh more than the cache.
    fn bound_ghosts(&mut self) {
        for _ in 0..DROPS_MAX {
            let [one, two] = &self.ghosts;
            if one.weight() + two.weight() <= self.capacity {
                return;
            }
            let is_long = one.weight() > self.ghost_aim && !one.is_empty();
            let list = if is_long || two.is_empty() { ONE } else { TWO };
            self.ghosts[list].pop();
        }
    }

    /// Appends an entry that is in no clock, with its filter bit.
    fn append(&mut self, cells: &mut impl Cells<u8>, slot: Slot, clock: usize, filter: u8) {
        if clock == ONE && filter == 0 {
            self.short += u64::from(cells.weight(slot));
        }
        self.clocks[clock].queue.push_with(cells, slot, filter);
    }

    /// Takes the head out of its clock, and returns it with its bits and its weight.
    fn take_head(&mut self, cells: &impl Cells<u8>, clock: usize) -> Option<(Slot, u8, u64)> {
        let (slot, weight) = self.clocks[clock].head.take()?;
        let bits = cells.get(slot);
        if bits & LONG == 0 {
            self.short -= weight;
        }
        Some((slot, bits, weight))
    }

    /// Moves the head of T2 to T1 if it was hit. Returns whether it did or met a stale reference.
    fn turn_two(&mut self, cells: &mut impl Cells<u8>) -> bool {
        if !self.clocks[TWO].reach_head(cells) {
            return !self.clocks[TWO].is_empty();
        }
        let is_marked = |(slot, _)| cells.get(slot) & MARKED != 0;
        if !self.clocks[TWO].head.is_some_and(is_marked) {
            return false;
        }
        if let Some((slot, _, weight)) = self.take_head(cells, TWO) {
            self.append(cells, slot, ONE, LONG);
            self.raise_ghost_aim(weight);
        }
        true
    }

    /// Moves the head of T1 to its tail if it was hit, or to T2 if it is of long utility. Returns
    /// whether it moved or met a stale reference.
    fn turn_one(&mut self, cells: &mut impl Cells<u8>) -> bool {
        if !self.clocks[ONE].reach_head(cells) {
            return !self.clocks[ONE].is_empty();
        }
        let stays = |(slot, _)| cells.get(slot) & (MARKED | LONG) == 0;
        if self.clocks[ONE].head.is_some_and(stays) {
            return false;
        }
        let t1 = self.clocks[ONE].weight();
        let Some((slot, bits, weight)) = self.take_head(cells, ONE) else {
            return false;
        };
        if bits & MARKED == 0 {
            self.append(cells, slot, TWO, LONG);
            let least = self.capacity.saturating_sub(self.clocks[ONE].weight());
            self.ghost_aim = self.ghost_aim.saturating_sub(weight).max(least);
            return true;
        }
        let enough = (self.aim + weight as f64).min(self.ghost_weight(ONE) as f64);
        let becomes_long = t1 as f64 >= enough;
        let filter = if becomes_long { LONG } else { bits & LONG };
        self.append(cells, slot, ONE, filter);
        true
    }
}

impl Policy for Cart {
    type Meta = u8;
    type Config = ();
    const NAME: &'static str = "cart";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        Cart {
            clocks: [0, 1].map(|clock| Clock::new(clock, capacity)),
            ghosts: [History::new(), History::new()],
            short: 0,
            aim: 0.0,
            ghost_aim: 0,
            capacity,
            incoming: None,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.clocks
            .iter_mut()
            .for_each(|clock| clock.queue.resize(capacity));
        self.aim = self.aim.min(capacity as f64);
        self.ghost_aim = self.ghost_aim.min(capacity.saturating_mul(2));
    }

    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, _weight: u32) -> Admit {
        let found = [ONE, TWO].into_iter().find_map(|list| {
            let (weight, ()) = self.ghosts[list].take(key_hash)?;
            Some((list, u64::from(weight)))
        });
        self.incoming = Some(Incoming { key_hash, found });
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let key_hash = cells.key_hash(slot);
        let weight = u64::from(cells.weight(slot));
        let incoming = self.incoming.filter(|one| one.key_hash == key_hash);
        self.incoming = incoming;
        let found = incoming.and_then(|incoming| incoming.found);
        if let Some((list, _)) = found {
            self.adapt(list, weight);
        }
        self.incoming = None;
        let filter = if found.is_some() { LONG } else { 0 };
        self.append(cells, slot, ONE, filter);
        if found.is_some_and(|(list, _)| list == TWO) {
            self.raise_ghost_aim(weight);
        }
        self.bound_ghosts();
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count::bit(u64::from(MARKED)))
    }
    mark_by_marker!(u8);

    fn reweigh(&mut self, cells: &mut impl Cells<u8>, slot: Slot, old_weight: u32) {
        let bits = cells.get(slot);
        let weight = u64::from(cells.weight(slot));
        if bits & LONG == 0 {
            self.short = self.short - u64::from(old_weight) + weight;
        }
        let clock = &mut self.clocks[queue_of::<TWO_QUEUES>(bits)];
        match clock.is_head(slot) {
            true => clock.head = Some((slot, weight)),
            false => clock.queue.reweigh(cells, slot, old_weight),
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<u8>, old: Slot, new: Slot) {
        let bits = cells.get(new);
        let clock = &mut self.clocks[queue_of::<TWO_QUEUES>(bits)];
        match clock.head {
            Some((head, weight)) if head == old && bits & TAG_MASK == 0 => {
                clock.head = Some((new, weight));
            }
            _ => clock.queue.moved(cells, new),
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let bits = cells.get(slot);
        if bits & LONG == 0 {
            self.short -= u64::from(cells.weight(slot));
        }
        let clock = &mut self.clocks[queue_of::<TWO_QUEUES>(bits)];
        if clock.is_head(slot) {
            clock.head = None;
            cells.set(slot, 0);
            return;
        }
        clock.queue.remove(cells, slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        while !self.clocks.iter().all(Clock::is_empty) {
            if !budget.spend() {
                return Eviction::Again;
            }
            if self.turn_two(cells) || self.turn_one(cells) {
                continue;
            }
            let is_over = self.clocks[ONE].weight() as f64 >= self.aim.max(1.0);
            let cuts_one = (is_over && !self.clocks[ONE].is_empty()) || self.clocks[TWO].is_empty();
            let clock = if cuts_one { ONE } else { TWO };
            let Some((slot, _, _)) = self.take_head(cells, clock) else {
                continue;
            };
            cells.set(slot, 0);
            self.ghosts[clock].push(cells.key_hash(slot), cells.weight(slot), ());
            self.bound_ghosts();
            return Eviction::Victim(slot);
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        let clocks = self.clocks.iter().map(|clock| clock.queue.heap_bytes());
        clocks.sum::<usize>() + self.ghosts.iter().map(History::heap_bytes).sum::<usize>()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.ghosts.iter().for_each(History::check);
        for clock in &self.clocks {
            clock.queue.check(cells);
            if let Some((slot, weight)) = clock.head {
                assert_eq!(weight, u64::from(cells.weight(slot)));
                assert_eq!(cells.get(slot) & TAG_MASK, 0, "the head has no tag");
            }
        }
        assert!(self.short <= self.clocks[ONE].weight());
        assert!(self.aim >= 0.0);
        assert!(self.aim <= self.capacity as f64);
    }
}
