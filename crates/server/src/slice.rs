//! Time and steps of one slice of expiry, on either engine.

use std::time::Duration;

/// A slice between two looks at the sockets.
pub const SLICE: Duration = Duration::from_micros(200);
/// The longest slice, after a turn that served long.
const SLICE_MAX: Duration = Duration::from_millis(1);
/// So late, the cycle gets as much time as the requests.
const LATE_MS: u64 = 16;
/// One call's steps at the start; then so many that it takes between the two times below.
const STEPS_START: u32 = 256;
const STEPS_MIN: u32 = 16;
const STEPS_MAX: u32 = 8192;
const CALL_MICROS_LOW: u128 = 20;
const CALL_MICROS_HIGH: u128 = 60;

/// How long to work after a turn that served for so long, when the earliest of what is due is so late: a quarter of
/// the turn, and evenly more up to all of it.
pub(crate) fn slice(turn: Duration, late_ms: u64) -> Duration {
    let share = 0.25 + 0.75 * late_ms.min(LATE_MS) as f64 / LATE_MS as f64;
    turn.mul_f64(share).clamp(SLICE, SLICE_MAX)
}

/// How many steps one call gets, so that it takes a certain time.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) count: u32,
}

impl Default for Steps {
    fn default() -> Self {
        Steps { count: STEPS_START }
    }
}

impl Steps {
    /// Keeps a call's time between the two bounds.
    pub(crate) fn adapt(&mut self, micros: u128, is_cut: bool) {
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
        // A flood of SET … EX 1 left 600,000 dead keys in memory: a fifth of the time was too little for them.
        let turn = Duration::from_micros(900);
        assert_eq!(slice(turn, 0), turn / 4);
        assert_eq!(slice(turn, LATE_MS / 2), turn * 5 / 8);
        assert_eq!(slice(turn, LATE_MS), turn);
        assert_eq!(slice(turn, u64::MAX), turn);
        assert_eq!(slice(Duration::ZERO, u64::MAX), SLICE);
        assert_eq!(slice(Duration::from_secs(1), 0), SLICE_MAX);
    }
}
