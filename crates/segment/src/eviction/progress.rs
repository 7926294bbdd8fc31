//! How far merges have come in each TTL bucket.

use crate::storage::{BUCKETS, SegmentId, TtlBucket};
use policy::Tick;

/// Number of thresholds of a bucket: one for each age, and one for merges that keep the most recent
/// objects.
pub(super) const MEASURES: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
struct BucketProgress {
    /// Where the next merge in turn begins; none: at the head.
    from: SegmentId,
    /// The thresholds with which the last merges ended; 0 before the first.
    thresholds: [f32; MEASURES],
}

/// Progress of merges in all TTL buckets.
#[derive(Debug)]
pub(super) struct MergeProgress {
    buckets: Box<[BucketProgress]>,
    /// The bucket whose turn it is.
    pub(super) turn: usize,
    /// When the round of merges in turn began: it takes segments created before this.
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

    /// Where the next merge in turn begins; none: at the head of the bucket's list.
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

    /// A segment left the list of its bucket, where `next` follows it.
    pub(super) fn unlinked(&mut self, id: SegmentId, bucket: TtlBucket, next: SegmentId) {
        let from = &mut self.buckets[usize::from(bucket.0)].from;
        if *from == id {
            *from = next;
        }
    }
}
