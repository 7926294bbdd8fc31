//! Choice of the next segments to remove: expired ones, or segments that the current eviction
//! chooses.

use super::choice::{Keep, MergeChoice};
use super::evictor::Evictor;
use super::job::{Cause, Job};
use super::merge::{Beginning, Merge, measure, worth_at_middle_age};
use super::plan::Plan;
use super::{compact, in_turn, rent, single};
use crate::config::Eviction;
use crate::storage::{
    Entries, FLUSHED, LockedDirectory, Objects, SegmentId, State, UsageValues, draw,
};
use crate::sync::Ordering::Relaxed;
use policy::Tick;

/// Writer number that owns all targets of merges. No thread has this number.
const MERGE_WRITER: u16 = u16::MAX;

impl<C: Objects> Evictor<'_, C> {
    /// Begins to remove the first expired segment. Only the heads of the TTL buckets are checked,
    /// because no segment after a head expires earlier.
    pub(crate) fn begin_expiry(&self, now: Tick) -> Option<Job> {
        if now.0 <= self.storage.directory().next_due() {
            return None;
        }
        let counters = &self.state.counters;
        counters.scans.fetch_add(1, Relaxed);
        let mut directory = self.storage.directory().lock();
        let mut next_due = u64::MAX;
        for bucket in directory.lists.buckets_from(0) {
            let head = directory.lists.head(bucket);
            counters.heads_read.fetch_add(1, Relaxed);
            // If a job is removing the head, that job checks the next segment when it frees the
            // head.
            if directory.lists.state(head) != State::Listed {
                continue;
            }
            let deadline = self.storage.heap().deadline(head);
            next_due = next_due.min(deadline.0);
            if now > deadline && self.storage.heap().header(head).seal() {
                directory.lists.set_state(head, State::Leaving);
                if deadline == FLUSHED {
                    return Some(Job::new(Cause::Flush, head));
                }
                counters.segments_expired.fetch_add(1, Relaxed);
                return Some(Job::new(Cause::Expiry, head));
            }
        }
        directory.set_next_due(next_due);
        None
    }

    /// Begins to evict segments. Returns `None` if the current eviction evicts nothing or no
    /// segment can leave. `takes_open` permits sealing an open segment if nothing else can be
    /// evicted.
    pub(crate) fn begin_eviction(&self, now: Tick, takes_open: bool) -> Option<Job> {
        let mut directory = self.storage.directory().lock();
        let eviction = self.state.eviction();
        let job = match eviction {
            Eviction::None => return None,
            Eviction::Rent => self.begin_rent(&mut directory, now),
            Eviction::Merge => {
                let Entries { lists, plan } = &mut *directory;
                let choice = in_turn::choose(&self.candidates(lists, now), &mut plan.progress);
                choice.and_then(|choice| self.begin_merge(&mut directory, &choice, now))
            }
            Eviction::GlCache => self
                .begin_least_useful(&mut directory, now)
                .or_else(|| self.begin_rent(&mut directory, now)),
            _ => None,
        };
        let job = match eviction.merges() {
            true => job.or_else(|| {
                let choice = compact::choose(&self.candidates(&directory.lists, now))?;
                self.begin_merge(&mut directory, &choice, now)
            }),
            false => job,
        };
        job.or_else(|| self.begin_single(&mut directory, eviction, now, takes_open))
    }

    fn begin_rent(&self, directory: &mut LockedDirectory<'_, Plan>, now: Tick) -> Option<Job> {
        let all = self.candidates(&directory.lists, now);
        let choice = rent::choose(&all, &directory.plan.ages)?;
        self.begin_merge(directory, &choice, now)
    }

    /// Begins to evict one segment whole.
    fn begin_single(
        &self,
        directory: &mut LockedDirectory<'_, Plan>,
        eviction: Eviction,
        now: Tick,
        takes_open: bool,
    ) -> Option<Job> {
        let Entries { lists, plan } = &mut **directory;
        let all = self.candidates(lists, now);
        let ranked = plan.ranked.as_mut();
        // The policy may propose only segments that are open or being removed. Then any other
        // segment is taken.
        let victim = ranked
            .and_then(|ranked| single::choose_ranked(&all, ranked))
            .or_else(|| single::choose_worst(&all, eviction, takes_open))?;
        lists.set_state(victim, State::Leaving);
        Some(Job::new(Cause::Eviction, victim))
    }

    /// Begins a merge. Returns `None` if there is no free segment for its target.
    pub(super) fn begin_merge(
        &self,
        directory: &mut LockedDirectory<'_, Plan>,
        choice: &MergeChoice,
        now: Tick,
    ) -> Option<Job> {
        let (sources, keep) = (choice.sources.as_slice(), choice.keep);
        let heap = self.storage.heap();
        let (&first, &last) = (sources.first()?, sources.last()?);
        let target = self.take_target(directory, first)?;
        for &source in sources {
            directory.lists.set_state(source, State::Leaving);
        }
        self.state.counters.merges.fetch_add(1, Relaxed);
        let bucket = usize::from(directory.lists.bucket(first).0);
        let age = directory.plan.ages.of(first);
        let second = now.0 / 1000;
        let known = directory
            .plan
            .progress
            .threshold(bucket, measure(keep, age));
        let threshold = match known {
            0.0 => {
                let header = heap.header(first);
                let (objects, words) = header.live();
                let by_word = objects as f32 / words.max(1) as f32;
                by_word
                    * match keep {
                        Keep::MostRecent => {
                            worth_at_middle_age(header.usage.opened().0 / 1000, second)
                        }
                        _ => 1.0,
                    }
            }
            known => known,
        };
        self.inherit_usage(target, sources);
        let live = |id: &SegmentId| heap.header(*id).live().1;
        let merge = Merge::new(&Beginning {
            target,
            bucket,
            age,
            keep,
            fits: sources.iter().map(live).sum::<u32>() <= heap.capacity(),
            threshold,
            second,
            is_in_turn: self.state.eviction() == Eviction::Merge,
            salt: draw(u64::from(target.0), now.0, self.state.config().seed),
        });
        if !matches!(keep, Keep::All) {
            let next = directory.lists.next(last);
            directory.plan.progress.set_from(bucket, next);
        }
        let mut job = Job::merging(sources, merge);
        self.enter(&mut job);
        directory.publish();
        Some(job)
    }

    /// Takes a free segment as the target of a merge. It is inserted before `source` in the list,
    /// and gets the same deadline.
    pub(super) fn take_target(
        &self,
        directory: &mut LockedDirectory<'_, Plan>,
        source: SegmentId,
    ) -> Option<SegmentId> {
        let target = directory.take_reserved()?;
        let bucket = directory.lists.bucket(source);
        let deadline = self.storage.heap().deadline(source);
        self.storage
            .open_segment(target, MERGE_WRITER, bucket, deadline);
        directory.link_before(target, source);
        self.inherit_usage(target, &[source]);
        Some(target)
    }

    /// Gives the target of a merge the mean usage of its sources.
    fn inherit_usage(&self, target: SegmentId, sources: &[SegmentId]) {
        let usage = |id: SegmentId| &self.storage.heap().header(id).usage;
        let all: Vec<UsageValues> = sources.iter().map(|&id| usage(id).get()).collect();
        usage(target).set(&UsageValues::mean(&all));
    }
}
