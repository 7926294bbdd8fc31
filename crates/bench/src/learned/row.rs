//! One replay as the figures tell it: relative to FIFO, and what was learned.

use super::plan::{Study, Wanted};
use super::play::Player;
use super::traces::Told;
use crate::simulator::{Learning, Outcome, Unit};
use serde::Serialize;

/// A cache on a trace.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub study: Study,
    pub trace: String,
    pub unit: Unit,
    /// As a share of what all objects take, and in the unit.
    pub size: String,
    pub capacity: u64,
    pub name: String,
    /// As the simulator was told.
    pub cache: String,
    /// A knob's value, or the share of the trace that counted for nothing.
    pub value: Option<String>,
    /// Nothing where no such cache can be had at this size.
    pub hit_ratio: Option<f64>,
    /// By bytes asked for, where the cache counts them.
    pub byte_hit_ratio: Option<f64>,
    /// (hit ratio − FIFO's) ÷ FIFO's.
    pub over_fifo: Option<f64>,
    /// Requests in a second of CPU time, and the same ÷ FIFO's.
    pub requests_per_second: Option<f64>,
    pub relative_throughput: Option<f64>,
    /// What the algorithms keep for each entry.
    pub bytes_per_entry: Option<f64>,
    pub learned: Option<Taught>,
}

/// What was learned, where that was something.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Taught {
    pub trainings: u64,
    /// Whether these were enough that a result tells of learning.
    pub is_trained: bool,
    pub training_rows: u64,
    pub inferences: u64,
    pub inference_rows: u64,
    /// Requests since the last model was learned.
    pub model_age: Option<u64>,
    pub groups_evicted: u64,
    /// Shares of the replay's CPU time.
    pub training_share: f64,
    pub inference_share: f64,
    /// Milliseconds of CPU time for one of each.
    pub training_ms: Option<f64>,
    pub inference_ms: Option<f64>,
    /// What is there to learn and to predict alone, for each entry.
    pub learning_bytes_per_entry: f64,
    /// Of what was predicted of rows not seen before, and what came.
    pub rank_correlation: Option<f64>,
    /// Predicted and realised, by fifths of the predictions, ÷ the mean of what was realised.
    pub fifths: Vec<(f64, f64)>,
    pub importances: Vec<(&'static str, f32)>,
}

/// The row of what was wanted, once it was played.
pub(super) fn of(wanted: &Wanted, told: &Told, player: &Player) -> Row {
    let outcome = player.outcome(&wanted.order);
    let base = wanted.base().and_then(|base| player.outcome(&base));
    let hits = outcome.map(hit_ratio);
    let speed = outcome.and_then(speed_of);
    Row {
        study: wanted.study,
        trace: told.name.clone(),
        unit: wanted.order.unit,
        size: wanted.size.clone(),
        capacity: wanted.order.capacity,
        name: wanted.name.clone(),
        cache: wanted.order.cache.clone(),
        value: wanted.value.clone(),
        hit_ratio: hits,
        byte_hit_ratio: outcome
            .filter(|_| wanted.order.unit == Unit::Bytes)
            .map(|o| 1.0 - ratio(o.missed_weight, o.requested_weight).unwrap_or(0.0)),
        over_fifo: hits
            .zip(base.map(hit_ratio))
            .filter(|(_, base)| *base > 0.0)
            .map(|(hits, base)| (hits - base) / base),
        requests_per_second: speed,
        relative_throughput: speed
            .zip(base.and_then(speed_of))
            .map(|(own, base)| own / base),
        bytes_per_entry: outcome.and_then(|o| ratio(o.metadata_bytes, o.held)),
        learned: outcome.and_then(|o| Some(taught(o, o.learned.as_ref()?))),
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn hit_ratio(outcome: &Outcome) -> f64 {
    1.0 - ratio(outcome.misses, outcome.requests).unwrap_or(1.0)
}

fn speed_of(outcome: &Outcome) -> Option<f64> {
    let seconds = outcome.cpu_time.as_secs_f64();
    (seconds > 0.0).then(|| outcome.replayed as f64 / seconds)
}

fn taught(outcome: &Outcome, learned: &Learning) -> Taught {
    let lessons = &learned.lessons;
    let all = outcome.cpu_time.as_secs_f64();
    let share = |time: std::time::Duration| match all > 0.0 {
        true => (time.as_secs_f64() / all).min(1.0),
        false => 0.0,
    };
    let each = |time: std::time::Duration, count: u64| {
        (count > 0).then(|| time.as_secs_f64() * 1e3 / count as f64)
    };
    let trainings = lessons.trainings + lessons.failures;
    Taught {
        trainings: lessons.trainings,
        is_trained: learned.is_trained,
        training_rows: lessons.training_rows,
        inferences: lessons.inferences,
        inference_rows: lessons.inference_rows,
        model_age: learned.model_age,
        groups_evicted: lessons.groups_evicted,
        training_share: share(learned.training_time),
        inference_share: share(learned.inference_time),
        training_ms: each(learned.training_time, trainings),
        inference_ms: each(learned.inference_time, lessons.inferences),
        learning_bytes_per_entry: learned.bytes_per_entry,
        rank_correlation: learned.correlation,
        fifths: learned.fifths.clone(),
        importances: lessons.importances.clone(),
    }
}

impl Row {
    /// Where it was measured: trace, what was counted, size.
    pub(super) fn place(&self) -> [String; 3] {
        [
            self.trace.clone(),
            self.unit.name().into(),
            self.size.clone(),
        ]
    }

    /// The same in a line.
    pub(super) fn place_line(&self) -> String {
        format!("{} by {}, {}", self.trace, self.unit.name(), self.size)
    }
}
