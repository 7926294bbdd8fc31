//! Sorted sets: members with scores, in the order of the scores and, where these are equal, of the
//! members' bytes.

mod interval;
mod large;
mod small;

pub use interval::Interval;

use super::form::{ElementForm, Form, collection, element_methods};
use crate::collection::Scene;
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use crate::tags::{TAG_SORTED_SET, TAG_SORTED_SET_TTL};
use large::{LargeSortedSet, score_of};
use policy::Tick;
use std::cmp::Ordering;
use std::ops::Range;

/// Distinct byte strings with scores. Reading methods never return a member whose deadline has
/// passed, and ranks count live members only.
#[derive(Debug)]
pub struct SortedSet {
    /// Packed or large form. Packed members are in the order of the sorted set.
    form: ElementForm<LargeSortedSet>,
}

collection!(
    SortedSet,
    "zexpired",
    |tag, bytes| PackedElements::from_bytes(Tail::Score, tag == TAG_SORTED_SET_TTL, bytes),
    |packed: &PackedElements| if packed.has_deadlines() {
        TAG_SORTED_SET_TTL
    } else {
        TAG_SORTED_SET
    },
    Vec::new()
);
element_methods!(SortedSet, "member");

/// Compares two members by score, then by bytes. Scores are neither NaN nor −0.
fn compare(score: f64, member: &[u8], other_score: f64, other: &[u8]) -> Ordering {
    let by_score = score.total_cmp(&other_score);
    by_score.then_with(|| member.cmp(other))
}

impl SortedSet {
    /// Returns the score of a live member.
    pub fn score(&self, member: &[u8], scene: &Scene<'_>) -> Option<f64> {
        self.form.get(member, scene.horizon).map(score_of)
    }

    /// Returns the rank and the score of a live member.
    pub fn rank(&self, member: &[u8], scene: &Scene<'_>) -> Option<(usize, f64)> {
        match &self.form {
            Form::Packed(packed) => small::rank(packed, member, scene.horizon),
            Form::Large(many) => many.rank(member, scene.horizon),
        }
    }

    /// Returns the ranks of the members in an interval.
    pub fn ranks(&self, interval: &Interval<'_>, scene: &Scene<'_>) -> Range<usize> {
        match &self.form {
            Form::Packed(packed) => small::ranks(packed, interval, scene.horizon),
            Form::Large(many) => many.ranks(interval, scene.horizon),
        }
    }

    /// Passes the members of a range of ranks and their scores to `each`, in order or in reverse.
    /// Ranks past the end are ignored.
    pub fn each(
        &self,
        ranks: Range<usize>,
        is_reverse: bool,
        scene: &Scene<'_>,
        each: impl FnMut(&[u8], f64),
    ) {
        match &self.form {
            Form::Packed(packed) => small::each(packed, ranks, is_reverse, scene.horizon, each),
            Form::Large(many) => many.each(ranks, is_reverse, scene.horizon, each),
        }
    }

    /// Sets the score of a member, or adds it, and keeps its deadline. The score must not be NaN;
    /// −0 becomes 0. An expired member that is still present is replaced by a new one without a
    /// deadline.
    pub fn set(&mut self, member: &[u8], score: f64, scene: &Scene<'_>) {
        assert!(!score.is_nan());
        let score = score + 0.0;
        scene.note_change(member);
        if member.len() as i64 > scene.limits.zset_value() {
            self.form.make_large(Tail::Score, scene);
        }
        if let Form::Packed(packed) = &mut self.form {
            match packed.find_or_count(member) {
                Ok(element) => {
                    let is_live = element.is_live(scene.horizon);
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
        self.form
            .make_large(Tail::Score, scene)
            .set(member, score, scene);
    }

    /// Removes the members of a range of ranks. Returns their number.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, scene: &Scene<'_>) -> usize {
        if scene.changed.is_some() {
            let each = |member: &[u8], _| scene.note_change(member);
            self.each(ranks.clone(), false, scene, each);
        }
        match &mut self.form {
            Form::Packed(packed) => small::remove_ranks(packed, ranks, scene.horizon),
            Form::Large(many) => many.remove_ranks(ranks, scene.horizon),
        }
    }

    /// Passes about `count` live members, beginning at `cursor`, to `each`; all if the set is
    /// packed. Returns the next cursor, 0 at the end. A member that is present during the whole
    /// scan is passed at least once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        scene: &Scene<'_>,
        mut each: impl FnMut(&[u8], f64),
    ) -> u64 {
        let each = |member: &[u8], tail: &[u8]| each(member, score_of(tail));
        self.form.scan(cursor, count, scene.horizon, each)
    }
}

#[cfg(test)]
mod tests;
