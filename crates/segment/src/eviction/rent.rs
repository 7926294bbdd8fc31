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
//! Merged are those of one TTL that wait longest, wherever they lie in its chain. What waits together is of every kind, long
//! proven and just kept, and one price tells these apart. What lies together is of one kind, and as much of the best would
//! go as of the worst.
//!
//! # Source
//! Parts from S. Jin, A. Bestavros, *GreedyDual\* web caching algorithm*, Computer Communications 2001, and the frequency
//! and size of L. Cherkasova, *Improving WWW proxies performance with greedy-dual-size-frequency caching policy*, HP
//! 1998; the small queue of J. Yang et al., *FIFO queues are all you need for cache eviction*, SOSP 2023; segments, their
//! frequencies and the moving threshold of Segcache.

use crate::engine::Segcache;
use crate::eviction::ages::Age;
use crate::eviction::compact::{CUT_PART_OF_MORE, cut_share, share};
use crate::eviction::evict::Job;
use crate::eviction::merge::{LOOKS_MAX, Share};
use crate::storage::chains::Chains;
use crate::storage::content::Objects;
use crate::storage::heap::SegmentId;
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

    /// As many segments of one age and TTL as are merged at once: those that wait longest with this one, if their lives are
    /// near each other's; else those that follow it in its chain. They are in the order of the chain.
    fn run_from(&self, chains: &Chains, first: SegmentId, age: Age, now: Tick) -> Vec<SegmentId> {
        let deadline = |id: SegmentId| self.heap.deadline(id);
        let merges = |&id: &SegmentId| {
            chains.ages.of(id) == age && self.can_leave(chains, id) && now <= deadline(id)
        };
        if !merges(&first) {
            return Vec::new();
        }
        let wanted = usize::from(self.merged());
        let row = chains.bucket(first);
        let is_near = |&id: &SegmentId| {
            let (one, other) = (deadline(first), deadline(id));
            cut_share(one.min(other), one.max(other), now) <= share(CUT_PART_OF_MORE)
        };
        let waiting = chains.ages.after(first).take(LOOKS_MAX);
        let alike = waiting.filter(|&id| chains.bucket(id) == row);
        let mut run: Vec<_> = alike.filter(merges).filter(is_near).take(wanted).collect();
        if run.len() < wanted {
            let next = chains.row(first).take(LOOKS_MAX);
            run = next.filter(merges).take(wanted).collect();
        }
        // In a chain, what was created first ends first.
        run.sort_by_key(|&id| chains.created(id));
        run
    }
}

// Many thousands of objects and no unsafe code, which would take Miri hours: `engine_against_model` is what it runs of that.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::{Condition, Writer};
    use crate::storage::sizes::Sizes;

    const SEGMENTS: u64 = 80;

    fn filled(ttl_ms: impl Fn(u32) -> Option<u64>, count: u32) -> (Segcache<Sizes>, Writer, Tick) {
        let config = Config {
            memory_bytes: SEGMENTS * (4 << 10) + (64 << 10),
            segment_bytes: 4 << 10,
            ..Config::default()
        };
        let cache: Segcache<Sizes> = Segcache::new(&config).expect("valid");
        let mut writer = cache.writer().expect("the first");
        let mut now = Tick(0);
        for number in 0..count {
            now = Tick(u64::from(number) * 10);
            let key = cache.key(number);
            let always = Condition::Always;
            let stored = cache.store(&mut writer, &key, 60, ttl_ms(number), always, now);
            assert!(stored.is_ok());
            // Some are asked for again, so that merges keep them.
            for back in [200, 900, 2_000] {
                let older = number.saturating_sub(back) & !3;
                cache.contains(&cache.key(older), Tick(now.0 + 1_000));
            }
        }
        cache.finish_job(&mut writer);
        cache.check();
        (cache, writer, now)
    }

    #[test]
    fn those_that_wait_longest_are_merged_wherever_they_lie() {
        let (cache, _writer, now) = filled(|_| None, 20_000);
        let chains = cache.heap.chains();
        let waiting = chains.ages.queue(Age::Old).take(20);
        let waiting: Vec<_> = waiting.filter(|&id| cache.can_leave(&chains, id)).collect();
        assert!(waiting.len() > 8);
        let mut is_scattered = false;
        for window in waiting.windows(4) {
            let run = cache.run_from(&chains, window[0], Age::Old, now);
            assert!(run.len() == 4 && window.iter().all(|id| run.contains(id)));
            is_scattered |= !chains.row(run[0]).take(4).eq(run.iter().copied());
        }
        assert!(is_scattered, "chain and queue have one order");
    }

    #[test]
    fn a_merge_takes_segments_of_one_ttl_the_one_that_ends_first_first() {
        let (cache, _writer, now) = filled(|number| Some(300_000 + u64::from(number % 3)), 20_000);
        let chains = cache.heap.chains();
        let mut runs = 0;
        for age in [Age::Young, Age::Old] {
            for first in chains.ages.queue(age) {
                let run = cache.run_from(&chains, first, age, now);
                let deadline = |id: SegmentId| cache.heap.deadline(id);
                for pair in run.windows(2) {
                    assert!(deadline(pair[0]) <= deadline(pair[1]));
                    assert_eq!(chains.bucket(pair[0]), chains.bucket(pair[1]));
                }
                runs += usize::from(run.len() == 4);
            }
        }
        assert!(runs > 8, "{runs}");
    }
}
