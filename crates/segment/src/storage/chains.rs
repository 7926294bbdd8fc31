//! The chains of segments: which are free, and those of each TTL bucket in the order of their creation.
//!
//! Behind the one lock of the engine, which is held for what a segment needs once in its life.

use crate::eviction::ages::{Age, Ages};
use crate::eviction::learned::Ranking;
use crate::eviction::ranked::Ranked;
use crate::storage::heap::{Heap, SegmentId};
use crate::storage::ttl::{BUCKETS, FLUSHED, TtlBucket};
use policy::Tick;

/// What becomes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    /// In the chain of its bucket, taking objects or sealed.
    Chained,
    /// In its chain, and somebody removes its objects.
    Leaving,
    /// In its chain, and somebody merges others into it.
    Filling,
    /// In its chain, and somebody goes through its objects, of which all stay.
    Held,
    /// Lines of the table.
    Table,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    state: State,
    bucket: TtlBucket,
    previous: SegmentId,
    next: SegmentId,
    created: Tick,
}

/// The segments of one TTL bucket, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    head: SegmentId,
    tail: SegmentId,
    /// Where the next merge begins; none: at the head.
    merge_from: SegmentId,
    /// The thresholds that the last merges ended with, by the age of what they merged; and that of merges of what is
    /// worth least, which go by another measure.
    thresholds: [f32; 3],
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Chains {
    /// By segment; the first stands for none.
    links: Box<[Link]>,
    rows: Box<[Row]>,
    pub(crate) ages: Ages,
    /// Which rows have segments.
    occupied: [u64; BUCKETS.div_ceil(64)],
    /// Taken from the end, where those are that were taken before.
    free: Vec<SegmentId>,
    /// How many were ever taken: those of the lowest numbers.
    taken_count: u32,
    /// Free segments that only a merge may take.
    reserve: usize,
    /// The row whose turn it is.
    pub(crate) turn: usize,
    /// When this round of merges began: what was created since then waits for the next one.
    pub(crate) round_began: Tick,
    /// The policy that chooses segments, where one does.
    pub(crate) ranked: Option<Ranked>,
    /// Those that go next by what was learned.
    pub(crate) ranking: Ranking,
}

impl Chains {
    pub(crate) fn new(count: u32, reserve: u32, ranked: Option<Ranked>) -> Self {
        let vacant = Link {
            state: State::Free,
            bucket: TtlBucket::FOREVER,
            previous: SegmentId::NONE,
            next: SegmentId::NONE,
            created: Tick(0),
        };
        Chains {
            links: vec![vacant; count as usize + 1].into(),
            rows: vec![Row::default(); BUCKETS].into(),
            ages: Ages::new(count),
            occupied: [0; BUCKETS.div_ceil(64)],
            free: (1..=count).rev().map(SegmentId).collect(),
            taken_count: 0,
            reserve: reserve as usize,
            turn: 0,
            round_began: Tick(0),
            ranked,
            ranking: Ranking::default(),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.links.len() * size_of::<Link>()
            + self.rows.len() * size_of::<Row>()
            + self.ages.heap_bytes()
            + self.free.capacity() * size_of::<SegmentId>()
            + self.ranked.as_ref().map_or(0, Ranked::heap_bytes)
            + self.ranking.heap_bytes()
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// How many segments were ever taken.
    pub(crate) fn taken_count(&self) -> u32 {
        self.taken_count
    }

    /// Whether a segment can be had for objects.
    pub(crate) fn has_free(&self) -> bool {
        self.free.len() > self.reserve
    }

    pub(crate) fn state(&self, id: SegmentId) -> State {
        self.links[id.0 as usize].state
    }

    pub(crate) fn set_state(&mut self, id: SegmentId, state: State) {
        self.links[id.0 as usize].state = state;
    }

    pub(crate) fn bucket(&self, id: SegmentId) -> TtlBucket {
        self.links[id.0 as usize].bucket
    }

    pub(crate) fn created(&self, id: SegmentId) -> Tick {
        self.links[id.0 as usize].created
    }

    pub(crate) fn next(&self, id: SegmentId) -> SegmentId {
        self.links[id.0 as usize].next
    }

    pub(crate) fn head(&self, row: usize) -> SegmentId {
        self.rows[row].head
    }

    pub(crate) fn merge_from(&self, row: usize) -> SegmentId {
        match self.rows[row].merge_from {
            SegmentId::NONE => self.rows[row].head,
            from => from,
        }
    }

    pub(crate) fn set_merge_from(&mut self, row: usize, from: SegmentId) {
        self.rows[row].merge_from = from;
    }

    pub(crate) fn threshold(&self, row: usize, measure: usize) -> f32 {
        self.rows[row].thresholds[measure]
    }

    pub(crate) fn set_threshold(&mut self, row: usize, measure: usize, threshold: f32) {
        self.rows[row].thresholds[measure] = threshold;
    }

    /// The rows that have segments, from this one on and round.
    pub(crate) fn rows_from(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let occupied = self.occupied;
        let is_occupied = move |row: &usize| occupied[row / 64] >> (row % 64) & 1 != 0;
        (first..BUCKETS).chain(0..first).filter(is_occupied)
    }

    /// The segments of a row from `first` on.
    pub(crate) fn row(&self, first: SegmentId) -> impl Iterator<Item = SegmentId> + '_ {
        let some = |id: SegmentId| id.is_some().then_some(id);
        std::iter::successors(some(first), move |&id| some(self.next(id)))
    }

    /// The segments of a row from `last` back.
    pub(crate) fn row_back(&self, last: SegmentId) -> impl Iterator<Item = SegmentId> + '_ {
        let some = |id: SegmentId| id.is_some().then_some(id);
        let previous = move |id: SegmentId| self.links[id.0 as usize].previous;
        std::iter::successors(some(last), move |&id| some(previous(id)))
    }

    /// A segment for objects.
    pub(crate) fn take_free(&mut self) -> Option<SegmentId> {
        if self.has_free() {
            self.take_reserved()
        } else {
            None
        }
    }

    /// A segment to merge others into.
    pub(crate) fn take_reserved(&mut self) -> Option<SegmentId> {
        let id = self.free.pop()?;
        self.taken_count = self.taken_count.max(id.0);
        Some(id)
    }

    /// A segment for lines of the table, for ever.
    pub(crate) fn take_for_table(&mut self) -> Option<SegmentId> {
        let id = self.take_free()?;
        self.set_state(id, State::Table);
        Some(id)
    }

    /// Other segments are chosen from now on: by this policy, which is told of all that are there, if by one. What chose
    /// before comes back, to be freed without the lock.
    pub(crate) fn choose_by(
        &mut self,
        reserve: u32,
        mut ranked: Option<Ranked>,
    ) -> (Option<Ranked>, Ranking) {
        self.reserve = reserve as usize;
        if let Some(ranked) = &mut ranked {
            self.in_order().into_iter().for_each(|id| ranked.linked(id));
        }
        let ranking = std::mem::take(&mut self.ranking);
        (std::mem::replace(&mut self.ranked, ranked), ranking)
    }

    /// All segments with objects, the one opened first before the others.
    fn in_order(&self) -> Vec<SegmentId> {
        let rows = self.rows_from(0);
        let mut all: Vec<SegmentId> = rows.flat_map(|row| self.row(self.head(row))).collect();
        all.sort_by_key(|&id| self.created(id));
        all
    }

    /// Puts a segment in its row, behind those that were created before.
    pub(crate) fn link(&mut self, id: SegmentId, bucket: TtlBucket, created: Tick) {
        let mut after = self.rows[usize::from(bucket.0)].tail;
        // A clock that went back; else the tail is older.
        while after.is_some() && self.created(after) > created {
            after = self.links[after.0 as usize].previous;
        }
        self.link_after(id, after, bucket, created, State::Chained);
        self.ages.push(id, Age::Young);
        if let Some(ranked) = &mut self.ranked {
            ranked.linked(id);
        }
    }

    /// Puts a segment to be filled in front of another, whose age it has.
    pub(crate) fn link_before(&mut self, id: SegmentId, other: SegmentId) {
        let Link {
            bucket,
            previous,
            created,
            ..
        } = self.links[other.0 as usize];
        self.link_after(id, previous, bucket, created, State::Filling);
        self.ages.push(id, Age::Old);
        // A merge that goes on after its eviction was exchanged.
        if let Some(ranked) = &mut self.ranked {
            ranked.linked(id);
        }
    }

    fn link_after(
        &mut self,
        id: SegmentId,
        after: SegmentId,
        bucket: TtlBucket,
        created: Tick,
        state: State,
    ) {
        assert_eq!(self.state(id), State::Free);
        let row = &mut self.rows[usize::from(bucket.0)];
        let next = match after {
            SegmentId::NONE => std::mem::replace(&mut row.head, id),
            after => std::mem::replace(&mut self.links[after.0 as usize].next, id),
        };
        match next {
            SegmentId::NONE => row.tail = id,
            next => self.links[next.0 as usize].previous = id,
        }
        self.links[id.0 as usize] = Link {
            state,
            bucket,
            previous: after,
            next,
            created,
        };
        self.occupied[usize::from(bucket.0) / 64] |= 1 << (bucket.0 % 64);
    }

    /// Takes a segment whose objects are all gone out of its row; it is free.
    pub(crate) fn free(&mut self, heap: &Heap, id: SegmentId) {
        let link = self.links[id.0 as usize];
        assert!(matches!(link.state, State::Leaving | State::Filling));
        heap.give_back(id);
        let index = usize::from(link.bucket.0);
        let row = &mut self.rows[index];
        if row.merge_from == id {
            row.merge_from = link.next;
        }
        match link.previous {
            SegmentId::NONE => row.head = link.next,
            previous => self.links[previous.0 as usize].next = link.next,
        }
        match link.next {
            SegmentId::NONE => row.tail = link.previous,
            next => self.links[next.0 as usize].previous = link.previous,
        }
        match row.head {
            SegmentId::NONE => self.occupied[index / 64] &= !(1 << (index % 64)),
            head => heap.falls_due(heap.deadline(head)),
        }
        self.links[id.0 as usize].state = State::Free;
        self.ages.remove(id);
        if let Some(ranked) = &mut self.ranked {
            ranked.unlinked(id);
        }
        self.free.push(id);
        heap.tell_free(self);
    }

    /// Panics where the rows contradict themselves or the headers.
    pub(crate) fn check(&self, heap: &Heap) {
        let mut linked = 0;
        let mut occupied = vec![];
        for row in 0..BUCKETS {
            let mut previous = SegmentId::NONE;
            for id in self.row(self.rows[row].head) {
                let link = self.links[id.0 as usize];
                assert_eq!(link.previous, previous);
                assert_eq!(usize::from(link.bucket.0), row);
                assert!(!matches!(link.state, State::Free | State::Table));
                assert!(!previous.is_some() || self.created(previous) <= link.created);
                // As a merge relies on it, and a scan that reads heads alone.
                let deadline = link.bucket.deadline(link.created);
                assert!([deadline, FLUSHED].contains(&heap.deadline(id)));
                previous = id;
                linked += 1;
            }
            assert_eq!(self.rows[row].tail, previous);
            if previous.is_some() {
                occupied.push(row);
            }
        }
        assert!(self.rows_from(0).eq(occupied), "rows and their bits differ");
        assert_eq!(self.ages.check(), linked);
        for &id in &self.free {
            assert_eq!(self.state(id), State::Free);
            assert_eq!(heap.segment(id).live(), (0, 0));
        }
        let table = heap.ids().filter(|&id| self.state(id) == State::Table);
        assert_eq!(
            self.free.len() + linked + table.count(),
            heap.count() as usize
        );
        if let Some(ranked) = &self.ranked {
            ranked.check();
        }
    }
}
