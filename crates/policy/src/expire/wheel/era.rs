//! One hierarchical wheel, anchored at an instant, and the bits of an entry that hold its place.

use super::pool::{self, Pool};
use crate::Meta;
use alloc::boxed::Box;

/// Number of bits of a deadline that select a bucket of one level.
pub(super) const DIGIT_BITS: u32 = 6;
/// Buckets of a level.
pub(super) const BUCKETS: usize = 1 << DIGIT_BITS;
/// Number of levels. Together they cover every possible deadline.
pub(super) const LEVELS: usize = 8;
/// Maximum number of eras at a time. It allows seven backward jumps of the clock, each to a time
/// before all eras.
pub(super) const ERAS: usize = 8;

/// Number of bits of a bucket's word that count the free words of its last chunk.
const ROOM_BITS: u32 = 32 - pool::CHUNK_BITS;
const ROOM_MASK: u32 = (1 << ROOM_BITS) - 1;

const _: () = assert!(LEVELS as u32 * DIGIT_BITS == 48);
const _: () = assert!(pool::CAPACITY_MAX <= ROOM_MASK);

/// Place in which an entry's reference is filed; 0 if it is not filed.
///
/// ```text
/// bits 0–5    the bucket          bits 9–11   the era
/// bits 6–8    the level           bits 12–15  a tag of the reference's word in its chunk, never 0
/// ```
///
/// The tag distinguishes the reference from an older one to the same slot in the same bucket, which
/// an earlier entry of the slot left behind: it mistakes one in 15 of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link(u16);

impl Meta for Link {
    const BITS: u32 = 16;
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.0)
    }
    #[inline]
    fn unpack(bits: u64) -> Self {
        Link(bits as u16)
    }
}

/// A bucket of an era: the low 12 bits of a [`Link`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place(pub(super) u16);

impl Place {
    /// Number of places.
    pub(super) const COUNT: u16 = (ERAS * LEVELS * BUCKETS) as u16;

    #[inline]
    pub(super) fn new(era: usize, level: usize, bucket: usize) -> Self {
        debug_assert!(era < ERAS);
        debug_assert!(level < LEVELS);
        Place((era << 9 | level << 6 | bucket) as u16)
    }
    #[inline]
    pub(super) fn bucket(self) -> usize {
        usize::from(self.0) % BUCKETS
    }
    #[inline]
    pub(super) fn level(self) -> usize {
        usize::from(self.0 >> 6) % LEVELS
    }
    #[inline]
    pub(super) fn era(self) -> usize {
        usize::from(self.0 >> 9)
    }
    /// Returns the link of the entry whose reference is word `index` of a chunk here.
    #[inline]
    pub(super) fn link(self, index: u32) -> Link {
        let tag = 1 + index % 15;
        Link(self.0 | (tag as u16) << 12)
    }
}

impl Link {
    /// Returns where the entry is filed, if it is.
    #[inline]
    pub(super) fn place(self) -> Option<Place> {
        (self.0 != 0).then_some(Place(self.0 & 0xfff))
    }
}

/// A bucket's word: its last chunk, and the number of free words in that chunk.
///
/// The chunks form a ring: the last is followed by the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail(u32);

impl Tail {
    #[inline]
    pub(super) fn new(chunk: u32, room: u32) -> Self {
        debug_assert!(room <= ROOM_MASK);
        Tail(chunk << ROOM_BITS | room)
    }
    #[inline]
    pub(super) fn chunk(self) -> u32 {
        self.0 >> ROOM_BITS
    }
    #[inline]
    pub(super) fn room(self) -> u32 {
        self.0 & ROOM_MASK
    }
}

/// The bucket that is being emptied from its front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) place: Place,
    /// Next word of the first chunk to be read; 0 if none of it was read yet.
    pub(super) index: u32,
}

/// A hierarchical wheel for deadlines of `elapsed` or later.
///
/// A reference is at the level of the highest digit in which its deadline differs from `elapsed`,
/// in the bucket of the deadline's digit there. At level 0, every bucket is therefore one
/// millisecond, all buckets of a level begin before those of the next, and at a level above 0
/// bucket numbers exceed `elapsed`'s own digit (except for the drain's).
pub(super) struct Era {
    /// All entries with deadlines before this were returned.
    pub(super) elapsed: u64,
    pub(super) drain: Option<Drain>,
    /// Minimum level for new deadlines while a bucket is drained: the level of that bucket. Applies
    /// to deadlines in the range of the bucket.
    floor: u8,
    /// Bit set of the levels that have an occupied bucket.
    levels: u8,
    /// Bit set of the occupied buckets of each level.
    occupied: [u64; LEVELS],
    tails: [Option<Box<[Tail; BUCKETS]>>; LEVELS],
    /// Number of references per level, including stale ones.
    pub(super) ref_counts: [u32; LEVELS],
}

impl Era {
    pub(super) fn new(elapsed: u64) -> Self {
        Era {
            elapsed,
            drain: None,
            floor: 0,
            levels: 0,
            occupied: [0; LEVELS],
            tails: [const { None }; LEVELS],
            ref_counts: [0; LEVELS],
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.levels == 0
    }

    /// Returns the level and bucket for a deadline of `elapsed` or later. While a bucket is
    /// drained, deadlines in its range go to its end; with `is_refiled` its own entries go lower.
    #[inline]
    pub(super) fn place_of(&self, deadline: u64, is_refiled: bool) -> (usize, usize) {
        debug_assert!(deadline >= self.elapsed);
        let difference = (deadline ^ self.elapsed) | 1;
        let digit = (63 - difference.leading_zeros()) / DIGIT_BITS;
        let level = if is_refiled {
            digit
        } else {
            digit.max(u32::from(self.floor))
        };
        (
            level as usize,
            (deadline >> (DIGIT_BITS * level)) as usize % BUCKETS,
        )
    }

    /// Returns the first millisecond of a bucket.
    #[inline]
    pub(super) fn start_of(&self, place: Place) -> u64 {
        let shift = DIGIT_BITS * place.level() as u32;
        let above = self.elapsed >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS);
        above | (place.bucket() as u64) << shift
    }

    #[inline]
    pub(super) fn is_occupied(&self, level: usize, bucket: usize) -> bool {
        self.occupied[level] >> bucket & 1 != 0
    }

    /// Returns the earliest occupied bucket of a level.
    #[inline]
    pub(super) fn first_of(&self, level: usize) -> Option<usize> {
        let word = self.occupied[level];
        (word != 0).then_some(word.trailing_zeros() as usize)
    }

    /// Returns the level and bucket to drain next: the lowest level's first bucket, or the drain.
    #[inline]
    pub(super) fn front(&self) -> Option<(usize, usize)> {
        let lowest = if self.floor > 0 {
            usize::from(self.floor)
        } else if self.levels != 0 {
            self.levels.trailing_zeros() as usize
        } else {
            return None;
        };
        Some((lowest, self.first_of(lowest)?))
    }

    /// Returns the occupied buckets of a level as bits.
    pub(super) fn occupied(&self, level: usize) -> u64 {
        self.occupied[level]
    }

    #[inline]
    pub(super) fn tail(&self, place: Place) -> Tail {
        let tails = self.tails[place.level()].as_ref();
        tails.expect("a level in use has its words")[place.bucket()]
    }

    /// Stores the word of an occupied bucket.
    #[inline]
    pub(super) fn set_tail(&mut self, place: Place, tail: Tail) {
        let tails = self.tails[place.level()].as_mut();
        tails.expect("a level in use has its words")[place.bucket()] = tail;
    }

    /// Records that the last chunk of a bucket was freed. A small index frees the words of a level
    /// that became empty.
    pub(super) fn vacate(&mut self, place: Place, is_small: bool) {
        let level = place.level();
        self.occupied[level] &= !(1 << place.bucket());
        if self.is_drained(place) {
            self.drain = None;
            self.floor = 0;
        }
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
            if is_small {
                self.tails[level] = None;
            }
        }
    }

    pub(super) fn begin_drain(&mut self, place: Place) {
        debug_assert!(self.drain.is_none());
        self.elapsed = self.start_of(place);
        self.floor = place.level() as u8;
        self.drain = Some(Drain { place, index: 0 });
    }

    #[inline]
    pub(super) fn is_drained(&self, place: Place) -> bool {
        self.drain.is_some_and(|drain| drain.place == place)
    }

    /// Records that the bucket has a new first chunk, which is not begun yet.
    #[inline]
    pub(super) fn restart_drain(&mut self, place: Place) {
        if let Some(drain) = self.drain.as_mut().filter(|drain| drain.place == place) {
            drain.index = 0;
        }
    }

    /// Adds a reference at the end of a bucket and returns the index of its word.
    #[inline]
    pub(super) fn append(&mut self, pool: &mut Pool, place: Place, slot: u32) -> u32 {
        let (level, bucket) = (place.level(), place.bucket());
        self.ref_counts[level] += 1;
        if self.is_occupied(level, bucket) {
            let tail = self.tail(place);
            let room = tail.room();
            if room > 0 {
                pool.set_word(tail.chunk(), room, slot);
                self.set_tail(place, Tail::new(tail.chunk(), room - 1));
                return room;
            }
        }
        self.append_chunk(pool, place, slot)
    }

    /// Adds a chunk with one reference at the end of a bucket.
    #[inline(never)]
    fn append_chunk(&mut self, pool: &mut Pool, place: Place, slot: u32) -> u32 {
        let (level, bucket) = (place.level(), place.bucket());
        let chunk;
        if self.is_occupied(level, bucket) {
            let last = self.tail(place).chunk();
            chunk = pool.take((pool.ordinal(last) + 1).min(pool::ORDINAL_MAX));
            pool.set_next(chunk, pool.next(last));
            pool.set_next(last, chunk);
        } else {
            chunk = pool.take(0);
            self.occupied[level] |= 1 << bucket;
            self.levels |= 1 << level;
            self.tails[level].get_or_insert_with(|| Box::new([Tail(0); BUCKETS]));
        }
        let room = pool::capacity(pool.ordinal(chunk));
        pool.set_word(chunk, room, slot);
        self.set_tail(place, Tail::new(chunk, room - 1));
        room
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.tails.iter().flatten().count() * size_of::<[Tail; BUCKETS]>()
    }

    /// Panics if the bit sets of occupied buckets are inconsistent.
    pub(super) fn check(&self) {
        for level in 0..LEVELS {
            let is_used = self.levels >> level & 1 != 0;
            assert_eq!(is_used, self.occupied[level] != 0);
            assert!(
                is_used || self.ref_counts[level] == 0,
                "references without a bucket"
            );
            let own_digit = (self.elapsed >> (DIGIT_BITS * level as u32)) as usize % BUCKETS;
            let is_drained = |bucket| {
                self.drain.is_some_and(|drain| {
                    (drain.place.level(), drain.place.bucket()) == (level, bucket)
                })
            };
            if let Some(first) = self.first_of(level) {
                let is_ahead = if level == 0 {
                    first >= own_digit
                } else {
                    first > own_digit
                };
                assert!(
                    is_ahead || is_drained(first),
                    "a bucket of the past at level {level}"
                );
            }
        }
    }
}
