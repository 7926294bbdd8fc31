//! Compaction: nearly empty segments of several TTL buckets are merged into one, without loss of
//! objects.
//!
//! A merge as in the source takes consecutive segments of one TTL bucket. If there are many
//! different TTLs with few objects each, no bucket has two segments, and evicting one would lose
//! objects although most of the memory is unused. Segments with similar deadlines whose live
//! objects fit into one segment are therefore merged into one first. It gets the earliest of the
//! deadlines, which shortens the remaining TTL of the other objects, within bounds.

use super::choice::{Candidates, Keep, MergeChoice};
use crate::config::MERGED_MAX;
use crate::storage::SegmentId;
use policy::Tick;

/// Divisor of a remaining TTL that limits by how much a merge of two segments may shorten it.
const CUT_PART: u64 = 2;
/// Divisor of a remaining TTL that limits by how much a merge of more than two segments may shorten
/// it.
const CUT_PART_OF_MORE: u64 = 8;

/// Segment that could be merged with others.
#[derive(Clone, Copy)]
struct Part {
    deadline: Tick,
    id: SegmentId,
    words: u32,
}

/// Chooses segments whose live objects fit into one segment, if there are at least two.
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

/// Returns true if more than two segments may be merged, where `earlier` and `later` are the first
/// and the last of their deadlines.
pub(super) fn is_near(earlier: Tick, later: Tick, now: Tick) -> bool {
    cut_share(earlier, later, now) <= share(CUT_PART_OF_MORE)
}

/// Returns the fraction 1 / `parts`, in 65,536ths.
fn share(parts: u64) -> u64 {
    (1 << 16) / parts
}

/// Returns the share of the time until `later`, in 65,536ths, that is lost if the deadline becomes
/// `earlier`.
fn cut_share(earlier: Tick, later: Tick, now: Tick) -> u64 {
    let cut = u128::from(later.0 - earlier.0) << 16;
    (cut / u128::from((later.0 - now.0).max(1))) as u64
}
