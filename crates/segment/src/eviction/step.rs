//! Steps of a job: the objects of its segments are read one after the other, and kept or removed.

use super::evictor::Evictor;
use super::job::{Cause, Job};
use super::merge::Merge;
use super::plan::Plan;
use crate::storage::{
    Entries, Location, LockedDirectory, Objects, ScannedObject, SegmentId, State,
};
use crate::sync::Ordering::Relaxed;
use policy::Budget;

/// Number of objects whose cache lines of the table are prefetched together.
const BATCH: usize = 8;

impl<C: Objects> Evictor<'_, C> {
    /// Continues a job within a budget of objects and `words` words of segments. If the job is
    /// finished, the slot is emptied. Returns true if no job is left.
    pub(crate) fn step_job(&self, slot: &mut Option<Job>, budget: &mut Budget, words: u64) -> bool {
        let Some(job) = slot else {
            return true;
        };
        let is_done = self.step(job, budget, words);
        if is_done {
            *slot = None;
        }
        is_done
    }

    fn step(&self, job: &mut Job, budget: &mut Budget, mut words: u64) -> bool {
        loop {
            let source = self.storage.heap().header(job.source);
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
                // Another thread has removed an object from the table and has not yet subtracted it
                // from the segment's live objects.
                return false;
            }
            if !self.next_source(job) {
                return true;
            }
        }
    }

    /// Handles a few objects. Returns the number of words that they take.
    fn step_batch(&self, job: &mut Job, end: u32, budget: &mut Budget, words: u64) -> u32 {
        let mut batch = [None; BATCH];
        let mut scanned = 0;
        for object in &mut batch {
            if job.offset >= end || u64::from(scanned) >= words || !budget.spend() {
                break;
            }
            let next = self.storage.scan(Location {
                segment: job.source,
                offset: job.offset,
            });
            job.offset += next.words;
            scanned += next.words;
            *object = Some(next);
        }
        for object in batch.iter().flatten() {
            self.keep_or_remove(job, object);
        }
        scanned
    }

    /// Keeps or removes a scanned object, if the table still refers to it.
    fn keep_or_remove(&self, job: &mut Job, object: &ScannedObject) {
        let Some(merge) = &mut job.merge else {
            self.remove(object, job.cause);
            return;
        };
        let slot = self.storage.slot_of(object);
        let frequency = slot.as_ref().and_then(|slot| merge.judge(slot, object));
        let is_kept = frequency.is_some_and(|frequency| {
            self.has_room(merge, object, job.done) && self.move_object(merge, object, frequency)
        });
        if slot.is_some() && !is_kept {
            self.remove(object, job.cause);
        }
        let capacity = self.storage.heap().capacity();
        merge.adjust(object, slot.is_some(), is_kept, capacity);
    }

    fn remove(&self, object: &ScannedObject, cause: Cause) {
        if self.storage.remove(object) {
            let counters = &self.state.counters;
            let count = match cause {
                Cause::Expiry => &counters.expired,
                Cause::Eviction => &counters.evicted,
                Cause::Flush => &counters.flushed,
            };
            count.fetch_add(1, Relaxed);
        }
    }

    /// Moves an object to the target of a merge. Returns false if the object was removed meanwhile.
    fn move_object(&self, merge: &mut Merge, object: &ScannedObject, frequency: u8) -> bool {
        let to = Location {
            segment: merge.target,
            offset: merge.used,
        };
        let is_moved = self.storage.move_to(object, to, frequency);
        if is_moved {
            self.state.counters.kept.fetch_add(1, Relaxed);
            merge.used += object.words;
            merge.room -= object.words;
        }
        is_moved
    }

    /// Returns true if an object that should be kept fits into the target of the merge, or into a
    /// further target, which this call may take.
    fn has_room(&self, merge: &mut Merge, object: &ScannedObject, done: u8) -> bool {
        let capacity = self.storage.heap().capacity();
        let fits = |merge: &Merge| object.words <= capacity - merge.used;
        if fits(merge) && object.words <= merge.room {
            return true;
        }
        // Each target but the first takes the place of a source that was freed, so that merges of
        // several threads take no more than one reserved segment each.
        let may_follow = merge.targets_left > 0 && merge.targets <= done;
        if !fits(merge) && may_follow {
            let mut directory = self.storage.directory().lock();
            if let Some(target) = self.take_target(&mut directory, object.location.segment) {
                self.end_target(&mut directory, merge);
                merge.room = merge.room.saturating_sub(capacity - merge.used);
                merge.target = target;
                merge.used = 0;
                merge.targets += 1;
                merge.targets_left -= 1;
                return object.words <= merge.room;
            }
        }
        merge.found_no_room();
        false
    }

    /// Prepares a merge for reading the job's current source.
    pub(super) fn enter(&self, job: &mut Job) {
        let heap = self.storage.heap();
        let live = |id: &SegmentId| heap.header(*id).live().1;
        let ahead: Vec<u32> = job.ahead().iter().map(live).collect();
        let live = live(&job.source);
        let opened = heap.header(job.source).usage.opened().0 / 1000;
        if let Some(merge) = &mut job.merge {
            merge.enter(opened, job.done, &ahead, live, heap.capacity());
        }
    }

    /// Frees the current source, which is now empty, and continues with the next one. Returns false
    /// if there is none.
    fn next_source(&self, job: &mut Job) -> bool {
        let mut directory = self.storage.directory().lock();
        let after = directory.lists.next(job.source);
        directory.free(self.storage.heap(), job.source);
        job.done += 1;
        if job.cause == Cause::Eviction {
            let counters = &self.state.counters;
            counters.segments_evicted.fetch_add(1, Relaxed);
        }
        let Some(merge) = &job.merge else {
            return false;
        };
        let next = match job.ahead().first() {
            Some(&next) => next,
            None if self.takes_more(&mut directory, after, merge, job.done) => after,
            None => {
                self.end_target(&mut directory, merge);
                return false;
            }
        };
        job.go_to(next);
        self.enter(job);
        true
    }

    /// Returns true if a merge continues with the next segment of the list, which is then marked as
    /// leaving. Its live objects must fit into the rest of the target, and lose little of their
    /// TTL.
    fn takes_more(
        &self,
        directory: &mut LockedDirectory<'_, Plan>,
        id: SegmentId,
        merge: &Merge,
        done: u8,
    ) -> bool {
        let heap = self.storage.heap();
        let Entries { lists, plan } = &mut **directory;
        if !merge.may_take_more(done) || !id.is_some() || !lists.can_leave(heap, id) {
            return false;
        }
        let width_ms = lists.bucket(id).width_ms();
        // A list is in order of creation, and so are the sources of a merge.
        let lost_ms = lists.created(id).0 - lists.created(merge.target).0;
        let is_near = lost_ms < width_ms.saturating_mul(u64::from(self.state.merged()));
        let fits = heap.header(id).live().1 <= heap.capacity() - merge.used;
        let is_alike = !merge.pays || plan.ages.of(id) == merge.age;
        if !(is_near && fits && is_alike) {
            return false;
        }
        lists.set_state(id, State::Leaving);
        let next = lists.next(id);
        if merge.is_ranked() {
            self.count_ranked(plan, 1);
        }
        plan.progress.set_from(merge.bucket, next);
        true
    }

    /// Seals the target of a merge, which can then be merged itself.
    fn end_target(&self, directory: &mut LockedDirectory<'_, Plan>, merge: &Merge) {
        let heap = self.storage.heap();
        let progress = &mut directory.plan.progress;
        progress.set_threshold(merge.bucket, merge.measure, merge.threshold);
        heap.header(merge.target).seal();
        let deadline = heap.deadline(merge.target);
        if heap.header(merge.target).live().0 == 0 {
            directory.free(heap, merge.target);
        } else {
            directory.lists.set_state(merge.target, State::Listed);
        }
        directory.falls_due(deadline);
    }
}
