//! Table that maps a key's hash to the slot of its entry. It consists of atomic words, so that
//! readers need no lock.
//!
//! ```text
//! bucket     64 bytes: 12 tags of 8 bits | overflow count (8) | 24 bits free | 12 slots of 32 bits
//! tag        low 8 bits of the hash, 1 instead of 0; 0 in a free way
//! overflow   number of entries that passed this bucket because it was full; 255 is never reduced
//! position   bit 30: number of the table modulo 2 | bucket << 4 | way
//! ```
//!
//! One thread at a time writes, under the shard's lock. It stores a slot before the tag that
//! publishes it, so that a reader that sees the tag also sees the slot. An entry is replaced by
//! storing another slot in its way.
//!
//! The policy and the expiry index refer to an entry by its position, because the position stays
//! the same when the entry is replaced. Positions change when the table grows, which moves the
//! entries of one bucket per insertion. Meanwhile the bit of the table's number distinguishes old
//! positions from new ones ([`Tables`]).

#![expect(
    unsafe_code,
    reason = "comparison of sixteen tags at once; tidy lists this file"
)]

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Number of entries in a bucket.
pub(crate) const WAYS: usize = 12;
/// Bit of a position that alternates from one table to the next.
const NUMBER: u32 = 1 << 30;
/// Maximum number of buckets, because a position has 30 bits.
pub(crate) const BUCKETS_MAX: usize = 1 << 26;
const WAY_BITS: u32 = 4;

/// Bit position of the overflow count in the second word of tags.
const OVERFLOW_SHIFT: u32 = 32;

/// Bucket of twelve entries, which fills one cache line.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [AtomicU64; 2],
    slots: [AtomicU32; WAYS],
}

/// Returns a mask with one bit for each byte of the two words that equals `tag`. It takes ten
/// instructions; the portable form takes 37, of about 200 for a whole read.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn equal_bytes(words: [u64; 2], tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    #[inline]
    #[target_feature(enable = "sse2")]
    fn compare(words: [u64; 2], tag: u8) -> u32 {
        let words = _mm_set_epi64x(words[1] as i64, words[0] as i64);
        let equal = _mm_cmpeq_epi8(words, _mm_set1_epi8(tag as i8));
        _mm_movemask_epi8(equal) as u32
    }
    const { assert!(cfg!(target_feature = "sse2")) };
    // SAFETY: the processor has SSE2, as the assertion proves.
    unsafe { compare(words, tag) }
}

/// Returns a mask with one bit for each byte of the two words that equals `tag`.
#[cfg(any(test, not(all(target_arch = "x86_64", not(miri)))))]
#[inline(always)]
fn equal_bytes_portable(words: [u64; 2], tag: u8) -> u32 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // Multiplier that moves the lowest bit of each byte to the highest byte, in order.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let [low, high] = words.map(|word| {
        let word = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
        let zero = !(((word & LOW_BITS) + LOW_BITS) | word | LOW_BITS);
        ((zero >> 7).wrapping_mul(GATHER) >> 56) as u32
    });
    low | high << 8
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use equal_bytes_portable as equal_bytes;

impl Bucket {
    #[cfg(any(test, loom))]
    fn new() -> Self {
        Bucket {
            tags: [AtomicU64::new(0), AtomicU64::new(0)],
            slots: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Returns a mask of the ways that have this tag.
    #[inline(always)]
    pub(crate) fn matches(&self, tag: u8) -> u32 {
        let words = [
            self.tags[0].load(Ordering::Acquire),
            self.tags[1].load(Ordering::Acquire),
        ];
        equal_bytes(words, tag) & ((1 << WAYS) - 1)
    }

    #[inline(always)]
    pub(crate) fn slot(&self, way: usize) -> u32 {
        self.slots[way].load(Ordering::Acquire)
    }

    /// Returns the overflow count. A reader that sees a count without an entry that has moved to
    /// another table must also see that table, which determines the memory order.
    #[inline(always)]
    pub(crate) fn overflow(&self) -> u8 {
        (self.tags[1].load(Ordering::Acquire) >> OVERFLOW_SHIFT) as u8
    }

    /// Returns the tag of a way, or 0 if the way is free.
    #[inline]
    pub(crate) fn tag(&self, way: usize) -> u8 {
        (self.tags[way / 8].load(Ordering::Acquire) >> (way % 8 * 8)) as u8
    }

    /// Stores one byte of the tags. Only the writer calls this, so that no other change is lost.
    fn set_byte(&self, at: usize, byte: u8) {
        let (word, shift) = (&self.tags[at / 8], at % 8 * 8);
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(byte) << shift, Ordering::Release);
    }

    fn set_overflow(&self, count: u8) {
        self.set_byte(8 + OVERFLOW_SHIFT as usize / 8, count);
    }

    /// Publishes an entry in a free way.
    pub(crate) fn publish(&self, way: usize, tag: u8, slot: u32) {
        self.slots[way].store(slot, Ordering::Release);
        self.set_byte(way, tag);
    }
}

/// Returns the tag of a hash.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(1)
}

#[cfg(not(loom))]
type Buckets = crate::lines::Lines<Bucket>;
/// Ordinary slice for Loom, whose atomics are larger than the integers.
#[cfg(loom)]
type Buckets = Box<[Bucket]>;

// SAFETY: a bucket consists of integers, for which zero bytes are valid.
#[cfg(not(loom))]
unsafe impl crate::lines::Zeroed for Bucket {}

#[cfg(not(loom))]
fn empty_buckets(count: usize) -> Buckets {
    Buckets::new(count)
}
#[cfg(loom)]
fn empty_buckets(count: usize) -> Buckets {
    (0..count).map(|_| Bucket::new()).collect()
}

/// Walk over the buckets that may contain an entry.
pub(crate) struct Probe<'a> {
    buckets: &'a [Bucket],
    /// Number of buckets minus one. `home` and `at` are not greater.
    mask: usize,
    home: usize,
    at: usize,
}

impl<'a> Probe<'a> {
    /// Returns the current bucket.
    #[inline(always)]
    pub(crate) fn bucket(&self) -> &'a Bucket {
        // SAFETY: `home` and `next` apply the mask, and `Table::new` asserts that the number of
        // buckets is the mask plus one. Checked access takes 8 instructions more, of about 140 for
        // a read.
        unsafe { self.buckets.get_unchecked(self.at) }
    }

    /// Returns the index of the current bucket.
    #[inline(always)]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves to the next bucket. Returns false if it is the first bucket again.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> bool {
        self.at = (self.at + 1) & self.mask;
        self.at != self.home
    }
}

/// Table whose number of buckets is a power of two.
pub(crate) struct Table {
    buckets: Buckets,
    /// Number of buckets minus one.
    mask: usize,
    number: u32,
}

impl Table {
    /// Creates an empty table of at least one bucket. `number` counts the tables of the shard.
    pub(crate) fn new(bucket_count: usize, number: u32) -> Self {
        assert!(bucket_count.is_power_of_two() && bucket_count <= BUCKETS_MAX);
        let buckets = empty_buckets(bucket_count);
        assert_eq!(buckets.len(), bucket_count);
        Table {
            buckets,
            mask: bucket_count - 1,
            number,
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the number of entries that the table takes before it grows.
    pub(crate) fn room(bucket_count: usize) -> usize {
        let ways = bucket_count * WAYS;
        ways - ways / 16
    }

    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> usize {
        (hash >> 8) as u32 as usize & self.mask
    }

    #[inline(always)]
    pub(crate) fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & self.mask
    }

    #[inline(always)]
    pub(crate) fn bucket(&self, at: usize) -> &Bucket {
        &self.buckets[at & self.mask]
    }

    /// Returns a walk over the buckets that may contain an entry with this hash, beginning with its
    /// home bucket.
    #[inline(always)]
    pub(crate) fn probe(&self, hash: u64) -> Probe<'_> {
        let home = self.home(hash);
        Probe {
            buckets: &self.buckets,
            mask: self.mask,
            home,
            at: home,
        }
    }

    /// Returns the position of a way.
    #[inline(always)]
    pub(crate) fn position(&self, bucket: usize, way: usize) -> u32 {
        ((self.number & 1) * NUMBER) | ((bucket << WAY_BITS) | way) as u32
    }

    /// Returns bucket and way of a position, if the position belongs to this table.
    #[inline]
    pub(crate) fn place(&self, position: u32) -> Option<(usize, usize)> {
        let bucket = (position & (NUMBER - 1)) as usize >> WAY_BITS;
        let way = position as usize & ((1 << WAY_BITS) - 1);
        let is_ours = (position & NUMBER != 0) == (self.number & 1 == 1);
        (is_ours && bucket < self.buckets.len() && way < WAYS && position < 2 * NUMBER)
            .then_some((bucket, way))
    }

    /// Returns the slot of the entry at a position, if any.
    #[inline]
    pub(crate) fn slot_at(&self, position: u32) -> Option<u32> {
        let (bucket, way) = self.place(position)?;
        let bucket = &self.buckets[bucket];
        (bucket.tag(way) != 0).then(|| bucket.slot(way))
    }

    /// Returns the bucket and number of a free way near the home of a hash, and their distance from
    /// the home. Adds 1 to the overflow counts of the full buckets in between. The table must have
    /// room.
    pub(crate) fn reserve(&self, hash: u64) -> (usize, usize, usize) {
        let mut at = self.home(hash);
        for distance in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let free = bucket.matches(0);
            if free != 0 {
                return (at, free.trailing_zeros() as usize, distance);
            }
            bucket.set_overflow(bucket.overflow().saturating_add(1));
            at = self.next(at);
        }
        unreachable!("the table grows before it is full")
    }

    /// Stores another slot for the entry at a position.
    pub(crate) fn replace(&self, position: u32, slot: u32) {
        let (bucket, way) = self.place(position).expect("a position of this table");
        self.buckets[bucket].slots[way].store(slot, Ordering::Release);
    }

    /// Frees a way. `distance` is the number of buckets from the entry's home. If it is `None`
    /// because it is unknown, the overflow counts stay too large.
    pub(crate) fn vacate(&self, position: u32, distance: Option<usize>) {
        let (bucket, way) = self.place(position).expect("a position of this table");
        self.buckets[bucket].set_byte(way, 0);
        for back in 1..=distance.unwrap_or(0) {
            let passed = &self.buckets[bucket.wrapping_sub(back) & (self.buckets.len() - 1)];
            let overflow = passed.overflow();
            if overflow < u8::MAX {
                debug_assert!(overflow > 0);
                passed.set_overflow(overflow - 1);
            }
        }
    }

    /// Calls `see` with the position and the slot of each entry, in the order of the positions.
    pub(crate) fn each(&self, mut see: impl FnMut(u32, u32)) {
        for at in 0..self.buckets.len() {
            self.each_of(at, &mut see);
        }
    }

    /// Calls `see` with the position and the slot of each entry of one bucket.
    pub(crate) fn each_of(&self, at: usize, mut see: impl FnMut(u32, u32)) {
        let bucket = &self.buckets[at];
        for way in 0..WAYS {
            if bucket.tag(way) != 0 {
                see(self.position(at, way), bucket.slot(way));
            }
        }
    }
}

/// The current table of a shard and, while it grows, the older table from which entries move.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub current: &'a Table,
    pub older: Option<&'a Table>,
}

impl<'a> Tables<'a> {
    /// Returns the table to which a position belongs.
    #[inline]
    pub(crate) fn of(self, position: u32) -> &'a Table {
        let is_current = (position & NUMBER != 0) == (self.current.number & 1 == 1);
        match self.older {
            Some(older) if !is_current => older,
            _ => self.current,
        }
    }

    /// Returns the slot of the entry at a position, if any.
    #[inline]
    pub(crate) fn slot_at(self, position: u32) -> Option<u32> {
        self.of(position).slot_at(position)
    }

    /// Returns the one or two tables.
    pub(crate) fn each(self) -> impl Iterator<Item = &'a Table> {
        self.older.into_iter().chain([self.current])
    }

    /// Returns the total number of buckets.
    pub(crate) fn bucket_count(self) -> usize {
        self.each().map(Table::bucket_count).sum()
    }

    /// Returns the table of a bucket and the bucket's index there. `at` counts through both tables.
    pub(crate) fn bucket(self, at: usize) -> (&'a Table, usize) {
        match self.older {
            Some(older) if at >= self.current.bucket_count() => {
                (older, at - self.current.bucket_count())
            }
            _ => (self.current, at),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ways_are_found_by_their_tags_only() {
        let bucket = Bucket::new();
        assert_eq!(bucket.matches(0), 0xfff);
        for way in 0..WAYS {
            bucket.publish(way, if way % 3 == 0 { 7 } else { 0x80 }, way as u32 + 100);
        }
        bucket.set_overflow(7);
        assert_eq!(bucket.matches(7), 0b0010_0100_1001);
        assert_eq!(bucket.matches(0x80), 0b1101_1011_0110);
        assert_eq!(bucket.matches(0), 0);
        assert_eq!(bucket.overflow(), 7);
        assert_eq!(bucket.slot(11), 111);
    }

    #[test]
    fn both_comparisons_of_tags_agree() {
        let mut words = [0x00ff_7f80_0101_0001, 0x80ff_0000_0101_01fe_u64];
        for tag in 0..=u8::MAX {
            let expected: u32 = (0..16)
                .map(|at| u32::from((words[at / 8] >> (at % 8 * 8)) as u8 == tag) << at)
                .sum();
            assert_eq!(equal_bytes(words, tag), expected);
            assert_eq!(equal_bytes_portable(words, tag), expected);
            words = words.map(|word| word.rotate_left(7).wrapping_mul(0x9e37_79b9) ^ word);
        }
    }

    #[test]
    fn positions_of_two_tables_differ() {
        let (old, new) = (Table::new(4, 0), Table::new(8, 1));
        let position = old.position(3, 11);
        assert_eq!(old.place(position), Some((3, 11)));
        assert_eq!(new.place(position), None);
        assert_eq!(new.place(new.position(7, 0)), Some((7, 0)));
        assert_eq!(old.place(u32::MAX), None);
    }

    #[test]
    fn counts_of_overflow_return_to_zero() {
        let table = Table::new(4, 0);
        let mut placed = vec![];
        for slot in 0..40 {
            let (bucket, way, distance) = table.reserve(3 << 8);
            table.bucket(bucket).publish(way, 9, slot);
            placed.push((table.position(bucket, way), distance));
        }
        assert_eq!(table.bucket(3).overflow(), 28);
        for (position, distance) in placed {
            table.vacate(position, Some(distance));
        }
        for bucket in 0..4 {
            assert_eq!(table.bucket(bucket).overflow(), 0);
            assert_eq!(table.bucket(bucket).matches(0), 0xfff);
        }
    }
}
