//! A long list: chunks grouped in blocks, each with the number of its elements.
//!
//! There are two levels because a list of a gigabyte has more than a hundred thousand chunks of 8
//! KiB. Finding an element or inserting a chunk passes at most about two thousand blocks and the
//! chunks of one block.

use super::End;
use super::chunk::{Chunk, ChunkLimit, Entries, element_bytes};
use crate::collection::{Representation, Scene};
use crate::types::form::LargeForm;
use std::collections::VecDeque;

/// Maximum number of chunks in a block.
const BLOCK_CHUNKS: usize = 64;

#[derive(Debug, Default)]
struct Block {
    chunks: VecDeque<Chunk>,
    len: usize,
}

impl Block {
    fn slots(&self) -> usize {
        self.chunks.capacity()
    }
}

/// Chunks in blocks.
#[derive(Debug, Default)]
pub(crate) struct Large {
    blocks: VecDeque<Block>,
    len: usize,
    /// Number of bytes of all chunks' buffers.
    buffer_bytes: usize,
    /// Number of chunks for which all blocks together have capacity.
    slots: usize,
}

/// Position of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    block: usize,
    chunk: usize,
}

const FIRST: Place = Place { block: 0, chunk: 0 };

impl Place {
    /// Returns the position after this one in the same block.
    fn behind(self) -> Place {
        Place {
            chunk: self.chunk + 1,
            ..self
        }
    }
}

impl Large {
    /// Creates a list of one chunk.
    pub fn of(chunk: Chunk) -> Large {
        let mut large = Large::default();
        large.put(FIRST, chunk);
        large
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the chunk of a list that has a single chunk; `None` for other lists.
    pub fn only(&self) -> Option<&Chunk> {
        match (self.blocks.len(), self.blocks.front()) {
            (1, Some(block)) if block.chunks.len() == 1 => block.chunks.front(),
            _ => None,
        }
    }

    fn chunk(&self, place: Place) -> &Chunk {
        &self.blocks[place.block].chunks[place.chunk]
    }

    /// Returns the position of the chunk at an end; `None` for an empty list.
    fn at_end(&self, end: End) -> Option<Place> {
        match end {
            End::Left => (!self.blocks.is_empty()).then_some(FIRST),
            End::Right => {
                let block = self.blocks.len().checked_sub(1)?;
                let chunk = self.blocks[block].chunks.len() - 1;
                Some(Place { block, chunk })
            }
        }
    }

    /// Returns the position of the next chunk in the direction away from the end `from`; `None` if
    /// there is no further chunk.
    fn beside(&self, place: Place, from: End) -> Option<Place> {
        match from {
            End::Left if place.chunk + 1 < self.blocks[place.block].chunks.len() => Some(Place {
                chunk: place.chunk + 1,
                ..place
            }),
            End::Left => (place.block + 1 < self.blocks.len()).then(|| Place {
                block: place.block + 1,
                chunk: 0,
            }),
            End::Right if place.chunk > 0 => Some(Place {
                chunk: place.chunk - 1,
                ..place
            }),
            End::Right => {
                let block = place.block.checked_sub(1)?;
                let chunk = self.blocks[block].chunks.len() - 1;
                Some(Place { block, chunk })
            }
        }
    }

    /// Returns the chunk of an element and the element's index in it. Searches from the nearer end.
    fn locate(&self, index: usize) -> (Place, usize) {
        debug_assert!(index < self.len);
        let (mut block, mut index) = if index < self.len / 2 {
            (0, index)
        } else {
            // Begins with the number of all elements and subtracts those of each block from the
            // right.
            let (mut block, mut before) = (self.blocks.len(), self.len);
            while before > index {
                block -= 1;
                before -= self.blocks[block].len;
            }
            (block, index - before)
        };
        while index >= self.blocks[block].len {
            index -= self.blocks[block].len;
            block += 1;
        }
        let mut chunk = 0;
        for at in &self.blocks[block].chunks {
            if index < at.len() {
                break;
            }
            index -= at.len();
            chunk += 1;
        }
        (Place { block, chunk }, index)
    }

    /// Changes one chunk and updates the counts of elements and bytes.
    fn edit<R>(&mut self, place: Place, edit: impl FnOnce(&mut Chunk) -> R) -> R {
        let block = &mut self.blocks[place.block];
        let chunk = &mut block.chunks[place.chunk];
        let (len, bytes) = (chunk.len(), chunk.heap_bytes());
        let result = edit(chunk);
        block.len = block.len + chunk.len() - len;
        self.len = self.len + chunk.len() - len;
        self.buffer_bytes = self.buffer_bytes + chunk.heap_bytes() - bytes;
        result
    }

    /// Inserts a chunk before the one at a position and returns its position. A full block is split
    /// at its end or in its middle.
    fn put(&mut self, place: Place, chunk: Chunk) -> Place {
        let Place {
            mut block,
            chunk: mut at,
        } = place;
        let chunks = self.blocks.get(block).map(|block| block.chunks.len());
        if chunks.is_none_or(|chunks| chunks == BLOCK_CHUNKS) {
            match at {
                0 if block == 0 => self.blocks.push_front(Block::default()),
                BLOCK_CHUNKS if block + 1 == self.blocks.len() => {
                    self.blocks.push_back(Block::default());
                    (block, at) = (block + 1, 0);
                }
                _ => {
                    self.split_block(block);
                    if at > BLOCK_CHUNKS / 2 {
                        (block, at) = (block + 1, at - BLOCK_CHUNKS / 2);
                    }
                }
            }
        }
        let into = &mut self.blocks[block];
        let slots = into.slots();
        self.buffer_bytes += chunk.heap_bytes();
        self.len += chunk.len();
        into.len += chunk.len();
        into.chunks.insert(at, chunk);
        self.slots = self.slots + into.slots() - slots;
        Place { block, chunk: at }
    }

    fn split_block(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        let slots = block.slots();
        let chunks = block.chunks.split_off(BLOCK_CHUNKS / 2);
        let len = chunks.iter().map(Chunk::len).sum();
        block.len -= len;
        let tail = Block { chunks, len };
        self.slots = self.slots + block.slots() + tail.slots() - slots;
        self.blocks.insert(at + 1, tail);
    }

    /// Removes a chunk, and its block if that becomes empty.
    fn take(&mut self, place: Place) -> Chunk {
        let block = &mut self.blocks[place.block];
        let chunk = block.chunks.remove(place.chunk).expect("it is present");
        self.buffer_bytes -= chunk.heap_bytes();
        self.len -= chunk.len();
        block.len -= chunk.len();
        if block.chunks.is_empty() {
            let block = self.blocks.remove(place.block).expect("it is present");
            self.slots -= block.slots();
            if self.blocks.capacity() > 4 * self.blocks.len() + 4 {
                self.blocks.shrink_to(2 * self.blocks.len());
            }
        }
        chunk
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, value: &[u8], limit: ChunkLimit) {
        let last = self.at_end(end);
        if let Some(last) = last {
            if self.chunk(last).takes_at(end, value.len(), limit) {
                return self.edit(last, |chunk| chunk.push(end, value, limit));
            }
            self.edit(last, Chunk::seal);
        }
        let mut chunk = Chunk::default();
        chunk.push(end, value, limit);
        let place = match end {
            End::Left => FIRST,
            End::Right => last.map_or(FIRST, Place::behind),
        };
        self.put(place, chunk);
    }

    /// Passes the element at an end to `pass` and removes it. Returns false if the list is empty.
    pub fn pop(&mut self, end: End, pass: impl FnOnce(&[u8])) -> bool {
        let Some(place) = self.at_end(end) else {
            return false;
        };
        let mut entries = self.chunk(place).entries();
        let (element, index) = match end {
            End::Left => (entries.next(), 0),
            End::Right => (entries.next_back(), entries.len()),
        };
        pass(element.expect("no chunk is empty"));
        self.remove_at(place, index);
        true
    }

    /// Removes the element at an index of a chunk, and the chunk if it becomes empty.
    fn remove_at(&mut self, place: Place, index: usize) {
        self.edit(place, |chunk| chunk.remove(index, 1));
        if self.chunk(place).len() == 0 {
            self.take(place);
        }
    }

    /// Returns the elements from `index` on, in the direction away from the end `from`. `index`
    /// counts from the left in either case.
    pub fn iter(&self, from: End, index: usize) -> Iter<'_> {
        if index >= self.len {
            return Iter::of(Entries::new(&[], 0), from);
        }
        let (place, index) = self.locate(index);
        let entries = self.chunk(place).entries();
        let entries = match from {
            End::Left => entries.from(index),
            End::Right => entries.before(index + 1),
        };
        Iter {
            rest: Some((self, place)),
            ..Iter::of(entries, from)
        }
    }

    /// Replaces the element at an index, which must be present.
    pub fn set(&mut self, index: usize, value: &[u8], limit: ChunkLimit) {
        let (place, within) = self.locate(index);
        let chunk = self.chunk(place);
        let old = chunk.entries().from(within).next().expect("it is present");
        let bytes = chunk.bytes() - element_bytes(old.len()) + element_bytes(value.len());
        if chunk.len() == 1 {
            self.edit(place, |chunk| *chunk = Chunk::alone(value));
        } else if limit.allows(chunk.len(), bytes) {
            self.edit(place, |chunk| {
                chunk.insert(within, value);
                chunk.remove(within + 1, 1);
            });
        } else {
            self.remove_at(place, within);
            self.insert(index, value, limit);
        }
    }

    /// Inserts an element before the one at an index.
    pub fn insert(&mut self, index: usize, value: &[u8], limit: ChunkLimit) {
        if index == self.len {
            return self.push(End::Right, value, limit);
        }
        let (place, within) = self.locate(index);
        if self.chunk(place).takes(value.len(), limit) {
            return self.edit(place, |chunk| chunk.insert(within, value));
        }
        if within == 0 {
            return self.insert_between(place, value, limit);
        }
        let tail = self.edit(place, |chunk| chunk.split(within));
        let tail = self.put(place.behind(), tail);
        self.insert_between(tail, value, limit);
    }

    /// Inserts an element between a chunk and its left neighbour. The element is added to one of
    /// the two or to a new chunk.
    fn insert_between(&mut self, place: Place, value: &[u8], limit: ChunkLimit) {
        if let Some(before) = self.beside(place, End::Right)
            && self.chunk(before).takes(value.len(), limit)
        {
            let len = self.chunk(before).len();
            self.edit(before, |chunk| chunk.insert(len, value));
        } else if self.chunk(place).takes(value.len(), limit) {
            self.edit(place, |chunk| chunk.insert(0, value));
        } else {
            self.put(place, Chunk::alone(value));
        }
    }

    /// Removes `count` elements from an end. Whole blocks of chunks are moved to `waste`, so that
    /// the caller frees them in steps.
    pub fn cut(&mut self, end: End, mut count: usize, waste: &mut Large) {
        debug_assert!(count <= self.len);
        while count > 0 {
            let place = self.at_end(end).expect("the list has that many elements");
            let block = &self.blocks[place.block];
            if block.len <= count {
                count -= block.len;
                self.cut_block(place.block, waste);
                continue;
            }
            let len = self.chunk(place).len();
            if len <= count {
                self.take(place);
            } else {
                let first = match end {
                    End::Left => 0,
                    End::Right => len - count,
                };
                self.edit(place, |chunk| chunk.remove(first, count));
            }
            count -= len.min(count);
        }
    }

    fn cut_block(&mut self, at: usize, waste: &mut Large) {
        let block = self.blocks.remove(at).expect("it is present");
        let bytes: usize = block.chunks.iter().map(Chunk::heap_bytes).sum();
        self.len -= block.len;
        self.slots -= block.slots();
        self.buffer_bytes -= bytes;
        waste.len += block.len;
        waste.slots += block.slots();
        waste.buffer_bytes += bytes;
        waste.blocks.push_back(block);
    }

    /// Removes up to `max` elements equal to `value`, beginning at an end. Returns their number.
    pub fn remove_equal(&mut self, value: &[u8], end: End, max: usize, limit: ChunkLimit) -> usize {
        let mut removed = 0;
        let mut next = self.at_end(end);
        while let Some(place) = next {
            if removed == max {
                break;
            }
            let gone = self.edit(place, |chunk| chunk.remove_equal(value, end, max - removed));
            removed += gone;
            next = match end {
                End::Left if gone > 0 => self.merge_into_left(place, limit),
                End::Right if gone > 0 => {
                    let left = self.beside(place, End::Right);
                    self.merge_into_left(place, limit);
                    left
                }
                _ => self.beside(place, end),
            };
        }
        removed
    }

    /// Merges a chunk that has shrunk with the one on its left if both together fill at most half a
    /// chunk; removes it if it is empty. Returns the position of the chunk on its right.
    fn merge_into_left(&mut self, place: Place, limit: ChunkLimit) -> Option<Place> {
        let chunk = self.chunk(place);
        let (len, bytes) = (chunk.len(), chunk.bytes());
        let left = self.beside(place, End::Right).filter(|left| {
            let left = self.chunk(*left);
            limit.half().allows(left.len() + len, left.bytes() + bytes)
        });
        if len > 0 && left.is_none() {
            return self.beside(place, End::Left);
        }
        let chunk = self.take(place);
        if len > 0
            && let Some(left) = left
        {
            self.edit(left, |into| into.append(&chunk));
        }
        // The position is now that of the chunk on its right, unless the merged chunk was the last
        // of its block.
        let block = self.blocks.get(place.block)?;
        if place.chunk < block.chunks.len() {
            return Some(place);
        }
        let next = Place {
            block: place.block + 1,
            chunk: 0,
        };
        (next.block < self.blocks.len()).then_some(next)
    }
}

impl LargeForm for Large {
    fn duplicate(&self, _scene: &Scene<'_>) -> Large {
        let mut large = Large::default();
        for chunk in self.blocks.iter().flat_map(|block| &block.chunks) {
            let last = large.at_end(End::Right);
            large.put(
                last.map_or(FIRST, Place::behind),
                Chunk::of(chunk.entries()),
            );
        }
        large
    }
}

impl Representation for Large {
    fn is_void(&self) -> bool {
        self.len == 0
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Large>()
            + self.buffer_bytes
            + self.slots * size_of::<Chunk>()
            + self.blocks.capacity() * size_of::<Block>()
    }

    fn dismantle(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            let Some(place) = self.at_end(End::Right) else {
                return false;
            };
            self.take(place);
        }
        !self.blocks.is_empty()
    }

    fn check(&self) {
        let (mut len, mut bytes, mut slots) = (0, 0, 0);
        for block in &self.blocks {
            assert!((1..=BLOCK_CHUNKS).contains(&block.chunks.len()));
            let mut block_len = 0;
            for chunk in &block.chunks {
                chunk.check();
                assert!(chunk.len() > 0, "an empty chunk is dropped");
                block_len += chunk.len();
                bytes += chunk.heap_bytes();
            }
            assert_eq!(block_len, block.len);
            (len, slots) = (len + block_len, slots + block.slots());
        }
        assert_eq!(
            (len, bytes, slots),
            (self.len, self.buffer_bytes, self.slots)
        );
    }
}

#[cfg(test)]
impl Large {
    /// Panics if a chunk exceeds the limit.
    pub fn check_limit(&self, limit: ChunkLimit) {
        for chunk in self.blocks.iter().flat_map(|block| &block.chunks) {
            assert!(chunk.len() == 1 || limit.allows(chunk.len(), chunk.bytes()));
        }
    }
}

/// Iterator over elements in the direction away from an end.
#[derive(Debug)]
pub struct Iter<'a> {
    entries: Entries<'a>,
    rest: Option<(&'a Large, Place)>,
    from: End,
}

impl<'a> Iter<'a> {
    pub(super) fn of(entries: Entries<'a>, from: End) -> Iter<'a> {
        Iter {
            entries,
            rest: None,
            from,
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let next = match self.from {
                End::Left => self.entries.next(),
                End::Right => self.entries.next_back(),
            };
            if next.is_some() {
                return next;
            }
            let (large, place) = self.rest?;
            let place = large.beside(place, self.from)?;
            self.entries = large.chunk(place).entries();
            self.rest = Some((large, place));
        }
    }
}
