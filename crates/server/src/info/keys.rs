//! Rows of INFO about keys: databases, sizes of values, and expiry.

use super::report::Report;
use super::row::Export::{Label, No};
use super::row::Exporter::Lacks;
use super::row::Reason::{Constant, Distribution, Repeats};
use super::row::Value::{self, Lines};
use super::row::{Row, gauge, row};
use settings::Id;
use std::sync::atomic::Ordering::Relaxed;
use store::{Kind, Tick};

#[rustfmt::skip]
pub(super) const KEYSPACE: &[Row] = &[
    row("db", databases, No(Distribution)),
];

pub(super) fn databases(info: &Report<'_>) -> Value {
    let mut lines = Vec::new();
    for db in 0..info.server.data.engine().databases() {
        let facts = info.db_facts(db as u8);
        if facts.keys == 0 {
            continue;
        }
        let (keys, expires, mean) = (facts.keys, facts.with_deadline, facts.mean_ttl_ms);
        let parts = facts.with_element_deadlines;
        let text = format!("keys={keys},expires={expires},avg_ttl={mean},subexpiry={parts}");
        lines.push((db.to_string(), text));
    }
    Lines(lines)
}

#[rustfmt::skip]
pub(super) const KEY_SIZES: &[Row] = &[
    row("db", key_sizes, No(Distribution)),
];

fn key_sizes(info: &Report<'_>) -> Value {
    let now = Tick(info.now_us / 1000);
    let keyspace = &info.server.data.keyspace;
    let mut lines = Vec::new();
    for db in 0..keyspace.databases() {
        let db = db as u8;
        if keyspace.db_facts(db, now).keys == 0 {
            continue;
        }
        for (kind, counts) in keyspace.size_histograms(db, now) {
            let name = match kind {
                Kind::String => "strings_sizes",
                Kind::List => "lists_items",
                Kind::Set => "sets_items",
                Kind::SortedSet => "zsets_items",
                Kind::Hash => "hashes_items",
                Kind::Stream => continue,
            };
            let bins = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            let bins: Vec<String> = bins
                .map(|(bin, count)| format!("{}={count}", size_label(bin)))
                .collect();
            if !bins.is_empty() {
                lines.push((format!("{db}_distrib_{name}"), bins.join(",")));
            }
        }
    }
    Lines(lines)
}

/// Returns the least size of a bin of a histogram: 0, 1, 2, 4, … 512, 1K, 2K, …
fn size_label(bin: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bin.checked_sub(1) {
        None => "0".into(),
        Some(power) => format!("{}{}", 1u32 << (power % 10), UNITS[power / 10]),
    }
}

#[rustfmt::skip]
pub(super) const EXPIRY: &[Row] = &[
    row("expiry_index", expiry_index, Label("expiry_index")),
    row("expiry_granularity_ms", granularity, gauge("expiry_granularity_seconds", "Time by which the expiry index may return a key too late.", Lacks).times(1e-3)),
    // With the segment engine, memory of an expired key is freed at the end of its segment's TTL
    // class at the latest. The next six are the widths of these classes by TTL.
    row("expiry_width_ms_below_4s", |info| info.segments().map(|_| 25).into(), No(Constant)),
    row("expiry_width_ms_below_64s", |info| info.segments().map(|_| 500).into(), No(Constant)),
    row("expiry_width_ms_below_2048s", |info| info.segments().map(|_| 8_000).into(), No(Constant)),
    row("expiry_width_ms_below_32768s", |info| info.segments().map(|_| 128_000).into(), No(Constant)),
    row("expiry_width_ms_below_524288s", |info| info.segments().map(|_| 2_048_000).into(), No(Constant)),
    row("expiry_width_ms_above", |info| info.segments().map(|_| 32_768_000).into(), No(Constant)),
    row("keys_with_ttl", |info| info.expiry_facts().keys_with_ttl.into(), gauge("keys_with_ttl", "Number of keys with a deadline of their own.", Lacks)),
    row("expired_backlog_keys", |info| info.expiry_facts().backlog_keys.into(), gauge("expired_backlog_keys", "Upper bound of the number of expired keys that are not removed yet.", Lacks)),
    row("expired_backlog_bytes", |info| info.expiry_facts().backlog_bytes.into(), gauge("expired_backlog_bytes", "Estimated memory of these keys.", Lacks)),
    row("expiry_index_bytes", |info| on_slab(info, |info| info.expiry_facts().index_bytes.into()), No(Repeats)),
    row("expiry_lag_samples", |info| info.expiry_lag().total.into(), No(Distribution)),
    row("expiry_lag_us_p50", |info| info.expiry_lag().percentile(0.5).into(), No(Distribution)),
    row("expiry_lag_us_p99", |info| info.expiry_lag().percentile(0.99).into(), No(Distribution)),
    row("expiry_lag_us_p999", |info| info.expiry_lag().percentile(0.999).into(), No(Distribution)),
    row("expiry_lag_us_max", |info| info.expiry_lag().max.into(), gauge("expiry_lag_max_seconds", "Longest time from a deadline to the removal of the key.", Lacks).times(1e-6)),
    row("expired_per_second", |info| info.rates().expired_keys.into(), gauge("expired_keys_per_second", "Expired keys per second in the last 1.6 seconds.", Lacks)),
    row("expired_keys", |info| info.counters().expired_keys.into(), No(Repeats)),
    row("expired_subkeys", |info| on_slab(info, |info| info.counters().expired_elements.into()), No(Repeats)),
    row("keyspace_expiration_misses", |info| on_slab(info, |info| info.counters().expiration_misses.into()), No(Repeats)),
    row("expiry_slice_us_max", longest_slice, gauge("expiry_slice_max_seconds", "Longest single run of the removal of expired keys.", Lacks).times(1e-6)),
    row("ttl_distribution", |info| on_slab(info, ttl_distribution), No(Distribution)),
];

/// Returns the value if the server uses the slab engine.
fn on_slab(info: &Report<'_>, value: fn(&Report<'_>) -> Value) -> Value {
    match info.segments() {
        Some(_) => Value::Absent,
        None => value(info),
    }
}

fn expiry_index(info: &Report<'_>) -> Value {
    match info.segments() {
        Some(_) => "segments".into(),
        None => info.server.config.text(Id::Expiry).into(),
    }
}

fn granularity(info: &Report<'_>) -> Value {
    match (info.segments(), info.expiry_facts().granularity_ms) {
        (Some(_), _) => "by_ttl".into(),
        (None, Some(ms)) => ms.into(),
        (None, None) => "unbounded".into(),
    }
}

fn longest_slice(info: &Report<'_>) -> Value {
    let slices = info.server.observability.stats.workers.iter();
    let longest = slices.map(|worker| worker.expiry_slice_us_max.load(Relaxed));
    longest.max().unwrap_or(0).into()
}

/// Number of keys whose remaining TTL is below each power of two of seconds and not below the
/// previous one.
fn ttl_distribution(info: &Report<'_>) -> Value {
    let histogram = info.ttl_histogram();
    let shown: Vec<String> = histogram
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(bucket, count)| format!("lt_{}s={count}", 1u64 << bucket))
        .collect();
    shown.join(",").into()
}
