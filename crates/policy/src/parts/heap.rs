//! Slots ordered by a rank that changes: a heap of four children per node. Entries keep their place
//! in the heap, so that any of them can be ranked again or removed. 4 bytes in the entry, and one
//! item in the heap.

use super::chunks::Chunks;
use crate::{Cells, Slot};

/// Children per node.
const ARITY: usize = 4;

/// Bits of an entry that contain its place in a [`Heap`].
pub trait Placed: Copy {
    /// Returns the place.
    fn place(self) -> u32;
    /// Returns the same bits with another place.
    fn with_place(self, place: u32) -> Self;
}

impl Placed for u32 {
    #[inline]
    fn place(self) -> u32 {
        self
    }
    #[inline]
    fn with_place(self, place: u32) -> u32 {
        place
    }
}

/// A heap of slots with their ranks; the lowest rank is on top. Each operation except [`Heap::top`]
/// changes about log₄ n entries.
#[derive(Clone, Debug)]
pub struct Heap<R> {
    items: Chunks<(R, Slot)>,
}

impl<R: Copy + Ord> Default for Heap<R> {
    fn default() -> Self {
        Heap::new()
    }
}

impl<R: Copy + Ord> Heap<R> {
    /// Creates an empty heap; nothing is allocated before the first slot.
    pub fn new() -> Self {
        Heap {
            items: Chunks::new(),
        }
    }

    /// Number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no slots.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the lowest rank and its slot.
    #[inline]
    pub fn top(&self) -> Option<(R, Slot)> {
        (!self.is_empty()).then(|| self.items.at(0))
    }

    /// Returns the rank of a member.
    #[inline]
    pub fn rank<M: Placed>(&self, cells: &impl Cells<M>, slot: Slot) -> R {
        self.items.at(cells.get(slot).place() as usize).0
    }

    /// Adds a slot.
    #[inline]
    pub fn push<M: Placed>(&mut self, cells: &mut impl Cells<M>, slot: Slot, rank: R) {
        let place = self.items.len();
        assert!(place < u32::MAX as usize, "places have 32 bits");
        self.items.push((rank, slot));
        self.rise(cells, place, (rank, slot));
    }

    /// Changes the rank of a member.
    #[inline]
    pub fn rerank<M: Placed>(&mut self, cells: &mut impl Cells<M>, slot: Slot, rank: R) {
        let place = cells.get(slot).place() as usize;
        let (before, own) = self.items.at(place);
        debug_assert_eq!(own, slot, "the place of a member is its own");
        if rank < before {
            self.rise(cells, place, (rank, slot));
        } else {
            self.sink(cells, place, (rank, slot));
        }
    }

    /// Removes a member. Its bits keep a meaningless place.
    #[inline]
    pub fn remove<M: Placed>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        let place = cells.get(slot).place() as usize;
        let (before, own) = self.items.at(place);
        assert_eq!(own, slot, "the place of a member is its own");
        let last = self.items.pop().expect("a member was just seen");
        if place == self.items.len() {
            return;
        }
        if last.0 < before {
            self.rise(cells, place, last);
        } else {
            self.sink(cells, place, last);
        }
    }

    /// Handles the relocation of a member; its bits are already at `new`.
    pub fn moved<M: Placed>(&mut self, cells: &impl Cells<M>, new: Slot) {
        self.items.at_mut(cells.get(new).place() as usize).1 = new;
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.items.heap_bytes()
    }

    /// Panics unless the order holds and every member has its place.
    pub fn check<M: Placed>(&self, cells: &impl Cells<M>) {
        for place in 0..self.items.len() {
            let (rank, slot) = self.items.at(place);
            assert!(cells.is_live(slot), "{slot:?} is ranked but not live");
            assert_eq!(cells.get(slot).place() as usize, place);
            let parent = place.saturating_sub(1) / ARITY;
            assert!(self.items.at(parent).0 <= rank, "a parent ranks lower");
        }
    }

    #[inline]
    fn put<M: Placed>(&mut self, cells: &mut impl Cells<M>, place: usize, item: (R, Slot)) {
        *self.items.at_mut(place) = item;
        let meta = cells.get(item.1);
        cells.set(item.1, meta.with_place(place as u32));
    }

    /// Moves the item at `place` up while its rank is lower than its parent's.
    fn rise<M: Placed>(&mut self, cells: &mut impl Cells<M>, mut place: usize, item: (R, Slot)) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            let above = self.items.at(parent);
            if above.0 <= item.0 {
                break;
            }
            self.put(cells, place, above);
            place = parent;
        }
        self.put(cells, place, item);
    }

    /// Moves the item at `place` down while a child's rank is lower.
    fn sink<M: Placed>(&mut self, cells: &mut impl Cells<M>, mut place: usize, item: (R, Slot)) {
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.items.len());
            let Some(lowest) = children.min_by_key(|&child| self.items.at(child).0) else {
                break;
            };
            let below = self.items.at(lowest);
            if item.0 <= below.0 {
                break;
            }
            self.put(cells, place, below);
            place = lowest;
        }
        self.put(cells, place, item);
    }
}
