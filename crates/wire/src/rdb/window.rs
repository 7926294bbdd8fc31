//! The part of a file that has been read and not yet used.

use crate::dump::{Body, DumpError, Read, crc64_after};
use std::io;

/// Size of the buffer if no string is longer.
pub const WINDOW_BYTES: usize = 128 << 10;

/// Sum to which packed parts of a value may expand for each byte of it, and in addition. LZF
/// expands three bytes to at most 264.
const EXPANSION: u64 = 88;
const EXPANSION_FREE_BYTES: u64 = 1 << 20;

/// Unread bytes of a source, which are read into a buffer when they are needed.
#[derive(Debug)]
pub(super) struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    /// Range of the buffer that is unread.
    start: usize,
    end: usize,
    /// Offset in the source of the first byte of the buffer.
    base: u64,
    /// Checksum of all bytes before `summed`, a position in the buffer.
    sum: u64,
    summed: usize,
    /// Offset at which the current value begins, and the bytes to which its parts have expanded.
    value_start: u64,
    expanded: u64,
    /// Whether the source has ended, or the error with which it has.
    is_over: bool,
    failure: Option<io::Error>,
}

impl<R: io::Read> Window<R> {
    pub fn new(source: R) -> Self {
        Window {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            base: 0,
            sum: 0,
            summed: 0,
            value_start: 0,
            expanded: 0,
            is_over: false,
            failure: None,
        }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Returns the size of the buffer in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Marks the beginning of a value, for the limit of its expansion.
    pub fn begin_value(&mut self) {
        (self.value_start, self.expanded) = (self.offset(), 0);
    }

    /// Returns the checksum of all bytes before the next one.
    pub fn checksum(&mut self) -> u64 {
        self.sum = crc64_after(self.sum, &self.buffer[self.summed..self.start]);
        self.summed = self.start;
        self.sum
    }

    /// Whether the source has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes the error with which the source ended.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Returns the source and the bytes that were read from it and not used.
    pub fn into_parts(self) -> (R, Vec<u8>) {
        (self.source, self.buffer[self.start..self.end].to_vec())
    }

    /// Reads until at least `count` bytes are in the buffer.
    #[cold]
    fn fill(&mut self, count: usize) -> Read<()> {
        self.checksum();
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        (self.start, self.summed) = (0, 0);
        if self.buffer.len() > WINDOW_BYTES && count.max(self.end) <= WINDOW_BYTES {
            self.buffer.truncate(WINDOW_BYTES);
            self.buffer.shrink_to_fit();
        }
        while self.end < count {
            if self.end == self.buffer.len() {
                // The buffer at most doubles, so that a stated length costs no memory before its
                // bytes have arrived.
                let wanted = count.min(2 * self.end).max(WINDOW_BYTES);
                self.buffer.reserve_exact(wanted - self.end);
                self.buffer.resize(wanted, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.is_over = true;
                    return Err(DumpError::Body);
                }
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    return Err(DumpError::Body);
                }
            }
        }
        Ok(())
    }
}

impl<R: io::Read> Body for Window<R> {
    #[inline]
    fn bytes(&mut self, count: usize) -> Read<&[u8]> {
        if self.end - self.start < count {
            self.fill(count)?;
        }
        let start = self.start;
        self.start += count;
        Ok(&self.buffer[start..self.start])
    }

    fn expand(&mut self, packed: usize, whole: usize) -> Read<()> {
        self.expanded = self.expanded.saturating_add(whole as u64);
        let present = (self.offset() - self.value_start).saturating_add(packed as u64);
        let allowed = present.saturating_mul(EXPANSION);
        (self.expanded <= allowed.saturating_add(EXPANSION_FREE_BYTES))
            .then_some(())
            .ok_or(DumpError::Body)
    }
}
