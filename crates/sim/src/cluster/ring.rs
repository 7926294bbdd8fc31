//! A disk that gives up in the order of a hash of the object, which its chunks on all servers share.
//!
//! A CLOCK whose hand goes round the hashes instead of the order of arrival: it takes the mark off an object that
//! was asked for since it last passed, and gives up one that was not. An object comes with a mark, as the hand may be
//! just before its hash. Where servers are written to evenly their hands go round at one speed, and reach the
//! chunks of an object at one time.
//!
//! Hands may also be told of the furthest: a server that is behind then first does what the others have
//! done, even if that leaves room empty. What is told is a number, which any message between two servers can carry.

use super::tier::Tier;
use crate::dense::hash_of;
use policy::parts::chance::scramble;
use policy::{Slot, Tick};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::rc::Rc;

/// Where a hand is: how often it has been round, a hash, an object.
pub(super) type Hand = (u64, u64, u32);

/// The furthest hand of a cluster.
pub(super) type Furthest = Rc<Cell<Hand>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Gone,
    Held,
    Marked,
}

/// An object's place on the ring: not by the hash that its bucket is chosen by, or a hand would meet one
/// bucket after the other.
fn place(slot: Slot) -> (u64, u32) {
    (scramble(hash_of(slot)), slot.0)
}

/// See the module text.
pub(super) struct Ring<'t> {
    weights: &'t [u32],
    capacity: u64,
    held_bytes: u64,
    /// Hashes and objects.
    held: BTreeSet<(u64, u32)>,
    /// By object.
    states: Vec<State>,
    hand: Hand,
    furthest: Option<Furthest>,
}

impl<'t> Ring<'t> {
    /// For objects of these weights; `furthest` is shared by servers that are told of it.
    pub(super) fn new(weights: &'t [u32], capacity: u64, furthest: Option<Furthest>) -> Self {
        Ring {
            weights,
            capacity,
            held_bytes: 0,
            held: BTreeSet::new(),
            states: vec![State::Gone; weights.len()],
            hand: (0, 0, 0),
            furthest,
        }
    }

    /// Bytes by object.
    pub(super) const OBJECT_BYTES: u64 = 40;

    fn weight(&self, slot: Slot) -> u64 {
        u64::from(self.weights[slot.0 as usize])
    }

    /// Where the hand meets the next object; none if there is no object.
    fn next(&self) -> Option<Hand> {
        let (turn, hash, object) = self.hand;
        let ahead = (Bound::Excluded((hash, object)), Bound::Unbounded);
        if let Some(&(hash, object)) = self.held.range(ahead).next() {
            return Some((turn, hash, object));
        }
        let &(hash, object) = self.held.first()?;
        Some((turn + 1, hash, object))
    }

    /// Moves the hand to the object that it meets next.
    fn pass(&mut self, next: Hand, gone: &mut Vec<Slot>) {
        assert!(next > self.hand, "the hand goes forward");
        self.hand = next;
        let slot = Slot(next.2);
        match self.states[next.2 as usize] {
            State::Marked => self.states[next.2 as usize] = State::Held,
            State::Held => {
                self.remove(slot);
                gone.push(slot);
            }
            State::Gone => unreachable!("what the hand meets is held"),
        }
    }
}

impl Tier for Ring<'_> {
    fn holds(&self, slot: Slot) -> bool {
        self.states[slot.0 as usize] != State::Gone
    }

    fn hit(&mut self, slot: Slot, _: Tick) -> bool {
        debug_assert!(self.holds(slot));
        let state = &mut self.states[slot.0 as usize];
        std::mem::replace(state, State::Marked) == State::Held
    }

    fn insert(&mut self, slot: Slot, _: Tick, gone: &mut Vec<Slot>) -> bool {
        debug_assert!(!self.holds(slot));
        let weight = self.weight(slot);
        if weight > self.capacity {
            return false;
        }
        let furthest = self.furthest.as_ref().map(|furthest| furthest.get());
        while let Some(furthest) = furthest
            && let Some(next) = self.next().filter(|next| *next <= furthest)
        {
            self.pass(next, gone);
        }
        self.hand = self.hand.max(furthest.unwrap_or_default());
        while self.held_bytes + weight > self.capacity {
            let next = self.next().expect("what is full holds something");
            self.pass(next, gone);
        }
        if let Some(furthest) = &self.furthest {
            furthest.set(self.hand);
        }
        self.held_bytes += weight;
        self.held.insert(place(slot));
        self.states[slot.0 as usize] = State::Marked;
        true
    }

    fn remove(&mut self, slot: Slot) {
        debug_assert!(self.holds(slot));
        self.held_bytes -= self.weight(slot);
        self.held.remove(&place(slot));
        self.states[slot.0 as usize] = State::Gone;
    }

    fn slots(&self) -> Vec<Slot> {
        self.held.iter().map(|(_, object)| Slot(*object)).collect()
    }

    fn check(&mut self) {
        let weights = self
            .held
            .iter()
            .map(|(_, object)| self.weight(Slot(*object)));
        assert_eq!(weights.sum::<u64>(), self.held_bytes);
        assert!(self.held_bytes <= self.capacity);
        let states = self.states.iter();
        let held = states.filter(|state| **state != State::Gone).count();
        assert_eq!(held, self.held.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(ring: &mut Ring<'_>, object: u32) -> Vec<u32> {
        let mut gone = Vec::new();
        assert!(ring.insert(Slot(object), Tick(0), &mut gone));
        ring.check();
        gone.into_iter().map(|slot| slot.0).collect()
    }

    #[test]
    fn who_was_asked_for_stays_and_others_go_by_their_hash() {
        let weights = [1; 9];
        let mut ring = Ring::new(&weights, 4, None);
        let mut objects: Vec<u32> = (0..4).collect();
        objects
            .iter()
            .for_each(|&object| assert!(insert(&mut ring, object).is_empty()));
        objects.sort_by_key(|&object| place(Slot(object)));
        // The first turn takes the marks off, the second gives up the first without one.
        assert_eq!(insert(&mut ring, 4), [objects[0]]);
        assert!(ring.hit(Slot(objects[1]), Tick(0)));
        assert!(!ring.hit(Slot(objects[1]), Tick(0)));
        let gone = insert(&mut ring, 5);
        assert_eq!(gone.len(), 1);
        assert_ne!(gone[0], objects[1]);
    }

    /// A ring as plain as can be: objects in the order of their places with their marks, every step a search.
    #[derive(Default)]
    struct Plain {
        held: Vec<(u64, u32, bool)>,
        hand: Hand,
    }

    impl Plain {
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
            let mut gone = vec![];
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
                    false => gone.push(self.held.remove(index).1),
                }
            }
            self.hand = self.hand.max(furthest.unwrap_or_default());
            let (hash, _) = place(Slot(object));
            self.held.push((hash, object, true));
            self.held.sort_unstable();
            gone
        }
    }

    #[test]
    fn any_operations_do_what_the_plainest_does() {
        for seed in 1..=20 {
            let mut chance = trace::Random::new(seed);
            let weights: Vec<u32> = (0..60).map(|_| 1 + chance.below(9) as u32).collect();
            let furthest = (seed % 2 == 0).then(Furthest::default);
            let mut pairs = [70, 90].map(|capacity| {
                let ring = Ring::new(&weights, capacity, furthest.clone());
                (ring, Plain::default(), capacity as u32)
            });
            for _ in 0..2_000 {
                let (ring, plain, capacity) = &mut pairs[chance.below(2) as usize];
                let object = chance.below(60) as u32;
                let at = plain.held.iter().position(|one| one.1 == object);
                assert_eq!(ring.holds(Slot(object)), at.is_some());
                match at {
                    Some(at) if chance.below(4) == 0 => {
                        ring.remove(Slot(object));
                        plain.held.remove(at);
                    }
                    Some(at) => {
                        let was_marked = std::mem::replace(&mut plain.held[at].2, true);
                        assert_eq!(ring.hit(Slot(object), Tick(0)), !was_marked);
                    }
                    None => {
                        let told = furthest.as_ref().map(|furthest| furthest.get());
                        let gone = plain.insert(object, &weights, *capacity, told);
                        assert_eq!(insert(ring, object), gone, "seed {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_hand_that_is_told_of_another_gives_up_what_that_one_passed() {
        let weights = [1; 200];
        let furthest = Furthest::default();
        let mut rings = [100, 50].map(|size| Ring::new(&weights, size, Some(Rc::clone(&furthest))));
        for object in 0..200 {
            for ring in &mut rings {
                insert(ring, object);
            }
        }
        // The smaller one decides, and the larger one has room that it does not use.
        let [large, small] = rings.map(|ring| ring.held);
        assert!(large.len() < 60);
        assert!(large.intersection(&small).count() > 40);
    }

    #[test]
    fn what_is_larger_than_the_disk_is_refused_and_empties_nothing() {
        let weights = [1, 1, 5];
        let mut ring = Ring::new(&weights, 4, None);
        insert(&mut ring, 0);
        insert(&mut ring, 1);
        assert!(!ring.insert(Slot(2), Tick(0), &mut Vec::new()));
        assert_eq!(ring.slots().len(), 2);
    }
}
