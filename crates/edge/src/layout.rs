//! Positions of an object's bytes in stripes, sub-chunks and chunks.
//!
//! # Idea
//! An object is cut into stripes of K sub-chunks, and each stripe is coded independently. The
//! sub-chunks of a byte range can therefore be computed, and the first bytes can be served as soon
//! as the first stripe is available.
//! ```text
//!            chunk 0      chunk 1      chunk 2      chunk 3 (parity)
//! stripe 0   0..U         U..2U        2U..3U       XOR of the three      U: bytes of a sub-chunk
//! stripe 1   3U..4U       4U..5U       5U..6U       …
//! stripe 2   6U..6U+L     …            … + 0s       …                     L: rest / K, rounded up
//! ```
//! The last stripe has shorter sub-chunks, not fewer: an object of 128 KiB makes three sub-chunks
//! of 43 KiB, and a parity of 43 KiB instead of 64 KiB. All chunks of an object have the same
//! length. The last data chunks end with at most K - 1 zero bytes.
//!
//! # Source
//! Sub-chunks and ranges: section 5.4 of J. Yang, *Designing Efficient and Scalable Key-value Cache
//! Management Systems*, CMU 2024.

use crate::chunks::ChunkSet;
use crate::scheme::Scheme;
use std::ops::Range;

/// Layout of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    object_bytes: u64,
    k: u64,
    sub_chunk_bytes: u64,
}

impl Layout {
    /// Computes the layout of an object of this size. [`Scheme::check`] must accept the scheme.
    pub fn new(scheme: &Scheme, object_bytes: u64) -> Layout {
        assert!(scheme.k > 0, "the scheme was checked");
        assert!(scheme.sub_chunk_bytes > 0, "the scheme was checked");
        Layout {
            object_bytes,
            k: u64::from(scheme.k),
            sub_chunk_bytes: u64::from(scheme.sub_chunk_bytes),
        }
    }

    /// Returns the size of the object in bytes.
    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Returns the number of data chunks.
    pub fn k(&self) -> usize {
        self.k as usize
    }

    /// Returns the number of object bytes in a stripe other than the last.
    pub fn stripe_bytes(&self) -> u64 {
        self.k * self.sub_chunk_bytes
    }

    /// Returns the number of stripes; 0 for an empty object.
    pub fn stripes(&self) -> u64 {
        self.object_bytes.div_ceil(self.stripe_bytes())
    }

    /// Returns the length of each sub-chunk of a stripe, data or parity, in bytes.
    pub fn sub_chunk_bytes(&self, stripe: u64) -> u32 {
        let span = self.stripe(stripe);
        let bytes = (span.end - span.start).div_ceil(self.k);
        bytes as u32 // at most the scheme's, which has as many bits
    }

    /// Returns the length of each chunk, data or parity, in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        let full = self.object_bytes / self.stripe_bytes();
        let rest = self.object_bytes % self.stripe_bytes();
        full * self.sub_chunk_bytes + rest.div_ceil(self.k)
    }

    /// Returns the offset of a stripe's sub-chunk in each chunk.
    pub fn offset_in_chunk(&self, stripe: u64) -> u64 {
        assert!(stripe < self.stripes(), "the object has no stripe {stripe}");
        stripe * self.sub_chunk_bytes
    }

    /// Returns the range of the object's bytes in a stripe.
    pub fn stripe(&self, stripe: u64) -> Range<u64> {
        assert!(stripe < self.stripes(), "the object has no stripe {stripe}");
        let begin = stripe * self.stripe_bytes();
        begin
            ..begin
                .saturating_add(self.stripe_bytes())
                .min(self.object_bytes)
    }

    /// Returns the range of the object's bytes in a data sub-chunk. It is shorter than the
    /// sub-chunk, or empty, where the sub-chunk is filled with zeros.
    pub fn sub_chunk(&self, stripe: u64, chunk: usize) -> Range<u64> {
        assert!((chunk as u64) < self.k, "chunk {chunk} is not a data chunk");
        let span = self.stripe(stripe);
        let bytes = u64::from(self.sub_chunk_bytes(stripe));
        let begin = span
            .start
            .saturating_add(chunk as u64 * bytes)
            .min(span.end);
        begin..begin.saturating_add(bytes).min(span.end)
    }

    /// Returns the part of a range that lies within the object.
    pub fn clip(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.min(self.object_bytes);
        range.start.min(end)..end
    }

    /// Returns the stripes that overlap a range of the object's bytes.
    pub fn stripes_of(&self, range: &Range<u64>) -> Range<u64> {
        let range = self.clip(range);
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.stripe_bytes()..(range.end - 1) / self.stripe_bytes() + 1
    }

    /// Returns the data chunks whose sub-chunk in a stripe overlaps a range of the object's bytes.
    pub fn chunks_of(&self, range: &Range<u64>, stripe: u64) -> ChunkSet {
        let span = self.stripe(stripe);
        let range = self.clip(range);
        let (begin, end) = (range.start.max(span.start), range.end.min(span.end));
        if begin >= end {
            return ChunkSet::NONE;
        }
        let bytes = u64::from(self.sub_chunk_bytes(stripe));
        let first = (begin - span.start) / bytes;
        let last = (end - 1 - span.start) / bytes;
        ChunkSet::between(first as usize, last as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: u64 = 1 << 10;

    fn layout(object_bytes: u64) -> Layout {
        Layout::new(&Scheme::coded(3, 1), object_bytes)
    }

    #[test]
    fn the_last_stripe_has_shorter_sub_chunks() {
        let one = layout(128 * KIB);
        assert_eq!(one.stripes(), 1);
        assert_eq!(one.chunk_bytes(), 43_691);
        assert_eq!(one.sub_chunk(0, 0), 0..43_691);
        assert_eq!(one.sub_chunk(0, 2), 87_382..131_072);
        let two = layout(192 * KIB + 1);
        assert_eq!(two.stripes(), 2);
        assert_eq!(two.chunk_bytes(), 64 * KIB + 1);
        assert_eq!(two.sub_chunk(1, 0), 192 * KIB..192 * KIB + 1);
        assert!(two.sub_chunk(1, 1).is_empty());
        assert_eq!(two.offset_in_chunk(1), 64 * KIB);
    }

    #[test]
    fn an_empty_object_has_no_stripes_and_the_largest_sizes_do_not_overflow() {
        assert_eq!(layout(0).stripes(), 0);
        assert_eq!(layout(0).chunk_bytes(), 0);
        assert_eq!(layout(0).stripes_of(&(0..10)), 0..0);
        let large = layout(100_000_000_000);
        assert_eq!(large.stripes(), 508_627);
        assert_eq!(large.chunk_bytes(), 33_333_333_334);
        let last = large.stripes() - 1;
        assert_eq!(large.stripe(last).end, 100_000_000_000);
        let all = layout(u64::MAX);
        assert_eq!(all.stripe(all.stripes() - 1).end, u64::MAX);
        assert_eq!(all.stripes_of(&(u64::MAX - 1..u64::MAX)).end, all.stripes());
    }

    #[test]
    fn a_range_needs_the_sub_chunks_that_it_overlaps() {
        let layout = layout(1_000 * KIB);
        let wanted = |range: Range<u64>, stripe| layout.chunks_of(&range, stripe);
        assert_eq!(layout.stripes_of(&(0..1)), 0..1);
        assert_eq!(wanted(0..1, 0), ChunkSet::from_iter([0]));
        assert_eq!(
            wanted(64 * KIB - 1..64 * KIB + 1, 0),
            ChunkSet::between(0, 2)
        );
        assert_eq!(layout.stripes_of(&(190 * KIB..200 * KIB)), 0..2);
        assert_eq!(wanted(190 * KIB..200 * KIB, 0), ChunkSet::from_iter([2]));
        assert_eq!(wanted(190 * KIB..200 * KIB, 1), ChunkSet::from_iter([0]));
        assert_eq!(wanted(190 * KIB..200 * KIB, 2), ChunkSet::NONE);
        assert_eq!(layout.stripes_of(&(5..5)), 0..0);
        assert_eq!(layout.stripes_of(&(2_000 * KIB..3_000 * KIB)), 0..0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn every_byte_is_in_one_sub_chunk(
            k in 1u8..8, sub in 1u32..40, bytes in 0u64..2_000, begin in 0u64..2_100, len in 0u64..2_100,
        ) {
            let mut scheme = Scheme::coded(k, 1);
            scheme.sub_chunk_bytes = sub;
            let layout = Layout::new(&scheme, bytes);
            let mut next = 0;
            let mut chunk_bytes = 0;
            for stripe in 0..layout.stripes() {
                prop_assert_eq!(layout.stripe(stripe).start, next);
                prop_assert_eq!(layout.offset_in_chunk(stripe), chunk_bytes);
                for chunk in 0..usize::from(k) {
                    let part = layout.sub_chunk(stripe, chunk);
                    prop_assert_eq!(part.start, next);
                    prop_assert!(part.end - part.start <= u64::from(layout.sub_chunk_bytes(stripe)));
                    next = part.end;
                }
                prop_assert!(layout.sub_chunk_bytes(stripe) <= sub);
                chunk_bytes += u64::from(layout.sub_chunk_bytes(stripe));
            }
            prop_assert_eq!(next, bytes);
            prop_assert_eq!(chunk_bytes, layout.chunk_bytes());
            // The K chunks have less than one byte each beyond the object's bytes.
            prop_assert!(chunk_bytes * u64::from(k) < bytes + u64::from(k));

            let range = begin..begin + len;
            for stripe in 0..layout.stripes() {
                let wanted = layout.chunks_of(&range, stripe);
                for chunk in 0..usize::from(k) {
                    let part = layout.sub_chunk(stripe, chunk);
                    let overlaps = part.start.max(range.start) < part.end.min(range.end);
                    prop_assert_eq!(wanted.has(chunk), overlaps);
                }
                prop_assert_eq!(!wanted.is_empty(), layout.stripes_of(&range).contains(&stripe));
            }
        }
    }
}
