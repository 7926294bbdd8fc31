//! Eviction of one whole segment, with all its objects.

use super::choice::Candidates;
use super::ranked::Ranked;
use crate::config::Eviction;
use crate::storage::{SegmentId, State};

/// Chooses a segment by a replacement policy over segments.
pub(super) fn choose_ranked(all: &Candidates<'_>, ranked: &mut Ranked) -> Option<SegmentId> {
    let hits = |id: SegmentId| {
        let header = all.heap.header(id);
        (header.usage.take_hits(), header.live().0)
    };
    // A segment that cannot be evicted now (it is open, or a job has it) is queued again.
    for _ in 0..=all.heap.count() {
        let id = ranked.choose(hits)?;
        if all.can_leave(id) {
            return Some(id);
        }
        ranked.linked(id);
    }
    None
}

/// Chooses the segment with the earliest deadline or with the fewest live bytes, and seals it. If
/// all segments are open and `takes_open`, an open one is sealed.
pub(super) fn choose_worst(
    all: &Candidates<'_>,
    eviction: Eviction,
    takes_open: bool,
) -> Option<SegmentId> {
    let worth = |id: &SegmentId| match eviction {
        Eviction::Cte => all.deadline(*id).0,
        _ => u64::from(all.live_words(*id)),
    };
    let sealed = all
        .lists
        .all()
        .filter(|&id| all.can_leave(id))
        .min_by_key(worth);
    if sealed.is_some() || !takes_open {
        return sealed;
    }
    // All segments are open: their writers are idle, or there are few segments for many TTLs.
    let listed = |id: &SegmentId| all.lists.state(*id) == State::Listed;
    let mut open: Vec<SegmentId> = all.lists.all().filter(listed).collect();
    open.sort_by_key(worth);
    open.into_iter().find(|&id| all.heap.header(id).seal())
}
