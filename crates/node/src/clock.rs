//! Wall clock of a node, which tests can move by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time source of a node.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// A clock that stands still until it is moved.
    Manual(ManualClock),
}

impl Clock {
    /// Returns the milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        match self {
            Clock::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |since| since.as_millis() as u64)
            }
            Clock::Manual(clock) => clock.now_ms.load(SeqCst),
        }
    }

    /// Returns the same time source for the store.
    pub(crate) fn of_store(&self) -> library::Clock {
        match self {
            Clock::System => library::Clock::System,
            Clock::Manual(clock) => library::Clock::Manual(clock.store.clone()),
        }
    }
}

/// A clock that stands still until it is moved. Clones share the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    now_ms: Arc<AtomicU64>,
    store: library::ManualClock,
}

impl ManualClock {
    /// Creates a clock that stands at an instant.
    pub fn new(now_ms: u64) -> Self {
        ManualClock {
            now_ms: Arc::new(AtomicU64::new(now_ms)),
            store: library::ManualClock::new(),
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.now_ms.fetch_add(by.as_millis() as u64, SeqCst);
        self.store.advance(by);
    }
}
