//! What is known of a group, whoever keeps it: the seven features, and the rates at which a cache worked when
//! the group was written.

use policy::Tick;
use policy::groups::{self, Rates};

/// What the features are called, in their order in a row.
pub const FEATURES: [&str; groups::FEATURES] = [
    "request rate",
    "write rate",
    "miss ratio",
    "mean object size",
    "age",
    "requests",
    "requested objects",
];

/// What a cache has done until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// That moment.
    pub at: Tick,
    /// Requests.
    pub requests: u64,
    /// Those of them that found nothing.
    pub misses: u64,
    /// Entries written.
    pub writes: u64,
}

/// What a group counts for when eight more were written, as a share: a half.
const FADING: f64 = 0.917;

/// The time in which the last groups were written. A single one of sixty entries would say little, and on a
/// clock of whole seconds takes no time at all.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Whether the clock has ever moved.
    has_time: bool,
    /// When the group was begun that is being written.
    from: Totals,
    /// Of the groups before, fading.
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
    /// Begins with what was before.
    pub fn begin(&mut self, totals: Totals) {
        self.from = totals;
    }

    /// Whether the clock has ever moved.
    pub fn has_time(&self) -> bool {
        self.has_time
    }

    /// A group was written full. What goes back, clock or counts, counts as standing still.
    pub fn turn(&mut self, totals: Totals) {
        let from = std::mem::replace(&mut self.from, totals);
        let since = |of: fn(&Totals) -> u64| of(&totals).saturating_sub(of(&from)) as f64;
        self.has_time |= totals.at != from.at;
        let past = &mut self.past;
        past.seconds = past.seconds * FADING + since(|totals| totals.at.0) / 1e3;
        past.requests = past.requests * FADING + since(|totals| totals.requests);
        past.misses = past.misses * FADING + since(|totals| totals.misses);
        past.writes = past.writes * FADING + since(|totals| totals.writes);
    }

    /// What a group gets that is begun now. Before time has passed there are no rates.
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
