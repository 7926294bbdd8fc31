//! Distributions of whole numbers in bounded memory.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Significant decimal digits that are kept: values are told within 1 %.
const DIGITS: u8 = 2;
/// Values from here on count as this one: 2^50 ms are 35,000 years.
const VALUE_MAX: u64 = 1 << 50;
/// Points of a cumulative curve.
const CURVE_POINTS: usize = 120;

/// A distribution that is being filled.
pub(crate) struct Distribution {
    histogram: Histogram<u64>,
    sum: f64,
    /// The histogram knows its ends only within its buckets.
    min: u64,
    max: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution {
            histogram: Histogram::new(DIGITS).expect("two digits are within its range"),
            sum: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Distribution {
    /// Counts a value `weight` times.
    #[inline]
    pub fn record(&mut self, value: u64, weight: u64) {
        let value = value.min(VALUE_MAX);
        self.sum += value as f64 * weight as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.histogram
            .record_n(value, weight)
            .expect("an auto-resizing histogram takes values up to the bound");
    }

    /// What there is to tell; `None` when nothing was counted.
    pub fn summary(&self) -> Option<Quantiles> {
        let h = &self.histogram;
        if h.is_empty() {
            return None;
        }
        // A quantile is the upper end of its bucket; the ends are known better.
        let at = |q: f64| h.value_at_quantile(q).clamp(self.min, self.max);
        Some(Quantiles {
            count: h.len(),
            mean: self.sum / h.len() as f64,
            min: self.min,
            p10: at(0.1),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max,
            curve: self.curve(),
        })
    }

    /// Value and share of what is at most that, in steps of equal value ratios or shares.
    fn curve(&self) -> Vec<(u64, f64)> {
        let total = self.histogram.len() as f64;
        let mut seen = 0;
        let mut points: Vec<(u64, f64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            seen += step.count_at_value();
            let value = step.value_iterated_to().clamp(self.min, self.max);
            points.push((value, seen as f64 / total));
        }
        let every = points.len().div_ceil(CURVE_POINTS).max(1);
        let last = points.len() - 1;
        let is_kept = |index: usize| index.is_multiple_of(every) || index == last;
        let mut index = 0;
        points.retain(|_| {
            index += 1;
            is_kept(index - 1)
        });
        points
    }
}

/// What a distribution tells, within 1 % of each value.
#[derive(Clone, Debug, Serialize)]
pub struct Quantiles {
    /// How many values there were.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The smallest.
    pub min: u64,
    /// A tenth is at most this.
    pub p10: u64,
    /// A quarter is at most this.
    pub p25: u64,
    /// The median.
    pub p50: u64,
    /// Three quarters are at most this.
    pub p75: u64,
    /// Nine tenths are at most this.
    pub p90: u64,
    /// 99 % are at most this.
    pub p99: u64,
    /// 99.9 % are at most this.
    pub p999: u64,
    /// The largest.
    pub max: u64,
    /// The cumulative distribution: values, and the share of what is at most that.
    pub curve: Vec<(u64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_distribution_tells_nothing() {
        assert!(Distribution::default().summary().is_none());
    }

    #[test]
    fn quantiles_are_within_a_hundredth() {
        let mut d = Distribution::default();
        for value in 1..=100_000 {
            d.record(value, 3);
        }
        let s = d.summary().expect("it was filled");
        assert_eq!((s.count, s.min), (300_000, 1));
        assert!((s.mean - 50_000.5).abs() < 1e-6);
        for (got, want) in [(s.p10, 1e4), (s.p50, 5e4), (s.p99, 9.9e4), (s.max, 1e5)] {
            assert!((got as f64 / want - 1.0).abs() <= 0.01, "{got} {want}");
        }
        assert_eq!(s.curve.last().map(|p| p.1), Some(1.0));
        assert!(s.curve.len() <= CURVE_POINTS + 2);
    }

    #[test]
    fn absurd_values_are_counted_at_the_bound() {
        let mut d = Distribution::default();
        d.record(u64::MAX, 1);
        d.record(0, 1);
        let s = d.summary().expect("it was filled");
        assert!(s.max >= VALUE_MAX && s.min == 0);
    }
}
