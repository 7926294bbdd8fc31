//! The headers of a segment: one for readers, one for writers.
//!
//! ```text
//! Stamp, for readers: 16 bytes. Four stamps share a cache line, which changes only when a
//! segment is opened or freed.
//!   generation  64    number of times that the segment was freed
//!   deadline    64    when all objects in the segment expire
//!
//! Header, for writers: a cache line of its own, so that writers of different segments do not
//! share one.
//!             63       62      50        35 34         24 23           0
//!   write     [sealed] [writing] [0] [ writer 16 ] [ TTL bucket 11 ] [ used words 24 ]
//!   live      63  words of live objects  32 31     live objects      0
//!   usage     32 bytes: see `usage.rs`
//! ```
//!
//! # Writers and the seal
//! A segment that takes objects is owned by one writer, and only its owner appends. Any thread may
//! *seal* it. An append advances `write` by a compare-and-swap, which fails if the segment was
//! sealed or has another owner, because the owner stands in the same word. The swap also sets
//! `writing`, which is cleared once the table names the object. A segment is freed only when it is
//! sealed and `writing` is clear.

use super::location::SegmentId;
use super::ttl::TtlBucket;
use super::usage::Usage;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, fence};
use policy::Tick;

const USED_MASK: u64 = (1 << 24) - 1;
const BUCKET_SHIFT: u32 = 24;
const WRITER_SHIFT: u32 = 35;
const WRITING: u64 = 1 << 62;
const SEALED: u64 = 1 << 63;

const LIVE_WORDS_SHIFT: u32 = 32;

/// Returns the bits of `write` that identify the owner and the TTL bucket of a segment.
#[inline(always)]
fn ownership(writer: u16, bucket: TtlBucket) -> u64 {
    u64::from(bucket.0) << BUCKET_SHIFT | u64::from(writer) << WRITER_SHIFT
}

/// The part of a segment's headers that writers and eviction use. The module text draws its layout.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Header {
    write: AtomicU64,
    live: AtomicU64,
    pub(crate) usage: Usage,
}

/// The part of a segment's headers that readers use. The module text draws its layout.
#[derive(Debug)]
pub(crate) struct Stamp {
    generation: AtomicU64,
    deadline: AtomicU64,
}

/// Size of both headers of a segment in bytes.
pub(crate) const HEADER_BYTES: usize = size_of::<Header>() + size_of::<Stamp>();

#[cfg(not(loom))]
const _: () = assert!(HEADER_BYTES == 64 + 16);

impl Header {
    pub(crate) fn vacant() -> Self {
        Header {
            write: AtomicU64::new(SEALED),
            live: AtomicU64::new(0),
            usage: Usage::default(),
        }
    }

    /// Sets the header for a sealed segment with objects of an earlier engine: its number of used
    /// words, and the number of its live objects and of their words.
    pub(super) fn restore(&self, used: u32, (objects, words): (u32, u32)) {
        debug_assert!(u64::from(used) <= USED_MASK && words <= used);
        self.write.store(SEALED | u64::from(used), Relaxed);
        let live = u64::from(words) << LIVE_WORDS_SHIFT | u64::from(objects);
        self.live.store(live, Relaxed);
    }

    /// Returns the number of words given to objects, including removed ones.
    pub(crate) fn used(&self) -> u32 {
        (self.write.load(Acquire) & USED_MASK) as u32
    }

    /// Returns true if the segment takes no more objects and none is being written.
    pub(crate) fn is_sealed(&self) -> bool {
        self.write.load(Acquire) & (SEALED | WRITING) == SEALED
    }

    /// Seals the segment. Returns false while its owner is still writing an object.
    pub(crate) fn seal(&self) -> bool {
        self.write.fetch_or(SEALED, AcqRel) & WRITING == 0
    }

    /// Returns the number of live objects and of the words they take.
    pub(crate) fn live(&self) -> (u32, u32) {
        let live = self.live.load(Acquire);
        (live as u32, (live >> LIVE_WORDS_SHIFT) as u32)
    }

    #[inline]
    pub(crate) fn add_live(&self, words: u32) {
        self.live
            .fetch_add(u64::from(words) << LIVE_WORDS_SHIFT | 1, Relaxed);
    }

    /// Removes an object to which the table no longer refers from the counts of live objects.
    #[inline]
    pub(crate) fn take_live(&self, words: u32) {
        let one = u64::from(words) << LIVE_WORDS_SHIFT | 1;
        let before = self.live.fetch_sub(one, AcqRel);
        debug_assert!(before as u32 > 0);
        debug_assert!(before >> LIVE_WORDS_SHIFT >= u64::from(words));
    }

    /// Reserves room for one object and returns its offset, or `None` if the segment is sealed,
    /// full, or owned by another writer. The owner then writes the object and calls
    /// [`Header::written`].
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

    /// Counts the words of an object appended by a merge.
    pub(crate) fn filled(&self, words: u32) {
        self.write.fetch_add(u64::from(words), Release);
    }

    /// Ends the write of the object reserved last. Either the table refers to it now, or it never
    /// will.
    #[inline]
    pub(crate) fn written(&self) {
        let before = self.write.fetch_and(!WRITING, Release);
        debug_assert!(before & WRITING != 0);
    }

    /// Frees the room reserved last, whose object the table never referred to. If the segment was
    /// sealed meanwhile, the room stays used.
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

    /// Returns true if this writer still owns the segment and may append to it.
    pub(crate) fn is_open_for(&self, writer: u16, bucket: TtlBucket) -> bool {
        self.write.load(Relaxed) & !(USED_MASK | WRITING) == ownership(writer, bucket)
    }

    /// Gives an empty segment to a writer, with a new deadline.
    pub(crate) fn open(&self, stamp: &Stamp, writer: u16, bucket: TtlBucket, deadline: Tick) {
        debug_assert!(self.is_sealed());
        debug_assert_eq!(self.live.load(Relaxed), 0);
        // Orders the generation that the new owner has read before everything that it writes.
        fence(Release);
        stamp.set_deadline(deadline);
        self.usage.reset_hits();
        self.write.store(ownership(writer, bucket), Release);
    }

    /// Frees a segment that no slot of the table refers to. Readers discard what they have copied
    /// from it.
    pub(crate) fn give_back(&self, stamp: &Stamp, id: SegmentId) {
        let live = self.live.load(Relaxed);
        assert_eq!(live, 0, "the table still names objects of {id:?}");
        assert!(self.is_sealed(), "{id:?} is still written");
        let next = stamp.generation.load(Relaxed).wrapping_add(1);
        stamp.generation.store(next, Release);
        self.write.store(SEALED, Release);
    }
}

impl Stamp {
    pub(crate) fn vacant() -> Self {
        Stamp {
            generation: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
        }
    }

    /// Returns the generation. A reader loads it before it reads the slot again.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Returns true if the segment was not freed since its generation was read. All earlier reads
    /// are ordered before this check.
    #[inline(always)]
    pub(crate) fn is_still(&self, generation: u64) -> bool {
        fence(Acquire);
        self.generation.load(Relaxed) == generation
    }

    #[inline(always)]
    pub(crate) fn deadline(&self) -> Tick {
        Tick(self.deadline.load(Relaxed))
    }

    pub(crate) fn set_deadline(&self, deadline: Tick) {
        self.deadline.store(deadline.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: TtlBucket = TtlBucket(7);

    fn open() -> Header {
        let header = Header::vacant();
        header.open(&Stamp::vacant(), 3, BUCKET, Tick(100));
        header
    }

    #[test]
    fn a_writer_appends_until_the_segment_is_full() {
        let header = open();
        assert_eq!(header.reserve(3, BUCKET, 10, 24), Some(0));
        header.written();
        assert_eq!(header.reserve(3, BUCKET, 10, 24), Some(10));
        header.unreserve(10);
        assert_eq!(header.reserve(3, BUCKET, 14, 24), Some(10));
        header.written();
        assert_eq!(header.reserve(3, BUCKET, 1, 24), None);
        assert_eq!(header.used(), 24);
    }

    #[test]
    fn only_the_owner_appends_and_only_before_the_seal() {
        let header = open();
        assert_eq!(header.reserve(2, BUCKET, 1, 24), None);
        assert_eq!(header.reserve(3, TtlBucket(8), 1, 24), None);
        assert_eq!(header.reserve(3, BUCKET, 5, 24), Some(0));
        assert!(!header.seal(), "an object is being written");
        assert!(!header.is_sealed());
        header.unreserve(5);
        assert!(header.is_sealed());
        assert_eq!(header.used(), 5, "a sealed segment keeps its length");
        assert_eq!(header.reserve(3, BUCKET, 1, 24), None);
    }
}
