//! An array of slots whose entries keep their place in it: insertion, removal and any place in
//! O(1).
//!
//! The array grows by pages, without copying.

use crate::{Cells, Slot, Tick};
use alloc::boxed::Box;
use alloc::vec::Vec;

const PAGE_ITEMS: usize = 1 << 10;

/// Slots in arbitrary order. The bits of each entry are its index in the array.
#[derive(Default)]
pub struct SlotArray {
    pages: Vec<Box<[Slot; PAGE_ITEMS]>>,
    len: usize,
}

impl SlotArray {
    /// Returns the slot at a place.
    pub fn get(&self, index: usize) -> Slot {
        debug_assert!(index < self.len);
        self.pages[index / PAGE_ITEMS][index % PAGE_ITEMS]
    }

    /// Replaces the slot at a place.
    fn set(&mut self, index: usize, slot: Slot) {
        debug_assert!(index < self.len);
        self.pages[index / PAGE_ITEMS][index % PAGE_ITEMS] = slot;
    }

    fn push_slot(&mut self, slot: Slot) {
        if self.len == self.pages.len() * PAGE_ITEMS {
            self.pages.push(Box::new([Slot(0); PAGE_ITEMS]));
        }
        self.len += 1;
        self.set(self.len - 1, slot);
    }

    fn pop(&mut self) -> Option<Slot> {
        let last = self.len.checked_sub(1)?;
        let slot = self.get(last);
        self.len = last;
        // One empty page is kept, so that a length that oscillates does not allocate each time.
        if last.div_ceil(PAGE_ITEMS) + 1 < self.pages.len() {
            self.pages.pop();
            if self.pages.len() < self.pages.capacity() / 4 {
                self.pages.shrink_to(self.pages.len() * 2);
            }
        }
        Some(slot)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.pages.len() * size_of::<[Slot; PAGE_ITEMS]>()
            + self.pages.capacity() * size_of::<Box<[Slot; PAGE_ITEMS]>>()
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an entry.
    pub fn push(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.push_slot(slot);
        cells.set(slot, self.len as u32 - 1);
    }

    /// Swaps the entries at two places.
    pub fn swap(&mut self, cells: &mut impl Cells<u32>, one: usize, other: usize) {
        let (first, second) = (self.get(one), self.get(other));
        self.put(cells, other, first);
        self.put(cells, one, second);
    }

    fn put(&mut self, cells: &mut impl Cells<u32>, index: usize, slot: Slot) {
        self.set(index, slot);
        cells.set(slot, index as u32);
    }

    /// Removes and returns the entry at a place; the last takes its place.
    pub fn take(&mut self, cells: &mut impl Cells<u32>, index: usize) -> Slot {
        let slot = self.get(index);
        let last = self.pop().expect("an entry that is held has a place");
        if last != slot {
            self.put(cells, index, last);
        }
        slot
    }

    /// Removes an entry, which must be in the array.
    pub fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let taken = self.take(cells, cells.get(slot) as usize);
        assert_eq!(taken, slot, "only what was inserted is removed");
    }

    /// Handles the relocation of an entry; its bits are already at `new`.
    pub fn moved(&mut self, cells: &impl Cells<u32>, old: Slot, new: Slot) {
        let index = cells.get(new) as usize;
        assert_eq!(self.get(index), old, "only what was inserted is moved");
        self.set(index, new);
    }

    /// Panics if an entry is not at its place, or has a deadline before `earliest`.
    pub fn check(&self, cells: &impl Cells<u32>, earliest: Tick) {
        assert!(self.len <= self.pages.len() * PAGE_ITEMS);
        for index in 0..self.len {
            let slot = self.get(index);
            assert_eq!(cells.get(slot) as usize, index);
            let deadline = cells.deadline(slot);
            let deadline = deadline.expect("an entry in the array has a deadline");
            assert!(earliest <= deadline);
        }
    }
}
