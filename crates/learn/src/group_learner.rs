//! Learner of the utility of an engine's groups: the part of GL-Cache that is outside of the
//! engine. It is experimental, like the engine's eviction `gl-cache`.
//!
//! The host reports the work of the cache. The learner samples groups as they are written, trains
//! when that is due, and ranks groups when the engine has used up the previous ranking. Each of
//! these is a separate call, as short as possible, so that a server with a time budget can postpone
//! it; the simulator makes all calls at once. Postponed work is done later, within bounds, and does
//! not accumulate.
//!
//! It depends on the clock: if the time never changes, samples never become old enough and nothing
//! is learned. (`mayfly` assigns a request rate to traces without timestamps.)
//!
//! # Validation
//! Each training holds out the newest quarter of the samples. If the model's predictions for them
//! have a rank correlation below [`CORRELATION_MIN`] with the observed utilities, the model fails:
//! the previous model's ranking is withdrawn, and nothing is ranked until a training succeeds.
//! Until then, the engine evicts without a ranking.

use crate::boosted::{Boosting, Maker};
use crate::features::{FEATURES, Totals, Window};
use crate::held_out::HeldOut;
use crate::regressor::{Regressor, Rows};
use crate::schedule::{Interval, Schedule};
use crate::stats::LearningStats;
use policy::Tick;
use policy::groups::Groups;
use policy::parts::chance::Chance;

/// Minimum number of samples for a training. With fewer, the model predicts badly.
const SAMPLES_MIN: usize = 128;
/// Number of samples to take while as many groups are written as the cache holds. If that is only a
/// few groups, several samples are taken at a time.
const SAMPLES_WANTED: u64 = 256;
const DRAWS_MIN: u64 = 2;
const DRAWS_MAX: u64 = 8;
/// Maximum number of missed calls of `sample` that are made up for. Older groups are no longer
/// sampled.
const BEHIND_MAX: u64 = 8;
/// Reciprocal of the share of samples held out for validation.
const HELD_OUT_PART: usize = 4;
/// Minimum rank correlation of a valid model.
pub const CORRELATION_MIN: f64 = 0.1;
/// Ratio of the number of groups that a ranking names to the number evicted before the next ranking
/// is requested.
const AHEAD: usize = 2;

/// Returns the number of groups to sample at once.
fn draws(groups: &impl Groups) -> u64 {
    (SAMPLES_WANTED / groups.extent().groups.max(1)).clamp(DRAWS_MIN, DRAWS_MAX)
}

/// Configuration of a learner.
#[derive(Clone, Copy, Debug)]
pub struct GroupLearnerConfig {
    /// Interval between two trainings.
    pub interval: Interval,
    /// Share of the groups evicted before all groups are ranked again.
    pub fraction: f32,
    /// Seed for the choice of sampled groups.
    pub seed: u64,
    /// Function that creates the model.
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

/// Counters of a cache, as its host reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Present time.
    pub now: Tick,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that missed.
    pub misses: u64,
}

/// Learner that predicts the utility of groups and ranks them. The module text describes how a host
/// calls it.
pub struct GroupLearner {
    regressor: Box<dyn Regressor>,
    /// Whether the current model passed the validation on held-out samples.
    is_valid: bool,
    /// Whether the current model has not ranked yet, in which case the previous model's ranking is
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
    /// Number of groups begun at the last report.
    seen: u64,
    /// Number of groups begun when samples were last drawn.
    drawn: u64,
    /// Number of groups begun at the last training.
    trained: u64,
    /// Number of groups begun between two draws of samples.
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

    /// Returns true if there is a valid model.
    pub fn is_trained(&self) -> bool {
        self.is_valid
    }

    /// Returns the counters of trainings and predictions.
    pub fn learning_stats(&self) -> LearningStats {
        let mut learning_stats = self.learning_stats.clone();
        let shares = self.regressor.importances();
        learning_stats.importances = FEATURES.into_iter().zip(shares).collect();
        learning_stats.learning_bytes = self.heap_bytes() as u64;
        learning_stats
    }

    /// Returns the last model's predictions for held-out samples, compared with the observed
    /// utilities.
    pub fn held_out(&self) -> Option<&HeldOut> {
        self.held_out.as_ref()
    }

    /// Returns the time at which the last model was trained.
    pub fn learned_at(&self) -> Option<Tick> {
        self.learned_at
    }

    /// Returns the heap memory in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.regressor.heap_bytes()
            + self.rows.heap_bytes()
            + self.predictions.capacity() * size_of::<f32>()
    }

    /// Reports the counters of the cache. Groups begun from now on store the current rates as
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
            self.window.group_filled(totals);
            groups.set_rates(self.window.rates());
            self.seen = extent.begun;
        }
    }

    /// Returns true if groups were written since samples were last drawn.
    pub fn wants_samples(&self) -> bool {
        self.seen - self.drawn >= self.stride
    }

    /// Samples a few groups, which keeps the call short.
    pub fn sample(&mut self, groups: &impl Groups, now: Tick) {
        let oldest = self.seen.saturating_sub(self.stride * (BEHIND_MAX - 1));
        self.drawn = (self.drawn + self.stride).max(oldest).min(self.seen);
        for _ in 0..draws(groups) {
            groups.sample(self.chance.bits(), now);
        }
    }

    /// Returns true if a training is due and there are enough samples.
    pub fn wants_training(&mut self, groups: &impl Groups, totals_now: &CacheTotals) -> bool {
        let entries = groups.extent().entries;
        self.schedule
            .is_due(totals_now.now, totals_now.requests, entries)
            && groups.sampled_before(self.schedule.mature_time(totals_now.now)) >= SAMPLES_MIN
    }

    /// Trains the model on the samples that have collected for long enough, and removes them.
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
            // The previous model, if any, stays in use.
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

    /// Returns true if a ranking is needed and there is a valid model.
    pub fn wants_ranking(&self, groups: &impl Groups) -> bool {
        let is_wanted = self.is_new || groups.wants_ranking();
        self.is_valid && is_wanted && self.named_none != Some(self.seen)
    }

    /// Ranks all groups and passes the least useful ones to the engine.
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

    /// Samples, trains and ranks as far as each is due.
    pub fn do_due_work(&mut self, groups: &impl Groups, totals_now: &CacheTotals) {
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
