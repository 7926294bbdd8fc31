//! Compaction: nearly empty segments of several TTL buckets become one, without loss of objects.
//!
//! A merge as in the source takes consecutive segments of one TTL bucket. If TTLs are spread widely
//! and each has few objects, no bucket has two segments, and evicting one would lose objects for
//! want of segments, not of bytes. So before that, segments with neighbouring deadlines whose live
//! objects fit into one segment are merged into one with the earliest of the deadlines. This
//! shortens the remaining TTL of their objects, within bounds.

use super::choice::{Candidates, Keep, MergeChoice};
use crate::config::MERGED_MAX;
use crate::storage::SegmentId;
use policy::Tick;

/// A remaining TTL is cut by at most one half…
const CUT_PART: u64 = 2;
/// … and by at most an eighth if more than two segments are merged.
const CUT_PART_OF_MORE: u64 = 8;

/// A segment that could be merged with others.
#[derive(Clone, Copy)]
struct Part {
    deadline: Tick,
    id: SegmentId,
    words: u32,
}

/// Chooses segments that fit into one, if there are two.
pub(super) fn choose(all: &Candidates<'_>) -> Option<MergeChoice> {
    let ids = all.lists.all().filter(|&id| all.can_merge(id));
    let mut parts: Vec<Part> = ids
        .map(|id| Part {
            deadline: all.deadline(id),
            id,
            words: all.live_words(id),
        })
        .collect();
    parts.sort_unstable_by_key(|part| part.deadline);
    let capacity = all.heap.capacity();
    let pairs = parts.windows(2).enumerate().filter_map(|(index, pair)| {
        let fits = pair[0].words + pair[1].words <= capacity;
        let cut = cut_share(pair[0].deadline, pair[1].deadline, all.now);
        (fits && cut <= share(CUT_PART)).then_some((cut, index))
    });
    let (_, index) = pairs.min()?;
    let first = parts[index].deadline;
    let mut words = 0;
    let together = parts[index..]
        .iter()
        .enumerate()
        .take_while(|(number, part)| {
            words += part.words;
            words <= capacity && (*number < 2 || is_near(first, part.deadline, all.now))
        });
    let sources = together
        .map(|(_, part)| part.id)
        .take(usize::from(MERGED_MAX))
        .collect();
    Some(MergeChoice {
        sources,
        keep: Keep::All,
    })
}

/// Whether more than two segments may be merged if these are the earliest and the latest deadline.
pub(super) fn is_near(earlier: Tick, later: Tick, now: Tick) -> bool {
    cut_share(earlier, later, now) <= share(CUT_PART_OF_MORE)
}

/// One part in the given number, in 65,536ths.
fn share(parts: u64) -> u64 {
    (1 << 16) / parts
}

/// Part of the time until `later` that an earlier deadline cuts off, in 65,536ths.
fn cut_share(earlier: Tick, later: Tick, now: Tick) -> u64 {
    let cut = u128::from(later.0 - earlier.0) << 16;
    (cut / u128::from((later.0 - now.0).max(1))) as u64
}
