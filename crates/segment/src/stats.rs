//! What an engine tells of itself, and the check that it tells the truth.

use crate::engine::Segcache;
use crate::storage::chains::State;
use crate::storage::content::Objects;
use crate::storage::heap::SegmentId;
use crate::storage::ttl::NEVER;
use crate::storage::words::WORD;
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
        self.heap.counters.items.load(Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Objects removed because their time was over.
    pub fn expired(&self) -> u64 {
        self.heap.counters.expired.load(Relaxed)
    }

    /// Bytes of memory that are taken, segments and all besides them; without a look at each segment.
    pub fn memory_bytes(&self) -> u64 {
        let taken = self.heap.chains().taken_count();
        self.directory_bytes() + self.heap.taken_bytes(taken) as u64
    }

    /// Segments begun to be written so far.
    pub fn segments_begun(&self) -> u64 {
        self.learning.begun.load(Relaxed)
    }

    /// Sizes and counts, by one look at each segment.
    pub fn stats(&self) -> Stats {
        let (heap, counters) = (&self.heap, &self.heap.counters);
        let directory_bytes = self.directory_bytes();
        let memory_bytes = self.memory_bytes();
        let chains = heap.chains();
        let is_held = |id: &SegmentId| !matches!(chains.state(*id), State::Free | State::Table);
        let mut stats = Stats {
            items: self.len(),
            segments_free: u64::from(chains.free_count()),
            segment_bytes: heap.segment_bytes() as u64,
            table_chains: self.table.chain_count(),
            directory_bytes,
            memory_bytes,
            expired: counters.expired.load(Relaxed),
            evicted: counters.evicted.load(Relaxed),
            flushed: counters.flushed.load(Relaxed),
            kept: counters.kept.load(Relaxed),
            crowded_out: counters.crowded_out.load(Relaxed),
            merges: counters.merges.load(Relaxed),
            segments_evicted: counters.segments_evicted.load(Relaxed),
            segments_ranked: self.learning.evicted.load(Relaxed),
            segments_expired: counters.segments_expired.load(Relaxed),
            expiry_scans: counters.scans.load(Relaxed),
            heads_read: counters.heads_read.load(Relaxed),
            ..Stats::default()
        };
        for id in heap.ids().filter(is_held) {
            let segment = heap.segment(id);
            stats.segments_held += 1;
            stats.used_bytes += u64::from(segment.used()) * WORD as u64;
            stats.live_bytes += u64::from(segment.live().1) * WORD as u64;
        }
        drop(chains);
        stats.segments_table = u64::from(self.table.segment_count());
        stats.table_lines = self.table.line_count();
        stats
    }

    /// Who is there, by one look at each segment.
    pub fn census(&self, now: Tick) -> Census {
        let mut census = Census::default();
        let mut left_ms = 0;
        let chains = self.heap.chains();
        let is_held = |id: &SegmentId| !matches!(chains.state(*id), State::Free | State::Table);
        for id in self.heap.ids().filter(is_held) {
            let (count, words) = self.heap.segment(id).live();
            let deadline = self.heap.deadline(id);
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

    /// Panics when the parts contradict each other. For tests and fuzzers, while nobody writes; slow.
    pub fn check(&self) {
        let heap = &self.heap;
        let line_count = self.table.line_count();
        let chains = heap.chains();
        chains.check(heap);
        let mut live = vec![(0, 0); heap.count() as usize + 1];
        let mut lines = 0;
        let mut items = 0;
        for (number, chain) in self.table.locked_chains(heap).enumerate() {
            let (line_count, object_count) = chain.extent();
            lines += line_count as u64;
            let mut found = 0;
            for cell in chain.cells() {
                let place = cell.slot.place();
                let state = chains.state(place.segment);
                assert!(!matches!(state, State::Free | State::Table), "{state:?}");
                let words = self.content.words_at(heap, place);
                assert!(place.offset + words <= heap.segment(place.segment).used());
                let hash = self.hash_at(place);
                assert!(cell.slot.has_tag_of(hash));
                assert_eq!(self.table.chain_number(hash), number as u64);
                let of_segment = &mut live[place.segment.0 as usize];
                of_segment.0 += 1;
                of_segment.1 += words;
                found += 1;
            }
            assert_eq!(found, object_count);
            assert!(
                line_count == 1 || found > 6 * (line_count as u64 - 1),
                "a line too many"
            );
            items += found;
        }
        assert_eq!(items, self.len());
        for id in heap.ids().filter(|&id| chains.state(id) != State::Table) {
            assert_eq!(heap.segment(id).live(), live[id.0 as usize], "{id:?}");
        }
        // What is left of the last piece of chains waits to be split into.
        assert!(lines <= line_count);
        let directory_bytes = chains.heap_bytes() + heap.header_bytes();
        let taken_bytes = heap.taken_bytes(chains.taken_count());
        drop(chains);
        let limit = self.config.memory_bytes;
        let taken = taken_bytes + directory_bytes + self.table.directory_bytes();
        assert!(taken as u64 <= limit, "{taken} of {limit}");
    }
}
