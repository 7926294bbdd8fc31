//! State of the evictions for each segment, guarded by the lock of the segment directory.

use super::ages::Ages;
use super::learning::Ranking;
use super::progress::MergeProgress;
use super::ranked::Ranked;
use crate::storage::{Age, EvictionPlan, SegmentId, Storage, TtlBucket};

/// Storage together with the plan of the evictions.
pub(crate) type Store<C> = Storage<C, Plan>;

/// State of all evictions. The queues and the progress of merges are updated under every eviction,
/// so that the eviction can be changed at any time.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) ages: Ages,
    pub(super) progress: MergeProgress,
    /// Replacement policy over segments, if the current eviction uses one.
    pub(super) ranked: Option<Ranked>,
    /// Learned ranking, if the current eviction is `gl-cache`.
    pub(super) ranking: Ranking,
}

impl Plan {
    pub(crate) fn new(segments: u32, ranked: Option<Ranked>) -> Self {
        Plan {
            ages: Ages::new(segments),
            progress: MergeProgress::new(),
            ranked,
            ranking: Ranking::default(),
        }
    }
}

impl EvictionPlan for Plan {
    fn linked(&mut self, id: SegmentId, age: Age) {
        self.ages.push(id, age);
        // A merge may still be unfinished when a policy is put in force.
        if let Some(ranked) = &mut self.ranked {
            ranked.linked(id);
        }
    }

    fn unlinked(&mut self, id: SegmentId, bucket: TtlBucket, next: SegmentId) {
        self.progress.unlinked(id, bucket, next);
        self.ages.remove(id);
        if let Some(ranked) = &mut self.ranked {
            ranked.unlinked(id);
        }
    }

    fn heap_bytes(&self) -> usize {
        self.ages.heap_bytes()
            + self.progress.heap_bytes()
            + self.ranked.as_ref().map_or(0, Ranked::heap_bytes)
            + self.ranking.heap_bytes()
    }

    fn check(&self, linked_count: usize) {
        assert_eq!(self.ages.check(), linked_count);
        if let Some(ranked) = &self.ranked {
            ranked.check();
        }
    }
}
