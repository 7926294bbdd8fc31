//! Keys that expire one after the other, and the measurement of when they are removed.

use crate::client::Client;
use crate::clock;
use crate::contestant::Server;
use crate::error::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Deadlines of the first and the last probe, in milliseconds after the start.
const FIRST_DUE_MS: u64 = 1500;
pub(crate) const LAST_DUE_MS: u64 = 4500;
/// Number of the first probe's key.
const FIRST_KEY: u64 = 100_000_000_000;
const POLL_PAUSE: Duration = Duration::from_millis(2);

/// The probes of a measurement: their number and the start time.
#[derive(Clone, Copy)]
pub(crate) struct Probes {
    pub count: u64,
    pub start_ms: u64,
}

impl Probes {
    /// Returns the numbers of the probes' keys.
    pub(crate) fn keys(self) -> std::ops::Range<u64> {
        FIRST_KEY..FIRST_KEY + self.count
    }

    /// Returns the deadline of the probe with this key number.
    pub(crate) fn due_ms(self, key: u64) -> u64 {
        assert!(self.keys().contains(&key));
        let probe = key - FIRST_KEY;
        self.start_ms + FIRST_DUE_MS + probe * (LAST_DUE_MS - FIRST_DUE_MS) / self.count
    }

    /// Receives events until all have arrived or the time limit passes. Returns the lateness of
    /// each.
    pub(crate) fn collect(self, subscriber: &mut Client, give_up: Instant) -> Result<Vec<u64>> {
        let mut late_us = vec![None; self.count as usize];
        let mut arrived = 0;
        while arrived < self.count {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let Some(message) = subscriber.receive_within(left)? else {
                break;
            };
            let now_us = clock::wall_us();
            let parts = message.as_list().unwrap_or_default();
            let key = parts.get(2).and_then(|part| part.as_bytes());
            let number = key.and_then(|key| std::str::from_utf8(key.strip_prefix(b"key:")?).ok());
            let number: Option<u64> = number.and_then(|digits| digits.parse().ok());
            let Some(key) = number.filter(|key| self.keys().contains(key)) else {
                continue;
            };
            let late = &mut late_us[(key - FIRST_KEY) as usize];
            arrived += u64::from(late.is_none());
            late.get_or_insert(now_us.saturating_sub(self.due_ms(key) * 1000));
        }
        Ok(late_us.into_iter().flatten().collect())
    }
}

/// Polls how many of `total` keys are reclaimed. It ends when all events have arrived and all due
/// keys are reclaimed, or at the time limit. Returns the time and the count of each poll.
pub(crate) fn poll(
    server: &Server,
    total: u64,
    due_count: u64,
    is_over: &AtomicBool,
    give_up: Instant,
) -> Result<Vec<(u64, u64)>> {
    let mut client = server.client()?;
    let mut polls = Vec::new();
    while Instant::now() < give_up {
        let held = client.integer(&["DBSIZE"])?.max(0) as u64;
        let gone = total.saturating_sub(held);
        polls.push((clock::wall_us(), gone));
        if gone >= due_count && is_over.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(POLL_PAUSE);
    }
    Ok(polls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_due_one_after_the_other() {
        let probes = Probes {
            count: 3,
            start_ms: 10_000,
        };
        let due: Vec<u64> = probes.keys().map(|key| probes.due_ms(key)).collect();
        assert_eq!(due, [11_500, 12_500, 13_500]);
    }
}
