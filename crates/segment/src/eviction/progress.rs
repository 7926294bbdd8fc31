//! Progress of merges in each TTL bucket.

use crate::storage::{BUCKETS, SegmentId, TtlBucket};
use policy::Tick;

/// Number of thresholds per bucket: one for each age, and one for merges that keep the most recent
/// objects.
pub(super) const MEASURES: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
struct BucketProgress {
    /// Segment at which the next merge in turn begins; none means the head of the list.
    from: SegmentId,
    /// Thresholds at the end of the last merges; 0 before the first merge.
    thresholds: [f32; MEASURES],
}

/// Progress of merges in all TTL buckets.
#[derive(Debug)]
pub(super) struct MergeProgress {
    buckets: Box<[BucketProgress]>,
    /// TTL bucket from which the next merge in turn takes its segments.
    pub(super) turn: usize,
    /// Time at which the round of merges in turn began. A round merges only segments created before
    /// this time.
    pub(super) round_began: Tick,
}

impl MergeProgress {
    pub(super) fn new() -> Self {
        MergeProgress {
            buckets: vec![BucketProgress::default(); BUCKETS].into(),
            turn: 0,
            round_began: Tick(0),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Returns the segment at which the next merge in turn begins; none for the head of the
    /// bucket's list.
    pub(super) fn from(&self, bucket: usize) -> SegmentId {
        self.buckets[bucket].from
    }

    pub(super) fn set_from(&mut self, bucket: usize, from: SegmentId) {
        self.buckets[bucket].from = from;
    }

    pub(super) fn threshold(&self, bucket: usize, measure: usize) -> f32 {
        self.buckets[bucket].thresholds[measure]
    }

    pub(super) fn set_threshold(&mut self, bucket: usize, measure: usize, threshold: f32) {
        self.buckets[bucket].thresholds[measure] = threshold;
    }

    /// Handles the removal of a segment from the list of its bucket, where `next` followed it.
    pub(super) fn unlinked(&mut self, id: SegmentId, bucket: TtlBucket, next: SegmentId) {
        let from = &mut self.buckets[usize::from(bucket.0)].from;
        if *from == id {
            *from = next;
        }
    }
}
