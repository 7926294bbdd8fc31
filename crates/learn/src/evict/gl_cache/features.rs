//! The seven features of a group.

use super::groups::Group;
use policy::{Facts, Tick};

/// What they are called, in their order in a row.
pub(super) const FEATURES: [&str; 7] = [
    "request rate",
    "write rate",
    "miss ratio",
    "mean object size",
    "age",
    "requests",
    "requested objects",
];

/// What a group is born with: when, and how the cache did at that time. In a merge, means are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Birth {
    pub(super) at: Tick,
    /// The number of the request.
    pub(super) request: u64,
    /// Requests and writes a second, misses a request.
    request_rate: f32,
    write_rate: f32,
    miss_ratio: f32,
}

impl Birth {
    /// The mean of some, of which there is one at least.
    pub(super) fn mean(births: &[Birth]) -> Birth {
        let count = births.len() as u64;
        let mean = |of: fn(&Birth) -> u64| {
            let sum: u128 = births.iter().map(|birth| u128::from(of(birth))).sum();
            (sum / u128::from(count)) as u64
        };
        let share = |of: fn(&Birth) -> f32| births.iter().map(of).sum::<f32>() / count as f32;
        Birth {
            at: Tick(mean(|birth| birth.at.0)),
            request: mean(|birth| birth.request),
            request_rate: share(|birth| birth.request_rate),
            write_rate: share(|birth| birth.write_rate),
            miss_ratio: share(|birth| birth.miss_ratio),
        }
    }
}

/// What a group counts for when eight more were written, as a share: a half.
const FADING: f64 = 0.917;

/// The time in which the last groups were written. A single one of sixty entries would say little, and on a
/// clock of whole seconds takes no time at all.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    has_begun: bool,
    /// Whether the clock has ever moved.
    has_time: bool,
    /// When the group was begun that is being written.
    from: (Tick, u64),
    misses: u32,
    writes: u32,
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
    /// Notes the beginning of all; false when that was known.
    pub(super) fn begin(&mut self, facts: &impl Facts) -> bool {
        if self.has_begun {
            return false;
        }
        self.has_begun = true;
        self.from = (facts.now(), facts.requests());
        true
    }

    pub(super) fn missed(&mut self) {
        self.misses += 1;
    }

    pub(super) fn wrote(&mut self) {
        self.writes += 1;
    }

    /// A group was written full.
    pub(super) fn turn(&mut self, facts: &impl Facts) {
        let (at, requests) = (facts.now(), facts.requests());
        self.has_time |= at != self.from.0;
        let seconds = at.0.saturating_sub(self.from.0.0) as f64 / 1e3;
        let past = &mut self.past;
        past.seconds = past.seconds * FADING + seconds;
        past.requests = past.requests * FADING + (requests - self.from.1) as f64;
        past.misses = past.misses * FADING + f64::from(self.misses);
        past.writes = past.writes * FADING + f64::from(self.writes);
        self.from = (at, requests);
        (self.misses, self.writes) = (0, 0);
    }

    /// What a group gets that is begun now. Before time has passed there are no rates.
    pub(super) fn birth(&self, facts: &impl Facts) -> Birth {
        let Past {
            seconds,
            requests,
            misses,
            writes,
        } = self.past;
        let ratio = |of: f64, over: f64| if over > 0.0 { (of / over) as f32 } else { 0.0 };
        Birth {
            at: facts.now(),
            request: facts.requests(),
            request_rate: ratio(requests, seconds),
            write_rate: ratio(writes, seconds),
            miss_ratio: ratio(misses, requests),
        }
    }

    /// A group's features. A clock that went back makes nothing older.
    pub(super) fn features(&self, group: &Group, facts: &impl Facts) -> [f32; 7] {
        let birth = &group.birth;
        let age = match self.has_time {
            true => facts.now().0.saturating_sub(birth.at.0) as f32 / 1e3,
            false => (facts.requests() - birth.request) as f32,
        };
        let count = group.members.len().max(1);
        [
            birth.request_rate,
            birth.write_rate,
            birth.miss_ratio,
            group.weight as f32 / count as f32,
            age,
            group.requests,
            group.requested,
        ]
    }
}
