//! The bytes of the feed in blocks, addressed by their position in the history.

use std::collections::VecDeque;

/// Size of a block in bytes. A longer command makes its block longer.
const BLOCK_BYTES: usize = 64 << 10;
/// Memory of an empty block: a command that begins before the end of the block and is shorter than
/// the difference does not move it.
const EMPTY_BYTES: usize = BLOCK_BYTES + 1024;
/// Maximum number of blocks kept for reuse. Under a load that the file can keep up with, its thread
/// takes the bytes of up to 16 blocks at once.
const SPARE_MAX: usize = 32;

/// Consecutive bytes in blocks.
#[derive(Default)]
pub struct Blocks {
    /// Blocks with the positions of their first bytes.
    all: VecDeque<(u64, Vec<u8>)>,
    /// Position after the last byte of the block before the last, or the beginning.
    base: u64,
    has_new: bool,
    /// Blocks that all readers have taken. They are used again, because each page of new memory
    /// costs a fault, and each freed one is unmapped on all cores.
    spare: Vec<Vec<u8>>,
}

impl Blocks {
    /// Creates an empty sequence that begins at a position.
    pub fn at(position: u64) -> Blocks {
        Blocks {
            base: position,
            ..Blocks::default()
        }
    }

    /// Returns the position of the first byte.
    pub fn start(&self) -> u64 {
        self.all.front().map_or(self.base, |(start, _)| *start)
    }

    /// Returns the position after the last byte.
    pub fn end(&self) -> u64 {
        let last = self.all.back();
        last.map_or(self.base, |(start, bytes)| start + bytes.len() as u64)
    }

    /// Returns the last block for an append.
    pub fn last(&mut self) -> &mut Vec<u8> {
        let is_full = |(_, bytes): &(u64, Vec<u8>)| bytes.len() >= BLOCK_BYTES;
        if self.all.back().is_none_or(is_full) {
            self.base = self.end();
            let empty = self.spare.pop();
            let empty = empty.unwrap_or_else(|| Vec::with_capacity(EMPTY_BYTES));
            self.all.push_back((self.base, empty));
            self.has_new = true;
        }
        &mut self.all.back_mut().expect("there is a block").1
    }

    /// Whether a block was added since the last call.
    pub fn has_new_block(&mut self) -> bool {
        std::mem::take(&mut self.has_new)
    }

    /// Returns the bytes of one block, beginning at a position; empty at the end.
    pub fn from(&self, position: u64) -> &[u8] {
        let at = self
            .all
            .partition_point(|(start, bytes)| start + bytes.len() as u64 <= position);
        self.all.get(at).map_or(&[], |(start, bytes)| {
            let skipped = position.saturating_sub(*start) as usize;
            bytes.get(skipped..).unwrap_or_default()
        })
    }

    /// Frees the blocks before a position. The last one is kept.
    pub fn free_before(&mut self, position: u64) {
        while self.all.len() > 1
            && let Some((start, bytes)) = self.all.front()
            && start + bytes.len() as u64 <= position
        {
            let (_, mut bytes) = self.all.pop_front().expect("it was found");
            if bytes.capacity() == EMPTY_BYTES && self.spare.len() < SPARE_MAX {
                bytes.clear();
                self.spare.push(bytes);
            }
        }
    }

    /// Returns the blocks kept for reuse, so that the caller can free them.
    pub fn take_spare(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.spare)
    }

    /// Returns the bytes on the heap.
    pub fn heap_bytes(&self) -> u64 {
        let bytes = |(_, bytes): &(u64, Vec<u8>)| bytes.capacity() as u64;
        let spare = self.spare.len() * EMPTY_BYTES;
        self.all.iter().map(bytes).sum::<u64>() + spare as u64
    }
}
