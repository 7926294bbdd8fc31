//! The part of a file that has been read and not yet used.

use crate::dump::{Body, DumpError, Read, crc64_after};
use std::io;

/// Size of the buffer if no string is longer.
pub const WINDOW_BYTES: usize = 128 << 10;

/// Number of bytes to which packed parts of a value may expand, for each byte of it, and
/// additionally in total. LZF expands three bytes to at most 264.
const EXPANSION: u64 = 88;
const EXPANSION_FREE_BYTES: u64 = 1 << 20;

/// Beginning of bytes that stay in the buffer after they were read.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Position in the buffer.
    at: usize,
    /// Number of bytes that may stay.
    bytes_max: usize,
    /// Whether a read needed more.
    is_exceeded: bool,
}

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
    /// Beginning of the bytes that are kept, if any are.
    mark: Option<Mark>,
    /// Checksum of all bytes before `summed`, a position in the buffer.
    sum: u64,
    summed: usize,
    /// Offset at which the current value begins, and the number of bytes to which its parts have
    /// expanded.
    value_start: u64,
    expanded: u64,
    /// Whether the source has ended, or the error with which it ended.
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
            mark: None,
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
        self.sum_until(self.start);
        self.sum
    }

    fn sum_until(&mut self, position: usize) {
        self.sum = crc64_after(self.sum, &self.buffer[self.summed..position]);
        self.summed = position;
    }

    /// Keeps the bytes from the next one on, until [`Window::take_marked`] or [`Window::rewind`].
    /// A read that would keep more than `bytes_max` bytes and needs more of the source fails.
    pub fn mark(&mut self, bytes_max: usize) {
        self.mark = Some(Mark {
            at: self.start,
            bytes_max,
            is_exceeded: false,
        });
    }

    /// Returns the bytes since the mark, which was set before, and removes the mark.
    pub fn take_marked(&mut self) -> &[u8] {
        let mark = self.mark.take().expect("a mark was set");
        &self.buffer[mark.at..self.start]
    }

    /// Removes the mark. If a read failed because it would have kept too many bytes, the next byte
    /// is the one at the mark again. Returns whether that is so.
    pub fn rewind(&mut self) -> bool {
        match self.mark.take() {
            Some(mark) if mark.is_exceeded => {
                self.start = mark.at;
                self.begin_value();
                true
            }
            _ => false,
        }
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

    /// Reads until at least `count` unread bytes are in the buffer.
    #[cold]
    fn fill(&mut self, count: usize) -> Read<()> {
        let kept_from = self.mark.map_or(self.start, |mark| mark.at);
        let needed = (self.start - kept_from).saturating_add(count);
        if let Some(mark) = &mut self.mark {
            if needed > mark.bytes_max {
                mark.is_exceeded = true;
                return Err(DumpError::Body);
            }
            mark.at = 0;
        }
        self.sum_until(kept_from);
        self.buffer.copy_within(kept_from..self.end, 0);
        self.base += kept_from as u64;
        self.end -= kept_from;
        (self.start, self.summed) = (self.start - kept_from, 0);
        if self.buffer.len() > WINDOW_BYTES && needed.max(self.end) <= WINDOW_BYTES {
            self.buffer.truncate(WINDOW_BYTES);
            self.buffer.shrink_to_fit();
        }
        while self.end < needed {
            if self.end == self.buffer.len() {
                // The buffer at most doubles, so that a stated length costs no memory before its
                // bytes have arrived.
                let wanted = needed.min(2 * self.end).max(WINDOW_BYTES);
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
