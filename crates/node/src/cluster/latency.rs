//! Times in which other nodes answer: when a request to a node is late, and which nodes are too
//! slow to be used.
//!
//! # Idea
//! Only answers that need no origin are measured: probes, chunks, heads, and responses from a
//! store.
//!
//! A request is late if the node has not answered after the 95th percentile of its own times,
//! within [`DELAY_MIN`] and [`DELAY_MAX`]. The times of a node are counted in buckets whose bounds
//! double. All counts are halved after [`COUNT_MAX`] answers, so that older answers matter less.
//!
//! A node that does not answer for seconds again and again never fails several requests in a row.
//! It is therefore slow if [`BAD_SLOTS`] of its last [`SLOTS`] slots of [`SLOT`] had an answer that
//! took more than [`BAD_MIN`], and also more than [`BAD_FACTOR`] times the usual time of the
//! cluster. The usual time is the median of the 95th percentiles of all other nodes. If all of them
//! are slow, for instance because this machine is overloaded, none is taken out for it. With a
//! single other node, there is no usual time, and the node is never slow.
//!
//! A slow node receives probes alone. After [`GOOD_PROBES`] good ones in a row it is used again.
//! This number doubles with each time that the node has become slow within [`FORGET`], up to
//! [`GOOD_PROBES_MAX`].
//!
//! Time is an argument: the time since any instant.

use edge::ServerId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Upper bound of the first bucket in microseconds.
const FIRST_US: u64 = 250;
/// Number of buckets. The last one has all longer times.
const BUCKETS: usize = 16;
/// Number of counted answers after which all counts are halved.
const COUNT_MAX: u32 = 1_024;
/// Minimum number of counted answers from which the delay is learned.
const COUNT_MIN: u32 = 16;
/// Minimum time after which a request is late.
const DELAY_MIN: Duration = Duration::from_millis(5);
/// Maximum time after which a request is late, and the time while too few answers were counted.
const DELAY_MAX: Duration = Duration::from_millis(100);
/// Minimum time of a bad answer.
pub const BAD_MIN: Duration = Duration::from_millis(400);
/// Minimum time of a bad answer as a multiple of the usual time.
const BAD_FACTOR: u32 = 2;
/// Length of a slot.
const SLOT: Duration = Duration::from_millis(500);
/// Number of slots that are remembered.
const SLOTS: u64 = 10;
/// Number of bad slots of a slow node.
const BAD_SLOTS: u32 = 3;
/// Minimum number of good probes in a row after which a slow node is used again.
const GOOD_PROBES: u32 = 8;
/// Maximum of that number.
const GOOD_PROBES_MAX: u32 = 64;
/// Time after which an earlier state as a slow node is forgotten.
const FORGET: Duration = Duration::from_secs(600);

/// Times of other nodes.
#[derive(Clone, Debug, Default)]
pub struct Latencies(BTreeMap<ServerId, Times>);

/// Times of a node.
#[derive(Clone, Debug, Default)]
struct Times {
    counts: [u32; BUCKETS],
    /// Number of the newest slot.
    slot: u64,
    /// Bad slots, one bit each. The lowest bit is the newest slot.
    bad: u64,
    /// Number of good probes that are missing until the node is used again; 0 if it is used.
    missing: u32,
    /// Number of good probes that the node needed when it was last slow.
    needed: u32,
    /// Time at which the node was last slow.
    slow_at: Option<Duration>,
}

impl Times {
    fn count(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = (0..BUCKETS - 1).find(|bucket| us <= FIRST_US << bucket);
        self.counts[bucket.unwrap_or(BUCKETS - 1)] += 1;
        if self.counts.iter().sum::<u32>() >= COUNT_MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Returns the upper bound of the bucket with a percentile; `None` with too few answers.
    fn percentile(&self, percent: u32) -> Option<Duration> {
        let sum: u32 = self.counts.iter().sum();
        if sum < COUNT_MIN {
            return None;
        }
        let wanted = (sum * percent).div_ceil(100);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        Some(Duration::from_micros(FIRST_US << bucket?))
    }

    /// Notes a bad answer. Returns true if the node becomes slow by it.
    fn note_bad(&mut self, now: Duration) -> bool {
        self.advance(now);
        self.bad |= 1;
        if self.missing > 0 {
            self.missing = self.needed;
            self.slow_at = Some(now);
            return false;
        }
        let recent = self.bad & ((1 << SLOTS) - 1);
        if recent.count_ones() < BAD_SLOTS {
            return false;
        }
        let is_remembered = self
            .slow_at
            .is_some_and(|at| now.saturating_sub(at) < FORGET);
        self.needed = match is_remembered {
            true => (2 * self.needed).min(GOOD_PROBES_MAX),
            false => GOOD_PROBES,
        };
        self.missing = self.needed;
        self.slow_at = Some(now);
        true
    }

    fn advance(&mut self, now: Duration) {
        let slot = (now.as_millis() / SLOT.as_millis()) as u64;
        let passed = slot.saturating_sub(self.slot);
        self.bad = match u32::try_from(passed) {
            Ok(passed) => self.bad.checked_shl(passed).unwrap_or(0),
            Err(_) => 0,
        };
        self.slot = slot.max(self.slot);
    }

    /// Notes a good probe. Returns true if the node is used again.
    fn note_good_probe(&mut self) -> bool {
        if self.missing == 0 {
            return false;
        }
        self.missing -= 1;
        if self.missing > 0 {
            return false;
        }
        self.bad = 0;
        true
    }
}

impl Latencies {
    /// Notes the time of an answer that needed no origin. Returns true if the set of slow nodes has
    /// changed.
    pub fn answered(
        &mut self,
        server: ServerId,
        now: Duration,
        time: Duration,
        is_probe: bool,
    ) -> bool {
        let is_bad = self.bad_time().is_some_and(|bad| time > bad);
        let times = self.0.entry(server).or_default();
        times.count(time);
        match is_bad {
            true => times.note_bad(now),
            false => is_probe && times.note_good_probe(),
        }
    }

    /// Notes that a node has not answered in time. Returns true if the set of slow nodes has
    /// changed.
    pub fn late(&mut self, server: ServerId, now: Duration) -> bool {
        self.0.entry(server).or_default().note_bad(now)
    }

    /// Returns the time after which a request to a node is late.
    pub fn delay(&self, server: ServerId) -> Duration {
        let times = self.0.get(&server);
        let delay = times.and_then(|times| times.percentile(95));
        delay.map_or(DELAY_MAX, |delay| delay.clamp(DELAY_MIN, DELAY_MAX))
    }

    /// Returns the time after which an answer is bad; `None` while the times of fewer than two
    /// nodes or of less than half of them are known.
    pub fn bad_time(&self) -> Option<Duration> {
        let known = self.0.values().filter_map(|times| times.percentile(95));
        let mut known: Vec<Duration> = known.collect();
        if known.len() < 2 || 2 * known.len() < self.0.len() {
            return None;
        }
        known.sort_unstable();
        let usual = known[(known.len() - 1) / 2];
        Some((BAD_FACTOR * usual).max(BAD_MIN))
    }

    /// Returns the nodes that are slow.
    pub fn slow(&self) -> BTreeSet<ServerId> {
        let is_slow = |(_, times): &(&ServerId, &Times)| times.missing > 0;
        self.0.iter().filter(is_slow).map(|(id, _)| *id).collect()
    }

    /// Drops the times of nodes that no longer exist.
    pub fn retain(&mut self, is_there: impl Fn(ServerId) -> bool) {
        self.0.retain(|server, _| is_there(*server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SICK: ServerId = ServerId(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns the time that a request takes at an instant, in milliseconds, on a node that runs
    /// only the first 100 ms of each second.
    fn stuttering(at: u64) -> u64 {
        match at % 1_000 {
            0..100 => 1,
            late => 1_001 - late,
        }
    }

    /// Answers requests for a time from `from`, every 20 ms and of three nodes in turn. Returns the
    /// time at which the set of slow nodes changed.
    fn load(
        latencies: &mut Latencies,
        from: u64,
        until: u64,
        time: impl Fn(ServerId, u64) -> u64,
    ) -> Option<u64> {
        let mut answers: Vec<(u64, ServerId, u64, bool)> = (from..until)
            .step_by(20)
            .map(|at| {
                let server = ServerId(1 + (at / 20 % 3) as u32);
                let time = time(server, at);
                // Each node gets a probe twice a second.
                (at + time, server, time, at % 500 < 60)
            })
            .collect();
        answers.sort_unstable();
        let mut changed = None;
        for (at, server, time, is_probe) in answers {
            if latencies.answered(server, ms(at), ms(time), is_probe) {
                changed = changed.or(Some(at));
            }
        }
        changed
    }

    #[test]
    fn the_delay_is_the_95th_percentile_of_the_answers_of_a_node() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.delay(SICK), DELAY_MAX);
        for number in 0..10_000_u64 {
            let time = if number % 25 == 0 {
                3_000
            } else {
                10 + number % 20
            };
            latencies.answered(SICK, ms(number), ms(time), false);
            latencies.answered(ServerId(1), ms(number), Duration::from_micros(300), false);
        }
        assert_eq!(latencies.delay(SICK), ms(32));
        assert_eq!(latencies.delay(ServerId(1)), DELAY_MIN);
    }

    #[test]
    fn a_node_that_stutters_is_slow_within_seconds_and_used_again_after_good_probes() {
        let mut latencies = Latencies::default();
        let healthy = |_, _| 2;
        assert_eq!(load(&mut latencies, 0, 5_000, healthy), None);
        let sick = |server, at| if server == SICK { stuttering(at) } else { 2 };
        let slow = load(&mut latencies, 5_000, 10_000, sick);
        // The third stall is the one that counts.
        assert_eq!(slow, Some(8_001));
        assert_eq!(latencies.slow(), BTreeSet::from([SICK]));
        let mut at = 20_000;
        for needed in [GOOD_PROBES, 2 * GOOD_PROBES, 4 * GOOD_PROBES] {
            for probe in 1..=needed {
                at += 500;
                assert!(!latencies.slow().is_empty());
                let changed = latencies.answered(SICK, ms(at), ms(2), true);
                assert_eq!(changed, probe == needed);
            }
            assert!(latencies.slow().is_empty());
            // It stutters again.
            for _ in 0..3 {
                at += 500;
                latencies.answered(SICK, ms(at), ms(900), false);
            }
            assert_eq!(latencies.slow(), BTreeSet::from([SICK]));
        }
    }

    #[test]
    fn a_single_pause_makes_no_node_slow() {
        let mut latencies = Latencies::default();
        load(&mut latencies, 0, 5_000, |_, _| 2);
        let pause = |server, at: u64| match (server, at) {
            (SICK, 5_000..5_900) => 5_901 - at,
            _ => 2,
        };
        assert_eq!(load(&mut latencies, 5_000, 12_000, pause), None);
    }

    #[test]
    fn no_node_is_slow_if_all_are() {
        let mut latencies = Latencies::default();
        let all = |server: ServerId, at| 200 + 50 * u64::from(server.0) + at % 7;
        assert_eq!(load(&mut latencies, 0, 30_000, all), None);
    }
}
