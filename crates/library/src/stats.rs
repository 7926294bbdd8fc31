//! Counts of what a cache did.

use crate::cause::Cause;
use crate::core::Departures;
use crate::epoch::Guard;
use crate::lag::Lag;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters that a thread has alone. Threads beyond share one more set.
const STRIPES: usize = 32;

/// What a reader counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    /// Stale ones included.
    Hit,
    StaleHit,
    Absent,
    Expired,
    Negative,
    Load,
    FailedLoad,
}

const READS: usize = 7;

/// Counters of one thread, on a cache line of their own.
#[repr(align(64))]
#[derive(Default)]
struct Stripe([AtomicU64; READS]);

/// Counters of all threads.
pub(crate) struct Counters(Box<[Stripe; STRIPES + 1]>);

impl Counters {
    pub(crate) fn new() -> Self {
        Counters(Box::new(std::array::from_fn(|_| Stripe::default())))
    }

    #[inline(always)]
    pub(crate) fn count(&self, guard: &impl Guard, read: Read) {
        let number = guard.number();
        if number < STRIPES {
            // No other thread writes here, so that no atomic addition is needed.
            let counter = &self.0[number].0[read as usize];
            counter.store(counter.load(Relaxed) + 1, Relaxed);
        } else {
            self.count_shared(read);
        }
    }

    #[inline(never)]
    fn count_shared(&self, read: Read) {
        self.0[STRIPES].0[read as usize].fetch_add(1, Relaxed);
    }

    fn sum(&self, read: Read) -> u64 {
        let stripes = self.0.iter();
        stripes
            .map(|stripe| stripe.0[read as usize].load(Relaxed))
            .sum()
    }
}

/// Counts since the cache was created, and its present size.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Look-ups that returned a value, stale ones included.
    pub hits: u64,
    /// Look-ups that returned a value during the last part of its life in which it is reloaded.
    pub stale_hits: u64,
    /// Look-ups of keys that were not there: never inserted, removed or evicted.
    pub misses_absent: u64,
    /// Look-ups of keys whose entry had expired and was not removed yet.
    pub misses_expired: u64,
    /// Look-ups that were answered by the memory of an absent value.
    pub negative_hits: u64,
    /// Loaders that were run, and returned a value.
    pub loads: u64,
    /// Loaders that returned an error or no value, panicked, or were cancelled.
    pub failed_loads: u64,
    /// Entries inserted, replacements included.
    pub inserted: u64,
    /// Entries that were not stored: too heavy, already expired, or not admitted by the policy.
    pub rejected: u64,
    /// Those of `rejected` that weighed more than a shard's part of the capacity.
    pub too_heavy: u64,
    /// Entries removed because they had expired.
    pub expired: u64,
    /// Entries evicted.
    pub evicted: u64,
    /// Entries replaced by others with the same key.
    pub replaced: u64,
    /// Entries removed by calls.
    pub removed: u64,
    /// Entries that left without a call of the listener, because they left by calls of the listener
    /// itself, see [`CacheBuilder::listener`](crate::CacheBuilder::listener).
    pub unreported: u64,
    /// Present number of entries, including expired ones that are not removed yet.
    pub len: u64,
    /// Present weight of all entries.
    pub weight: u64,
    /// Upper bound of the number of expired entries that are not removed yet.
    pub backlog: u64,
    /// Bytes of the cache's own memory, without what keys and values own. Memory that was reserved
    /// and never touched is included.
    pub bytes: u64,
    lag: Lag,
}

impl Stats {
    pub(crate) fn read(&mut self, counters: &Counters) {
        self.hits = counters.sum(Read::Hit);
        self.stale_hits = counters.sum(Read::StaleHit);
        self.misses_absent = counters.sum(Read::Absent);
        self.misses_expired = counters.sum(Read::Expired);
        self.negative_hits = counters.sum(Read::Negative);
        self.loads = counters.sum(Read::Load);
        self.failed_loads = counters.sum(Read::FailedLoad);
    }

    pub(crate) fn add(&mut self, departures: &Departures, lag: &Lag) {
        let of = |cause: Cause| departures.by_cause[cause as usize];
        self.expired += of(Cause::Expired);
        self.evicted += of(Cause::Evicted);
        self.replaced += of(Cause::Replaced);
        self.removed += of(Cause::Removed);
        self.inserted += departures.inserted;
        self.rejected += departures.rejected;
        self.too_heavy += departures.too_heavy;
        self.unreported += departures.unreported;
        self.lag.add(lag);
    }

    /// Look-ups that returned no value.
    pub fn misses(&self) -> u64 {
        self.misses_absent + self.misses_expired
    }

    /// Share of look-ups that returned a value; `None` before the first one.
    pub fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits + self.misses();
        (all > 0).then(|| self.hits as f64 / all as f64)
    }

    /// Returns a time that a share of the removals of expired entries was not later than. It is
    /// rounded up to a power of two of milliseconds.
    pub fn lag_quantile(&self, share: f64) -> Duration {
        Duration::from_millis(self.lag.quantile_ms(share))
    }

    /// Returns the longest time by which the removal of an expired entry was late.
    pub fn lag_max(&self) -> Duration {
        Duration::from_millis(self.lag.max_ms())
    }
}
