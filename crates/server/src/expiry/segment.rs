//! Expiry of the segment engine: frees expired segments in time slices between requests.
//!
//! The first worker sleeps until the earliest segment expires; other running workers then help.
//! Every 100 ms each worker runs one round for evictions that its own writes may have started.

use crate::state::{Data, Server};
use segment::Budget;
use session::slice::{Steps, slice};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::Tick;

/// Expiry of one worker.
#[derive(Debug)]
pub struct Cycle {
    worker: usize,
    steps: Steps,
    /// Whether one round was requested even if nothing is due.
    is_asked: bool,
}

impl Cycle {
    /// Creates the state of a worker.
    pub fn new(worker: usize) -> Cycle {
        Cycle {
            worker,
            steps: Steps::default(),
            is_asked: false,
        }
    }

    /// Returns the earliest time at which this worker has something to free.
    pub fn earliest(&self, data: &Data) -> Option<Tick> {
        let segments = data.segments.as_ref()?;
        match self.worker {
            0 => segments.cache.next_due(),
            _ => None,
        }
    }

    /// Requests one round even if nothing is due.
    pub fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Frees expired segments for one time slice. `turn` is the duration of the preceding iteration
    /// of the event loop; a longer iteration allows a longer slice. Returns whether more is due.
    pub fn run(&mut self, server: &Server, turn: Duration) -> bool {
        let Some(segments) = &server.data.segments else {
            return false;
        };
        let due = segments.cache.next_due();
        let now = server.clock.now();
        if due.is_none_or(|due| due > now) && !self.is_asked {
            return false;
        }
        let start = Instant::now();
        // Flushed segments are due at once and do not count as late.
        let due = due.filter(|due| due.0 > 0);
        let late_ms = due.map_or(0, |due| now.0.saturating_sub(due.0));
        let limit = slice(turn, late_ms);
        let mut writer = segments.writer(self.worker);
        loop {
            let before = Instant::now();
            let mut budget = Budget(self.steps.count);
            let now = server.clock.now();
            self.is_asked = segments.cache.maintain(&mut writer, now, &mut budget);
            self.steps
                .adapt(before.elapsed().as_micros(), self.is_asked);
            if !self.is_asked || start.elapsed() >= limit {
                break;
            }
        }
        drop(writer);
        let stats = &server.observability.stats.workers[self.worker];
        let expired = segments.newly_expired();
        if let Some(due) = due.filter(|_| expired > 0) {
            // A segment is due a millisecond after its deadline.
            let deadline_us = due.0.saturating_sub(1).saturating_mul(1000);
            let lag_us = server.clock.now_us().saturating_sub(deadline_us);
            stats.expiry_lag_us.record(lag_us, 1);
        }
        let micros = start.elapsed().as_micros() as u64;
        stats.expired_keys.fetch_add(expired, Relaxed);
        stats.expiry_micros.fetch_add(micros, Relaxed);
        stats.expiry_slice_us_max.fetch_max(micros, Relaxed);
        self.is_asked
    }
}
