//! Schedule of a group model's trainings, and of the samples that each training may use.

use policy::Tick;

pub(crate) const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Number of days that the clock must run before [`Interval::Auto`] trains daily.
const DAYS_BEFORE_DAILY: u64 = 3;
/// Number of requests per held entry between two trainings of [`Interval::Auto`], until it trains
/// daily. In about this time, all entries are replaced once.
const REQUESTS_PER_ENTRY: u64 = 8;
/// Divisor of the interval, which gives the minimum age of a usable sample.
const MATURE: u64 = 4;

/// Interval between two trainings of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interval {
    /// After a number of requests at first, and daily once the clock has run for some days.
    #[default]
    Auto,
    /// Once per day of the clock.
    Daily,
    /// After this number of requests per held entry.
    Requests(u32),
}

/// Schedule that decides when a model is trained.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    interval: Interval,
    began_at: Tick,
    /// Time and request count of the last training, or of the start.
    trained_at: (Tick, u64),
}

impl Schedule {
    /// Creates a schedule that has not begun.
    pub fn new(interval: Interval) -> Schedule {
        Schedule {
            interval,
            ..Schedule::default()
        }
    }

    /// Begins the first interval.
    pub fn begin(&mut self, now: Tick, requests: u64) {
        self.began_at = now;
        self.trained_at = (now, requests);
    }

    /// Records a training, successful or not.
    pub fn trained(&mut self, now: Tick, requests: u64) {
        self.trained_at = (now, requests);
    }

    /// Returns true if a training is due in a cache that holds `held` entries.
    pub fn is_due(&mut self, now: Tick, requests: u64, held: u64) -> bool {
        if now < self.trained_at.0 {
            self.trained_at.0 = now; // The clock went back: the day begins again.
        }
        let since = requests.saturating_sub(self.trained_at.1);
        let by_requests = |each: u64| since >= each.saturating_mul(held);
        let daily = now.0 - self.trained_at.0.0 >= DAY_MS;
        match self.interval {
            Interval::Daily => daily,
            Interval::Requests(each) => by_requests(u64::from(each)),
            Interval::Auto
                if now.0.saturating_sub(self.began_at.0) < DAYS_BEFORE_DAILY * DAY_MS =>
            {
                by_requests(REQUESTS_PER_ENTRY)
            }
            Interval::Auto => daily,
        }
    }

    /// Returns the request number before which samples are old enough to be used.
    pub fn mature_request(&self, requests: u64) -> u64 {
        requests - requests.saturating_sub(self.trained_at.1) / MATURE
    }

    /// Returns the time before which samples are old enough to be used.
    pub fn mature_time(&self, now: Tick) -> Tick {
        Tick(now.0 - now.0.saturating_sub(self.trained_at.0.0) / MATURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_jump_of_the_clock_a_new_day_begins() {
        let mut schedule = Schedule::new(Interval::Daily);
        schedule.begin(Tick(10 * DAY_MS), 0);
        assert!(!schedule.is_due(Tick(11 * DAY_MS - 1), 5, 1));
        assert!(schedule.is_due(Tick(11 * DAY_MS), 5, 1));
        assert!(!schedule.is_due(Tick(3), 5, 1));
        assert!(!schedule.is_due(Tick(DAY_MS), 5, 1));
        assert!(schedule.is_due(Tick(DAY_MS + 3), 5, 1));
        assert!(schedule.is_due(Tick::MAX, 5, 1));
        assert_eq!(schedule.mature_time(Tick(0)), Tick(0));
    }

    #[test]
    fn requests_count_until_the_clock_has_run_for_days() {
        let mut schedule = Schedule::new(Interval::Auto);
        schedule.begin(Tick(5), 100);
        assert!(!schedule.is_due(Tick(5), 179, 10));
        assert!(schedule.is_due(Tick(5), 180, 10));
        assert_eq!(schedule.mature_request(180), 160);
        let later = Tick(5 + 3 * DAY_MS);
        schedule.trained(later, 200);
        assert!(!schedule.is_due(later, 100_000, 10));
        assert!(schedule.is_due(Tick(later.0 + DAY_MS), 201, 10));
    }
}
