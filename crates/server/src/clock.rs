//! The wall clock and one that never jumps, behind one type so that tests can turn their hands.
//!
//! Deadlines of keys are wall-clock instants, a [`Tick`]; the server's own spans (a client's idle time, a pause)
//! are measured between two [`Moment`]s, so that setting the machine's clock neither ends nor extends them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use store::Tick;

/// What the steady clock counts from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds on a clock that never jumps; from where they count means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// Milliseconds since an earlier one.
    pub fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The hands of a clock that stands still.
#[derive(Debug)]
pub struct Hands {
    wall_us: AtomicU64,
    steady_ms: AtomicU64,
}

/// Where the server's time comes from: deadlines are wall-clock instants, so this clock may jump.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The operating system's wall clock.
    #[default]
    System,
    /// A clock that stands still until it is set.
    Manual(Arc<Hands>),
}

impl Clock {
    /// A clock that stands at `ms` since 1970 until its hands are turned.
    pub fn manual(ms: u64) -> Clock {
        Clock::Manual(Arc::new(Hands {
            wall_us: AtomicU64::new(ms * 1000),
            steady_ms: AtomicU64::new(0),
        }))
    }

    /// Microseconds since 1970; 0 before it.
    pub fn now_us(&self) -> u64 {
        match self {
            Clock::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |span| span.as_micros() as u64),
            Clock::Manual(hands) => hands.wall_us.load(Ordering::Relaxed),
        }
    }

    /// Now in the unit of deadlines.
    pub fn now(&self) -> Tick {
        Tick(self.now_us() / 1000)
    }

    /// Now, to measure a span.
    pub fn moment(&self) -> Moment {
        match self {
            Clock::System => Moment(START.elapsed().as_millis() as u64),
            Clock::Manual(hands) => Moment(hands.steady_ms.load(Ordering::Relaxed)),
        }
    }

    /// Sets a manual clock as one sets a machine's clock: it jumps, no time passes. The system's is left
    /// alone.
    pub fn set_ms(&self, ms: u64) {
        if let Clock::Manual(hands) = self {
            hands.wall_us.store(ms * 1000, Ordering::Relaxed);
        }
    }

    /// Lets time pass on a manual clock; the system's is left alone.
    pub fn pass_ms(&self, span_ms: u64) {
        if let Clock::Manual(hands) = self {
            hands.wall_us.fetch_add(span_ms * 1000, Ordering::Relaxed);
            hands.steady_ms.fetch_add(span_ms, Ordering::Relaxed);
        }
    }
}
