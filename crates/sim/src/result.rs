//! Result of one replay.

use crate::explain::Explained;
use crate::learned::Learned;
use std::time::Duration;

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that count.
    pub requests: u64,
    /// What the objects of these weigh, in the cache's unit.
    pub requested_weight: u64,
    /// Requests that found nothing, or something dead.
    pub misses: u64,
    /// What the objects of these weigh, in the cache's unit.
    pub missed_weight: u64,
    /// Entries evicted.
    pub evictions: u64,
    /// Entries that eviction looked at and kept.
    pub kept: u64,
    /// Entries removed because their time was over.
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

/// What a replay found.
#[derive(Clone, Debug)]
pub struct Found {
    /// After the warm-up.
    pub counts: Counts,
    /// Hits that changed the policy's structure, and entries that eviction looked at and kept.
    pub promotions: u64,
    /// What policy, filter and index take in a server: their heaps, and their bits in each entry held.
    pub metadata_bytes: u64,
    /// Entries held at the end; of the segment engine the live ones.
    pub held: u64,
    /// What the replay took besides the trace.
    pub replay_bytes: u64,
    /// Bytes (or objects) held by entries that were dead already, the mean over time.
    pub expired_held: f64,
    /// Requests of the whole trace.
    pub replayed: u64,
    /// What they took, the warm-up too.
    pub cpu_time: Duration,
    /// What was written to flash, in the cache's unit; where there is flash.
    pub flash_written: Option<u64>,
    /// Where the rules ask for it.
    pub explained: Option<Box<Explained>>,
    /// Where the policy learns.
    pub learned: Option<Box<Learned>>,
}
