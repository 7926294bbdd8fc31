//! Keys that cost the most time or bytes (HOTKEYS).
//!
//! Source: Ahmed Metwally, Divyakant Agrawal, Amr El Abbadi, "Efficient computation of frequent and
//! top-k elements in data streams", ICDT 2005 (Space-Saving). A summary has a fixed number of
//! counters. A key without a counter takes over the one with the least weight and adds to that
//! weight, so that a key's weight may be too high, but by no more than the least weight.
//!
//! A summary has ten counters per reported key, and a key has at most 4 KiB, so that a session
//! takes at most 5 MiB. One key costs a scan of at most 640 counters; of one command at most 256
//! keys are recorded. While no session runs, a command costs one read of an atomic flag.

use crate::spec::Keys;
use settings::process;
use settings::random::Random;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::Tick;
use wire::Args;

/// Maximum number of keys that a session reports per metric.
pub const REPORTED_MAX: usize = 64;
/// Number of counters per reported key. More counters make the weights more exact.
const COUNTERS_PER_KEY: usize = 10;
/// Maximum length of a recorded key in bytes. Longer ones are not recorded.
const KEY_BYTES_MAX: usize = 4096;
/// Maximum number of keys of one command that are recorded.
const KEYS_PER_COMMAND_MAX: usize = 256;

/// Options of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the time of commands is recorded.
    pub records_time: bool,
    /// Whether the bytes of commands and replies are recorded.
    pub records_bytes: bool,
    /// Number of keys to report per metric, at most [`REPORTED_MAX`].
    pub count: usize,
    /// Duration after which the session ends, in milliseconds.
    pub duration_ms: Option<u64>,
    /// One of this many commands is recorded, at random.
    pub sample_ratio: u64,
}

/// A key with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// Bytes of the key.
    pub key: Vec<u8>,
    /// Total cost of the key's commands.
    pub weight: u64,
}

/// Weights of the heaviest keys.
#[derive(Debug)]
struct Summary {
    counters: Vec<Weighted>,
    capacity: usize,
}

impl Summary {
    fn new(capacity: usize) -> Summary {
        assert!(capacity > 0);
        let counters = Vec::with_capacity(capacity);
        Summary { counters, capacity }
    }

    fn add(&mut self, key: &[u8], weight: u64) {
        if let Some(counter) = self.counters.iter_mut().find(|one| one.key == key) {
            counter.weight = counter.weight.saturating_add(weight);
        } else if self.counters.len() < self.capacity {
            let key = key.to_vec();
            self.counters.push(Weighted { key, weight });
        } else {
            let least = self.counters.iter_mut().min_by_key(|one| one.weight);
            let least = least.expect("the capacity is not 0");
            least.key.clear();
            least.key.extend_from_slice(key);
            least.weight = least.weight.saturating_add(weight);
        }
    }

    /// Returns the `count` heaviest keys, the heaviest first.
    fn heaviest(&self, count: usize) -> Vec<Weighted> {
        let mut all = self.counters.clone();
        all.retain(|one| one.weight > 0);
        all.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.key.cmp(&b.key)));
        all.truncate(count);
        all
    }
}

/// One session of recording.
#[derive(Debug)]
struct Session {
    options: Options,
    started: Tick,
    ended: Option<Tick>,
    cpu_seconds: (f64, f64),
    random: Random,
    nanos: u64,
    bytes: u64,
    recorded_bytes: u64,
    by_nanos: Summary,
    by_bytes: Summary,
}

impl Session {
    fn end(&self) -> Option<Tick> {
        let limit = self.options.duration_ms.map(|ms| Tick(self.started.0 + ms));
        self.ended.or(limit)
    }
}

/// Results of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Options of the session.
    pub options: Options,
    /// Whether the session still records.
    pub is_active: bool,
    /// Time at which the session began.
    pub started: Tick,
    /// Duration of the session in milliseconds.
    pub duration_ms: u64,
    /// Time of all commands with keys, in microseconds.
    pub micros: u64,
    /// Bytes of all commands with keys and of their replies.
    pub bytes: u64,
    /// Bytes of the recorded commands and of their replies.
    pub recorded_bytes: u64,
    /// CPU time of the process since the session began, user and system, in milliseconds.
    pub cpu_ms: (u64, u64),
    /// Keys by the time of their commands, in microseconds.
    pub by_micros: Vec<Weighted>,
    /// Keys by the bytes of their commands and replies.
    pub by_bytes: Vec<Weighted>,
}

/// The recording session, of which there is at most one.
#[derive(Debug, Default)]
pub struct HotKeys {
    is_on: AtomicBool,
    session: Mutex<Option<Session>>,
}

impl HotKeys {
    /// Whether commands are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session and forgets the previous one. Returns false if one is active.
    pub fn start(&self, options: Options, now: Tick) -> bool {
        let mut session = self.session();
        if self.end_in_time(&mut session, now) {
            return false;
        }
        let capacity = options.count.clamp(1, REPORTED_MAX) * COUNTERS_PER_KEY;
        *session = Some(Session {
            options,
            started: now,
            ended: None,
            cpu_seconds: process::cpu_seconds(),
            random: Random::new(),
            nanos: 0,
            bytes: 0,
            recorded_bytes: 0,
            by_nanos: Summary::new(capacity),
            by_bytes: Summary::new(capacity),
        });
        self.is_on.store(true, Relaxed);
        true
    }

    /// Ends the session. Returns false if none is active.
    pub fn stop(&self, now: Tick) -> bool {
        let mut session = self.session();
        let is_active = self.end_in_time(&mut session, now);
        if let Some(session) = session.as_mut().filter(|_| is_active) {
            session.ended = Some(now);
        }
        self.is_on.store(false, Relaxed);
        is_active
    }

    /// Forgets the results. Returns false if a session is active.
    pub fn reset(&self, now: Tick) -> bool {
        let mut session = self.session();
        let is_active = self.end_in_time(&mut session, now);
        if !is_active {
            *session = None;
        }
        !is_active
    }

    /// Ends a session whose duration has passed. Returns whether a session is active afterwards.
    fn end_in_time(&self, session: &mut Option<Session>, now: Tick) -> bool {
        let end = session.as_ref().map(Session::end);
        let is_active = match end {
            None => false,
            Some(end) => self.is_on() && end.is_none_or(|end| now < end),
        };
        if let Some(session) = session.as_mut().filter(|_| !is_active) {
            session.ended = session.end();
        }
        self.is_on.store(is_active, Relaxed);
        is_active
    }

    /// Records the cost of a command, in equal parts for each of its keys.
    pub fn record(&self, keys: Keys, args: Args<'_>, nanos: u64, bytes: u64, now: Tick) {
        let mut count = 0;
        keys.each(args, |_| count += 1);
        if count == 0 {
            return;
        }
        let mut session = self.session();
        if !self.end_in_time(&mut session, now) {
            return;
        }
        let Some(session) = session.as_mut() else {
            return;
        };
        session.nanos += nanos;
        session.bytes += bytes;
        let ratio = session.options.sample_ratio;
        if ratio > 1 && !session.random.next_u64().is_multiple_of(ratio) {
            return;
        }
        session.recorded_bytes += bytes;
        let mut left = KEYS_PER_COMMAND_MAX;
        keys.each(args, |index| {
            let Some(key) = args.get(index).filter(|key| key.len() <= KEY_BYTES_MAX) else {
                return;
            };
            if left == 0 {
                return;
            }
            left -= 1;
            if session.options.records_time {
                session.by_nanos.add(key, nanos / count);
            }
            if session.options.records_bytes {
                session.by_bytes.add(key, bytes / count);
            }
        });
    }

    /// Returns the results of the current or last session; `None` if there was none since the last
    /// reset.
    pub fn results(&self, now: Tick) -> Option<Results> {
        let mut session = self.session();
        let is_active = self.end_in_time(&mut session, now);
        let session = session.as_ref()?;
        let end = session.ended.unwrap_or(now);
        let (user, system) = process::cpu_seconds();
        let ms = |now: f64, before: f64| ((now - before) * 1000.0).max(0.0) as u64;
        let mut by_micros = session.by_nanos.heaviest(session.options.count);
        by_micros.iter_mut().for_each(|one| one.weight /= 1000);
        Some(Results {
            options: session.options,
            is_active,
            started: session.started,
            duration_ms: end.0.saturating_sub(session.started.0),
            micros: session.nanos / 1000,
            bytes: session.bytes,
            recorded_bytes: session.recorded_bytes,
            cpu_ms: (
                ms(user, session.cpu_seconds.0),
                ms(system, session.cpu_seconds.1),
            ),
            by_micros,
            by_bytes: session.by_bytes.heaviest(session.options.count),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn a_weight_is_too_high_by_at_most_the_least_weight(
            adds in prop::collection::vec((0u8..40, 1u64..100), 0..400),
        ) {
            let mut summary = Summary::new(20);
            let mut model: HashMap<u8, u64> = HashMap::new();
            for (key, weight) in adds {
                summary.add(&[key], weight);
                *model.entry(key).or_default() += weight;
            }
            let least = match summary.counters.len() {
                20 => summary.counters.iter().map(|one| one.weight).min().unwrap_or(0),
                _ => 0,
            };
            for one in &summary.counters {
                let exact = model.remove(&one.key[0]).expect("the key was added");
                prop_assert!((exact..=exact + least).contains(&one.weight));
            }
            prop_assert!(model.values().all(|exact| *exact <= least));
        }
    }

    #[test]
    fn a_session_ends_after_its_duration() {
        let all = HotKeys::default();
        let options = Options {
            records_time: true,
            records_bytes: false,
            count: 10,
            duration_ms: Some(1000),
            sample_ratio: 1,
        };
        assert!(all.results(Tick(0)).is_none());
        assert!(all.start(options, Tick(5000)));
        assert!(!all.start(options, Tick(5999)));
        assert!(!all.reset(Tick(5999)));
        let results = all.results(Tick(9000)).expect("a session");
        assert_eq!((results.is_active, results.duration_ms), (false, 1000));
        assert!(!all.is_on());
        assert!(!all.stop(Tick(9000)));
        assert!(all.reset(Tick(9000)));
        assert!(all.results(Tick(9000)).is_none());
    }
}
