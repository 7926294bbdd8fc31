//! The segment heap: memory in equal segments, with a header for each, and the proof that a reader
//! without a lock never returns another object's bytes.
//!
//! # Why a reader returns only what it looked up
//! A segment is freed in this order: every slot of the table that names one of its objects is
//! cleared; its generation goes up; another owner takes it and writes new objects. A reader (1)
//! loads the generation, (2) loads the slot *again*, (3) copies the object, (4) loads the
//! generation again behind a fence, and keeps the copy only if the generation is unchanged.
//! - The slot of step 2 was published in this generation or a later one, because slots of earlier
//!   generations were cleared before the generation went up to the value of step 1.
//! - If step 4 finds the generation unchanged, the slot is not of a later one: that would have been
//!   published after the generation went up, so a reader that sees the slot also sees the new
//!   generation.
//! - The object was written before its slot was published, so step 3 reads all of it. Step 3 reads
//!   nothing that was written in a later generation, because the fence of the new owner stands
//!   before its writes, and step 4 would see the generation that precedes the fence.

use super::header::{HEADER_BYTES, Header, Stamp};
use super::location::{Location, SegmentId};
use super::memory::Memory;
use super::ttl::TtlBucket;
use super::words::WORD;
use crate::sync::AtomicU64;
use policy::Tick;

/// Memory and headers of all segments.
#[derive(Debug)]
pub struct Heap {
    memory: Memory,
    stamps: Box<[Stamp]>,
    headers: Box<[Header]>,
    capacity: u32,
}

/// Returns the bytes that a segment of this many words takes, with its headers.
pub(crate) fn heap_bytes_of_segment(capacity: u32) -> usize {
    Memory::bytes_of_one(capacity) + HEADER_BYTES
}

impl Heap {
    /// Creates a heap of `count` segments of `capacity` words each, optionally backed by large
    /// pages.
    pub(crate) fn new(count: u32, capacity: u32, wants_large_pages: bool) -> Self {
        Heap {
            memory: Memory::new(count, capacity, wants_large_pages),
            stamps: (0..=count).map(|_| Stamp::vacant()).collect(),
            headers: (0..=count).map(|_| Header::vacant()).collect(),
            capacity,
        }
    }

    /// Creates a heap whose segments are stored in a file, beginning at a byte that must be a
    /// multiple of the page size.
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
        Ok(Heap {
            memory: Memory::mapped(count, capacity, file, offset)?,
            ..Heap::new(count, capacity, false)
        })
    }

    /// Returns the size of the segments in a file, in bytes.
    pub(crate) fn file_bytes(count: u32, capacity: u32) -> u64 {
        Memory::file_bytes(count, capacity)
    }

    /// Declares that a free segment is sealed and holds objects of an earlier engine.
    pub(super) fn restore(&self, id: SegmentId, deadline: Tick, used: u32, live: (u32, u32)) {
        self.header(id).restore(used, live);
        self.stamp(id).set_deadline(deadline);
    }

    /// Returns the number of segments.
    pub(crate) fn count(&self) -> u32 {
        self.headers.len() as u32 - 1
    }

    /// Returns the number of words in a segment.
    #[inline(always)]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = SegmentId> + use<> {
        (1..=self.count()).map(SegmentId)
    }

    #[inline(always)]
    pub(crate) fn header(&self, id: SegmentId) -> &Header {
        &self.headers[id.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn stamp(&self, id: SegmentId) -> &Stamp {
        &self.stamps[id.0 as usize]
    }

    /// Returns the time at which all objects of a segment expire.
    #[inline(always)]
    pub(crate) fn deadline(&self, id: SegmentId) -> Tick {
        self.stamp(id).deadline()
    }

    #[inline(always)]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the words from a location to the end of its memory chunk: the object that begins
    /// there, and everything after it. `None` if the memory was never reserved.
    #[inline(always)]
    pub(crate) fn words(&self, location: Location) -> Option<&[AtomicU64]> {
        self.memory
            .from(self.memory.number(location.segment, location.offset))
    }

    /// Gives a free segment to a writer, for objects of a TTL bucket.
    pub(crate) fn open(&self, id: SegmentId, writer: u16, bucket: TtlBucket, deadline: Tick) {
        self.header(id)
            .open(self.stamp(id), writer, bucket, deadline);
    }

    /// Frees a segment to which no slot of the table refers.
    pub(super) fn give_back(&self, id: SegmentId) {
        self.header(id).give_back(self.stamp(id), id);
    }

    /// Returns the size of `count` segments in bytes, including their share of the unused words at
    /// the bounds of chunks.
    pub(crate) fn taken_bytes(&self, count: u32) -> usize {
        count as usize * Memory::bytes_of_one(self.capacity)
    }

    /// Returns the bytes of the headers of all segments.
    pub(crate) fn header_bytes(&self) -> usize {
        self.headers.len() * HEADER_BYTES
    }

    /// Returns the size of a segment in bytes.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.capacity as usize * WORD
    }
}
