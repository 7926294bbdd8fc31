//! Most recently inserted first.
//!
//! # Idea
//! The entry that was inserted last is evicted.
//!
//! # State
//! Per entry: its position in the stack, 4 bytes. Besides: the stack, 4 bytes per entry.
//!
//! # Cost
//! insert and evict O(1); remove moves the last entry of the stack to the gap.

use policy::{Budget, Cells, Eviction, OnHit, Policy, Slot};

/// The policy.
#[derive(Clone, Debug)]
pub struct MostRecent {
    stack: Vec<Slot>,
}

impl Policy for MostRecent {
    /// Position in the stack.
    type Meta = u32;
    type Config = ();
    const NAME: &'static str = "most-recent";
    const ON_HIT: OnHit = OnHit::Ignore;

    fn new(_capacity: u64, _config: &(), _seed: u64) -> Self {
        MostRecent { stack: Vec::new() }
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        cells.set(slot, self.stack.len() as u32);
        self.stack.push(slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.stack[cells.get(new) as usize] = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let at = cells.get(slot);
        self.stack.swap_remove(at as usize);
        if let Some(&other) = self.stack.get(at as usize) {
            cells.set(other, at);
        }
    }

    fn evict(&mut self, _cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        match self.stack.last() {
            None => Eviction::Empty,
            Some(_) if !budget.spend() => Eviction::Again,
            Some(_) => self.stack.pop().map_or(Eviction::Empty, Eviction::Victim),
        }
    }

    fn heap_bytes(&self) -> usize {
        self.stack.capacity() * size_of::<Slot>()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        for (at, &slot) in self.stack.iter().enumerate() {
            assert_eq!(cells.get(slot) as usize, at);
        }
    }
}
