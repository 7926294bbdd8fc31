//! Learns about the groups of an engine that evicts by itself: what GL-Cache does beside the requests.
//!
//! It is told what the cache has done, takes samples as groups are written, trains when that is due, and ranks groups when the engine
//! has used the ranking before up. Each is a call of its own, and a short one where it can be, so that a server with a budget can
//! leave one undone; the simulator does all at once. What was left undone is done later, within bounds: nothing here piles up.
//!
//! It goes by the clock: who tells it the same time for ever teaches it nothing, for no sample has collected for any time. (`mayfly`
//! gives a rate to traces that tell no times.)
//!
//! # Guard
//! The newest quarter of the samples is kept out of a training. A model that does not order them as they came, by a rank
//! correlation of [`CORRELATION_MIN`] at least, is not believed: what the one before it had ranked is taken back, nothing is ranked
//! until there is a better one, and the engine goes on without.

use crate::features::{FEATURES, Totals, Window};
use crate::held_out::HeldOut;
use crate::schedule::{Interval, Schedule};
use crate::stats::LearningStats;
use crate::{Boosting, Maker, Regressor, Rows};
use policy::Tick;
use policy::groups::Groups;
use policy::parts::chance::Chance;

/// Fewer samples teach noise.
const SAMPLES_MIN: usize = 128;
/// Samples wanted of as many groups as the cache holds: more of each where there are few.
const SAMPLES_WANTED: u64 = 256;
const DRAWS_MIN: u64 = 2;
const DRAWS_MAX: u64 = 8;
/// Calls that make up for samples that were left undone; what is older than that is too late.
const BEHIND_MAX: u64 = 8;
/// One part of the samples in so many judges what was learned of the others.
const JUDGES: usize = 4;
/// What a model must come to there.
pub const CORRELATION_MIN: f64 = 0.1;
/// A ranking names so many times as many groups as go before the next one is wanted.
const AHEAD: usize = 2;

/// Groups sampled at once.
fn draws(groups: &impl Groups) -> u64 {
    (SAMPLES_WANTED / groups.extent().groups.max(1)).clamp(DRAWS_MIN, DRAWS_MAX)
}

/// How it learns.
#[derive(Clone, Copy, Debug)]
pub struct Tutoring {
    /// When it trains.
    pub interval: Interval,
    /// The share of groups that go before they are ranked anew.
    pub fraction: f32,
    /// Determines which groups are sampled.
    pub seed: u64,
    /// What makes the model.
    pub maker: Maker,
}

impl Default for Tutoring {
    fn default() -> Self {
        Tutoring {
            interval: Interval::Auto,
            fraction: 0.05,
            seed: 1,
            maker: Maker::default(),
        }
    }
}

/// What a cache has done so far, as its host has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The time.
    pub now: Tick,
    /// Requests.
    pub requests: u64,
    /// Those of them that found nothing.
    pub misses: u64,
}

/// See the module text.
pub struct Tutor {
    regressor: Box<dyn Regressor>,
    /// Whether the model that there is has shown that it predicts anything.
    is_believed: bool,
    /// Whether that has ranked nothing yet: what the one before it had ranked is still obeyed.
    is_new: bool,
    /// Groups begun when a ranking named none of them: until others are, the next one would name none.
    named_none: Option<u64>,
    schedule: Schedule,
    window: Window,
    chance: Chance,
    fraction: f32,
    has_begun: bool,
    /// Groups begun when it last looked, when samples were last drawn, and at the last training.
    seen: u64,
    drawn: u64,
    trained: u64,
    /// Samples are drawn each time that so many groups were begun.
    stride: u64,
    lessons: LearningStats,
    learned_at: Option<Tick>,
    held_out: Option<HeldOut>,
    rows: Rows,
    predictions: Vec<f32>,
}

impl Tutor {
    /// One that has learned nothing.
    pub fn new(tutoring: &Tutoring) -> Tutor {
        Tutor {
            regressor: (tutoring.maker.0)(&Boosting::default()),
            is_believed: false,
            is_new: false,
            named_none: None,
            schedule: Schedule::new(tutoring.interval),
            window: Window::default(),
            chance: Chance::new(tutoring.seed),
            fraction: tutoring.fraction,
            has_begun: false,
            seen: 0,
            drawn: 0,
            trained: 0,
            stride: 1,
            lessons: LearningStats::default(),
            learned_at: None,
            held_out: None,
            rows: Rows::new(FEATURES.len()),
            predictions: Vec::new(),
        }
    }

    /// Whether there is a model that is believed.
    pub fn is_trained(&self) -> bool {
        self.is_believed
    }

    /// What it did.
    pub fn lessons(&self) -> LearningStats {
        let mut lessons = self.lessons.clone();
        let shares = self.regressor.importances();
        lessons.importances = FEATURES.into_iter().zip(shares).collect();
        lessons.learning_bytes = self.heap_bytes() as u64;
        lessons
    }

    /// What the model that was learned last said of samples that it had not seen.
    pub fn held_out(&self) -> Option<&HeldOut> {
        self.held_out.as_ref()
    }

    /// When the last model was learned.
    pub fn learned_at(&self) -> Option<Tick> {
        self.learned_at
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.regressor.heap_bytes()
            + self.rows.heap_bytes()
            + self.predictions.capacity() * size_of::<f32>()
    }

    /// Hears what the cache has done. Groups that are begun from now on remember how it works.
    pub fn hear(&mut self, groups: &impl Groups, heard: &Heard) {
        let extent = groups.extent();
        let totals = Totals {
            at: heard.now,
            requests: heard.requests,
            misses: heard.misses,
            writes: extent.writes,
        };
        if !self.has_begun {
            self.has_begun = true;
            self.schedule.begin(heard.now, heard.requests);
            self.window.begin(totals);
            (self.seen, self.drawn, self.trained) = (extent.begun, extent.begun, extent.begun);
        } else if extent.begun != self.seen {
            self.window.turn(totals);
            groups.set_rates(self.window.rates());
            self.seen = extent.begun;
        }
    }

    /// Whether groups were written of which none was sampled.
    pub fn wants_samples(&self) -> bool {
        self.seen - self.drawn >= self.stride
    }

    /// Samples some groups: few, so that a call stays short.
    pub fn sample(&mut self, groups: &impl Groups, now: Tick) {
        let oldest = self.seen.saturating_sub(self.stride * (BEHIND_MAX - 1));
        self.drawn = (self.drawn + self.stride).max(oldest).min(self.seen);
        for _ in 0..draws(groups) {
            groups.sample(self.chance.bits(), now);
        }
    }

    /// Whether it is time to train, and there is enough to learn from.
    pub fn wants_training(&mut self, groups: &impl Groups, heard: &Heard) -> bool {
        let entries = groups.extent().entries;
        self.schedule.is_due(heard.now, heard.requests, entries)
            && groups.sampled_before(self.schedule.mature_time(heard.now)) >= SAMPLES_MIN
    }

    /// Learns from the samples that have collected for long enough, and forgets them.
    pub fn train(&mut self, groups: &impl Groups, heard: &Heard) {
        let (mut rows, mut targets) = (Rows::new(FEATURES.len()), Vec::new());
        let mature = self.schedule.mature_time(heard.now);
        groups.take_samples(mature, &mut |features, utility| {
            rows.push(features);
            targets.push(utility as f32);
        });
        self.schedule.trained(heard.now, heard.requests);
        let wanted = groups.samples_max().max(1) as u64;
        let begun = std::mem::replace(&mut self.trained, self.seen);
        self.stride = ((self.seen - begun) * draws(groups))
            .div_ceil(wanted)
            .max(1);
        self.lessons.training_rows += targets.len() as u64;
        let learned = targets.len() - targets.len() / JUDGES;
        let (mut first, mut last) = (Rows::new(FEATURES.len()), Rows::new(FEATURES.len()));
        for (index, row) in rows.iter().enumerate() {
            match index < learned {
                true => first.push(row),
                false => last.push(row),
            }
        }
        if self.regressor.train(&first, &targets[..learned]).is_err() {
            // The model before, if there was one, goes on.
            self.lessons.failures += 1;
            return;
        }
        self.predictions.clear();
        self.regressor.predict(&last, &mut self.predictions);
        self.held_out = HeldOut::compare(&self.predictions, &targets[learned..]);
        let correlation = self.held_out.as_ref().and_then(|told| told.correlation);
        self.is_believed = correlation.is_some_and(|told| told >= CORRELATION_MIN);
        match self.is_believed {
            true => self.lessons.trainings += 1,
            false => {
                self.lessons.failures += 1;
                groups.rank(&[], 0);
            }
        }
        self.is_new = self.is_believed;
        self.learned_at = Some(heard.now);
        self.lessons.trained_at = Some(heard.requests);
    }

    /// Whether a ranking would be of use, and there is a model to make it.
    pub fn wants_ranking(&self, groups: &impl Groups) -> bool {
        let is_wanted = self.is_new || groups.wants_ranking();
        self.is_believed && is_wanted && self.named_none != Some(self.seen)
    }

    /// Says which groups are worth least.
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
        self.lessons.inferences += 1;
        self.lessons.inference_rows += names.len() as u64;
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

    /// All that there is to do, at once.
    pub fn turn(&mut self, groups: &impl Groups, heard: &Heard) {
        self.hear(groups, heard);
        while self.wants_samples() {
            self.sample(groups, heard.now);
        }
        if self.wants_training(groups, heard) {
            self.train(groups, heard);
        }
        if self.wants_ranking(groups) {
            self.rank(groups, heard.now);
        }
    }
}

#[cfg(test)]
mod tests;
