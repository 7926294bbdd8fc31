//! Sorted sets: members with scores, in the order of these and, where they are equal, of the members'
//! bytes.

mod interval;
mod large;
mod small;

pub use interval::Interval;

use crate::collection::{Collection, Representation, Scene};
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::tags::{TAG_SORTED_SET, TAG_SORTED_SET_TTL};
use large::{LargeSortedSet, score_of};
use policy::Tick;
use std::cmp::Ordering;
use std::ops::Range;

/// A sorted set. No method that reads shows a member whose deadline has passed, and ranks count live
/// members only.
#[derive(Debug)]
pub struct SortedSet {
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Few and short members, in their order.
    Packed(PackedElements),
    /// Many.
    Large(Box<LargeSortedSet>),
}

impl Default for SortedSet {
    fn default() -> Self {
        Collection::new()
    }
}

/// The order of two members. Scores are neither NaN nor −0.
fn compare(score: f64, member: &[u8], other_score: f64, other: &[u8]) -> Ordering {
    let by_score = score.total_cmp(&other_score);
    by_score.then_with(|| member.cmp(other))
}

impl SortedSet {
    /// Its pages, when it has many members.
    pub(crate) fn pages(&self) -> Option<&Elements> {
        match &self.form {
            Form::Large(many) => Some(many.members.elements()),
            _ => None,
        }
    }

    /// How many members there are.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.len(scene.now),
            Form::Large(many) => many.members.len(scene.now),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
        self.len(scene) == 0
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8], scene: &Scene<'_>) -> Option<f64> {
        match &self.form {
            Form::Packed(packed) => {
                let element = packed.find(member)?;
                let is_live = element.is_live(scene.now);
                is_live.then(|| score_of(element.tail))
            }
            Form::Large(many) => many.score(member, scene.now),
        }
    }

    /// How many members stand before this one, and its score.
    pub fn rank(&self, member: &[u8], scene: &Scene<'_>) -> Option<(usize, f64)> {
        match &self.form {
            Form::Packed(packed) => small::rank(packed, member, scene.now),
            Form::Large(many) => many.rank(member, scene.now),
        }
    }

    /// The ranks of the members in an interval.
    pub fn ranks(&self, interval: &Interval<'_>, scene: &Scene<'_>) -> Range<usize> {
        match &self.form {
            Form::Packed(packed) => small::ranks(packed, interval, scene.now),
            Form::Large(many) => many.ranks(interval, scene.now),
        }
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
        match &self.form {
            Form::Packed(packed) => small::each(packed, ranks, is_reverse, scene.now, each),
            Form::Large(many) => many.each(ranks, is_reverse, scene.now, each),
        }
    }

    /// Gives a member a score, or adds it; the score is not NaN, and −0 becomes 0. Its deadline stays. A
    /// dead one that is still there comes anew, without a deadline.
    pub fn set(&mut self, member: &[u8], score: f64, scene: &Scene<'_>) {
        assert!(!score.is_nan());
        let score = score + 0.0;
        if member.len() as i64 > scene.limits.zset_value() {
            self.make_large(scene);
        }
        if let Form::Packed(packed) = &mut self.form {
            match packed.find_or_count(member) {
                Ok(element) => {
                    let is_live = element.is_live(scene.now);
                    let (at, deadline) = (element.at, element.deadline.filter(|_| is_live));
                    packed.remove(at);
                    small::insert(packed, member, score, deadline);
                    return packed.settle();
                }
                Err(count) if (count as i64) < scene.limits.zset_entries() => {
                    return small::insert(packed, member, score, None);
                }
                Err(_) => {}
            }
        }
        self.make_large(scene).set(member, score, scene);
    }

    /// Gives it the form for many members.
    fn make_large(&mut self, scene: &Scene<'_>) -> &mut LargeSortedSet {
        if let Form::Packed(packed) = &self.form {
            self.form = Form::Large(Box::new(LargeSortedSet::unpack(packed, scene)));
        }
        match &mut self.form {
            Form::Large(many) => many,
            Form::Packed(_) => unreachable!("it was made large above"),
        }
    }

    /// Removes a member; whether it was there. A dead one stays for those who take the dead away and
    /// tell of it.
    pub fn remove(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
        match &mut self.form {
            Form::Packed(packed) => {
                let found = packed.find(member).filter(|e| e.is_live(scene.now));
                let Some(at) = found.map(|element| element.at) else {
                    return false;
                };
                packed.remove(at);
                packed.settle();
                true
            }
            Form::Large(many) => many.remove(member, scene.now),
        }
    }

    /// Removes the members of these ranks; how many they were.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, scene: &Scene<'_>) -> usize {
        match &mut self.form {
            Form::Packed(packed) => small::remove_ranks(packed, ranks, scene.now),
            Form::Large(many) => many.remove_ranks(ranks, scene.now),
        }
    }

    /// `None`: no such member; `Some(None)`: it has no deadline.
    pub fn deadline(&self, member: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
        match &self.form {
            Form::Packed(packed) => {
                let element = packed.find(member)?;
                element.is_live(scene.now).then_some(element.deadline)
            }
            Form::Large(many) => {
                let slot = many.members.find_live(member, scene.now)?;
                Some(many.members.elements().deadline(slot))
            }
        }
    }

    /// Whether some member may have a deadline.
    pub fn has_deadlines(&self) -> bool {
        match &self.form {
            Form::Packed(packed) => packed.has_deadlines(),
            Form::Large(many) => many.members.deadlines().is_some(),
        }
    }

    /// Asks `choose`, which is told when a member dies, for another deadline or none; `None` leaves it as it is.
    /// False when there is no such member.
    pub fn update_deadline(
        &mut self,
        member: &[u8],
        scene: &Scene<'_>,
        mut choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
    ) -> bool {
        let choose = &mut |old| Some(choose(old)?.map(|deadline| deadline.min(Tick::MAX)));
        match &mut self.form {
            Form::Packed(packed) => packed.update_deadline(member, scene.now, choose),
            Form::Large(many) => many.members.update_deadline(member, scene, choose),
        }
    }

    /// Gives a member another deadline, or takes it; false when there is no such member.
    pub fn set_deadline(
        &mut self,
        member: &[u8],
        deadline: Option<Tick>,
        scene: &Scene<'_>,
    ) -> bool {
        self.update_deadline(member, scene, |_| Some(deadline))
    }

    /// Tells about `count` members from `cursor` on, and all when they are few; the next cursor, 0 at the
    /// end. A member that is there throughout is told at least once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        scene: &Scene<'_>,
        each: impl FnMut(&[u8], f64),
    ) -> u64 {
        match &self.form {
            Form::Packed(packed) => {
                small::each(packed, 0..usize::MAX, false, scene.now, each);
                0
            }
            Form::Large(many) => many.scan(cursor, count, scene.now, each),
        }
    }
}

impl Collection for SortedSet {
    const KIND: Kind = Kind::SortedSet;
    const EXPIRED: (Class, &'static str) = (Class::SortedSet, "zexpired");

    fn new() -> Self {
        SortedSet {
            form: Form::Packed(PackedElements::new(Tail::Score)),
        }
    }

    fn unpack(tag: u8, bytes: Vec<u8>) -> Self {
        let packed = PackedElements::from_bytes(Tail::Score, tag == TAG_SORTED_SET_TTL, bytes);
        SortedSet {
            form: Form::Packed(packed),
        }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        let Form::Packed(packed) = &self.form else {
            return None;
        };
        let tag = if packed.has_deadlines() {
            TAG_SORTED_SET_TTL
        } else {
            TAG_SORTED_SET
        };
        Some((tag, packed.bytes()))
    }

    fn into_bytes(self) -> Vec<u8> {
        match self.form {
            Form::Packed(packed) => packed.into_bytes(),
            Form::Large(_) => Vec::new(),
        }
    }

    fn duplicate(&self, scene: &Scene<'_>) -> Self {
        let form = match &self.form {
            Form::Packed(packed) => Form::Packed(packed.clone()),
            Form::Large(many) => Form::Large(Box::new(many.duplicate(scene))),
        };
        SortedSet { form }
    }

    fn body(&self) -> &dyn Representation {
        match &self.form {
            Form::Packed(packed) => packed,
            Form::Large(many) => many.as_ref(),
        }
    }

    fn body_mut(&mut self) -> &mut dyn Representation {
        match &mut self.form {
            Form::Packed(packed) => packed,
            Form::Large(many) => many.as_mut(),
        }
    }
}

#[cfg(test)]
mod tests;
