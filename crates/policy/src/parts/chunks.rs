//! A growing array in chunks: no call copies the items, as a doubling vector would.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Number of items in a chunk.
const CHUNK: usize = 64;

/// A growing array that never moves its items.
#[derive(Clone, Debug)]
pub struct Chunks<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
    len: usize,
}

impl<T: Copy> Default for Chunks<T> {
    fn default() -> Self {
        Chunks::new()
    }
}

impl<T: Copy> Chunks<T> {
    /// Creates an empty array; nothing is allocated before the first push.
    pub fn new() -> Self {
        Chunks {
            chunks: Vec::new(),
            len: 0,
        }
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the item at `index`, by value.
    #[inline]
    pub fn at(&self, index: usize) -> T {
        self.chunks[index / CHUNK][index % CHUNK]
    }

    /// Returns the item at `index` for writing.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }

    /// Appends an item.
    #[inline]
    pub fn push(&mut self, item: T) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(Box::new([item; CHUNK]));
        }
        self.len += 1;
        *self.at_mut(self.len - 1) = item;
    }

    /// Removes and returns the last item. A chunk is freed only when the one before it is half
    /// empty as well, so that an array whose length oscillates does not allocate each time.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let item = self.at(self.len);
        if self.len + CHUNK + CHUNK / 2 <= self.chunks.len() * CHUNK {
            self.chunks.pop();
        }
        Some(item)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.chunks.len() * size_of::<[T; CHUNK]>()
            + self.chunks.capacity() * size_of::<Box<[T; CHUNK]>>()
    }
}
