//! Instants of a cache: milliseconds of a monotonic clock, or of one that the program moves.

use policy::Tick;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// First instant of every clock, so that an entry may have a deadline that is already over.
const START_MS: u64 = 1 << 10;

/// Source of a cache's time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's monotonic clock.
    #[default]
    System,
    /// A clock that only moves when the program says so, for tests and simulations.
    Manual(ManualClock),
}

/// A clock that stands until it is moved. Clones are the same clock.
///
/// ```
/// use mayfly::{Cache, Clock, ManualClock};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), mayfly::BuildError> {
/// let clock = ManualClock::new();
/// let cache: Cache<&str, u32> = Cache::builder(100)
///     .clock(Clock::Manual(clock.clone()))
///     .ttl(Duration::from_secs(60))
///     .build()?;
/// cache.insert("key", 1);
/// clock.advance(Duration::from_secs(61));
/// assert_eq!(cache.get("key"), None);
/// assert_eq!(cache.expire(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

impl ManualClock {
    /// Creates a clock.
    pub fn new() -> Self {
        ManualClock(Arc::new(AtomicU64::new(START_MS)))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let later = |ms: u64| Some(ms.saturating_add(ms_of(by)).min(Tick::MAX.0));
        let _ = self.0.fetch_update(SeqCst, SeqCst, later);
    }

    /// Sets the time since the clock was created. It may go back: deadlines stay as they are.
    pub fn set(&self, since_start: Duration) {
        let ms = START_MS.saturating_add(ms_of(since_start));
        self.0.store(ms.min(Tick::MAX.0), SeqCst);
    }
}

/// Returns a span in milliseconds, rounded up, so that nothing expires early.
pub(crate) fn ms_of(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the instant after a span; the latest possible one if it is beyond. After no time at all
/// the entry is dead at once.
pub(crate) fn after(now: Tick, span_ms: u64) -> Tick {
    match span_ms {
        0 => Tick(now.0 - 1),
        ms => Tick(now.0.saturating_add(ms).min(Tick::MAX.0)),
    }
}

/// Returns the time from `now` to a deadline; zero if it has passed.
pub(crate) fn until(now: Tick, deadline: Tick) -> Duration {
    Duration::from_millis(deadline.0.saturating_sub(now.0))
}

fn anchor() -> Instant {
    static ANCHOR: OnceLock<Instant> = OnceLock::new();
    *ANCHOR.get_or_init(Instant::now)
}

/// Returns the present instant of the system's clock.
#[inline]
pub(crate) fn system_now() -> Tick {
    Tick(START_MS + anchor().elapsed().as_millis() as u64)
}

/// Returns the time until the system's clock reaches an instant.
pub(crate) fn system_wait(tick: u64) -> Duration {
    let instant = Duration::from_millis(tick.saturating_sub(START_MS));
    instant.saturating_sub(anchor().elapsed())
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        match self {
            Clock::System => system_now(),
            Clock::Manual(clock) => Tick(clock.0.load(SeqCst)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_up_and_saturate() {
        assert_eq!(ms_of(Duration::from_nanos(1)), 1);
        assert_eq!(ms_of(Duration::from_millis(7)), 7);
        assert_eq!(ms_of(Duration::MAX), u64::MAX);
        assert_eq!(after(Tick(5), u64::MAX), Tick::MAX);
        assert_eq!(after(Tick(5), 0), Tick(4));
        assert_eq!(until(Tick(9), Tick(5)), Duration::ZERO);
    }

    #[test]
    fn a_manual_clock_may_go_back() {
        let clock = ManualClock::new();
        clock.set(Duration::from_secs(5));
        clock.advance(Duration::from_secs(1));
        assert_eq!(Clock::Manual(clock.clone()).now(), Tick(START_MS + 6_000));
        clock.set(Duration::ZERO);
        assert_eq!(Clock::Manual(clock.clone()).now(), Tick(START_MS));
        clock.advance(Duration::MAX);
        assert_eq!(Clock::Manual(clock).now(), Tick::MAX);
    }
}
