//! Eviction by age, where objects pay rent: the engine's own departure from merging in turn, with its parts.
//!
//! # Idea
//! A request is income, room is paid for. Whoever goes through a segment takes from each object's frequency what
//! its size costs at the price of the day; who cannot pay leaves, and who can keeps the rest. So an object that was
//! asked for often outlives some rounds without a request, and a large one fewer of them than a small one, as
//! in GreedyDual-Size-Frequency, whose clock the rounds are. The price is the merge's threshold: it moves until
//! the part is kept that should be.
//!
//! New segments wait in one queue, those that merges made in another, over all TTLs, each in the order in
//! which they were last gone through. Of the new ones, N become one; of the others, N become N - 1. The new ones go
//! first when they are more than an eighth of all: what is asked for once leaves early, as in S3-FIFO, and what was found
//! good is copied rarely.
//!
//! # Source
//! Parts from S. Jin, A. Bestavros, *GreedyDual\* web caching algorithm*, Computer Communications 2001, and the frequency
//! and size of L. Cherkasova, *Improving WWW proxies performance with greedy-dual-size-frequency caching policy*, HP
//! 1998; the small queue of J. Yang et al., *FIFO queues are all you need for cache eviction*, SOSP 2023; segments, their
//! frequencies and the moving threshold of Segcache.

use crate::ages::Age;
use crate::chains::Chains;
use crate::content::Objects;
use crate::engine::Segcache;
use crate::evict::Job;
use crate::heap::SegmentId;
use crate::merge::{LOOKS_MAX, Share};
use policy::Tick;

/// One in so many segments may be new before these go first.
const YOUNG_PART: u32 = 8;

impl<C: Objects> Segcache<C> {
    /// A merge of the segments of one bucket that wait longest.
    pub(crate) fn begin_by_age(&self, chains: &mut Chains, now: Tick) -> Option<Job> {
        let is_young = chains.ages.count(Age::Young) > self.heap.count() / YOUNG_PART;
        let ages = match is_young {
            true => [Age::Young, Age::Old],
            false => [Age::Old, Age::Young],
        };
        // Where there are few segments for many TTLs, of fewer.
        for least in [self.merged(), 2] {
            for age in ages {
                let waiting = chains.ages.queue(age).take(LOOKS_MAX);
                let mut runs = waiting.map(|first| self.run_from(chains, first, age, now));
                if let Some(run) = runs.find(|run| run.len() >= usize::from(least)) {
                    let targets = match age {
                        Age::Young => 1,
                        Age::Old => run.len() as u8 - 1,
                    };
                    drop(runs);
                    return self.merge_of(chains, &run, Share::Together(targets), now);
                }
            }
        }
        None
    }

    /// As many segments of one age as are merged at once that follow one another from this one on, but for those that
    /// are being filled.
    fn run_from(&self, chains: &Chains, first: SegmentId, age: Age, now: Tick) -> Vec<SegmentId> {
        if !self.can_leave(chains, first) {
            return Vec::new();
        }
        let merges = |&id: &SegmentId| {
            chains.ages.of(id) == age && self.can_leave(chains, id) && now <= self.heap.deadline(id)
        };
        let near = chains.row(first).take(LOOKS_MAX).filter(merges);
        near.take(usize::from(self.merged())).collect()
    }
}
