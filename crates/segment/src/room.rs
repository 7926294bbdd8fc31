//! Room for what is written: in a segment that the writer fills, or in a new one, which expiry and eviction make free;
//! as much of that as can be is done ahead.

use crate::engine::{Refused, Segcache, Writer};
use crate::storage::content::Objects;
use crate::storage::heap::{Place, SegmentId};
use crate::storage::open::{Aim, Life};
use crate::storage::ttl::FLUSHED;
use crate::sync::Ordering::Relaxed;
use policy::{Budget, Tick};

/// Times that a writer makes room before it gives up: others may take what it freed.
const TRIES: u32 = 16;

impl<C: Objects> Segcache<C> {
    /// Room in the best of the segments that this writer fills, or in a new one.
    #[inline]
    pub(crate) fn reserve(
        &self,
        writer: &mut Writer,
        life: Life,
        words: u32,
        now: Tick,
    ) -> Result<Place, Refused> {
        let aim = Aim::new(life, writer.open.crowding(), now);
        loop {
            while let Some(index) = writer.open.best(&aim) {
                let open = writer.open.at(index);
                let segment = self.heap.segment(open.id);
                let reserved = segment.reserve(writer.id, open.row, words, self.heap.capacity);
                if let Some(offset) = reserved {
                    writer.open.use_at(index, now);
                    return Ok(Place {
                        segment: open.id,
                        offset,
                    });
                }
                self.leave(writer, index);
            }
            self.open(writer, &aim, now)?;
        }
    }

    /// The deadline that an object would be told that is stored for so many milliseconds now, if the segment that it
    /// goes to has room.
    pub fn would_end(&self, writer: &Writer, ttl_ms: u64, now: Tick) -> Tick {
        let aim = Aim::new(Life::For(ttl_ms), writer.open.crowding(), now);
        let best = writer.open.best(&aim);
        best.map_or(aim.deadline, |index| writer.open.at(index).deadline)
    }

    /// This writer fills a segment no further.
    pub(crate) fn leave(&self, writer: &mut Writer, index: usize) {
        let open = writer.open.remove(index);
        let segment = self.heap.segment(open.id);
        if segment.is_open_for(writer.id, open.row) {
            segment.seal();
            self.release(open.id);
        }
    }

    #[cold]
    fn open(&self, writer: &mut Writer, aim: &Aim, now: Tick) -> Result<(), Refused> {
        while let Some(index) = writer.open.to_leave(aim, now) {
            self.leave(writer, index);
        }
        // After a change of the eviction, those that merges need are made free first.
        for _ in 0..TRIES + self.config_now().reserve() {
            let taken = {
                let mut chains = self.heap.chains();
                let taken = chains.take_free();
                self.heap.tell_free(&chains);
                taken
            };
            let Some(id) = taken else {
                self.make_room(writer, now)?;
                continue;
            };
            self.content.taken(&self.heap, id);
            self.heap.open(id, writer.id, aim.row, aim.deadline);
            self.begun(id, std::mem::take(&mut writer.writes), now);
            let mut chains = self.heap.chains();
            chains.link(id, aim.row, aim.created(now));
            self.heap.falls_due(aim.deadline);
            drop(chains);
            let evicted = self.heap.counters.segments_evicted.load(Relaxed);
            writer.open.has_evicted(evicted);
            writer.open.insert(id, aim, now);
            return Ok(());
        }
        Err(Refused::Full)
    }

    /// A sealed segment without a live object is free at once.
    pub(crate) fn release(&self, id: SegmentId) {
        let segment = self.heap.segment(id);
        if segment.live().0 > 0 || !segment.is_sealed() {
            return;
        }
        self.release_empty(id);
    }

    /// A little of the eviction or expiry that will be needed, so that no request has to do all of it.
    #[inline]
    pub(crate) fn work_ahead(&self, writer: &mut Writer, words: u32, now: Tick) {
        let is_low = self.heap.free_count.load(Relaxed) <= self.choice.low_water();
        let is_due = now.0 > self.heap.next_due.load(Relaxed);
        if writer.job.is_some()
            || is_due
            || is_low && self.choice.low_water() > self.config_now().reserve()
        {
            self.step_ahead(writer, words, now, is_due);
        }
    }

    #[cold]
    fn step_ahead(&self, writer: &mut Writer, words: u32, now: Tick, is_due: bool) {
        if writer.job.is_none() && is_due {
            writer.job = self.begin_expiry(now);
        }
        let changes = Some(self.heap.changes.load(Relaxed));
        let is_low = self.heap.free_count.load(Relaxed) <= self.choice.low_water();
        if writer.job.is_none() && is_low && writer.in_vain_at != changes {
            writer.job = self.begin_eviction(now, false);
            writer.in_vain_at = match writer.job {
                Some(_) => None,
                None => changes,
            };
        }
        // So much that a merge ends before what was free is full.
        let words = u64::from(words) * 2 * u64::from(self.merged());
        self.step_job(writer, &mut Budget(u32::MAX), words);
    }

    fn make_room(&self, writer: &mut Writer, now: Tick) -> Result<(), Refused> {
        if writer.job.is_none() {
            writer.job = self.begin_expiry(now);
        }
        if writer.job.is_none() {
            writer.job = self.begin_eviction(now, true);
        }
        if writer.job.is_none() {
            return Err(Refused::Full);
        }
        self.finish_job(writer);
        Ok(())
    }

    /// Removes what is over and goes on with what this writer has begun, within a budget of objects; tells
    /// whether there is more. Each writing thread calls this now and then, also when it writes nothing.
    pub fn maintain(&self, writer: &mut Writer, now: Tick, budget: &mut Budget) -> bool {
        loop {
            if writer.job.is_none() {
                writer.job = self.begin_expiry(now);
            }
            if writer.job.is_none() {
                return false;
            }
            if !self.step_job(writer, budget, u64::MAX) {
                return true;
            }
        }
    }

    /// The earliest moment at which [`Segcache::maintain`] may find something that is over; 0 where something
    /// was flushed.
    pub fn next_due(&self) -> Option<Tick> {
        match self.heap.next_due.load(Relaxed) {
            u64::MAX => None,
            deadline if deadline == FLUSHED.0 => Some(FLUSHED),
            deadline => Some(Tick(deadline.saturating_add(1))),
        }
    }
}
