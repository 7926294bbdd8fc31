//! Distributions of whole numbers in bounded memory.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Significant decimal digits: values are accurate within 1 %.
const DIGITS: u8 = 2;
/// Values above this bound count as the bound: 2^50 ms are 35,000 years.
const VALUE_MAX: u64 = 1 << 50;
/// Maximum number of points of a cumulative curve.
const CURVE_POINTS: usize = 120;

/// Histogram of values.
pub(crate) struct Distribution {
    histogram: Histogram<u64>,
    sum: f64,
    /// Tracked separately, because the histogram rounds values to its buckets.
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

    /// Returns mean, quantiles and curve; `None` if nothing was counted.
    pub fn summary(&self) -> Option<Quantiles> {
        let h = &self.histogram;
        if h.is_empty() {
            return None;
        }
        // A quantile is the upper end of its bucket, so it is limited to the exact extremes.
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

    /// Cumulative curve: values, and the share of values up to each.
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

/// Summary of a distribution. Values are accurate within 1 %.
#[derive(Clone, Debug, Serialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Smallest value.
    pub min: u64,
    /// 10th percentile.
    pub p10: u64,
    /// 25th percentile.
    pub p25: u64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest value.
    pub max: u64,
    /// Cumulative distribution: values, and the share of values up to each.
    pub curve: Vec<(u64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_distribution_has_no_summary() {
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
    fn values_above_the_bound_count_as_the_bound() {
        let mut d = Distribution::default();
        d.record(u64::MAX, 1);
        d.record(0, 1);
        let s = d.summary().expect("it was filled");
        assert!(s.max >= VALUE_MAX && s.min == 0);
    }
}
