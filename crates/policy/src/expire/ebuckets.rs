//! `ebuckets`: short lists of entries in a tree of intervals, as Redis keeps fields of hashes.
//!
//! # Idea
//! A *bucket* is an interval of time, named by its low bound; the buckets are in a radix tree. A
//! bucket has one *segment*: a list of up to 16 entries in the order of their deadlines, linked
//! through the entries themselves. A full segment is split in two, and its bucket with it, as near
//! to the middle as two different deadlines allow. When all 16 share one deadline, the bucket is
//! *extended* by further segments for that deadline alone. Most changes touch one list and leave
//! the tree as it is, and the cost of the tree's nodes is shared by about a dozen entries. Up to 16
//! entries there is one list and no tree.
//!
//! # Source
//! Redis 7.4, `ebuckets.c` (2024), <https://github.com/redis/redis/blob/7.4/src/ebuckets.h>; the
//! article "Hash field expiration – Architecture and Benchmarks", Redis 2024. The tree is
//! [`RadixTree`].
//!
//! # State
//! Per entry: 64 bits in the entry beside its 64 bits of deadline, together Redis's `ExpireMeta` of
//! 16 bytes, and its share of a segment of 24 bytes and of the tree: 19 to 21 bytes with the
//! deadline, where Redis says about 20. Besides: a page of 4 KiB for segments and for each kind of
//! node.
//!
//! # Cost
//! Insert reads up to 16 deadlines of a list, remove walks one; about every 8th insertion splits
//! and changes the tree. `pop_expired` takes the head of the first list, one step per entry.
//!
//! # Knobs
//! None: 16 entries per segment and buckets to the millisecond, as in Redis.
//!
//! # Departures
//! References are slots of 31 bits, not pointers. The last entry of a segment names its own
//! segment, and segments of a bucket name each other; in Redis the entries carry that as well. An
//! extended bucket grows at its end, so that entries of one deadline are returned in their order. A
//! deadline before all buckets moves the low bound of the first. As in Redis, small segments are
//! never merged.
//!
//! # Avoid when
//! Entries have no 8 bytes to spare; otherwise it is a good compromise of order, memory and speed.

use crate::parts::radix_tree::{Dense, RadixTree};
use crate::{Budget, Cells, Due, ExpiryIndex, Meta, Slot, Tick};
use alloc::vec;

/// Maximum number of entries in a segment.
const SEG_MAX_ITEMS: usize = 16;
const NONE: u32 = u32::MAX;

/// An entry's place in the list of its segment.
///
/// ```text
/// bits 0–31   next: the next entry's slot, or the segment after the last
/// bit 32      last_in_segment
/// bits 33–37  num_items: the segment's, in its first entry only
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    next: u32,
    is_last_in_segment: bool,
    num_items: u8,
}

impl Meta for Link {
    const BITS: u32 = 38;
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.next)
            | u64::from(self.is_last_in_segment) << 32
            | u64::from(self.num_items) << 33
    }
    #[inline]
    fn unpack(bits: u64) -> Self {
        Link {
            next: bits as u32,
            is_last_in_segment: bits >> 32 & 1 != 0,
            num_items: (bits >> 33) as u8 & 31,
        }
    }
}

/// Head of a list, and links to the other segments of an extended bucket.
#[derive(Clone, Copy)]
struct Segment {
    /// Lower bound of the deadlines in the bucket. The tree refers to the first segment by it.
    key: Tick,
    /// First entry of the segment's list.
    head: u32,
    /// Next segment of the bucket.
    next: u32,
    /// In the first segment of a bucket, the last segment; in the last segment, the first.
    last: u32,
    /// Previous segment; `NONE` in the first.
    before: u32,
}

const _: () = assert!(size_of::<Segment>() == 24);

/// A tree of short lists; see the [module](self).
pub struct Ebuckets {
    /// The first segments of all buckets, by lower bound.
    tree: RadixTree,
    segments: Dense<Segment>,
    len: usize,
    /// Earliest deadline of all entries.
    first: Option<Tick>,
}

fn tree_key(key: Tick) -> u128 {
    u128::from(key.0) << 32
}

fn deadline_of(cells: &impl Cells<Link>, slot: u32) -> Tick {
    let deadline = cells.deadline(Slot(slot));
    deadline.expect("an entry in a segment has a deadline")
}

/// The first `len` items of an array, which are the entries of a segment in order.
struct Items {
    slots: [u32; SEG_MAX_ITEMS],
    len: usize,
}

impl Items {
    fn as_slice(&self) -> &[u32] {
        &self.slots[..self.len]
    }

    fn insert(&mut self, at: usize, slot: u32) {
        self.slots.copy_within(at..self.len, at + 1);
        self.slots[at] = slot;
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        self.slots.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    fn position(&self, slot: u32) -> usize {
        let position = self.as_slice().iter().position(|&other| other == slot);
        position.expect("the list of a segment leads to its entries")
    }
}

impl Ebuckets {
    fn items(&self, cells: &impl Cells<Link>, segment: u32) -> Items {
        let head = self.segments.get(segment).head;
        let mut items = Items {
            slots: [NONE; SEG_MAX_ITEMS],
            len: usize::from(cells.get(Slot(head)).num_items),
        };
        let mut slot = head;
        for place in 0..items.len {
            items.slots[place] = slot;
            slot = cells.get(Slot(slot)).next;
        }
        items
    }

    /// Links the entries into the segment's list.
    fn link(&mut self, cells: &mut impl Cells<Link>, segment: u32, slots: &[u32]) {
        assert!(!slots.is_empty());
        assert!(slots.len() <= SEG_MAX_ITEMS);
        self.segments.get_mut(segment).head = slots[0];
        for (place, &slot) in slots.iter().enumerate() {
            let next = slots.get(place + 1).copied();
            let link = Link {
                next: next.unwrap_or(segment),
                is_last_in_segment: next.is_none(),
                num_items: if place == 0 { slots.len() as u8 } else { 0 },
            };
            if cells.get(Slot(slot)) != link {
                cells.set(Slot(slot), link);
            }
        }
    }

    /// Returns the segment that an entry is in.
    fn segment_of(cells: &impl Cells<Link>, slot: Slot) -> u32 {
        let mut link = cells.get(slot);
        for _ in 0..SEG_MAX_ITEMS {
            if link.is_last_in_segment {
                return link.next;
            }
            link = cells.get(Slot(link.next));
        }
        unreachable!("a segment's list is no longer than it may be");
    }

    /// Creates a bucket of one segment with these entries.
    fn new_bucket(&mut self, cells: &mut impl Cells<Link>, key: Tick, slots: &[u32]) {
        let segment = self.segments.push(Segment {
            key,
            head: NONE,
            next: NONE,
            last: NONE,
            before: NONE,
        });
        self.segments.get_mut(segment).last = segment;
        self.link(cells, segment, slots);
        self.enter(key, segment);
    }

    fn enter(&mut self, key: Tick, segment: u32) {
        let segments = &self.segments;
        let key_of = |segment| tree_key(segments.get(segment).key);
        let is_new = self.tree.insert(tree_key(key), segment, key_of);
        assert!(is_new, "no two buckets begin at once");
    }

    fn leave(&mut self, key: Tick, segment: u32) {
        let segments = &self.segments;
        let key_of = |segment| tree_key(segments.get(segment).key);
        self.tree.remove(tree_key(key), segment, key_of);
    }

    /// Changes the lower bound of a bucket.
    fn rebound(&mut self, segment: u32, key: Tick) {
        self.leave(self.segments.get(segment).key, segment);
        self.segments.get_mut(segment).key = key;
        self.enter(key, segment);
    }

    fn is_extended(&self, segment: u32) -> bool {
        self.segments.get(segment).next != NONE
    }

    fn add(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        let deadline = deadline_of(cells, slot.0);
        self.len += 1;
        self.first = Some(self.first.map_or(deadline, |first| first.min(deadline)));
        let Some(first) = self.tree.first() else {
            return self.new_bucket(cells, deadline, &[slot.0]);
        };
        let segments = &self.segments;
        let key_of = |segment| tree_key(segments.get(segment).key);
        let bucket = match self.tree.floor(tree_key(deadline), key_of) {
            Some(bucket) => bucket,
            None if self.is_extended(first) => {
                return self.new_bucket(cells, deadline, &[slot.0]);
            }
            None => {
                self.rebound(first, deadline);
                first
            }
        };
        self.add_to_bucket(cells, bucket, deadline, slot.0);
    }

    fn add_to_bucket(
        &mut self,
        cells: &mut impl Cells<Link>,
        bucket: u32,
        deadline: Tick,
        slot: u32,
    ) {
        let mut items = self.items(cells, bucket);
        if self.is_extended(bucket) {
            let shared = deadline_of(cells, items.slots[0]);
            return self.add_to_shared(cells, bucket, shared, deadline, slot);
        }
        if items.len < SEG_MAX_ITEMS {
            let places = items.as_slice();
            let at = places.partition_point(|&other| deadline_of(cells, other) <= deadline);
            items.insert(at, slot);
            return self.link(cells, bucket, items.as_slice());
        }
        let deadlines = items.slots.map(|slot| deadline_of(cells, slot));
        let Some(middle) = best_middle(&deadlines) else {
            return self.add_to_shared(cells, bucket, deadlines[0], deadline, slot);
        };
        // The entry is added to one of the halves before either half is linked.
        let (mut low, mut high) = (
            items.slots[..middle].to_vec(),
            items.slots[middle..].to_vec(),
        );
        let half = if deadline < deadlines[middle] {
            &mut low
        } else {
            &mut high
        };
        let at = half.partition_point(|&other| deadline_of(cells, other) <= deadline);
        half.insert(at, slot);
        self.link(cells, bucket, &low);
        self.new_bucket(cells, deadlines[middle], &high);
    }

    /// Adds an entry to a bucket whose segments are or were full of one deadline.
    fn add_to_shared(
        &mut self,
        cells: &mut impl Cells<Link>,
        bucket: u32,
        shared: Tick,
        deadline: Tick,
        slot: u32,
    ) {
        if deadline > shared {
            return self.new_bucket(cells, deadline, &[slot]);
        }
        if deadline < shared {
            let key = self.segments.get(bucket).key;
            self.rebound(bucket, shared);
            return self.new_bucket(cells, key, &[slot]);
        }
        let last = self.segments.get(bucket).last;
        let mut items = self.items(cells, last);
        if items.len < SEG_MAX_ITEMS {
            items.insert(items.len, slot);
            return self.link(cells, last, items.as_slice());
        }
        let segment = self.segments.push(Segment {
            key: shared,
            head: NONE,
            next: NONE,
            last: bucket,
            before: last,
        });
        self.segments.get_mut(last).next = segment;
        self.segments.get_mut(bucket).last = segment;
        self.link(cells, segment, &[slot]);
    }

    /// Removes an entry from its segment's list. Does not use the deadline, which may have changed.
    fn take(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        let segment = Self::segment_of(cells, slot);
        let mut items = self.items(cells, segment);
        items.remove(items.position(slot.0));
        self.len -= 1;
        cells.set(slot, Link::default());
        if items.len > 0 {
            self.link(cells, segment, items.as_slice());
        } else {
            self.drop_segment(cells, segment);
        }
    }

    /// Frees a segment whose list is empty. With the last segment of a bucket, the bucket is
    /// removed too.
    fn drop_segment(&mut self, cells: &mut impl Cells<Link>, segment: u32) {
        let Segment {
            key,
            next,
            last,
            before,
            ..
        } = *self.segments.get(segment);
        if before != NONE {
            self.segments.get_mut(before).next = next;
            if next == NONE {
                // `last` is the first segment, and may be `before` itself.
                self.segments.get_mut(before).last = last;
                self.segments.get_mut(last).last = before;
            } else {
                self.segments.get_mut(next).before = before;
            }
        } else if next == NONE {
            self.leave(key, segment);
        } else {
            // The next segment becomes the first; all others name it as theirs.
            self.segments.get_mut(next).before = NONE;
            self.segments.get_mut(next).key = key;
            self.segments.get_mut(next).last = last;
            self.tree.rename(tree_key(key), segment, next);
            self.segments.get_mut(last).last = next;
        }
        self.free(cells, segment);
    }

    /// Frees a segment that nothing refers to. The segment with the highest number takes its place.
    fn free(&mut self, cells: &mut impl Cells<Link>, segment: u32) {
        let moved = self.segments.swap_remove(segment);
        if moved == segment {
            return;
        }
        let Segment {
            key,
            head,
            next,
            last,
            before,
        } = *self.segments.get(segment);
        if next != NONE {
            self.segments.get_mut(next).before = segment;
        }
        if before == NONE {
            self.tree.rename(tree_key(key), moved, segment);
            let end = if last == moved { segment } else { last };
            self.segments.get_mut(segment).last = end;
            if end != segment {
                self.segments.get_mut(end).last = segment;
            }
        } else {
            self.segments.get_mut(before).next = segment;
            if next == NONE {
                self.segments.get_mut(last).last = segment;
            }
        }
        let mut slot = Slot(head);
        loop {
            let link = cells.get(slot);
            if link.is_last_in_segment {
                let next = segment;
                cells.set(slot, Link { next, ..link });
                return;
            }
            slot = Slot(link.next);
        }
    }

    fn note_first(&mut self, cells: &impl Cells<Link>) {
        let first = self.tree.first();
        self.first = first.map(|segment| deadline_of(cells, self.segments.get(segment).head));
    }

    fn check_bucket(&self, cells: &impl Cells<Link>, bucket: u32, end: Option<Tick>) -> usize {
        let key = self.segments.get(bucket).key;
        let mut deadlines = vec![];
        let (mut segment, mut before) = (bucket, NONE);
        loop {
            let it = *self.segments.get(segment);
            assert_eq!(it.before, before);
            let items = self.items(cells, segment);
            for &slot in items.as_slice() {
                assert_eq!(Self::segment_of(cells, Slot(slot)), segment);
                deadlines.push(deadline_of(cells, slot));
            }
            assert!(items.len > 0, "no segment is empty");
            if it.next == NONE {
                break;
            }
            (before, segment) = (segment, it.next);
        }
        assert_eq!(self.segments.get(bucket).last, segment);
        assert!(segment == bucket || self.segments.get(segment).last == bucket);
        assert!(deadlines.is_sorted());
        assert!(key <= deadlines[0]);
        let latest = deadlines[deadlines.len() - 1];
        assert!(end.is_none_or(|end| latest < end), "buckets do not overlap");
        if segment != bucket {
            assert_eq!(deadlines[0], latest, "an extended bucket has one deadline");
        }
        deadlines.len()
    }
}

/// Returns where to split a full segment: between two different deadlines, as near to the middle as
/// possible.
fn best_middle(deadlines: &[Tick; SEG_MAX_ITEMS]) -> Option<usize> {
    let middles = 1..SEG_MAX_ITEMS;
    middles
        .filter(|&middle| deadlines[middle - 1] < deadlines[middle])
        .min_by_key(|middle| middle.abs_diff(SEG_MAX_ITEMS / 2))
}

impl ExpiryIndex for Ebuckets {
    type Link = Link;
    type Config = ();
    const NAME: &'static str = "ebuckets";

    fn new(_now: Tick, _config: &(), _seed: u64) -> Self {
        Ebuckets {
            tree: RadixTree::default(),
            segments: Dense::new(),
            len: 0,
            first: None,
        }
    }

    fn granularity(&self) -> Option<u64> {
        Some(0)
    }

    fn insert(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        self.add(cells, slot);
    }

    fn remove(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        let deadline = deadline_of(cells, slot.0);
        self.take(cells, slot);
        if self.first == Some(deadline) {
            self.note_first(cells);
        }
    }

    fn update(&mut self, cells: &mut impl Cells<Link>, slot: Slot, old: Tick) {
        if cells.deadline(slot) == Some(old) {
            return;
        }
        self.take(cells, slot);
        if self.first == Some(old) {
            self.note_first(cells);
        }
        self.add(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<Link>, old: Slot, new: Slot) {
        let segment = Self::segment_of(cells, new);
        let mut at = self.segments.get(segment).head;
        if at == old.0 {
            self.segments.get_mut(segment).head = new.0;
            return;
        }
        loop {
            let link = cells.get(Slot(at));
            assert!(!link.is_last_in_segment, "it was in this list");
            if link.next == old.0 {
                cells.set(
                    Slot(at),
                    Link {
                        next: new.0,
                        ..link
                    },
                );
                return;
            }
            at = link.next;
        }
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<Link>, now: Tick, budget: &mut Budget) -> Due {
        let Some(first) = self.first.filter(|first| *first < now) else {
            return Due::Nothing;
        };
        if !budget.spend() {
            return Due::Again;
        }
        let bucket = self.tree.first().expect("the first entry has a bucket");
        let slot = Slot(self.segments.get(bucket).head);
        debug_assert_eq!(cells.deadline(slot), Some(first));
        self.take(cells, slot);
        self.note_first(cells);
        Due::Slot(slot)
    }

    fn next_due(&self) -> Option<Tick> {
        self.first.map(|first| Tick(first.0 + 1))
    }

    /// Returns the number of all entries once the first is dead; 0 before.
    fn backlog(&self, now: Tick) -> usize {
        match self.first {
            Some(first) if first < now => self.len,
            _ => 0,
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn heap_bytes(&self) -> usize {
        self.tree.heap_bytes() + self.segments.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<Link>) {
        let key_of = |segment: u32| tree_key(self.segments.get(segment).key);
        self.tree.check(key_of);
        let mut len = 0;
        let mut end = None;
        let mut key = u128::MAX >> 48;
        while let Some(bucket) = self.tree.floor(key, key_of) {
            len += self.check_bucket(cells, bucket, end);
            end = Some(self.segments.get(bucket).key);
            if key_of(bucket) == 0 {
                break;
            }
            key = key_of(bucket) - 1;
        }
        assert_eq!(len, self.len);
        let head = self.tree.first().map(|first| self.segments.get(first).head);
        assert_eq!(head.map(|head| deadline_of(cells, head)), self.first);
    }
}

#[cfg(test)]
mod tests;
