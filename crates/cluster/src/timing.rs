//! Times that guarantee that a fence ends before a campaign begins.

use std::fmt;

/// Reciprocal of the maximum deviation of a clock's rate from real time (1 %).
const DRIFT_PART: u64 = 100;

/// Instant in milliseconds on a server's own monotonic clock, which counts suspended time. Instants
/// of different servers are never compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Returns the instant a number of milliseconds later.
    #[must_use]
    pub fn after(self, ms: u64) -> Instant {
        Instant(self.0.saturating_add(ms))
    }
}

/// Lease time of primaries, and the times derived from it.
///
/// A fence lasts `lease - margin` by the clock of the primary, and a campaign waits for
/// `1.01 lease + margin` by the clock of the replica. If each clock's rate is within 1 % of real
/// time, the fence ends after at most `(lease - margin) / 0.99`, and the wait after at least
/// `(1.01 lease + margin) / 1.01`. The second is longer if `margin > lease / 198`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    lease_ms: u64,
    margin_ms: u64,
}

/// Reason why a lease and a margin cannot be used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingError {
    /// The margin does not cover the drift of two clocks.
    MarginTooShort,
    /// The margin leaves less than half of the lease for the fence.
    MarginTooLong,
}

impl fmt::Display for TimingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TimingError::MarginTooShort => "margin: expected at least a hundredth of the lease",
            TimingError::MarginTooLong => "margin: expected less than half of the lease",
        })
    }
}

impl std::error::Error for TimingError {}

impl Timing {
    /// Creates the times for a lease and a margin in milliseconds.
    ///
    /// # Errors
    /// The margin is below a hundredth of the lease, or is at least half of it.
    pub fn new(lease_ms: u64, margin_ms: u64) -> Result<Timing, TimingError> {
        if margin_ms == 0 || margin_ms < lease_ms.div_ceil(DRIFT_PART) {
            return Err(TimingError::MarginTooShort);
        }
        if margin_ms.saturating_mul(2) >= lease_ms {
            return Err(TimingError::MarginTooLong);
        }
        Ok(Timing {
            lease_ms,
            margin_ms,
        })
    }

    /// Interval between two beats, in milliseconds.
    pub fn beat_ms(self) -> u64 {
        (self.lease_ms / 3).max(1)
    }

    /// Time in milliseconds from sending a beat to the end of the fence.
    pub fn fence_ms(self) -> u64 {
        self.lease_ms - self.margin_ms
    }

    /// Time in milliseconds from the arrival of the last beat to a campaign.
    pub fn silence_ms(self) -> u64 {
        self.lease_ms + self.lease_ms.div_ceil(DRIFT_PART) + self.margin_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_ends_before_a_campaign_whatever_the_clocks_do() {
        for lease in [10, 100, 999, 3_000, 60_000] {
            for margin in 1..lease {
                let Ok(timing) = Timing::new(lease, margin) else {
                    continue;
                };
                // The primary's clock is slow, and the replica's is fast.
                let fence = timing.fence_ms() as f64 / 0.99;
                let silence = timing.silence_ms() as f64 / 1.01;
                assert!(fence < silence, "lease {lease}, margin {margin}");
            }
        }
    }

    #[test]
    fn a_margin_that_does_not_fit_is_refused() {
        assert_eq!(Timing::new(3_000, 29), Err(TimingError::MarginTooShort));
        assert_eq!(Timing::new(0, 0), Err(TimingError::MarginTooShort));
        assert_eq!(Timing::new(3_000, 1_500), Err(TimingError::MarginTooLong));
    }
}
