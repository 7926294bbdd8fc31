//! Counters of a node. The table of metrics defines how Prometheus gets them.

pub mod histogram;
pub mod table;

use crate::config::Config;
use crate::disk::DiskStats;
use crate::rules::coding::Coding;
use crate::rules::freshness::Refusal;
use crate::rules::status::Forward;
use edge::ServerId;
use histogram::Histogram;
use hyper::Uri;
use library::Stats;
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
    /// The outcome of a purge.
    Purged,
}

impl Reply {
    /// All values, in the order of their numbers.
    pub const ALL: [Reply; 8] = [
        Reply::Hit,
        Reply::Stale,
        Reply::StaleOnError,
        Reply::Revalidated,
        Reply::Miss,
        Reply::Refused,
        Reply::Peer,
        Reply::Purged,
    ];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    const NAMES: [&'static str; 8] = [
        "hit",
        "stale",
        "stale-on-error",
        "revalidated",
        "miss",
        "refused",
        "peer",
        "purged",
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
    /// The status of the response was 500, 502, 503 or 504.
    Status,
    /// The request was not sent, because the origin had not answered several others.
    Down,
}

impl Failure {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Failure; 5] = [
        Failure::Connection,
        Failure::Timeout,
        Failure::Truncated,
        Failure::Status,
        Failure::Down,
    ];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    const NAMES: [&'static str; 5] = ["connection", "timeout", "truncated", "status", "down"];
}

/// Counters. All of them only grow, except for the number of open connections.
#[derive(Debug, Default)]
pub struct Metrics {
    replies: [AtomicU64; 8],
    forwards: [AtomicU64; 7],
    refusals: [AtomicU64; 9],
    failures: [AtomicU64; 5],
    hits: [AtomicU64; 2],
    compressed: [AtomicU64; 3],
    /// Number of responses that were not compressed because memory was short.
    pub uncompressed: AtomicU64,
    /// Number of bytes before compression.
    pub compression_read: AtomicU64,
    /// Number of bytes after compression.
    pub compression_written: AtomicU64,
    reply_times: [Histogram; 8],
    /// Times until the head of an origin's response arrived, also of origins that failed.
    pub origin_times: Histogram,
    /// Number of requests that shared another request's fetch.
    pub collapsed: AtomicU64,
    /// Number of connections that use another protocol now.
    pub tunnels_open: AtomicU64,
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

/// Counters of a cluster, as seen by one node. All of them only grow.
#[derive(Debug, Default)]
pub struct ClusterCounts {
    /// Number of objects that were cut into chunks.
    pub objects_coded: AtomicU64,
    /// Number of objects not all of whose chunks could be stored.
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

/// Facts for the metrics and the status of a node.
pub struct Facts<'a> {
    /// Settings.
    pub config: &'a Config,
    /// Counters.
    pub metrics: &'a Metrics,
    /// Memory tier.
    pub memory: Stats,
    /// Number of pairs of a tag and a URL in memory.
    pub tagged: u64,
    /// Size in bytes of content in memory outside the store.
    pub outside_bytes: u64,
    /// Disk tier.
    pub disk: Option<DiskStats>,
    /// Cluster.
    pub cluster: Option<ClusterFacts<'a>>,
    /// Origins.
    pub origins: Vec<OriginFacts>,
}

/// State of an origin's server for operators.
#[derive(Clone, Debug)]
pub struct OriginFacts {
    /// Hosts of the origin.
    pub hosts: String,
    /// URL of the server.
    pub url: Uri,
    /// Numbers of all requests to the server and of those without an answer yet.
    pub load: (u64, usize),
    /// Whether health checks fail.
    pub is_unhealthy: bool,
    /// Time for which the server has counted as down.
    pub down: Option<Duration>,
}

/// State of the cluster, as seen by one node.
#[derive(Clone, Debug)]
pub struct ClusterFacts<'a> {
    /// Counts.
    pub counts: &'a ClusterCounts,
    /// Number of nodes, including this one.
    pub nodes: usize,
    /// Number of nodes that are down.
    pub nodes_down: usize,
    /// Number of purges that are kept for nodes that have missed them.
    pub purges_missed: usize,
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
    /// State of etcd, if etcd is the source.
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
    /// Number of maps stored by this node.
    pub stored: u64,
    /// Number of stored maps that only place parity again.
    pub rebalanced: u64,
}

impl Metrics {
    /// Counts a reply whose head was ready this time after that of the request.
    pub fn reply(&self, reply: Reply, time: Duration) {
        self.replies[reply as usize].fetch_add(1, Relaxed);
        self.reply_times[reply as usize].observe(time);
    }

    /// Returns the times until the heads of replies of this kind were ready.
    pub fn reply_times(&self, reply: Reply) -> &Histogram {
        &self.reply_times[reply as usize]
    }

    /// Counts a cause of a miss.
    pub fn forward(&self, forward: Forward) {
        self.forwards[forward as usize].fetch_add(1, Relaxed);
    }

    /// Counts a response that is compressed.
    pub fn compressed(&self, coding: Coding) {
        self.compressed[coding as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of responses that were compressed with a coding.
    pub fn compressions(&self, coding: Coding) -> u64 {
        self.compressed[coding as usize].load(Relaxed)
    }

    /// Counts bytes before and after compression.
    pub fn count_compression(&self, read: usize, written: usize) {
        self.compression_read.fetch_add(read as u64, Relaxed);
        self.compression_written.fetch_add(written as u64, Relaxed);
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

    /// Returns the number of responses that were not stored for this reason.
    pub fn refusals(&self, refusal: Refusal) -> u64 {
        self.refusals[refusal as usize].load(Relaxed)
    }
}
