//! What the segment engine reports, in the terms that INFO has for both engines.

use super::Segments;
use crate::stats::Stats;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{Counters, DbFacts, MemoryFacts, Tick};

impl Segments {
    /// Objects that have expired since this was last asked, each told once.
    pub fn newly_expired(&self) -> u64 {
        let expired = self.cache.expired();
        expired.saturating_sub(self.expired_seen.fetch_max(expired, Relaxed))
    }

    /// Bytes: all that was taken counts as in use, for none of it is given back.
    pub fn memory_facts(&self) -> MemoryFacts {
        let stats = self.cache.stats();
        let table = stats.segments_table * stats.segment_bytes + stats.directory_bytes;
        MemoryFacts {
            used_bytes: stats.memory_bytes,
            entry_bytes: stats.live_bytes,
            table_bytes: table,
            policy_bytes: 0,
            expiry_bytes: 0,
            arena_free_bytes: stats.memory_bytes.saturating_sub(stats.live_bytes + table),
            pending_objects: 0,
        }
    }

    /// The keys of the one database.
    pub fn db_facts(&self, now: Tick) -> DbFacts {
        let census = self.cache.census(now);
        DbFacts {
            keys: census.live,
            with_deadline: census.mortal,
            with_element_deadlines: 0,
            mean_ttl_ms: census.mean_ttl_ms,
        }
    }

    /// What happened since the start or CONFIG RESETSTAT.
    pub fn counters(&self, workers: &Stats) -> Counters {
        let stats = self.cache.stats();
        let since = |count: u64, before: &AtomicU64| count.saturating_sub(before.load(Relaxed));
        Counters {
            hits: workers.sum(|worker| &worker.segment_hits),
            misses: workers.sum(|worker| &worker.segment_misses),
            expired_keys: since(stats.expired, &self.expired_before),
            evicted_keys: since(stats.evicted + stats.crowded_out, &self.evicted_before),
            ..Counters::default()
        }
    }

    /// Counters begin at 0 again.
    pub fn reset_counters(&self) {
        let stats = self.cache.stats();
        self.expired_before.store(stats.expired, Relaxed);
        let evicted = stats.evicted + stats.crowded_out;
        self.evicted_before.store(evicted, Relaxed);
    }
}
