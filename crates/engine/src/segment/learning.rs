//! State of the model's training, shared between the learner thread and the rest of the server.

use learn::{HeldOut, LearningStats};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::Tick;

/// State of the ranking model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// `segment-eviction` does not use a model, or `learn-cpu` is 0.
    #[default]
    Off,
    /// There is no valid model yet. Segments are evicted by age.
    Untrained,
    /// Segments are evicted by the model's ranking.
    Learned,
    /// Segments are evicted by the ranking of an old model.
    Stale,
    /// A ranking was postponed because of load. Segments are evicted by age.
    Overloaded,
}

impl State {
    /// Returns the state's name in INFO.
    pub fn name(self) -> &'static str {
        match self {
            State::Off => "off",
            State::Untrained => "untrained",
            State::Learned => "learned",
            State::Stale => "stale",
            State::Overloaded => "overloaded",
        }
    }
}

/// Report from the learner.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// State of the model.
    pub state: State,
    /// Counters of training, ranking and sampling.
    pub learning_stats: LearningStats,
    /// Time at which the last model was trained.
    pub learned_at: Option<Tick>,
    /// Accuracy of the last model on held-out samples.
    pub held_out: Option<HeldOut>,
    /// Number of rankings that were postponed.
    pub rankings_postponed: u64,
    /// Number of trainings that were postponed.
    pub trainings_postponed: u64,
    /// CPU time used.
    pub cpu: Duration,
    /// Elapsed time during which `cpu` was used.
    pub span: Duration,
    /// Number of segments evicted by a ranking before the learner started.
    pub ranked_before: u64,
}

/// State shared between the learner thread and the rest of the server.
#[derive(Debug, Default)]
pub struct Learning {
    report: Mutex<Report>,
    is_rung: Mutex<bool>,
    bell: Condvar,
}

impl Learning {
    /// Locks and returns the latest report.
    pub fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the learner thread.
    pub fn ring(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Sleeps until woken, but at most for `time`.
    pub fn sleep(&self, time: Option<Duration>) {
        let is_rung = self.is_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_rung = match time {
            Some(time) => {
                let woken = self.bell.wait_timeout_while(is_rung, time, |rung| !*rung);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let woken = self.bell.wait_while(is_rung, |rung| !*rung);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
        };
        *is_rung = false;
    }
}
