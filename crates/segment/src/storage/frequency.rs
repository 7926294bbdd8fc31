//! The approximate and smoothed frequency counter (ASFC) of the source: one byte for up to 2^16
//! requests.
//!
//! Below 16 each counted request adds one. From there on a request adds one with a probability of
//! one in the counter's value, as in a Morris counter. The caller counts a key at most once a
//! second, so that bursts do not count.

use policy::parts::chance::scramble;

/// Below this the counter is exact.
const EXACT_BELOW: u8 = 16;

/// Returns the counter after one more request; `None` if it does not change.
#[inline]
pub(crate) fn after_request(frequency: u8, random: u64) -> Option<u8> {
    let next = frequency.checked_add(1)?;
    if frequency < EXACT_BELOW {
        return Some(next);
    }
    let draw = (u128::from(random) * u128::from(frequency)) >> 64;
    (draw == 0).then_some(next)
}

/// Returns random bits for a key in a second, different for all keys and seconds.
#[inline]
pub(crate) fn draw(hash: u64, second: u64, seed: u64) -> u64 {
    scramble(hash ^ scramble(second ^ seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_counts_are_exact_and_large_ones_near() {
        let mut frequency = 0u8;
        let mut expected = 0.0;
        for request in 1..=20_000u64 {
            frequency = after_request(frequency, draw(1, request, 7)).unwrap_or(frequency);
            if request <= 16 {
                assert_eq!(u64::from(frequency), request);
            }
            if request == 16 {
                expected = 16.0;
            } else if request > 16 {
                expected += 1.0 / expected;
            }
        }
        // The mean of many draws must be within a fifth of the expected value.
        assert!(
            (f64::from(frequency) - expected).abs() < 0.2 * expected,
            "{frequency} {expected}"
        );
    }

    #[test]
    fn a_full_counter_stays() {
        assert_eq!(after_request(255, 0), None);
        assert_eq!(after_request(254, 0), Some(255));
        assert_eq!(after_request(254, u64::MAX), None);
    }
}
