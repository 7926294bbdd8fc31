//! Time sources of a cache: the system's monotonic clock, or a clock that the program moves.
//! Instants are in milliseconds.

#![cfg_attr(
    all(target_os = "linux", target_pointer_width = "64", not(miri)),
    expect(unsafe_code, reason = "a call of the C library; tidy lists this file")
)]

use policy::Tick;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// First instant of every clock. It is above 0, so that an entry can have a deadline that has
/// already passed.
const START_MS: u64 = 1 << 10;

/// Time source of a cache.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's monotonic clock.
    #[default]
    System,
    /// A clock that moves only when the program moves it, for tests and simulations.
    Manual(ManualClock),
}

/// A clock that stands still until the program moves it. Clones share the same time.
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
    /// Creates a clock that stands at its start.
    pub fn new() -> Self {
        ManualClock(Arc::new(AtomicU64::new(START_MS)))
    }

    /// Moves the clock forward by a span.
    pub fn advance(&self, by: Duration) {
        let later = |ms: u64| Some(ms.saturating_add(ms_of(by)).min(Tick::MAX.0));
        let _ = self.0.fetch_update(SeqCst, SeqCst, later);
    }

    /// Sets the time since the clock was created. The clock may go back; the deadlines of entries
    /// do not change with it.
    pub fn set(&self, since_start: Duration) {
        let ms = START_MS.saturating_add(ms_of(since_start));
        self.0.store(ms.min(Tick::MAX.0), SeqCst);
    }
}

/// Converts a span to milliseconds, rounded up, so that nothing expires early.
pub(crate) fn ms_of(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the instant `span_ms` after `now`, or the latest possible instant if that is beyond it.
/// A span of 0 gives a deadline that has already passed.
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

/// Returns the instant [`START_MS`] of the system's clock, and the value of [`coarse_ms`] at that
/// instant.
#[inline]
fn anchor() -> (Instant, u64) {
    static ANCHOR: OnceLock<(Instant, u64)> = OnceLock::new();
    *ANCHOR.get_or_init(|| (Instant::now(), coarse_ms()))
}

/// Returns the current instant of the system's clock.
#[inline]
pub(crate) fn system_now() -> Tick {
    Tick(START_MS + anchor().0.elapsed().as_millis() as u64)
}

/// Returns the time until the system's clock reaches an instant.
pub(crate) fn system_wait(tick: u64) -> Duration {
    let instant = Duration::from_millis(tick.saturating_sub(START_MS));
    instant.saturating_sub(anchor().0.elapsed())
}

/// Upper bound in milliseconds on the difference between [`Clock::recent`] and the current instant.
/// The system's coarse clock advances at each kernel tick, every 1 to 10 ms.
pub(crate) const RECENT_MS: u64 = 1_000;

/// Returns the milliseconds of the monotonic clock at the last kernel tick, in a fifth of the time
/// that the exact clock takes.
///
/// It calls the C library, which the standard library links to. rustix would read the kernel's
/// shared object itself, which ends the process under Valgrind.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
#[inline]
fn coarse_ms() -> u64 {
    /// `timespec`, as defined on 64-bit systems.
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    const MONOTONIC_COARSE: i32 = 6;
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    let mut time = Time {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: the declaration matches the C library's, and the pointer is to a value of its type.
    let status = unsafe { clock_gettime(MONOTONIC_COARSE, &raw mut time) };
    assert_eq!(status, 0, "Linux has this clock since 2.6.32");
    time.seconds as u64 * 1_000 + time.nanoseconds as u64 / 1_000_000
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
fn coarse_ms() -> u64 {
    0
}

/// Returns an instant that differs from the current one by less than [`RECENT_MS`].
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
#[inline]
pub(crate) fn system_recent() -> Tick {
    // The first value of the coarse clock was up to one tick old, so that the difference may be too
    // large by one tick.
    Tick(START_MS + coarse_ms().saturating_sub(anchor().1))
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(crate) fn system_recent() -> Tick {
    system_now()
}

impl Clock {
    /// Returns an instant that differs from the current one by less than [`RECENT_MS`], faster than
    /// [`Clock::now`].
    #[inline]
    pub(crate) fn recent(&self) -> Tick {
        match self {
            Clock::System => system_recent(),
            Clock::Manual(_) => self.now(),
        }
    }

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
    fn the_recent_instant_is_near_the_present_one() {
        let clock = Clock::System;
        for _ in 0..1_000 {
            let (before, recent, after) = (clock.now().0, clock.recent().0, clock.now().0);
            assert!(before < recent + RECENT_MS, "{before} {recent}");
            assert!(recent < after + RECENT_MS, "{recent} {after}");
        }
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
