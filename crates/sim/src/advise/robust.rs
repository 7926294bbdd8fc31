//! Preference for a policy that is good on other traces, too.
//!
//! The policy with the fewest misses on one trace often does not have the fewest on the next day's
//! requests: where many policies are compared, the best of them is partly best by chance. A policy
//! whose misses are within a margin of the fewest is therefore chosen by its behaviour elsewhere:
//! [`PREFERRED`] if it is among them, otherwise the one whose largest excess over the best policy
//! is the smallest over the surveyed sizes.

use crate::curve::Point;

/// Policy that is preferred within the margin, because it has the lowest mean of misses over the
/// open traces and is hardly worse than FIFO on any.
pub(super) const PREFERRED: &str = "s3fifo-w";
/// Smallest margin as a share of the fewest misses. It is wider if the bounds of a sample are.
pub(super) const MARGIN: f64 = 0.02;
/// Maximum factor by which the preferred policy's cache may be larger, when the smallest cache that
/// reaches a target is wanted.
pub(super) const LARGER_MAX: f64 = 1.05;

/// Miss ratio up to which other policies count as equal to this one.
pub(super) fn equal_up_to(best: &Point) -> f64 {
    let error = (best.high - best.miss_ratio).max(best.miss_ratio - best.low);
    best.miss_ratio + error.max(MARGIN * best.miss_ratio)
}

/// Returns the policy to recommend among those with their points at one size. `is_preferred` and
/// `worst_excess` are called for policies within the margin.
pub(super) fn recommended(
    points: &[(usize, Point)],
    is_preferred: impl Fn(usize) -> bool,
    worst_excess: impl Fn(usize) -> f64,
) -> Option<(usize, Point)> {
    let by_ratio =
        |a: &&(usize, Point), b: &&(usize, Point)| a.1.miss_ratio.total_cmp(&b.1.miss_ratio);
    let (_, best) = points.iter().min_by(by_ratio)?;
    let most = equal_up_to(best);
    let near = points.iter().filter(|(_, point)| point.miss_ratio <= most);
    let by_rank = |a: &&(usize, Point), b: &&(usize, Point)| {
        let order = is_preferred(b.0).cmp(&is_preferred(a.0));
        let order = order.then_with(|| worst_excess(a.0).total_cmp(&worst_excess(b.0)));
        order.then_with(|| by_ratio(a, b))
    };
    near.min_by(by_rank).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(miss_ratio: f64, error: f64) -> Point {
        Point {
            capacity: 10,
            miss_ratio,
            low: miss_ratio - error,
            high: miss_ratio + error,
            byte_miss_ratio: None,
            is_trusted: true,
        }
    }

    #[test]
    fn a_policy_within_the_margin_is_chosen_by_its_behaviour_elsewhere() {
        let points = |other: f64, error: f64| vec![(0, point(0.1, error)), (1, point(other, 0.0))];
        let chosen = |points: &[(usize, Point)], preferred: usize, worst: [f64; 2]| {
            let found = recommended(points, |policy| policy == preferred, |policy| worst[policy]);
            found.map(|(policy, _)| policy)
        };
        assert_eq!(chosen(&points(0.1019, 0.0), 1, [0.0, 0.0]), Some(1));
        assert_eq!(chosen(&points(0.1021, 0.0), 1, [0.0, 0.0]), Some(0));
        assert_eq!(chosen(&points(0.1021, 0.005), 1, [0.0, 0.0]), Some(1));
        assert_eq!(chosen(&points(0.1019, 0.0), 7, [0.3, 0.1]), Some(1));
        assert_eq!(chosen(&points(0.1019, 0.0), 7, [0.1, 0.3]), Some(0));
        assert_eq!(chosen(&[], 0, [0.0, 0.0]), None);
    }
}
