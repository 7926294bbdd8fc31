//! Segment directory: the segment lists and the eviction's plan, guarded by one lock.
//!
//! A thread holds the lock only for a few steps in a segment's use: to take, list, choose and free
//! it. Values of the lists that requests need are copied to atomics outside of the lock. Each
//! change updates these before it releases the lock.

use super::heap::Heap;
use super::lines::TakeSegment;
use super::lists::{SegmentLists, State};
use super::location::SegmentId;
use super::plan::{Age, EvictionPlan};
use super::ttl::TtlBucket;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard};
use policy::Tick;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

/// Segment lists and plan, for any thread.
#[derive(Debug)]
pub(crate) struct Directory<P> {
    entries: Mutex<Entries<P>>,
    free_count: AtomicU32,
    changes: AtomicU32,
    next_due: AtomicU64,
}

/// Data that the lock guards.
#[derive(Debug)]
pub(crate) struct Entries<P> {
    pub(crate) lists: SegmentLists,
    pub(crate) plan: P,
}

/// Directory locked by this thread.
pub(crate) struct LockedDirectory<'d, P> {
    directory: &'d Directory<P>,
    entries: MutexGuard<'d, Entries<P>>,
}

impl<P: EvictionPlan> Directory<P> {
    /// Creates a directory of `count` free segments. Only merges may take the last `reserve` of
    /// them.
    pub(crate) fn new(count: u32, reserve: u32, plan: P) -> Self {
        let lists = SegmentLists::new(count, reserve);
        Directory {
            entries: Mutex::new(Entries { lists, plan }),
            free_count: AtomicU32::new(count),
            changes: AtomicU32::new(0),
            next_due: AtomicU64::new(u64::MAX),
        }
    }

    /// Locks the directory. A poisoned lock is taken as well, because a thread that panicked while
    /// it held the lock had only found a failed assertion.
    pub(crate) fn lock(&self) -> LockedDirectory<'_, P> {
        LockedDirectory {
            directory: self,
            entries: self.entries.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Returns the number of free segments.
    #[inline]
    pub(crate) fn free_count(&self) -> u32 {
        self.free_count.load(Relaxed)
    }

    /// Returns the number of times that a segment was taken or freed or the eviction changed. The
    /// count wraps around.
    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Relaxed)
    }

    /// Returns a time in milliseconds before which no segment expires; `u64::MAX` if none will.
    #[inline]
    pub(crate) fn next_due(&self) -> u64 {
        self.next_due.load(Relaxed)
    }
}

impl<P> Deref for LockedDirectory<'_, P> {
    type Target = Entries<P>;

    fn deref(&self) -> &Entries<P> {
        &self.entries
    }
}

impl<P> DerefMut for LockedDirectory<'_, P> {
    fn deref_mut(&mut self) -> &mut Entries<P> {
        &mut self.entries
    }
}

impl<P: EvictionPlan> LockedDirectory<'_, P> {
    /// Takes a segment for objects, unless all free ones are reserved for merges.
    pub(crate) fn take_free(&mut self) -> Option<SegmentId> {
        let taken = self.entries.lists.take_free();
        self.publish();
        taken
    }

    /// Takes a segment as the target of a merge. The merge calls [`LockedDirectory::publish`] once
    /// it has begun.
    pub(crate) fn take_reserved(&mut self) -> Option<SegmentId> {
        self.entries.lists.take_reserved()
    }

    /// Puts a segment of objects into the list of its TTL bucket.
    pub(crate) fn link(&mut self, heap: &Heap, id: SegmentId, bucket: TtlBucket, created: Tick) {
        self.entries.lists.insert(id, bucket, created);
        self.entries.plan.linked(id, Age::Young);
        self.falls_due(heap.deadline(id));
    }

    /// Puts the target of a merge before one of its sources.
    pub(crate) fn link_before(&mut self, id: SegmentId, other: SegmentId) {
        self.entries.lists.insert_before(id, other);
        self.entries.plan.linked(id, Age::Old);
    }

    /// Frees a segment after all its objects were removed.
    pub(crate) fn free(&mut self, heap: &Heap, id: SegmentId) {
        heap.give_back(id);
        let (bucket, next) = self.entries.lists.remove(id);
        let head = self.entries.lists.head(usize::from(bucket.0));
        if head.is_some() {
            self.falls_due(heap.deadline(head));
        }
        self.entries.plan.unlinked(id, bucket, next);
        self.publish();
    }

    /// Records the deadline of a segment that may now be the head of its list.
    pub(crate) fn falls_due(&self, deadline: Tick) {
        self.directory.next_due.fetch_min(deadline.0, Relaxed);
    }

    /// Sets the earliest deadline of all heads, which the caller has just read.
    pub(crate) fn set_next_due(&self, deadline_ms: u64) {
        self.directory.next_due.store(deadline_ms, Relaxed);
    }

    /// Sets the number of free segments that only merges may take.
    pub(crate) fn set_reserve(&mut self, reserve: u32) {
        self.entries.lists.set_reserve(reserve);
        self.publish();
    }

    /// Publishes the number of free segments, and that the directory has changed.
    pub(crate) fn publish(&self) {
        let free_count = self.entries.lists.free_count();
        self.directory.free_count.store(free_count, Relaxed);
        self.directory.changes.fetch_add(1, Relaxed);
    }

    /// Reports restored segments of objects to the plan, in the order in which they were created,
    /// and publishes the counts.
    pub(super) fn restored(&mut self, heap: &Heap) {
        let mut listed: Vec<SegmentId> = self.entries.lists.all().collect();
        listed.sort_by_key(|id| self.entries.lists.created(*id));
        for id in listed {
            self.entries.plan.linked(id, Age::Young);
            self.falls_due(heap.deadline(id));
        }
        self.publish();
    }

    /// Returns the heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.lists.heap_bytes() + self.entries.plan.heap_bytes()
    }

    /// Panics if lists, headers and plan contradict each other.
    pub(crate) fn check(&self, heap: &Heap) {
        let listed = self.entries.lists.check(heap);
        self.entries.plan.check(listed);
    }
}

impl<P: EvictionPlan> TakeSegment for Directory<P> {
    fn take_for_table(&self) -> Option<SegmentId> {
        let mut locked = self.lock();
        let id = locked.lists.take_free()?;
        locked.lists.set_state(id, State::Table);
        locked.publish();
        Some(id)
    }
}
