//! Features of a group in any cache: their names, and the rates of the cache when the group was
//! written.

use policy::Tick;
use policy::groups::{self, Rates};

/// Names of the features, in the order of a row.
pub const FEATURES: [&str; groups::FEATURES] = [
    "request rate",
    "write rate",
    "miss ratio",
    "mean object size",
    "age",
    "requests",
    "requested objects",
];

/// Counters of a cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Moment at which the counters were read.
    pub at: Tick,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that missed.
    pub misses: u64,
    /// Number of entries written.
    pub writes: u64,
}

/// Factor by which a group's weight in the means shrinks with each later group: to one half after
/// eight groups.
const DECAY: f64 = 0.917;

/// Rates of the cache while the most recent groups were written, as weighted means. A single group
/// of sixty entries would give too few counts, and may begin and end within one second of a clock
/// that counts whole seconds.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Whether the clock has ever advanced.
    has_time: bool,
    /// Counters at the start of the current group.
    from: Totals,
    /// Weighted sums over the earlier groups.
    past: Past,
}

#[derive(Clone, Debug, Default)]
struct Past {
    seconds: f64,
    requests: f64,
    misses: f64,
    writes: f64,
}

impl Window {
    /// Sets the counters from which the first group is measured.
    pub fn begin(&mut self, totals: Totals) {
        self.from = totals;
    }

    /// Returns true if the clock has ever advanced.
    pub fn has_time(&self) -> bool {
        self.has_time
    }

    /// Updates the rates after a group was filled. A clock or a counter that goes back is treated
    /// as unchanged.
    pub fn group_filled(&mut self, totals: Totals) {
        let from = std::mem::replace(&mut self.from, totals);
        let since = |of: fn(&Totals) -> u64| of(&totals).saturating_sub(of(&from)) as f64;
        self.has_time |= totals.at != from.at;
        let past = &mut self.past;
        past.seconds = past.seconds * DECAY + since(|totals| totals.at.0) / 1e3;
        past.requests = past.requests * DECAY + since(|totals| totals.requests);
        past.misses = past.misses * DECAY + since(|totals| totals.misses);
        past.writes = past.writes * DECAY + since(|totals| totals.writes);
    }

    /// Returns the rates for a group that begins now; 0 until the clock has advanced.
    pub fn rates(&self) -> Rates {
        let past = &self.past;
        let ratio = |of: f64, over: f64| if over > 0.0 { (of / over) as f32 } else { 0.0 };
        Rates {
            requests: ratio(past.requests, past.seconds),
            writes: ratio(past.writes, past.seconds),
            misses: ratio(past.misses, past.requests),
        }
    }
}
