//! Eviction by what is learned about segments: GL-Cache's part in the engine.
//!
//! # Idea
//! A segment is a group of objects written one after the other. Something beside the engine learns what such a group is worth, by
//! its features ([`policy::groups`]), and says now and then which are worth least. The engine merges the least useful with
//! those written next to it in its chain: their best objects stay, in the place of one segment.
//!
//! # Source
//! J. Yang, Z. Mao, Y. Yue, K. V. Rashmi, *GL-Cache: Group-level learning for efficient and high-performance caching*,
//! FAST 2023; chapter 6 of J. Yang's thesis, CMU 2024, and its 10.2.1 for what must not happen under load.
//!
//! # State
//! Per object: none. Per segment: 24 bytes in its header's cache line, which had room for them. The list of keys that
//! are watched ([`crate::watch`]) takes a 700th of the memory, less of a large one and more of a small one; in less than 256 KB there is none.
//!
//! # Cost
//! Read: a comparison of the hash (see there how many go on), and with a request that is counted for the first time one more addition beside the
//! one that is there. Write: the same comparison, and a number of the writer's own. Eviction: as a merge.
//!
//! # Departures
//! - Until there is a ranking, and whenever evictions outrun it, segments go as by `rent`: by age, the order that the
//!   source calls FIFO, with the engine's own choice of what stays.
//! - A ranking names twice as many segments as it is meant for. So eviction goes on while the next one is made.
//! - Requests are counted as the engine counts them: once a second for an object.
//! - Evictions that go by a policy start the counts of requests again when they look. Where one of these was in force before,
//!   a segment's requests are those since.
//! - An object's last access is that of its line of the table, which up to seven objects share: those beside a popular
//!   one look as young as it is. What was never asked for is as old as its segment.
//! - A segment that has no neighbour to be merged with is given up as it is.
//! - The features of what a merge leaves are the means of what it took, as in the source, counts rounded.

use crate::engine::Segcache;
use crate::eviction::evict::{Cause, Job};
use crate::eviction::merge::{LOOKS_MAX, Share};
use crate::eviction::watch::Watch;
use crate::storage::chains::Chains;
use crate::storage::chains::State;
use crate::storage::content::Objects;
use crate::storage::heap::{Place, SegmentId};
use crate::storage::table::Search;
use crate::storage::words::WORD;
use crate::sync::Ordering::{Acquire, Relaxed};
use policy::Tick;
use policy::groups::{Extent, Features, Groups, Rates};
// Facts for a learner: no reader relies on their order, and Loom need not know of them.
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// Draws for a segment that can be sampled.
const DRAWS: u64 = 16;
/// Heaps of fewer segments are not sampled: one that is sampled cannot be evicted meanwhile.
const SAMPLED_FROM: u32 = 32;

/// What is known of a segment besides its header's counts. In that one's cache line.
#[derive(Debug, Default)]
pub(crate) struct Known {
    born: AtomicU64,
    /// As the bits of `f32`.
    rates: [AtomicU32; 3],
    /// Objects that were asked for since they came here.
    pub(crate) requested: AtomicU32,
}

/// The means of what several segments are known by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Means {
    born: Tick,
    rates: Rates,
    uses: u32,
    requested: u32,
}

/// Names a segment until it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentName {
    id: SegmentId,
    generation: u64,
}

/// A segment so marked that it stays where it is, until this is dropped.
struct Held<'c, C: Objects> {
    cache: &'c Segcache<C>,
    id: SegmentId,
}

/// Segments in the order in which they are to go.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// The next one last.
    names: Vec<SegmentName>,
    /// How many may go before another ranking is wanted.
    quota: usize,
}

/// What the engine and a learner tell each other.
#[derive(Debug)]
pub(crate) struct Learning {
    pub(crate) watch: Watch,
    rates: [AtomicU32; 3],
    wants_ranking: AtomicBool,
    pub(crate) begun: AtomicU64,
    pub(crate) writes: AtomicU64,
    /// Segments evicted by a ranking, with those they were merged with.
    pub(crate) evicted: AtomicU64,
}

fn loaded(rates: &[AtomicU32; 3]) -> Rates {
    let [requests, writes, misses] = rates;
    let of = |rate: &AtomicU32| f32::from_bits(rate.load(Relaxed));
    Rates {
        requests: of(requests),
        writes: of(writes),
        misses: of(misses),
    }
}

fn store(into: &[AtomicU32; 3], rates: Rates) {
    let all = [rates.requests, rates.writes, rates.misses];
    for (cell, rate) in into.iter().zip(all) {
        cell.store(rate.to_bits(), Relaxed);
    }
}

impl Known {
    /// When the segment was taken to be written.
    pub(crate) fn born(&self) -> Tick {
        Tick(self.born.load(Relaxed))
    }

    fn set(&self, born: Tick, rates: Rates, requested: u32) {
        self.born.store(born.0, Relaxed);
        store(&self.rates, rates);
        self.requested.store(requested, Relaxed);
    }
}

impl Ranking {
    fn next(&mut self) -> Option<SegmentName> {
        self.names.pop()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.names.capacity() * size_of::<SegmentName>()
    }
}

impl Learning {
    pub(crate) fn new() -> Self {
        Learning {
            watch: Watch::new(),
            rates: Default::default(),
            wants_ranking: AtomicBool::new(true),
            begun: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }
}

impl<C: Objects> Segcache<C> {
    /// A writer has taken a segment to write into, after so many objects.
    pub(crate) fn begun(&self, id: SegmentId, writes: u64, now: Tick) {
        let learning = &self.learning;
        learning.begun.fetch_add(1, Relaxed);
        learning.writes.fetch_add(writes, Relaxed);
        let rates = loaded(&learning.rates);
        self.heap.segment(id).known.set(now, rates, 0);
    }

    /// What some segments are known by together; there is one at least.
    pub(crate) fn means(&self, sources: &[SegmentId]) -> Means {
        let count = sources.len().max(1);
        let mean = |of: &dyn Fn(SegmentId) -> u64| {
            let sum: u128 = sources.iter().map(|&id| u128::from(of(id))).sum();
            (sum / count as u128) as u64
        };
        let share = |of: fn(&Rates) -> f32| {
            let rates = sources
                .iter()
                .map(|&id| loaded(&self.heap.segment(id).known.rates));
            rates.map(|rates| of(&rates)).sum::<f32>() / count as f32
        };
        let segment = |id: SegmentId| self.heap.segment(id);
        Means {
            born: Tick(mean(&|id| segment(id).known.born().0)),
            rates: Rates {
                requests: share(|rates| rates.requests),
                writes: share(|rates| rates.writes),
                misses: share(|rates| rates.misses),
            },
            uses: mean(&|id| u64::from(segment(id).uses.load(Relaxed))) as u32,
            requested: mean(&|id| u64::from(segment(id).known.requested.load(Relaxed))) as u32,
        }
    }

    /// A merge fills a segment, which is to be known by these.
    pub(crate) fn heir(&self, id: SegmentId, means: &Means) {
        let segment = self.heap.segment(id);
        segment.uses.store(means.uses, Relaxed);
        segment.known.set(means.born, means.rates, means.requested);
    }

    /// The eviction of the segment that is worth least, if a ranking says which. After a flood all that a ranking names
    /// may have gone: a call looks at a few names only.
    pub(crate) fn begin_least_useful(&self, chains: &mut Chains, now: Tick) -> Option<Job> {
        for _ in 0..LOOKS_MAX {
            let Some(SegmentName { id, generation }) = chains.ranking.next() else {
                self.learning.wants_ranking.store(true, Relaxed);
                return None;
            };
            let is_there = self.generation(id) == generation;
            if !is_there || !self.can_leave(chains, id) || now > self.heap.deadline(id) {
                continue;
            }
            let sources = self.neighbours(chains, id, now);
            let merge = match sources.len() {
                1 => None,
                _ => self.merge_of(chains, &sources, Share::Best, now),
            };
            let count = merge.as_ref().map_or(1, |_| sources.len());
            self.went_by_ranking(chains, count);
            return Some(merge.unwrap_or_else(|| {
                chains.set_state(id, State::Leaving);
                Job::of(Cause::Eviction, id)
            }));
        }
        None
    }

    /// So many segments go because a ranking said so.
    pub(crate) fn went_by_ranking(&self, chains: &mut Chains, count: usize) {
        self.learning.evicted.fetch_add(count as u64, Relaxed);
        let ranking = &mut chains.ranking;
        ranking.quota = ranking.quota.saturating_sub(count);
        if ranking.quota == 0 {
            self.learning.wants_ranking.store(true, Relaxed);
        }
    }

    /// A segment with those of its chain that were written next after it and can leave, or where these are too few,
    /// before it: as many as are merged, the oldest first.
    fn neighbours(&self, chains: &Chains, id: SegmentId, now: Tick) -> Vec<SegmentId> {
        let wanted = usize::from(self.merged());
        let merges = |id: &SegmentId| self.can_leave(chains, *id) && now <= self.heap.deadline(*id);
        let after = chains.row(id).skip(1).take(LOOKS_MAX).filter(merges);
        let mut run: Vec<SegmentId> = after.take(wanted - 1).collect();
        let missing = wanted - 1 - run.len();
        let before = chains.row_back(id).skip(1).take(LOOKS_MAX).filter(merges);
        let mut sources: Vec<SegmentId> = before.take(missing).collect();
        sources.reverse();
        sources.push(id);
        sources.append(&mut run);
        sources
    }

    fn generation(&self, id: SegmentId) -> u64 {
        self.heap.stamp(id).generation.load(Acquire)
    }

    fn features(&self, id: SegmentId, now: Tick) -> Features {
        let segment = self.heap.segment(id);
        let rates = loaded(&segment.known.rates);
        let (objects, words) = segment.live();
        [
            rates.requests,
            rates.writes,
            rates.misses,
            words as f32 * WORD as f32 / objects.max(1) as f32,
            now.0.saturating_sub(segment.known.born().0) as f32 / 1e3,
            segment.uses.load(Relaxed) as f32,
            segment.known.requested.load(Relaxed) as f32,
        ]
    }

    /// Whether a segment lives and is sealed, as far as can be seen without a lock: neither free nor of the table.
    fn could_go(&self, id: SegmentId, now: Tick) -> bool {
        let segment = self.heap.segment(id);
        segment.is_sealed() && segment.live().0 > 0 && now <= self.heap.deadline(id)
    }

    /// A segment that could go, held.
    fn hold(&self, random: u64, now: Tick) -> Option<Held<'_, C>> {
        let count = u64::from(self.heap.count());
        if count < u64::from(SAMPLED_FROM) || self.samples_max() == 0 {
            return None;
        }
        let draw = |turn: u64| SegmentId((random.wrapping_add(turn * turn) % count) as u32 + 1);
        let could_go = |id: &SegmentId| self.could_go(*id, now);
        let id = (0..DRAWS).map(draw).find(could_go)?;
        let mut chains = self.heap.chains();
        // Somebody may have emptied it since.
        let can_be = self.can_leave(&chains, id) && could_go(&id);
        can_be.then(|| {
            chains.set_state(id, State::Held);
            Held { cache: self, id }
        })
    }

    /// Goes through the objects of a segment that is held.
    fn watch_keys(&self, held: &Held<'_, C>, now: Tick) -> bool {
        let id = held.id;
        let segment = self.heap.segment(id);
        let (objects, _) = segment.live();
        let (features, deadline) = (self.features(id, now), self.heap.deadline(id));
        let watch = &self.learning.watch;
        let Some(mut begun) = watch.begin(features, deadline, objects, now) else {
            return false;
        };
        let (mut offset, end) = (0, segment.used());
        while offset < end {
            let place = Place {
                segment: id,
                offset,
            };
            let words = self.content.words_at(&self.heap, place);
            let hash = self.hash_at(place);
            if begun.covers(hash) {
                let mut search = Search::new(&self.table, &self.heap, hash);
                if search.any(|cell| cell.slot.place() == place) {
                    begun.watch(hash, words);
                }
            }
            offset += words;
        }
        begun.end(objects)
    }
}

impl<C: Objects> Drop for Held<'_, C> {
    fn drop(&mut self) {
        let Held { cache, id } = *self;
        let mut chains = cache.heap.chains();
        chains.set_state(id, State::Chained);
        // Who came by meanwhile has passed it over.
        cache.heap.falls_due(cache.heap.deadline(id));
        // An eviction that does not learn may have come meanwhile, under this lock.
        if !cache.wants_lessons() {
            cache.learning.watch.end();
        }
        drop(chains);
        cache.release(id);
    }
}

impl<C: Objects> Groups for Segcache<C> {
    type Name = SegmentName;

    fn wants_lessons(&self) -> bool {
        self.eviction().learns()
    }

    fn extent(&self) -> Extent {
        // With those of the table, so that no lock is taken for a number that need not be exact.
        let free = self.heap.free_count.load(Relaxed);
        Extent {
            groups: u64::from(self.heap.count().saturating_sub(free)),
            entries: self.len(),
            begun: self.learning.begun.load(Relaxed),
            writes: self.learning.writes.load(Relaxed),
        }
    }

    fn set_rates(&self, rates: Rates) {
        store(&self.learning.rates, rates);
    }

    fn sample(&self, random: u64, now: Tick) -> bool {
        if !self.wants_lessons() {
            return false;
        }
        let held = self.hold(random, now);
        held.is_some_and(|held| self.watch_keys(&held, now))
    }

    fn samples_max(&self) -> usize {
        self.learning.watch.samples_max()
    }

    fn sampled_before(&self, before: Tick) -> usize {
        self.learning.watch.sampled_before(before)
    }

    fn take_samples(&self, before: Tick, each: &mut dyn FnMut(&Features, f64)) {
        self.learning.watch.hand_over(before, each);
    }

    fn wants_ranking(&self) -> bool {
        self.learning.wants_ranking.load(Relaxed)
    }

    fn each_group(&self, now: Tick, each: &mut dyn FnMut(SegmentName, &Features)) {
        for id in self.heap.ids() {
            let name = SegmentName {
                id,
                generation: self.generation(id),
            };
            // What has changed since is found when it is to go.
            if self.could_go(id, now) {
                each(name, &self.features(id, now));
            }
        }
    }

    fn rank(&self, least_first: &[SegmentName], quota: usize) {
        let mut ranking = Ranking {
            names: least_first.iter().rev().copied().collect(),
            quota,
        };
        let mut chains = self.heap.chains();
        // What was told too late for another eviction is not for this one.
        if self.wants_lessons() {
            let is_used_up = ranking.names.is_empty() || quota == 0;
            std::mem::swap(&mut chains.ranking, &mut ranking);
            self.learning.wants_ranking.store(is_used_up, Relaxed);
        }
        // The one before is freed when nobody waits for the lock any more.
        drop(chains);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Eviction};
    use crate::engine::{Condition, Writer};
    use crate::storage::stored::Value;

    const NOW: Tick = Tick(9_000);

    fn engine() -> (Segcache, Writer) {
        let config = Config {
            memory_bytes: 512 << 10,
            segment_bytes: 4 << 10,
            eviction: Eviction::GlCache,
            ..Config::default()
        };
        let cache: Segcache = Segcache::new(&config).expect("valid");
        let mut writer = cache.writer().expect("the first");
        let always = Condition::Always;
        for number in 0..1_000u32 {
            let name = number.to_be_bytes();
            let key = cache.key(&name);
            let stored = cache.set(&mut writer, &key, Value::plain(&[7; 40]), None, always, NOW);
            assert!(stored.is_ok());
        }
        (cache, writer)
    }

    fn names(cache: &Segcache) -> Vec<SegmentName> {
        let mut names = vec![];
        cache.each_group(NOW, &mut |name, _| names.push(name));
        names
    }

    /// All of them were looked at at once, by a request, under the lock.
    #[test]
    fn a_request_looks_at_few_names_of_what_is_gone() {
        let (cache, _writer) = engine();
        let lives = names(&cache)[0];
        let gone = SegmentName {
            generation: lives.generation + 1,
            ..lives
        };
        let mut all = vec![gone; 2 * LOOKS_MAX];
        all.push(lives);
        cache.rank(&all, 10);
        for _ in 0..2 {
            assert!(
                cache
                    .begin_least_useful(&mut cache.heap.chains(), NOW)
                    .is_none()
            );
            assert!(!cache.wants_ranking());
        }
        let job = cache.begin_least_useful(&mut cache.heap.chains(), NOW);
        assert!(job.is_some());
        cache.rank(&all, 10);
        cache.clear();
        assert!(
            cache
                .begin_least_useful(&mut cache.heap.chains(), NOW)
                .is_none()
        );
        assert!(cache.wants_ranking(), "a flood has taken the ranking, too");
    }

    /// Those that it was to be merged with were counted, too, and stayed.
    #[test]
    fn where_there_is_none_to_merge_into_one_goes_and_one_is_counted() {
        let (cache, _writer) = engine();
        let all = names(&cache);
        cache.rank(&all, all.len());
        let mut chains = cache.heap.chains();
        let mut taken = vec![];
        while let Some(id) = chains.take_reserved() {
            taken.push(id);
        }
        assert!(cache.begin_least_useful(&mut chains, NOW).is_some());
        assert_eq!(cache.learning.evicted.load(Relaxed), 1);
        assert_eq!(chains.ranking.quota, all.len() - 1);
    }

    /// The sample that was under way went on to watch keys, and nobody ended that.
    #[test]
    fn an_eviction_that_does_not_learn_watches_no_keys_even_if_it_comes_during_a_sample() {
        let (cache, _writer) = engine();
        let covers = || {
            let names = (0..1_000u32).map(u32::to_be_bytes);
            let mut hashes = names.map(|name| cache.key(&name).hash);
            hashes.any(|hash| cache.learning.watch.covers(hash))
        };
        let mut held = (0..1_000).filter_map(|random| cache.hold(random, NOW));
        let held = held.next().expect("some are sealed");
        assert_eq!(cache.set_eviction(Eviction::Fifo), Ok(()));
        assert!(cache.watch_keys(&held, NOW));
        drop(held);
        assert!(!covers());
        assert!((0..1_000).all(|random| !cache.sample(random, NOW)));
        assert!(!covers());
        assert_eq!(cache.set_eviction(Eviction::GlCache), Ok(()));
        assert!((0..1_000).any(|random| cache.sample(random, NOW)));
        assert!(covers());
        assert_eq!(cache.sampled_before(Tick(u64::MAX)), 1);
    }
}
