//! Statistics of a segment's use, for the evictions that rank segments.
//!
//! ```text
//! opened 8       when the segment was opened
//! hits 4         counted hits since an eviction last read them
//! requested 4    objects with at least one counted hit since they were written here
//! rates 12       the engine's rates of requests, writes and misses when the segment was opened
//! ```
//! They lie in the free part of the header's cache line, so they cost no memory. They are
//! estimates: no reader relies on their order.

use policy::Tick;
use policy::groups::Rates;
// The standard library's atomics under Loom too: nothing depends on the order of these values.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Rates that any thread may read and set at any time.
#[derive(Debug, Default)]
pub(crate) struct SharedRates {
    /// Rates of requests, writes and misses, as the bits of `f32`.
    bits: [AtomicU32; 3],
}

impl SharedRates {
    pub(crate) fn get(&self) -> Rates {
        let [requests, writes, misses] = &self.bits;
        let of = |rate: &AtomicU32| f32::from_bits(rate.load(Relaxed));
        Rates {
            requests: of(requests),
            writes: of(writes),
            misses: of(misses),
        }
    }

    pub(crate) fn set(&self, rates: Rates) {
        let all = [rates.requests, rates.writes, rates.misses];
        for (bits, rate) in self.bits.iter().zip(all) {
            bits.store(rate.to_bits(), Relaxed);
        }
    }
}

/// Statistics of one segment. The module text lists them.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    opened: AtomicU64,
    hits: AtomicU32,
    requested: AtomicU32,
    rates: SharedRates,
}

/// The values of a [`Usage`] at one moment, or the means of several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageValues {
    pub(crate) opened: Tick,
    pub(crate) hits: u32,
    pub(crate) requested: u32,
    pub(crate) rates: Rates,
}

impl Usage {
    /// Counts a hit of an object. `is_first`: whether it is the object's first hit since the object
    /// was written to this segment.
    #[inline(always)]
    pub(crate) fn count_hit(&self, is_first: bool) {
        self.hits.fetch_add(1, Relaxed);
        if is_first {
            self.count_requested();
        }
    }

    /// Adds one to the number of requested objects, for an object that a merge moves here.
    #[inline(always)]
    pub(crate) fn count_requested(&self) {
        self.requested.fetch_add(1, Relaxed);
    }

    pub(crate) fn reset_hits(&self) {
        self.hits.store(0, Relaxed);
    }

    /// Returns the number of hits and sets it to 0.
    pub(crate) fn take_hits(&self) -> u32 {
        match self.hits.load(Relaxed) {
            0 => 0,
            _ => self.hits.swap(0, Relaxed),
        }
    }

    /// Returns the time at which the segment was opened; for the target of a merge the mean of its
    /// sources.
    pub(crate) fn opened(&self) -> Tick {
        Tick(self.opened.load(Relaxed))
    }

    pub(crate) fn get(&self) -> UsageValues {
        UsageValues {
            opened: self.opened(),
            hits: self.hits.load(Relaxed),
            requested: self.requested.load(Relaxed),
            rates: self.rates.get(),
        }
    }

    pub(crate) fn set(&self, values: &UsageValues) {
        self.opened.store(values.opened.0, Relaxed);
        self.hits.store(values.hits, Relaxed);
        self.requested.store(values.requested, Relaxed);
        self.rates.set(values.rates);
    }
}

impl UsageValues {
    /// Returns the means over several segments. There must be at least one.
    pub(crate) fn mean(all: &[UsageValues]) -> UsageValues {
        let count = all.len().max(1);
        let mean = |of: &dyn Fn(&UsageValues) -> u64| {
            let sum: u128 = all.iter().map(|one| u128::from(of(one))).sum();
            (sum / count as u128) as u64
        };
        let rate = |of: fn(&Rates) -> f32| {
            all.iter().map(|one| of(&one.rates)).sum::<f32>() / count as f32
        };
        UsageValues {
            opened: Tick(mean(&|one| one.opened.0)),
            hits: mean(&|one| u64::from(one.hits)) as u32,
            requested: mean(&|one| u64::from(one.requested)) as u32,
            rates: Rates {
                requests: rate(|rates| rates.requests),
                writes: rate(|rates| rates.writes),
                misses: rate(|rates| rates.misses),
            },
        }
    }
}
