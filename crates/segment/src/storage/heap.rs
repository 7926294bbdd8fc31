//! The segment heap: memory in equal segments, what readers and writers need of each, and how they stay
//! out of each other's way.
//!
//! ```text
//! stamp, for readers; four share a cache line, which changes as seldom as a segment is taken
//! generation 8    how often it was given back
//! deadline 8      creation and the bucket's TTL; what every object in it is taken for
//!
//! header, for writers; a cache line, so that no two writers share one
//! write 8         used 24 · TTL bucket 11 · writer 16 · 0 .. · WRITING 1 · SEALED 1
//! live 8          words of live objects 32 · live objects 32
//! uses 4          hits counted since eviction last looked
//! known 24        when it was begun, how the cache worked then, objects asked for
//! ```
//!
//! # Readers and the generation
//! A segment is given back in this order: every slot of the table that names it is cleared; the generation
//! goes up; somebody takes it and writes it anew. A reader therefore (1) loads the generation, (2) loads the
//! slot *again*, (3) copies, (4) loads the generation again, behind a fence, and keeps what it copied only if
//! that is still the same.
//! - The slot of step 2 is of this generation or a later one: slots of earlier ones were cleared before
//!   the generation went up to what step 1 saw.
//! - It is not of a later one when step 4 finds the generation unchanged: it was published after the generation
//!   went up, so whoever sees the one sees the other.
//! - Its object was written before the slot was published, so step 3 sees all of it; and nothing that was
//!   written in a later generation, because the fence of whoever took the segment stands before its writes,
//!   and step 4 would see what that fence follows.
//!
//! # Writers and the seal
//! A segment that takes objects belongs to one writer, who alone appends. Anybody may *seal* it. An append
//! moves `write` by a compare-and-swap that fails when the segment is sealed or was given to somebody else
//! (the writer and the bucket stand in the same word), and sets WRITING until the object stands in the table:
//! a segment is given back only when it is sealed and nobody is writing.

use crate::eviction::learned::Known;
use crate::storage::chains::Chains;
use crate::storage::memory::Memory;
use crate::storage::ttl::TtlBucket;
use crate::storage::words::WORD;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, fence};
use crate::sync::{Mutex, MutexGuard};
use policy::Tick;
use std::sync::PoisonError;

/// Names a segment; 0 is none, so that no slot of the table that names an object is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub struct SegmentId(pub(crate) u32);

impl SegmentId {
    pub(crate) const NONE: SegmentId = SegmentId(0);

    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Where an object begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub(crate) segment: SegmentId,
    /// In words.
    pub(crate) offset: u32,
}

const USED_MASK: u64 = (1 << 24) - 1;
const BUCKET_SHIFT: u32 = 24;
const WRITER_SHIFT: u32 = 35;
const WRITING: u64 = 1 << 62;
const SEALED: u64 = 1 << 63;

const LIVE_WORDS_SHIFT: u32 = 32;

/// Who takes objects into a segment, as its header tells.
#[inline(always)]
fn ownership(writer: u16, bucket: TtlBucket) -> u64 {
    u64::from(bucket.0) << BUCKET_SHIFT | u64::from(writer) << WRITER_SHIFT
}

/// A segment's header. See the module text.
#[derive(Debug)]
#[repr(align(64))]
pub struct Segment {
    write: AtomicU64,
    live: AtomicU64,
    pub(crate) uses: AtomicU32,
    pub(crate) known: Known,
}

/// What readers need of a segment. See the module text.
#[derive(Debug)]
pub(crate) struct Stamp {
    pub(crate) generation: AtomicU64,
    deadline: AtomicU64,
}

/// Bytes of a segment outside its memory, its part of the heap's.
pub(crate) const HEADER_BYTES: usize = size_of::<Segment>() + size_of::<Stamp>();

#[cfg(not(loom))]
const _: () = assert!(HEADER_BYTES == 64 + 16);

impl Segment {
    fn vacant() -> Self {
        Segment {
            write: AtomicU64::new(SEALED),
            live: AtomicU64::new(0),
            uses: AtomicU32::new(0),
            known: Known::default(),
        }
    }

    /// Words that were given to objects.
    pub(crate) fn used(&self) -> u32 {
        (self.write.load(Acquire) & USED_MASK) as u32
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.write.load(Acquire) & (SEALED | WRITING) == SEALED
    }

    /// Ends that it takes objects; false while somebody is still writing one.
    pub(crate) fn seal(&self) -> bool {
        self.write.fetch_or(SEALED, AcqRel) & WRITING == 0
    }

    /// Live objects, and the words that they take.
    pub(crate) fn live(&self) -> (u32, u32) {
        let live = self.live.load(Acquire);
        (live as u32, (live >> LIVE_WORDS_SHIFT) as u32)
    }

    #[inline]
    pub(crate) fn add_live(&self, words: u32) {
        self.live
            .fetch_add(u64::from(words) << LIVE_WORDS_SHIFT | 1, Relaxed);
    }

    /// How many objects are left.
    #[inline]
    pub(crate) fn take_live(&self, words: u32) -> u32 {
        let one = u64::from(words) << LIVE_WORDS_SHIFT | 1;
        let before = self.live.fetch_sub(one, AcqRel);
        debug_assert!(before as u32 > 0);
        debug_assert!(before >> LIVE_WORDS_SHIFT >= u64::from(words));
        before as u32 - 1
    }

    /// Room for one more object, which the writer fills and then ends by [`Segment::written`].
    /// `None`: sealed, full, or no longer this writer's.
    #[inline]
    pub(crate) fn reserve(
        &self,
        writer: u16,
        bucket: TtlBucket,
        words: u32,
        capacity: u32,
    ) -> Option<u32> {
        let before = self.write.load(Relaxed);
        let used = (before & USED_MASK) as u32;
        let is_mine = before & !USED_MASK == ownership(writer, bucket);
        if !is_mine || used + words > capacity {
            return None;
        }
        let after = (before + u64::from(words)) | WRITING;
        let swapped = self.write.compare_exchange(before, after, Acquire, Relaxed);
        swapped.is_ok().then_some(used)
    }

    /// A merge has put one more object behind the others.
    pub(crate) fn filled(&self, words: u32) {
        self.write.fetch_add(u64::from(words), Release);
    }

    /// The object that was reserved last stands in the table, or never will.
    #[inline]
    pub(crate) fn written(&self) {
        let before = self.write.fetch_and(!WRITING, Release);
        debug_assert!(before & WRITING != 0);
    }

    /// The object that was reserved last was never in the table: its room is taken back, if nobody has
    /// sealed the segment meanwhile.
    pub(crate) fn unreserve(&self, words: u32) {
        let before = self.write.load(Relaxed);
        let after = (before - u64::from(words)) & !WRITING;
        let swapped = before & SEALED == 0
            && self
                .write
                .compare_exchange(before, after, Release, Relaxed)
                .is_ok();
        if !swapped {
            self.written();
        }
    }

    /// Whether this writer may still append for a bucket here.
    pub(crate) fn is_open_for(&self, writer: u16, bucket: TtlBucket) -> bool {
        self.write.load(Relaxed) & !(USED_MASK | WRITING) == ownership(writer, bucket)
    }
}

impl Stamp {
    fn vacant() -> Self {
        Stamp {
            generation: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn deadline(&self) -> Tick {
        Tick(self.deadline.load(Relaxed))
    }

    pub(crate) fn set_deadline(&self, deadline: Tick) {
        self.deadline.store(deadline.0, Relaxed);
    }
}

/// Counts of what happened; all by atomics, exact, and read at any time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) items: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) flushed: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) crowded_out: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) segments_evicted: AtomicU64,
    pub(crate) segments_expired: AtomicU64,
    pub(crate) heads_read: AtomicU64,
    pub(crate) scans: AtomicU64,
}

/// All segments.
#[derive(Debug)]
pub struct Heap {
    memory: Memory,
    stamps: Box<[Stamp]>,
    segments: Box<[Segment]>,
    /// Words in a segment.
    pub(crate) capacity: u32,
    chains: Mutex<Chains>,
    /// How many are free; what the chains know, without their lock.
    pub(crate) free_count: AtomicU32,
    /// Goes up with every segment that is taken or given back.
    pub(crate) changes: AtomicU32,
    /// A lower bound of the first moment at which the head of a chain is over.
    pub(crate) next_due: AtomicU64,
    pub(crate) counters: Counters,
}

impl Heap {
    /// A heap of `count` segments of `capacity` words, which large pages may back.
    pub(crate) fn new(count: u32, capacity: u32, wants_large_pages: bool, chains: Chains) -> Self {
        Heap {
            memory: Memory::new(count, capacity, wants_large_pages),
            stamps: (0..=count).map(|_| Stamp::vacant()).collect(),
            segments: (0..=count).map(|_| Segment::vacant()).collect(),
            capacity,
            free_count: AtomicU32::new(chains.free_count()),
            chains: Mutex::new(chains),
            changes: AtomicU32::new(0),
            next_due: AtomicU64::new(u64::MAX),
            counters: Counters::default(),
        }
    }

    /// How many segments there are.
    pub(crate) fn count(&self) -> u32 {
        self.segments.len() as u32 - 1
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = SegmentId> + use<> {
        (1..=self.count()).map(SegmentId)
    }

    #[inline(always)]
    pub(crate) fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn stamp(&self, id: SegmentId) -> &Stamp {
        &self.stamps[id.0 as usize]
    }

    /// When all in this segment is over.
    #[inline(always)]
    pub(crate) fn deadline(&self, id: SegmentId) -> Tick {
        self.stamp(id).deadline()
    }

    /// The segments' memory.
    #[inline(always)]
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The words from a place on: those of an object, if there is one, and what lies behind it.
    #[inline(always)]
    pub(crate) fn words(&self, place: Place) -> Option<&[AtomicU64]> {
        self.memory
            .from(self.memory.number(place.segment, place.offset))
    }

    /// The first words of a segment are free again, for somebody else.
    pub(crate) fn open(&self, id: SegmentId, writer: u16, bucket: TtlBucket, deadline: Tick) {
        let segment = self.segment(id);
        debug_assert!(segment.is_sealed());
        debug_assert_eq!(segment.live.load(Relaxed), 0);
        // Whatever is written from now on is later than the generation that its taker has seen.
        fence(Release);
        self.stamp(id).set_deadline(deadline);
        segment.uses.store(0, Relaxed);
        segment.write.store(ownership(writer, bucket), Release);
    }

    /// The objects of a segment are all gone: what readers copied since is not to be trusted.
    pub(crate) fn give_back(&self, id: SegmentId) {
        let (segment, generation) = (self.segment(id), &self.stamp(id).generation);
        let live = segment.live.load(Relaxed);
        assert_eq!(live, 0, "an object is still in the table");
        assert!(segment.is_sealed(), "somebody writes");
        generation.store(generation.load(Relaxed).wrapping_add(1), Release);
        segment.write.store(SEALED, Release);
    }

    /// The chains, locked: for what is short. Whoever panicked with the lock had asserted something.
    pub(crate) fn chains(&self) -> MutexGuard<'_, Chains> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a change of the chains.
    pub(crate) fn tell_free(&self, chains: &Chains) {
        self.free_count.store(chains.free_count(), Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }

    /// A segment with this deadline is the head of its chain now, or may be. With the chains locked.
    pub(crate) fn falls_due(&self, deadline: Tick) {
        self.next_due.fetch_min(deadline.0, Relaxed);
    }

    /// Bytes of memory of this many segments, which were ever taken.
    pub(crate) fn taken_bytes(&self, count: u32) -> usize {
        count as usize * Memory::bytes_of_one(self.capacity)
    }

    /// Bytes of the headers.
    pub(crate) fn header_bytes(&self) -> usize {
        self.segments.len() * HEADER_BYTES
    }

    /// Bytes in a segment.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.capacity as usize * WORD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: TtlBucket = TtlBucket(7);
    const ID: SegmentId = SegmentId(1);

    fn open() -> Heap {
        let heap = Heap::new(1, 64, false, Chains::new(1, 0, None));
        heap.open(ID, 3, BUCKET, Tick(100));
        heap
    }

    #[test]
    fn a_writer_appends_until_the_segment_is_full() {
        let heap = open();
        let segment = heap.segment(ID);
        assert_eq!(segment.reserve(3, BUCKET, 10, 24), Some(0));
        segment.written();
        assert_eq!(segment.reserve(3, BUCKET, 10, 24), Some(10));
        segment.unreserve(10);
        assert_eq!(segment.reserve(3, BUCKET, 14, 24), Some(10));
        segment.written();
        assert_eq!(segment.reserve(3, BUCKET, 1, 24), None);
        assert_eq!(segment.used(), 24);
    }

    #[test]
    fn nobody_else_appends_and_nobody_after_the_seal() {
        let heap = open();
        let segment = heap.segment(ID);
        assert_eq!(segment.reserve(2, BUCKET, 1, 24), None);
        assert_eq!(segment.reserve(3, TtlBucket(8), 1, 24), None);
        assert_eq!(segment.reserve(3, BUCKET, 5, 24), Some(0));
        assert!(!segment.seal(), "an object is being written");
        assert!(!segment.is_sealed());
        segment.unreserve(5);
        assert!(segment.is_sealed());
        assert_eq!(segment.used(), 5, "what was sealed keeps its length");
        assert_eq!(segment.reserve(3, BUCKET, 1, 24), None);
    }
}
