//! Small sorted sets: packed members in the order of their scores and, where these are equal, of
//! their bytes.

use super::large::score_of;
use super::{Interval, compare};
use crate::elements::packed::PackedElements;
use policy::Tick;
use std::ops::Range;

/// Returns the position at which a member with this score must be inserted.
fn place(packed: &PackedElements, score: f64, member: &[u8]) -> usize {
    let mut behind = packed
        .iter()
        .filter(|element| compare(score_of(element.tail), element.member, score, member).is_gt());
    let first = behind.next().map(|element| element.at);
    first.unwrap_or(packed.end().max(packed.start()))
}

/// Inserts an absent member.
pub(super) fn insert(
    packed: &mut PackedElements,
    member: &[u8],
    score: f64,
    deadline: Option<Tick>,
) {
    debug_assert!(packed.find(member).is_none());
    let at = place(packed, score, member);
    packed.insert(at, member, &score.to_le_bytes());
    if deadline.is_some() {
        packed.set_deadline(at, deadline);
    }
}

/// Returns the rank and the score of a live member.
pub(super) fn rank(packed: &PackedElements, member: &[u8], now: Tick) -> Option<(usize, f64)> {
    let mut live = packed.live(now).enumerate();
    let (rank, element) = live.find(|(_, element)| element.member == member)?;
    Some((rank, score_of(element.tail)))
}

/// Returns the ranks of an interval among the live members.
pub(super) fn ranks(packed: &PackedElements, interval: &Interval<'_>, now: Tick) -> Range<usize> {
    let (mut start, mut end) = (0, 0);
    for element in packed.live(now) {
        let (score, member) = (score_of(element.tail), element.member);
        let is_behind = interval.is_behind(score, || member);
        if !is_behind && !interval.reaches(score, || member) {
            break;
        }
        start += usize::from(is_behind);
        end += 1;
    }
    start..end
}

/// Passes the live members of a range of ranks to `each`.
pub(super) fn each(
    packed: &PackedElements,
    ranks: Range<usize>,
    is_reverse: bool,
    now: Tick,
    mut each: impl FnMut(&[u8], f64),
) {
    let count = ranks.len();
    let chosen = packed.live(now).skip(ranks.start).take(count);
    if !is_reverse {
        return chosen.for_each(|element| each(element.member, score_of(element.tail)));
    }
    // Packed elements can be read only forwards, because their lengths are in front.
    let chosen: Vec<_> = chosen.collect();
    let backwards = chosen.iter().rev();
    backwards.for_each(|element| each(element.member, score_of(element.tail)));
}

/// Removes the live members of a range of ranks. Returns their number.
pub(super) fn remove_ranks(packed: &mut PackedElements, ranks: Range<usize>, now: Tick) -> usize {
    let mut removed = 0;
    for _ in ranks.clone() {
        let Some(at) = packed.live(now).nth(ranks.start).map(|element| element.at) else {
            break;
        };
        packed.remove(at);
        removed += 1;
    }
    packed.settle();
    debug_assert!(removed <= ranks.len());
    removed
}
