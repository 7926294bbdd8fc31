//! Save points: `save seconds changes …`.

/// A snapshot begins after this many seconds if there were at least this many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Minimum number of seconds since the last snapshot.
    pub seconds: u64,
    /// Minimum number of changes since the last snapshot.
    pub changes: u64,
}

impl SavePoint {
    /// Parses the value of the setting `save`: pairs of seconds and changes, or nothing.
    ///
    /// # Errors
    /// Returns a message for the user.
    pub fn parse_all(text: &str) -> Result<Vec<SavePoint>, String> {
        let wrong = || "Invalid save parameters".to_owned();
        let numbers: Option<Vec<u64>> = text
            .split_ascii_whitespace()
            .map(|word| word.parse().ok())
            .collect();
        let numbers = numbers.ok_or_else(wrong)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(wrong());
        }
        let point = |&[seconds, changes]: &[u64; 2]| SavePoint { seconds, changes };
        let points: Vec<SavePoint> = pairs.iter().map(point).collect();
        match points.iter().all(|point| point.seconds > 0) {
            true => Ok(points),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_points_are_pairs_of_numbers() {
        let point = |seconds, changes| SavePoint { seconds, changes };
        for (text, expected) in [
            ("", Some(vec![])),
            ("900 1", Some(vec![point(900, 1)])),
            (" 900 1  60 0 ", Some(vec![point(900, 1), point(60, 0)])),
            ("900", None),
            ("0 1", None),
            ("60 -1", None),
            ("60 x", None),
        ] {
            assert_eq!(SavePoint::parse_all(text).ok(), expected, "{text:?}");
        }
    }
}
