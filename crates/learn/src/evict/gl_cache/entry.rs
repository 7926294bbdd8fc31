//! Bits that the policy stores in each entry.

use policy::Meta;

/// State of an entry:
/// ```text
/// bit 63           32 31  12 11  7     6        5 0
///    [last request   ][group][hits][requested][tag]
/// ```
/// `last request` has the low 32 bits of the request's number, so that ages are correct up to 2^32
/// requests. `group` is [`LEAVING`] while the entry is being examined or evicted. `hits` saturates
/// at 31, and is halved when a merge keeps the entry. `requested` says whether the entry was
/// requested since it joined its group. `tag` identifies the sample of its group that has counted
/// the entry: 0 for none, or [`GHOSTED`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EntryState(u64);

/// Group number of an entry that belongs to no group.
pub(super) const LEAVING: u32 = (1 << 20) - 1;
/// Tag of an entry that a merge has kept although a ghost of it exists.
pub(super) const GHOSTED: u8 = 63;

const GROUP_SHIFT: u32 = 12;
const GROUP_MASK: u64 = (LEAVING as u64) << GROUP_SHIFT;
const ONE_HIT: u64 = 1 << 7;
const HITS_MASK: u64 = 31 * ONE_HIT;
const REQUESTED: u64 = 1 << 6;
const TAG_MASK: u64 = REQUESTED - 1;

/// Returns the tag for a group's next sample. If an entry keeps its tag during 62 samples of its
/// group that do not count it, the next sample ignores the entry.
pub(super) fn tag_after(tag: u8) -> u8 {
    tag % (GHOSTED - 1) + 1
}

impl EntryState {
    pub(super) fn new(requests: u64, group: u32) -> EntryState {
        debug_assert!(group < LEAVING);
        EntryState(requests << 32 | u64::from(group) << GROUP_SHIFT)
    }

    /// Returns the number of requests since the entry's last request, including both.
    pub(super) fn age(self, requests: u64) -> u64 {
        let since = (requests as u32).wrapping_sub((self.0 >> 32) as u32);
        u64::from(since) + 1
    }

    /// Counts a hit by the request with this number.
    #[inline]
    pub(super) fn requested_at(self, requests: u64) -> EntryState {
        let low = self.0 & u64::from(u32::MAX);
        let more = u64::from(low & HITS_MASK != HITS_MASK) * ONE_HIT;
        EntryState((low + more) | requests << 32)
    }

    pub(super) fn hits(self) -> u32 {
        ((self.0 & HITS_MASK) / ONE_HIT) as u32
    }

    /// Halves the hits and rounds up, so that an entry with hits keeps at least one.
    pub(super) fn with_half_the_hits(self) -> EntryState {
        EntryState(self.0 - ((self.0 & HITS_MASK) >> 1 & HITS_MASK))
    }

    #[inline]
    pub(super) fn group(self) -> u32 {
        ((self.0 & GROUP_MASK) >> GROUP_SHIFT) as u32
    }

    /// Moves the entry to another group, in which it has not been requested yet.
    pub(super) fn in_group(self, group: u32) -> EntryState {
        EntryState(self.0 & !GROUP_MASK & !REQUESTED | u64::from(group) << GROUP_SHIFT)
    }

    #[inline]
    pub(super) fn was_requested(self) -> bool {
        self.0 & REQUESTED != 0
    }

    #[inline]
    pub(super) fn marked_requested(self) -> EntryState {
        EntryState(self.0 | REQUESTED)
    }

    #[inline]
    pub(super) fn tag(self) -> u8 {
        (self.0 & TAG_MASK) as u8
    }

    #[inline]
    pub(super) fn with_tag(self, tag: u8) -> EntryState {
        debug_assert!(tag <= GHOSTED);
        EntryState(self.0 & !TAG_MASK | u64::from(tag))
    }
}

impl Meta for EntryState {
    const BITS: u32 = 64;
    fn pack(self) -> u64 {
        self.0
    }
    fn unpack(bits: u64) -> Self {
        EntryState(bits)
    }
}
