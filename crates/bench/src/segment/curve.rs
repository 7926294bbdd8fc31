//! Interpolation between the points of a curve of miss ratios over memory.

use serde::Serialize;

/// Memory needed for a miss ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Needed {
    pub memory: f64,
    /// Whether the smallest measured size already has a lower miss ratio, so that this is only an
    /// upper bound on the needed memory.
    pub is_at_most: bool,
}

impl Needed {
    /// Returns the needed memory relative to another amount.
    pub(super) fn over(self, memory: f64) -> Needed {
        Needed {
            memory: self.memory / memory,
            ..self
        }
    }

    /// Formats the memory with two decimals.
    pub(super) fn text(self) -> String {
        let mark = if self.is_at_most { "≤ " } else { "" };
        format!("{mark}{:.2}", self.memory)
    }
}

/// Returns the memory at which a curve first falls to a miss ratio. It is interpolated linearly
/// over the logarithm of memory. Returns `None` if the curve does not fall to it.
pub(super) fn memory_for(curve: &[(f64, f64)], ratio: f64) -> Option<Needed> {
    let mut points = curve.to_vec();
    points.retain(|(memory, _)| *memory > 0.0);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = points.iter().position(|(_, missed)| *missed <= ratio)?;
    let (memory, missed) = points[at];
    let Some(before) = at.checked_sub(1) else {
        return Some(Needed {
            memory,
            is_at_most: missed < ratio,
        });
    };
    let (smaller, more) = points[before];
    // `more` is above the ratio and `missed` is not, so they differ.
    let share = (more - ratio) / (more - missed);
    Some(Needed {
        memory: smaller * (memory / smaller).powf(share),
        is_at_most: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(curve: &[(f64, f64)], ratio: f64) -> Option<(f64, bool)> {
        memory_for(curve, ratio).map(|needed| (needed.memory, needed.is_at_most))
    }

    #[test]
    fn memory_is_found_between_the_points() {
        let curve = [(40.0, 0.2), (10.0, 0.4), (160.0, 0.1)];
        assert_eq!(at(&curve, 0.4), Some((10.0, false)));
        assert_eq!(at(&curve, 0.2), Some((40.0, false)));
        // The middle between two miss ratios is at the middle of the logarithms.
        let (memory, is_at_most) = at(&curve, 0.3).expect("it is reached");
        assert!((memory - 20.0).abs() < 1e-9 && !is_at_most);
        assert_eq!(at(&curve, 0.5), Some((10.0, true)));
        assert_eq!(at(&curve, 0.05), None);
        assert_eq!(at(&[], 0.5), None);
    }

    #[test]
    fn a_curve_that_rises_again_counts_where_it_first_came_down() {
        let curve = [(10.0, 0.4), (20.0, 0.2), (40.0, 0.25), (80.0, 0.1)];
        assert_eq!(at(&curve, 0.2), Some((20.0, false)));
        let (memory, _) = at(&curve, 0.15).expect("it is reached");
        assert!(memory > 40.0 && memory < 80.0);
    }

    #[test]
    fn required_memory_is_reported_as_a_share() {
        let needed = Needed {
            memory: 30.0,
            is_at_most: true,
        };
        assert_eq!(needed.over(60.0).text(), "≤ 0.50");
    }
}
