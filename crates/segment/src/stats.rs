//! What an engine tells of itself, and the check that it tells the truth.

use crate::engine::Segcache;
use crate::storage::{NEVER, Objects, WORD};
use crate::sync::Ordering::Relaxed;
use policy::Tick;

/// Sizes and counts. Those of the moment are exact when nobody writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects that can be found, the dead that are still in memory included.
    pub items: u64,
    /// Bytes that these take in segments, each rounded up to 8, its 5 bytes of metadata included.
    pub live_bytes: u64,
    /// Bytes of segments that were given to objects, those that are gone included.
    pub used_bytes: u64,
    /// Segments that hold objects.
    pub segments_held: u64,
    /// Segments that are free.
    pub segments_free: u64,
    /// Segments that the table has.
    pub segments_table: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Cache lines in chains of the table.
    pub table_lines: u64,
    /// Chains of the table.
    pub table_chains: u64,
    /// Bytes of directories, headers, chains and writers.
    pub directory_bytes: u64,
    /// Bytes that were taken from the system: segments that were ever used, and directories.
    pub memory_bytes: u64,
    /// Objects removed because their time was over.
    pub expired: u64,
    /// Objects evicted.
    pub evicted: u64,
    /// Objects removed because all were.
    pub flushed: u64,
    /// Objects that merges kept.
    pub kept: u64,
    /// Objects that lost their place in a full chain of the table to another.
    pub crowded_out: u64,
    /// Merges.
    pub merges: u64,
    /// Segments evicted, those that were merged included.
    pub segments_evicted: u64,
    /// Those of them that were evicted because a ranking said so, and with whom these were merged.
    pub segments_ranked: u64,
    /// Segments whose time was over.
    pub segments_expired: u64,
    /// Scans for what is over.
    pub expiry_scans: u64,
    /// Heads of chains that these have looked at.
    pub heads_read: u64,
}

/// What is there at a moment. Exact when nobody writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Objects that live.
    pub live: u64,
    /// Those of them that will be over.
    pub mortal: u64,
    /// Objects that are over and still in memory.
    pub dead: u64,
    /// The bytes that these take.
    pub dead_bytes: u64,
    /// The mean of the milliseconds that the mortal have left.
    pub mean_ttl_ms: u64,
}

impl Stats {
    /// Bytes in use that are neither key nor value of a live object; `payload_bytes` are.
    pub fn overhead_bytes(&self, payload_bytes: u64) -> u64 {
        let held = (self.segments_held + self.segments_table) * self.segment_bytes;
        (held + self.directory_bytes).saturating_sub(payload_bytes)
    }
}

impl<C: Objects> Segcache<C> {
    /// How many objects can be found, the dead that are still in memory included.
    pub fn len(&self) -> u64 {
        self.storage.item_count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Objects removed because their time was over.
    pub fn expired(&self) -> u64 {
        self.eviction.counters.expired.load(Relaxed)
    }

    /// Bytes of memory that are taken, segments and all besides them; without a look at each segment.
    pub fn memory_bytes(&self) -> u64 {
        self.directory_bytes() + self.storage.taken_bytes() as u64
    }

    /// Segments begun to be written so far.
    pub fn segments_begun(&self) -> u64 {
        self.eviction.learning.opened.load(Relaxed)
    }

    /// Sizes and counts, by one look at each segment.
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

    /// Who is there, by one look at each segment.
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
                census.mortal += count;
                left_ms += u128::from(deadline.0 - now.0) * u128::from(count);
            }
        }
        census.mean_ttl_ms = (left_ms / u128::from(census.mortal.max(1))) as u64;
        census
    }
}
