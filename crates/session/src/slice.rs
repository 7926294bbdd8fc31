//! Duration and number of steps of an expiry slice, for both engines.

use std::time::Duration;

/// Duration of a slice at low load. The sockets are polled between two slices.
pub const SLICE: Duration = Duration::from_micros(200);
/// Maximum duration of a slice, after a long iteration of the event loop.
const SLICE_MAX: Duration = Duration::from_millis(1);
/// Lag in milliseconds at which expiry gets as much time as the requests.
const LATE_MS: u64 = 16;
/// Initial number of steps per call, and its bounds. The number is adapted so that a call takes
/// between the two durations below.
const STEPS_START: u32 = 256;
const STEPS_MIN: u32 = 16;
const STEPS_MAX: u32 = 8192;
const CALL_MICROS_LOW: u128 = 20;
const CALL_MICROS_HIGH: u128 = 60;

/// Returns the duration of the next slice. `turn` is the time that the preceding iteration spent on
/// requests; `late_ms` is the time since the earliest due deadline. The duration is between a
/// quarter of `turn` and all of it, and grows linearly with the lateness.
pub fn slice(turn: Duration, late_ms: u64) -> Duration {
    let share = 0.25 + 0.75 * late_ms.min(LATE_MS) as f64 / LATE_MS as f64;
    turn.mul_f64(share).clamp(SLICE, SLICE_MAX)
}

/// Number of steps per call, adapted to a target duration.
#[derive(Debug)]
pub struct Steps {
    /// Number of entries.
    pub count: u32,
}

impl Default for Steps {
    fn default() -> Self {
        Steps { count: STEPS_START }
    }
}

impl Steps {
    /// Adjusts the number of steps after a call that took `micros`. `is_cut` means that the call
    /// ended because the steps were used up.
    pub fn adapt(&mut self, micros: u128, is_cut: bool) {
        if micros > CALL_MICROS_HIGH {
            self.count = (self.count / 2).max(STEPS_MIN);
        } else if micros < CALL_MICROS_LOW && is_cut {
            self.count = (self.count * 2).min(STEPS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_cycle_gets_more_time() {
        // Regression: a stream of SET … EX 1 left 600,000 expired keys in memory, because a fifth
        // of the time was not enough.
        let turn = Duration::from_micros(900);
        assert_eq!(slice(turn, 0), turn / 4);
        assert_eq!(slice(turn, LATE_MS / 2), turn * 5 / 8);
        assert_eq!(slice(turn, LATE_MS), turn);
        assert_eq!(slice(turn, u64::MAX), turn);
        assert_eq!(slice(Duration::ZERO, u64::MAX), SLICE);
        assert_eq!(slice(Duration::from_secs(1), 0), SLICE_MAX);
    }
}
