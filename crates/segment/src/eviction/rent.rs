//! Eviction by age and rent, the default: a departure from merging in turn that misses less on most
//! traces.
//!
//! # Idea
//! An object pays for the room that it takes with its frequency, as if that were rent paid from an
//! income of requests. Each merge subtracts a price, in proportion to the object's size, from its
//! frequency. Objects whose frequency is below the price are evicted, and the others keep the rest
//! of their frequency. So a frequently requested object survives some merges without a request, and
//! a large one fewer than a small one, as in GreedyDual-Size-Frequency with the merges as its
//! clock. The price is the merge's threshold, which adapts until the intended share is kept.
//!
//! Segments are in two queues over all TTLs, in the order in which they were last filled: young
//! ones, filled by writers, and old ones, filled by merges. N young segments become one; N old ones
//! become N - 1. The young are merged first when they are more than an eighth of all. Objects that
//! are requested only once are thus evicted early, as in S3-FIFO, and objects that have survived a
//! merge are rarely copied.
//!
//! A merge takes those segments of one TTL bucket that have been in the queue longest, wherever
//! they are in the bucket's list. They contain objects of all kinds, which one price can separate.
//! Neighbours in the list contain similar objects, so that a merge of them would evict as many of
//! the best as of the worst.
//!
//! # Source
//! Parts from S. Jin, A. Bestavros, *GreedyDual\* web caching algorithm*, Computer Communications
//! 2001; frequency and size from L. Cherkasova, *Improving WWW proxies performance with
//! greedy-dual-size-frequency caching policy*, HP 1998; the small queue of J. Yang et al., *FIFO
//! queues are all you need for cache eviction*, SOSP 2023; segments, their frequencies and the
//! adaptive threshold of Segcache.

use super::ages::Ages;
use super::choice::LOOKS_MAX;
use super::choice::{Candidates, Keep, MergeChoice};
use super::compact::is_near;
use crate::storage::{Age, SegmentId};

/// Reciprocal of the share of all segments above which young segments are merged first.
const YOUNG_PART: u32 = 8;

/// Chooses segments of one bucket, those that have been in the queue longest.
pub(super) fn choose(all: &Candidates<'_>, ages: &Ages) -> Option<MergeChoice> {
    let is_young = ages.count(Age::Young) > all.heap.count() / YOUNG_PART;
    let order = match is_young {
        true => [Age::Young, Age::Old],
        false => [Age::Old, Age::Young],
    };
    // If there are few segments for many TTLs, two segments suffice.
    for least in [all.merged, 2] {
        for age in order {
            let waiting = ages.queue(age).take(LOOKS_MAX);
            let mut runs = waiting.map(|first| run_from(all, ages, first, age));
            if let Some(sources) = runs.find(|run| run.len() >= usize::from(least)) {
                let targets = match age {
                    Age::Young => 1,
                    Age::Old => sources.len() as u8 - 1,
                };
                let keep = Keep::Segments(targets);
                return Some(MergeChoice { sources, keep });
            }
        }
    }
    None
}

/// Returns up to `merged` segments of one age and bucket, in the order of the bucket's list:
/// `first` and those after it in the queue with a similar deadline. If these are too few, the
/// segments after `first` in the bucket's list are returned instead.
fn run_from(all: &Candidates<'_>, ages: &Ages, first: SegmentId, age: Age) -> Vec<SegmentId> {
    let merges = |&id: &SegmentId| ages.of(id) == age && all.can_merge(id);
    if !merges(&first) {
        return Vec::new();
    }
    let wanted = usize::from(all.merged);
    let bucket = all.lists.bucket(first);
    let is_near = |&id: &SegmentId| {
        let (one, other) = (all.deadline(first), all.deadline(id));
        is_near(one.min(other), one.max(other), all.now)
    };
    let waiting = ages.after(first).take(LOOKS_MAX);
    let alike = waiting.filter(|&id| all.lists.bucket(id) == bucket);
    let mut run: Vec<_> = alike.filter(merges).filter(is_near).take(wanted).collect();
    if run.len() < wanted {
        let next = all.lists.list(first).take(LOOKS_MAX);
        run = next.filter(merges).take(wanted).collect();
    }
    // In a bucket's list, what was created first expires first.
    run.sort_by_key(|&id| all.lists.created(id));
    run
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::Segcache;
    use crate::storage::{Condition, Sizes};
    use crate::writer::Writer;
    use policy::Tick;

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
            // Some are requested again, so that merges keep them.
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
    fn the_segments_that_wait_longest_are_merged_wherever_they_lie() {
        let (cache, _writer, now) = filled(|_| None, 20_000);
        let evictor = cache.evictor();
        let directory = cache.storage.directory().lock();
        let (lists, ages) = (&directory.lists, &directory.plan.ages);
        let all = evictor.candidates(lists, now);
        let waiting = ages.queue(Age::Old).take(20);
        let waiting: Vec<_> = waiting.filter(|&id| all.can_leave(id)).collect();
        assert!(waiting.len() > 8);
        let mut is_scattered = false;
        for window in waiting.windows(4) {
            let run = run_from(&all, ages, window[0], Age::Old);
            assert!(run.len() == 4 && window.iter().all(|id| run.contains(id)));
            is_scattered |= !lists.list(run[0]).take(4).eq(run.iter().copied());
        }
        assert!(is_scattered, "list and queue have one order");
    }

    #[test]
    fn a_merge_takes_segments_of_one_ttl_bucket_in_order_of_their_deadlines() {
        let (cache, _writer, now) = filled(|number| Some(300_000 + u64::from(number % 3)), 20_000);
        let evictor = cache.evictor();
        let directory = cache.storage.directory().lock();
        let (lists, ages) = (&directory.lists, &directory.plan.ages);
        let all = evictor.candidates(lists, now);
        let mut runs = 0;
        for age in [Age::Young, Age::Old] {
            for first in ages.queue(age) {
                let run = run_from(&all, ages, first, age);
                for pair in run.windows(2) {
                    assert!(all.deadline(pair[0]) <= all.deadline(pair[1]));
                    assert_eq!(lists.bucket(pair[0]), lists.bucket(pair[1]));
                }
                runs += usize::from(run.len() == 4);
            }
        }
        assert!(runs > 8, "{runs}");
    }
}
