//! Intervals of scores and of members as commands spell them.

use crate::command::refusal::Refusal;
use std::ops::Bound;
use store::Interval;

/// `min max` of ZRANGEBYSCORE and its kin: numbers, each behind a `(` when it is not meant itself.
pub fn scores(min: &[u8], max: &[u8]) -> Result<Interval<'static>, Refusal> {
    let edge = |text: &[u8]| match text {
        [b'(', rest @ ..] => number(rest).map(Bound::Excluded),
        text => number(text).map(Bound::Included),
    };
    edge(min)
        .zip(edge(max))
        .map(|(min, max)| Interval::Scores(min, max))
        .ok_or(Refusal::Says("ERR min or max is not a float"))
}

/// A number as the C library reads it, which Redis asks here: blanks may precede it, nothing at all is
/// 0, and what is too large is infinite.
fn number(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Some(0.0);
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// `min max` of ZRANGEBYLEX and its kin: members behind `[` or `(`, or `-` and `+` for the ends.
pub fn members<'a>(min: &'a [u8], max: &'a [u8]) -> Result<Interval<'a>, Refusal> {
    let edges = edge(min).zip(edge(max));
    let (min, max) = edges.ok_or(Refusal::Says("ERR min or max not valid string range item"))?;
    Ok(match (min, max) {
        // Nothing is above all members, nor below them.
        (Edge::Top, _) | (_, Edge::Bottom) => Interval::Nothing,
        (min, max) => Interval::Members(min.bound(), max.bound()),
    })
}

/// An end of an interval of members.
#[derive(Clone, Copy)]
enum Edge<'a> {
    Bottom,
    Top,
    At(Bound<&'a [u8]>),
}

impl<'a> Edge<'a> {
    fn bound(self) -> Bound<&'a [u8]> {
        match self {
            Edge::At(bound) => bound,
            Edge::Bottom | Edge::Top => Bound::Unbounded,
        }
    }
}

fn edge(text: &[u8]) -> Option<Edge<'_>> {
    match text {
        b"-" => Some(Edge::Bottom),
        b"+" => Some(Edge::Top),
        [b'[', member @ ..] => Some(Edge::At(Bound::Included(member))),
        [b'(', member @ ..] => Some(Edge::At(Bound::Excluded(member))),
        _ => None,
    }
}
