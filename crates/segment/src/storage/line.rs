//! One cache line of the hash table, bit by bit.
//!
//! ```text
//! word 0, information     63    cas    32 31 last access 16 15 count 8 7 counted 1  0
//!                         [      32      ][       16       ][    8    ][     7    ][lock]
//! words 1 to 7, slots     63  tag  52 51 frequency 44 43    segment    20 19   offset   0
//!                         [    12    ][      8       ][       24         ][     20      ]
//! ```
//! - `lock`: held by whoever changes slots of the chain; readers neither take it nor wait for it.
//! - `counted`: bit n says that slot n was counted in the second of the last access.
//! - `count`: objects in the whole chain; `cas`: goes up with every change of a value in the chain.
//!   Both are kept in the first line of a chain only. `last access` is in seconds.
//! - a slot is 0 when vacant, and the tag of an object is not 0; `offset` is in words of 8 bytes, so that a segment may have up to 8 MiB.
//! - slot 7 of a line may hold the number of the next line of the chain instead: `segment` is then all
//!   ones, and `tag` and `offset` are the number's 32 bits.

use crate::storage::heap::{Place, SegmentId};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Acquire;

pub(crate) type Line = [AtomicU64; 8];

/// The slots of a line.
pub(crate) const SLOTS: std::ops::Range<usize> = 1..8;
/// The slot that may lead to the next line.
pub(crate) const LAST: usize = 7;

pub(crate) const LOCK: u64 = 1;
pub(crate) const COUNTED: u64 = 0xfe;
pub(crate) const COUNT_ONE: u64 = 1 << 8;
pub(crate) const ACCESS_SHIFT: u32 = 16;
pub(crate) const ACCESS_MASK: u64 = 0xffff << ACCESS_SHIFT;
pub(crate) const CAS_SHIFT: u32 = 32;
pub(crate) const CAS_ONE: u64 = 1 << CAS_SHIFT;

const OFFSET_BITS: u32 = 20;
const SEGMENT_BITS: u32 = 24;
const FREQUENCY_SHIFT: u32 = OFFSET_BITS + SEGMENT_BITS;
const TAG_SHIFT: u32 = FREQUENCY_SHIFT + 8;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const SEGMENT_MASK: u64 = (1 << SEGMENT_BITS) - 1;
const FREQUENCY_MASK: u64 = 0xff << FREQUENCY_SHIFT;
const PLACE_MASK: u64 = (1 << FREQUENCY_SHIFT) - 1;
const CHAINED: u64 = SEGMENT_MASK << OFFSET_BITS;

/// Segments that a slot can name, without 0 and what marks a chain.
pub(crate) const SEGMENTS_MAX: u32 = SEGMENT_MASK as u32 - 1;
/// Words of the largest segment.
pub(crate) const SEGMENT_WORDS_MAX: u32 = 1 << OFFSET_BITS;

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub(crate) u64);

/// Which slots of a line have the tag of a hash, a bit for each: objects, and where the last one leads on, by
/// chance. All seven are compared, without a branch that could be guessed wrong.
#[inline(always)]
pub(crate) fn likely(line: &Line, hash: u64) -> u32 {
    debug_assert!(hash >> TAG_SHIFT != 0);
    let mut likely = 0u32;
    for index in SLOTS.rev() {
        let differs = line[index].load(Acquire) ^ hash;
        likely = likely + likely + u32::from(differs < 1 << TAG_SHIFT);
    }
    likely
}

/// The first slot of such a set, which is not empty.
#[inline(always)]
pub(crate) fn first_of(likely: u32) -> usize {
    // At most 7 by its making; the mask lets the compiler know.
    (likely.trailing_zeros() as usize + SLOTS.start) & (SLOTS.end - 1)
}

/// The slots of such a set, of which the lowest bit is the first slot.
#[inline(always)]
pub(crate) fn slots_of(mut likely: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = likely.trailing_zeros() as usize + SLOTS.start;
        likely &= likely.wrapping_sub(1);
        (index < SLOTS.end).then_some(index)
    })
}

impl Slot {
    pub(crate) const VACANT: Slot = Slot(0);

    #[inline(always)]
    pub(crate) fn object(hash: u64, frequency: u8, place: Place) -> Slot {
        debug_assert!(hash >> TAG_SHIFT != 0);
        debug_assert!(place.offset < SEGMENT_WORDS_MAX);
        debug_assert!(place.segment.0 > 0 && place.segment.0 <= SEGMENTS_MAX);
        Slot(
            hash >> TAG_SHIFT << TAG_SHIFT
                | u64::from(frequency) << FREQUENCY_SHIFT
                | u64::from(place.segment.0) << OFFSET_BITS
                | u64::from(place.offset),
        )
    }

    pub(crate) fn chain(line: u32) -> Slot {
        let line = u64::from(line);
        Slot(line >> OFFSET_BITS << TAG_SHIFT | CHAINED | line & OFFSET_MASK)
    }

    /// The next line, where this leads to one.
    #[inline(always)]
    pub(crate) fn next_line(self) -> Option<u32> {
        let line = self.0 >> TAG_SHIFT << OFFSET_BITS | self.0 & OFFSET_MASK;
        (self.0 & CHAINED == CHAINED).then_some(line as u32)
    }

    #[inline(always)]
    pub(crate) fn is_object(self) -> bool {
        self.0 != 0 && self.0 & CHAINED != CHAINED
    }

    #[inline(always)]
    pub(crate) fn place(self) -> Place {
        Place {
            segment: SegmentId((self.0 >> OFFSET_BITS & SEGMENT_MASK) as u32),
            offset: (self.0 & OFFSET_MASK) as u32,
        }
    }

    /// A hash from which slots can be made and found: no tag of an object is that of a vacant slot, so that one
    /// comparison tells both.
    #[inline(always)]
    pub(crate) fn tagged(hash: u64) -> u64 {
        hash | u64::from(hash >> TAG_SHIFT == 0) << TAG_SHIFT
    }

    /// Whether this is an object whose key may have this hash.
    #[inline(always)]
    pub(crate) fn has_tag_of(self, hash: u64) -> bool {
        debug_assert!(hash >> TAG_SHIFT != 0);
        self.0 ^ hash < 1 << TAG_SHIFT && self.0 & CHAINED != CHAINED
    }

    #[inline(always)]
    pub(crate) fn frequency(self) -> u8 {
        (self.0 >> FREQUENCY_SHIFT) as u8
    }

    #[inline(always)]
    pub(crate) fn with_frequency(self, frequency: u8) -> Slot {
        Slot(self.0 & !FREQUENCY_MASK | u64::from(frequency) << FREQUENCY_SHIFT)
    }

    /// The same key at another place.
    pub(crate) fn moved_to(self, place: Place) -> Slot {
        let moved = u64::from(place.segment.0) << OFFSET_BITS | u64::from(place.offset);
        Slot(self.0 & !PLACE_MASK | moved)
    }

    /// Whether both name the same place, whatever the frequency.
    #[inline(always)]
    pub(crate) fn is_same(self, other: Slot) -> bool {
        (self.0 ^ other.0) & !FREQUENCY_MASK == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slot_is_given_it_tells() {
        let places = [(1, 0), (SEGMENTS_MAX, SEGMENT_WORDS_MAX - 1), (77, 12)];
        for (segment, offset) in places {
            let place = Place {
                segment: SegmentId(segment),
                offset,
            };
            let hash = 0xabc5_1234_5678_9abc;
            let slot = Slot::object(hash, 200, place);
            assert!(slot.is_object());
            assert_eq!((slot.place(), slot.frequency()), (place, 200));
            assert!(slot.has_tag_of(hash));
            assert!(!slot.has_tag_of(hash ^ 1 << 52));
            assert!(slot.is_same(slot.with_frequency(3)));
            let other = Place {
                segment: SegmentId(5),
                offset: 6,
            };
            let moved = slot.moved_to(other);
            assert_eq!((moved.place(), moved.frequency()), (other, 200));
            assert!(moved.has_tag_of(hash));
            assert!(!slot.is_same(moved));
        }
    }

    #[test]
    fn a_chain_leads_to_any_line_and_is_no_object() {
        for line in [0, 1, 0xfffff, 0x100000, u32::MAX] {
            let slot = Slot::chain(line);
            assert!(!slot.is_object());
            assert_eq!(slot.next_line(), Some(line));
        }
        assert!(!Slot::VACANT.is_object());
        assert_eq!(Slot::VACANT.next_line(), None);
    }
}
