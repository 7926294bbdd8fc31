//! Large sorted sets: members and scores in pages, and an order (a tree) of scores and slots.
//!
//! A rank is normally a position in the order. The order also holds expired members until they are
//! removed, which regular removal keeps short. During that time live members are counted one by
//! one.

use super::{Interval, compare};
use crate::collection::{ChangedElements, Deadlines, ReportExpired, Representation, Scene};
use crate::element_ttl::{SecondaryIndex, TimedElements};
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use crate::order::{Entry, Order};
use crate::types::form::{LargeElements, LargeForm};
use policy::{Budget, Slot, Tick};
use std::cmp::Ordering;
use std::ops::Range;

/// Members in pages and their order.
#[derive(Debug)]
pub(super) struct LargeSortedSet {
    pub members: TimedElements,
    pub order: Order,
}

impl SecondaryIndex for Order {
    fn before_removal(&mut self, elements: &Elements, slot: Slot) {
        let (member, score) = scored(elements, slot);
        self.remove(against(elements, score, member));
    }

    fn moved(&mut self, elements: &Elements, from: Slot, to: Slot) {
        let (member, score) = scored(elements, to);
        let mut others = against(elements, score, member);
        // The entry to be changed still names the old slot, which is vacant and must not be read.
        self.set_slot(to, |entry| {
            let by_score = entry.score().total_cmp(&score);
            by_score.then_with(|| match entry.slot() {
                slot if slot == from => Ordering::Equal,
                _ => others(entry),
            })
        });
    }
}

/// Decodes a score.
pub(super) fn score_of(tail: &[u8]) -> f64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(tail);
    f64::from_le_bytes(bytes)
}

fn scored(elements: &Elements, slot: Slot) -> (&[u8], f64) {
    let (member, tail) = elements.element(slot);
    (member, score_of(tail))
}

/// Returns a function that compares an entry of the order with a score and a member.
fn against<'a>(
    elements: &'a Elements,
    score: f64,
    member: &'a [u8],
) -> impl FnMut(Entry) -> Ordering + 'a {
    move |entry| {
        let by_score = entry.score().total_cmp(&score);
        by_score.then_with(|| elements.member(entry.slot()).cmp(member))
    }
}

impl LargeSortedSet {
    /// Sets the score of a member, or adds the member with this score. The deadline of a live
    /// member is kept.
    pub fn set(&mut self, member: &[u8], score: f64, scene: &Scene<'_>) {
        let LargeSortedSet { members, order } = self;
        let slot = match members.elements().find(member) {
            None => members.insert(member, &score.to_le_bytes(), scene, order),
            Some(slot) => {
                if !members.is_live(slot, scene.horizon) {
                    members.set_deadline(slot, None, scene);
                }
                let old = score_of(members.elements().value(slot));
                if old == score {
                    return;
                }
                order.remove(against(members.elements(), old, member));
                members.set_value(slot, &score.to_le_bytes());
                slot
            }
        };
        let compare = against(members.elements(), score, member);
        order.insert(Entry::new(score, slot), compare);
    }

    /// Returns the score of a live member.
    pub fn score(&self, member: &[u8], now: Tick) -> Option<f64> {
        let slot = self.members.find_live(member, now)?;
        Some(score_of(self.members.elements().value(slot)))
    }

    /// Returns the rank and the score of a live member.
    pub fn rank(&self, member: &[u8], now: Tick) -> Option<(usize, f64)> {
        let score = self.score(member, now)?;
        let mut compare = against(self.members.elements(), score, member);
        let place = self.order.partition_point(|entry| compare(entry).is_lt());
        Some((self.rank_at(place, now), score))
    }

    /// Returns the ranks of an interval among the live members.
    pub fn ranks(&self, interval: &Interval<'_>, now: Tick) -> Range<usize> {
        let elements = self.members.elements();
        let member = |entry: Entry| move || elements.member(entry.slot());
        let start = self
            .order
            .partition_point(|entry| interval.is_behind(entry.score(), member(entry)));
        let end = self
            .order
            .partition_point(|entry| interval.reaches(entry.score(), member(entry)));
        let start = self.rank_at(start, now);
        start..self.rank_at(end, now).max(start)
    }

    /// Returns the number of live members before a position in the order. That number is the rank
    /// of the member there.
    fn rank_at(&self, place: usize, now: Tick) -> usize {
        if !self.members.may_hold_dead(now) {
            return place;
        }
        let mut before = self.order.iter(0..place);
        before
            .by_ref()
            .filter(|entry| self.lives(*entry, now))
            .count()
    }

    /// Returns the position in the order of the live member with a rank.
    fn place_of(&self, rank: usize, now: Tick) -> usize {
        if !self.members.may_hold_dead(now) {
            return rank;
        }
        let mut places = self.order.iter(0..self.order.len()).enumerate();
        let live = places.by_ref().filter(|(_, entry)| self.lives(*entry, now));
        live.map(|(place, _)| place)
            .nth(rank)
            .unwrap_or(self.order.len())
    }

    fn lives(&self, entry: Entry, now: Tick) -> bool {
        self.members.is_live(entry.slot(), now)
    }

    /// Passes the live members of a range of ranks to `each`, in order or in reverse.
    pub fn each(
        &self,
        ranks: Range<usize>,
        is_reverse: bool,
        now: Tick,
        mut each: impl FnMut(&[u8], f64),
    ) {
        let mut pass = |entry: Entry| {
            each(self.members.elements().member(entry.slot()), entry.score());
        };
        if !self.members.may_hold_dead(now) {
            let entries = self.order.iter(ranks);
            return if is_reverse {
                entries.rev().for_each(pass);
            } else {
                entries.for_each(pass);
            };
        }
        let places = self.place_of(ranks.start, now)..self.place_of(ranks.end, now);
        let entries = self.order.iter(places);
        let mut live: Vec<Entry> = entries.filter(|entry| self.lives(*entry, now)).collect();
        if is_reverse {
            live.reverse();
        }
        live.into_iter().for_each(&mut pass);
    }

    /// Removes the live members of a range of ranks and returns their number. Removing all members
    /// takes constant time.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, now: Tick) -> usize {
        let len = self.order.len();
        if ranks.start == 0 && ranks.end >= len && !self.members.may_hold_dead(now) {
            self.members.mark_void();
            return len;
        }
        let (mut place, mut removed) = (self.place_of(ranks.start, now), 0);
        while removed < ranks.len() {
            // A removal may change the slots of other members, but not their positions in the
            // order.
            let Some(entry) = self.order.get(place) else {
                break;
            };
            if self.lives(entry, now) {
                self.members.remove(entry.slot(), now, &mut self.order);
                removed += 1;
            } else {
                place += 1;
            }
        }
        removed
    }
}

impl LargeForm for LargeSortedSet {
    fn duplicate(&self, scene: &Scene<'_>) -> LargeSortedSet {
        LargeSortedSet {
            members: self.members.duplicate(scene),
            order: self.order.clone(),
        }
    }
}

impl LargeElements for LargeSortedSet {
    fn unpack(tail: Tail, packed: &PackedElements, scene: &Scene<'_>) -> LargeSortedSet {
        let members = TimedElements::unpack(tail, packed, scene);
        let mut order = Order::new();
        for element in packed.iter() {
            let slot = members.elements().find(element.member);
            let slot = slot.expect("the element was inserted above");
            order.push(Entry::new(score_of(element.tail), slot));
        }
        LargeSortedSet { members, order }
    }

    fn members(&self) -> &TimedElements {
        &self.members
    }

    fn members_mut(&mut self) -> &mut TimedElements {
        &mut self.members
    }

    fn remove_slot(&mut self, slot: Slot, now: Tick) {
        self.members.remove(slot, now, &mut self.order);
        debug_assert_eq!(self.order.len(), self.members.elements().len());
    }
}

impl Representation for LargeSortedSet {
    fn is_void(&self) -> bool {
        self.members.is_void()
    }

    fn is_dead(&self, now: Tick) -> bool {
        self.members.is_dead(now)
    }

    fn heap_bytes(&self) -> usize {
        size_of::<LargeSortedSet>() + self.members.heap_bytes() + self.order.heap_bytes()
    }

    fn deadlines(&self) -> Option<Deadlines> {
        self.members.deadlines()
    }

    fn embedded_deadline(&self) -> Option<Option<Tick>> {
        self.members.embedded_deadline()
    }

    fn set_own(&mut self, own: Option<Tick>) {
        self.members.set_own(own);
    }

    fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        let order = &mut self.order;
        self.members.purge(now, budget, expired, names, order);
    }

    fn dismantle(&mut self, steps: u32) -> bool {
        let mut left = steps;
        !self.order.dismantle(&mut left) || self.members.dismantle(left)
    }

    fn check(&self) {
        self.members.check();
        let elements = self.members.elements();
        assert_eq!(self.order.len(), elements.len());
        self.order.check(|a, b| {
            let (one, other) = (elements.member(a.slot()), elements.member(b.slot()));
            compare(a.score(), one, b.score(), other)
        });
        for entry in self.order.iter(0..self.order.len()) {
            let (_, score) = scored(elements, entry.slot());
            assert_eq!(score, entry.score());
        }
    }
}
