//! Clusters of edge caches: copies, chunks, and what becomes of them when servers differ or go.
//!
//! A trace is replayed through servers of which each has a disk under any policy (the shard that serves,
//! by bytes) and a memory tier before it. Where parts of an object lie is [`edge::Map`]'s affair,
//! the same as in a cluster that serves. Compared are whole copies, popularity, and erasure codes with
//! and without parity placed by load; what they leave unprotected, what a failure costs, what crosses the
//! wide area and the cluster's own network, how evenly disks are written.
//!
//! Source: C2DN, chapter 5 of J. Yang, *Designing efficient and scalable key-value cache management
//! systems*, Carnegie Mellon University 2024; docs/edge.md tells what was chosen where it tells nothing.
//!
//! Left out: lifetimes, deletions, changes of size; queues; what a disk's own garbage collection writes.
//!
//! Start with [`run`], the walk of a request is `servers.rs`; [`Study`] is what `mayfly edge simulate`
//! makes of many runs.

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
mod text;
mod tier;
mod watch;

pub use coordination::{Coordination, Order, Telling};
pub use findings::{Claim, Failure, Findings, Row};
pub use found::{Found, LATENCY_SHARES, Latencies, Window, imbalance};
pub use places::bucket_of;
pub use run::{Rules, SERVERS_MAX, Setup, check, check_sizes, run};
pub use scheme::{BadScheme, PARTS_MAX, POPULAR_AT, Scheme};
pub use study::Study;
