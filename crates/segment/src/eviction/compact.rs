//! Nearly empty segments of several TTLs become one, and lose nothing but a part of their lives.
//!
//! A merge as in the source takes consecutive segments of one TTL. Where TTLs are spread wide and few objects come
//! for each, no chain has two, and to give one up would lose objects for want of segments, not of bytes. So before
//! that, segments that fit into one altogether, and whose deadlines are next to each other's, go into one with the
//! earliest of these.

use crate::config::MERGED_MAX;
use crate::engine::Segcache;
use crate::eviction::evict::Job;
use crate::eviction::merge::Share;
use crate::storage::chains::Chains;
use crate::storage::content::Objects;
use crate::storage::heap::SegmentId;
use policy::Tick;

/// What is left of a life is cut by at most one part of so many.
const CUT_PART: u64 = 2;
/// More than two go together as long as it is cut by no more than one part of so many.
pub(crate) const CUT_PART_OF_MORE: u64 = 8;

/// A segment that could go with others.
#[derive(Clone, Copy)]
struct Part {
    deadline: Tick,
    id: SegmentId,
    words: u32,
}

impl<C: Objects> Segcache<C> {
    /// A merge that keeps everything, if any two segments fit into one.
    pub(crate) fn begin_compaction(&self, chains: &mut Chains, now: Tick) -> Option<Job> {
        let mut parts = Vec::new();
        for row in chains.rows_from(0) {
            let sealed = chains
                .row(chains.head(row))
                .filter(|&id| self.can_leave(chains, id));
            parts.extend(sealed.map(|id| Part {
                deadline: self.heap.deadline(id),
                id,
                words: self.heap.segment(id).live().1,
            }));
        }
        parts.retain(|part| part.deadline >= now);
        parts.sort_unstable_by_key(|part| part.deadline);
        let pairs = parts.windows(2).enumerate().filter_map(|(index, pair)| {
            let fits = pair[0].words + pair[1].words <= self.heap.capacity;
            let cut = cut_share(pair[0].deadline, pair[1].deadline, now);
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
                let is_near = cut_share(first, part.deadline, now) <= share(CUT_PART_OF_MORE);
                words <= self.heap.capacity && (*number < 2 || is_near)
            });
        let sources: Vec<_> = together
            .map(|(_, part)| part.id)
            .take(usize::from(MERGED_MAX))
            .collect();
        self.merge_of(chains, &sources, Share::All, now)
    }
}

/// One of so many parts, in 65,536ths.
pub(crate) fn share(parts: u64) -> u64 {
    (1 << 16) / parts
}

/// How much of what is left until `later` is cut by an earlier deadline, in 65,536ths.
pub(crate) fn cut_share(earlier: Tick, later: Tick, now: Tick) -> u64 {
    let cut = u128::from(later.0 - earlier.0) << 16;
    (cut / u128::from((later.0 - now.0).max(1))) as u64
}
