//! Bounds on lines of the log that clients cause, so that no client can fill the log.

use crate::clock::Moment;
use log::Level;
use std::fmt::Arguments;
use std::sync::Mutex;

/// Length of a period in milliseconds.
pub const PERIOD_MS: u64 = 60_000;
/// Maximum number of lines of one kind in a period.
pub const LINES_MAX: u32 = 60;

/// Events of one kind: those logged in the current period, and those not logged since the last
/// line.
#[derive(Debug, Default)]
pub struct Lines {
    /// Start of the current period.
    since: Moment,
    lines: u32,
    skipped: u64,
}

impl Lines {
    /// Counts an event. If the event should be logged, returns the number of events since the last
    /// logged one. It should be logged if `is_wanted` and the period has room.
    pub fn next(&mut self, is_wanted: bool, now: Moment) -> Option<u64> {
        if now.since(self.since) >= PERIOD_MS {
            (self.since, self.lines) = (now, 0);
        }
        if !is_wanted || self.lines >= LINES_MAX {
            self.skipped += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.skipped))
    }
}

/// Kind of an event. Events of one kind do not displace those of other kinds from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client sent an HTTP request to a port of another protocol.
    Http,
    /// A connection was refused by protected mode.
    Refused,
    /// A connection was closed, because it holds too much.
    Closed,
    /// The name in a client's certificate does not belong to an enabled user.
    Certificate,
    /// A TLS handshake failed.
    Handshake,
    /// A script called `redis.log`.
    Script,
}

/// Number of kinds.
const KINDS: usize = 6;

/// Lines about clients.
#[derive(Debug, Default)]
pub struct Notices([Mutex<Lines>; KINDS]);

impl Notices {
    /// Logs a warning about a client, unless there were many of this kind. The line names the
    /// number of those that were left out since the last one.
    pub fn warn(&self, kind: Kind, now: Moment, text: Arguments<'_>) {
        self.log(kind, Level::Warn, now, text);
    }

    /// Like [`Notices::warn`], with a level. A line that the log level suppresses is not counted.
    pub fn log(&self, kind: Kind, level: Level, now: Moment, text: Arguments<'_>) {
        if !log::log_enabled!(level) {
            return;
        }
        match self.next(kind, now) {
            None => {}
            Some(0) => log::log!(level, "{text}"),
            Some(skipped) => log::log!(
                level,
                "{text}; events like this that were not logged since the last one: {skipped}"
            ),
        }
    }

    fn next(&self, kind: Kind, now: Moment) -> Option<u64> {
        let lines = &self.0[kind as usize];
        let mut lines = lines.lock().expect("the lock is not poisoned");
        lines.next(true, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kind_are_bounded_in_a_period_and_those_left_out_are_counted() {
        let notices = Notices::default();
        let start = Moment(1_000_000);
        let log = |kind, moments: u64| notices.next(kind, Moment(start.0 + moments));
        for at in 0..u64::from(LINES_MAX) {
            assert_eq!(log(Kind::Http, at), Some(0), "{at}");
        }
        for at in 0..1000 {
            assert_eq!(log(Kind::Http, LINES_MAX.into()), None, "{at}");
        }
        assert_eq!(log(Kind::Certificate, 0), Some(0), "another kind");
        assert_eq!(log(Kind::Http, PERIOD_MS - 1), None);
        assert_eq!(log(Kind::Http, PERIOD_MS), Some(1001));
        assert_eq!(log(Kind::Http, PERIOD_MS), Some(0));
    }
}
