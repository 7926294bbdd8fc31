//! Experimental: eviction by learned segment utility, the engine's part of GL-Cache. On most traces
//! tried, the default `rent` misses less; `docs/lab/segment.md` has the comparison.
//!
//! # Idea
//! A segment is a group of objects written one after the other. A learner outside of the engine
//! predicts the utility of such groups from their features ([`policy::groups`]), and from time to
//! time passes a ranking to the engine, the least useful first. The engine merges the least useful
//! segment with its neighbours in the list: their best objects stay, in one segment.
//!
//! # Source
//! J. Yang, Z. Mao, Y. Yue, K. V. Rashmi, *GL-Cache: Group-level learning for efficient and
//! high-performance caching*, FAST 2023; chapter 6 of J. Yang's thesis, CMU 2024, and its section
//! 10.2.1 on what must not happen under load.
//!
//! # State
//! Per object: none. Per segment: 24 bytes in a part of its header's cache line that was free. The
//! table of watched keys (`watch.rs`) takes a 700th of the memory, less of a large memory and more
//! of a small one; below 256 KB there is none.
//!
//! # Cost
//! Read: one comparison of the hash (`watch.rs` states how many go further), and one addition for
//! the first counted hit of an object. Write: the same comparison, and a count in the writer.
//! Eviction: as a merge.
//!
//! # Departures
//! - Until there is a ranking, and whenever evictions outrun it, segments are evicted as by `rent`:
//!   by age, the order that the source calls FIFO, with the engine's own choice of what stays.
//! - A ranking names twice as many segments as it is meant for, so that eviction can continue while
//!   the next one is being made.
//! - Requests are counted as the engine counts them: once a second for each object.
//! - Evictions by a policy reset the hit counts when they read them. After a change from one of
//!   these, a segment's hits count from then on.
//! - An object's last access is that of its line of the table, which up to seven objects share, so
//!   the neighbours of a popular object look as recent as it does. An object that was never
//!   requested is as old as its segment.
//! - A segment without a neighbour to merge with is evicted whole.
//! - The target of a merge has the mean features of its sources, as in the source, with counts
//!   rounded down.

use super::choice::{Candidates, Keep, LOOKS_MAX, MergeChoice};
use super::evictor::Evictor;
use super::job::{Cause, Job};
use super::learning::{Ranking, SegmentName};
use super::plan::Plan;
use crate::storage::{Entries, Location, LockedDirectory, Objects, SegmentId, State, WORD};
use policy::Tick;
use policy::groups::{Extent, Features};
use std::sync::atomic::Ordering::Relaxed;

/// Maximum number of random segments tried to find one that can be sampled.
const DRAWS: u64 = 16;
/// Minimum number of segments for sampling, because a segment cannot be evicted while it is
/// sampled.
const SAMPLED_FROM: u32 = 32;

/// A segment that is protected from removal until this guard is dropped.
struct HeldSegment<'c, C: Objects> {
    evictor: Evictor<'c, C>,
    id: SegmentId,
}

impl<C: Objects> Evictor<'_, C> {
    /// Begins to evict the first segment of the ranking. Names of segments freed meanwhile are
    /// skipped, only a few per call, because after a flush this may be all names.
    pub(super) fn begin_least_useful(
        &self,
        directory: &mut LockedDirectory<'_, Plan>,
        now: Tick,
    ) -> Option<Job> {
        for _ in 0..LOOKS_MAX {
            let Some(SegmentName { id, generation }) = directory.plan.ranking.names.pop() else {
                self.state.learning.wants_ranking.store(true, Relaxed);
                return None;
            };
            let is_there = self.generation(id) == generation;
            let all = self.candidates(&directory.lists, now);
            if !is_there || !all.can_merge(id) {
                continue;
            }
            let sources = neighbours(&all, id);
            let count = sources.len();
            let choice = MergeChoice {
                sources,
                keep: Keep::MostRecent,
            };
            let merge = match count {
                1 => None,
                _ => self.begin_merge(directory, &choice, now),
            };
            self.count_ranked(&mut directory.plan, merge.as_ref().map_or(1, |_| count));
            return Some(merge.unwrap_or_else(|| {
                directory.lists.set_state(id, State::Leaving);
                Job::new(Cause::Eviction, id)
            }));
        }
        None
    }

    /// Counts `count` segments that are evicted because of a ranking.
    pub(super) fn count_ranked(&self, plan: &mut Plan, count: usize) {
        let learning = &self.state.learning;
        learning.evicted.fetch_add(count as u64, Relaxed);
        plan.ranking.quota = plan.ranking.quota.saturating_sub(count);
        if plan.ranking.quota == 0 {
            learning.wants_ranking.store(true, Relaxed);
        }
    }

    fn generation(&self, id: SegmentId) -> u64 {
        self.storage.heap().stamp(id).generation()
    }

    fn features(&self, id: SegmentId, now: Tick) -> Features {
        let header = self.storage.heap().header(id);
        let usage = header.usage.get();
        let (objects, words) = header.live();
        [
            usage.rates.requests,
            usage.rates.writes,
            usage.rates.misses,
            words as f32 * WORD as f32 / objects.max(1) as f32,
            now.0.saturating_sub(usage.opened.0) as f32 / 1e3,
            usage.hits as f32,
            usage.requested as f32,
        ]
    }

    /// Returns true if a segment appears to be sealed, unexpired and not empty. It is called
    /// without the lock, so the result must be checked again.
    fn could_leave(&self, id: SegmentId, now: Tick) -> bool {
        let header = self.storage.heap().header(id);
        header.is_sealed() && header.live().0 > 0 && now <= self.storage.heap().deadline(id)
    }

    /// Picks a random segment that could be evicted, and protects it from removal.
    fn hold(&self, random: u64, now: Tick) -> Option<HeldSegment<'_, C>> {
        let count = u64::from(self.storage.heap().count());
        if count < u64::from(SAMPLED_FROM) || self.state.learning.watch.samples_max() == 0 {
            return None;
        }
        let draw = |turn: u64| SegmentId((random.wrapping_add(turn * turn) % count) as u32 + 1);
        let could_leave = |id: &SegmentId| self.could_leave(*id, now);
        let id = (0..DRAWS).map(draw).find(could_leave)?;
        let mut directory = self.storage.directory().lock();
        // Another thread may have emptied it since.
        let can_leave = directory.lists.can_leave(self.storage.heap(), id) && could_leave(&id);
        can_leave.then(|| {
            directory.lists.set_state(id, State::Sampled);
            HeldSegment { evictor: *self, id }
        })
    }

    /// Adds some keys of a held segment to the table of watched keys. Returns false if none could
    /// be added.
    fn watch_keys(&self, held: &HeldSegment<'_, C>, now: Tick) -> bool {
        let id = held.id;
        let header = self.storage.heap().header(id);
        let (objects, _) = header.live();
        let (features, deadline) = (self.features(id, now), self.storage.heap().deadline(id));
        let watch = &self.state.learning.watch;
        let Some(mut sample) = watch.begin(features, deadline, objects, now) else {
            return false;
        };
        let (mut offset, end) = (0, header.used());
        while offset < end {
            let object = self.storage.scan(Location {
                segment: id,
                offset,
            });
            if sample.covers(object.hash) && self.storage.slot_of(&object).is_some() {
                sample.watch(object.hash, object.words);
            }
            offset += object.words;
        }
        sample.end(objects)
    }

    /// Returns the numbers of segments and writes by which a learner decides when to sample and to
    /// rank.
    pub(crate) fn extent(&self) -> Extent {
        // The table's segments are included, because computing the exact number would take the
        // lock.
        let free = self.storage.directory().free_count();
        Extent {
            groups: u64::from(self.storage.heap().count().saturating_sub(free)),
            entries: self.storage.item_count(),
            begun: self.state.learning.opened.load(Relaxed),
            writes: self.state.learning.writes.load(Relaxed),
        }
    }

    /// Samples a random segment: from now on, the next requests for some of its keys add to its
    /// utility. Returns false if no segment can be sampled.
    pub(crate) fn sample(&self, random: u64, now: Tick) -> bool {
        if !self.state.eviction().learns() {
            return false;
        }
        let held = self.hold(random, now);
        held.is_some_and(|held| self.watch_keys(&held, now))
    }

    /// Returns true if the engine needs another ranking, because the quota of the current one is
    /// used up.
    pub(crate) fn wants_ranking(&self) -> bool {
        self.state.learning.wants_ranking.load(Relaxed)
    }

    /// Calls `each` with the name and the features of each segment that could be evicted.
    pub(crate) fn each_segment(&self, now: Tick, each: &mut dyn FnMut(SegmentName, &Features)) {
        for id in self.storage.heap().ids() {
            let generation = self.generation(id);
            // A segment that can no longer be evicted later is skipped when the ranking reaches it.
            if self.could_leave(id, now) {
                each(SegmentName { id, generation }, &self.features(id, now));
            }
        }
    }

    /// Sets the order in which segments are evicted. After `quota` evictions, another ranking is
    /// requested.
    pub(crate) fn rank(&self, least_first: &[SegmentName], quota: usize) {
        let mut ranking = Ranking {
            names: least_first.iter().rev().copied().collect(),
            quota,
        };
        let mut directory = self.storage.directory().lock();
        // A ranking that arrives after a change of the eviction is ignored.
        if self.state.eviction().learns() {
            let is_used_up = ranking.names.is_empty() || quota == 0;
            std::mem::swap(&mut directory.plan.ranking, &mut ranking);
            let wants_ranking = &self.state.learning.wants_ranking;
            wants_ranking.store(is_used_up, Relaxed);
        }
        // The previous ranking is freed after the lock is released.
        drop(directory);
    }
}

/// Returns a segment and the segments to merge it with, oldest first: the segments after it in its
/// list that can be merged or, if there are too few, the segments before it.
fn neighbours(all: &Candidates<'_>, id: SegmentId) -> Vec<SegmentId> {
    let wanted = usize::from(all.merged);
    let merges = |id: &SegmentId| all.can_merge(*id);
    let after = all.lists.list(id).skip(1).take(LOOKS_MAX).filter(merges);
    let mut run: Vec<SegmentId> = after.take(wanted - 1).collect();
    let missing = wanted - 1 - run.len();
    let before = all.lists.list_back(id).skip(1).take(LOOKS_MAX);
    let mut sources: Vec<SegmentId> = before.filter(merges).take(missing).collect();
    sources.reverse();
    sources.push(id);
    sources.append(&mut run);
    sources
}

impl<C: Objects> Drop for HeldSegment<'_, C> {
    fn drop(&mut self) {
        let HeldSegment { evictor, id } = *self;
        let mut directory = evictor.storage.directory().lock();
        let Entries { lists, .. } = &mut *directory;
        lists.set_state(id, State::Listed);
        // The scan for expired segments passed over this segment while it was held, so its deadline
        // is noted again.
        directory.falls_due(evictor.storage.heap().deadline(id));
        // Another eviction may have been put in force meanwhile, under this lock.
        if !evictor.state.eviction().learns() {
            evictor.state.learning.watch.end();
        }
        drop(directory);
        evictor.storage.free_if_empty(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Eviction};
    use crate::engine::Segcache;
    use crate::storage::{Condition, Value};
    use crate::writer::Writer;
    use policy::groups::Groups;

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

    fn begin(cache: &Segcache) -> Option<Job> {
        let mut directory = cache.storage.directory().lock();
        cache.evictor().begin_least_useful(&mut directory, NOW)
    }

    /// Regression test: one request used to check all names of a ranking while it held the lock.
    #[test]
    fn a_request_looks_at_few_names_of_freed_segments() {
        let (cache, _writer) = engine();
        let present = names(&cache)[0];
        let freed = SegmentName {
            generation: present.generation + 1,
            ..present
        };
        let mut all = vec![freed; 2 * LOOKS_MAX];
        all.push(present);
        cache.rank(&all, 10);
        for _ in 0..2 {
            assert!(begin(&cache).is_none());
            assert!(!cache.wants_ranking());
        }
        assert!(begin(&cache).is_some());
        cache.rank(&all, 10);
        cache.clear();
        assert!(begin(&cache).is_none());
        assert!(cache.wants_ranking(), "a flush drops the ranking, too");
    }

    /// Regression test: the neighbours that the segment was going to be merged with used to be
    /// counted as evicted, too, although they stayed.
    #[test]
    fn without_a_free_segment_for_a_merge_one_segment_is_evicted_and_counted() {
        let (cache, _writer) = engine();
        let all = names(&cache);
        cache.rank(&all, all.len());
        let mut directory = cache.storage.directory().lock();
        while directory.take_reserved().is_some() {}
        let job = cache.evictor().begin_least_useful(&mut directory, NOW);
        assert!(job.is_some());
        assert_eq!(cache.eviction.learning.evicted.load(Relaxed), 1);
        assert_eq!(directory.plan.ranking.quota, all.len() - 1);
    }

    /// Regression test: a sample that was being taken used to go on watching keys after the change,
    /// and nothing ended that.
    #[test]
    fn no_keys_are_watched_after_a_change_to_another_eviction_during_a_sample() {
        let (cache, _writer) = engine();
        let evictor = cache.evictor();
        let covers = || {
            let names = (0..1_000u32).map(u32::to_be_bytes);
            let mut hashes = names.map(|name| cache.key(&name).hash);
            hashes.any(|hash| cache.eviction.learning.watch.covers(hash))
        };
        let mut held = (0..1_000).filter_map(|random| evictor.hold(random, NOW));
        let held = held.next().expect("some are sealed");
        assert_eq!(cache.set_eviction(Eviction::Fifo), Ok(()));
        assert!(evictor.watch_keys(&held, NOW));
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
