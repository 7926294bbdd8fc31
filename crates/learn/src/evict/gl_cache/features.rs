//! Features of a group of entries.

use super::groups::{Birth, Group};
use crate::features::{FEATURES, Totals, Window as Work};
use policy::Facts;

/// Names of the features in addition to [`FEATURES`], measured since the group was written or
/// merged.
const OF_ITS_OWN: [&str; 2] = ["own age", "own requested objects"];
/// Number of features per row.
pub(super) const WIDTH: usize = FEATURES.len() + OF_ITS_OWN.len();

/// Returns the names of the features, in the order of a row.
pub fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.into_iter().chain(OF_ITS_OWN)
}

/// Current rates of the cache, from which new groups take their features.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    has_begun: bool,
    misses: u64,
    writes: u64,
    work: Work,
}

impl Window {
    /// Records the first state of the cache. Returns false if a state has already been recorded.
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

    /// Updates the rates after a group was filled.
    pub(super) fn group_filled(&mut self, facts: &impl Facts) {
        self.work.group_filled(self.totals(facts));
    }

    /// Returns the values for a group created now.
    pub(super) fn birth(&self, facts: &impl Facts) -> Birth {
        Birth {
            at: facts.now(),
            request: facts.requests(),
            rates: self.work.rates(),
        }
    }

    /// Returns the features of a group. If the clock goes back, ages stay unchanged.
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
