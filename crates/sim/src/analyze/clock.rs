//! Time of a trace, made monotonic and free of long pauses.

use serde::Serialize;

/// Minimum length of a pause that is not part of the workload.
const PAUSE_MS_MIN: u64 = 24 * 3600 * 1000;
/// A pause is a jump if it is at least this many times as long as all time before it.
const PAUSE_FACTOR: u64 = 10;

/// Irregularities of a trace's timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeFaults {
    /// Requests with a timestamp before that of an earlier request; they count as simultaneous with
    /// it.
    pub backwards: u64,
    /// Pauses of more than a day that are ten times as long as all the time before them. Windows
    /// skip them.
    pub jumps: u64,
    /// Total milliseconds of these pauses.
    pub skipped_ms: u64,
}

/// A point in time of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Milliseconds since the first request, never decreasing.
    pub ms: u64,
    /// Milliseconds since the first request without jumps.
    pub active_ms: u64,
}

/// Clock that follows the timestamps of requests.
#[derive(Default)]
pub(crate) struct Clock {
    first_ms: Option<u64>,
    last: Moment,
    pub faults: TimeFaults,
}

impl Clock {
    /// Advances to the timestamp of a request.
    #[inline]
    pub fn advance(&mut self, time_ms: u64) -> Moment {
        let first = *self.first_ms.get_or_insert(time_ms);
        let Some(step) = time_ms
            .checked_sub(first)
            .and_then(|ms| ms.checked_sub(self.last.ms))
        else {
            self.faults.backwards += 1;
            return self.last;
        };
        self.last.ms += step;
        if step > PAUSE_MS_MIN && step / PAUSE_FACTOR > self.last.active_ms {
            self.faults.jumps += 1;
            self.faults.skipped_ms += step;
        } else {
            self.last.active_ms += step;
        }
        self.last
    }

    /// Time of the last request.
    pub fn now(&self) -> Moment {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut clock = Clock::default();
        let moments: Vec<u64> = [100, 150, 90, 140, 160].map(|t| clock.advance(t).ms).into();
        assert_eq!(moments, [0, 50, 50, 50, 60]);
        assert_eq!(clock.faults.backwards, 2);
    }

    #[test]
    fn a_jump_of_years_does_not_stretch_the_windows() {
        let mut clock = Clock::default();
        let year = 365 * 24 * 3600 * 1000;
        clock.advance(0);
        clock.advance(60_000);
        let after = clock.advance(10 * year);
        assert_eq!((after.ms, after.active_ms), (10 * year, 60_000));
        assert_eq!(clock.advance(10 * year + 5).active_ms, 60_005);
        assert_eq!((clock.faults.jumps, clock.faults.backwards), (1, 0));
    }

    #[test]
    fn the_largest_timestamp_is_accepted() {
        let mut clock = Clock::default();
        clock.advance(0);
        assert_eq!(clock.advance(u64::MAX).ms, u64::MAX);
        assert_eq!(clock.advance(u64::MAX).ms, u64::MAX);
    }
}
