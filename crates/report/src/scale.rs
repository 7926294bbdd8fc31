//! An axis that is linear, logarithmic, or has one place per category.
//!
//! `plotters` has a separate type for each of these. A plot that chooses at run time would need an
//! instance of its code for every pair of them. So this type implements the trait of `plotters` and
//! chooses by value.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
    /// Categories. Category i is centred on i. On a vertical axis the first category is at the top.
    Places(Vec<String>),
}

/// Range and kind of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

impl Scale {
    /// Creates an axis that includes all of these values; 0 to 1 if there are none.
    pub(crate) fn numbers(
        values: impl Iterator<Item = f64>,
        is_log: bool,
        from_zero: bool,
    ) -> Scale {
        let shown = values.filter(|value| value.is_finite() && (!is_log || *value > 0.0));
        let (mut low, mut high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = if is_log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if is_log {
            // A range of length zero is widened.
            if low == high {
                (low, high) = (low / 2.0, high * 2.0);
            }
            let kind = Kind::Log;
            return Scale { kind, low, high };
        }
        if from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if low == high {
            let room = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
            (low, high) = (low - room, high + room);
        }
        let room = (high - low) * 0.03;
        let kind = Kind::Linear;
        Scale {
            kind,
            low: if low == 0.0 { 0.0 } else { low - room },
            high: if high == 0.0 { 0.0 } else { high + room },
        }
    }

    /// Creates an axis with one place for each name.
    pub(crate) fn places(names: Vec<String>) -> Scale {
        let high = names.len().max(1) as f64 - 0.5;
        Scale {
            kind: Kind::Places(names),
            low: -0.5,
            high,
        }
    }

    /// Whether the value can be shown on the axis.
    pub(crate) fn holds(&self, value: f64) -> bool {
        value.is_finite() && (self.kind != Kind::Log || value > 0.0)
    }

    /// Returns the value at which bars begin: zero, or the start of the axis if it has no zero.
    pub(crate) fn base(&self) -> f64 {
        match self.kind {
            Kind::Log => self.low,
            _ => 0f64.clamp(self.low, self.high),
        }
    }

    /// Returns the label of a tick.
    pub(crate) fn text(&self, value: f64) -> String {
        match &self.kind {
            Kind::Places(names) => names.get(value as usize).cloned().unwrap_or_default(),
            _ => tick_text(value),
        }
    }

    /// Returns the positions of at most `count_max` ticks.
    fn marks(&self, count_max: usize) -> Vec<f64> {
        let count_max = count_max.max(2);
        match &self.kind {
            Kind::Linear => linear_marks(self.low, self.high, count_max),
            Kind::Log => log_marks(self.low, self.high, count_max),
            Kind::Places(names) => {
                let step = names.len().div_ceil(count_max).max(1);
                (0..names.len()).step_by(step).map(|i| i as f64).collect()
            }
        }
    }

    /// Returns the ticks with their labels.
    pub(crate) fn labels(&self, count_max: usize) -> Vec<String> {
        let marks = self.marks(count_max);
        marks.into_iter().map(|mark| self.text(mark)).collect()
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = match self.kind {
            Kind::Log => {
                let value = value.max(f64::MIN_POSITIVE);
                (value / self.low).ln() / (self.high / self.low).ln()
            }
            _ => (value - self.low) / (self.high - self.low),
        };
        let (from, to) = match self.kind {
            // Categories are shown from top to bottom.
            Kind::Places(_) if limit.1 < limit.0 => (limit.1, limit.0),
            _ => limit,
        };
        let length = f64::from(to - from);
        from + (share.clamp(-1.0, 2.0) * length).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.marks(hint.bold_points())
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        self.text(*value)
    }
}

/// Returns ticks at multiples of 1, 2 or 5 times a power of ten.
fn linear_marks(low: f64, high: f64, count_max: usize) -> Vec<f64> {
    let rough = (high - low) / count_max as f64;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let fits = |step: &f64| ((high / step).floor() - (low / step).ceil()) < count_max as f64;
    let step = steps.into_iter().find(fits).unwrap_or(10.0 * power);
    // An empty range, or one that is too wide or too narrow for floating-point numbers, has ticks
    // at its ends only.
    if !(step.is_finite() && step > 0.0) {
        return if low == high {
            vec![low]
        } else {
            vec![low, high]
        };
    }
    // The tolerance keeps ends that are ticks themselves, regardless of rounding.
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Returns ticks at powers of ten. If there are too many, only some are returned; if there is room,
/// ticks at 2 and 5 times them are added.
fn log_marks(low: f64, high: f64, count_max: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |mark: &f64| *mark >= low * 0.999 && *mark <= high * 1.001;
    let with = |factors: &[f64]| -> Vec<f64> {
        let powers = (first..=last).map(|power| 10f64.powi(power));
        powers
            .flat_map(|power| factors.iter().map(move |factor| factor * power))
            .filter(inside)
            .collect()
    };
    let all = with(&[1.0, 2.0, 5.0]);
    if all.len() <= count_max {
        return all;
    }
    let powers = with(&[1.0]);
    let step = powers.len().div_ceil(count_max).max(1);
    powers.into_iter().step_by(step).collect()
}

/// Formats a number for ticks and hover texts: four significant digits, with k, M or G for
/// thousands, millions or billions.
pub fn tick_text(value: f64) -> String {
    let size = value.abs();
    let (scaled, unit) = match size {
        size if size >= 1e15 || (size > 0.0 && size < 1e-4) => return format!("{value:.2e}"),
        size if size >= 1e10 => (value / 1e9, "G"),
        size if size >= 1e7 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    let text = if text == "-0" { "0" } else { text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_few_and_inside() {
        for (low, high) in [
            (0.0, 1.0),
            (-3.7, 12.2),
            (0.001, 0.0017),
            (1e9, 3e9),
            (-5.0, -1.0),
        ] {
            for count_max in 2..12 {
                let marks = linear_marks(low, high, count_max);
                assert!(!marks.is_empty(), "{low} {high} {count_max}");
                assert!(
                    marks.len() <= count_max,
                    "{low} {high} {count_max}: {marks:?}"
                );
                let slack = (high - low) * 1e-6;
                let is_inside = |mark: &f64| *mark >= low - slack && *mark <= high + slack;
                assert!(marks.iter().all(is_inside), "{marks:?}");
            }
        }
        assert_eq!(
            linear_marks(0.0, 100.0, 6),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        );
        assert_eq!(linear_marks(3.0, 3.0, 6), [3.0]);
        assert_eq!(linear_marks(0.0, 5e-324, 6), [0.0, 5e-324]);
        assert_eq!(linear_marks(f64::MIN, f64::MAX, 6), [f64::MIN, f64::MAX]);
        assert_eq!(log_marks(1.0, 1e6, 4), [1.0, 100.0, 1e4, 1e6]);
        assert_eq!(log_marks(1.0, 10.0, 6), [1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn scales_map_ends_to_ends_and_lists_from_the_top() {
        let log = Scale::numbers([1.0, 1000.0, -4.0, f64::NAN].into_iter(), true, false);
        assert_eq!(
            [1.0, 1000.0].map(|value| log.map(&value, (0, 300))),
            [0, 300]
        );
        assert_eq!(log.map(&10.0, (0, 300)), 100);
        let list = Scale::places(vec!["a".into(), "b".into()]);
        assert_eq!([0.0, 1.0].map(|value| list.map(&value, (100, 0))), [25, 75]);
        assert_eq!(list.labels(9), ["a", "b"]);
    }

    #[test]
    fn scales_of_nothing_and_of_one_value_have_a_span() {
        let empty = [f64::NAN, f64::INFINITY];
        for values in [&empty[..], &[0.0], &[-7.0], &[5.0, 5.0]] {
            for (is_log, from_zero) in [(false, false), (false, true), (true, false)] {
                let scale = Scale::numbers(values.iter().copied(), is_log, from_zero);
                assert!(scale.low < scale.high, "{values:?} {scale:?}");
                assert!(!scale.labels(5).is_empty(), "{values:?} {scale:?}");
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (0.25, "0.25"),
            (1234.0, "1234"),
            (12_000.0, "12k"),
            (1_500_000.0, "1500k"),
            (25_000_000.0, "25M"),
            (-0.1, "-0.1"),
            (1e-9, "1.00e-9"),
        ];
        for (value, text) in cases {
            assert_eq!(tick_text(value), text);
        }
    }
}
