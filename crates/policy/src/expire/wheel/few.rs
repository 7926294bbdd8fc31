//! A few deadlines: a sorted array, which costs more per entry than the wheel but has no fixed
//! cost.
//!
//! An item's deadline is the one under which its entry was filed. The entry's own may be later,
//! because hosts need not report that a deadline moves later; it is then filed again when the item
//! comes up.

use crate::{Slot, Tick};
use alloc::vec::Vec;

/// A deadline in two words, and a slot: 12 bytes.
type Item = [u32; 3];

/// Items in descending order of deadlines, so that the first due item is at the end of the array.
#[derive(Default)]
pub(super) struct Few {
    items: Vec<Item>,
}

fn item(deadline: Tick, slot: Slot) -> Item {
    [(deadline.0 >> 32) as u32, deadline.0 as u32, slot.0]
}

fn deadline_of(item: &Item) -> Tick {
    Tick(u64::from(item[0]) << 32 | u64::from(item[1]))
}

impl Few {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Inserts a deadline after all equal ones.
    pub(super) fn insert(&mut self, deadline: Tick, slot: Slot) {
        let at = self
            .items
            .partition_point(|item| deadline_of(item) > deadline);
        if self.items.len() == self.items.capacity() {
            self.items.reserve_exact(self.items.len() / 4 + 4);
        }
        self.items.insert(at, item(deadline, slot));
    }

    fn position(&self, deadline: Tick, slot: Slot) -> usize {
        self.items
            .iter()
            .rposition(|&other| other == item(deadline, slot))
            .or_else(|| self.items.iter().position(|other| other[2] == slot.0))
            .expect("the host removes and moves only what it inserted")
    }

    pub(super) fn remove(&mut self, deadline: Tick, slot: Slot) {
        let at = self.position(deadline, slot);
        self.items.remove(at);
        if self.items.len() + 16 < self.items.capacity() / 2 {
            self.items.shrink_to(self.items.len() + 4);
        }
    }

    pub(super) fn moved(&mut self, deadline: Tick, old: Slot, new: Slot) {
        let at = self.position(deadline, old);
        self.items[at] = item(deadline_of(&self.items[at]), new);
    }

    /// Returns the earliest deadline under which an entry is filed.
    pub(super) fn first(&self) -> Option<Tick> {
        self.items.last().map(deadline_of)
    }

    pub(super) fn pop(&mut self) -> Option<Slot> {
        self.items.pop().map(|item| Slot(item[2]))
    }

    /// Returns an upper bound on the number of entries that are dead at `now`.
    pub(super) fn dead_count(&self, now: Tick) -> usize {
        self.items.len() - self.items.partition_point(|item| deadline_of(item) >= now)
    }

    /// Returns the entries in the order of their deadlines.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Tick, Slot)> + '_ {
        self.items
            .iter()
            .rev()
            .map(|item| (deadline_of(item), Slot(item[2])))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.items.capacity() * size_of::<Item>()
    }
}
