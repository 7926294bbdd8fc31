//! Learns the utility of an engine's groups: GL-Cache's part outside the engine. Experimental, as
//! the engine's eviction `gl-cache` is.
//!
//! The host reports what the cache has done. The learner samples groups as they are written, trains
//! when that is due, and ranks groups when the engine has used up the ranking before. Each of these
//! is a call of its own, as short as possible, so that a server with a time budget can leave one
//! undone; the simulator makes all at once. Work left undone is done later, within bounds: nothing
//! accumulates.
//!
//! It depends on the clock: if the time never changes, samples collect for no time and nothing is
//! learned. (`mayfly` gives a rate to traces without times.)
//!
//! # Validation
//! The newest quarter of the samples is held out of a training. A model whose predictions of these
//! have a rank correlation below [`CORRELATION_MIN`] with the observed utilities fails: the ranking
//! of the model before is withdrawn, and nothing is ranked until a training succeeds. Meanwhile the
//! engine evicts without a ranking.

use crate::boosted::{Boosting, Maker};
use crate::features::{FEATURES, Totals, Window};
use crate::held_out::HeldOut;
use crate::regressor::{Regressor, Rows};
use crate::schedule::{Interval, Schedule};
use crate::stats::LearningStats;
use policy::Tick;
use policy::groups::Groups;
use policy::parts::chance::Chance;

/// Minimum number of samples for a training. A model from fewer predicts badly.
const SAMPLES_MIN: usize = 128;
/// Number of samples wanted during the time in which as many groups are written as the cache holds.
/// If these are few, several samples are taken at a time.
const SAMPLES_WANTED: u64 = 256;
const DRAWS_MIN: u64 = 2;
const DRAWS_MAX: u64 = 8;
/// Maximum number of missed calls of `sample` that are made up for. Older groups are not sampled
/// any more.
const BEHIND_MAX: u64 = 8;
/// One in this number of samples is held out for validation.
const HELD_OUT_PART: usize = 4;
/// Minimum rank correlation of a valid model.
pub const CORRELATION_MIN: f64 = 0.1;
/// A ranking names this many times the number of groups that are evicted before the next one is
/// requested.
const AHEAD: usize = 2;

/// Returns the number of groups sampled at once.
fn draws(groups: &impl Groups) -> u64 {
    (SAMPLES_WANTED / groups.extent().groups.max(1)).clamp(DRAWS_MIN, DRAWS_MAX)
}

/// Configuration of a learner.
#[derive(Clone, Copy, Debug)]
pub struct GroupLearnerConfig {
    /// Interval between two trainings.
    pub interval: Interval,
    /// Share of the groups that are evicted before all are ranked again.
    pub fraction: f32,
    /// Seed of the choice of sampled groups.
    pub seed: u64,
    /// Creates the model.
    pub maker: Maker,
}

impl Default for GroupLearnerConfig {
    fn default() -> Self {
        GroupLearnerConfig {
            interval: Interval::Auto,
            fraction: 0.05,
            seed: 1,
            maker: Maker::default(),
        }
    }
}

/// Counts of a cache so far, taken by its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// The present time.
    pub now: Tick,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that missed.
    pub misses: u64,
}

/// Learns the utility of groups and ranks them. The module text describes how a host calls it.
pub struct GroupLearner {
    regressor: Box<dyn Regressor>,
    /// Whether the current model passed validation on held-out samples.
    is_valid: bool,
    /// Whether the current model has ranked nothing yet. Then the ranking of the previous model is
    /// still in use.
    is_new: bool,
    /// Number of groups begun when a ranking found no group to name. No further ranking is made
    /// until another group is begun.
    named_none: Option<u64>,
    schedule: Schedule,
    window: Window,
    chance: Chance,
    fraction: f32,
    has_begun: bool,
    /// Number of groups begun until the last report. The next fields are those until samples were
    /// last drawn and until the last training.
    seen: u64,
    drawn: u64,
    trained: u64,
    /// Samples are drawn each time that this many groups were begun.
    stride: u64,
    learning_stats: LearningStats,
    learned_at: Option<Tick>,
    held_out: Option<HeldOut>,
    rows: Rows,
    predictions: Vec<f32>,
}

impl GroupLearner {
    /// Creates a learner without a model.
    pub fn new(config: &GroupLearnerConfig) -> GroupLearner {
        GroupLearner {
            regressor: (config.maker.0)(&Boosting::default()),
            is_valid: false,
            is_new: false,
            named_none: None,
            schedule: Schedule::new(config.interval),
            window: Window::default(),
            chance: Chance::new(config.seed),
            fraction: config.fraction,
            has_begun: false,
            seen: 0,
            drawn: 0,
            trained: 0,
            stride: 1,
            learning_stats: LearningStats::default(),
            learned_at: None,
            held_out: None,
            rows: Rows::new(FEATURES.len()),
            predictions: Vec::new(),
        }
    }

    /// Whether there is a valid model.
    pub fn is_trained(&self) -> bool {
        self.is_valid
    }

    /// Counts of trainings and predictions so far.
    pub fn learning_stats(&self) -> LearningStats {
        let mut learning_stats = self.learning_stats.clone();
        let shares = self.regressor.importances();
        learning_stats.importances = FEATURES.into_iter().zip(shares).collect();
        learning_stats.learning_bytes = self.heap_bytes() as u64;
        learning_stats
    }

    /// Returns the comparison of the last model's predictions of held-out samples with the observed
    /// utilities.
    pub fn held_out(&self) -> Option<&HeldOut> {
        self.held_out.as_ref()
    }

    /// Returns the time at which the last model was trained.
    pub fn learned_at(&self) -> Option<Tick> {
        self.learned_at
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.regressor.heap_bytes()
            + self.rows.heap_bytes()
            + self.predictions.capacity() * size_of::<f32>()
    }

    /// Reports the counts of the cache. Groups begun from now on store the present rates as
    /// features.
    pub fn observe(&mut self, groups: &impl Groups, totals_now: &CacheTotals) {
        let extent = groups.extent();
        let totals = Totals {
            at: totals_now.now,
            requests: totals_now.requests,
            misses: totals_now.misses,
            writes: extent.writes,
        };
        if !self.has_begun {
            self.has_begun = true;
            self.schedule.begin(totals_now.now, totals_now.requests);
            self.window.begin(totals);
            (self.seen, self.drawn, self.trained) = (extent.begun, extent.begun, extent.begun);
        } else if extent.begun != self.seen {
            self.window.turn(totals);
            groups.set_rates(self.window.rates());
            self.seen = extent.begun;
        }
    }

    /// Whether groups were written that no sample was drawn from.
    pub fn wants_samples(&self) -> bool {
        self.seen - self.drawn >= self.stride
    }

    /// Samples a few groups, so that the call is short.
    pub fn sample(&mut self, groups: &impl Groups, now: Tick) {
        let oldest = self.seen.saturating_sub(self.stride * (BEHIND_MAX - 1));
        self.drawn = (self.drawn + self.stride).max(oldest).min(self.seen);
        for _ in 0..draws(groups) {
            groups.sample(self.chance.bits(), now);
        }
    }

    /// Whether a training is due and there are enough samples.
    pub fn wants_training(&mut self, groups: &impl Groups, totals_now: &CacheTotals) -> bool {
        let entries = groups.extent().entries;
        self.schedule
            .is_due(totals_now.now, totals_now.requests, entries)
            && groups.sampled_before(self.schedule.mature_time(totals_now.now)) >= SAMPLES_MIN
    }

    /// Trains on the samples that have collected for long enough, and drops them.
    pub fn train(&mut self, groups: &impl Groups, totals_now: &CacheTotals) {
        let (mut rows, mut targets) = (Rows::new(FEATURES.len()), Vec::new());
        let mature = self.schedule.mature_time(totals_now.now);
        groups.take_samples(mature, &mut |features, utility| {
            rows.push(features);
            targets.push(utility as f32);
        });
        self.schedule.trained(totals_now.now, totals_now.requests);
        let wanted = groups.samples_max().max(1) as u64;
        let begun = std::mem::replace(&mut self.trained, self.seen);
        self.stride = ((self.seen - begun) * draws(groups))
            .div_ceil(wanted)
            .max(1);
        self.learning_stats.training_rows += targets.len() as u64;
        let learned = targets.len() - targets.len() / HELD_OUT_PART;
        let (mut first, mut last) = (Rows::new(FEATURES.len()), Rows::new(FEATURES.len()));
        for (index, row) in rows.iter().enumerate() {
            match index < learned {
                true => first.push(row),
                false => last.push(row),
            }
        }
        if self.regressor.train(&first, &targets[..learned]).is_err() {
            // The previous model stays in use, if there was one.
            self.learning_stats.failures += 1;
            return;
        }
        self.predictions.clear();
        self.regressor.predict(&last, &mut self.predictions);
        self.held_out = HeldOut::compare(&self.predictions, &targets[learned..]);
        let correlation = self
            .held_out
            .as_ref()
            .and_then(|compared| compared.correlation);
        self.is_valid = correlation.is_some_and(|compared| compared >= CORRELATION_MIN);
        match self.is_valid {
            true => self.learning_stats.trainings += 1,
            false => {
                self.learning_stats.failures += 1;
                groups.rank(&[], 0);
            }
        }
        self.is_new = self.is_valid;
        self.learned_at = Some(totals_now.now);
        self.learning_stats.trained_at = Some(totals_now.requests);
    }

    /// Whether a ranking is needed and there is a valid model.
    pub fn wants_ranking(&self, groups: &impl Groups) -> bool {
        let is_wanted = self.is_new || groups.wants_ranking();
        self.is_valid && is_wanted && self.named_none != Some(self.seen)
    }

    /// Ranks all groups and passes the least useful to the engine.
    pub fn rank<G: Groups>(&mut self, groups: &G, now: Tick) {
        let mut names: Vec<G::Name> = Vec::new();
        self.rows.clear();
        groups.each_group(now, &mut |name, features| {
            names.push(name);
            self.rows.push(features);
        });
        self.is_new = false;
        self.named_none = names.is_empty().then_some(self.seen);
        self.predictions.clear();
        self.regressor.predict(&self.rows, &mut self.predictions);
        self.learning_stats.inferences += 1;
        self.learning_stats.inference_rows += names.len() as u64;
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by(|&a, &b| self.predictions[a].total_cmp(&self.predictions[b]));
        let quota = ((names.len() as f32 * self.fraction) as usize).max(1);
        let least: Vec<G::Name> = order
            .into_iter()
            .take(AHEAD * quota)
            .map(|at| names[at])
            .collect();
        groups.rank(&least, quota);
    }

    /// Samples, trains and ranks, as far as each is due.
    pub fn turn(&mut self, groups: &impl Groups, totals_now: &CacheTotals) {
        self.observe(groups, totals_now);
        while self.wants_samples() {
            self.sample(groups, totals_now.now);
        }
        if self.wants_training(groups, totals_now) {
            self.train(groups, totals_now);
        }
        if self.wants_ranking(groups) {
            self.rank(groups, totals_now.now);
        }
    }
}

#[cfg(test)]
mod tests;
