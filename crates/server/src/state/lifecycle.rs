//! The run of the process: its identity, its start, restarts and its end.

use durability::restart::Restart;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// The run of the process: its identity, its start, restarts and its end.
pub struct Lifecycle {
    /// Random identifier of this run, 40 hexadecimal digits.
    pub run_id: String,
    /// Start time in microseconds since 1970.
    pub started_us: u64,
    /// Start time on the monotonic clock.
    pub started: Instant,
    /// Restarts for upgrades.
    pub restart: Restart,
    /// Whether a stop does not wait for replicas that lag (`SHUTDOWN NOW`).
    pub skips_replicas: AtomicBool,
    /// Whether the workers were requested to stop.
    stops: AtomicBool,
}

impl Lifecycle {
    /// Starts a run now.
    pub(super) fn new(run_id: String, now_us: u64) -> Lifecycle {
        Lifecycle {
            run_id,
            started_us: now_us,
            started: Instant::now(),
            restart: Restart::default(),
            skips_replicas: AtomicBool::new(false),
            stops: AtomicBool::new(false),
        }
    }

    /// Records the request to stop.
    pub(super) fn stop(&self) {
        self.stops.store(true, Relaxed);
    }

    /// Whether the workers were requested to stop.
    pub fn stops(&self) -> bool {
        self.stops.load(Relaxed)
    }
}
