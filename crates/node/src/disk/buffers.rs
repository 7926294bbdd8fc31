//! Reusable buffers for content that is read from disk and sent.
//!
//! Allocating a buffer for each read would cost more than the read itself: the allocator returns it
//! to the system and gets it back page by page, and it is zeroed before it is written. In addition,
//! a recently used buffer is still in the CPU cache.

use bytes::Bytes;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Size of a buffer in bytes: large enough for few system calls, and small enough to stay in the
/// processor's cache between the read and the write.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of unused buffers that are kept: 8 MiB. A read that finds none allocates one.
const FREE_MAX: usize = (8 << 20) / BUFFER_BYTES;

/// Unused buffers. The last one returned is used first.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Box<[u8]>>>);

/// Buffer, which is returned to the unused ones when it is dropped if it has [`BUFFER_BYTES`].
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    /// Range of the buffer that readers see.
    part: Range<usize>,
    home: Arc<Buffers>,
}

impl Buffers {
    fn free(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns a buffer with arbitrary contents for a read of `length` bytes. A short read has a
    /// buffer of its own, which is freed afterwards, so that memory that counts little is little.
    pub fn take(self: &Arc<Self>, length: usize) -> Buffer {
        let is_short = length <= BUFFER_BYTES / 2;
        let bytes = (!is_short).then(|| self.free().pop()).flatten();
        let size = if is_short { length } else { BUFFER_BYTES };
        let bytes = bytes.unwrap_or_else(|| vec![0; size].into());
        Buffer {
            part: 0..bytes.len(),
            bytes,
            home: self.clone(),
        }
    }
}

impl Buffer {
    /// Returns the first `length` bytes for writing.
    pub fn first_mut(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[..length]
    }

    /// Returns the first `length` bytes.
    pub fn first(&self, length: usize) -> &[u8] {
        &self.bytes[..length]
    }

    /// Converts a part of the buffer to shareable bytes without a copy.
    pub fn into_bytes(mut self, part: Range<usize>) -> Bytes {
        assert!(part.start <= part.end);
        assert!(part.end <= self.bytes.len());
        self.part = part;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.part.clone()]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut free = self.home.free();
        if bytes.len() == BUFFER_BYTES && free.len() < FREE_MAX {
            free.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_all_of_its_bytes_are_dropped() {
        let buffers = Arc::<Buffers>::default();
        let mut buffer = buffers.take(BUFFER_BYTES);
        buffer.first_mut(4).copy_from_slice(b"abcd");
        assert_eq!(buffer.first(4), b"abcd");
        let bytes = buffer.into_bytes(1..4);
        let slice = bytes.slice(1..);
        drop(bytes);
        assert_eq!(buffers.free().len(), 0);
        assert_eq!(slice, "cd");
        drop(slice);
        assert_eq!(buffers.free().len(), 1);
        assert_eq!(buffers.take(BUFFER_BYTES).first(4), b"abcd");
        drop(buffers.take(4));
        assert_eq!(buffers.free().len(), 1);
    }

    #[test]
    fn a_bounded_number_of_buffers_is_kept() {
        let buffers = Arc::<Buffers>::default();
        let taken: Vec<Buffer> = (0..FREE_MAX + 3)
            .map(|_| buffers.take(BUFFER_BYTES))
            .collect();
        drop(taken);
        assert_eq!(buffers.free().len(), FREE_MAX);
    }
}
