//! Interface between storage and eviction.

use super::location::SegmentId;
use super::ttl::TtlBucket;
use std::fmt::Debug;

/// Way in which a segment was filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Age {
    /// Filled by a writer.
    #[default]
    Young,
    /// Filled by a merge.
    Old,
}

/// The eviction's data about segments, from which it chooses the next victims. Storage owns the
/// value, guards it by the directory's lock, and reports each change of the segment lists to it.
/// Storage does not otherwise depend on eviction.
pub(crate) trait EvictionPlan: Debug {
    /// Handles the insertion of a segment into a list. It is `Old` if it is the target of a merge.
    fn linked(&mut self, id: SegmentId, age: Age);
    /// Handles the removal of a segment from the list of its TTL bucket, where `next` followed it.
    fn unlinked(&mut self, id: SegmentId, bucket: TtlBucket, next: SegmentId);
    /// Returns the heap memory in bytes.
    fn heap_bytes(&self) -> usize;
    /// Panics if the plan is inconsistent or does not have this many segments.
    fn check(&self, linked_count: usize);
}

/// The plan of a storage that evicts nothing, for tests of storage alone.
#[cfg(test)]
impl EvictionPlan for () {
    fn linked(&mut self, _id: SegmentId, _age: Age) {}
    fn unlinked(&mut self, _id: SegmentId, _bucket: TtlBucket, _next: SegmentId) {}
    fn heap_bytes(&self) -> usize {
        0
    }
    fn check(&self, _linked_count: usize) {}
}
