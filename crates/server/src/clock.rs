//! The wall clock, behind one type so that tests can turn its hands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use store::Tick;

/// Where the server's time comes from: deadlines are wall-clock instants, so this clock may jump.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The operating system's wall clock.
    #[default]
    System,
    /// A clock that stands still until it is set, in microseconds since 1970.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that stands at `ms` until `set_ms`.
    pub fn manual(ms: u64) -> Clock {
        Clock::Manual(Arc::new(AtomicU64::new(ms * 1000)))
    }

    /// Microseconds since 1970; 0 before it.
    pub fn now_us(&self) -> u64 {
        match self {
            Clock::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |span| span.as_micros() as u64),
            Clock::Manual(us) => us.load(Ordering::Relaxed),
        }
    }

    /// Now in the unit of deadlines.
    pub fn now(&self) -> Tick {
        Tick(self.now_us() / 1000)
    }

    /// Turns the hands of a manual clock; the system's is left alone.
    pub fn set_ms(&self, ms: u64) {
        if let Clock::Manual(us) = self {
            us.store(ms * 1000, Ordering::Relaxed);
        }
    }
}
