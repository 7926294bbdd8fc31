//! Lists that a larger policy can use in place of one another: LRU, FIFO-Reinsertion and SIEVE.
//!
//! The mark of a hit is one bit of the two that name a list. A policy may therefore have shelf
//! number 0 or 1 of the kinds that mark, and the entry still needs only 64 bits.

use super::list::{List, Node};
use crate::{Cells, Slot};

/// Bit of an entry's list number that is set by a hit.
const MARK: u8 = 2;

/// A list of entries that chooses its own victim.
pub trait Shelf: Clone + core::fmt::Debug + Send {
    /// Creates an empty shelf, number 0 or 1.
    fn new(id: u8) -> Self;
    /// Returns the shelf's list.
    fn list(&self) -> &List;
    /// Adds an entry that is in no shelf.
    fn push(&mut self, cells: &mut impl Cells<Node>, slot: Slot);
    /// Records a hit on a member.
    fn hit(&mut self, cells: &mut impl Cells<Node>, slot: Slot);
    /// Examines one member. Either removes and returns it as the victim, or keeps it. The shelf
    /// must not be empty.
    fn step(&mut self, cells: &mut impl Cells<Node>) -> Option<Slot>;
    /// Removes a member.
    fn unlink(&mut self, cells: &mut impl Cells<Node>, slot: Slot);
    /// Handles the relocation of a member; its bits are already at `new`.
    fn moved(&mut self, cells: &mut impl Cells<Node>, old: Slot, new: Slot);
    /// Panics if the structure is inconsistent. Returns the members' weight.
    fn check(&self, cells: &impl Cells<Node>) -> u64;
}

#[inline]
fn is_marked(node: Node) -> bool {
    node.list() & MARK != 0
}

#[inline]
fn mark(cells: &mut impl Cells<Node>, slot: Slot) {
    let node = cells.get(slot);
    if !is_marked(node) {
        cells.set(slot, node.with_list(node.list() | MARK));
    }
}

#[inline]
fn unmark(cells: &mut impl Cells<Node>, slot: Slot) {
    let node = cells.get(slot);
    cells.set(slot, node.with_list(node.list() & !MARK));
}

/// LRU: a hit makes the entry the youngest; the victim is the oldest.
#[derive(Clone, Debug)]
pub struct LruShelf(List);

impl Shelf for LruShelf {
    fn new(id: u8) -> Self {
        LruShelf(List::new(id))
    }
    #[inline]
    fn list(&self) -> &List {
        &self.0
    }
    #[inline]
    fn push(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.0.push(cells, slot);
    }
    #[inline]
    fn hit(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.0.promote(cells, slot);
    }
    #[inline]
    fn step(&mut self, cells: &mut impl Cells<Node>) -> Option<Slot> {
        self.0.pop(cells)
    }
    #[inline]
    fn unlink(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.0.unlink(cells, slot);
    }
    fn moved(&mut self, cells: &mut impl Cells<Node>, _old: Slot, new: Slot) {
        self.0.moved(cells, new);
    }
    fn check(&self, cells: &impl Cells<Node>) -> u64 {
        self.0.check(cells)
    }
}

/// FIFO-Reinsertion: a hit marks the entry; the victim is the oldest, but a marked one becomes the
/// youngest.
#[derive(Clone, Debug)]
pub struct ReinsertionShelf(List);

impl Shelf for ReinsertionShelf {
    fn new(id: u8) -> Self {
        ReinsertionShelf(List::with_mark(id, MARK))
    }
    #[inline]
    fn list(&self) -> &List {
        &self.0
    }
    #[inline]
    fn push(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.0.push(cells, slot);
    }
    #[inline]
    fn hit(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        mark(cells, slot);
    }
    #[inline]
    fn step(&mut self, cells: &mut impl Cells<Node>) -> Option<Slot> {
        let slot = self.0.pop(cells)?;
        if !is_marked(cells.get(slot)) {
            return Some(slot);
        }
        self.0.push(cells, slot);
        None
    }
    #[inline]
    fn unlink(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.0.unlink(cells, slot);
    }
    fn moved(&mut self, cells: &mut impl Cells<Node>, _old: Slot, new: Slot) {
        self.0.moved(cells, new);
    }
    fn check(&self, cells: &impl Cells<Node>) -> u64 {
        self.0.check(cells)
    }
}

/// SIEVE: a hit marks the entry; a hand moves from old to young, spares marked entries in place,
/// and takes the first unmarked one.
#[derive(Clone, Debug)]
pub struct SieveShelf {
    list: List,
    /// Next position of the hand; `None` is the old end.
    hand: Option<Slot>,
}

impl Shelf for SieveShelf {
    fn new(id: u8) -> Self {
        SieveShelf {
            list: List::with_mark(id, MARK),
            hand: None,
        }
    }
    #[inline]
    fn list(&self) -> &List {
        &self.list
    }
    #[inline]
    fn push(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.list.push(cells, slot);
    }
    #[inline]
    fn hit(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        mark(cells, slot);
    }
    #[inline]
    fn step(&mut self, cells: &mut impl Cells<Node>) -> Option<Slot> {
        let at = self.hand.or(self.list.oldest())?;
        self.hand = self.list.newer(cells, at);
        if is_marked(cells.get(at)) {
            unmark(cells, at);
            return None;
        }
        self.list.unlink(cells, at);
        Some(at)
    }
    #[inline]
    fn unlink(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.list.newer(cells, slot);
        }
        self.list.unlink(cells, slot);
    }
    fn moved(&mut self, cells: &mut impl Cells<Node>, old: Slot, new: Slot) {
        self.list.moved(cells, new);
        if self.hand == Some(old) {
            self.hand = Some(new);
        }
    }
    fn check(&self, cells: &impl Cells<Node>) -> u64 {
        if let Some(hand) = self.hand {
            assert!(cells.is_live(hand), "the hand is at a member");
            assert!(self.list.has(cells.get(hand)), "the hand is at a member");
        }
        self.list.check(cells)
    }
}
