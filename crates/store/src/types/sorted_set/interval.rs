//! Intervals of scores and of members.

use std::ops::Bound;

/// Which members are meant: those with scores between two numbers, or, among members of one score,
/// those between two others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interval<'a> {
    /// By score; the bounds are not NaN.
    Scores(Bound<f64>, Bound<f64>),
    /// By member, byte by byte. Means nothing where scores differ, and is then answered somehow.
    Members(Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// None.
    Nothing,
}

impl Interval<'_> {
    /// Whether a member lies before the interval. Asks for its bytes only if they matter.
    pub(crate) fn is_behind<'m>(&self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match *self {
            Interval::Scores(min, _) => is_below(score, min),
            Interval::Members(Bound::Unbounded, _) => false,
            Interval::Members(min, _) => is_below(member(), min),
            Interval::Nothing => true,
        }
    }

    /// Whether a member does not lie beyond the interval.
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
