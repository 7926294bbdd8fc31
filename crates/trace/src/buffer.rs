//! A buffer between a stream and a reader, which takes lines and records from it without copying.

use std::io::{self, ErrorKind, Read};

/// Capacity of the buffer in bytes. A line or record must be shorter.
pub(crate) const BUFFER_BYTES: usize = 1 << 18;

/// A stream and the bytes that were read from it and not yet taken.
pub(crate) struct Buffer<R> {
    input: R,
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    is_at_end: bool,
}

impl<R: Read> Buffer<R> {
    pub(crate) fn new(input: R) -> Self {
        Buffer {
            input,
            bytes: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            is_at_end: false,
        }
    }

    /// Returns the bytes that are not yet taken.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether the stream has ended, so that no bytes follow the unread ones.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Removes the next `length` unread bytes and returns them.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> &[u8] {
        let start = self.start;
        self.start += length;
        &self.bytes[start..self.start]
    }

    /// Moves the unread bytes to the front of the buffer, and reads more bytes after them.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        assert!(self.end < self.bytes.len());
        let read = loop {
            match self.input.read(&mut self.bytes[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.is_at_end = read == 0;
        self.end += read;
        Ok(())
    }
}
