//! Merging: the best objects of some segments of one bucket go on in fewer, which take the place of these in the chain.
//!
//! What an object is worth is its frequency, and a little chance, by its size. What is worth less than the threshold
//! goes; after every tenth of a segment the threshold moves up or down by the ratio of what was kept to what should
//! have been; where objects pay, by the root of that. A segment whose live objects fit altogether into what is meant for it keeps them all; and while there
//! is room left at the end, the following ones of the chain are taken too, if they fit altogether.
//!
//! Two ways are known. In turn, as in the source: N segments become one, each keeps as many bytes, and what is kept
//! starts again with a frequency of 0. By age, where objects pay rent: see `rent.rs`.

use crate::config::{Eviction, MERGED_MAX};
use crate::engine::Segcache;
use crate::eviction::ages::Age;
use crate::eviction::evict::{Cause, Job, Met};
use crate::storage::chains::{Chains, State};
use crate::storage::content::Objects;
use crate::storage::counter::draw;
use crate::storage::heap::{Place, SegmentId};
use crate::storage::table::Cell;
use crate::sync::Ordering::Relaxed;
use policy::Tick;

/// Parts of a segment after each of which the threshold moves.
const PARTS: u32 = 10;
/// The most that it moves at once, up or down.
const MOVE_MAX: f32 = 2.0;
/// The threshold of merges that keep what was asked for last, beside those of the ages.
const MEASURE_RECENT: usize = 2;
/// A merge takes less, in seconds.
const MERGE_SECONDS: u16 = 600;
/// What an object that pays takes of the table, about, in words.
const TABLE_WORDS: f32 = 1.5;
/// Segments that are looked at for a run of some that can be merged.
pub(crate) const LOOKS_MAX: usize = 4 * MERGED_MAX as usize;
/// Segments that one merge takes in at most, those that fit altogether included.
const SOURCES_MAX: u8 = 2 * MERGED_MAX;

/// How much of its sources a merge keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Share {
    /// All of them, for they fit into one.
    All,
    /// Each keeps one of so many parts of one segment.
    Each(u8),
    /// Together they keep so many segments.
    Together(u8),
    /// Together they keep one, of what was asked for last by size.
    Best,
}

/// Where the best objects go.
#[derive(Debug)]
pub(crate) struct Merge {
    target: SegmentId,
    used: u32,
    /// Segments that may still follow this one, and those that were taken.
    targets_left: u8,
    targets: u8,
    row: usize,
    age: Age,
    /// Which of the row's thresholds it begins with.
    measure: usize,
    /// The second in which it began, where objects stay by the time since they were asked for; and when the segment at
    /// work was begun.
    recent: Option<u64>,
    born: u64,
    share: Share,
    /// Whether the next ones of the chain may be taken, too.
    goes_on: bool,
    threshold: f32,
    /// Whether what is kept has paid with its frequency, instead of losing all of it.
    pays: bool,
    /// Whether all live objects of what is ahead fit.
    keeps_all: bool,
    /// Words that may still be kept of the segment at work, and which part of what lives should be.
    room: u32,
    part: f32,
    /// Since the threshold moved.
    scanned: u32,
    live: u32,
    kept: u32,
    /// Whether something was worth keeping and found no room.
    is_full: bool,
    /// Determines the little chance.
    salt: u64,
}

impl<C: Objects> Segcache<C> {
    /// A merge in the bucket whose turn it is.
    pub(crate) fn begin_in_turn(&self, chains: &mut Chains, now: Tick) -> Option<Job> {
        let wanted = self.merged();
        // In this round; in a new round; and where there are few segments for many TTLs, of fewer.
        for (wanted, is_new_round) in [(wanted, false), (wanted, true), (2, true)] {
            if is_new_round {
                chains.round_began = now;
            }
            let turn = chains.turn;
            for row in chains.rows_from(turn) {
                if let Some(first) = self.run_in(chains, row, wanted, now) {
                    chains.turn = row + 1;
                    let run = chains.row(first).take(usize::from(wanted));
                    let sources: Vec<_> = run.collect();
                    return self.merge_of(chains, &sources, Share::Each(wanted), now);
                }
                chains.set_merge_from(row, SegmentId::NONE);
            }
        }
        None
    }

    /// The first of `wanted` consecutive segments that can be merged in this round.
    fn run_in(&self, chains: &Chains, row: usize, wanted: u8, now: Tick) -> Option<SegmentId> {
        let mut first = SegmentId::NONE;
        let mut length = 0;
        // What a round has made room for would be merged away before anybody could ask for it.
        let has_part = |id: &SegmentId| chains.created(*id) <= chains.round_began;
        let rest = chains.row(chains.merge_from(row)).take(LOOKS_MAX);
        for id in rest.take_while(has_part) {
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

    /// A merge of sealed segments, the one that ends first before the others, whose places it takes.
    pub(crate) fn merge_of(
        &self,
        chains: &mut Chains,
        sources: &[SegmentId],
        share: Share,
        now: Tick,
    ) -> Option<Job> {
        let first = *sources.first()?;
        let target = self.take_target(chains, first)?;
        let mut job = Job::of(Cause::Eviction, first);
        job.listed = sources.len() as u8;
        for (slot, &source) in job.sources.iter_mut().zip(sources) {
            *slot = source;
            chains.set_state(source, State::Leaving);
        }
        self.heap.counters.merges.fetch_add(1, Relaxed);
        let (row, age) = (usize::from(chains.bucket(first).0), chains.ages.of(first));
        let recent = matches!(share, Share::Best).then_some(now.0 / 1000);
        let measure = recent.map_or(age as usize, |_| MEASURE_RECENT);
        let threshold = match chains.threshold(row, measure) {
            0.0 => {
                let (objects, words) = self.heap.segment(first).live();
                let by_word = objects as f32 / words.max(1) as f32;
                by_word * recent.map_or(1.0, |second| self.middling(first, second))
            }
            threshold => threshold,
        };
        self.heir(target, &self.means(sources));
        let live = |id: &SegmentId| self.heap.segment(*id).live().1;
        let fits = sources.iter().map(live).sum::<u32>() <= self.heap.capacity;
        job.merge = Some(Merge {
            target,
            used: 0,
            targets_left: match share {
                Share::Together(targets) => targets - 1,
                _ => 0,
            },
            targets: 1,
            row,
            age,
            measure,
            recent,
            born: 0,
            share: if fits { Share::All } else { share },
            goes_on: !matches!(share, Share::All),
            threshold,
            pays: recent.is_none() && self.eviction() != Eviction::Merge,
            keeps_all: false,
            room: 0,
            part: 0.0,
            scanned: 0,
            live: 0,
            kept: 0,
            is_full: false,
            salt: draw(u64::from(target.0), now.0, self.config.seed),
        });
        if !matches!(share, Share::All) {
            let last = sources.last().copied().unwrap_or(first);
            chains.set_merge_from(row, chains.next(last));
        }
        self.enter(&mut job);
        Some(job)
    }

    /// What an object is worth that was asked for neither lately nor as long ago as it could be.
    fn middling(&self, id: SegmentId, second: u64) -> f32 {
        let born = self.heap.segment(id).known.born().0 / 1000;
        let age = second.saturating_sub(born) as f32;
        1.0 / (0.5 + age.sqrt())
    }

    /// A segment to be filled by a merge alone, with the length that it has when it is sealed; it stands where
    /// `source` does, and ends with it.
    fn take_target(&self, chains: &mut Chains, source: SegmentId) -> Option<SegmentId> {
        let target = chains.take_reserved()?;
        self.content.taken(&self.heap, target);
        let (bucket, deadline) = (chains.bucket(source), self.heap.deadline(source));
        self.heap.open(target, u16::MAX, bucket, deadline);
        chains.link_before(target, source);
        self.heir(target, &self.means(&[source]));
        Some(target)
    }

    /// What was kept so far can be merged again.
    pub(crate) fn end_target(&self, chains: &mut Chains, merge: &Merge) {
        let target = self.heap.segment(merge.target);
        chains.set_threshold(merge.row, merge.measure, merge.threshold);
        target.seal();
        if target.live().0 == 0 {
            chains.free(&self.heap, merge.target);
        } else {
            chains.set_state(merge.target, State::Chained);
        }
        self.heap.falls_due(self.heap.deadline(merge.target));
    }

    /// A merge comes to its next segment.
    pub(crate) fn enter(&self, job: &mut Job) {
        let capacity = self.heap.capacity;
        let sources = &job.sources[..usize::from(job.listed)];
        let live_of = |id: SegmentId| self.heap.segment(id).live().1;
        let Some(merge) = &mut job.merge else {
            return;
        };
        let live = live_of(job.source);
        let left = capacity - merge.used;
        let done = u32::from(job.done);
        let (room, ahead) = match merge.share {
            Share::Each(wanted) if job.done < job.listed => {
                // What earlier segments left over is for the later ones.
                let wanted = u32::from(wanted);
                let share = capacity / wanted * (done + 1).min(wanted);
                let share = share.max(capacity * u32::from(done + 1 >= wanted));
                (share.saturating_sub(merge.used), live)
            }
            Share::Together(_) | Share::Best if job.done < job.listed => {
                let ahead = sources[usize::from(job.done)..].iter();
                let ahead = ahead.map(|&id| live_of(id)).sum();
                (left + capacity * u32::from(merge.targets_left), ahead)
            }
            _ => (left, live),
        };
        merge.born = self.heap.segment(job.source).known.born().0 / 1000;
        merge.room = room;
        merge.part = room as f32 / ahead.max(1) as f32;
        merge.keeps_all = ahead <= room;
        merge.scanned = 0;
        merge.live = 0;
        merge.kept = 0;
    }

    /// Whether an object that is worth it can be kept; takes one more segment, where that one's place has become free.
    pub(crate) fn has_room(&self, merge: &mut Merge, met: &Met, done: u8) -> bool {
        let fits = |merge: &Merge| met.words <= self.heap.capacity - merge.used;
        if fits(merge) && met.words <= merge.room {
            return true;
        }
        // Each but the first stands for one that was emptied, so that merges of several threads take no more from
        // the reserve than one each.
        let may_follow = merge.targets_left > 0 && merge.targets <= done;
        if !fits(merge) && may_follow {
            let mut chains = self.heap.chains();
            if let Some(target) = self.take_target(&mut chains, met.place.segment) {
                self.end_target(&mut chains, merge);
                merge.room = merge.room.saturating_sub(self.heap.capacity - merge.used);
                merge.target = target;
                merge.used = 0;
                merge.targets += 1;
                merge.targets_left -= 1;
                return met.words <= merge.room;
            }
        }
        merge.is_full = true;
        false
    }

    /// Carries an object over; false where it has left meanwhile.
    pub(crate) fn move_to(&self, merge: &mut Merge, met: &Met, frequency: u8) -> bool {
        let to = Place {
            segment: merge.target,
            offset: merge.used,
        };
        let (heap, content) = (&self.heap, &self.content);
        content.copy(heap, met.place, to, met.words);
        let mut chain = self.table.lock(heap, met.hash);
        let Some(cell) = chain.find(met.hash, |slot| slot.place() == met.place) else {
            content.unwritten(to);
            return false;
        };
        content.copy_changes(heap, met.place, to);
        let target = heap.segment(merge.target);
        target.add_live(met.words);
        target.filled(met.words);
        let slot = cell.slot.moved_to(to).with_frequency(frequency);
        chain.replace(cell, slot, cell.slot.frequency());
        heap.segment(met.place.segment).take_live(met.words);
        heap.counters.kept.fetch_add(1, Relaxed);
        merge.used += met.words;
        merge.room -= met.words;
        true
    }

    /// Whether a merge goes on with the next segment of the chain, which is marked then: one that fits into what is
    /// left, and does not lose much of its life by it.
    pub(crate) fn takes_in(
        &self,
        chains: &mut Chains,
        id: SegmentId,
        merge: &Merge,
        done: u8,
    ) -> bool {
        let is_done = !merge.goes_on || done >= SOURCES_MAX;
        if is_done || !id.is_some() || !self.can_leave(chains, id) {
            return false;
        }
        let width_ms = chains.bucket(id).width_ms();
        // A chain is in the order of creation, and so are the sources of a merge.
        let lost_ms = chains.created(id).0 - chains.created(merge.target).0;
        let is_near = lost_ms < width_ms.saturating_mul(u64::from(self.merged()));
        let fits = self.heap.segment(id).live().1 <= self.heap.capacity - merge.used;
        let is_alike = !merge.pays || chains.ages.of(id) == merge.age;
        if !(is_near && fits && is_alike) {
            return false;
        }
        chains.set_state(id, State::Leaving);
        if merge.recent.is_some() {
            self.went_by_ranking(chains, 1);
        }
        chains.set_merge_from(merge.row, chains.next(id));
        true
    }
}

impl Merge {
    /// The frequency that an object goes on with if it is worth its place.
    pub(crate) fn judge(&self, cell: &Cell<'_>, met: &Met) -> Option<u8> {
        let frequency = cell.slot.frequency();
        if self.keeps_all {
            return Some(if self.pays { frequency } else { 0 });
        }
        // Of those that are asked for alike and are as large, some stay and some go.
        let chance = (draw(met.hash, 0, self.salt) >> 40) as f32 / (1u64 << 24) as f32;
        if let Some(second) = self.recent {
            let age = self.age(second, cell.accessed()) as f32;
            // Those that are as old differ by an eighth of their age, and by what their seconds do not tell.
            let worth = 1.0 / (0.5 + age + chance * (1.0 + age / 8.0));
            return (worth >= self.threshold * met.words as f32).then_some(0);
        }
        let size = met.words as f32 + if self.pays { TABLE_WORDS } else { 0.0 };
        let left = f32::from(frequency) + chance - self.threshold * size;
        // What is left is rounded by that chance, too.
        (left >= 0.0).then_some(if self.pays { left as u8 } else { 0 })
    }

    /// Seconds since something in an object's line was asked for; what is told in 16 bits may be of earlier days, and
    /// nothing is older than its segment.
    fn age(&self, second: u64, accessed: u16) -> u64 {
        let since = (second as u16).wrapping_sub(accessed);
        // Asked for since the merge began.
        let since = if since > u16::MAX - MERGE_SECONDS {
            0
        } else {
            since
        };
        u64::from(since).min(second.saturating_sub(self.born))
    }

    /// Moves the threshold after every tenth of a segment.
    pub(crate) fn adjust(&mut self, met: &Met, is_live: bool, is_kept: bool, capacity: u32) {
        self.scanned += met.words;
        self.live += met.words * u32::from(is_live);
        self.kept += met.words * u32::from(is_kept);
        if self.scanned < capacity / PARTS || self.keeps_all {
            return;
        }
        let wanted = self.part * self.live as f32;
        let ratio = self.kept as f32 / wanted.max(1.0);
        // What found no room tells nothing of the worth of what is here.
        let least = if self.is_full { 1.0 } else { 1.0 / MOVE_MAX };
        let moved = ratio.clamp(least, MOVE_MAX);
        // A price is known from the merges before, and a tenth of a segment tells less.
        self.threshold *= if self.pays { moved.sqrt() } else { moved };
        self.threshold = self.threshold.clamp(f32::MIN_POSITIVE, f32::MAX);
        self.scanned = 0;
        self.live = 0;
        self.kept = 0;
        self.is_full = false;
    }
}
