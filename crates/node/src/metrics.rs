//! Counters of a node, and the page that Prometheus reads.

use crate::disk::DiskStats;
use crate::rules::freshness::Refusal;
use crate::rules::status::Forward;
use edge::ServerId;
use library::Stats;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Way in which a reply was produced, apart from the cause of a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A fresh response from the cache.
    Hit,
    /// A stale response from the cache, while it is revalidated or because the client accepts it.
    Stale,
    /// A stale response from the cache, because the origin failed.
    StaleOnError,
    /// A response from the cache that the origin has confirmed.
    Revalidated,
    /// A response from the origin.
    Miss,
    /// A refusal by the node: the request was invalid, or the origin did not answer.
    Refused,
    /// A response from another node of the cluster.
    Peer,
}

impl Reply {
    /// All values, in the order of their numbers.
    pub const ALL: [Reply; 7] = [
        Reply::Hit,
        Reply::Stale,
        Reply::StaleOnError,
        Reply::Revalidated,
        Reply::Miss,
        Reply::Refused,
        Reply::Peer,
    ];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    const NAMES: [&'static str; 7] = [
        "hit",
        "stale",
        "stale-on-error",
        "revalidated",
        "miss",
        "refused",
        "peer",
    ];
}

/// Tier in which a stored response was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// Memory.
    Memory,
    /// Disk.
    Disk,
}

impl Tier {
    /// All tiers, in the order of their numbers.
    pub const ALL: [Tier; 2] = [Tier::Memory, Tier::Disk];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    const NAMES: [&'static str; 2] = ["memory", "disk"];
}

/// Kind of an origin's failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No connection could be made, or it broke before the head arrived.
    Connection,
    /// No head arrived within the time limit.
    Timeout,
    /// The content ended early.
    Truncated,
}

impl Failure {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Failure; 3] = [Failure::Connection, Failure::Timeout, Failure::Truncated];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    const NAMES: [&'static str; 3] = ["connection", "timeout", "truncated"];
}

/// Counters. All of them only grow, except for the number of open connections.
#[derive(Debug, Default)]
pub struct Metrics {
    replies: [AtomicU64; 7],
    forwards: [AtomicU64; 7],
    refusals: [AtomicU64; 7],
    failures: [AtomicU64; 3],
    hits: [AtomicU64; 2],
    /// Number of requests that shared another request's fetch.
    pub collapsed: AtomicU64,
    /// Number of requests to origins.
    pub origin_requests: AtomicU64,
    /// Number of content bytes from origins.
    pub origin_bytes: AtomicU64,
    /// Number of content bytes to clients.
    pub client_bytes: AtomicU64,
    /// Number of replies whose content ended early.
    pub replies_cut: AtomicU64,
    /// Number of lines that the access log has lost.
    pub log_lines_lost: AtomicU64,
    /// Number of accepted connections.
    pub connections_accepted: AtomicU64,
    /// Number of open connections.
    pub connections_open: AtomicU64,
    /// Number of URLs that purges have concerned.
    pub purged: AtomicU64,
}

/// Counters of a cluster, as one node sees it. All of them only grow.
#[derive(Debug, Default)]
pub struct ClusterCounts {
    /// Number of objects that were cut into chunks.
    pub objects_coded: AtomicU64,
    /// Number of objects of which not all chunks could be stored.
    pub objects_unprotected: AtomicU64,
    /// Number of objects that stayed whole because too many were waiting or too few nodes took a
    /// chunk.
    pub objects_whole: AtomicU64,
    /// Number of reads of objects in chunks.
    pub reads: AtomicU64,
    /// Number of stripes that were decoded because a data chunk was lost or late.
    pub stripes_decoded: AtomicU64,
    /// Number of sub-chunks that a node did not have or did not send in time.
    pub sub_chunks_missing: AtomicU64,
    /// Number of sub-chunks with a wrong length or checksum.
    pub sub_chunks_corrupt: AtomicU64,
    /// Number of reads that found fewer than K chunks.
    pub reads_failed: AtomicU64,
    /// Number of replies whose rest came from the origin.
    pub rests_from_origin: AtomicU64,
    /// Number of chunks that were restored and stored on their nodes.
    pub chunks_repaired: AtomicU64,
    /// Number of lost chunks that could not be restored, or that their nodes did not take.
    pub chunks_not_repaired: AtomicU64,
    /// Number of bytes read for repairs.
    pub repair_bytes: AtomicU64,
    /// Number of objects with lost chunks that were not repaired because too many were waiting.
    pub repairs_dropped: AtomicU64,
    /// Number of small responses of other nodes that were stored here because they are popular.
    pub copies: AtomicU64,
    /// Number of small responses that were not copied, because copies had used up their share of
    /// memory or a purge concerned them.
    pub copies_refused: AtomicU64,
    /// Number of requests answered with copies.
    pub copy_hits: AtomicU64,
    /// Number of requests that other nodes have answered.
    pub relayed: AtomicU64,
    /// Number of requests received from other nodes.
    pub peer_requests: AtomicU64,
    /// Number of bytes that this node has stored as chunks and as whole responses: its write load.
    pub taken_bytes: AtomicU64,
    /// Number of requests from other nodes that have an older map.
    pub older_maps: AtomicU64,
    /// Number of requests from other nodes that have a newer map.
    pub newer_maps: AtomicU64,
}

impl ClusterCounts {
    /// Returns the name, meaning and value of each counter.
    pub fn rows(&self) -> impl Iterator<Item = CountRow> {
        self.rows_of_reads().into_iter().chain(self.rows_of_nodes())
    }

    fn rows_of_reads(&self) -> [CountRow; 9] {
        [
            row(
                "objects_coded",
                "Objects cut into chunks",
                &self.objects_coded,
            ),
            row(
                "objects_unprotected",
                "Objects of which not all chunks could be stored",
                &self.objects_unprotected,
            ),
            row(
                "objects_whole",
                "Large objects that stayed whole",
                &self.objects_whole,
            ),
            row("reads", "Reads of objects in chunks", &self.reads),
            row(
                "stripes_decoded",
                "Stripes decoded because a chunk was lost or late",
                &self.stripes_decoded,
            ),
            row(
                "sub_chunks_missing",
                "Sub-chunks that a node did not have or send in time",
                &self.sub_chunks_missing,
            ),
            row(
                "sub_chunks_corrupt",
                "Sub-chunks with a wrong length or checksum",
                &self.sub_chunks_corrupt,
            ),
            row(
                "reads_failed",
                "Reads that found too few chunks",
                &self.reads_failed,
            ),
            row(
                "rests_from_origin",
                "Replies whose rest came from the origin",
                &self.rests_from_origin,
            ),
        ]
    }

    fn rows_of_nodes(&self) -> [CountRow; 12] {
        [
            row(
                "chunks_repaired",
                "Lost chunks made again",
                &self.chunks_repaired,
            ),
            row(
                "chunks_not_repaired",
                "Lost chunks that could not be made again",
                &self.chunks_not_repaired,
            ),
            row(
                "repair_bytes",
                "Bytes read to make chunks again",
                &self.repair_bytes,
            ),
            row(
                "repairs_dropped",
                "Objects not repaired because too many were waiting",
                &self.repairs_dropped,
            ),
            row(
                "copies",
                "Popular small responses of other nodes stored here",
                &self.copies,
            ),
            row(
                "copies_refused",
                "Popular small responses of other nodes not stored",
                &self.copies_refused,
            ),
            row(
                "copy_hits",
                "Requests answered by such copies",
                &self.copy_hits,
            ),
            row(
                "relayed",
                "Requests that other nodes have answered",
                &self.relayed,
            ),
            row(
                "peer_requests",
                "Requests of other nodes",
                &self.peer_requests,
            ),
            row(
                "taken_bytes",
                "Bytes of chunks and whole responses that this node has taken",
                &self.taken_bytes,
            ),
            row(
                "older_maps",
                "Requests of other nodes under an older map",
                &self.older_maps,
            ),
            row(
                "newer_maps",
                "Requests of other nodes under a newer map",
                &self.newer_maps,
            ),
        ]
    }
}

/// Name of a counter in metrics, its meaning, and its value.
pub type CountRow = (&'static str, &'static str, u64);

fn row(name: &'static str, help: &'static str, count: &AtomicU64) -> CountRow {
    (name, help, count.load(Relaxed))
}

/// State of the cluster, as one node sees it.
#[derive(Clone, Debug)]
pub struct ClusterFacts<'a> {
    /// Counts.
    pub counts: &'a ClusterCounts,
    /// Number of nodes, including this one.
    pub nodes: usize,
    /// Number of nodes that are down.
    pub nodes_down: usize,
    /// Size of copies of small responses in bytes.
    pub copy_bytes: u64,
    /// Numbers of data and parity chunks of an object.
    pub code: (u8, u8),
    /// Members and map.
    pub membership: MembershipFacts,
}

/// Members and map of a cluster.
#[derive(Clone, Debug, Default)]
pub struct MembershipFacts {
    /// Source that lists the members: the cluster file or etcd.
    pub source: String,
    /// Version of the map; 0 without one.
    pub map_version: u64,
    /// Number, state in words, and address of each node.
    pub nodes: Vec<(ServerId, String)>,
    /// State of etcd, if it is the source.
    pub etcd: Option<EtcdFacts>,
}

/// State of a node's connection to etcd.
#[derive(Clone, Debug, Default)]
pub struct EtcdFacts {
    /// Whether the node is registered and follows changes.
    pub is_connected: bool,
    /// Time since the last answer from etcd.
    pub contact: Option<Duration>,
    /// Reason why the node is not connected.
    pub failure: Option<String>,
    /// Node that makes the next version of the map.
    pub coordinator: Option<ServerId>,
    /// Number of registered nodes.
    pub registered: usize,
    /// Number of sessions that have failed.
    pub failures: u64,
    /// Number of values that were refused.
    pub refused: u64,
    /// Number of maps that this node has stored.
    pub stored: u64,
    /// Number of stored maps that only place parity again.
    pub rebalanced: u64,
}

impl Metrics {
    /// Counts a reply.
    pub fn reply(&self, reply: Reply) {
        self.replies[reply as usize].fetch_add(1, Relaxed);
    }

    /// Counts a cause of a miss.
    pub fn forward(&self, forward: Forward) {
        self.forwards[forward as usize].fetch_add(1, Relaxed);
    }

    /// Counts a response that was not stored.
    pub fn refusal(&self, refusal: Refusal) {
        self.refusals[refusal as usize].fetch_add(1, Relaxed);
    }

    /// Counts a failure of an origin.
    pub fn failure(&self, failure: Failure) {
        self.failures[failure as usize].fetch_add(1, Relaxed);
    }

    /// Counts the content of a reply. `is_cut` means that the content ended early.
    pub fn sent(&self, bytes: u64, is_cut: bool) {
        self.client_bytes.fetch_add(bytes, Relaxed);
        if is_cut {
            self.replies_cut.fetch_add(1, Relaxed);
        }
    }

    /// Counts a reply from the cache by its tier.
    pub fn hit(&self, tier: Tier) {
        self.hits[tier as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of replies from a tier.
    pub fn hits(&self, tier: Tier) -> u64 {
        self.hits[tier as usize].load(Relaxed)
    }

    /// Returns the number of forwarded requests with this cause.
    pub fn forwards(&self, forward: Forward) -> u64 {
        self.forwards[forward as usize].load(Relaxed)
    }

    /// Returns the number of origin failures of this kind.
    pub fn failures(&self, failure: Failure) -> u64 {
        self.failures[failure as usize].load(Relaxed)
    }

    /// Returns the number of replies of this kind.
    pub fn replies(&self, reply: Reply) -> u64 {
        self.replies[reply as usize].load(Relaxed)
    }

    /// Returns the page for Prometheus.
    pub fn page(
        &self,
        store: &Stats,
        disk: Option<&DiskStats>,
        cluster: Option<&ClusterFacts<'_>>,
    ) -> String {
        let mut page = String::with_capacity(4_096);
        self.write_labelled(&mut page);
        self.write_counters(&mut page);
        write_store(&mut page, store);
        if let Some(disk) = disk {
            write_disk(&mut page, disk);
        }
        if let Some(cluster) = cluster {
            write_cluster(&mut page, cluster);
        }
        page
    }

    fn write_labelled(&self, page: &mut String) {
        let names = Reply::NAMES;
        labelled(
            page,
            ["replies", "Replies by source", "source"],
            &names,
            &self.replies,
        );
        let text = ["hits", "Replies without the origin by tier", "tier"];
        labelled(page, text, &Tier::NAMES, &self.hits);
        let names = Forward::ALL.map(Forward::name);
        let text = ["misses", "Forwarded requests by cause", "cause"];
        labelled(page, text, &names, &self.forwards);
        let names = Refusal::ALL.map(Refusal::name);
        let text = ["not_stored", "Responses that were not stored", "reason"];
        labelled(page, text, &names, &self.refusals);
        let text = ["origin_failures", "Failures of origins", "kind"];
        labelled(page, text, &Failure::NAMES, &self.failures);
    }

    fn write_counters(&self, page: &mut String) {
        let mut counter = |name, help, count: &AtomicU64| {
            metric(page, name, "counter", help, count.load(Relaxed));
        };
        let help = "Requests that shared another one's fetch";
        counter("collapsed_total", help, &self.collapsed);
        counter(
            "origin_requests_total",
            "Requests to origins",
            &self.origin_requests,
        );
        let help = "Bytes of stored content from origins";
        counter("origin_bytes_total", help, &self.origin_bytes);
        counter(
            "client_bytes_total",
            "Bytes of content to clients",
            &self.client_bytes,
        );
        let help = "Replies whose content ended early";
        counter("replies_cut_total", help, &self.replies_cut);
        let help = "Lines that the access log has lost";
        counter("log_lines_lost_total", help, &self.log_lines_lost);
        counter(
            "connections_total",
            "Accepted connections",
            &self.connections_accepted,
        );
        counter(
            "purged_total",
            "URLs that purges have concerned",
            &self.purged,
        );
        let open = self.connections_open.load(Relaxed);
        metric(page, "connections_open", "gauge", "Open connections", open);
    }
}

fn write_store(page: &mut String, store: &Stats) {
    let help = "URLs that left at the end of their usable time";
    metric(page, "store_expired_total", "counter", help, store.expired);
    let help = "URLs that left because the store was full";
    metric(page, "store_evicted_total", "counter", help, store.evicted);
    let help = "URLs that were not stored: too large or not admitted";
    metric(
        page,
        "store_rejected_total",
        "counter",
        help,
        store.rejected,
    );
    metric(page, "store_urls", "gauge", "URLs in the store", store.len);
    metric(
        page,
        "store_bytes",
        "gauge",
        "Bytes of the stored responses",
        store.weight,
    );
    let help = "Bytes of the store's own structures";
    metric(page, "store_index_bytes", "gauge", help, store.bytes);
    let name = "store_expiry_lag_milliseconds_max";
    metric(
        page,
        name,
        "gauge",
        "Longest delay of an expiry",
        millis(store.lag_max()),
    );
}

fn write_disk(page: &mut String, disk: &DiskStats) {
    let mut gauge = |name, help, value| metric(page, name, "gauge", help, value);
    let help = "Whether a failure has turned the disk tier off";
    gauge("disk_off", help, u64::from(disk.is_off));
    gauge("disk_urls", "URLs on disk", disk.urls);
    gauge("disk_bytes", "Bytes of the files", disk.bytes);
    let help = "Bytes of the records that can be read";
    gauge("disk_live_bytes", help, disk.live_bytes);
    let help = "Bytes of the index of the disk tier in memory";
    gauge("disk_index_bytes", help, disk.index_bytes);
    let mut counter = |name, help, value| metric(page, name, "counter", help, value);
    counter("disk_written_total", "URLs written to disk", disk.written);
    let help = "Bytes written to disk for responses that left memory";
    counter("disk_written_bytes_total", help, disk.written_bytes);
    let help = "Bytes moved from segments that were deleted";
    counter("disk_reinserted_bytes_total", help, disk.reinserted_bytes);
    let help = "URLs that left memory and were on disk already";
    counter("disk_unchanged_total", help, disk.unchanged);
    let help = "URLs that were not written because too many were waiting, or too many files open";
    counter("disk_dropped_total", help, disk.dropped);
    let help = "URLs that were not written because they were too large";
    counter("disk_too_large_total", help, disk.too_large);
    let help = "URLs that left because their segment was the oldest";
    counter("disk_displaced_total", help, disk.displaced);
    let help = "Records that were found damaged";
    counter("disk_corrupt_total", help, disk.corrupt);
    let help = "Records that a verification in the background has found damaged";
    counter("disk_scrub_corrupt_total", help, disk.scrub_corrupt);
    let help = "Bytes that were verified in the background";
    counter("disk_scrubbed_bytes_total", help, disk.scrubbed_bytes);
    let help = "Verifications of the whole disk";
    counter("disk_scrub_passes_total", help, disk.scrub_passes);
    let help = "Failures of the device";
    counter("disk_errors_total", help, disk.errors);
}

fn write_cluster(page: &mut String, cluster: &ClusterFacts<'_>) {
    let nodes = cluster.nodes as u64;
    metric(
        page,
        "cluster_nodes",
        "gauge",
        "Nodes of the cluster",
        nodes,
    );
    let help = "Nodes that do not answer";
    metric(
        page,
        "cluster_nodes_down",
        "gauge",
        help,
        cluster.nodes_down as u64,
    );
    let help = "Bytes of copies of small responses of other nodes";
    metric(
        page,
        "cluster_copy_bytes",
        "gauge",
        help,
        cluster.copy_bytes,
    );
    let membership = &cluster.membership;
    let help = "Version of the cluster's map";
    metric(
        page,
        "cluster_map_version",
        "gauge",
        help,
        membership.map_version,
    );
    if let Some(etcd) = &membership.etcd {
        write_etcd(page, etcd);
    }
    for (name, help, count) in cluster.counts.rows() {
        let name = format!("cluster_{name}_total");
        metric(page, &name, "counter", help, count);
    }
}

fn write_etcd(page: &mut String, etcd: &EtcdFacts) {
    let mut gauge = |name, help, value| metric(page, name, "gauge", help, value);
    let help = "Whether the node is registered in etcd and follows changes";
    gauge("etcd_connected", help, u64::from(etcd.is_connected));
    let seconds = etcd.contact.map_or(u64::MAX, |time| time.as_secs());
    if etcd.contact.is_some() {
        gauge(
            "etcd_contact_age_seconds",
            "Time since the last answer of etcd",
            seconds,
        );
    }
    let help = "Nodes that are registered in etcd";
    gauge("etcd_nodes_registered", help, etcd.registered as u64);
    let mut counter = |name, help, value| metric(page, name, "counter", help, value);
    counter(
        "etcd_failures_total",
        "Sessions with etcd that have failed",
        etcd.failures,
    );
    counter(
        "etcd_refused_total",
        "Values of etcd that were refused",
        etcd.refused,
    );
    counter(
        "etcd_maps_stored_total",
        "Maps that this node has stored in etcd",
        etcd.stored,
    );
    counter(
        "etcd_maps_rebalanced_total",
        "Maps that this node has stored because the writes had drifted",
        etcd.rebalanced,
    );
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn metric(page: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let _ = writeln!(
        page,
        "# HELP mayfly_edge_{name} {help}.\n# TYPE mayfly_edge_{name} {kind}\nmayfly_edge_{name} {value}"
    );
}

/// Writes a metric family. `text` has its name, its help text and the name of its label.
fn labelled(page: &mut String, text: [&str; 3], values: &[&str], counters: &[AtomicU64]) {
    let [name, help, label] = text;
    let _ = writeln!(
        page,
        "# HELP mayfly_edge_{name}_total {help}.\n# TYPE mayfly_edge_{name}_total counter"
    );
    for (value, counter) in values.iter().zip(counters) {
        let count = counter.load(Relaxed);
        let _ = writeln!(
            page,
            "mayfly_edge_{name}_total{{{label}=\"{value}\"}} {count}"
        );
    }
}
