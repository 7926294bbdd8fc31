//! One replay relative to FIFO, with the statistics of its policy's learning.

use super::Round;
use crate::{Learned, ReplayResult, Unit};
use serde::{Serialize, Serializer};
use std::time::Duration;

/// The figure that a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study {
    /// A figure or a table that a round consists of.
    Round(Round),
    /// The figure about a knob.
    Knob(&'static str),
}

impl Study {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        let name = |round: Round| {
            let mut all = Round::ALL.iter();
            all.find_map(|(other, name)| (*other == round).then_some(*name))
        };
        match self {
            Study::Round(round) => name(round).expect("all rounds have names"),
            Study::Knob(knob) => knob,
        }
    }
}

impl Serialize for Study {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One replay. Figures that need an equal one share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Replay {
    /// Name of the policy or engine, with its knobs.
    pub cache: String,
    pub unit: Unit,
    pub capacity: u64,
    /// Requests at the start that do not count.
    pub warm_up: u64,
    /// Positions of the features that are hidden from models.
    pub hidden: Vec<usize>,
    /// True if an entry of a policy takes the metadata that it has in the server.
    pub has_overhead: bool,
}

/// A row of a figure before its replay.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub study: Study,
    pub name: String,
    /// Value of a knob, or share of the trace that is not counted.
    pub value: Option<String>,
    pub size: String,
    pub replay: Replay,
}

/// Result of a replay, as a row of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Figure of the source.
    pub study: Study,
    /// Name of the trace.
    pub trace: String,
    /// Unit of the cache.
    pub unit: Unit,
    /// Size as given.
    pub size: String,
    /// Size in the unit.
    pub capacity: u64,
    /// Name in the figure.
    pub name: String,
    /// Name of the policy or engine, with its knobs.
    pub cache: String,
    /// Value of a knob, or share of the trace that is not counted.
    pub value: Option<String>,
    /// `None` if the cache is too small for the engine.
    pub hit_ratio: Option<f64>,
    /// Hit ratio by requested bytes, if the cache counts bytes.
    pub byte_hit_ratio: Option<f64>,
    /// Relative change of the hit ratio: (hit ratio − FIFO's) ÷ FIFO's.
    pub over_fifo: Option<f64>,
    /// Requests per second of CPU time.
    pub requests_per_second: Option<f64>,
    /// Throughput relative to FIFO's: requests per second ÷ FIFO's.
    pub relative_throughput: Option<f64>,
    /// Bytes of metadata per entry.
    pub bytes_per_entry: Option<f64>,
    /// Training and predictions, if the policy learns.
    pub learned: Option<Learning>,
}

/// Training and predictions of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Learning {
    /// Number of models trained.
    pub trainings: u64,
    /// Whether there were enough trainings for the result to depend on learning.
    pub is_trained: bool,
    /// Rows of all training data.
    pub training_rows: u64,
    /// Number of predictions.
    pub inferences: u64,
    /// Rows of all predictions.
    pub inference_rows: u64,
    /// Number of requests from the last training to the end.
    pub model_age: Option<u64>,
    /// Number of groups evicted.
    pub groups_evicted: u64,
    /// Share of training in the replay's CPU time.
    pub training_share: f64,
    /// Share of predictions in the replay's CPU time.
    pub inference_share: f64,
    /// Mean CPU time of a training in milliseconds.
    pub training_ms: Option<f64>,
    /// Mean CPU time of a prediction in milliseconds.
    pub inference_ms: Option<f64>,
    /// Bytes per entry that only learning needs.
    pub learning_bytes_per_entry: f64,
    /// Rank correlation of predictions for rows not seen in training with the outcomes.
    pub rank_correlation: Option<f64>,
    /// Mean prediction and mean outcome of each fifth of these rows, ordered by prediction, as
    /// multiples of the mean outcome.
    pub fifths: Vec<(f64, f64)>,
    /// Share of each feature in the splits of the last model.
    pub importances: Vec<(&'static str, f32)>,
}

impl Row {
    /// Creates the row of a replay, compared with FIFO's.
    pub(super) fn of(
        planned: &Planned,
        trace: &str,
        own: Option<&ReplayResult>,
        base: Option<&ReplayResult>,
    ) -> Row {
        let replay = &planned.replay;
        let hits = own.map(hit_ratio);
        let speed = own.and_then(speed_of);
        let of_bytes = own.filter(|_| replay.unit == Unit::Bytes);
        Row {
            study: planned.study,
            trace: trace.into(),
            unit: replay.unit,
            size: planned.size.clone(),
            capacity: replay.capacity,
            name: planned.name.clone(),
            cache: replay.cache.clone(),
            value: planned.value.clone(),
            hit_ratio: hits,
            byte_hit_ratio: of_bytes.map(|found| {
                let counts = &found.counts;
                1.0 - ratio(counts.missed_weight, counts.requested_weight).unwrap_or(0.0)
            }),
            over_fifo: hits
                .zip(base.map(hit_ratio))
                .filter(|(_, base)| *base > 0.0)
                .map(|(hits, base)| (hits - base) / base),
            requests_per_second: speed,
            relative_throughput: speed
                .zip(base.and_then(speed_of))
                .map(|(own, base)| own / base),
            bytes_per_entry: own.and_then(|found| ratio(found.metadata_bytes, found.held)),
            learned: own.and_then(|found| Some(learning(found, found.learned.as_deref()?))),
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn hit_ratio(found: &ReplayResult) -> f64 {
    1.0 - ratio(found.counts.misses, found.counts.requests).unwrap_or(1.0)
}

fn speed_of(found: &ReplayResult) -> Option<f64> {
    let seconds = found.cpu_time.as_secs_f64();
    (seconds > 0.0).then(|| found.replayed as f64 / seconds)
}

fn learning(found: &ReplayResult, learned: &Learned) -> Learning {
    let learning_stats = &learned.learning_stats;
    let all = found.cpu_time.as_secs_f64();
    let share = |time: Duration| match all > 0.0 {
        true => (time.as_secs_f64() / all).min(1.0),
        false => 0.0,
    };
    let each =
        |time: Duration, count: u64| (count > 0).then(|| time.as_secs_f64() * 1e3 / count as f64);
    Learning {
        trainings: learning_stats.trainings,
        is_trained: learned.is_trained(),
        training_rows: learning_stats.training_rows,
        inferences: learning_stats.inferences,
        inference_rows: learning_stats.inference_rows,
        model_age: learned.model_age,
        groups_evicted: learning_stats.groups_evicted,
        training_share: share(learned.training_time),
        inference_share: share(learned.inference_time),
        training_ms: each(
            learned.training_time,
            learning_stats.trainings + learning_stats.failures,
        ),
        inference_ms: each(learned.inference_time, learning_stats.inferences),
        learning_bytes_per_entry: learned.bytes_per_entry,
        rank_correlation: learned.correlation(),
        fifths: learned
            .fifths()
            .map_or(Vec::new(), |fifths| fifths.to_vec()),
        importances: learning_stats.importances.clone(),
    }
}
