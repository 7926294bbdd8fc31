//! Rankings: the collection of candidates, their predictions, and the choice of victims.

use super::ThreeLCache;
use crate::evict::lrb::logarithm;
use policy::parts::pool::NONE;
use std::cmp::Ordering;

/// Maximum number of candidates that one ranking collects from the old end.
const COLLECTED_MAX: usize = 1024;
/// Part of the entries that one ranking collects from the old end, as a divisor, and the number
/// that is added.
const COLLECTED_SHARE: usize = 100;
const COLLECTED_MORE: usize = 2;
/// Number of candidates of which one is evicted before the next ranking.
const CANDIDATES_PER_VICTIM: u32 = 2;
/// Number of candidates whose rows are evaluated at once.
pub(super) const CHUNK: usize = 64;
/// Maximum number of predictions, those of entries that were requested or evicted meanwhile
/// included: this many, and twice the entries.
const PREDICTIONS_MORE: usize = 4 * COLLECTED_MAX;

/// A candidate with its predicted next request.
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

/// An entry inserted since a model exists, until it is collected.
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
    /// Number of new entries that it may still collect.
    pub fresh_left: usize,
    /// Number of entries that it still collects from the old end; `None` until new ones are
    /// collected.
    pub old_left: Option<usize>,
    /// Number of candidates so far.
    pub count: u32,
}

impl ThreeLCache {
    /// Adds an entry to the new ones.
    pub(super) fn add_fresh(&mut self, number: u32, weight: u32) {
        self.fresh_weight += u64::from(weight);
        self.fresh.push_back(Fresh {
            number,
            weight,
            inserted: self.now,
        });
        // Entries that were removed meanwhile are among them.
        while self.fresh.len() > self.cached.len() {
            self.take_fresh();
        }
    }

    /// Returns the oldest of the new entries; [`NONE`] if it has left the cache meanwhile.
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

    /// Whether the new entries weigh more than this number of parts of the reserve, which is a
    /// hundredth of the cache for each unit.
    fn has_fresh_beyond(&self, parts: u64) -> bool {
        let reserve = u128::from(self.held_weight) * u128::from(self.round.reserve * parts);
        u128::from(self.fresh_weight) * 100 > reserve
    }

    /// Number of entries that a ranking collects from the old end.
    pub(super) fn collected(&self) -> usize {
        match self.round.len {
            0..=2 => 2,
            len => (len / COLLECTED_SHARE + COLLECTED_MORE).min(COLLECTED_MAX),
        }
    }

    /// Does one step of a ranking, and returns the ranking unless it is complete.
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

    /// Predicts the next requests of the candidates that were collected.
    fn predict(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        self.candidate_rows.clear();
        self.distances.clear();
        for &number in &self.drawn {
            let row = self.objects.at(number).features(self.now);
            self.candidate_rows.push(&row);
        }
        self.model
            .predict(&self.candidate_rows, &mut self.distances);
        self.learning_stats.inferences += 1;
        self.learning_stats.inference_rows += self.drawn.len() as u64;
        for (&number, &logarithmic) in self.drawn.iter().zip(&self.distances) {
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

    /// Returns the object of the furthest prediction if it still holds.
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

/// The exponential function, by sums and products alone, because those of standard libraries may
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
