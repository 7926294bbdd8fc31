//! Whole segments at a time: expiry, and eviction by merging or by giving up one segment.
//!
//! Either is a [`Job`]: some segments, marked as leaving, whose objects are gone through once, a few at a time. A
//! job that merges keeps the best of them in another segment, which takes the place of the first in its chain.
//! Each segment is free as soon as its last object has been looked at.

use crate::config::{Eviction, MERGED_MAX};
use crate::engine::{Segcache, Writer};
use crate::eviction::merge::Merge;
use crate::eviction::ranked::Ranked;
use crate::storage::chains::{Chains, State};
use crate::storage::content::Objects;
use crate::storage::heap::{Place, SegmentId};
use crate::storage::hint::prefetch;
use crate::storage::table::Search;
use crate::storage::ttl::FLUSHED;
use crate::sync::Ordering::Relaxed;
use crate::sync::spin_loop;
use policy::{Budget, Tick};

/// Objects whose cache lines of the table are asked for together.
const BATCH: usize = 8;

/// Why objects leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    Expiry,
    Eviction,
    Flush,
}

/// Segments whose objects are being gone through.
#[derive(Debug)]
pub(crate) struct Job {
    cause: Cause,
    /// The segment at work.
    pub(crate) source: SegmentId,
    offset: u32,
    /// How many have come before.
    pub(crate) done: u8,
    /// Which are to be taken; a merge may take more, which fit altogether.
    pub(crate) sources: [SegmentId; MERGED_MAX as usize],
    pub(crate) listed: u8,
    pub(crate) merge: Option<Merge>,
}

/// An object that was met.
#[derive(Clone, Copy)]
pub(crate) struct Met {
    pub(crate) place: Place,
    pub(crate) words: u32,
    pub(crate) hash: u64,
}

impl<C: Objects> Segcache<C> {
    /// The removal of what is in the first chain head that is over.
    pub(crate) fn begin_expiry(&self, now: Tick) -> Option<Job> {
        if now.0 <= self.heap.next_due.load(Relaxed) {
            return None;
        }
        let counters = &self.heap.counters;
        counters.scans.fetch_add(1, Relaxed);
        let mut chains = self.heap.chains();
        let mut next_due = u64::MAX;
        for row in chains.rows_from(0) {
            // Who merges or empties the head looks after it; what follows is not older than the head was.
            let head = chains.head(row);
            counters.heads_read.fetch_add(1, Relaxed);
            if chains.state(head) != State::Chained {
                continue;
            }
            let segment = self.heap.segment(head);
            let deadline = self.heap.deadline(head);
            next_due = next_due.min(deadline.0);
            if now > deadline && segment.seal() {
                chains.set_state(head, State::Leaving);
                if deadline == FLUSHED {
                    return Some(Job::of(Cause::Flush, head));
                }
                counters.segments_expired.fetch_add(1, Relaxed);
                return Some(Job::of(Cause::Expiry, head));
            }
        }
        self.heap.next_due.store(next_due, Relaxed);
        None
    }

    /// The eviction of some segments, as configured; `None` when nothing can or may go. Where nothing else is
    /// left, and room must be made at once, one goes that is still being filled.
    pub(crate) fn begin_eviction(&self, now: Tick, takes_open: bool) -> Option<Job> {
        let mut chains = self.heap.chains();
        let eviction = self.eviction();
        if eviction == Eviction::None {
            return None;
        }
        let job = match eviction {
            Eviction::Rent => self.begin_by_age(&mut chains, now),
            Eviction::Merge => self.begin_in_turn(&mut chains, now),
            Eviction::GlCache => self
                .begin_least_useful(&mut chains, now)
                .or_else(|| self.begin_by_age(&mut chains, now)),
            _ => None,
        };
        let job = match eviction.merges() {
            true => job.or_else(|| self.begin_compaction(&mut chains, now)),
            false => job,
        };
        if job.is_some() {
            self.heap.tell_free(&chains);
            return job;
        }
        let victim = self.choose_one(&mut chains, takes_open)?;
        chains.set_state(victim, State::Leaving);
        Some(Job::of(Cause::Eviction, victim))
    }

    /// Whether a segment can be given up as it is.
    pub(crate) fn can_leave(&self, chains: &Chains, id: SegmentId) -> bool {
        chains.state(id) == State::Chained && self.heap.segment(id).is_sealed()
    }

    /// One segment to give up, sealed.
    fn choose_one(&self, chains: &mut Chains, takes_open: bool) -> Option<SegmentId> {
        if let Some(mut ranked) = chains.ranked.take() {
            let chosen = self.choose_ranked(chains, &mut ranked);
            chains.ranked = Some(ranked);
            if chosen.is_some() {
                return chosen;
            }
            // The policy comes back to segments that are being filled or leave: any other will do.
        }
        let heap = &self.heap;
        let all = || {
            chains
                .rows_from(0)
                .flat_map(|row| chains.row(chains.head(row)))
        };
        let eviction = self.eviction();
        let worth = |id: &SegmentId| match eviction {
            Eviction::Cte => heap.deadline(*id).0,
            _ => u64::from(heap.segment(*id).live().1),
        };
        let sealed = all()
            .filter(|&id| self.can_leave(chains, id))
            .min_by_key(worth);
        if sealed.is_some() || !takes_open {
            return sealed;
        }
        // All are still being filled: by a thread that is idle, or there are too few for so many TTLs.
        let chained = |id: &SegmentId| chains.state(*id) == State::Chained;
        let mut open: Vec<SegmentId> = all().filter(chained).collect();
        open.sort_by_key(worth);
        open.into_iter().find(|&id| heap.segment(id).seal())
    }

    fn choose_ranked(&self, chains: &Chains, ranked: &mut Ranked) -> Option<SegmentId> {
        let uses = |id: SegmentId| {
            let segment = self.heap.segment(id);
            let uses = match segment.uses.load(Relaxed) {
                0 => 0,
                _ => segment.uses.swap(0, Relaxed),
            };
            (uses, segment.live().0)
        };
        // A segment that is still being filled has its turn later.
        for _ in 0..=self.heap.count() {
            let id = ranked.choose(uses)?;
            if self.can_leave(chains, id) {
                return Some(id);
            }
            ranked.linked(id);
        }
        None
    }

    /// Goes on with the writer's job until it is done, within a budget of objects and of words of segments;
    /// true when there is none left.
    pub(crate) fn step_job(&self, writer: &mut Writer, budget: &mut Budget, words: u64) -> bool {
        let Some(mut job) = writer.job.take() else {
            return true;
        };
        let is_done = self.step(&mut job, budget, words);
        if !is_done {
            writer.job = Some(job);
        }
        is_done
    }

    pub(crate) fn finish_job(&self, writer: &mut Writer) {
        while !self.step_job(writer, &mut Budget(u32::MAX), u64::MAX) {
            spin_loop();
        }
    }

    fn step(&self, job: &mut Job, budget: &mut Budget, mut words: u64) -> bool {
        loop {
            let source = self.heap.segment(job.source);
            let end = match source.live().0 {
                0 => job.offset,
                _ => source.used(),
            };
            while job.offset < end {
                let scanned = self.step_batch(job, end, budget, words);
                words = words.saturating_sub(u64::from(scanned));
                if job.offset < end && (words == 0 || budget.0 == 0) {
                    return false;
                }
            }
            if source.live().0 > 0 {
                // Somebody has taken an object out of the table and not yet out of the count.
                return false;
            }
            if !self.next_source(job) {
                return true;
            }
        }
    }

    /// A few objects; tells how many words they take.
    fn step_batch(&self, job: &mut Job, end: u32, budget: &mut Budget, words: u64) -> u32 {
        let mut batch = [None; BATCH];
        let mut scanned = 0;
        for met in &mut batch {
            if job.offset >= end || u64::from(scanned) >= words || !budget.spend() {
                break;
            }
            let place = Place {
                segment: job.source,
                offset: job.offset,
            };
            let words = self.content.words_at(&self.heap, place);
            let hash = self.hash_at(place);
            prefetch(self.table.line_of(&self.heap, hash));
            *met = Some(Met { place, words, hash });
            job.offset += words;
            scanned += words;
        }
        for met in batch.into_iter().flatten() {
            self.meet(job, met);
        }
        scanned
    }

    /// Keeps or removes an object, if it is the live one of its key.
    fn meet(&self, job: &mut Job, met: Met) {
        if let Some(merge) = &mut job.merge {
            let mut search = Search::new(&self.table, &self.heap, met.hash);
            let found = search.find(|cell| cell.slot.place() == met.place);
            let frequency = found.as_ref().and_then(|cell| merge.judge(cell, &met));
            let is_kept = frequency.is_some_and(|frequency| {
                self.has_room(merge, &met, job.done) && self.move_to(merge, &met, frequency)
            });
            if found.is_some() && !is_kept {
                self.drop_at(&met, job.cause);
            }
            merge.adjust(&met, found.is_some(), is_kept, self.heap.capacity);
            return;
        }
        self.drop_at(&met, job.cause);
    }

    fn drop_at(&self, met: &Met, cause: Cause) {
        let mut chain = self.table.lock(&self.heap, met.hash);
        let Some(cell) = chain.find(met.hash, |slot| slot.place() == met.place) else {
            return;
        };
        chain.remove(cell);
        self.heap.segment(met.place.segment).take_live(met.words);
        drop(chain);
        let counters = &self.heap.counters;
        counters.items.fetch_sub(1, Relaxed);
        let count = match cause {
            Cause::Expiry => &counters.expired,
            Cause::Eviction => &counters.evicted,
            Cause::Flush => &counters.flushed,
        };
        count.fetch_add(1, Relaxed);
    }

    /// The segment at work is empty: it is free, and the job comes to the next, if there is one.
    fn next_source(&self, job: &mut Job) -> bool {
        let mut chains = self.heap.chains();
        let next = chains.next(job.source);
        chains.free(&self.heap, job.source);
        job.done += 1;
        job.offset = 0;
        if job.cause == Cause::Eviction {
            self.heap.counters.segments_evicted.fetch_add(1, Relaxed);
        }
        let Some(merge) = &mut job.merge else {
            return false;
        };
        if job.done < job.listed {
            job.source = job.sources[usize::from(job.done)];
            self.enter(job);
            return true;
        }
        if self.takes_in(&mut chains, next, merge, job.done) {
            job.source = next;
            self.enter(job);
            return true;
        }
        self.end_target(&mut chains, merge);
        false
    }

    /// A sealed segment in which nothing lives is free without being looked through.
    #[cold]
    pub(crate) fn release_empty(&self, id: SegmentId) {
        let mut chains = self.heap.chains();
        let is_empty = self.can_leave(&chains, id) && self.heap.segment(id).live().0 == 0;
        if is_empty {
            chains.set_state(id, State::Leaving);
            chains.free(&self.heap, id);
        }
    }
}

impl Job {
    pub(crate) fn of(cause: Cause, source: SegmentId) -> Self {
        Job {
            cause,
            source,
            offset: 0,
            done: 0,
            sources: [SegmentId::NONE; MERGED_MAX as usize],
            listed: 1,
            merge: None,
        }
    }
}
