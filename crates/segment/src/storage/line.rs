//! Layout of a cache line of the hash table.
//!
//! ```text
//! word 0, line information  63    cas    32 31 last access 16 15 count 8 7 counted 1  0
//!                           [      32      ][       16       ][    8    ][     7    ][lock]
//! words 1 to 7, slots       63  tag  52 51 frequency 44 43    segment    20 19   offset   0
//!   an object               [    12    ][      8       ][       24         ][     20      ]
//!   a link, in slot 7 only  [ line 31..20 ][   unused  ][    all ones      ][ line 19..0  ]
//!   vacant                  0
//! ```
//! - `lock` is held by the thread that changes slots of the chain. Readers neither take it nor wait
//!   for it.
//! - Bit n of `counted` is set if slot n was counted in the second of the last access.
//! - `last access` is in seconds, modulo 2^16. The objects of a line share it.
//! - `count` is the number of objects in the whole chain. `cas` increases with every change of a
//!   value in the chain. Both are used only in the first line of a chain.
//! - `tag` is the highest 12 bits of the key's hash, and never 0. `offset` is in words of 8 bytes,
//!   so that a segment may have up to 8 MiB.
//! - A link holds the number of the next line of the chain.

use super::location::{Location, SegmentId};
use super::words::Line;
use crate::sync::Ordering::{Acquire, Relaxed};

/// Indexes of the slots in a line.
pub(super) const SLOTS: std::ops::Range<usize> = 1..8;
/// Index of the slot that may link to the next line.
pub(super) const LAST: usize = 7;

pub(super) const LOCK: u64 = 1;
const COUNTED: u64 = 0xfe;
pub(super) const COUNT_ONE: u64 = 1 << 8;
const ACCESS_SHIFT: u32 = 16;
pub(super) const ACCESS_MASK: u64 = 0xffff << ACCESS_SHIFT;
pub(super) const CAS_SHIFT: u32 = 32;
pub(super) const CAS_ONE: u64 = 1 << CAS_SHIFT;

const OFFSET_BITS: u32 = 20;
const SEGMENT_BITS: u32 = 24;
const FREQUENCY_SHIFT: u32 = OFFSET_BITS + SEGMENT_BITS;
const TAG_SHIFT: u32 = FREQUENCY_SHIFT + 8;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const SEGMENT_MASK: u64 = (1 << SEGMENT_BITS) - 1;
const FREQUENCY_MASK: u64 = 0xff << FREQUENCY_SHIFT;
const LOCATION_MASK: u64 = (1 << FREQUENCY_SHIFT) - 1;
const LINK: u64 = SEGMENT_MASK << OFFSET_BITS;

/// Maximum number of segments: the number of values of the slot's field, without 0 and without the
/// value that marks a link.
pub(crate) const SEGMENTS_MAX: u32 = SEGMENT_MASK as u32 - 1;
/// Maximum number of words in a segment.
pub(crate) const SEGMENT_WORDS_MAX: u32 = 1 << OFFSET_BITS;

/// The 64 bits of a slot: an object, a link, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotWord(pub(super) u64);

/// A slot of a line, with the value that was read from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRef<'t> {
    pub(super) line: &'t Line,
    pub(super) index: usize,
    pub(crate) word: SlotWord,
}

/// Returns the set of slots in a line whose tag matches a hash, bit 0 for the first slot. A link
/// may match by accident. All seven slots are compared without a branch, because it would often be
/// mispredicted.
#[inline(always)]
pub(super) fn matching(line: &Line, hash: u64) -> u32 {
    debug_assert!(hash >> TAG_SHIFT != 0);
    let mut matching = 0u32;
    for index in SLOTS.rev() {
        let differs = line[index].load(Acquire) ^ hash;
        matching = matching + matching + u32::from(differs < 1 << TAG_SHIFT);
    }
    matching
}

/// Returns the index of the first slot in a non-empty set of slots.
#[inline(always)]
pub(super) fn first_of(matching: u32) -> usize {
    // 7 at most, because the set has seven bits. The mask makes that known to the compiler.
    (matching.trailing_zeros() as usize + SLOTS.start) & (SLOTS.end - 1)
}

/// Returns the indexes of the slots in a set.
#[inline(always)]
pub(super) fn slots_of(mut matching: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = matching.trailing_zeros() as usize + SLOTS.start;
        matching &= matching.wrapping_sub(1);
        (index < SLOTS.end).then_some(index)
    })
}

/// Returns a hash whose tag is not 0, so that one comparison of tags also excludes vacant slots.
#[inline(always)]
pub(super) fn with_tag(hash: u64) -> u64 {
    hash | u64::from(hash >> TAG_SHIFT == 0) << TAG_SHIFT
}

impl SlotWord {
    pub(super) const VACANT: SlotWord = SlotWord(0);

    #[inline(always)]
    pub(crate) fn object(hash: u64, frequency: u8, location: Location) -> SlotWord {
        debug_assert!(hash >> TAG_SHIFT != 0);
        debug_assert!(location.offset < SEGMENT_WORDS_MAX);
        debug_assert!(location.segment.0 > 0 && location.segment.0 <= SEGMENTS_MAX);
        SlotWord(
            hash >> TAG_SHIFT << TAG_SHIFT
                | u64::from(frequency) << FREQUENCY_SHIFT
                | u64::from(location.segment.0) << OFFSET_BITS
                | u64::from(location.offset),
        )
    }

    /// Returns the slot value that links to the line of this number.
    pub(super) fn link(line: u32) -> SlotWord {
        let line = u64::from(line);
        SlotWord(line >> OFFSET_BITS << TAG_SHIFT | LINK | line & OFFSET_MASK)
    }

    /// Returns the number of the next line if this slot is a link.
    #[inline(always)]
    pub(super) fn next_line(self) -> Option<u32> {
        let line = self.0 >> TAG_SHIFT << OFFSET_BITS | self.0 & OFFSET_MASK;
        (self.0 & LINK == LINK).then_some(line as u32)
    }

    #[inline(always)]
    pub(super) fn is_object(self) -> bool {
        self.0 != 0 && self.0 & LINK != LINK
    }

    #[inline(always)]
    pub(crate) fn location(self) -> Location {
        Location {
            segment: SegmentId((self.0 >> OFFSET_BITS & SEGMENT_MASK) as u32),
            offset: (self.0 & OFFSET_MASK) as u32,
        }
    }

    /// Returns true if this slot is an object whose key may have this hash.
    #[inline(always)]
    pub(super) fn has_tag_of(self, hash: u64) -> bool {
        debug_assert!(hash >> TAG_SHIFT != 0);
        self.0 ^ hash < 1 << TAG_SHIFT && self.0 & LINK != LINK
    }

    #[inline(always)]
    pub(crate) fn frequency(self) -> u8 {
        (self.0 >> FREQUENCY_SHIFT) as u8
    }

    #[inline(always)]
    pub(super) fn with_frequency(self, frequency: u8) -> SlotWord {
        SlotWord(self.0 & !FREQUENCY_MASK | u64::from(frequency) << FREQUENCY_SHIFT)
    }

    /// Returns the slot value for the same key at another location.
    pub(super) fn moved_to(self, location: Location) -> SlotWord {
        let moved = u64::from(location.segment.0) << OFFSET_BITS | u64::from(location.offset);
        SlotWord(self.0 & !LOCATION_MASK | moved)
    }

    /// Returns true if both have the same tag and location, regardless of the frequency.
    #[inline(always)]
    pub(super) fn is_same(self, other: SlotWord) -> bool {
        (self.0 ^ other.0) & !FREQUENCY_MASK == 0
    }
}

impl SlotRef<'_> {
    /// Reads the slot again.
    #[inline(always)]
    pub(super) fn reload(&self) -> SlotWord {
        SlotWord(self.line[self.index].load(Acquire))
    }

    /// Returns the second, modulo 2^16, in which an object of this line was last requested.
    #[inline(always)]
    pub(crate) fn accessed(&self) -> u16 {
        (self.line[0].load(Relaxed) >> ACCESS_SHIFT) as u16
    }

    /// Counts a request, at most once a second per slot. Returns true if it was counted.
    #[inline(always)]
    pub(super) fn count(
        &self,
        second: u64,
        frequency_after: impl FnOnce(u8) -> Option<u8>,
    ) -> bool {
        let info = self.line[0].load(Relaxed);
        let access = second << ACCESS_SHIFT & ACCESS_MASK;
        let bit = 1 << self.index;
        let is_this_second = info & ACCESS_MASK == access;
        if is_this_second && info & bit != 0 {
            return false;
        }
        let counted = if is_this_second { info & COUNTED } else { 0 };
        let next = info & !(ACCESS_MASK | COUNTED) | access | counted | bit;
        // A thread that loses a race does not count its request, so that nothing waits here.
        let won = self.line[0].compare_exchange(info, next, Relaxed, Relaxed);
        if won.is_ok()
            && let Some(frequency) = frequency_after(self.word.frequency())
        {
            let next = self.word.with_frequency(frequency).0;
            let _lost = self.line[self.index].compare_exchange(self.word.0, next, Relaxed, Relaxed);
        }
        won.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_returns_what_it_was_made_of() {
        let locations = [(1, 0), (SEGMENTS_MAX, SEGMENT_WORDS_MAX - 1), (77, 12)];
        for (segment, offset) in locations {
            let location = Location {
                segment: SegmentId(segment),
                offset,
            };
            let hash = 0xabc5_1234_5678_9abc;
            let slot = SlotWord::object(hash, 200, location);
            assert!(slot.is_object());
            assert_eq!((slot.location(), slot.frequency()), (location, 200));
            assert!(slot.has_tag_of(hash));
            assert!(!slot.has_tag_of(hash ^ 1 << 52));
            assert!(slot.is_same(slot.with_frequency(3)));
            let other = Location {
                segment: SegmentId(5),
                offset: 6,
            };
            let moved = slot.moved_to(other);
            assert_eq!((moved.location(), moved.frequency()), (other, 200));
            assert!(moved.has_tag_of(hash));
            assert!(!slot.is_same(moved));
        }
    }

    #[test]
    fn a_link_names_any_line_and_is_no_object() {
        for line in [0, 1, 0xfffff, 0x100000, u32::MAX] {
            let slot = SlotWord::link(line);
            assert!(!slot.is_object());
            assert_eq!(slot.next_line(), Some(line));
        }
        assert!(!SlotWord::VACANT.is_object());
        assert_eq!(SlotWord::VACANT.next_line(), None);
    }
}
