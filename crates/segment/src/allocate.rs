//! Allocates room for new objects, in a segment that the writer is filling or in a new one. Expiry
//! and eviction free segments as early as possible before they are needed.

use crate::engine::Segcache;
use crate::storage::{FLUSHED, Lifetime, Location, Objects, Placement, Refused, UsageValues};
use crate::sync::Ordering::Relaxed;
use crate::sync::spin_loop;
use crate::writer::Writer;
use policy::{Budget, Tick};

/// Maximum number of attempts by a writer to free a segment. Several may be needed, because other
/// writers may take the segments it has freed.
const TRIES: u32 = 16;

impl<C: Objects> Segcache<C> {
    /// Reserves room in the open segment of the writer that fits the object best, or in a new one.
    #[inline]
    pub(crate) fn reserve(
        &self,
        writer: &mut Writer,
        lifetime: Lifetime,
        words: u32,
        now: Tick,
    ) -> Result<Location, Refused> {
        let placement = Placement::new(lifetime, writer.open.pressure(), now);
        let heap = self.storage.heap();
        loop {
            while let Some(index) = writer.open.best(&placement) {
                let open = writer.open.at(index);
                let header = heap.header(open.id);
                let reserved = header.reserve(writer.id, open.bucket, words, heap.capacity());
                if let Some(offset) = reserved {
                    writer.open.mark_used(index, now);
                    return Ok(Location {
                        segment: open.id,
                        offset,
                    });
                }
                self.seal(writer, index);
            }
            self.open(writer, &placement, now)?;
        }
    }

    /// Returns the deadline that an object with this TTL in milliseconds would get if it were
    /// stored now and the best open segment had room for it.
    pub fn would_end(&self, writer: &Writer, ttl_ms: u64, now: Tick) -> Tick {
        let placement = Placement::new(Lifetime::For(ttl_ms), writer.open.pressure(), now);
        let best = writer.open.best(&placement);
        best.map_or(placement.deadline, |index| writer.open.at(index).deadline)
    }

    /// Seals one of the writer's open segments.
    pub(crate) fn seal(&self, writer: &mut Writer, index: usize) {
        let open = writer.open.remove(index);
        let header = self.storage.heap().header(open.id);
        if header.is_open_for(writer.id, open.bucket) {
            header.seal();
            self.storage.free_if_empty(open.id);
        }
    }

    #[cold]
    fn open(&self, writer: &mut Writer, placement: &Placement, now: Tick) -> Result<(), Refused> {
        while let Some(index) = writer.open.to_seal(placement, now) {
            self.seal(writer, index);
        }
        let heap = self.storage.heap();
        // After a change of the eviction, the segments reserved for merges are freed first.
        for _ in 0..TRIES + self.eviction.config().reserve() {
            let taken = self.storage.directory().lock().take_free();
            let Some(id) = taken else {
                self.make_room(writer, now)?;
                continue;
            };
            let (bucket, deadline) = (placement.bucket, placement.deadline);
            self.storage.open_segment(id, writer.id, bucket, deadline);
            let learning = &self.eviction.learning;
            learning.opened.fetch_add(1, Relaxed);
            let writes = std::mem::take(&mut writer.writes);
            learning.writes.fetch_add(writes, Relaxed);
            heap.header(id).usage.set(&UsageValues {
                opened: now,
                rates: learning.rates.get(),
                ..UsageValues::default()
            });
            let created = placement.created(now);
            let mut directory = self.storage.directory().lock();
            directory.link(heap, id, bucket, created);
            drop(directory);
            let evicted = self.eviction.counters.segments_evicted.load(Relaxed);
            writer.open.note_evictions(evicted);
            writer.open.insert(id, placement, now);
            return Ok(());
        }
        Err(Refused::Full)
    }

    /// Does a part of the eviction or expiry that will be needed, so that no single request has to
    /// do all of it.
    #[inline]
    pub(crate) fn work_ahead(&self, writer: &mut Writer, words: u32, now: Tick) {
        let directory = self.storage.directory();
        let low_water = self.eviction.low_water();
        let is_low = directory.free_count() <= low_water;
        let is_due = now.0 > directory.next_due();
        if writer.job.is_some() || is_due || is_low && low_water > self.eviction.config().reserve()
        {
            self.step_ahead(writer, words, now, is_due);
        }
    }

    #[cold]
    fn step_ahead(&self, writer: &mut Writer, words: u32, now: Tick, is_due: bool) {
        let evictor = self.evictor();
        let directory = self.storage.directory();
        if writer.job.is_none() && is_due {
            writer.job = evictor.begin_expiry(now);
        }
        let changes = Some(directory.changes());
        let is_low = directory.free_count() <= self.eviction.low_water();
        if writer.job.is_none() && is_low && writer.found_none_at != changes {
            writer.job = evictor.begin_eviction(now, false);
            writer.found_none_at = match writer.job {
                Some(_) => None,
                None => changes,
            };
        }
        // This speed lets a merge end before the free segments are full.
        let words = u64::from(words) * 2 * u64::from(self.eviction.merged());
        evictor.step_job(&mut writer.job, &mut Budget(u32::MAX), words);
    }

    fn make_room(&self, writer: &mut Writer, now: Tick) -> Result<(), Refused> {
        let evictor = self.evictor();
        if writer.job.is_none() {
            writer.job = evictor.begin_expiry(now);
        }
        if writer.job.is_none() {
            writer.job = evictor.begin_eviction(now, true);
        }
        if writer.job.is_none() {
            return Err(Refused::Full);
        }
        self.finish_job(writer);
        Ok(())
    }

    /// Finishes the writer's job, if it has one.
    pub(crate) fn finish_job(&self, writer: &mut Writer) {
        let evictor = self.evictor();
        while !evictor.step_job(&mut writer.job, &mut Budget(u32::MAX), u64::MAX) {
            spin_loop();
        }
    }

    /// Removes expired objects and continues the writer's eviction, within a budget of objects.
    /// Returns true if there is more to do. Each writing thread must call this regularly, even if
    /// it writes nothing.
    pub fn maintain(&self, writer: &mut Writer, now: Tick, budget: &mut Budget) -> bool {
        let evictor = self.evictor();
        loop {
            if writer.job.is_none() {
                writer.job = evictor.begin_expiry(now);
            }
            if writer.job.is_none() {
                return false;
            }
            if !evictor.step_job(&mut writer.job, budget, u64::MAX) {
                return true;
            }
        }
    }

    /// Returns the earliest time at which [`Segcache::maintain`] may find expired objects; 0 after
    /// [`Segcache::clear`].
    pub fn next_due(&self) -> Option<Tick> {
        match self.storage.directory().next_due() {
            u64::MAX => None,
            deadline if deadline == FLUSHED.0 => Some(FLUSHED),
            deadline => Some(Tick(deadline.saturating_add(1))),
        }
    }
}
