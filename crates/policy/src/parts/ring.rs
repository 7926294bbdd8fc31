//! A first-in-first-out queue of slots at 4 bytes each: chunks instead of one doubling buffer.
//!
//! A buffer that doubles costs up to twice its content and copies all of it in one call. Here a
//! push or a pop touches one chunk, a drained chunk is freed, and the slack is at most one chunk:
//! half of the content, and never more than 4 KiB.

use crate::Slot;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;

/// Smallest chunk, in slots: one cache line.
const CHUNK_MIN: usize = 16;
/// Largest chunk, in slots: one page.
const CHUNK_MAX: usize = 1024;

/// A FIFO of slots in chunks.
#[derive(Clone, Debug, Default)]
pub struct SlotRing {
    chunks: VecDeque<Box<[u32]>>,
    /// Position of the oldest slot in the first chunk.
    head: usize,
    /// Number of slots in the last chunk.
    tail: usize,
    len: usize,
    /// Sum of the chunks' lengths. It is kept because hosts read the number of bytes after every
    /// write.
    room: usize,
}

impl SlotRing {
    /// Creates an empty ring; nothing is allocated before the first push.
    pub fn new() -> Self {
        SlotRing::default()
    }

    /// Number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no slots.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a slot as the youngest.
    #[inline]
    pub fn push(&mut self, slot: Slot) {
        let has_room = self
            .chunks
            .back()
            .is_some_and(|last| self.tail < last.len());
        if !has_room {
            self.add_chunk();
        }
        let last = self
            .chunks
            .back_mut()
            .expect("a chunk with room was just seen to");
        last[self.tail] = slot.0;
        self.tail += 1;
        self.len += 1;
    }

    /// Removes and returns the oldest slot.
    #[inline]
    pub fn pop(&mut self) -> Option<Slot> {
        if self.len == 0 {
            return None;
        }
        let first = self
            .chunks
            .front()
            .expect("a ring that holds a slot has a chunk");
        let slot = Slot(first[self.head]);
        self.head += 1;
        self.len -= 1;
        if self.len == 0 {
            self.reset();
        } else if self.head == first.len() {
            self.room -= first.len();
            self.chunks.pop_front();
            self.head = 0;
        }
        Some(slot)
    }

    /// Returns the oldest slot without removing it.
    #[inline]
    pub fn peek(&self) -> Option<Slot> {
        if self.len == 0 {
            return None;
        }
        self.chunks.front().map(|first| Slot(first[self.head]))
    }

    /// Frees the unused room after the youngest slot, for a ring that is not expected to grow any
    /// more. Copies at most one chunk.
    pub fn shrink(&mut self) {
        let tail = self.tail;
        if self.len == 0 {
            self.chunks.clear();
            self.room = 0;
        } else if let Some(last) = self.chunks.back_mut()
            && last.len() - tail >= CHUNK_MIN
        {
            self.room -= last.len() - tail;
            let mut filled = core::mem::take(last).into_vec();
            filled.truncate(tail);
            *last = filled.into_boxed_slice();
        }
        self.chunks.shrink_to_fit();
    }

    /// Returns the slots from the oldest to the youngest.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let all = self.chunks.iter().flat_map(|chunk| chunk.iter());
        all.skip(self.head).take(self.len).map(|&slot| Slot(slot))
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.room * size_of::<u32>() + self.chunks.capacity() * size_of::<Box<[u32]>>()
    }

    #[cold]
    fn add_chunk(&mut self) {
        let size = (self.len / 2)
            .clamp(CHUNK_MIN, CHUNK_MAX)
            .next_multiple_of(CHUNK_MIN);
        if self.chunks.len() == self.chunks.capacity() {
            self.chunks.reserve_exact(self.chunks.len().max(1));
        }
        self.chunks.push_back(vec![0; size].into_boxed_slice());
        self.room += size;
        self.tail = 0;
    }

    /// Frees the chunks after the last slot was removed. A small chunk is kept, so that a ring
    /// whose length alternates between zero and one does not allocate each time.
    #[cold]
    fn reset(&mut self) {
        self.head = 0;
        self.tail = 0;
        self.chunks.truncate(1);
        if self
            .chunks
            .front()
            .is_some_and(|chunk| chunk.len() != CHUNK_MIN)
        {
            self.chunks.clear();
        }
        self.room = self.chunks.front().map_or(0, |chunk| chunk.len());
        self.chunks.shrink_to(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_deque(steps in proptest::collection::vec(0u32..8, 0..2000)) {
            let mut ring = SlotRing::new();
            let mut model = VecDeque::new();
            for (step, kind) in steps.into_iter().enumerate() {
                let slot = Slot(step as u32);
                match kind {
                    0..=3 => {
                        ring.push(slot);
                        model.push_back(slot);
                    }
                    4 => (0..40).for_each(|_| {
                        ring.push(slot);
                        model.push_back(slot);
                    }),
                    5 => ring.shrink(),
                    _ => (0..10).for_each(|_| assert_eq!(ring.pop(), model.pop_front())),
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.peek(), model.front().copied());
                let room: usize = ring.chunks.iter().map(|chunk| chunk.len()).sum();
                prop_assert_eq!(ring.room, room);
            }
            prop_assert!(ring.iter().eq(model.iter().copied()));
        }
    }

    #[test]
    fn costs_little_more_than_four_bytes_a_slot() {
        let mut ring = SlotRing::new();
        assert_eq!(ring.heap_bytes(), 0);
        for count in 1..=1_000_000usize {
            ring.push(Slot(count as u32));
            let spare = (count * 3 + 192).min(5120) + count / 16;
            assert!(
                ring.heap_bytes() <= count * 4 + spare,
                "{count}: {}",
                ring.heap_bytes()
            );
        }
        (0..1_000_000).for_each(|_| assert!(ring.pop().is_some()));
        assert!(ring.heap_bytes() <= 256, "{}", ring.heap_bytes());
    }
}
