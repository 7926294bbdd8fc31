//! What an entry keeps.

use policy::Meta;

/// The entry's bits:
/// ```text
/// bit 63           32 31  12 11  7     6        5 0
///    [last request   ][group][hits][requested][tag]
/// ```
/// The last request's number has its low 32 bits: ages are right up to four thousand million requests. `group` is
/// [`LEAVING`] while the entry is examined or planned to go. `hits` stop at 31 and halve when it stays in a merge;
/// `requested` since the entry came to its group.
/// `tag`: the sample of its group that has counted it, 0 none, or [`GHOSTED`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Note(u64);

/// The group of an entry that has none.
pub(super) const LEAVING: u32 = (1 << 20) - 1;
/// The tag of an entry for which a ghost waits, though it stayed.
pub(super) const GHOSTED: u8 = 63;

const GROUP_SHIFT: u32 = 12;
const GROUP_MASK: u64 = (LEAVING as u64) << GROUP_SHIFT;
const ONE_HIT: u64 = 1 << 7;
const HITS_MASK: u64 = 31 * ONE_HIT;
const REQUESTED: u64 = 1 << 6;
const TAG_MASK: u64 = REQUESTED - 1;

/// The tag of a group's next sample: an entry that keeps its tag for 62 samples of one group, none of which
/// counts it, will be passed over by the next.
pub(super) fn tag_after(tag: u8) -> u8 {
    tag % (GHOSTED - 1) + 1
}

impl Note {
    pub(super) fn new(requests: u64, group: u32) -> Note {
        debug_assert!(group < LEAVING);
        Note(requests << 32 | u64::from(group) << GROUP_SHIFT)
    }

    /// Requests since the last one for it, both counted.
    pub(super) fn age(self, requests: u64) -> u64 {
        let since = (requests as u32).wrapping_sub((self.0 >> 32) as u32);
        u64::from(since) + 1
    }

    /// One more hit, by the request of this number.
    #[inline]
    pub(super) fn requested_at(self, requests: u64) -> Note {
        let low = self.0 & u64::from(u32::MAX);
        let more = u64::from(low & HITS_MASK != HITS_MASK) * ONE_HIT;
        Note((low + more) | requests << 32)
    }

    pub(super) fn hits(self) -> u32 {
        ((self.0 & HITS_MASK) / ONE_HIT) as u32
    }

    /// With half the hits, rounded up: who was hit is never as if it was not.
    pub(super) fn with_half_the_hits(self) -> Note {
        Note(self.0 - ((self.0 & HITS_MASK) >> 1 & HITS_MASK))
    }

    #[inline]
    pub(super) fn group(self) -> u32 {
        ((self.0 & GROUP_MASK) >> GROUP_SHIFT) as u32
    }

    /// In another group it has not been asked for yet.
    pub(super) fn in_group(self, group: u32) -> Note {
        Note(self.0 & !GROUP_MASK & !REQUESTED | u64::from(group) << GROUP_SHIFT)
    }

    #[inline]
    pub(super) fn was_requested(self) -> bool {
        self.0 & REQUESTED != 0
    }

    #[inline]
    pub(super) fn marked_requested(self) -> Note {
        Note(self.0 | REQUESTED)
    }

    #[inline]
    pub(super) fn tag(self) -> u8 {
        (self.0 & TAG_MASK) as u8
    }

    #[inline]
    pub(super) fn with_tag(self, tag: u8) -> Note {
        debug_assert!(tag <= GHOSTED);
        Note(self.0 & !TAG_MASK | u64::from(tag))
    }
}

impl Meta for Note {
    const BITS: u32 = 64;
    fn pack(self) -> u64 {
        self.0
    }
    fn unpack(bits: u64) -> Self {
        Note(bits)
    }
}
