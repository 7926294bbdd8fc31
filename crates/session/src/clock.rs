//! A wall clock and a monotonic clock behind one type, which tests can replace by a manual clock.
//!
//! Deadlines of keys are wall-clock times ([`Tick`]). The server's own durations, such as a
//! client's idle time, are differences of two [`Moment`]s, so that a change of the system clock
//! does not affect them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use store::Tick;

/// Origin of the monotonic clock.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds on the monotonic clock, from an arbitrary origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// Returns the milliseconds since an earlier moment.
    pub fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Time of a manual clock.
#[derive(Debug)]
pub struct ManualClock {
    wall_us: AtomicU64,
    steady_ms: AtomicU64,
}

/// Source of the server's time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The clocks of the operating system.
    #[default]
    System,
    /// A clock that changes only when it is set.
    Manual(Arc<ManualClock>),
}

impl Clock {
    /// Creates a manual clock at `ms` milliseconds since 1970.
    pub fn manual(ms: u64) -> Clock {
        Clock::Manual(Arc::new(ManualClock {
            wall_us: AtomicU64::new(ms * 1000),
            steady_ms: AtomicU64::new(0),
        }))
    }

    /// Returns the wall-clock time in microseconds since 1970; 0 for earlier times.
    pub fn now_us(&self) -> u64 {
        match self {
            Clock::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |span| span.as_micros() as u64),
            Clock::Manual(clock) => clock.wall_us.load(Ordering::Relaxed),
        }
    }

    /// Returns the wall-clock time in the unit of deadlines.
    pub fn now(&self) -> Tick {
        Tick(self.now_us() / 1000)
    }

    /// Returns the current moment on the monotonic clock.
    pub fn moment(&self) -> Moment {
        match self {
            Clock::System => Moment(START.elapsed().as_millis() as u64),
            Clock::Manual(clock) => Moment(clock.steady_ms.load(Ordering::Relaxed)),
        }
    }

    /// Sets the wall clock of a manual clock, without advancing its monotonic clock. Has no effect
    /// on the system clock.
    pub fn set_ms(&self, ms: u64) {
        if let Clock::Manual(clock) = self {
            clock.wall_us.store(ms * 1000, Ordering::Relaxed);
        }
    }

    /// Advances both clocks of a manual clock. Has no effect on the system clock.
    pub fn pass_ms(&self, span_ms: u64) {
        if let Clock::Manual(clock) = self {
            clock.wall_us.fetch_add(span_ms * 1000, Ordering::Relaxed);
            clock.steady_ms.fetch_add(span_ms, Ordering::Relaxed);
        }
    }
}
