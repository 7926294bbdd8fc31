//! State of an origin: while it does not answer, requests to it fail at once, except for probes.
//!
//! A failure is a request without a connection, or without a head in time while the origin answered
//! no other request either. Anything else is either an answer, such as an error, or may be the
//! fault of a single URL or client. After [`FAILURES_MAX`] failures in a row, the origin counts as
//! down, and one request in [`RETRY_MS`] is sent as a probe. A probe that neither fails nor
//! succeeds delays the next one by [`PROBE_MS`] at most, so that a single slow URL does not keep
//! the origin down. The first answer to any request ends this.
//!
//! Instants are milliseconds of the node's clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Number of failures in a row after which an origin counts as down.
const FAILURES_MAX: u32 = 3;
/// Time between the failure of a request and the next request, if the origin is down or a stale
/// response can be used meanwhile.
pub const RETRY_MS: u64 = 1_000;
/// Maximum time for which a probe without an outcome delays the next one.
const PROBE_MS: u64 = 5_000;
/// Minimum time between two lines about the failures of an origin.
const LOG_MS: u64 = 10_000;

/// State of an origin.
#[derive(Debug, Default)]
pub struct Circuit {
    /// Whether `state` differs from that of an origin that answers. It is read without the lock.
    is_doubtful: AtomicBool,
    /// Instant of the last answer.
    answered_ms: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of failures since the last answer.
    failures: u32,
    down: Option<Down>,
    /// Instant of the last line in the log, and the number of failures since then that have none.
    logged: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Down {
    since_ms: u64,
    /// Instant from which on the next probe may be sent.
    probe_ms: u64,
}

impl Circuit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns true if the last request failed or has taken too long, so that a stale response is
    /// preferred to waiting.
    pub fn is_doubtful(&self) -> bool {
        self.is_doubtful.load(Relaxed)
    }

    /// Returns the instant since which the origin counts as down.
    pub fn down_since_ms(&self) -> Option<u64> {
        self.state().down.map(|down| down.since_ms)
    }

    /// Returns true if a request may be sent. If the origin is down, the request is a probe.
    pub fn admit(&self, now_ms: u64) -> bool {
        if !self.is_doubtful() {
            return true;
        }
        match &mut self.state().down {
            None => true,
            Some(down) if now_ms < down.probe_ms => false,
            Some(down) => {
                down.probe_ms = now_ms.saturating_add(PROBE_MS);
                true
            }
        }
    }

    /// Notes that a request has waited for longer than stale responses are held back.
    pub fn doubt(&self) {
        self.is_doubtful.store(true, Relaxed);
    }

    /// Notes an answer. Returns the time in milliseconds for which the origin was down, if the
    /// answer ends that.
    pub fn answered(&self, now_ms: u64) -> Option<u64> {
        self.answered_ms.store(now_ms, Relaxed);
        if !self.is_doubtful() {
            return None;
        }
        let mut state = self.state();
        state.failures = 0;
        let down = state.down.take();
        self.is_doubtful.store(false, Relaxed);
        down.map(|down| now_ms.saturating_sub(down.since_ms))
    }

    /// Notes the failure of a request that was sent at `sent_ms`. Returns true if the origin counts
    /// as down from now on.
    pub fn failed(&self, sent_ms: u64, now_ms: u64) -> bool {
        if self.answered_ms.load(Relaxed) > sent_ms {
            return false;
        }
        let mut state = self.state();
        self.is_doubtful.store(true, Relaxed);
        state.failures = state.failures.saturating_add(1);
        if state.failures < FAILURES_MAX {
            return false;
        }
        let since_ms = state.down.map(|down| down.since_ms);
        state.down = Some(Down {
            since_ms: since_ms.unwrap_or(now_ms),
            probe_ms: now_ms.saturating_add(RETRY_MS),
        });
        since_ms.is_none()
    }

    /// Returns true if a line about a failure is due, with the number of failures since the last
    /// line.
    pub fn log(&self, now_ms: u64) -> Option<u64> {
        let mut state = self.state();
        match &mut state.logged {
            Some((last_ms, left_out)) if now_ms < last_ms.saturating_add(LOG_MS) => {
                *left_out += 1;
                None
            }
            logged => {
                let left_out = logged.map_or(0, |(_, left_out)| left_out);
                *logged = Some((now_ms, 0));
                Some(left_out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_origin_is_down_after_failures_in_a_row_until_it_answers() {
        let circuit = Circuit::default();
        for _ in 0..5 {
            // Answers in between keep it up.
            assert!(!circuit.failed(0, 0) && !circuit.failed(0, 0));
            assert!(circuit.is_doubtful() && circuit.admit(0));
            assert_eq!(circuit.answered(0), None);
            assert!(!circuit.is_doubtful());
        }
        for is_third in [false, false, true] {
            assert_eq!(circuit.failed(10, 10), is_third);
        }
        assert_eq!(circuit.down_since_ms(), Some(10));
        assert!(!circuit.admit(9 + RETRY_MS));
        assert_eq!(circuit.answered(500), Some(490));
        assert!(circuit.admit(500) && circuit.admit(500));
    }

    #[test]
    fn a_probe_without_an_outcome_delays_the_next_one_for_a_limited_time() {
        let circuit = Circuit::default();
        (0..3).for_each(|_| _ = circuit.failed(0, 0));
        assert!(circuit.admit(RETRY_MS) && !circuit.admit(RETRY_MS));
        assert!(!circuit.admit(RETRY_MS + PROBE_MS - 1));
        assert!(circuit.admit(RETRY_MS + PROBE_MS));
        // A failure of any request permits a probe after the usual time.
        assert!(!circuit.failed(0, RETRY_MS + PROBE_MS));
        assert!(circuit.admit(2 * RETRY_MS + PROBE_MS));
    }

    #[test]
    fn a_slow_url_of_an_origin_that_answers_otherwise_is_no_failure() {
        let circuit = Circuit::default();
        for now_ms in 1..10 {
            assert_eq!(circuit.answered(now_ms), None);
            assert!(!circuit.failed(now_ms - 1, now_ms));
        }
        assert!(!circuit.is_doubtful());
    }

    #[test]
    fn failures_are_logged_once_in_ten_seconds_with_the_number_of_the_others() {
        let circuit = Circuit::default();
        assert_eq!(circuit.log(0), Some(0));
        assert_eq!((circuit.log(1), circuit.log(LOG_MS - 1)), (None, None));
        assert_eq!(circuit.log(LOG_MS), Some(2));
        assert_eq!(circuit.log(2 * LOG_MS), Some(0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Wait(u64),
        Request,
        Fail,
        Answer,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0_u64..3_000).prop_map(Step::Wait),
            Just(Step::Request),
            Just(Step::Request),
            Just(Step::Fail),
            Just(Step::Fail),
            Just(Step::Answer),
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn random_outcomes_give_what_the_plainest_model_gives(steps in steps()) {
            let circuit = Circuit::default();
            let mut now_ms = 0;
            // Outcomes so far, newest last, and the admitted requests while the origin was down.
            let mut outcomes: Vec<(u64, bool)> = vec![];
            let mut probes: Vec<u64> = vec![];
            for step in steps {
                let last = outcomes.iter().rev().take_while(|(_, is_answer)| !is_answer);
                let failures: Vec<u64> = last.map(|(at_ms, _)| *at_ms).collect();
                let is_down = failures.len() >= FAILURES_MAX as usize;
                match step {
                    Step::Wait(ms) => now_ms += ms,
                    Step::Request => {
                        let is_after = |begin: u64, wait: u64| now_ms >= begin + wait;
                        let admitted = !is_down || {
                            let probe = probes.last().filter(|probe| **probe >= failures[0]);
                            match probe {
                                Some(probe) => is_after(*probe, PROBE_MS),
                                None => is_after(failures[0], RETRY_MS),
                            }
                        };
                        prop_assert_eq!(circuit.admit(now_ms), admitted);
                        if is_down && admitted {
                            probes.push(now_ms);
                        }
                    }
                    Step::Fail => {
                        let opens = failures.len() + 1 == FAILURES_MAX as usize;
                        prop_assert_eq!(circuit.failed(now_ms, now_ms), opens);
                        outcomes.push((now_ms, false));
                        probes.clear();
                    }
                    Step::Answer => {
                        prop_assert_eq!(circuit.answered(now_ms).is_some(), is_down);
                        outcomes.push((now_ms, true));
                        probes.clear();
                    }
                }
            }
        }
    }
}
