//! Segment lists: the free segments, and the segments of each TTL bucket in order of creation.

use super::cursor::SavedWords;
use super::heap::Heap;
use super::location::SegmentId;
use super::ttl::{BUCKETS, FLUSHED, TtlBucket};
use policy::Tick;

/// Use of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    /// In the list of its TTL bucket, open for objects or sealed.
    Listed,
    /// In its list while a job removes its objects.
    Leaving,
    /// In its list while a merge fills it.
    Filling,
    /// In its list while its objects are being sampled. None of them may be removed meanwhile.
    Sampled,
    /// Holds lines of the hash table.
    Table,
}

/// A segment's state and its neighbours in the list.
#[derive(Clone, Copy, Debug)]
struct Link {
    state: State,
    bucket: TtlBucket,
    previous: SegmentId,
    next: SegmentId,
    /// Time at which the segment was opened; for the target of a merge, the time of its first
    /// source.
    created: Tick,
}

/// First and last segment of a TTL bucket, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    head: SegmentId,
    tail: SegmentId,
}

/// All segment lists.
#[derive(Debug)]
pub(crate) struct SegmentLists {
    /// Links by segment number; index 0 is unused.
    links: Box<[Link]>,
    buckets: Box<[Ends]>,
    /// Bit set of the buckets that have segments.
    occupied: [u64; BUCKETS.div_ceil(64)],
    /// Stack of free segments, so that segments that were already used are taken first.
    free: Vec<SegmentId>,
    /// Number of segments that were ever taken. They have the lowest numbers.
    taken_count: u32,
    /// Number of free segments that only a merge may take.
    reserve: usize,
}

fn some(id: SegmentId) -> Option<SegmentId> {
    id.is_some().then_some(id)
}

impl SegmentLists {
    pub(super) fn new(count: u32, reserve: u32) -> Self {
        let vacant = Link {
            state: State::Free,
            bucket: TtlBucket::FOREVER,
            previous: SegmentId::NONE,
            next: SegmentId::NONE,
            created: Tick(0),
        };
        SegmentLists {
            links: vec![vacant; count as usize + 1].into(),
            buckets: vec![Ends::default(); BUCKETS].into(),
            occupied: [0; BUCKETS.div_ceil(64)],
            free: (1..=count).rev().map(SegmentId).collect(),
            taken_count: 0,
            reserve: reserve as usize,
        }
    }

    /// Appends the segments of objects. Returns `None` if one of them is being written or a job
    /// works on it.
    pub(super) fn save(&self, heap: &Heap, saved: &mut Vec<u64>) -> Option<()> {
        let listed: Vec<SegmentId> = self.all().collect();
        saved.extend([u64::from(self.taken_count), listed.len() as u64]);
        for id in listed {
            let (link, header) = (self.link(id), heap.header(id));
            let is_at_rest = matches!(link.state, State::Listed | State::Sampled);
            if !is_at_rest || !header.is_sealed() {
                return None;
            }
            let (objects, words) = header.live();
            saved.extend([
                u64::from(id.0),
                u64::from(link.bucket.0),
                link.created.0,
                heap.deadline(id).0,
                u64::from(header.used()),
                u64::from(objects),
                u64::from(words),
            ]);
        }
        Some(())
    }

    /// Puts the saved segments into empty lists, and restores their headers. Returns the number of
    /// segments that were ever taken; `None` if the saved words are impossible.
    pub(super) fn restore(&mut self, heap: &Heap, saved: &mut SavedWords<'_>) -> Option<u32> {
        let (taken_count, listed_count) = (saved.small()?, saved.small()?);
        for _ in 0..listed_count {
            let id = SegmentId(saved.small()?);
            self.check_unused(id)?;
            let bucket = u16::try_from(saved.next()?).ok()?;
            let bucket = Some(TtlBucket(bucket)).filter(|one| usize::from(one.0) < BUCKETS)?;
            let (created, deadline) = (Tick(saved.next()?), Tick(saved.next()?));
            let (used, objects, words) = (saved.small()?, saved.small()?, saved.small()?);
            let tail = self.buckets[usize::from(bucket.0)].tail;
            let is_ordered = !tail.is_some() || self.created(tail) <= created;
            let is_due = [bucket.deadline(created), FLUSHED].contains(&deadline);
            let fits = used <= heap.capacity() && words <= used && objects <= words;
            if !is_ordered || !is_due || !fits {
                return None;
            }
            self.insert(id, bucket, created);
            heap.restore(id, deadline, used, (objects, words));
        }
        Some(taken_count)
    }

    /// Returns `None` if no segment has this number, or if it is in use.
    pub(super) fn check_unused(&self, id: SegmentId) -> Option<()> {
        let link = self.links.get(id.0 as usize)?;
        (id.is_some() && link.state == State::Free).then_some(())
    }

    /// Marks all remaining segments as free, after the segments of objects and of the table were
    /// restored.
    pub(super) fn restore_free(&mut self, taken_count: u32) -> Option<()> {
        let count = self.links.len() as u32 - 1;
        let is_free = |id: &SegmentId| self.state(*id) == State::Free;
        // The lowest number is taken first, so that segments that were used before are.
        let all = (1..=count).rev().map(SegmentId);
        let free = all.filter(is_free).collect();
        let last = (1..=count).rev().find(|&id| !is_free(&SegmentId(id)));
        self.free = free;
        self.taken_count = taken_count;
        (last.unwrap_or(0) <= taken_count && taken_count <= count).then_some(())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.links)
            + size_of_val(&*self.buckets)
            + self.free.capacity() * size_of::<SegmentId>()
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns the number of segments that were ever taken.
    pub(crate) fn taken_count(&self) -> u32 {
        self.taken_count
    }

    fn link(&self, id: SegmentId) -> &Link {
        &self.links[id.0 as usize]
    }

    fn link_mut(&mut self, id: SegmentId) -> &mut Link {
        &mut self.links[id.0 as usize]
    }

    pub(crate) fn state(&self, id: SegmentId) -> State {
        self.link(id).state
    }

    pub(crate) fn set_state(&mut self, id: SegmentId, state: State) {
        self.link_mut(id).state = state;
    }

    /// Returns true if a segment holds objects or was taken for objects.
    pub(crate) fn is_held(&self, id: SegmentId) -> bool {
        !matches!(self.state(id), State::Free | State::Table)
    }

    /// Returns true if a job may remove the objects of a segment: it is in a list, it is sealed,
    /// and no job is working on it.
    pub(crate) fn can_leave(&self, heap: &Heap, id: SegmentId) -> bool {
        self.state(id) == State::Listed && heap.header(id).is_sealed()
    }

    pub(crate) fn bucket(&self, id: SegmentId) -> TtlBucket {
        self.link(id).bucket
    }

    pub(crate) fn created(&self, id: SegmentId) -> Tick {
        self.link(id).created
    }

    pub(crate) fn next(&self, id: SegmentId) -> SegmentId {
        self.link(id).next
    }

    /// Returns the first segment of a TTL bucket.
    pub(crate) fn head(&self, bucket: usize) -> SegmentId {
        self.buckets[bucket].head
    }

    /// Returns the TTL buckets that have segments, from `first` upwards and then from 0.
    pub(crate) fn buckets_from(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let occupied = self.occupied;
        let is_occupied = move |bucket: &usize| occupied[bucket / 64] >> (bucket % 64) & 1 != 0;
        (first..BUCKETS).chain(0..first).filter(is_occupied)
    }

    /// Returns `first` and the segments after it in its list.
    pub(crate) fn list(&self, first: SegmentId) -> impl Iterator<Item = SegmentId> + '_ {
        std::iter::successors(some(first), move |&id| some(self.next(id)))
    }

    /// Returns `last` and the segments before it in its list, in reverse order.
    pub(crate) fn list_back(&self, last: SegmentId) -> impl Iterator<Item = SegmentId> + '_ {
        std::iter::successors(some(last), move |&id| some(self.link(id).previous))
    }

    /// Returns the segments in all lists, by TTL bucket.
    pub(crate) fn all(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.buckets_from(0)
            .flat_map(|bucket| self.list(self.head(bucket)))
    }

    /// Takes a segment for objects, unless all free ones are reserved for merges.
    pub(super) fn take_free(&mut self) -> Option<SegmentId> {
        match self.free.len() > self.reserve {
            true => self.take_reserved(),
            false => None,
        }
    }

    /// Takes a segment as the target of a merge.
    pub(super) fn take_reserved(&mut self) -> Option<SegmentId> {
        let id = self.free.pop()?;
        self.taken_count = self.taken_count.max(id.0);
        Some(id)
    }

    pub(super) fn set_reserve(&mut self, reserve: u32) {
        self.reserve = reserve as usize;
    }

    /// Puts a segment into a bucket's list, after the segments created before it.
    pub(super) fn insert(&mut self, id: SegmentId, bucket: TtlBucket, created: Tick) {
        let mut after = self.buckets[usize::from(bucket.0)].tail;
        // The tail is older, unless the clock went back.
        while after.is_some() && self.created(after) > created {
            after = self.link(after).previous;
        }
        self.insert_after(id, after, bucket, created, State::Listed);
    }

    /// Inserts the target of a merge before one of its sources, with the creation time of that
    /// source.
    pub(super) fn insert_before(&mut self, id: SegmentId, other: SegmentId) {
        let Link {
            bucket,
            previous,
            created,
            ..
        } = *self.link(other);
        self.insert_after(id, previous, bucket, created, State::Filling);
    }

    fn insert_after(
        &mut self,
        id: SegmentId,
        after: SegmentId,
        bucket: TtlBucket,
        created: Tick,
        state: State,
    ) {
        assert_eq!(self.state(id), State::Free);
        let ends = &mut self.buckets[usize::from(bucket.0)];
        let next = match after {
            SegmentId::NONE => std::mem::replace(&mut ends.head, id),
            after => std::mem::replace(&mut self.links[after.0 as usize].next, id),
        };
        match next {
            SegmentId::NONE => ends.tail = id,
            next => self.link_mut(next).previous = id,
        }
        *self.link_mut(id) = Link {
            state,
            bucket,
            previous: after,
            next,
            created,
        };
        self.occupied[usize::from(bucket.0) / 64] |= 1 << (bucket.0 % 64);
    }

    /// Removes a segment from its list and makes it free. Returns its bucket and its successor.
    pub(super) fn remove(&mut self, id: SegmentId) -> (TtlBucket, SegmentId) {
        let link = *self.link(id);
        assert!(matches!(link.state, State::Leaving | State::Filling));
        let index = usize::from(link.bucket.0);
        match link.previous {
            SegmentId::NONE => self.buckets[index].head = link.next,
            previous => self.link_mut(previous).next = link.next,
        }
        match link.next {
            SegmentId::NONE => self.buckets[index].tail = link.previous,
            next => self.link_mut(next).previous = link.previous,
        }
        if !self.head(index).is_some() {
            self.occupied[index / 64] &= !(1 << (index % 64));
        }
        self.set_state(id, State::Free);
        self.free.push(id);
        (link.bucket, link.next)
    }

    /// Panics if the lists contradict themselves or the headers. Returns the number of listed
    /// segments.
    pub(super) fn check(&self, heap: &Heap) -> usize {
        let mut listed = 0;
        let mut occupied = vec![];
        for bucket in 0..BUCKETS {
            let mut previous = SegmentId::NONE;
            for id in self.list(self.head(bucket)) {
                let link = self.link(id);
                assert_eq!(link.previous, previous);
                assert_eq!(usize::from(link.bucket.0), bucket);
                assert!(self.is_held(id));
                assert!(!previous.is_some() || self.created(previous) <= link.created);
                // Merges rely on this order, and so does expiry, which reads only the heads of the
                // lists.
                let deadline = link.bucket.deadline(link.created);
                assert!([deadline, FLUSHED].contains(&heap.deadline(id)));
                previous = id;
                listed += 1;
            }
            assert_eq!(self.buckets[bucket].tail, previous);
            if previous.is_some() {
                occupied.push(bucket);
            }
        }
        assert!(self.buckets_from(0).eq(occupied), "buckets and their bits");
        for &id in &self.free {
            assert_eq!(self.state(id), State::Free);
            assert_eq!(heap.header(id).live(), (0, 0));
        }
        let table = heap.ids().filter(|&id| self.state(id) == State::Table);
        let all = self.free.len() + listed + table.count();
        assert_eq!(all, heap.count() as usize);
        listed
    }
}
