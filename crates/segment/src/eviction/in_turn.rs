//! Merging in turn, as in the source: the TTL buckets take turns, and each merge makes one segment
//! of `merged` consecutive segments of a bucket.

use super::choice::LOOKS_MAX;
use super::choice::{Candidates, Keep, MergeChoice};
use super::progress::MergeProgress;
use crate::storage::SegmentId;

/// Chooses the next segments to merge.
pub(super) fn choose(all: &Candidates<'_>, progress: &mut MergeProgress) -> Option<MergeChoice> {
    let wanted = all.merged;
    // Tried in this order: this round, a new round, and then only two segments, because there may
    // be few segments for many TTLs.
    for (wanted, is_new_round) in [(wanted, false), (wanted, true), (2, true)] {
        if is_new_round {
            progress.round_began = all.now;
        }
        for bucket in all.lists.buckets_from(progress.turn) {
            if let Some(first) = run_in(all, progress, bucket, wanted) {
                progress.turn = bucket + 1;
                let run = all.lists.list(first).take(usize::from(wanted));
                return Some(MergeChoice {
                    sources: run.collect(),
                    keep: Keep::PartOfEach(wanted),
                });
            }
            progress.set_from(bucket, SegmentId::NONE);
        }
    }
    None
}

/// Returns the first of `wanted` consecutive segments of a bucket that can be merged in this round.
fn run_in(
    all: &Candidates<'_>,
    progress: &MergeProgress,
    bucket: usize,
    wanted: u8,
) -> Option<SegmentId> {
    let mut first = SegmentId::NONE;
    let mut length = 0;
    // Segments created in this round are left for the next one, because their objects have hardly
    // had time to be requested.
    let is_of_round = |id: &SegmentId| all.lists.created(*id) <= progress.round_began;
    let from = match progress.from(bucket) {
        SegmentId::NONE => all.lists.head(bucket),
        from => from,
    };
    for id in all.lists.list(from).take(LOOKS_MAX).take_while(is_of_round) {
        if !all.can_merge(id) {
            length = 0;
            continue;
        }
        if length == 0 {
            first = id;
        }
        length += 1;
        if length == wanted {
            return Some(first);
        }
    }
    None
}
