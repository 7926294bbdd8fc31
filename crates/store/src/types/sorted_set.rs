//! Sorted sets: members with scores, in the order of these and, where they are equal, of the members'
//! bytes.

mod few;
mod interval;

pub use interval::Interval;

use crate::collection::{Collection, Deadlines, Expired, Scene};
use crate::elements::packed::{Packed, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::object::{Object, TAG_SORTED_SET, TAG_SORTED_SET_TTL};
use policy::{Budget, Tick};
use std::cmp::Ordering;
use std::ops::Range;

/// A sorted set. No method shows a member whose deadline has passed, and ranks count live members
/// only.
#[derive(Debug)]
pub struct SortedSet {
    packed: Packed,
}

impl Default for SortedSet {
    fn default() -> Self {
        Collection::new()
    }
}

/// The order of two members. Scores are never NaN.
fn compare(score: f64, member: &[u8], other_score: f64, other: &[u8]) -> Ordering {
    let by_score = score.partial_cmp(&other_score);
    by_score
        .unwrap_or(Ordering::Equal)
        .then_with(|| member.cmp(other))
}

impl SortedSet {
    /// How many members there are.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        self.packed.len(scene.now)
    }

    /// Whether there is none.
    pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
        self.len(scene) == 0
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8], scene: &Scene<'_>) -> Option<f64> {
        let element = self.packed.find(member)?;
        element.is_live(scene.now).then(|| few::score_of(&element))
    }

    /// How many members stand before this one, and its score.
    pub fn rank(&self, member: &[u8], scene: &Scene<'_>) -> Option<(usize, f64)> {
        few::rank(&self.packed, member, scene.now)
    }

    /// The ranks of the members in an interval.
    pub fn ranks(&self, interval: &Interval<'_>, scene: &Scene<'_>) -> Range<usize> {
        few::ranks(&self.packed, interval, scene.now)
    }

    /// Tells the members of these ranks and their scores in order, or backwards. Ranks beyond the end
    /// are nobody's.
    pub fn each(
        &self,
        ranks: Range<usize>,
        is_reverse: bool,
        scene: &Scene<'_>,
        each: impl FnMut(&[u8], f64),
    ) {
        few::each(&self.packed, ranks, is_reverse, scene.now, each);
    }

    /// Gives a member a score, or adds it; the score is not NaN, and −0 becomes 0. Its deadline stays.
    pub fn set(&mut self, member: &[u8], score: f64, scene: &Scene<'_>) {
        assert!(!score.is_nan());
        let score = score + 0.0;
        let mut deadline = None;
        if let Some(element) = self.packed.find(member) {
            if element.is_live(scene.now) {
                deadline = element.deadline;
            }
            self.packed.remove(element.at);
        }
        few::insert(&mut self.packed, member, score, deadline);
        self.packed.settle();
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
        let Some(element) = self.packed.find(member) else {
            return false;
        };
        let (at, was_live) = (element.at, element.is_live(scene.now));
        self.packed.remove(at);
        self.packed.settle();
        was_live
    }

    /// Removes the members of these ranks; how many they were.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, scene: &Scene<'_>) -> usize {
        let removed = few::remove_ranks(&mut self.packed, ranks, scene.now);
        self.packed.settle();
        removed
    }

    /// `None`: no such member; `Some(None)`: it has no deadline.
    pub fn deadline(&self, member: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
        let element = self.packed.find(member)?;
        element.is_live(scene.now).then_some(element.deadline)
    }

    /// Gives a member a deadline to come, or takes it; whether it is there.
    pub fn set_deadline(
        &mut self,
        member: &[u8],
        deadline: Option<Tick>,
        scene: &Scene<'_>,
    ) -> bool {
        let Some(element) = self.packed.find(member) else {
            return false;
        };
        let (at, is_live) = (element.at, element.is_live(scene.now));
        if is_live {
            self.packed.set_deadline(at, deadline);
            self.packed.settle();
        }
        is_live
    }

    /// Tells about `count` members from `cursor` on; the next cursor, 0 at the end. Every member that
    /// is there throughout is told at least once.
    pub fn scan(
        &self,
        _cursor: u64,
        _count: usize,
        scene: &Scene<'_>,
        each: impl FnMut(&[u8], f64),
    ) -> u64 {
        self.each(0..usize::MAX, false, scene, each);
        0
    }
}

impl Collection for SortedSet {
    const KIND: Kind = Kind::SortedSet;
    const EXPIRED: (Class, &'static str) = (Class::SortedSet, "zexpired");

    fn new() -> Self {
        SortedSet {
            packed: Packed::new(Tail::Score),
        }
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn into_object(self) -> Object {
        Object::SortedSet(self)
    }

    fn unpack(tag: u8, bytes: Vec<u8>) -> Self {
        let packed = Packed::from_bytes(Tail::Score, tag == TAG_SORTED_SET_TTL, bytes);
        SortedSet { packed }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        Some((
            [TAG_SORTED_SET, TAG_SORTED_SET_TTL][usize::from(self.packed.has_deadlines())],
            self.packed.bytes(),
        ))
    }

    fn into_bytes(self) -> Vec<u8> {
        self.packed.into_bytes()
    }

    fn duplicate(&self, _scene: &Scene<'_>) -> Self {
        SortedSet {
            packed: self.packed.clone(),
        }
    }

    fn trim(&mut self) {
        self.packed.trim();
    }

    fn is_void(&self) -> bool {
        self.packed.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        self.packed.heap_bytes()
    }

    fn is_dead(&self, now: Tick) -> bool {
        self.packed.live(now).next().is_none()
    }

    fn deadlines(&self) -> Option<Deadlines> {
        self.packed.deadlines()
    }

    fn set_own(&mut self, own: Option<Tick>) {
        self.packed.set_own(own);
    }

    fn purge(&mut self, now: Tick, budget: &mut Budget, expired: Expired<'_>) {
        self.packed.purge(now, budget, expired);
    }
}
