//! Memory of the segments. It is either reserved in chunks, whose pages the system fills with zeros
//! when they are first touched, or mapped from a file, all chunks at once.
//!
//! The address of a segment is computed from its number and the address of its chunk. There are few
//! chunks, so that their addresses stay in the nearest cache; the addresses of ten thousand
//! separate segments would not. In addition, the system can back a chunk by large pages: with a
//! gigabyte of memory, translating an address in small pages costs as much as a miss in all caches.

use super::cells::Cells;
use super::hint::large_pages;
use super::location::SegmentId;
use super::words::{LINE, Line, WORD};
use crate::sync::AtomicU64;
use std::sync::OnceLock;

/// Binary logarithm of the number of words in a chunk (64 MiB), chosen so that a chunk has several
/// large pages and there are few chunks. The last chunk may be smaller.
const CHUNK_BITS: u32 = 23;
/// Maximum number of words before the first aligned line of a chunk.
const SLACK: usize = LINE - 1;

/// Chunks of memory, and the size of the segments in them.
#[derive(Debug)]
pub(crate) struct Memory {
    chunks: Box<[OnceLock<Chunk>]>,
    /// Number of words in a segment. `count` is the number of segments.
    capacity: u64,
    count: u64,
    wants_large_pages: bool,
}

#[derive(Debug)]
struct Chunk {
    cells: Cells,
    /// Index of the first word of the first aligned cache line.
    start: usize,
}

impl Chunk {
    fn zeroed(words: usize, wants_large_pages: bool) -> Self {
        let cells = Cells::zeroed(words + SLACK);
        if wants_large_pages {
            large_pages(&cells);
        }
        // If the result is unknown, lines are not aligned, which costs time only.
        let start = match cells.as_ptr().align_offset(LINE * WORD) {
            start @ 0..=SLACK => start,
            _ => 0,
        };
        Chunk { cells, start }
    }
}

impl Memory {
    /// Allocates memory for `count` segments of `capacity` words. Segment 0, which does not exist,
    /// takes address space but is never touched.
    pub(crate) fn new(count: u32, capacity: u32, wants_large_pages: bool) -> Self {
        assert!(capacity.is_power_of_two());
        assert!(capacity <= 1 << CHUNK_BITS);
        let capacity = u64::from(capacity);
        let count = capacity * (u64::from(count) + 1);
        let chunks = count.div_ceil(1 << CHUNK_BITS);
        Memory {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            capacity,
            count,
            wants_large_pages,
        }
    }

    /// Maps the same amount of memory from a file, beginning at a byte that must be a multiple of
    /// the page size.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    #[cfg(all(target_os = "linux", not(any(loom, miri))))]
    pub(crate) fn mapped(
        count: u32,
        capacity: u32,
        file: impl rustix::fd::AsFd,
        offset: u64,
    ) -> std::io::Result<Self> {
        let memory = Memory::new(count, capacity, false);
        for (index, chunk) in (0..).zip(&memory.chunks) {
            let first = index << CHUNK_BITS;
            let words = (memory.count - first).min(1 << CHUNK_BITS);
            let cells = Cells::map(&file, offset + first * WORD as u64, words as usize)?;
            let set = chunk.set(Chunk { cells, start: 0 });
            assert!(set.is_ok(), "each chunk is mapped once");
        }
        Ok(memory)
    }

    /// Returns the size of the memory in a file, in bytes.
    pub(crate) fn file_bytes(count: u32, capacity: u32) -> u64 {
        (u64::from(count) + 1) * u64::from(capacity) * WORD as u64
    }

    /// Returns the size of a segment in bytes, including its share of the unused words at the
    /// bounds of a chunk.
    pub(crate) fn bytes_of_one(capacity: u32) -> usize {
        let bounds = SLACK * WORD + size_of::<OnceLock<Chunk>>();
        capacity as usize * WORD + bounds.div_ceil((1 << CHUNK_BITS) / capacity as usize)
    }

    /// Returns the number of a word, counted over all segments.
    #[inline(always)]
    pub(crate) fn number(&self, id: SegmentId, offset: u32) -> u64 {
        u64::from(id.0) * self.capacity + u64::from(offset)
    }

    /// Reserves the chunk of a segment.
    pub(crate) fn reserve(&self, id: SegmentId) {
        let index = self.number(id, 0) >> CHUNK_BITS;
        self.chunks[index as usize].get_or_init(|| {
            let words = (self.count - (index << CHUNK_BITS)).min(1 << CHUNK_BITS);
            Chunk::zeroed(words as usize, self.wants_large_pages)
        });
    }

    /// Returns the words from this number to the end of its chunk, or `None` if the chunk is not
    /// reserved or has no such word.
    #[inline(always)]
    pub(crate) fn from(&self, number: u64) -> Option<&[AtomicU64]> {
        let chunk = self.chunks.get((number >> CHUNK_BITS) as usize)?.get()?;
        let first = (number & ((1 << CHUNK_BITS) - 1)) as usize + chunk.start;
        chunk.cells.get(first..).filter(|words| !words.is_empty())
    }

    /// Returns the cache line that begins with the word of this number. Its segment must be
    /// reserved.
    #[inline(always)]
    pub(crate) fn line(&self, number: u64) -> &Line {
        let chunk = self.chunks[(number >> CHUNK_BITS) as usize].get();
        let chunk = chunk.expect("the memory of the table is reserved");
        let first = (number & ((1 << CHUNK_BITS) - 1)) as usize + chunk.start;
        let line = chunk.cells[first..].first_chunk();
        line.expect("a segment is whole lines")
    }
}
