//! The ring: buckets, the time of each, and the position of the round.

use crate::{Facts, Slot, Tick};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Number of references in a full page of a bucket.
const PAGE_ITEMS: usize = 1 << 10;

/// A set of slots: pages of 1,024, of which only the last grows and shrinks.
#[derive(Default)]
pub(super) struct Bucket {
    pages: Vec<Vec<Slot>>,
}

impl Bucket {
    pub(super) fn len(&self) -> usize {
        let last = self.pages.last().map_or(0, Vec::len);
        self.pages.len().saturating_sub(1) * PAGE_ITEMS + last
    }

    pub(super) fn get(&self, index: usize) -> Slot {
        self.pages[index / PAGE_ITEMS][index % PAGE_ITEMS]
    }

    fn set(&mut self, index: usize, slot: Slot) {
        self.pages[index / PAGE_ITEMS][index % PAGE_ITEMS] = slot;
    }

    fn push(&mut self, slot: Slot) {
        if self
            .pages
            .last()
            .is_none_or(|page| page.len() == PAGE_ITEMS)
        {
            self.pages.push(Vec::new());
        }
        let page = self.pages.last_mut().expect("there is one with room");
        if page.len() == page.capacity() {
            let more = page.len().clamp(4, PAGE_ITEMS - page.len());
            page.reserve_exact(more);
        }
        page.push(slot);
    }

    fn pop(&mut self) -> Option<Slot> {
        let page = self.pages.last_mut()?;
        let slot = page.pop();
        if page.is_empty() {
            self.pages.pop();
            if self.pages.len() <= self.pages.capacity() / 4 {
                self.pages.shrink_to(self.pages.len() * 2);
            }
        } else if page.len() < page.capacity() / 4 {
            page.shrink_to(page.len() * 2);
        }
        slot
    }

    fn heap_bytes(&self) -> usize {
        let full = self.pages.len().saturating_sub(1) * PAGE_ITEMS;
        let last = self.pages.last().map_or(0, Vec::capacity);
        (full + last) * size_of::<Slot>() + self.pages.capacity() * size_of::<Vec<Slot>>()
    }
}

/// Result of [`Ring::expire_bucket`]; the names are Algorithm 4's.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::expire) enum Status {
    /// The bucket is empty.
    Empty,
    /// The period of the bucket has not passed.
    TimeUnreached,
    /// The period of the bucket has passed. This is one of its entries, which was removed.
    Expired(Slot),
}

/// The ring of buckets: `buckets`, `times` and `current_bucket_id` of the source.
pub(in crate::expire) struct Ring {
    pub(super) buckets: Box<[Bucket]>,
    pub(super) times: Box<[u64]>,
    pub(in crate::expire) base: u64,
    pub(in crate::expire) current_bucket_id: usize,
    /// Number of entries in all buckets.
    pub(in crate::expire) len: usize,
    /// Bytes of all buckets.
    bytes: usize,
}

impl Ring {
    pub(in crate::expire) fn new(num_buckets: u32, base: u64) -> Self {
        assert!(num_buckets > 0);
        assert!(base > 0);
        Ring {
            buckets: (0..num_buckets).map(|_| Bucket::default()).collect(),
            times: vec![0; num_buckets as usize].into(),
            base,
            current_bucket_id: 0,
            len: 0,
            bytes: 0,
        }
    }

    pub(in crate::expire) fn num_buckets(&self) -> usize {
        self.buckets.len()
    }

    pub(in crate::expire) fn timestamp_to_bucket_id(&self, deadline: Tick) -> usize {
        (deadline.0 / self.base % self.buckets.len() as u64) as usize
    }

    /// Adds the entry to its bucket, unless the bucket is in use for another time. Returns its
    /// place there, or `None`.
    pub(in crate::expire) fn add(&mut self, deadline: Tick, slot: Slot) -> Option<usize> {
        let id = self.timestamp_to_bucket_id(deadline);
        let time = deadline.0 / self.base;
        let bucket = &mut self.buckets[id];
        let place = bucket.len();
        if place == 0 {
            self.times[id] = time;
        } else if self.times[id] != time {
            return None;
        }
        let before = bucket.heap_bytes();
        bucket.push(slot);
        self.bytes = self.bytes + bucket.heap_bytes() - before;
        self.len += 1;
        Some(place)
    }

    fn take_last(&mut self, id: usize) -> Option<Slot> {
        let bucket = &mut self.buckets[id];
        let before = bucket.heap_bytes();
        let slot = bucket.pop()?;
        self.bytes = self.bytes + bucket.heap_bytes() - before;
        self.len -= 1;
        Some(slot)
    }

    /// Removes the entry at `place` of a bucket. Returns the entry that takes its place, if any.
    pub(in crate::expire) fn remove_from_bucket(
        &mut self,
        id: usize,
        place: usize,
        slot: Slot,
    ) -> Option<Slot> {
        assert_eq!(
            self.buckets[id].get(place),
            slot,
            "an entry knows its place"
        );
        let last = self.take_last(id).expect("the bucket holds the entry");
        if last == slot {
            return None;
        }
        self.buckets[id].set(place, last);
        Some(last)
    }

    /// Handles the relocation of an entry.
    pub(in crate::expire) fn rename(&mut self, deadline: Tick, place: usize, old: Slot, new: Slot) {
        let bucket = &mut self.buckets[self.timestamp_to_bucket_id(deadline)];
        assert_eq!(bucket.get(place), old);
        bucket.set(place, new);
    }

    /// Removes one entry from the bucket if the bucket's period has passed.
    pub(in crate::expire) fn expire_bucket(&mut self, id: usize, now: Tick) -> Status {
        if self.buckets[id].pages.is_empty() {
            return Status::Empty;
        }
        if now.0 / self.base <= self.times[id] {
            return Status::TimeUnreached;
        }
        Status::Expired(self.take_last(id).expect("the bucket is not empty"))
    }

    /// Removes an arbitrary entry from the bucket.
    pub(in crate::expire) fn empty_bucket(&mut self, id: usize) -> Option<Slot> {
        self.take_last(id)
    }

    pub(in crate::expire) fn heap_bytes(&self) -> usize {
        self.bytes + self.buckets.len() * (size_of::<Bucket>() + size_of::<u64>())
    }

    /// Panics if the ring is inconsistent in itself or with the places that `place_of` returns.
    pub(in crate::expire) fn check(
        &self,
        facts: &impl Facts,
        place_of: impl Fn(Slot) -> Option<usize>,
    ) {
        let mut len = 0;
        let mut bytes = 0;
        for (id, bucket) in self.buckets.iter().enumerate() {
            for place in 0..bucket.len() {
                let slot = bucket.get(place);
                let deadline = facts
                    .deadline(slot)
                    .expect("an entry in a bucket has a deadline");
                assert_eq!(self.timestamp_to_bucket_id(deadline), id);
                assert_eq!(deadline.0 / self.base, self.times[id]);
                assert_eq!(place_of(slot), Some(place));
            }
            len += bucket.len();
            bytes += bucket.heap_bytes();
        }
        assert_eq!((self.len, self.bytes), (len, bytes));
        assert!(self.current_bucket_id < self.buckets.len());
    }
}
