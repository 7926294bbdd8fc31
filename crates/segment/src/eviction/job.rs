//! A job: the removal of all objects of some segments, a few objects at a time.
//!
//! The segments of a job are marked as leaving, so that no other job takes them. Each is freed as
//! soon as its last object has been handled. A job that merges keeps the best objects in a target
//! segment, which is before the first source in the list.

use super::merge::Merge;
use crate::config::MERGED_MAX;
use crate::storage::SegmentId;

/// Reason why a job removes objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Expiry,
    Eviction,
    Flush,
}

/// State of the removal or merge of some segments.
#[derive(Debug)]
pub(crate) struct Job {
    pub(super) cause: Cause,
    /// Segment that is being read. `offset` is the offset of the next object in it.
    pub(super) source: SegmentId,
    pub(super) offset: u32,
    /// Number of sources that are finished.
    pub(super) done: u8,
    /// Sources that were chosen. A merge may take more segments if all their objects fit.
    sources: [SegmentId; MERGED_MAX as usize],
    listed: u8,
    pub(super) merge: Option<Merge>,
}

impl Job {
    /// Returns a job that removes all objects of one segment.
    pub(super) fn new(cause: Cause, source: SegmentId) -> Self {
        Job {
            cause,
            source,
            offset: 0,
            done: 0,
            sources: [SegmentId::NONE; MERGED_MAX as usize],
            listed: 1,
            merge: None,
        }
    }

    /// Returns a job that merges these segments.
    pub(super) fn merging(sources: &[SegmentId], merge: Merge) -> Self {
        let mut job = Job::new(Cause::Eviction, sources[0]);
        job.listed = sources.len() as u8;
        job.sources[..sources.len()].copy_from_slice(sources);
        job.merge = Some(merge);
        job
    }

    /// Returns the chosen sources that are not finished, beginning with the one being read.
    pub(super) fn ahead(&self) -> &[SegmentId] {
        let listed = usize::from(self.listed);
        &self.sources[usize::from(self.done).min(listed)..listed]
    }

    /// Continues with another source, at its beginning.
    pub(super) fn go_to(&mut self, source: SegmentId) {
        self.source = source;
        self.offset = 0;
    }
}
