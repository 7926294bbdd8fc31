//! Rankings: collection of candidates, their predictions, and the choice of victims.

use super::ThreeLCache;
use crate::distances::logarithm;
use policy::parts::pool::NONE;
use std::cmp::Ordering;

/// Maximum number of candidates that one ranking collects at the old end.
const COLLECTED_MAX: usize = 1024;
/// Divisor of the number of entries that yields how many a ranking collects from the old end.
const COLLECTED_SHARE: usize = 100;
/// Number of entries that a ranking collects in addition.
const COLLECTED_MORE: usize = 2;
/// Number of candidates per victim: half of the candidates are evicted before the next ranking.
const CANDIDATES_PER_VICTIM: u32 = 2;
/// Number of candidates evaluated at a time.
pub(super) const CHUNK: usize = 64;
/// Constant part of the maximum number of predictions, which is this number plus twice the number
/// of entries. Predictions for entries requested or evicted in the meantime count, too.
const PREDICTIONS_MORE: usize = 4 * COLLECTED_MAX;

/// Candidate with the predicted distance to its next request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    pub distance: f32,
    pub number: u32,
}

impl Ord for Prediction {
    fn cmp(&self, other: &Prediction) -> Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Prediction {
    fn partial_cmp(&self, other: &Prediction) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Prediction {
    fn eq(&self, other: &Prediction) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Prediction {}

/// Entry that was inserted after the first training and has not been collected yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub number: u32,
    pub weight: u32,
    /// Number of the request that inserted it.
    pub inserted: u64,
}

/// A ranking in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ranking {
    /// Number of new entries that the ranking may still collect.
    pub fresh_left: usize,
    /// Number of entries still to be collected from the old end; `None` until the ranking has
    /// collected new ones.
    pub old_left: Option<usize>,
    /// Number of candidates collected so far.
    pub count: u32,
}

impl ThreeLCache {
    /// Adds a new entry.
    pub(super) fn add_fresh(&mut self, number: u32, weight: u32) {
        self.fresh_weight += u64::from(weight);
        self.fresh.push_back(Fresh {
            number,
            weight,
            inserted: self.now,
        });
        // Entries that were removed meanwhile are still in the list.
        while self.fresh.len() > self.cached.len() {
            self.take_fresh();
        }
    }

    /// Removes and returns the oldest new entry, or [`NONE`] if it has left the cache in the
    /// meantime.
    fn take_fresh(&mut self) -> Option<u32> {
        let fresh = self.fresh.pop_front()?;
        self.fresh_weight -= u64::from(fresh.weight);
        let is_held = self
            .cached
            .get(self.objects.at(fresh.number).place as usize);
        let is_same = self.objects.at(fresh.number).inserted == fresh.inserted;
        let is_held = is_same && is_held == Some(&fresh.number);
        Some(if is_held { fresh.number } else { NONE })
    }

    /// Returns true if the new entries weigh more than `parts` times the reserve, which is in
    /// hundredths of the cache.
    fn has_fresh_beyond(&self, parts: u64) -> bool {
        let reserve = u128::from(self.held_weight) * u128::from(self.round.reserve * parts);
        u128::from(self.fresh_weight) * 100 > reserve
    }

    /// Returns the number of entries that a ranking collects from the old end.
    pub(super) fn collected(&self) -> usize {
        match self.round.len {
            0..=2 => 2,
            len => (len / COLLECTED_SHARE + COLLECTED_MORE).min(COLLECTED_MAX),
        }
    }

    /// Takes one step of a ranking, and returns the ranking unless it is complete.
    pub(super) fn rank(&mut self, mut ranking: Ranking) -> Option<Ranking> {
        if self.drawn.len() == CHUNK {
            self.predict();
        }
        if ranking.fresh_left > 0
            && self.has_fresh_beyond(1)
            && let Some(number) = self.take_fresh()
        {
            if number != NONE {
                ranking.fresh_left -= 1;
                ranking.count += 1;
                self.drawn.push(number);
            }
            return Some(ranking);
        }
        ranking.fresh_left = 0;
        let is_wanted = !self.has_fresh_beyond(10);
        let wanted = if is_wanted { self.collected() } else { 0 };
        let left = *ranking.old_left.get_or_insert(wanted);
        if left > 0 && (ranking.count as usize) < self.round.len {
            self.collect_old(&mut ranking);
            return Some(ranking);
        }
        self.predict();
        self.victims_left = (ranking.count / CANDIDATES_PER_VICTIM).max(1);
        None
    }

    /// Examines the next entry from the old end.
    fn collect_old(&mut self, ranking: &mut Ranking) {
        let number = self.hand.or(self.queue.oldest());
        let number = number.expect("an eviction found an entry");
        let object = self.objects.at(number);
        let is_candidate = self.round.examine(&object);
        if self.round.is_complete() {
            self.round.renew(self.cached.len(), self.fresh.len());
            self.hand = None;
            self.predictions.clear();
            ranking.count = self.drawn.len() as u32;
            ranking.old_left = Some(self.collected());
        } else {
            self.hand = self.queue.newer(&self.objects, number);
        }
        if is_candidate {
            ranking.count += 1;
            ranking.old_left = ranking.old_left.map(|left| left - 1);
            self.drawn.push(number);
        }
    }

    /// Computes the predictions of the collected candidates.
    fn predict(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let (now, objects) = (self.now, &self.objects);
        let row = |&number: &u32| objects.at(number).features(now);
        let distances = self.distances.predict(self.drawn.iter().map(row));
        for (&number, &logarithmic) in self.drawn.iter().zip(distances) {
            let object = self.objects.at_mut(number);
            let distance = match self.config.size {
                0 => exponential(logarithmic) + (self.now - self.trained_at) as f32,
                _ => logarithmic + logarithm(u64::from(object.weight.max(1))),
            };
            object.prediction = distance;
            self.predictions.push(Prediction { distance, number });
        }
        self.drawn.clear();
        if self.predictions.len() > 2 * self.cached.len() + PREDICTIONS_MORE {
            let objects = &self.objects;
            let is_valid = |at: &Prediction| objects.at(at.number).prediction == at.distance;
            self.predictions.retain(is_valid);
        }
    }

    /// Removes the furthest prediction, and returns its object if the prediction is still current.
    pub(super) fn take_furthest(&mut self) -> Option<u32> {
        let furthest = self.predictions.pop()?;
        let object = self.objects.at(furthest.number);
        // A request or an eviction has reset the object's prediction.
        if object.prediction != furthest.distance {
            return None;
        }
        self.round.count_victim(&object);
        Some(furthest.number)
    }
}

/// Returns the exponential function. It uses only sums and products, because standard libraries may
/// differ in the last bit between machines.
pub(super) fn exponential(exponent: f32) -> f32 {
    let halvings = f64::from(exponent.clamp(0.0, 60.0)) / std::f64::consts::LN_2;
    let whole = halvings as u32;
    let rest = (halvings - f64::from(whole)) * std::f64::consts::LN_2;
    // e^x = 1 + x (1 + x / 2 (1 + x / 3 (…))), and x is below 0.7.
    let series = (1..16)
        .rev()
        .fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    (series * (1u64 << whole.min(63)) as f64) as f32
}
