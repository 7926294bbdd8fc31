//! Input and result of the choice of segments to evict.

use crate::config::MERGED_MAX;
use crate::storage::{Heap, SegmentId, SegmentLists};
use policy::Tick;

/// Maximum number of segments examined in the search for segments that can be merged.
pub(super) const LOOKS_MAX: usize = 4 * MERGED_MAX as usize;

/// Segments from which an eviction may choose. They do not change while the lock is held.
#[derive(Clone, Copy)]
pub(super) struct Candidates<'a> {
    pub(super) heap: &'a Heap,
    pub(super) lists: &'a SegmentLists,
    pub(super) now: Tick,
    /// Number of segments that a merge takes.
    pub(super) merged: u8,
}

/// Amount of objects that a merge keeps from its sources, and the measure that selects them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// All objects, because they fit into one segment.
    All,
    /// From each source, objects of 1 / N of a segment, where N is this number.
    PartOfEach(u8),
    /// Objects of this number of segments, chosen from all sources together.
    Segments(u8),
    /// Objects of one segment, with the most recent access per size.
    MostRecent,
}

/// Segments to be merged.
pub(super) struct MergeChoice {
    /// Sources in the order of their deadlines, earliest first.
    pub(super) sources: Vec<SegmentId>,
    pub(super) keep: Keep,
}

impl Candidates<'_> {
    /// Returns true if a job may remove the objects of a segment.
    pub(super) fn can_leave(&self, id: SegmentId) -> bool {
        self.lists.can_leave(self.heap, id)
    }

    pub(super) fn is_expired(&self, id: SegmentId) -> bool {
        self.now > self.deadline(id)
    }

    /// Returns true if a segment can be merged: it can leave, and has not expired.
    pub(super) fn can_merge(&self, id: SegmentId) -> bool {
        self.can_leave(id) && !self.is_expired(id)
    }

    pub(super) fn deadline(&self, id: SegmentId) -> Tick {
        self.heap.deadline(id)
    }

    /// Returns the size of a segment's live objects in words.
    pub(super) fn live_words(&self, id: SegmentId) -> u32 {
        self.heap.header(id).live().1
    }
}
