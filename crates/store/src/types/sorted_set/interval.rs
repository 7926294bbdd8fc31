//! Intervals of scores and of members.

use std::ops::Bound;

/// Selection of members: by scores between two bounds, or by bytes among members of one score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interval<'a> {
    /// Scores between two bounds, which must not be NaN.
    Scores(Bound<f64>, Bound<f64>),
    /// Members between two bounds, compared byte by byte. The result is unspecified if scores
    /// differ.
    Members(Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// No member.
    Nothing,
}

impl Interval<'_> {
    /// Returns whether a member precedes the interval. Calls `member` for its bytes only if the
    /// score does not decide.
    pub(crate) fn is_behind<'m>(&self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match *self {
            Interval::Scores(min, _) => is_below(score, min),
            Interval::Members(Bound::Unbounded, _) => false,
            Interval::Members(min, _) => is_below(member(), min),
            Interval::Nothing => true,
        }
    }

    /// Returns whether a member is in the interval or precedes it. Calls `member` for its bytes
    /// only if the score does not decide.
    pub(crate) fn reaches<'m>(&self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match *self {
            Interval::Scores(_, max) => !is_above(score, max),
            Interval::Members(_, Bound::Unbounded) => true,
            Interval::Members(_, max) => !is_above(member(), max),
            Interval::Nothing => true,
        }
    }
}

fn is_below<T: PartialOrd>(value: T, min: Bound<T>) -> bool {
    match min {
        Bound::Included(min) => value < min,
        Bound::Excluded(min) => value <= min,
        Bound::Unbounded => false,
    }
}

fn is_above<T: PartialOrd>(value: T, max: Bound<T>) -> bool {
    match max {
        Bound::Included(max) => value > max,
        Bound::Excluded(max) => value >= max,
        Bound::Unbounded => false,
    }
}
