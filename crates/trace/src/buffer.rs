//! A buffer in front of a stream, of which readers cut lines and records without copying them.

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

    /// Whether the stream has no bytes behind the unread ones.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Takes the next `length` unread bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> &[u8] {
        let start = self.start;
        self.start += length;
        &self.bytes[start..self.start]
    }

    /// Reads more bytes behind the unread ones, which move to the front of the buffer.
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
