//! Rows of INFO's sections about the segment engine.

use super::report::{Learner, Report};
use super::row::Exporter::Lacks;
use super::row::Reason::{Distribution, Momentary, Repeats, Text};
use super::row::Value::{self, Decimal, Lines};
use super::row::{Export::Label, Export::No, Row, counter, gauge, row};
use ::segment::Stats;
use engine::segment::learning::State;

/// With the slab engine, only the first row is present.
#[rustfmt::skip]
pub(super) const ENGINE: &[Row] = &[
    row("engine", |info| if info.segments().is_some() { "segment" } else { "slab" }.into(), Label("engine")),
    row("segment_eviction", |info| info.segments().map(|_| info.server.data.engine().eviction_name(&info.server.config)).into(), No(Text)),
    row("segment_bytes", |info| of_stats(info, |stats| stats.segment_bytes), gauge("segment_size_bytes", "Size of a segment.", Lacks)),
    row("segments_held", |info| of_stats(info, |stats| stats.segments_held), gauge("segments_held", "Number of segments that hold objects.", Lacks)),
    row("segments_free", |info| of_stats(info, |stats| stats.segments_free), gauge("segments_free", "Number of free segments.", Lacks)),
    row("segments_table", |info| of_stats(info, |stats| stats.segments_table), gauge("segments_table", "Number of segments that hold the hash table.", Lacks)),
    row("objects", |info| of_stats(info, |stats| stats.items), gauge("segment_objects", "Number of objects in segments.", Lacks)),
    row("object_bytes", |info| of_stats(info, |stats| stats.live_bytes), gauge("segment_object_bytes", "Bytes of objects that can be found.", Lacks)),
    row("object_bytes_appended", |info| of_stats(info, |stats| stats.used_bytes), gauge("segment_appended_bytes", "Bytes of segments taken by objects, including removed ones.", Lacks)),
    row("table_chains", |info| of_stats(info, |stats| stats.table_chains), gauge("segment_table_chains", "Number of chains of the hash table.", Lacks)),
    row("table_lines", |info| of_stats(info, |stats| stats.table_lines), gauge("segment_table_lines", "Number of cache lines of the hash table in use.", Lacks)),
    row("directory_bytes", |info| of_stats(info, |stats| stats.directory_bytes), gauge("segment_directory_bytes", "Bytes of directories, headers and writers.", Lacks)),
    row("taken_bytes", |info| of_stats(info, |stats| stats.memory_bytes), gauge("segment_taken_bytes", "Bytes taken from the system.", Lacks)),
    row("objects_expired", |info| of_stats(info, |stats| stats.expired), counter("segment_objects_expired", "Number of objects removed because their deadline had passed.", Lacks)),
    row("objects_evicted", |info| of_stats(info, |stats| stats.evicted), counter("segment_objects_evicted", "Number of evicted objects.", Lacks)),
    row("objects_flushed", |info| of_stats(info, |stats| stats.flushed), counter("segment_objects_flushed", "Number of objects removed by a flush.", Lacks)),
    row("objects_kept", |info| of_stats(info, |stats| stats.kept), counter("segment_objects_kept", "Number of objects kept by merges.", Lacks)),
    row("objects_crowded_out", |info| of_stats(info, |stats| stats.crowded_out), counter("segment_objects_crowded_out", "Number of objects dropped because their chain of the hash table was full.", Lacks)),
    row("merges", |info| of_stats(info, |stats| stats.merges), counter("segment_merges", "Number of merges of segments.", Lacks)),
    row("segments_evicted", |info| of_stats(info, |stats| stats.segments_evicted), counter("segments_evicted", "Number of evicted segments.", Lacks)),
    row("segments_expired", |info| of_stats(info, |stats| stats.segments_expired), counter("segments_expired", "Number of segments removed because their deadline had passed.", Lacks)),
    row("expiry_scans", |info| of_stats(info, |stats| stats.expiry_scans), counter("segment_expiry_scans", "Number of searches for expired segments.", Lacks)),
    row("expiry_heads_read", |info| of_stats(info, |stats| stats.heads_read), counter("segment_expiry_heads_read", "Number of segments that these searches have examined.", Lacks)),
];

fn of_stats(info: &Report<'_>, number: fn(&Stats) -> u64) -> Value {
    info.segment_stats().map(number).into()
}

/// With the slab engine, only the first row is present.
#[rustfmt::skip]
pub(super) const LEARNING: &[Row] = &[
    row("learning_state", |info| info.learner().map_or(State::Off, |learner| learner.state).name().into(), No(Text)),
    row("learning_model_age_seconds", model_age, gauge("learning_model_age_seconds", "Age of the learned model; -1 without one.", Lacks)),
    row("learning_trainings", |info| of_learner(info, |learner| learner.learning_stats.trainings.into()), counter("learning_trainings", "Number of trainings.", Lacks)),
    row("learning_failures", |info| of_learner(info, |learner| learner.learning_stats.failures.into()), counter("learning_failures", "Number of failed trainings.", Lacks)),
    row("learning_trainings_postponed", |info| of_learner(info, |learner| learner.trainings_postponed.into()), counter("learning_trainings_postponed", "Number of trainings that were postponed for lack of time.", Lacks)),
    row("learning_training_samples", |info| of_learner(info, |learner| learner.learning_stats.training_rows.into()), gauge("learning_training_samples", "Number of samples of the last training.", Lacks)),
    row("learning_rankings", |info| of_learner(info, |learner| learner.learning_stats.inferences.into()), counter("learning_rankings", "Number of rankings of segments.", Lacks)),
    row("learning_rankings_postponed", |info| of_learner(info, |learner| learner.rankings_postponed.into()), counter("learning_rankings_postponed", "Number of rankings that were postponed for lack of time.", Lacks)),
    row("learning_segments_evicted", evicted_by_rankings, counter("learning_segments_evicted", "Number of segments evicted by a learned ranking.", Lacks)),
    row("learning_bytes", |info| learning_bytes(info).into(), gauge("learning_memory_bytes", "Memory of learning.", Lacks)),
    row("learning_cpu_milliseconds", |info| of_learner(info, |learner| (learner.cpu.as_millis() as u64).into()), counter("learning_cpu_seconds", "CPU time of learning.", Lacks).times(1e-3)),
    row("learning_bytes_per_object", bytes_per_object, No(Repeats)),
    row("learning_cpu_percent", |info| of_learner(info, |learner| Decimal(100.0 * ratio(learner.cpu.as_secs_f64(), learner.span.as_secs_f64()), 2)), No(Repeats)),
    row("learning_importance_", |info| of_learner(info, importances), No(Distribution)),
    row("learning_correlation", |info| of_learner(info, |learner| learner.held_out.as_ref().map_or(Value::Absent, |held_out| Decimal(held_out.correlation.unwrap_or(0.0), 3))), No(Momentary)),
    row("learning_predicted_by_fifths", |info| of_learner(info, |learner| learner.held_out.as_ref().map(|held_out| fifths(&held_out.predicted)).into()), No(Distribution)),
    row("learning_realised_by_fifths", |info| of_learner(info, |learner| learner.held_out.as_ref().map(|held_out| fifths(&held_out.realised)).into()), No(Distribution)),
];

fn of_learner(info: &Report<'_>, value: fn(&Learner) -> Value) -> Value {
    info.learner().map_or(Value::Absent, value)
}

/// Age of the model in seconds, or −1.
fn model_age(info: &Report<'_>) -> Value {
    let now_ms = info.now_us / 1000;
    let age_s = |at_ms: u64| (now_ms.saturating_sub(at_ms) / 1000) as i64;
    let learner = info.learner();
    learner
        .map(|learner| learner.learned_at.map_or(-1, |at| age_s(at.0)))
        .into()
}

fn evicted_by_rankings(info: &Report<'_>) -> Value {
    let both = info.learner().zip(info.segment_stats());
    both.map(|(learner, stats)| stats.segments_ranked.saturating_sub(learner.ranked_before))
        .into()
}

fn learning_bytes(info: &Report<'_>) -> Option<u64> {
    let (learner, segments) = (info.learner()?, info.segments()?);
    Some(segments.cache.learning_bytes() + learner.learning_stats.learning_bytes)
}

fn bytes_per_object(info: &Report<'_>) -> Value {
    let both = learning_bytes(info).zip(info.segment_stats());
    both.map_or(Value::Absent, |(bytes, stats)| {
        Decimal(ratio(bytes as f64, stats.items as f64), 3)
    })
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn importances(learner: &Learner) -> Value {
    let all = learner.learning_stats.importances.iter();
    Lines(
        all.map(|(name, share)| (name.replace(' ', "_"), format!("{share:.3}")))
            .collect(),
    )
}

fn fifths(values: &[f64]) -> String {
    let values = values.iter().map(|value| format!("{value:.3e}"));
    values.collect::<Vec<_>>().join(",")
}
