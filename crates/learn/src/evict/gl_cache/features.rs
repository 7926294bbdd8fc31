//! The features of a group of entries.

use super::groups::Group;
use crate::features::{FEATURES, Totals, Window as Work};
use policy::groups::Rates;
use policy::{Facts, Tick};

/// Features beside those of [`FEATURES`], of the time since a group was written or merged.
const OF_ITS_OWN: [&str; 2] = ["own age", "own requested objects"];
/// Features in a row.
pub(super) const WIDTH: usize = FEATURES.len() + OF_ITS_OWN.len();

/// What a model is told of a group, in the order of a row.
pub fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.into_iter().chain(OF_ITS_OWN)
}

/// What a group is born with: when, and how the cache did at that time. In a merge, means are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Birth {
    pub(super) at: Tick,
    /// The number of the request.
    pub(super) request: u64,
    rates: Rates,
}

impl Birth {
    /// The mean of some, of which there is one at least.
    pub(super) fn mean(births: &[Birth]) -> Birth {
        let count = births.len() as u64;
        let mean = |of: fn(&Birth) -> u64| {
            let sum: u128 = births.iter().map(|birth| u128::from(of(birth))).sum();
            (sum / u128::from(count)) as u64
        };
        let share = |of: fn(&Rates) -> f32| {
            births.iter().map(|birth| of(&birth.rates)).sum::<f32>() / count as f32
        };
        Birth {
            at: Tick(mean(|birth| birth.at.0)),
            request: mean(|birth| birth.request),
            rates: Rates {
                requests: share(|rates| rates.requests),
                writes: share(|rates| rates.writes),
                misses: share(|rates| rates.misses),
            },
        }
    }
}

/// How the cache works, by what the policy hears of.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    has_begun: bool,
    misses: u64,
    writes: u64,
    work: Work,
}

impl Window {
    /// Notes the beginning of all; false when that was known.
    pub(super) fn begin(&mut self, facts: &impl Facts) -> bool {
        if self.has_begun {
            return false;
        }
        self.has_begun = true;
        self.work.begin(self.totals(facts));
        true
    }

    pub(super) fn missed(&mut self) {
        self.misses += 1;
    }

    pub(super) fn wrote(&mut self) {
        self.writes += 1;
    }

    fn totals(&self, facts: &impl Facts) -> Totals {
        Totals {
            at: facts.now(),
            requests: facts.requests(),
            misses: self.misses,
            writes: self.writes,
        }
    }

    /// A group was written full.
    pub(super) fn turn(&mut self, facts: &impl Facts) {
        self.work.turn(self.totals(facts));
    }

    /// What a group gets that is begun now.
    pub(super) fn birth(&self, facts: &impl Facts) -> Birth {
        Birth {
            at: facts.now(),
            request: facts.requests(),
            rates: self.work.rates(),
        }
    }

    /// A group's features. A clock that went back makes nothing older.
    pub(super) fn features(&self, group: &Group, facts: &impl Facts) -> [f32; WIDTH] {
        let birth = &group.birth;
        let age = match self.work.has_time() {
            true => facts.now().0.saturating_sub(birth.at.0) as f32 / 1e3,
            false => (facts.requests() - birth.request) as f32,
        };
        let count = group.members.len().max(1);
        [
            birth.rates.requests,
            birth.rates.writes,
            birth.rates.misses,
            group.weight as f32 / count as f32,
            age,
            group.requests,
            group.requested,
            (facts.requests() - group.made_at) as f32,
            group.requested_here,
        ]
    }
}
