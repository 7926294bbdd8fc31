//! State of learning, shared between its thread and the rest of the server.

use learn::HeldOut;
use policy::Lessons;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::Tick;

/// How learning stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The eviction heeds nothing that is learned, or no time is given to learning.
    #[default]
    Off,
    /// There is no model that predicts anything: segments go by age.
    Untrained,
    /// Segments go by what was learned.
    Learned,
    /// They do, and that was long ago.
    Stale,
    /// A ranking is put off: segments go by age.
    Overloaded,
}

impl State {
    /// As INFO tells it.
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

/// What there is to tell of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How it stands.
    pub state: State,
    /// What it did.
    pub lessons: Lessons,
    /// When the last model was learned.
    pub learned_at: Option<Tick>,
    /// What that said of samples that it had not seen.
    pub held_out: Option<HeldOut>,
    /// Rankings that were wanted and not made at once, each counted once.
    pub rankings_put_off: u64,
    /// The same of trainings.
    pub trainings_put_off: u64,
    /// Processor time, and the time in which it was used.
    pub cpu: Duration,
    /// See `cpu`.
    pub span: Duration,
    /// Segments that had been evicted by rankings before all this.
    pub ranked_before: u64,
}

/// What the thread shares with the rest of the server.
#[derive(Debug, Default)]
pub struct Learning {
    report: Mutex<Report>,
    is_rung: Mutex<bool>,
    bell: Condvar,
}

impl Learning {
    /// What there is to tell.
    pub fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread.
    pub fn ring(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Sleeps until it is woken, or for so long.
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
