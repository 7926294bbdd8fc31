//! INFO's sections about the segment engine.

use crate::engine::Facts;
use crate::engine::segment::Segments;
use crate::engine::segment::learning::State;
use crate::info::report::Report;
use std::sync::atomic::Ordering::Relaxed;
use store::Tick;

/// Writes the section Engine.
pub fn section(report: &mut Report<'_>) {
    let server = report.server;
    let Some(segments) = &server.segments else {
        return report.field("engine", "slab");
    };
    let stats = segments.cache.stats();
    report.field("engine", "segment");
    report.field(
        "segment_eviction",
        server.engine().eviction_name(&server.config),
    );
    for (name, number) in [
        ("segment_bytes", stats.segment_bytes),
        ("segments_held", stats.segments_held),
        ("segments_free", stats.segments_free),
        ("segments_table", stats.segments_table),
        ("objects", stats.items),
        ("object_bytes", stats.live_bytes),
        ("object_bytes_appended", stats.used_bytes),
        ("table_chains", stats.table_chains),
        ("table_lines", stats.table_lines),
        ("directory_bytes", stats.directory_bytes),
        ("taken_bytes", stats.memory_bytes),
        ("objects_expired", stats.expired),
        ("objects_evicted", stats.evicted),
        ("objects_flushed", stats.flushed),
        ("objects_kept", stats.kept),
        ("objects_crowded_out", stats.crowded_out),
        ("merges", stats.merges),
        ("segments_evicted", stats.segments_evicted),
        ("segments_expired", stats.segments_expired),
        ("expiry_scans", stats.expiry_scans),
        ("expiry_heads_read", stats.heads_read),
    ] {
        report.field(name, number);
    }
}

/// Writes the section Learning.
pub fn learning(report: &mut Report<'_>) {
    let Some(segments) = &report.server.segments else {
        return report.field("learning_state", State::Off.name());
    };
    let learner = segments.learning.report().clone();
    let stats = segments.cache.stats();
    let by_rankings = stats.segments_ranked.saturating_sub(learner.ranked_before);
    report.field("learning_state", learner.state.name());
    let now_ms = report.now_us / 1000;
    let age_s = learner
        .learned_at
        .map_or(-1, |at| (now_ms.saturating_sub(at.0) / 1000) as i64);
    report.field("learning_model_age_seconds", age_s);
    let bytes = segments.cache.learning_bytes() + learner.learning_stats.learning_bytes;
    for (name, number) in [
        ("learning_trainings", learner.learning_stats.trainings),
        ("learning_failures", learner.learning_stats.failures),
        ("learning_trainings_postponed", learner.trainings_postponed),
        (
            "learning_training_samples",
            learner.learning_stats.training_rows,
        ),
        ("learning_rankings", learner.learning_stats.inferences),
        ("learning_rankings_postponed", learner.rankings_postponed),
        ("learning_segments_evicted", by_rankings),
        ("learning_bytes", bytes),
        ("learning_cpu_milliseconds", learner.cpu.as_millis() as u64),
    ] {
        report.field(name, number);
    }
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let by_object = share(bytes as f64, stats.items as f64);
    report.field("learning_bytes_per_object", format_args!("{by_object:.3}"));
    let percent = 100.0 * share(learner.cpu.as_secs_f64(), learner.span.as_secs_f64());
    report.field("learning_cpu_percent", format_args!("{percent:.2}"));
    for (name, share) in &learner.learning_stats.importances {
        let name = format!("learning_importance_{}", name.replace(' ', "_"));
        report.field(&name, format_args!("{share:.3}"));
    }
    if let Some(held_out) = &learner.held_out {
        let correlation = held_out.correlation.unwrap_or(0.0);
        report.field("learning_correlation", format_args!("{correlation:.3}"));
        let fifths = |values: &[f64]| {
            let values = values.iter().map(|value| format!("{value:.3e}"));
            values.collect::<Vec<_>>().join(",")
        };
        report.field("learning_predicted_by_fifths", fifths(&held_out.predicted));
        report.field("learning_realised_by_fifths", fifths(&held_out.realised));
    }
}

/// Writes the section Expiry for the segment engine.
pub fn expiry(report: &mut Report<'_>, segments: &Segments) {
    let server = report.server;
    let census = segments.cache.census(Tick(report.now_us / 1000));
    let counters = segments.counters(&server.stats);
    let lag = server.stats.expiry_lag();
    report.field("expiry_index", "segments");
    // A read never returns an expired key. Its memory is freed at the end of its segment's TTL
    // class at the latest.
    report.field("expiry_granularity_ms", "by_ttl");
    report.field("expiry_width_ms_below_4s", 25);
    report.field("expiry_width_ms_below_64s", 500);
    report.field("expiry_width_ms_below_2048s", 8_000);
    report.field("expiry_width_ms_below_32768s", 128_000);
    report.field("expiry_width_ms_below_524288s", 2_048_000);
    report.field("expiry_width_ms_above", 32_768_000);
    report.field("keys_with_ttl", census.with_deadline_count);
    report.field("expired_backlog_keys", census.dead);
    report.field("expired_backlog_bytes", census.dead_bytes);
    report.field("expiry_lag_samples", lag.total);
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        report.field(&format!("expiry_lag_us_{name}"), lag.percentile(share));
    }
    report.field("expiry_lag_us_max", lag.max);
    report.field("expired_per_second", server.stats.rates().expired_keys);
    report.field("expired_keys", counters.expired_keys);
    let slices = server.stats.workers.iter();
    let longest = slices.map(|worker| worker.expiry_slice_us_max.load(Relaxed));
    report.field("expiry_slice_us_max", longest.max().unwrap_or(0));
}
