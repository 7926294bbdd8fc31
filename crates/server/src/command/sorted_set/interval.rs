//! Parsers for ranges of scores and of members.

use engine::refusal::Refusal;
use std::ops::Bound;
use store::Interval;

/// Parses `min max` of ZRANGEBYSCORE and similar commands: numbers, with a `(` in front if
/// excluded.
pub fn scores(min: &[u8], max: &[u8]) -> Result<Interval<'static>, Refusal> {
    let edge = |text: &[u8]| match text {
        [b'(', rest @ ..] => number(rest).map(Bound::Excluded),
        text => number(text).map(Bound::Included),
    };
    edge(min)
        .zip(edge(max))
        .map(|(min, max)| Interval::Scores(min, max))
        .ok_or(Refusal::Message("ERR min or max is not a float"))
}

/// Parses a number as C's `strtod` does, which Redis uses here: blanks may precede it, an empty
/// text is 0, and a number that is too large is infinite.
fn number(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Some(0.0);
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// Parses `min max` of ZRANGEBYLEX and similar commands: members after `[` (included) or `(`
/// (excluded), or `-` and `+` for the ends.
pub fn members<'a>(min: &'a [u8], max: &'a [u8]) -> Result<Interval<'a>, Refusal> {
    let edges = edge(min).zip(edge(max));
    let (min, max) = edges.ok_or(Refusal::Message(
        "ERR min or max not valid string range item",
    ))?;
    Ok(match (min, max) {
        // A range that begins above all members or ends below all is empty.
        (Edge::Top, _) | (_, Edge::Bottom) => Interval::Nothing,
        (min, max) => Interval::Members(min.bound(), max.bound()),
    })
}

/// An end of a lexicographical range.
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
