//! Histogram of the lateness of removals.

/// Number of buckets. The last one has no upper bound.
const BUCKETS: usize = 32;

/// Histogram of durations in milliseconds, with buckets whose bounds double.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lag {
    /// Numbers of durations. Bucket `n` counts durations from 2ⁿ⁻¹ up to but excluding 2ⁿ
    /// milliseconds.
    buckets: [u64; BUCKETS],
    max_ms: u64,
    sum_ms: u64,
}

impl Lag {
    pub(crate) fn record(&mut self, ms: u64) {
        let bucket = (64 - ms.leading_zeros() as usize).min(BUCKETS - 1);
        self.buckets[bucket] += 1;
        self.max_ms = self.max_ms.max(ms);
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    pub(crate) fn add(&mut self, other: &Lag) {
        for (own, others) in self.buckets.iter_mut().zip(other.buckets) {
            *own += others;
        }
        self.max_ms = self.max_ms.max(other.max_ms);
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(crate) fn max_ms(&self) -> u64 {
        self.max_ms
    }

    /// Returns an upper bound on a quantile: the upper end of the bucket that contains it, and at
    /// most the maximum.
    pub(crate) fn quantile_ms(&self, share: f64) -> u64 {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return ((1u64 << bucket) - 1).min(self.max_ms);
            }
        }
        self.max_ms
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut lag = Lag::default();
        assert_eq!(lag.quantile_ms(0.5), 0);
        for ms in [0, 0, 0, 1, 3, 900, u64::MAX] {
            lag.record(ms);
        }
        assert_eq!(lag.quantile_ms(0.4), 0);
        assert_eq!(lag.quantile_ms(0.7), 3);
        assert_eq!(lag.quantile_ms(0.85), 1023);
        assert_eq!(lag.max_ms(), u64::MAX);
        assert_eq!(lag.count(), 7);
    }
}
