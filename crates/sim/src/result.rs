//! Result of one replay.

use crate::explain::Explained;
use crate::learned::Learned;
use std::time::Duration;

/// Counters of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Counted requests.
    pub requests: u64,
    /// Total weight of the requested objects, in the unit of the cache.
    pub requested_weight: u64,
    /// Requests that found no entry or an expired one.
    pub misses: u64,
    /// Total weight of the missed objects, in the unit of the cache.
    pub missed_weight: u64,
    /// Entries evicted.
    pub evictions: u64,
    /// Number of times that an eviction inspected an entry and kept it.
    pub kept: u64,
    /// Entries removed because their TTL had passed.
    pub expirations: u64,
    /// Misses whose object was not inserted.
    pub refusals: u64,
}

impl Counts {
    pub(crate) fn since(&self, start: &Counts) -> Counts {
        Counts {
            requests: self.requests - start.requests,
            requested_weight: self.requested_weight - start.requested_weight,
            misses: self.misses - start.misses,
            missed_weight: self.missed_weight - start.missed_weight,
            evictions: self.evictions - start.evictions,
            kept: self.kept - start.kept,
            expirations: self.expirations - start.expirations,
            refusals: self.refusals - start.refusals,
        }
    }
}

/// Result of one replay.
#[derive(Clone, Debug)]
pub struct ReplayResult {
    /// Counters after the warm-up.
    pub counts: Counts,
    /// Hits that changed the policy's structure, plus entries that an eviction inspected and kept.
    pub promotions: u64,
    /// Bytes that policy, filter and index would take in a server: their heaps, and their bits in
    /// each held entry.
    pub metadata_bytes: u64,
    /// Entries held at the end; for the segment engine, the unexpired ones.
    pub held: u64,
    /// Bytes of memory that the replay took in addition to the trace.
    pub replay_bytes: u64,
    /// Mean weight over time of expired entries that were still held.
    pub expired_held: f64,
    /// Requests replayed, the warm-up included.
    pub replayed: u64,
    /// CPU time of the whole replay, the warm-up included.
    pub cpu_time: Duration,
    /// Weight written to flash; `None` if there is no flash tier.
    pub flash_written: Option<u64>,
    /// Statistics that explain the miss ratio, if the rules request them.
    pub explained: Option<Box<Explained>>,
    /// Statistics of the policy's learning, if it learns.
    pub learned: Option<Box<Learned>>,
}
