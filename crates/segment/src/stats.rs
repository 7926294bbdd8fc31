//! Sizes and counters of an engine.

use crate::engine::Segcache;
use crate::storage::{NEVER, Objects, WORD};
use crate::sync::Ordering::Relaxed;
use policy::Tick;

/// Sizes and counters of an engine. Sizes are exact if no thread writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of objects in the table, including expired ones that are still in memory.
    pub items: u64,
    /// Size in segments of the objects in the table, in bytes: metadata, key and value, rounded up
    /// to a multiple of 8.
    pub live_bytes: u64,
    /// Size in segments of all objects, including removed ones, in bytes.
    pub used_bytes: u64,
    /// Number of segments that hold objects.
    pub segments_held: u64,
    /// Number of free segments.
    pub segments_free: u64,
    /// Number of segments that hold the hash table.
    pub segments_table: u64,
    /// Size of a segment in bytes.
    pub segment_bytes: u64,
    /// Number of cache lines of the hash table in use.
    pub table_lines: u64,
    /// Number of chains of the hash table.
    pub table_chains: u64,
    /// Size of directories, headers and writers in bytes.
    pub directory_bytes: u64,
    /// Memory taken from the system in bytes: all segments that were ever used, and directories.
    pub memory_bytes: u64,
    /// Number of objects removed because their deadline had passed.
    pub expired: u64,
    /// Number of objects evicted.
    pub evicted: u64,
    /// Number of objects removed by a flush.
    pub flushed: u64,
    /// Number of objects kept by merges.
    pub kept: u64,
    /// Number of objects dropped because their chain of the hash table was full.
    pub crowded_out: u64,
    /// Number of merges.
    pub merges: u64,
    /// Number of segments evicted, including merged ones.
    pub segments_evicted: u64,
    /// Number of segments evicted because of a learned ranking, including the segments with which
    /// they were merged.
    pub segments_ranked: u64,
    /// Number of segments removed because their deadline had passed.
    pub segments_expired: u64,
    /// Number of scans for expired segments.
    pub expiry_scans: u64,
    /// Number of segments that these scans have checked.
    pub heads_read: u64,
}

/// Numbers of objects by state. Exact if no thread writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Number of objects that have not expired.
    pub live: u64,
    /// Number of unexpired objects that have a deadline.
    pub with_deadline_count: u64,
    /// Number of expired objects that are still in memory.
    pub dead: u64,
    /// Size of the expired objects in bytes.
    pub dead_bytes: u64,
    /// Mean remaining TTL of the objects with a deadline, in milliseconds.
    pub mean_ttl_ms: u64,
}

impl Stats {
    /// Returns the bytes in use that are not payload, where the live objects have `payload_bytes`
    /// bytes of keys and values.
    pub fn overhead_bytes(&self, payload_bytes: u64) -> u64 {
        let held = (self.segments_held + self.segments_table) * self.segment_bytes;
        (held + self.directory_bytes).saturating_sub(payload_bytes)
    }
}

impl<C: Objects> Segcache<C> {
    /// Returns the number of objects in the table, including expired ones that are still in memory.
    pub fn len(&self) -> u64 {
        self.storage.item_count()
    }

    /// Returns true if the table has no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of objects removed because their deadline had passed.
    pub fn expired(&self) -> u64 {
        self.eviction.counters.expired.load(Relaxed)
    }

    /// Returns the memory in use in bytes, in segments and outside. Unlike [`Segcache::stats`], it
    /// does not read every segment.
    pub fn memory_bytes(&self) -> u64 {
        self.directory_bytes() + self.storage.taken_bytes() as u64
    }

    /// Returns the number of segments opened so far.
    pub fn segments_begun(&self) -> u64 {
        self.eviction.learning.opened.load(Relaxed)
    }

    /// Returns sizes and counters. It reads the header of every segment.
    pub fn stats(&self) -> Stats {
        let (heap, table) = (self.storage.heap(), self.storage.table());
        let (counters, learning) = (&self.eviction.counters, &self.eviction.learning);
        let directory_bytes = self.directory_bytes();
        let memory_bytes = self.memory_bytes();
        let directory = self.storage.directory().lock();
        let mut stats = Stats {
            items: self.len(),
            segments_free: u64::from(directory.lists.free_count()),
            segment_bytes: heap.segment_bytes() as u64,
            table_chains: table.chain_count(),
            directory_bytes,
            memory_bytes,
            expired: counters.expired.load(Relaxed),
            evicted: counters.evicted.load(Relaxed),
            flushed: counters.flushed.load(Relaxed),
            kept: counters.kept.load(Relaxed),
            crowded_out: self.storage.crowded_out(),
            merges: counters.merges.load(Relaxed),
            segments_evicted: counters.segments_evicted.load(Relaxed),
            segments_ranked: learning.evicted.load(Relaxed),
            segments_expired: counters.segments_expired.load(Relaxed),
            expiry_scans: counters.scans.load(Relaxed),
            heads_read: counters.heads_read.load(Relaxed),
            ..Stats::default()
        };
        for id in heap.ids().filter(|&id| directory.lists.is_held(id)) {
            let header = heap.header(id);
            stats.segments_held += 1;
            stats.used_bytes += u64::from(header.used()) * WORD as u64;
            stats.live_bytes += u64::from(header.live().1) * WORD as u64;
        }
        drop(directory);
        stats.segments_table = u64::from(table.segment_count());
        stats.table_lines = table.line_count();
        stats
    }

    /// Counts the objects by state. It reads the header of every segment.
    pub fn census(&self, now: Tick) -> Census {
        let mut census = Census::default();
        let mut left_ms = 0;
        let heap = self.storage.heap();
        let directory = self.storage.directory().lock();
        for id in heap.ids().filter(|&id| directory.lists.is_held(id)) {
            let (count, words) = heap.header(id).live();
            let deadline = heap.deadline(id);
            let count = u64::from(count);
            if deadline < now {
                census.dead += count;
                census.dead_bytes += u64::from(words) * WORD as u64;
                continue;
            }
            census.live += count;
            if deadline != NEVER {
                census.with_deadline_count += count;
                left_ms += u128::from(deadline.0 - now.0) * u128::from(count);
            }
        }
        census.mean_ttl_ms = (left_ms / u128::from(census.with_deadline_count.max(1))) as u64;
        census
    }
}
