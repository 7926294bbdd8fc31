//! Distribution of times, as Prometheus reads it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds, each included. A last bucket has the rest.
pub const BOUNDS_US: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000,
];

/// Number of buckets.
const BUCKETS: usize = BOUNDS_US.len() + 1;

/// Counts of times by their length.
#[derive(Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// Values of a histogram at one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Number of times in each bucket.
    pub counts: [u64; BUCKETS],
    /// Sum of all times.
    pub sum: Duration,
}

impl fmt::Debug for Histogram {
    /// Writes only the number of times, which does not depend on the speed of the machine.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: u64 = self.snapshot().counts.iter().sum();
        f.debug_tuple("Histogram").field(&count).finish()
    }
}

impl Histogram {
    /// Counts a time.
    pub fn observe(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// Returns the current values. Times that are counted meanwhile may be in some of them only.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed)),
            sum: Duration::from_micros(self.sum_us.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_are_in_the_first_bucket_whose_bound_they_do_not_exceed(
            times in prop::collection::vec(0_u64..40_000_000, 0..50),
        ) {
            let histogram = Histogram::default();
            let mut expected = [0; BUCKETS];
            for time in &times {
                histogram.observe(Duration::from_micros(*time));
                let mut bounds = BOUNDS_US.iter();
                let bucket = bounds.position(|bound| time <= bound);
                expected[bucket.unwrap_or(BUCKETS - 1)] += 1;
            }
            let Snapshot { counts, sum } = histogram.snapshot();
            prop_assert_eq!(counts, expected);
            prop_assert_eq!(sum, Duration::from_micros(times.iter().sum()));
        }
    }
}
