//! Counters of a cache.

use crate::cause::Cause;
use crate::core::Departures;
use crate::epoch::Guard;
use crate::lag::Lag;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of threads with their own counters. All further threads share one more set.
const STRIPES: usize = 32;

/// Outcome of a look-up for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    /// A live entry was found, stale or fresh.
    Hit,
    StaleHit,
    Absent,
    Expired,
    Negative,
    Load,
    FailedLoad,
}

const READS: usize = 7;

/// Counters of one thread, on their own cache line.
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

/// Counters since the cache was created, and its present size. From
/// [`Cache::stats`](crate::Cache::stats).
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Number of look-ups that returned a value, stale or fresh.
    pub hits: u64,
    /// Number of look-ups that returned a stale value: one within its [refresh
    /// window](crate::CacheBuilder::refresh_ahead).
    pub stale_hits: u64,
    /// Number of look-ups of absent keys, which were never inserted, or were removed or evicted.
    pub misses_absent: u64,
    /// Number of look-ups of keys whose entry had expired but had not been removed yet.
    pub misses_expired: u64,
    /// Number of look-ups of keys that were remembered as having no value; see
    /// [`negative_ttl`](crate::CacheBuilder::negative_ttl).
    pub negative_hits: u64,
    /// Number of loaders that returned a value.
    pub loads: u64,
    /// Number of loaders that returned an error or no value, panicked, or were cancelled.
    pub failed_loads: u64,
    /// Number of entries inserted, including replacements.
    pub inserted: u64,
    /// Number of entries that were not stored because they were too heavy, already expired, or not
    /// admitted by the policy.
    pub rejected: u64,
    /// Number of rejected entries that weighed more than a shard's part of the capacity. They are
    /// included in `rejected`.
    pub too_heavy: u64,
    /// Number of entries removed because they had expired.
    pub expired: u64,
    /// Number of entries evicted.
    pub evicted: u64,
    /// Number of entries replaced by others with the same key.
    pub replaced: u64,
    /// Number of entries removed by calls.
    pub removed: u64,
    /// Number of entries that left without a call of the listener, because the listener itself made
    /// them leave; see [`CacheBuilder::listener`](crate::CacheBuilder::listener).
    pub unreported: u64,
    /// Present number of entries, including expired ones that are not removed yet.
    pub len: u64,
    /// Current total weight of all entries.
    pub weight: u64,
    /// Upper bound on the current number of expired entries that have not been removed yet.
    pub backlog: u64,
    /// Memory of the cache in bytes, without memory that keys and values own. Memory that is
    /// reserved but was never touched is included.
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

    /// Returns the number of look-ups that returned no value.
    pub fn misses(&self) -> u64 {
        self.misses_absent + self.misses_expired
    }

    /// Returns the share of look-ups that returned a value, or `None` before the first look-up.
    pub fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits + self.misses();
        (all > 0).then(|| self.hits as f64 / all as f64)
    }

    /// Returns the lateness that the given share of expired entries did not exceed when they were
    /// removed, rounded up to a power of two of milliseconds. For example, `lag_quantile(0.99)` is
    /// the 99th percentile.
    pub fn lag_quantile(&self, share: f64) -> Duration {
        Duration::from_millis(self.lag.quantile_ms(share))
    }

    /// Returns the maximum lateness of the removal of an expired entry.
    pub fn lag_max(&self) -> Duration {
        Duration::from_millis(self.lag.max_ms())
    }
}
