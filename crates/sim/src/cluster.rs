//! Clusters of edge caches that keep whole copies or coded chunks of objects.
//!
//! A trace is replayed through servers. Each has a disk under any eviction policy (the same cache
//! shard as in the server, sized in bytes) and a memory cache in front of it. [`edge::Map`] decides
//! where the parts of an object are stored, as in a real cluster. The redundancy schemes compared
//! are whole copies, second copies of popular objects, and erasure codes whose parity is placed by
//! load or on the ring. A run measures misses, unprotected objects, the effect of failures, traffic
//! to the origin and between servers, and how evenly disks are written.
//!
//! Source: C2DN, chapter 5 of J. Yang, *Designing efficient and scalable key-value cache management
//! systems*, Carnegie Mellon University 2024. docs/lab/edge.md lists the choices made where the
//! thesis leaves something open.
//!
//! Not modelled: TTLs, deletions and changes of size; queueing; writes of a disk's own garbage
//! collection.
//!
//! Start with [`run`]; `servers.rs` follows one request. [`Study`] makes the runs behind `mayfly
//! edge simulate`.

mod claims;
mod coordination;
mod findings;
mod found;
mod history;
mod latency;
mod meter;
mod page;
mod places;
mod presence;
mod ring;
mod run;
mod scheme;
mod servers;
mod study;
mod tables;
mod text;
mod tier;
mod watch;

pub use coordination::{Coordination, EvictionOrder, Notifications};
pub use findings::{Claim, Failure, Findings, RunRow};
pub use found::{LATENCY_SHARES, Latencies, RunResult, Window, imbalance};
pub use places::bucket_of;
pub use run::{ClusterRules, SERVERS_MAX, Setup, check, check_sizes, run};
pub use scheme::{BadScheme, PARTS_MAX, POPULAR_AT, Scheme};
pub use study::Study;
