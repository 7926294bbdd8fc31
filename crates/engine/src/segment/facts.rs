//! Facts about the segment engine for INFO and `stats`.

use super::Segments;
use crate::Facts;
use session::stats::Stats;
use settings::words::EVICTIONS;
use settings::{Config, Id, bytes_for_people};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{Counters, DbFacts, MemoryFacts, Tick};

/// Number of segments per thread below which a warning is logged.
const FEW_SEGMENTS: u64 = 32;

impl Segments {
    /// Returns the number of objects that have expired since the last call.
    pub fn newly_expired(&self) -> u64 {
        let expired = self.cache.expired();
        expired.saturating_sub(self.expired_seen.fetch_max(expired, Relaxed))
    }
}

impl Facts for Segments {
    fn databases(&self) -> usize {
        1
    }

    /// All allocated memory counts as used, because none of it is returned to the system.
    fn memory_facts(&self) -> MemoryFacts {
        let stats = self.cache.stats();
        let table = stats.segments_table * stats.segment_bytes + stats.directory_bytes;
        MemoryFacts {
            used_bytes: stats.memory_bytes,
            entry_bytes: stats.live_bytes,
            table_bytes: table,
            policy_bytes: 0,
            expiry_bytes: 0,
            tag_bytes: 0,
            class_bytes: 0,
            arena_free_bytes: stats.memory_bytes.saturating_sub(stats.live_bytes + table),
            pending_objects: 0,
            pending_bytes: 0,
        }
    }

    fn used_bytes(&self) -> u64 {
        self.cache.memory_bytes()
    }

    fn published_bytes(&self) -> u64 {
        self.cache.memory_bytes()
    }

    fn db_facts(&self, db: u8, now: Tick) -> DbFacts {
        if db != 0 {
            return DbFacts::default();
        }
        let census = self.cache.census(now);
        DbFacts {
            keys: census.live,
            with_deadline: census.with_deadline_count,
            with_element_deadlines: 0,
            mean_ttl_ms: census.mean_ttl_ms,
        }
    }

    fn counters(&self, workers: &Stats) -> Counters {
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

    fn reset_counters(&self) {
        let stats = self.cache.stats();
        self.expired_before.store(stats.expired, Relaxed);
        let evicted = stats.evicted + stats.crowded_out;
        self.evicted_before.store(evicted, Relaxed);
    }

    fn eviction_name(&self, config: &Config) -> String {
        EVICTIONS[config.number(Id::SegmentEviction) as usize].to_owned()
    }

    fn describe(&self, config: &Config) -> String {
        let size = bytes_for_people(config.number(Id::SegmentSize) as u64);
        format!(
            "segments of {size}, eviction {}",
            self.eviction_name(config)
        )
    }

    fn warning(&self, threads: usize) -> Option<String> {
        let stats = self.cache.stats();
        let count = stats.segments_held + stats.segments_free + stats.segments_table;
        (count < FEW_SEGMENTS * threads as u64).then(|| {
            format!(
                "{count} segments are few for {threads} data threads: where TTLs differ widely, keys expire up to three quarters early (maxmemory, segment-size)"
            )
        })
    }

    fn clear(&self, _db: u8, _now: Tick) {
        self.cache.clear();
    }

    fn allow_change(&self) -> Result<(), String> {
        Err("cannot be changed at run time with the segment engine".into())
    }

    fn change_policy(&self, _config: &Config) -> Result<(), String> {
        self.allow_change()
    }

    fn change_eviction(&self, config: &Config) -> Result<(), String> {
        self.set_eviction(config)
    }
}
