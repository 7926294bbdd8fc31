//! Many elements, each with or without a deadline: the one mechanism behind the times of hash fields, set
//! members and members of sorted sets.
//!
//! The first deadline makes an index of its own. By default it is the one that ranks: so the dead are
//! counted without a look at each (`counts.rs`), and elements are listed in the order of their deadlines. What
//! that index wants next is what the key's entry is filed under in the keyspace's index: an index of
//! indexes. So a dead element is met when its time comes, by the same cycle and under the same budget as a
//! dead key; and a command that comes first removes what is due before it looks.
//!
//! When all elements are dead at once, the collection is given up as a whole: the background takes it
//! apart. An index that does not count notices it by the latest deadline ever given.

mod counts;

use crate::collection::{Body, Choose, Deadlines, Expired, Scene};
use crate::elements::Elements;
use crate::elements::packed::{Packed, Tail};
use policy::expire::any::AnyExpiry;
use policy::{Budget, Cells, Due, ExpiryIndex, Facts, Slot, Tick};
use std::borrow::Borrow;

/// Elements that may be looked at to see whether any lives, where the index does not count.
const LOOK_MAX: usize = 4096;

/// What goes along with elements, in a structure of its own: the order of a sorted set. `()` where there
/// is nothing.
pub(crate) trait Follower {
    /// A live element is about to leave.
    fn leaves(&mut self, elements: &Elements, slot: Slot);
    /// An element has another name now.
    fn moved(&mut self, elements: &Elements, from: Slot, to: Slot);
}

impl Follower for () {
    fn leaves(&mut self, _elements: &Elements, _slot: Slot) {}
    fn moved(&mut self, _elements: &Elements, _from: Slot, _to: Slot) {}
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Members {
    elements: Elements,
    times: Option<Box<Times>>,
    /// All are dead and given up.
    is_void: bool,
}

struct Times {
    index: AnyExpiry,
    /// The key's own deadline.
    own: Option<Tick>,
    /// No element has a later deadline.
    latest: Tick,
    /// The last instant at which the index worked.
    seen: Tick,
}

impl std::fmt::Debug for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Times")
            .field("index", &self.index.name())
            .field("own", &self.own)
            .field("latest", &self.latest)
            .finish_non_exhaustive()
    }
}

/// The elements as the index of their deadlines sees them.
struct TimeCells<E> {
    elements: E,
    now: Tick,
}

impl<E: Borrow<Elements>> Facts for TimeCells<E> {
    fn now(&self) -> Tick {
        self.now
    }
    fn requests(&self) -> u64 {
        0
    }
    #[inline]
    fn is_live(&self, slot: Slot) -> bool {
        self.elements.borrow().is_live(slot)
    }
    fn weight(&self, _slot: Slot) -> u32 {
        1
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        self.elements.borrow().hash_of(slot)
    }
    #[inline]
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        let elements = self.elements.borrow();
        if !elements.is_live(slot) {
            return None;
        }
        elements.deadline(slot)
    }
    fn len(&self) -> usize {
        self.elements.borrow().deadline_count()
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        let elements = self.elements.borrow();
        let has_deadline = |slot| elements.deadline(slot).is_some();
        elements.sample_where(random, has_deadline)
    }
}

impl Cells<u64> for TimeCells<&mut Elements> {
    #[inline]
    fn get(&self, slot: Slot) -> u64 {
        self.elements.link(slot)
    }
    #[inline]
    fn set(&mut self, slot: Slot, link: u64) {
        self.elements.set_link(slot, link);
    }
}

impl Members {
    /// No elements.
    pub fn new(tail: Tail, scene: &Scene<'_>) -> Members {
        Members {
            elements: Elements::new(tail, scene.hash_key, scene.expiry.link_bits()),
            times: None,
            is_void: false,
        }
    }

    /// The elements of a packed collection.
    pub fn unpack(tail: Tail, packed: &Packed, scene: &Scene<'_>) -> Members {
        let mut members = Members::new(tail, scene);
        for element in packed.iter() {
            let slot = members.insert(element.member, element.tail, scene, &mut ());
            if element.deadline.is_some() {
                members.set_deadline(slot, element.deadline, scene);
            }
        }
        members.set_own(packed.own());
        members
    }

    /// The elements, dead ones too.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Whether none is left, dead or alive.
    pub fn is_void(&self) -> bool {
        self.is_void || self.elements.len() == 0
    }

    /// Gives all up at once: nothing may be asked of them any more, and the background takes them apart.
    pub fn give_up(&mut self) {
        self.is_void = true;
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let times = self
            .times
            .as_ref()
            .map_or(0, |times| size_of::<Times>() + times.index.heap_bytes());
        self.elements.heap_bytes() + times
    }

    /// Whether an element's deadline has not passed.
    #[inline]
    pub fn is_live(&self, slot: Slot, now: Tick) -> bool {
        self.times.is_none()
            || self
                .elements
                .deadline(slot)
                .is_none_or(|deadline| now <= deadline)
    }

    /// The slot of a live member.
    #[inline]
    pub fn find_live(&self, member: &[u8], now: Tick) -> Option<Slot> {
        let slot = self.elements.find(member)?;
        self.is_live(slot, now).then_some(slot)
    }

    /// Adds an element for a member that is not there, dead or alive.
    pub fn insert(
        &mut self,
        member: &[u8],
        value: &[u8],
        scene: &Scene<'_>,
        follower: &mut impl Follower,
    ) -> Slot {
        let slot = self.elements.insert(member, value);
        self.tell_moves(scene.now, Some(slot), follower)
            .unwrap_or(slot)
    }

    /// Gives an element another value or score; its deadline stays.
    pub fn set_value(&mut self, slot: Slot, value: &[u8]) {
        self.elements.set_value(slot, value);
    }

    /// Removes an element, dead or alive.
    pub fn remove(&mut self, slot: Slot, now: Tick, follower: &mut impl Follower) {
        if self.elements.deadline(slot).is_some()
            && let Some(times) = &mut self.times
        {
            let elements = &mut self.elements;
            times.index.remove(&mut TimeCells { elements, now }, slot);
        }
        self.take_out(slot, follower);
        self.elements.merge();
        self.tell_moves(now, None, follower);
        self.settle();
    }

    /// Removes an element that its index does not hold any more.
    fn take_out(&mut self, slot: Slot, follower: &mut impl Follower) {
        follower.leaves(&self.elements, slot);
        self.elements.remove(slot);
    }

    /// Has moved what is to move; where the one went that nobody knows yet.
    fn tell_moves(
        &mut self,
        now: Tick,
        unknown: Option<Slot>,
        follower: &mut impl Follower,
    ) -> Option<Slot> {
        let mut known = None;
        while let Some((from, to)) = self.elements.take_move() {
            if unknown == Some(from) {
                known = Some(to);
                continue;
            }
            follower.moved(&self.elements, from, to);
            if self.elements.deadline(to).is_some()
                && let Some(times) = &mut self.times
            {
                let elements = &mut self.elements;
                times
                    .index
                    .moved(&mut TimeCells { elements, now }, from, to);
            }
        }
        known
    }

    /// Gives the index back when no element has a deadline, and nothing is to be tidied up.
    fn settle(&mut self) {
        let is_idle = self.elements.deadline_count() == 0 && !self.elements.is_sparse();
        if self.times.is_some() && is_idle {
            self.times = None;
        }
    }

    /// Asks `choose`, which is told when a live member dies, for another deadline; `None` leaves it as it is.
    /// False when there is no such member.
    #[inline]
    pub fn update_deadline(
        &mut self,
        member: &[u8],
        scene: &Scene<'_>,
        choose: Choose<'_>,
    ) -> bool {
        let Some(slot) = self.elements.find(member) else {
            return false;
        };
        let old = self.elements.deadline(slot);
        if old.is_some_and(|old| scene.now > old) {
            return false;
        }
        if let Some(deadline) = choose(old) {
            self.set_deadline(slot, deadline, scene);
        }
        true
    }

    /// Gives an element a deadline, another one, or takes it.
    pub fn set_deadline(&mut self, slot: Slot, deadline: Option<Tick>, scene: &Scene<'_>) {
        let old = self.elements.deadline(slot);
        if old == deadline {
            return;
        }
        let times = self.times.get_or_insert_with(|| Times::new(scene));
        let (elements, now) = (&mut self.elements, scene.now);
        let Some(deadline) = deadline else {
            times.index.remove(&mut TimeCells { elements, now }, slot);
            self.elements.set_deadline(slot, None);
            return self.settle();
        };
        times.latest = times.latest.max(deadline);
        elements.set_deadline(slot, Some(deadline));
        let cells = &mut TimeCells { elements, now };
        match old {
            Some(old) => times.index.update(cells, slot, old),
            None => times.index.insert(cells, slot),
        }
    }

    /// The key's own deadline and what the index wants next, when elements have deadlines.
    pub fn deadlines(&self) -> Option<Deadlines> {
        let times = self.times.as_deref()?;
        // The index tells the first instant after a deadline, or when it wants to work for another
        // reason. Whatever it wants: when all are dead, the key is to be seen no more.
        let due = match times.index.next_due() {
            _ if self.elements.is_sparse() => Tick(0),
            due => due.unwrap_or(Tick::MAX),
        };
        let nearest = Tick(due.0.saturating_sub(1)).min(times.latest);
        Some(Deadlines {
            own: times.own,
            nearest: Some(nearest),
        })
    }

    /// The key's own deadline, when elements have deadlines.
    pub fn kept_deadline(&self) -> Option<Option<Tick>> {
        self.times.as_deref().map(|times| times.own)
    }

    /// Keeps the key's own deadline; only while elements have some.
    pub fn set_own(&mut self, own: Option<Tick>) {
        if let Some(times) = &mut self.times {
            times.own = own;
        }
    }

    /// Removes dead elements, a step of the budget each, or all at once when none lives.
    pub fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: Expired<'_>,
        follower: &mut impl Follower,
    ) {
        if self.is_dead(now) {
            if let Some(times) = &self.times {
                // The latest deadline ever given may be that of one that went alive.
                let latest = times.latest.min(Tick(now.0 - 1));
                expired(latest, self.elements.len() as u32);
            }
            self.is_void = true;
            return;
        }
        while let Some(times) = &mut self.times {
            if now < times.seen {
                times.index.clock_went_back(now);
            }
            times.seen = now;
            let elements = &mut self.elements;
            let cells = &mut TimeCells { elements, now };
            match times.index.pop_expired(cells, now, budget) {
                Due::Slot(slot) => {
                    expired(self.elements.deadline(slot).expect("it expired"), 1);
                    self.take_out(slot, follower);
                }
                Due::Again => return self.give_up_dead(now, expired),
                Due::Nothing => return self.tidy(now, budget, follower),
            }
        }
    }

    /// Merges pages when those that died have left them sparse. While many die it is not done: what is
    /// moved may be the next to go.
    fn tidy(&mut self, now: Tick, budget: &mut Budget, follower: &mut impl Follower) {
        while self.elements.is_sparse() && budget.spend() {
            self.elements.merge();
            self.tell_moves(now, None, follower);
        }
        self.settle();
    }

    /// Gives all up when none of a few lives, and the index does not count: the latest deadline ever given may
    /// be that of one that is gone, and a key of which nothing lives is not to be seen until all are taken out.
    fn give_up_dead(&mut self, now: Tick, expired: Expired<'_>) {
        if self.elements.len() > LOOK_MAX || self.live(now).next().is_some() {
            return;
        }
        for slot in self.elements.iter() {
            expired(self.elements.deadline(slot).expect("it is dead"), 1);
        }
        self.is_void = true;
    }

    /// Another one with the same elements and deadlines, but for the key's own.
    pub fn duplicate(&self, scene: &Scene<'_>) -> Members {
        let mut elements = self.elements.clone();
        let times = self.times.as_deref().map(|old| {
            let mut times = Times::new(scene);
            times.latest = old.latest;
            let slots: Vec<Slot> = elements.iter().collect();
            for slot in slots {
                if elements.deadline(slot).is_some() {
                    elements.set_link(slot, 0);
                    let (elements, now) = (&mut elements, scene.now);
                    times.index.insert(&mut TimeCells { elements, now }, slot);
                }
            }
            times
        });
        Members {
            elements,
            times,
            is_void: self.is_void,
        }
    }

    /// Drops about so many of its parts; true while there are more.
    pub fn dismantle(&mut self, steps: u32) -> bool {
        self.elements.dismantle(steps)
    }

    /// Panics when it contradicts itself.
    pub fn check(&self) {
        self.elements.check();
        let index_len = self.times.as_ref().map_or(0, |times| times.index.len());
        assert_eq!(index_len, self.elements.deadline_count());
        assert!(index_len == 0 || self.times.is_some());
        if let Some(times) = self.times.as_ref().filter(|_| index_len > 0) {
            let latest = self
                .elements
                .iter()
                .filter_map(|slot| self.elements.deadline(slot))
                .max();
            assert!(latest.is_some_and(|latest| latest <= times.latest));
            let elements = &mut self.elements.clone();
            let now = times.seen;
            times.index.check(&TimeCells { elements, now });
        }
    }
}

/// Nothing goes along with these elements.
impl Body for Members {
    fn is_void(&self) -> bool {
        Members::is_void(self)
    }

    fn is_dead(&self, now: Tick) -> bool {
        Members::is_dead(self, now)
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Members>() + Members::heap_bytes(self)
    }

    fn deadlines(&self) -> Option<Deadlines> {
        Members::deadlines(self)
    }

    fn kept_deadline(&self) -> Option<Option<Tick>> {
        Members::kept_deadline(self)
    }

    fn set_own(&mut self, own: Option<Tick>) {
        Members::set_own(self, own);
    }

    fn purge(&mut self, now: Tick, budget: &mut Budget, expired: Expired<'_>) {
        Members::purge(self, now, budget, expired, &mut ());
    }

    fn dismantle(&mut self, steps: u32) -> bool {
        Members::dismantle(self, steps)
    }

    fn check(&self) {
        Members::check(self);
    }
}

impl Times {
    fn new(scene: &Scene<'_>) -> Box<Times> {
        Box::new(Times {
            index: AnyExpiry::new(scene.now, scene.expiry, scene.seed),
            own: None,
            latest: Tick(0),
            seen: scene.now,
        })
    }
}
