//! Identifiers of segments and of the objects in them.

/// Number of a segment, starting at 1. The number 0 means "none", so that a slot that refers to an
/// object is never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub struct SegmentId(pub(crate) u32);

impl SegmentId {
    pub(crate) const NONE: SegmentId = SegmentId(0);

    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Position at which an object begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    pub(crate) segment: SegmentId,
    /// Offset from the beginning of the segment, in words of 8 bytes.
    pub(crate) offset: u32,
}
