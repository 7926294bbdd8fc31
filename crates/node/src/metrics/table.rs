//! The metrics of a node, one row each. Names of counters are without the suffix `_total`.

use super::histogram::{BOUNDS_US, Snapshot};
use super::{ClusterCounts, ClusterFacts, EtcdFacts, Facts, Failure, Reply, Tier};
use crate::disk::DiskStats;
use crate::rules::coding::Coding;
use crate::rules::freshness::Refusal;
use crate::rules::status::Forward;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Prefix of all names.
const PREFIX: &str = "mayfly_edge_";

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that may go down.
    Gauge,
    /// A distribution of times.
    Histogram,
}

/// A metric.
pub struct Metric {
    name: &'static str,
    kind: Kind,
    /// Name of the label; empty if there is none.
    label: &'static str,
    /// Description, without a full stop.
    pub help: &'static str,
    /// Returns the current value.
    pub value: fn(&Facts<'_>) -> Value,
}

/// Value of a metric.
#[derive(Debug, PartialEq)]
pub enum Value {
    /// The node lacks this part, and the metric is left out.
    Absent,
    /// A number of things or bytes.
    Number(u64),
    /// A time span, which is written in seconds.
    Span(Duration),
    /// Numbers by the value of the label.
    ByLabel(Vec<(&'static str, u64)>),
    /// Distributions of times by the value of the label; a single one with an empty value without a
    /// label.
    Times(Vec<(&'static str, Snapshot)>),
}

impl From<&AtomicU64> for Value {
    fn from(count: &AtomicU64) -> Value {
        Value::Number(count.load(Relaxed))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<Option<u64>> for Value {
    fn from(number: Option<u64>) -> Value {
        number.map_or(Value::Absent, Value::Number)
    }
}

type Read = fn(&Facts<'_>) -> Value;

const fn counter(name: &'static str, help: &'static str, value: Read) -> Metric {
    counter_by(name, "", help, value)
}

const fn counter_by(
    name: &'static str,
    label: &'static str,
    help: &'static str,
    value: Read,
) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        label,
        help,
        value,
    }
}

const fn gauge(name: &'static str, help: &'static str, value: Read) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        label: "",
        help,
        value,
    }
}

const fn times(name: &'static str, label: &'static str, help: &'static str, value: Read) -> Metric {
    Metric {
        name,
        kind: Kind::Histogram,
        label,
        help,
        value,
    }
}

/// Requests, origins and clients.
#[rustfmt::skip]
const REQUESTS: &[Metric] = &[
    counter_by("replies", "source", "Replies by source", |facts| Value::ByLabel(Reply::ALL.map(|reply| (reply.name(), facts.metrics.replies(reply))).into())),
    times("reply_seconds", "source", "Time from the head of a request to the head of its reply, by source", |facts| Value::Times(Reply::ALL.map(|reply| (reply.name(), facts.metrics.reply_times(reply).snapshot())).into())),
    times("origin_seconds", "", "Time until the head of an origin's response arrived, or the origin had failed", |facts| Value::Times(vec![("", facts.metrics.origin_times.snapshot())])),
    counter_by("hits", "tier", "Replies without the origin by tier", |facts| Value::ByLabel(Tier::ALL.map(|tier| (tier.name(), facts.metrics.hits(tier))).into())),
    counter_by("misses", "cause", "Forwarded requests by cause", |facts| Value::ByLabel(Forward::ALL.map(|forward| (forward.name(), facts.metrics.forwards(forward))).into())),
    counter_by("not_stored", "reason", "Responses that were not stored", |facts| Value::ByLabel(Refusal::ALL.map(|refusal| (refusal.name(), facts.metrics.refusals(refusal))).into())),
    counter_by("compressed", "coding", "Responses compressed by this node", |facts| Value::ByLabel(Coding::ALL.map(|coding| (coding.name(), facts.metrics.compressions(coding))).into())),
    counter("compression_read_bytes", "Bytes before compression", |facts| (&facts.metrics.compression_read).into()),
    counter("compression_written_bytes", "Bytes after compression", |facts| (&facts.metrics.compression_written).into()),
    counter("uncompressed", "Responses not compressed because memory was short", |facts| (&facts.metrics.uncompressed).into()),
    counter_by("origin_failures", "kind", "Failures of origins", |facts| Value::ByLabel(Failure::ALL.map(|failure| (failure.name(), facts.metrics.failures(failure))).into())),
    gauge("origins_down", "Origins that have not answered several requests in a row", |facts| (facts.origins.iter().filter(|origin| origin.down.is_some()).count() as u64).into()),
    counter("collapsed", "Requests that shared another one's fetch", |facts| (&facts.metrics.collapsed).into()),
    counter("origin_requests", "Requests to origins", |facts| (&facts.metrics.origin_requests).into()),
    counter("origin_bytes", "Bytes of stored content from origins", |facts| (&facts.metrics.origin_bytes).into()),
    counter("client_bytes", "Bytes of content to clients", |facts| (&facts.metrics.client_bytes).into()),
    counter("replies_cut", "Replies whose content ended early", |facts| (&facts.metrics.replies_cut).into()),
    counter("log_lines_lost", "Lines that the access log has lost", |facts| (&facts.metrics.log_lines_lost).into()),
    gauge("tunnels_open", "Connections that use another protocol, such as WebSockets", |facts| (&facts.metrics.tunnels_open).into()),
    counter("connections", "Accepted connections", |facts| (&facts.metrics.connections_accepted).into()),
    counter("purged", "URLs that purges have concerned", |facts| (&facts.metrics.purged).into()),
    gauge("connections_open", "Open connections", |facts| (&facts.metrics.connections_open).into()),
];

/// Memory tier.
#[rustfmt::skip]
const MEMORY: &[Metric] = &[
    counter("store_expired", "URLs that left at the end of their usable time", |facts| facts.memory.expired.into()),
    counter("store_evicted", "URLs that left because the store was full", |facts| facts.memory.evicted.into()),
    counter("store_rejected", "URLs that were not stored: too large or not admitted", |facts| facts.memory.rejected.into()),
    gauge("store_urls", "URLs in the store", |facts| facts.memory.len.into()),
    gauge("store_bytes", "Bytes of the stored responses", |facts| facts.memory.weight.into()),
    gauge("store_tags", "Tags of the URLs in the store, each counted once per URL", |facts| facts.tagged.into()),
    gauge("outside_store_bytes", "Bytes of content outside the store: of fetches, and of replies whose response has left it", |facts| facts.outside_bytes.into()),
    gauge("store_index_bytes", "Bytes of the store's own structures", |facts| facts.memory.bytes.into()),
    gauge("store_expiry_lag_max_seconds", "Longest delay of an expiry", |facts| Value::Span(facts.memory.lag_max())),
];

/// Disk tier, if there is one.
#[rustfmt::skip]
const DISK: &[Metric] = &[
    gauge("disk_off", "Whether a failure has turned the disk tier off", |facts| disk(facts, |disk| disk.is_off.into())),
    gauge("disk_urls", "URLs on disk", |facts| disk(facts, |disk| disk.urls)),
    gauge("disk_bytes", "Bytes of the files", |facts| disk(facts, |disk| disk.bytes)),
    gauge("disk_live_bytes", "Bytes of the records that can be read", |facts| disk(facts, |disk| disk.live_bytes)),
    gauge("disk_index_bytes", "Bytes of the index of the disk tier in memory", |facts| disk(facts, |disk| disk.index_bytes)),
    gauge("disk_tag_bytes", "Bytes of the disk tier's index by tag in memory", |facts| disk(facts, |disk| disk.tag_bytes)),
    counter("disk_purge_reads", "Records that purges by prefix or tag have read", |facts| disk(facts, |disk| disk.purge_reads)),
    counter("disk_written", "URLs written to disk", |facts| disk(facts, |disk| disk.written)),
    counter("disk_written_bytes", "Bytes written to disk for responses that left memory", |facts| disk(facts, |disk| disk.written_bytes)),
    counter("disk_reinserted_bytes", "Bytes moved from segments that were deleted", |facts| disk(facts, |disk| disk.reinserted_bytes)),
    counter("disk_unchanged", "URLs that left memory and were on disk already", |facts| disk(facts, |disk| disk.unchanged)),
    counter("disk_dropped", "URLs that were not written because too many were waiting, or too many files open", |facts| disk(facts, |disk| disk.dropped)),
    counter("disk_too_large", "URLs that were not written because they were too large", |facts| disk(facts, |disk| disk.too_large)),
    counter("disk_displaced", "URLs that left because their segment was the oldest", |facts| disk(facts, |disk| disk.displaced)),
    counter("disk_corrupt", "Records that were found damaged", |facts| disk(facts, |disk| disk.corrupt)),
    counter("disk_scrub_corrupt", "Records that a verification in the background has found damaged", |facts| disk(facts, |disk| disk.scrub_corrupt)),
    counter("disk_scrubbed_bytes", "Bytes that were verified in the background", |facts| disk(facts, |disk| disk.scrubbed_bytes)),
    counter("disk_scrub_passes", "Verifications of the whole disk", |facts| disk(facts, |disk| disk.scrub_passes)),
    counter("disk_errors", "Failures of the device", |facts| disk(facts, |disk| disk.errors)),
];

/// Cluster and etcd, if they are used.
#[rustfmt::skip]
const CLUSTER: &[Metric] = &[
    gauge("cluster_nodes", "Nodes of the cluster", |facts| cluster(facts, |cluster| cluster.nodes as u64)),
    gauge("cluster_nodes_down", "Nodes that do not answer", |facts| cluster(facts, |cluster| cluster.nodes_down as u64)),
    gauge("cluster_purges_missed", "Purges that are kept here for nodes that have missed them", |facts| cluster(facts, |cluster| cluster.purges_missed as u64)),
    gauge("cluster_copy_bytes", "Bytes of copies of small responses of other nodes", |facts| cluster(facts, |cluster| cluster.copy_bytes)),
    gauge("cluster_map_version", "Version of the cluster's map", |facts| cluster(facts, |cluster| cluster.membership.map_version)),
    gauge("etcd_connected", "Whether the node is registered in etcd and follows changes", |facts| etcd(facts, |etcd| Some(etcd.is_connected.into()))),
    gauge("etcd_contact_age_seconds", "Time since the last answer of etcd", |facts| etcd(facts, |etcd| etcd.contact.map(|time| time.as_secs()))),
    gauge("etcd_nodes_registered", "Nodes that are registered in etcd", |facts| etcd(facts, |etcd| Some(etcd.registered as u64))),
    counter("etcd_failures", "Sessions with etcd that have failed", |facts| etcd(facts, |etcd| Some(etcd.failures))),
    counter("etcd_refused", "Values of etcd that were refused", |facts| etcd(facts, |etcd| Some(etcd.refused))),
    counter("etcd_maps_stored", "Maps that this node has stored in etcd", |facts| etcd(facts, |etcd| Some(etcd.stored))),
    counter("etcd_maps_rebalanced", "Maps that this node has stored because the writes had drifted", |facts| etcd(facts, |etcd| Some(etcd.rebalanced))),
];

/// Counts of a cluster, which the status of a node shows too.
#[rustfmt::skip]
pub const CLUSTER_COUNTS: &[Metric] = &[
    counter("cluster_objects_coded", "Objects cut into chunks", |facts| count(facts, |counts| &counts.objects_coded)),
    counter("cluster_objects_unprotected", "Objects of which not all chunks could be stored", |facts| count(facts, |counts| &counts.objects_unprotected)),
    counter("cluster_objects_whole", "Large objects that stayed whole", |facts| count(facts, |counts| &counts.objects_whole)),
    counter("cluster_reads", "Reads of objects in chunks", |facts| count(facts, |counts| &counts.reads)),
    counter("cluster_stripes_decoded", "Stripes decoded because a chunk was lost or late", |facts| count(facts, |counts| &counts.stripes_decoded)),
    counter("cluster_sub_chunks_missing", "Sub-chunks that a node did not have or send in time", |facts| count(facts, |counts| &counts.sub_chunks_missing)),
    counter("cluster_sub_chunks_corrupt", "Sub-chunks with a wrong length or checksum", |facts| count(facts, |counts| &counts.sub_chunks_corrupt)),
    counter("cluster_reads_failed", "Reads that found too few chunks", |facts| count(facts, |counts| &counts.reads_failed)),
    counter("cluster_rests_from_origin", "Replies whose rest came from the origin", |facts| count(facts, |counts| &counts.rests_from_origin)),
    counter("cluster_chunks_repaired", "Lost chunks made again", |facts| count(facts, |counts| &counts.chunks_repaired)),
    counter("cluster_chunks_not_repaired", "Lost chunks that could not be made again", |facts| count(facts, |counts| &counts.chunks_not_repaired)),
    counter("cluster_repair_bytes", "Bytes read to make chunks again", |facts| count(facts, |counts| &counts.repair_bytes)),
    counter("cluster_repairs_dropped", "Objects not repaired because too many were waiting", |facts| count(facts, |counts| &counts.repairs_dropped)),
    counter("cluster_copies", "Popular small responses of other nodes stored here", |facts| count(facts, |counts| &counts.copies)),
    counter("cluster_copies_refused", "Popular small responses of other nodes not stored", |facts| count(facts, |counts| &counts.copies_refused)),
    counter("cluster_copy_hits", "Requests answered by such copies", |facts| count(facts, |counts| &counts.copy_hits)),
    counter("cluster_relayed", "Requests that other nodes have answered", |facts| count(facts, |counts| &counts.relayed)),
    counter("cluster_peer_requests", "Requests of other nodes", |facts| count(facts, |counts| &counts.peer_requests)),
    counter("cluster_taken_bytes", "Bytes of chunks and whole responses that this node has taken", |facts| count(facts, |counts| &counts.taken_bytes)),
    counter("cluster_older_maps", "Requests of other nodes under an older map", |facts| count(facts, |counts| &counts.older_maps)),
    counter("cluster_newer_maps", "Requests of other nodes under a newer map", |facts| count(facts, |counts| &counts.newer_maps)),
];

/// All metrics, in the order of the page.
const TABLES: [&[Metric]; 5] = [REQUESTS, MEMORY, DISK, CLUSTER, CLUSTER_COUNTS];

fn disk(facts: &Facts<'_>, number: fn(&DiskStats) -> u64) -> Value {
    facts.disk.as_ref().map(number).into()
}

fn cluster(facts: &Facts<'_>, number: fn(&ClusterFacts<'_>) -> u64) -> Value {
    facts.cluster.as_ref().map(number).into()
}

fn etcd(facts: &Facts<'_>, number: fn(&EtcdFacts) -> Option<u64>) -> Value {
    let cluster = facts.cluster.as_ref();
    let etcd = cluster.and_then(|cluster| cluster.membership.etcd.as_ref());
    etcd.and_then(number).into()
}

fn count(facts: &Facts<'_>, count: fn(&ClusterCounts) -> &AtomicU64) -> Value {
    let cluster = facts.cluster.as_ref();
    cluster
        .map(|cluster| count(cluster.counts).load(Relaxed))
        .into()
}

impl Metric {
    /// Returns the name with prefix and suffix, and the type, as on the page.
    fn names(&self) -> (String, &'static str) {
        let (suffix, kind) = match self.kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
            Kind::Histogram => ("", "histogram"),
        };
        (format!("{PREFIX}{}{suffix}", self.name), kind)
    }
}

/// Returns the page for Prometheus.
pub fn page(facts: &Facts<'_>) -> String {
    let mut page = String::with_capacity(8_192);
    for metric in TABLES.into_iter().flatten() {
        let value = (metric.value)(facts);
        if value == Value::Absent {
            continue;
        }
        let (name, kind) = metric.names();
        let help = metric.help;
        let _ = writeln!(page, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        let _ = match value {
            Value::Absent => Ok(()),
            Value::Number(number) => writeln!(page, "{name} {number}"),
            Value::Span(span) => writeln!(page, "{name} {}", span.as_secs_f64()),
            Value::ByLabel(numbers) => numbers.iter().try_for_each(|(label, number)| {
                writeln!(page, "{name}{{{}=\"{label}\"}} {number}", metric.label)
            }),
            Value::Times(all) => all.iter().try_for_each(|(value, times)| {
                let label = match metric.label {
                    "" => String::new(),
                    label => format!("{label}=\"{value}\""),
                };
                write_times(&mut page, &name, &label, times)
            }),
        };
    }
    page
}

/// Writes a distribution of times: for each bound, the number of times up to it.
fn write_times(page: &mut String, name: &str, label: &str, times: &Snapshot) -> fmt::Result {
    let separator = if label.is_empty() { "" } else { "," };
    let bounds = BOUNDS_US.iter().map(|us| (*us as f64 / 1e6).to_string());
    let bounds = bounds.chain(["+Inf".to_owned()]);
    let mut count = 0;
    for (bound, here) in bounds.zip(times.counts) {
        count += here;
        writeln!(
            page,
            "{name}_bucket{{{label}{separator}le=\"{bound}\"}} {count}"
        )?;
    }
    let labels = match label {
        "" => String::new(),
        label => format!("{{{label}}}"),
    };
    writeln!(page, "{name}_sum{labels} {}", times.sum.as_secs_f64())?;
    writeln!(page, "{name}_count{labels} {count}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::metrics::{MembershipFacts, Metrics};
    use library::Stats;
    use std::collections::HashSet;
    use std::path::Path;

    /// Compares the page in the docs with the table, or writes it if `UPDATE_DOCS` is set.
    #[test]
    fn the_page_of_metrics_in_the_docs_matches_the_table() {
        let mut wanted = String::from(
            "# Metrics of the HTTP cache\n\n\
             Generated from the table in `crates/node/src/metrics/table.rs`; a test compares them. \
             [The guide](../guide/edge.md#operation) says how they are served.\n\n\
             Metrics of the disk tier, of a cluster and of etcd are absent where there is none.\n\n\
             | metric | type | label | description |\n|---|---|---|---|\n",
        );
        for metric in TABLES.into_iter().flatten() {
            let (name, kind) = metric.names();
            let label = match metric.label {
                "" => String::new(),
                label => format!("`{label}`"),
            };
            let _ = writeln!(wanted, "| `{name}` | {kind} | {label} | {}. |", metric.help);
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("../../docs/reference/edge-metrics.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &wanted).expect("docs/reference can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == wanted,
            "docs/reference/edge-metrics.md: the table has changed; \
             run UPDATE_DOCS=1 cargo test -p mayfly-node --lib metrics"
        );
    }

    #[test]
    fn names_are_unique_words_in_base_units() {
        let mut names = HashSet::new();
        for metric in TABLES.into_iter().flatten() {
            let name = metric.name;
            assert!(names.insert(name), "{name} is used twice");
            let is_word = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            assert!(name.chars().all(is_word), "{name}");
            assert!(!name.ends_with("_total"), "{name}");
            for part in name.split('_') {
                let is_base = !["ms", "milliseconds", "micros", "kilobytes"].contains(&part);
                assert!(is_base, "{name} is not in a base unit");
            }
            assert!(!metric.help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn a_page_has_all_metrics_of_the_parts_that_a_node_has() {
        let (config, metrics) = (Config::default(), Metrics::default());
        metrics.hit(Tier::Disk);
        for time in [300, 60_000_000] {
            metrics.reply(Reply::Hit, Duration::from_micros(time));
        }
        let counts = ClusterCounts::default();
        counts.reads.store(5, Relaxed);
        let etcd = EtcdFacts {
            contact: Some(Duration::from_millis(2_900)),
            ..EtcdFacts::default()
        };
        let cluster = ClusterFacts {
            counts: &counts,
            nodes: 3,
            nodes_down: 1,
            purges_missed: 3,
            copy_bytes: 0,
            code: (4, 2),
            membership: MembershipFacts {
                etcd: Some(etcd),
                ..MembershipFacts::default()
            },
        };
        let mut facts = Facts {
            config: &config,
            metrics: &metrics,
            memory: Stats::default(),
            tagged: 0,
            outside_bytes: 0,
            disk: None,
            cluster: None,
            origins: vec![],
        };
        let families = |page: &str| page.matches("# TYPE ").count();
        assert_eq!(families(&page(&facts)), REQUESTS.len() + MEMORY.len());
        facts.disk = Some(DiskStats::default());
        facts.cluster = Some(cluster);
        let page = page(&facts);
        assert_eq!(
            families(&page),
            TABLES.iter().flat_map(|table| *table).count()
        );
        for line in [
            "# HELP mayfly_edge_hits_total Replies without the origin by tier.",
            "# TYPE mayfly_edge_hits_total counter",
            "mayfly_edge_hits_total{tier=\"memory\"} 0",
            "mayfly_edge_hits_total{tier=\"disk\"} 1",
            "mayfly_edge_store_expiry_lag_max_seconds 0",
            "mayfly_edge_etcd_contact_age_seconds 2",
            "mayfly_edge_cluster_nodes_down 1",
            "mayfly_edge_cluster_reads_total 5",
            "# TYPE mayfly_edge_reply_seconds histogram",
            "mayfly_edge_reply_seconds_bucket{source=\"hit\",le=\"0.00025\"} 0",
            "mayfly_edge_reply_seconds_bucket{source=\"hit\",le=\"0.0005\"} 1",
            "mayfly_edge_reply_seconds_bucket{source=\"hit\",le=\"+Inf\"} 2",
            "mayfly_edge_reply_seconds_sum{source=\"hit\"} 60.0003",
            "mayfly_edge_reply_seconds_count{source=\"hit\"} 2",
            "mayfly_edge_origin_seconds_bucket{le=\"30\"} 0",
            "mayfly_edge_origin_seconds_count 0",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}: {page}");
        }
    }
}
