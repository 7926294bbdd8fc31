//! Whole segments at a time: expiry, and eviction by merging or by giving up one segment.
//!
//! Either is a [`Job`]: some segments, marked as leaving, whose objects are gone through once, a few at a time. A
//! job that merges keeps the best of them in another segment, which takes the place of the first in its chain.
//! Each segment is free as soon as its last object has been looked at.
//!
//! # The threshold
//! A merge of N segments keeps 1/N of a segment's bytes of each. What an object is worth is its frequency, and a
//! little chance, by its size. What is worth less than the threshold goes; after every tenth of a segment the threshold
//! moves up or down by the ratio of what was kept to what should have been. A segment whose live objects fit
//! into its part altogether keeps them all, as do N segments whose objects fit into one; and while there is room left
//! after N segments the following ones of the chain are taken too, if they fit altogether. What is kept starts again
//! with a frequency of 0.

use crate::chains::{Chains, State};
use crate::config::{Eviction, MERGED_MAX};
use crate::content::Objects;
use crate::counter::draw;
use crate::engine::{Segcache, Writer};
use crate::heap::{Place, SegmentId};
use crate::hint::prefetch;
use crate::line::Slot;
use crate::ranked::Ranked;
use crate::sync::Ordering::Relaxed;
use crate::sync::spin_loop;
use crate::table::Search;
use crate::ttl::FLUSHED;
use policy::{Budget, Tick};

/// Objects whose cache lines of the table are asked for together.
const BATCH: usize = 8;
/// Parts of a segment after each of which the threshold moves.
const PARTS: u32 = 10;
/// The most that it moves at once, up or down.
const MOVE_MAX: f32 = 2.0;
/// Segments of a chain that are looked at for a run of some that can be merged.
const LOOKS_MAX: usize = 4 * MERGED_MAX as usize;
/// Segments that one merge takes in at most, those that fit altogether included.
const SOURCES_MAX: u8 = 2 * MERGED_MAX;

/// Why objects leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Expiry,
    Eviction,
    Flush,
}

/// Segments whose objects are being gone through.
#[derive(Debug)]
pub(crate) struct Job {
    cause: Cause,
    /// The segment at work.
    source: SegmentId,
    offset: u32,
    /// How many have come before.
    done: u8,
    /// How many share the room of one; 1 where all fit altogether.
    wanted: u8,
    /// Whether the next ones of the chain may be taken, too.
    goes_on: bool,
    /// Which are to be taken, but for those that fit altogether.
    sources: [SegmentId; MERGED_MAX as usize],
    listed: u8,
    merge: Option<Merge>,
}

/// Where the best objects go.
#[derive(Debug)]
struct Merge {
    target: SegmentId,
    used: u32,
    row: usize,
    threshold: f32,
    /// Whether all live objects of this segment fit.
    keeps_all: bool,
    /// Words that this segment may keep, and what it kept.
    part: u32,
    kept: u32,
    /// The same since the threshold moved.
    part_scanned: u32,
    part_kept: u32,
    /// Determines the little chance.
    salt: u64,
}

/// An object that was met.
#[derive(Clone, Copy)]
struct Met {
    place: Place,
    words: u32,
    hash: u64,
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
        if self.config.eviction == Eviction::None {
            return None;
        }
        let mut chains = self.heap.chains();
        let job = match self.config.eviction {
            Eviction::Merge => {
                let job = self.begin_merge(&mut chains, now);
                job.or_else(|| self.begin_compaction(&mut chains, now))
            }
            _ => None,
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
            let mut chosen = self.choose_ranked(chains, &mut ranked, false);
            if chosen.is_none() && takes_open {
                chosen = self.choose_ranked(chains, &mut ranked, true);
            }
            chains.ranked = Some(ranked);
            return chosen;
        }
        let heap = &self.heap;
        let all = || {
            chains
                .rows_from(0)
                .flat_map(|row| chains.row(chains.head(row)))
        };
        let worth = |id: &SegmentId| match self.config.eviction {
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

    fn choose_ranked(
        &self,
        chains: &Chains,
        ranked: &mut Ranked,
        takes_open: bool,
    ) -> Option<SegmentId> {
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
            let is_chained = chains.state(id) == State::Chained;
            if is_chained
                && (self.can_leave(chains, id) || takes_open && self.heap.segment(id).seal())
            {
                return Some(id);
            }
            ranked.linked(id);
        }
        None
    }

    /// A merge in the bucket whose turn it is.
    fn begin_merge(&self, chains: &mut Chains, now: Tick) -> Option<Job> {
        let wanted = self.config.merged;
        // In this round; in a new round; and where there are few segments for many TTLs, of fewer.
        for (wanted, is_new_round) in [(wanted, false), (wanted, true), (2, true)] {
            let turn = chains.turn;
            for row in chains.rows_from(turn) {
                let from = match is_new_round {
                    true => chains.head(row),
                    false => chains.merge_from(row),
                };
                let run = self.run_in(chains, from, wanted, now);
                if let Some(first) = run {
                    chains.turn = row + 1;
                    return self.merge_at(chains, row, first, wanted, now);
                }
                chains.set_merge_from(row, SegmentId::NONE);
            }
        }
        None
    }

    /// The first of `wanted` consecutive segments that can be merged.
    fn run_in(&self, chains: &Chains, from: SegmentId, wanted: u8, now: Tick) -> Option<SegmentId> {
        let mut first = SegmentId::NONE;
        let mut length = 0;
        for id in chains.row(from).take(LOOKS_MAX) {
            let is_over = now > self.heap.deadline(id);
            if is_over || !self.can_leave(chains, id) {
                length = 0;
                continue;
            }
            if length == 0 {
                first = id;
            }
            length += 1;
            if length == wanted {
                return Some(first);
            }
        }
        None
    }

    fn merge_at(
        &self,
        chains: &mut Chains,
        row: usize,
        first: SegmentId,
        wanted: u8,
        now: Tick,
    ) -> Option<Job> {
        let sources: Vec<_> = chains.row(first).take(usize::from(wanted)).collect();
        let last = sources.last().copied().unwrap_or(first);
        let mut job = self.merge_of(chains, &sources, now)?;
        let live = |id: &SegmentId| self.heap.segment(*id).live().1;
        if sources.iter().map(live).sum::<u32>() > self.heap.capacity {
            job.wanted = wanted;
        }
        job.goes_on = true;
        chains.set_merge_from(row, chains.next(last));
        self.enter(&mut job);
        Some(job)
    }

    /// A merge of sealed segments, the one that ends first before the others, which takes that one's place.
    pub(crate) fn merge_of(
        &self,
        chains: &mut Chains,
        sources: &[SegmentId],
        now: Tick,
    ) -> Option<Job> {
        let first = *sources.first()?;
        let target = chains.take_reserved()?;
        self.content.taken(&self.heap, target);
        // Nobody appends here: the job fills it, and seals it with the length that it has then.
        let (bucket, deadline) = (chains.bucket(first), self.heap.deadline(first));
        self.heap.open(target, u16::MAX, bucket, deadline);
        chains.link_before(target, first);
        let mut job = Job::of(Cause::Eviction, first);
        job.listed = sources.len() as u8;
        for (slot, &source) in job.sources.iter_mut().zip(sources) {
            *slot = source;
            chains.set_state(source, State::Leaving);
        }
        self.heap.counters.merges.fetch_add(1, Relaxed);
        let row = usize::from(bucket.0);
        let threshold = match chains.threshold(row) {
            0.0 => {
                let (objects, words) = self.heap.segment(first).live();
                objects as f32 / words.max(1) as f32
            }
            threshold => threshold,
        };
        job.merge = Some(Merge {
            target,
            used: 0,
            row,
            threshold,
            keeps_all: false,
            part: 0,
            kept: 0,
            part_scanned: 0,
            part_kept: 0,
            salt: draw(u64::from(target.0), now.0, self.config.seed),
        });
        self.enter(&mut job);
        Some(job)
    }

    /// A merge comes to its next segment.
    fn enter(&self, job: &mut Job) {
        let (heap, done, wanted) = (&self.heap, u32::from(job.done), u32::from(job.wanted));
        let Some(merge) = &mut job.merge else {
            return;
        };
        let (_, live) = heap.segment(job.source).live();
        // What earlier segments left over is for the later ones.
        let share = heap.capacity / wanted * (done + 1).min(wanted);
        let part = share.max(heap.capacity * u32::from(done + 1 >= wanted));
        merge.part = part.saturating_sub(merge.used);
        merge.keeps_all = live <= merge.part;
        merge.kept = 0;
        merge.part_scanned = 0;
        merge.part_kept = 0;
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
            merge.part_scanned += met.words;
            let mut search = Search::new(&self.table, &self.heap, met.hash);
            let found = search.find(|cell| cell.slot.place() == met.place);
            let found = found.map(|cell| cell.slot);
            if let Some(slot) = found
                && merge.keeps(slot, &met, self.heap.capacity)
            {
                self.move_to(merge, &met);
            } else if found.is_some() {
                self.drop_at(&met, job.cause);
            }
            if let Some(merge) = &mut job.merge {
                merge.adjust(self.heap.capacity);
            }
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

    /// Carries an object over, unless it has left meanwhile.
    fn move_to(&self, merge: &mut Merge, met: &Met) {
        let to = Place {
            segment: merge.target,
            offset: merge.used,
        };
        let (heap, content) = (&self.heap, &self.content);
        content.copy(heap, met.place, to, met.words);
        let mut chain = self.table.lock(heap, met.hash);
        let Some(cell) = chain.find(met.hash, |slot| slot.place() == met.place) else {
            content.unwritten(to);
            return;
        };
        content.copy_changes(heap, met.place, to);
        let target = heap.segment(merge.target);
        target.add_live(met.words);
        target.filled(met.words);
        let slot = cell.slot.moved_to(to).with_frequency(0);
        chain.replace(cell, slot, cell.slot.frequency());
        heap.segment(met.place.segment).take_live(met.words);
        heap.counters.kept.fetch_add(1, Relaxed);
        merge.used += met.words;
        merge.kept += met.words;
        merge.part_kept += met.words;
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
        let Some(merge) = &job.merge else {
            return false;
        };
        if job.done < job.listed {
            job.source = job.sources[usize::from(job.done)];
            self.enter(job);
            return true;
        }
        let goes_on = job.goes_on && job.done < SOURCES_MAX;
        if goes_on && self.fits(&chains, next, merge) {
            chains.set_state(next, State::Leaving);
            let after = chains.next(next);
            chains.set_merge_from(merge.row, after);
            job.source = next;
            self.enter(job);
            return true;
        }
        let target = self.heap.segment(merge.target);
        chains.set_threshold(merge.row, merge.threshold);
        target.seal();
        if target.live().0 == 0 {
            chains.free(&self.heap, merge.target);
        } else {
            chains.set_state(merge.target, State::Chained);
        }
        self.heap.falls_due(self.heap.deadline(merge.target));
        false
    }

    /// Whether a segment fits into what a merge has left, and does not lose much of its life by it.
    fn fits(&self, chains: &Chains, id: SegmentId, merge: &Merge) -> bool {
        if !id.is_some() || !self.can_leave(chains, id) {
            return false;
        }
        let width_ms = chains.bucket(id).width_ms();
        let lost_ms = chains.created(id).0 - chains.created(merge.target).0;
        let is_near = lost_ms < width_ms.saturating_mul(u64::from(self.config.merged));
        is_near && self.heap.segment(id).live().1 <= self.heap.capacity - merge.used
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
    fn of(cause: Cause, source: SegmentId) -> Self {
        Job {
            cause,
            source,
            offset: 0,
            done: 0,
            wanted: 1,
            goes_on: false,
            sources: [SegmentId::NONE; MERGED_MAX as usize],
            listed: 1,
            merge: None,
        }
    }
}

impl Merge {
    /// Whether an object is worth its place.
    fn keeps(&self, slot: Slot, met: &Met, capacity: u32) -> bool {
        if met.words > capacity - self.used {
            return false;
        }
        if self.keeps_all {
            return true;
        }
        if self.kept + met.words > self.part {
            return false;
        }
        // Of those that are asked for alike and are as large, some stay and some go.
        let chance = (draw(met.hash, 0, self.salt) >> 40) as f32 / (1u64 << 24) as f32;
        let worth = (f32::from(slot.frequency()) + chance) / met.words as f32;
        worth >= self.threshold
    }

    /// Moves the threshold after every tenth of a segment.
    fn adjust(&mut self, capacity: u32) {
        if self.part_scanned < capacity / PARTS || self.keeps_all {
            return;
        }
        let wanted = self.part as f32 * self.part_scanned as f32 / capacity as f32;
        let ratio = self.part_kept as f32 / wanted.max(1.0);
        self.threshold *= ratio.clamp(1.0 / MOVE_MAX, MOVE_MAX);
        self.threshold = self.threshold.clamp(f32::MIN_POSITIVE, f32::MAX);
        self.part_scanned = 0;
        self.part_kept = 0;
    }
}
