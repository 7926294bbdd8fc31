//! Metrics for Prometheus: the fields of INFO as their rows say, and counts with labels and
//! histograms, which INFO has no form for.
//!
//! The number of series is bounded, because the number of commands, families, databases, classes,
//! sizes and buckets is, and error codes are counted separately only up to a limit. No label
//! contains text chosen by a client, except error codes of scripts and addresses of replicas.
//!
//! Start reading with [`render`].

pub mod page;

use crate::context::Table;
use crate::info;
use crate::info::row::{Export, Value};
use crate::state::{Data, Lifecycle, Server};
use durability::replication::{ReplicaState, Replication};
use page::{Format, Page, Series, Type};
use session::clock::Clock;
use session::histogram::Summary;
use session::stats::{CommandStats, Counts, Stats};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::{Census, ClassFacts, Kind, MISS_CAUSES, QuotaFacts, Spans};

/// Prefix of all names.
pub const PREFIX: &str = "mayfly_";

/// Metrics with labels that redis_exporter has under the same name.
pub const SAME_IN_EXPORTER: [&str; 12] = [
    "instance_info",
    "start_time_seconds",
    "db_keys",
    "db_keys_expiring",
    "db_avg_ttl_seconds",
    "commands_total",
    "commands_duration_seconds_total",
    "commands_rejected_calls_total",
    "commands_failed_calls_total",
    "errors_total",
    "connected_slave_offset_bytes",
    "connected_slave_lag_seconds",
];

/// Powers of two of microseconds that bound the buckets of durations: 1 µs to 16.8 s, by fours.
const MICROS: [u32; 13] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24];
/// Powers of two of milliseconds that bound the buckets of TTLs and ages: 1 ms to 2.2 years.
const MILLIS: [u32; 19] = [
    0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36,
];
/// Powers of two of seconds that bound the buckets of remaining TTLs: 1 s to 8.5 years.
const SECONDS: [usize; 15] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28];
/// Powers of two below which the buckets of sizes count: 0, 3, 15, … 2^30 − 1.
const SIZES: [usize; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];

/// Counters of memcached's requests: name, selector and description.
type MemcachedCounter = (&'static str, fn(&Counts) -> &AtomicU64, &'static str);

#[rustfmt::skip]
const MEMCACHED: [MemcachedCounter; 21] = [
    ("requests", |counts| &counts.requests, "Number of requests."),
    ("gets", |counts| &counts.gets, "Number of keys in read requests."),
    ("get_hits", |counts| &counts.get_hits, "Number of read keys that were found."),
    ("sets", |counts| &counts.sets, "Number of storage commands."),
    ("stored", |counts| &counts.stored, "Number of stored values."),
    ("delete_hits", |counts| &counts.delete_hits, "Number of deleted keys."),
    ("delete_misses", |counts| &counts.delete_misses, "Number of deletions of missing keys."),
    ("incr_hits", |counts| &counts.incr_hits, "Number of increments."),
    ("incr_misses", |counts| &counts.incr_misses, "Number of increments of missing keys."),
    ("decr_hits", |counts| &counts.decr_hits, "Number of decrements."),
    ("decr_misses", |counts| &counts.decr_misses, "Number of decrements of missing keys."),
    ("cas_hits", |counts| &counts.cas_hits, "Number of values stored under a CAS number."),
    ("cas_misses", |counts| &counts.cas_misses, "Number of storage commands with a CAS number for missing keys."),
    ("cas_badval", |counts| &counts.cas_badval, "Number of storage commands whose CAS number did not match the item's."),
    ("too_large", |counts| &counts.too_large, "Number of values refused because of their length."),
    ("no_memory", |counts| &counts.no_memory, "Number of values refused because memory was full."),
    ("touches", |counts| &counts.touches, "Number of keys in requests that set a deadline."),
    ("touch_hits", |counts| &counts.touch_hits, "Number of touched keys."),
    ("metas", |counts| &counts.metas, "Number of meta requests."),
    ("auths", |counts| &counts.auths, "Number of authentications."),
    ("auth_errors", |counts| &counts.auth_errors, "Number of failed authentications."),
];

/// Statistic of a class: type, name, description and value.
type ClassMetric = (Type, &'static str, &'static str, fn(&ClassFacts) -> f64);

#[rustfmt::skip]
const CLASSES: [ClassMetric; 9] = [
    (Type::Gauge, "keys", "Number of keys of the class.", |one| one.keys as f64),
    (Type::Gauge, "bytes", "Memory of the entries of the class.", |one| one.bytes as f64),
    (Type::Counter, "hits", "Number of reads that found a key of the class.", |one| one.counts.hits as f64),
    (Type::Counter, "expired_keys", "Number of keys of the class that have expired.", |one| one.counts.expired as f64),
    (Type::Counter, "evicted_keys", "Number of keys of the class that were evicted.", |one| one.counts.evicted as f64),
    (Type::Counter, "deleted_keys", "Number of keys of the class that were deleted.", |one| one.counts.deleted as f64),
    (Type::Counter, "invalidated_keys", "Number of keys of the class that were removed because of a tag.", |one| one.counts.invalidated as f64),
    (Type::Counter, "late_seconds", "Sum of the times from the deadlines of expired keys to their removal.", |one| one.counts.late_ms_sum as f64 / 1e3),
    (Type::Gauge, "late_max_seconds", "Longest time from a deadline to the removal of the key.", |one| one.counts.late_ms_max as f64 / 1e3),
];

/// Statistic of a class with memory limits: type, name, description and value.
type QuotaMetric = (Type, &'static str, &'static str, fn(&QuotaFacts) -> u64);

#[rustfmt::skip]
const QUOTAS: [QuotaMetric; 4] = [
    (Type::Gauge, "memory_bytes", "Memory of the database of the class, if it has limits.", |one| one.used_bytes),
    (Type::Gauge, "memory_max_bytes", "Maximum memory of the database of the class; 0 for none.", |one| one.limits.max_bytes),
    (Type::Gauge, "memory_min_bytes", "Memory that the database of the class keeps while others grow; 0 for none.", |one| one.limits.min_bytes),
    (Type::Counter, "refused_writes", "Number of commands refused because the class had reached its maximum.", |one| one.refused),
];

/// Returns the page of metrics. `age` is the time since the census was taken.
pub fn render(
    server: &Server,
    table: &'static Table,
    census: &Census,
    age: Duration,
    format: Format,
) -> String {
    let mut page = Page::new(format);
    let fields = info::exported(server, table, census);
    instance(&mut page, &server.lifecycle, &fields);
    let help = "Time since the facts about keys were collected.";
    let name = format!("{PREFIX}census_age_seconds");
    page.single(Type::Gauge, &name, help, age.as_secs_f64());
    let name = format!("{PREFIX}ready");
    let is_ready = u8::from(server.why_not_ready().is_none());
    page.single(Type::Gauge, &name, "Whether clients are served.", is_ready);
    for (export, value) in &fields {
        if let Export::Metric(metric) = export
            && let Some(number) = value.number(metric.factor)
        {
            let kind = match metric.is_counter {
                true => Type::Counter,
                false => Type::Gauge,
            };
            let name = format!("{PREFIX}{}", metric.name);
            page.single(kind, &name, metric.help, number);
        }
    }
    let stats = &server.observability.stats;
    memcached(&mut page, stats);
    errors(&mut page, stats);
    replicas(&mut page, &server.replication);
    databases(&mut page, &server.data, &server.clock, census);
    commands(&mut page, stats, table);
    durations(&mut page, stats, table);
    if server.data.segments.is_none() {
        classes(&mut page, census);
    }
    lifetimes(&mut page, &server.data, census);
    sizes(&mut page, census);
    page.finish()
}

fn instance(page: &mut Page, lifecycle: &Lifecycle, fields: &[(&Export, Value)]) {
    let name = format!("{PREFIX}instance");
    page.family(Type::Info, &name, "Names of what the server runs.");
    let labels: Vec<(&str, String)> = fields
        .iter()
        .filter_map(|(export, value)| match export {
            Export::Label(label) => Some((*label, value.to_string())),
            _ => None,
        })
        .collect();
    let labels: Vec<_> = labels
        .iter()
        .map(|(label, text)| (*label, text.as_str()))
        .collect();
    page.sample(&name, "_info", &labels, 1);
    let name = format!("{PREFIX}start_time_seconds");
    let started = lifecycle.started_us as f64 / 1e6;
    let help = "Time of the start since 1970.";
    page.single(Type::Gauge, &name, help, started);
}

fn memcached(page: &mut Page, stats: &Stats) {
    for (word, counter, help) in MEMCACHED {
        let value = stats.sum(|worker| counter(&worker.memcached));
        let name = format!("{PREFIX}memcached_{word}");
        page.single(Type::Counter, &name, help, value);
    }
}

fn errors(page: &mut Page, stats: &Stats) {
    let name = format!("{PREFIX}errors");
    let help = "Number of error replies by their first word, of which 128 are distinguished.";
    page.family(Type::Counter, &name, help);
    for (code, count) in stats.errors() {
        page.sample(&name, "_total", &[("err", &code)], count);
    }
}

/// Writes what each replica has acknowledged, and when.
fn replicas(page: &mut Page, replication: &Replication) {
    let all = replication.replicas();
    let mut family = |name: &str, help: &str, value: fn(&ReplicaState) -> String| {
        let name = format!("{PREFIX}{name}");
        page.family(Type::Gauge, &name, help);
        for replica in &all {
            let port = replica.port.to_string();
            let labels = [("slave_ip", &*replica.address), ("slave_port", &port)];
            page.sample(&name, "", &labels, value(replica));
        }
    };
    let help = "Position in the feed that a replica has acknowledged.";
    family("connected_slave_offset_bytes", help, |replica| {
        replica.acked.to_string()
    });
    let help = "Time since the last acknowledgement of a replica.";
    family("connected_slave_lag_seconds", help, |replica| {
        replica.acked_at.elapsed().as_secs_f64().to_string()
    });
}

fn databases(page: &mut Page, data: &Data, clock: &Clock, census: &Census) {
    let engine = data.engine();
    let facts = |db: usize| match &data.segments {
        None => census.db_facts(db as u8),
        Some(_) => engine.db_facts(db as u8, clock.now()),
    };
    let all: Vec<_> = (0..engine.databases())
        .map(|db| (format!("db{db}"), facts(db)))
        .filter(|(_, facts)| facts.keys > 0)
        .collect();
    let mut family = |name: &str, help: &str, value: &dyn Fn(usize) -> String| {
        let name = format!("{PREFIX}{name}");
        page.family(Type::Gauge, &name, help);
        for (index, (db, _)) in all.iter().enumerate() {
            page.sample(&name, "", &[("db", db)], value(index));
        }
    };
    family("db_keys", "Number of keys.", &|at| {
        all[at].1.keys.to_string()
    });
    family(
        "db_keys_expiring",
        "Number of keys with a deadline.",
        &|at| all[at].1.with_deadline.to_string(),
    );
    let help = "Number of keys whose fields, members or entries have deadlines.";
    family("db_keys_with_expiring_elements", help, &|at| {
        all[at].1.with_element_deadlines.to_string()
    });
    let help = "Mean remaining TTL, estimated from a sample.";
    family("db_avg_ttl_seconds", help, &|at| {
        (all[at].1.mean_ttl_ms as f64 / 1e3).to_string()
    });
}

/// Writes the statistics of classes of keys.
fn classes(page: &mut Page, census: &Census) {
    let facts = census.classes.facts();
    let mut family = |kind: Type, name: &str, help: &str, value: fn(&ClassFacts) -> f64| {
        let name = format!("{PREFIX}class_{name}");
        let suffix = if kind == Type::Counter { "_total" } else { "" };
        page.family(kind, &name, help);
        for one in facts {
            page.sample(&name, suffix, &[("class", &one.name)], value(one));
        }
    };
    for (kind, name, help, value) in CLASSES {
        family(kind, name, help, value);
    }
    for (kind, name, help, value) in QUOTAS {
        let name = format!("{PREFIX}class_{name}");
        let suffix = if kind == Type::Counter { "_total" } else { "" };
        page.family(kind, &name, help);
        for one in facts {
            if let Some(quota) = &one.quota {
                page.sample(&name, suffix, &[("class", &one.name)], value(quota));
            }
        }
    }
    let name = format!("{PREFIX}class_misses");
    let help = "Number of reads of keys of the class that found none, by cause.";
    page.family(Type::Counter, &name, help);
    for one in facts {
        for (cause, misses) in MISS_CAUSES.iter().zip(one.counts.misses) {
            let labels = [("class", one.name.as_str()), ("cause", cause)];
            page.sample(&name, "_total", &labels, misses);
        }
    }
    let labels: Vec<_> = facts
        .iter()
        .map(|one| [("class", one.name.as_str())])
        .collect();
    let buckets: Vec<_> = facts
        .iter()
        .map(|one| span_buckets(&one.counts.ttls))
        .collect();
    let series = facts.iter().zip(&labels).zip(&buckets);
    let series = series.map(|((one, labels), buckets)| Series {
        labels,
        buckets,
        count: one.counts.ttls.total(),
        sum: one.counts.ttls.sum_ms as f64 / 1e3,
    });
    let name = format!("{PREFIX}class_ttl_at_write_seconds");
    let help = "TTLs of keys of the class when their deadline was set.";
    page.histogram(Type::Histogram, &name, help, &series.collect::<Vec<_>>());
}

/// Writes the counters of each command that was ever called.
fn commands(page: &mut Page, stats: &Stats, table: &'static Table) {
    let sum = |index: usize, counter: fn(&CommandStats) -> &AtomicU64| {
        stats.sum(|worker| counter(&worker.commands[index]))
    };
    let names: Vec<(usize, &str)> = table
        .names()
        .filter(|(index, _)| {
            let counters = [
                sum(*index, |stats| &stats.calls),
                sum(*index, |stats| &stats.rejected),
                sum(*index, |stats| &stats.failed),
            ];
            counters.iter().any(|count| *count > 0)
        })
        .collect();
    let mut family =
        |name: &str, help: &str, counter: fn(&CommandStats) -> &AtomicU64, scale: f64| {
            let name = format!("{PREFIX}{name}");
            page.family(Type::Counter, &name, help);
            for (index, command) in &names {
                let value = sum(*index, counter) as f64 * scale;
                page.sample(&name, "_total", &[("cmd", command)], value);
            }
        };
    family("commands", "Number of calls.", |stats| &stats.calls, 1.0);
    let help = "Time spent in the command.";
    family(
        "commands_duration_seconds",
        help,
        |stats| &stats.nanos,
        1e-9,
    );
    let help = "Number of calls refused before they ran.";
    family(
        "commands_rejected_calls",
        help,
        |stats| &stats.rejected,
        1.0,
    );
    let help = "Number of calls that returned an error.";
    family("commands_failed_calls", help, |stats| &stats.failed, 1.0);
}

/// Buckets of a histogram of microseconds.
fn micros(summary: &Summary) -> Vec<(f64, u64)> {
    let bounds = MICROS.iter().map(|power| 1u64 << power);
    bounds
        .map(|bound| (bound as f64 / 1e6, summary.below(bound)))
        .collect()
}

/// Writes the durations of commands by family, and the lag of expiry.
fn durations(page: &mut Page, stats: &Stats, table: &'static Table) {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, _) in table.names() {
        families.entry(table.group(index)).or_default().push(index);
    }
    let mut all = Vec::new();
    for (family, indexes) in &families {
        let workers = stats.workers.iter();
        let histograms = workers.flat_map(|worker| {
            let commands = indexes.iter();
            commands.map(move |index| &worker.commands[*index].micros)
        });
        let summary = Summary::of(histograms);
        if summary.total > 0 {
            all.push((family, micros(&summary), summary));
        }
    }
    let labels: Vec<_> = all.iter().map(|one| [("family", *one.0)]).collect();
    let series = all
        .iter()
        .zip(&labels)
        .map(|((_, buckets, summary), labels)| Series {
            labels,
            buckets,
            count: summary.total,
            sum: summary.sum() as f64 / 1e6,
        });
    let name = format!("{PREFIX}command_duration_seconds");
    let help =
        "Durations of commands by family. Short commands of a pipeline count with their mean.";
    page.histogram(Type::Histogram, &name, help, &series.collect::<Vec<_>>());
    let lag = stats.expiry_lag();
    let series = Series {
        labels: &[],
        buckets: &micros(&lag),
        count: lag.total,
        sum: lag.sum() as f64 / 1e6,
    };
    let name = format!("{PREFIX}expiry_lag_seconds");
    let help = "Time from a deadline to the removal of the key or element in the background.";
    page.histogram(Type::Histogram, &name, help, &[series]);
}

/// Returns the buckets of a histogram of time spans.
fn span_buckets(spans: &Spans) -> [(f64, u64); MILLIS.len()] {
    // Bin i counts spans below 2^i ms.
    let below = |power: u32| spans.counts[..=power as usize].iter().sum();
    MILLIS.map(|power| ((1u64 << power) as f64 / 1e3, below(power)))
}

/// Writes a histogram of time spans.
fn spans(page: &mut Page, name: &str, help: &str, spans: &Spans) {
    let buckets = span_buckets(spans);
    let series = Series {
        labels: &[],
        buckets: &buckets,
        count: spans.total(),
        sum: spans.sum_ms as f64 / 1e3,
    };
    let name = format!("{PREFIX}{name}");
    page.histogram(Type::Histogram, &name, help, &[series]);
}

/// Writes TTLs at write, remaining TTLs, and ages at expiry and eviction.
fn lifetimes(page: &mut Page, data: &Data, census: &Census) {
    if data.segments.is_some() {
        return;
    }
    let help = "TTLs of keys when their deadline was set.";
    spans(page, "key_ttl_at_write_seconds", help, &census.written_ttls);
    let help = "Ages of keys when they expired, since their value was stored; of a sample of keys.";
    spans(
        page,
        "key_age_at_expiry_seconds",
        help,
        &census.expired_ages,
    );
    let help =
        "Ages of keys when they were evicted, since their value was stored; of a sample of keys.";
    spans(
        page,
        "key_age_at_eviction_seconds",
        help,
        &census.evicted_ages,
    );
    let ttls = census.ttl_histogram();
    // Bin i counts TTLs below 2^i seconds.
    let below = |power: usize| ttls[..=power].iter().sum();
    let buckets = SECONDS.map(|power| ((1u64 << power) as f64, below(power)));
    // The middle of a bin stands for its TTLs.
    let middle = |bin: usize| 0.75 * (1u64 << bin) as f64;
    let sum = ttls.iter().enumerate();
    let series = Series {
        labels: &[],
        buckets: &buckets,
        count: ttls.iter().sum(),
        sum: sum.map(|(bin, count)| middle(bin) * *count as f64).sum(),
    };
    let name = format!("{PREFIX}key_ttl_seconds");
    let help = "Remaining TTLs of the present keys, estimated from a sample.";
    page.histogram(Type::GaugeHistogram, &name, help, &[series]);
}

/// Writes the sizes of values by type.
fn sizes(page: &mut Page, census: &Census) {
    let name_of = |kind: Kind| match kind {
        Kind::String => "string",
        Kind::List => "list",
        Kind::Set => "set",
        Kind::SortedSet => "zset",
        Kind::Hash => "hash",
        Kind::Stream => "stream",
    };
    // Bin i counts sizes below 2^i.
    let all: Vec<_> = census
        .size_histograms()
        .into_iter()
        .filter(|(_, counts)| counts.iter().any(|count| *count > 0))
        .map(|(kind, counts)| {
            let below = |power: usize| counts[..=power].iter().sum::<u64>();
            let buckets = SIZES.map(|power| (((1u64 << power) - 1) as f64, below(power)));
            let middle = |bin: usize| (0.75 * (1u128 << bin) as f64).floor();
            let sums = counts.iter().enumerate();
            let sum: f64 = sums.map(|(bin, count)| middle(bin) * *count as f64).sum();
            (
                [("type", name_of(kind))],
                buckets,
                counts.iter().sum::<u64>(),
                sum,
            )
        })
        .collect();
    let of = |is_string: bool| -> Vec<Series<'_>> {
        let chosen = all
            .iter()
            .filter(|one| (one.0[0].1 == "string") == is_string);
        let series = chosen.map(|(labels, buckets, count, sum)| Series {
            labels: if is_string { &[] } else { labels },
            buckets,
            count: *count,
            sum: *sum,
        });
        series.collect()
    };
    let name = format!("{PREFIX}string_size_bytes");
    let help = "Sizes of the present strings, estimated from a sample.";
    page.histogram(Type::GaugeHistogram, &name, help, &of(true));
    let name = format!("{PREFIX}collection_elements");
    let help = "Numbers of elements of the present collections, estimated from a sample.";
    page.histogram(Type::GaugeHistogram, &name, help, &of(false));
}

#[cfg(test)]
mod tests;
