//! A disk cache that evicts in the order of a hash that all chunks of an object share.
//!
//! It is a CLOCK whose hand moves through objects in hash order instead of arrival order. The hand
//! clears the mark of an object that was accessed since its last pass, and evicts an object without
//! a mark. A new object starts with a mark, because the hand may be just before its place. If
//! servers receive equal write loads, their hands advance at equal speed and reach the chunks of an
//! object at about the same time.
//!
//! Optionally, servers share the position of the furthest hand. A server that is behind first
//! catches up and evicts what the others have evicted, even if that leaves space unused. The
//! position is one number, sent in both directions with every read and write between two servers.
//! Servers that exchange no data do not learn each other's positions.

use super::tier::Tier;
use crate::dense::hash_of;
use policy::parts::chance::scramble;
use policy::{Slot, Tick};
use std::rc::Rc;

/// All objects in the order of a hash.
pub(super) struct HashOrder {
    objects: Vec<u32>,
    /// Position of each object in the order.
    places: Vec<u32>,
}

impl HashOrder {
    pub(super) fn new(count: usize) -> Self {
        let mut objects: Vec<u32> = (0..count as u32).collect();
        // Hashed once more, because buckets are chosen by the model hash and the hand would pass
        // one bucket after another.
        objects.sort_unstable_by_key(|&object| (scramble(hash_of(Slot(object))), object));
        let mut places = vec![0; count];
        for (place, &object) in objects.iter().enumerate() {
            places[object as usize] = place as u32;
        }
        HashOrder { objects, places }
    }
}

/// Disk cache with a CLOCK hand in hash order.
pub(super) struct Ring<'t> {
    order: Rc<HashOrder>,
    weights: &'t [u32],
    capacity: u64,
    held_bytes: u64,
    /// One bit per position: whether the object there is held, and whether it is marked.
    held: Vec<u64>,
    marked: Vec<u64>,
    /// Number of positions that the hand has advanced since the start.
    hand: u64,
    /// Furthest hand known, this cache's own included; `None` if servers do not share positions.
    furthest: Option<u64>,
}

/// Sets or clears a bit. Returns whether it was set.
fn set(bits: &mut [u64], place: usize, to: bool) -> bool {
    let (word, bit) = (&mut bits[place / 64], 1 << (place % 64));
    let was_set = *word & bit != 0;
    *word = if to { *word | bit } else { *word & !bit };
    was_set
}

/// Returns the first bit set at or after a position.
fn next_set(bits: &[u64], from: usize) -> Option<usize> {
    let first = bits.get(from / 64)? & u64::MAX << (from % 64);
    let mut words = std::iter::once(first).chain(bits[from / 64 + 1..].iter().copied());
    let (skipped, word) = (words.by_ref().enumerate()).find(|(_, word)| *word != 0)?;
    Some((from / 64 + skipped) * 64 + word.trailing_zeros() as usize)
}

impl<'t> Ring<'t> {
    /// Creates a cache for objects of these weights. `shares_hand` selects whether it follows the
    /// furthest hand.
    pub(super) fn new(
        order: Rc<HashOrder>,
        weights: &'t [u32],
        capacity: u64,
        shares_hand: bool,
    ) -> Self {
        assert_eq!(order.objects.len(), weights.len());
        let words = weights.len().div_ceil(64);
        Ring {
            order,
            weights,
            capacity,
            held_bytes: 0,
            held: vec![0; words],
            marked: vec![0; words],
            hand: 0,
            furthest: shares_hand.then_some(0),
        }
    }

    /// Maximum bytes of memory per object.
    pub(super) const OBJECT_BYTES: u64 = 1;

    fn weight(&self, slot: Slot) -> u64 {
        u64::from(self.weights[slot.0 as usize])
    }

    fn place(&self, slot: Slot) -> usize {
        self.order.places[slot.0 as usize] as usize
    }

    /// Returns the hand position of the next held object, or `None` if the cache is empty.
    fn next(&self) -> Option<u64> {
        let count = self.weights.len() as u64;
        let at = self.hand % count;
        if let Some(place) = next_set(&self.held, at as usize) {
            return Some(self.hand - at + place as u64);
        }
        let place = next_set(&self.held, 0)?;
        Some(self.hand - at + count + place as u64)
    }

    /// Moves the hand past the held object at position `next`, and evicts the object if it has no
    /// mark.
    fn pass(&mut self, next: u64, evicted: &mut Vec<Slot>) {
        assert!(next >= self.hand, "the hand moves forward");
        self.hand = next + 1;
        let place = (next % self.weights.len() as u64) as usize;
        if !set(&mut self.marked, place, false) {
            let slot = Slot(self.order.objects[place]);
            self.remove(slot);
            evicted.push(slot);
        }
    }
}

impl Tier for Ring<'_> {
    fn holds(&self, slot: Slot) -> bool {
        let place = self.place(slot);
        self.held[place / 64] >> (place % 64) & 1 != 0
    }

    fn hit(&mut self, slot: Slot, _: Tick) -> bool {
        debug_assert!(self.holds(slot));
        let place = self.place(slot);
        !set(&mut self.marked, place, true)
    }

    fn insert(&mut self, slot: Slot, _: Tick, evicted: &mut Vec<Slot>) -> bool {
        debug_assert!(!self.holds(slot));
        let weight = self.weight(slot);
        if weight > self.capacity {
            return false;
        }
        let furthest = self.furthest.unwrap_or(0);
        while let Some(next) = self.next().filter(|next| *next < furthest) {
            self.pass(next, evicted);
        }
        self.hand = self.hand.max(furthest);
        while self.held_bytes + weight > self.capacity {
            let next = self.next().expect("a full cache holds an object");
            self.pass(next, evicted);
        }
        self.furthest = self.furthest.map(|_| self.hand);
        self.held_bytes += weight;
        let place = self.place(slot);
        set(&mut self.held, place, true);
        set(&mut self.marked, place, true);
        true
    }

    fn remove(&mut self, slot: Slot) {
        debug_assert!(self.holds(slot));
        self.held_bytes -= self.weight(slot);
        let place = self.place(slot);
        set(&mut self.held, place, false);
        set(&mut self.marked, place, false);
    }

    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn furthest_hand(&self) -> Option<u64> {
        self.furthest
    }

    fn receive_hand(&mut self, hand: u64) {
        self.furthest = self.furthest.map(|furthest| furthest.max(hand));
    }

    fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut from = 0;
        while let Some(place) = next_set(&self.held, from) {
            slots.push(Slot(self.order.objects[place]));
            from = place + 1;
        }
        slots
    }

    #[cfg(any(test, debug_assertions))]
    fn check(&mut self) {
        let weights = self.slots().into_iter().map(|slot| self.weight(slot));
        assert_eq!(weights.sum::<u64>(), self.held_bytes);
        assert!(self.held_bytes <= self.capacity);
        assert!(self.furthest.is_none_or(|furthest| self.hand <= furthest));
        let mut both = self.held.iter().zip(&self.marked);
        assert!(both.all(|(held, marked)| marked & !held == 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    type Hand = (u64, u64, u32);

    fn place(object: u32) -> (u64, u32) {
        (scramble(hash_of(Slot(object))), object)
    }

    fn order(weights: &[u32]) -> Rc<HashOrder> {
        Rc::new(HashOrder::new(weights.len()))
    }

    fn insert(ring: &mut Ring<'_>, object: u32) -> Vec<u32> {
        let mut evicted = Vec::new();
        assert!(ring.insert(Slot(object), Tick(0), &mut evicted));
        ring.check();
        evicted.into_iter().map(|slot| slot.0).collect()
    }

    #[test]
    fn an_accessed_object_stays_and_others_are_evicted_in_hash_order() {
        let weights = [1; 9];
        let mut ring = Ring::new(order(&weights), &weights, 4, false);
        let mut objects: Vec<u32> = (0..4).collect();
        objects
            .iter()
            .for_each(|&object| assert!(insert(&mut ring, object).is_empty()));
        objects.sort_by_key(|&object| place(object));
        // The first turn clears all marks, the second evicts the first object in hash order.
        assert_eq!(insert(&mut ring, 4), [objects[0]]);
        assert!(ring.hit(Slot(objects[1]), Tick(0)));
        assert!(!ring.hit(Slot(objects[1]), Tick(0)));
        let evicted = insert(&mut ring, 5);
        assert_eq!(evicted.len(), 1);
        assert_ne!(evicted[0], objects[1]);
    }

    /// Reference model: objects sorted by position with their marks, searched linearly in every
    /// step.
    #[derive(Default)]
    struct Model {
        held: Vec<(u64, u32, bool)>,
        hand: Hand,
    }

    impl Model {
        fn used(&self, weights: &[u32]) -> u32 {
            let objects = self.held.iter().map(|one| weights[one.1 as usize]);
            objects.sum()
        }

        fn insert(
            &mut self,
            object: u32,
            weights: &[u32],
            capacity: u32,
            furthest: Option<Hand>,
        ) -> Vec<u32> {
            let mut evicted = vec![];
            loop {
                let place = |one: &(u64, u32, bool)| (one.0, one.1);
                let (turn, at) = (self.hand.0, (self.hand.1, self.hand.2));
                let ahead = self.held.iter().position(|one| place(one) > at);
                let turn = turn + u64::from(ahead.is_none());
                let Some(index) = ahead.or((!self.held.is_empty()).then_some(0)) else {
                    break;
                };
                let next = (turn, self.held[index].0, self.held[index].1);
                let is_full = self.used(weights) + weights[object as usize] > capacity;
                if !is_full && furthest.is_none_or(|furthest| next > furthest) {
                    break;
                }
                self.hand = next;
                match std::mem::take(&mut self.held[index].2) {
                    true => {}
                    false => evicted.push(self.held.remove(index).1),
                }
            }
            self.hand = self.hand.max(furthest.unwrap_or_default());
            let (hash, _) = place(object);
            self.held.push((hash, object, true));
            self.held.sort_unstable();
            evicted
        }
    }

    #[test]
    fn random_operations_match_the_model() {
        for seed in 1..=20 {
            let mut chance = trace::Random::new(seed);
            let weights: Vec<u32> = (0..60).map(|_| 1 + chance.below(9) as u32).collect();
            let shares_hand = seed % 2 == 0;
            let mut pairs = [70, 90].map(|capacity| {
                let ring = Ring::new(order(&weights), &weights, capacity, shares_hand);
                (ring, Model::default(), capacity as u32)
            });
            let mut model_furthest = [Hand::default(); 2];
            for _ in 0..2_000 {
                let at = chance.below(2) as usize;
                if shares_hand && chance.below(3) == 0 {
                    // The hand of one cache is sent to the other.
                    let hand = pairs[1 - at]
                        .0
                        .furthest_hand()
                        .expect("the caches share hands");
                    pairs[at].0.receive_hand(hand);
                    model_furthest[at] = model_furthest[0].max(model_furthest[1]);
                }
                let model_furthest = &mut model_furthest[at];
                let (ring, model, capacity) = &mut pairs[at];
                let object = chance.below(60) as u32;
                let at = model.held.iter().position(|one| one.1 == object);
                assert_eq!(ring.holds(Slot(object)), at.is_some());
                match at {
                    Some(at) if chance.below(4) == 0 => {
                        ring.remove(Slot(object));
                        model.held.remove(at);
                    }
                    Some(at) => {
                        let was_marked = std::mem::replace(&mut model.held[at].2, true);
                        assert_eq!(ring.hit(Slot(object), Tick(0)), !was_marked);
                    }
                    None => {
                        let shared = shares_hand.then_some(*model_furthest);
                        let evicted = model.insert(object, &weights, *capacity, shared);
                        *model_furthest = model.hand;
                        assert_eq!(insert(ring, object), evicted, "seed {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_hand_that_receives_another_position_evicts_what_that_one_passed() {
        let weights = [1; 200];
        for exchange_hands in [true, false] {
            let [mut large, mut small] =
                [100, 50].map(|size| Ring::new(order(&weights), &weights, size, true));
            for object in 0..200 {
                insert(&mut large, object);
                insert(&mut small, object);
                if exchange_hands {
                    large.receive_hand(small.hand);
                }
            }
            // The smaller cache determines how fast the hands advance, and the larger one leaves
            // space unused.
            let [large, small]: [HashSet<Slot>; 2] =
                [large, small].map(|ring| HashSet::from_iter(ring.slots()));
            assert_eq!(large.len() < 60, exchange_hands);
            assert!(!exchange_hands || large.intersection(&small).count() > 40);
        }
    }

    #[test]
    fn an_object_larger_than_the_disk_is_refused_and_evicts_nothing() {
        let weights = [1, 1, 5];
        let mut ring = Ring::new(order(&weights), &weights, 4, false);
        insert(&mut ring, 0);
        insert(&mut ring, 1);
        assert!(!ring.insert(Slot(2), Tick(0), &mut Vec::new()));
        assert_eq!(ring.slots().len(), 2);
    }
}
