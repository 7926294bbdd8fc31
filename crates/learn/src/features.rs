//! Features of a group in any cache: their names, and the rates at which the cache worked when the
//! group was written.

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

/// Counts of a cache's work up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The moment.
    pub at: Tick,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that missed.
    pub misses: u64,
    /// Number of entries written.
    pub writes: u64,
}

/// Factor by which a group's weight in the means decreases with each later group. After eight
/// groups it is a half.
const DECAY: f64 = 0.917;

/// Rates at which the cache worked while the last groups were written, as weighted means. The
/// counts of one group of sixty entries would be too few, and it may begin and end in the same
/// second of a clock of whole seconds.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Whether the clock has ever moved.
    has_time: bool,
    /// Totals when the present group was begun.
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
    /// Sets the totals from which the rates of the first group are counted.
    pub fn begin(&mut self, totals: Totals) {
        self.from = totals;
    }

    /// Whether the clock has ever moved.
    pub fn has_time(&self) -> bool {
        self.has_time
    }

    /// Records that a group is full. A clock or a count that goes back is treated as unchanged.
    pub fn turn(&mut self, totals: Totals) {
        let from = std::mem::replace(&mut self.from, totals);
        let since = |of: fn(&Totals) -> u64| of(&totals).saturating_sub(of(&from)) as f64;
        self.has_time |= totals.at != from.at;
        let past = &mut self.past;
        past.seconds = past.seconds * DECAY + since(|totals| totals.at.0) / 1e3;
        past.requests = past.requests * DECAY + since(|totals| totals.requests);
        past.misses = past.misses * DECAY + since(|totals| totals.misses);
        past.writes = past.writes * DECAY + since(|totals| totals.writes);
    }

    /// Returns the rates for a group that is begun now; 0 until the clock has moved.
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
