//! First-in-first-out queues of entries for policies that keep a tag in each entry's bits.
//!
//! [`Queue`] hides how references are filed in epochs and recognised as stale (see
//! [`epochs`](super::epochs)); [`WeighedQueue`] also keeps the sum of its entries' weights. A
//! policy with two queues gives each a number, which is kept in the bits above the tag.
//!
//! ```text
//! bit 7     5+n      5       4   0
//!    [policy's][queue number][tag]     tag 0: in no queue
//! ```

use super::epochs::{EpochRing, TAG_BITS, TAG_MASK};
use crate::{Budget, Cells, Eviction, Slot};
use alloc::vec::Vec;

/// Bits used by the queue of a policy with one queue: the tag.
pub const ONE_QUEUE: u8 = TAG_MASK;
/// Bits used by the queues of a policy with two: the tag and one bit of number.
pub const TWO_QUEUES: u8 = TAG_MASK | 1 << TAG_BITS;

/// Bits of an entry whose low byte holds the tag and the number of the queue that the entry is in.
pub trait Filed: Copy + Default {
    /// Returns the byte with the tag and the number. The policy may use its other bits.
    fn filing(self) -> u8;
    /// Returns the same bits, with those bits of the byte replaced that `mask` selects.
    fn with_filing(self, filing: u8, mask: u8) -> Self;
}

impl Filed for u8 {
    #[inline]
    fn filing(self) -> u8 {
        self
    }
    #[inline]
    fn with_filing(self, filing: u8, mask: u8) -> u8 {
        self & !mask | filing
    }
}

impl Filed for u16 {
    #[inline]
    fn filing(self) -> u8 {
        self as u8
    }
    #[inline]
    fn with_filing(self, filing: u8, mask: u8) -> u16 {
        self & !u16::from(mask) | u16::from(filing)
    }
}

/// Returns the number of the queue that an entry with these bits is in, if it is in one.
#[inline]
pub fn queue_of<const MASK: u8>(bits: impl Filed) -> usize {
    usize::from((bits.filing() & MASK) >> TAG_BITS)
}

/// A queue of entries in the order in which they were pushed.
#[derive(Clone, Debug)]
pub struct Queue<const MASK: u8 = ONE_QUEUE> {
    refs: EpochRing,
    /// Entries in the queue.
    len: usize,
    /// Weight of the queue when it is full.
    full_weight: u64,
    /// The number of the queue, shifted to its position above the tag.
    number: u8,
}

/// Whether a reference with this tag stands for the entry at `slot`, which is in queue `number`.
#[inline]
fn is_filed<const MASK: u8, M: Filed>(
    cells: &impl Cells<M>,
    slot: Slot,
    number: u8,
    tag: u8,
) -> bool {
    cells.is_live(slot) && cells.get(slot).filing() & MASK == number | tag
}

impl<const MASK: u8> Queue<MASK> {
    /// Creates an empty queue of this number that weighs `full_weight` when it is full.
    pub fn new(number: u8, full_weight: u64) -> Self {
        let number = number << TAG_BITS;
        assert_eq!(
            number & !MASK,
            0,
            "the number fits into the bits left to the queues"
        );
        assert_eq!(MASK & TAG_MASK, TAG_MASK, "the mask covers the tag");
        Queue {
            refs: EpochRing::new(),
            len: 0,
            full_weight,
            number,
        }
    }

    /// Sets the weight of the full queue, from which the weight of later epochs is computed.
    pub fn resize(&mut self, full_weight: u64) {
        self.full_weight = full_weight;
    }

    /// Sets the weight of the entries pushed last that [`Queue::young_tags`] distinguishes (see
    /// [`epochs`](super::epochs)).
    pub fn set_window(&mut self, weight: u64) {
        self.refs.set_window(weight);
    }

    /// Returns the set of the tags of the entries that were pushed within the window.
    #[inline]
    pub fn young_tags(&self) -> u32 {
        self.refs.young_tags()
    }

    /// Number of entries in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the queue holds no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an entry that is in no queue, and sets the policy's own bits of it to 0.
    #[inline]
    pub fn push<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        self.push_with(cells, slot, M::default());
    }

    /// Appends an entry that is in no queue and sets the policy's own bits of it.
    #[inline]
    pub fn push_with<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot, own: M) {
        self.file(cells, slot, own, self.full_weight);
        self.compact(cells);
    }

    /// Appends an entry that was popped from this queue or its twin. No stale reference is dropped,
    /// because the number of references does not grow: a batch of these examines no other entry.
    pub fn put_back<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot, own: M) {
        self.file(cells, slot, own, self.full_weight);
    }

    #[inline]
    fn file<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot, own: M, full_weight: u64) {
        debug_assert!(cells.is_live(slot), "only a live entry is filed");
        let tag = self.refs.push(slot, cells.weight(slot), full_weight);
        cells.set(slot, own.with_filing(self.number | tag, MASK));
        self.len += 1;
    }

    /// Removes the oldest reference and returns its entry; `None` if the reference was stale, which
    /// costs the caller one step of its budget. The entry keeps its bits until it is pushed again.
    /// Panics if the queue is empty.
    #[inline]
    pub fn pop<M: Filed>(&mut self, cells: &impl Cells<M>) -> Option<Slot> {
        let (slot, tag) = self.refs.pop().expect("every entry held has a reference");
        if !is_filed::<MASK, M>(cells, slot, self.number, tag) {
            return None;
        }
        debug_assert!(
            self.len > 0,
            "a reference stands for an entry that is counted"
        );
        self.len -= 1;
        Some(slot)
    }

    /// Removes and returns the oldest entry. Returns `Err` with the result of the eviction if the
    /// queue is empty or the budget ran out. A stale reference takes a step, as an entry does.
    #[inline]
    pub fn next<M: Filed>(
        &mut self,
        cells: &impl Cells<M>,
        budget: &mut Budget,
    ) -> Result<Slot, Eviction> {
        while self.len > 0 {
            if !budget.spend() {
                return Err(Eviction::Again);
            }
            if let Some(slot) = self.pop(cells) {
                return Ok(slot);
            }
        }
        Err(Eviction::Empty)
    }

    /// Evicts the oldest entry.
    #[inline]
    pub fn evict_oldest<M: Filed>(
        &mut self,
        cells: &mut impl Cells<M>,
        budget: &mut Budget,
    ) -> Eviction {
        match self.next(cells, budget) {
            Ok(slot) => {
                cells.set(slot, M::default());
                Eviction::Victim(slot)
            }
            Err(none) => none,
        }
    }

    /// Removes an entry that leaves for a reason other than its age. Its bits become 0.
    pub fn remove<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        let filing = cells.get(slot).filing() & MASK;
        debug_assert_ne!(filing & TAG_MASK, 0, "removed without having been inserted");
        debug_assert_eq!(filing & !TAG_MASK, self.number, "it is in another queue");
        cells.set(slot, M::default());
        self.len -= 1;
        if self.len == 0 {
            self.refs.clear();
            return;
        }
        self.compact(cells);
    }

    /// Handles the relocation of an entry to the slot `new`, where its bits already are.
    pub fn moved<M: Filed>(&mut self, cells: &impl Cells<M>, new: Slot) {
        let tag = cells.get(new).filing() & TAG_MASK;
        debug_assert_ne!(tag, 0, "moved without having been inserted");
        self.refs.push_in(tag, new);
        self.compact(cells);
    }

    /// Drops some stale references if there are too many of them.
    #[inline]
    fn compact<M: Filed>(&mut self, cells: &impl Cells<M>) {
        let number = self.number;
        self.refs.compact(self.len, |slot, tag| {
            is_filed::<MASK, M>(cells, slot, number, tag)
        });
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.refs.heap_bytes()
    }

    /// Panics if the structure is inconsistent in itself or with the host. Returns the entries, in
    /// the order of their slots.
    pub fn check<M: Filed>(&self, cells: &impl Cells<M>) -> Vec<Slot> {
        self.refs.check();
        let slots = self
            .refs
            .live_slots(|slot, tag| is_filed::<MASK, M>(cells, slot, self.number, tag));
        assert_eq!(slots.len(), self.len, "every entry held has a reference");
        slots
    }
}

/// A queue that keeps the sum of its entries' weights.
#[derive(Clone, Debug)]
pub struct WeighedQueue<const MASK: u8 = TWO_QUEUES> {
    queue: Queue<MASK>,
    weight: u64,
}

impl<const MASK: u8> WeighedQueue<MASK> {
    /// Creates an empty queue of this number that weighs `full_weight` when it is full.
    pub fn new(number: u8, full_weight: u64) -> Self {
        WeighedQueue {
            queue: Queue::new(number, full_weight),
            weight: 0,
        }
    }

    /// Sets the weight of the full queue, from which the weight of later epochs is computed.
    pub fn resize(&mut self, full_weight: u64) {
        self.queue.resize(full_weight);
    }

    /// Number of entries in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        self.queue.len
    }

    /// Whether the queue holds no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.len == 0
    }

    /// Sum of the entries' weights.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// [`Queue::set_window`].
    pub fn set_window(&mut self, weight: u64) {
        self.queue.set_window(weight);
    }

    /// [`Queue::young_tags`].
    #[inline]
    pub fn young_tags(&self) -> u32 {
        self.queue.young_tags()
    }

    /// [`Queue::push`].
    #[inline]
    pub fn push<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        self.push_with(cells, slot, M::default());
    }

    /// [`Queue::push_with`].
    #[inline]
    pub fn push_with<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot, own: M) {
        let full_weight = self.queue.full_weight.max(self.weight);
        self.queue.file(cells, slot, own, full_weight);
        self.queue.compact(cells);
        self.weight += u64::from(cells.weight(slot));
    }

    /// [`Queue::pop`].
    #[inline]
    pub fn pop<M: Filed>(&mut self, cells: &impl Cells<M>) -> Option<Slot> {
        let slot = self.queue.pop(cells)?;
        let weight = u64::from(cells.weight(slot));
        debug_assert!(weight <= self.weight, "the entry is part of the sum");
        self.weight -= weight;
        Some(slot)
    }

    /// [`Queue::remove`].
    pub fn remove<M: Filed>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        self.weight -= u64::from(cells.weight(slot));
        self.queue.remove(cells, slot);
    }

    /// Handles a change of an entry's weight from `old_weight` to what the host now returns.
    pub fn reweigh<M: Filed>(&mut self, cells: &impl Cells<M>, slot: Slot, old_weight: u32) {
        let old_weight = u64::from(old_weight);
        debug_assert!(old_weight <= self.weight, "the entry is part of the sum");
        let others = self.weight - old_weight;
        self.weight = others + u64::from(cells.weight(slot));
    }

    /// [`Queue::moved`].
    pub fn moved<M: Filed>(&mut self, cells: &impl Cells<M>, new: Slot) {
        self.queue.moved(cells, new);
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes()
    }

    /// Panics if the structure is inconsistent in itself or with the host.
    pub fn check<M: Filed>(&self, cells: &impl Cells<M>) {
        let slots = self.queue.check(cells);
        let weights = slots.iter().map(|&slot| u64::from(cells.weight(slot)));
        assert_eq!(weights.sum::<u64>(), self.weight);
    }
}
