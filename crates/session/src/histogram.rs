//! A histogram with logarithmic buckets that one thread writes and any thread may read.
//!
//! A bucket spans 1/32 of an octave, so that a value is reported with an error of at most 3.2 %.
//! Counts are atomic, so that reading needs no lock. The 1,200 buckets for 40 octaves take 9.4 KiB,
//! which are allocated with the first value.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
/// Values of 2^40 or more count in the last bucket.
const OCTAVES: u64 = 40;
const BUCKETS: usize = ((OCTAVES - SUB_BITS as u64 + 1) * SUB) as usize;

/// Counts per bucket.
#[derive(Default)]
pub struct Histogram {
    buckets: OnceLock<Box<[AtomicU64]>>,
    max: AtomicU64,
}

fn bucket_of(value: u64) -> usize {
    let value = value.min((1 << OCTAVES) - 1);
    if value < SUB {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    (u64::from(shift) * SUB + (value >> shift)) as usize
}

/// Returns the largest value that counts in this bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let shift = bucket / SUB - 1;
    ((bucket % SUB + SUB + 1) << shift) - 1
}

impl Histogram {
    /// Counts `value` the given number of times.
    pub fn record(&self, value: u64, times: u64) {
        let buckets = self
            .buckets
            .get_or_init(|| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect());
        buckets[bucket_of(value)].fetch_add(times, Relaxed);
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// Sets all counts to zero.
    pub fn reset(&self) {
        if let Some(buckets) = self.buckets.get() {
            for bucket in buckets {
                bucket.store(0, Relaxed);
            }
        }
        self.max.store(0, Relaxed);
    }
}

/// Sum of several histograms.
#[derive(Clone, Debug)]
pub struct Summary {
    counts: Vec<u64>,
    /// Number of values.
    pub total: u64,
    /// Exact maximum.
    pub max: u64,
}

impl Summary {
    /// Adds up the current counts of several histograms.
    pub fn of<'h>(histograms: impl Iterator<Item = &'h Histogram>) -> Summary {
        let mut sum = Summary {
            counts: Vec::new(),
            total: 0,
            max: 0,
        };
        for histogram in histograms {
            sum.max = sum.max.max(histogram.max.load(Relaxed));
            let Some(buckets) = histogram.buckets.get() else {
                continue;
            };
            sum.counts.resize(BUCKETS, 0);
            for (count, bucket) in sum.counts.iter_mut().zip(buckets) {
                *count += bucket.load(Relaxed);
            }
        }
        sum.total = sum.counts.iter().sum();
        sum
    }

    /// Returns the upper bound of the bucket that contains the given percentile, which is a
    /// fraction; 0 if there are no values.
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return top_of(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Returns the number of values below a power of two.
    pub fn below(&self, bound: u64) -> u64 {
        debug_assert!(bound.is_power_of_two());
        let counts = self.counts.iter().enumerate();
        let below = counts.take_while(|(bucket, _)| top_of(*bucket) < bound);
        below.map(|(_, count)| count).sum()
    }

    /// Returns the sum of all values, estimated from the middle of each bucket: off by at most
    /// 1.6 %.
    pub fn sum(&self) -> u64 {
        let counts = self.counts.iter().enumerate();
        let filled = counts.filter(|(_, count)| **count > 0);
        let sum = filled.map(|(bucket, count)| {
            let low = bucket.checked_sub(1).map_or(0, |before| top_of(before) + 1);
            u128::from(low + top_of(bucket)) * u128::from(*count) / 2
        });
        u64::try_from(sum.sum::<u128>()).unwrap_or(u64::MAX)
    }

    /// Returns `(bound, values ≤ bound)` for each power of two at which the count changes, as
    /// reported by LATENCY HISTOGRAM.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let mut points = Vec::new();
        let (mut bound, mut seen, mut last) = (1u64, 0, 0);
        for (bucket, count) in self.counts.iter().enumerate() {
            while top_of(bucket) > bound {
                if seen > last {
                    points.push((bound, seen));
                    last = seen;
                }
                bound *= 2;
            }
            seen += count;
        }
        if seen > last {
            points.push((bound, seen));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_hold_their_values() {
        for value in (0..5_000).chain([1 << 20, (1 << 30) + 12_345, 1 << 39, u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS);
            let value = value.min((1 << OCTAVES) - 1);
            assert!(top_of(bucket) >= value);
            assert!(bucket == 0 || top_of(bucket - 1) < value);
        }
    }

    #[test]
    fn percentiles_are_accurate_to_a_bucket() {
        let histogram = Histogram::default();
        for value in 1..=10_000 {
            histogram.record(value, 1);
        }
        let sum = Summary::of([&histogram, &histogram].into_iter());
        assert_eq!(sum.total, 20_000);
        assert_eq!(sum.max, 10_000);
        for (share, truth) in [(0.5, 5_000.0), (0.99, 9_900.0), (0.999, 9_990.0)] {
            let value = sum.percentile(share) as f64;
            assert!(value >= truth && value <= truth * 1.04, "{share}: {value}");
        }
        assert_eq!(sum.below(1), 0);
        assert_eq!(sum.below(2), 2);
        assert_eq!(sum.below(1024), 2 * 1023);
        assert_eq!(sum.below(1 << 20), 20_000);
        let exact = 2 * (10_000 * 10_001 / 2);
        assert!(sum.sum().abs_diff(exact) < exact / 60, "{}", sum.sum());
        let octaves = sum.octaves();
        assert_eq!(octaves.last().map(|last| last.1), Some(20_000));
        assert!(octaves.windows(2).all(|two| two[0].0 < two[1].0));
        histogram.reset();
        assert_eq!(Summary::of([&histogram].into_iter()).percentile(0.5), 0);
    }
}
