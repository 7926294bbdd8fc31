//! Records of a fixed length, read without copying each record.

use crate::buffer::{BUFFER_BYTES, Buffer};
use crate::error::{Fault, Position};
use std::io::Read;

/// Maximum length of a record or header in bytes.
const RECORD_BYTES_MAX: usize = 1 << 13;

const _: () = assert!(RECORD_BYTES_MAX < BUFFER_BYTES);

/// A stream, cut into records.
pub(crate) struct Records<R> {
    buffer: Buffer<R>,
    /// Position of the next unread byte in the stream.
    offset: u64,
    /// Number of records taken, without a header.
    count: u64,
}

impl<R: Read> Records<R> {
    pub(crate) fn new(input: R) -> Self {
        Records {
            buffer: Buffer::new(input),
            offset: 0,
            count: 0,
        }
    }

    /// Returns the number of records taken.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of the record taken last and the position after it.
    pub(crate) fn position(&self) -> Position {
        Position::Record {
            number: self.count,
            offset: self.offset,
        }
    }

    /// Returns the next `wanted` bytes without taking them; fewer only at the end.
    pub(crate) fn peek(&mut self, wanted: usize) -> Result<&[u8], Fault> {
        assert!(wanted <= RECORD_BYTES_MAX);
        while self.buffer.unread().len() < wanted && !self.buffer.is_at_end() {
            self.buffer.fill().map_err(|source| Fault::Unreadable {
                position: self.position(),
                source,
            })?;
        }
        let unread = self.buffer.unread();
        Ok(&unread[..unread.len().min(wanted)])
    }

    /// Takes `length` bytes before the records; `None` if the stream has fewer.
    pub(crate) fn header(&mut self, length: usize) -> Result<Option<&[u8]>, Fault> {
        if self.peek(length)?.len() < length {
            return Ok(None);
        }
        self.offset += length as u64;
        Ok(Some(self.buffer.take(length)))
    }

    /// Takes the next record and returns it with its position, or `None` at the end of the stream.
    #[inline]
    pub(crate) fn next(&mut self, length: usize) -> Result<Option<(&[u8], Position)>, Fault> {
        if self.buffer.unread().len() < length {
            let have = self.peek(length)?.len();
            if have == 0 {
                return Ok(None);
            }
            if have < length {
                return Err(self.cut_off(length, have));
            }
        }
        let position = self.next_position();
        self.offset += length as u64;
        self.count += 1;
        Ok(Some((self.buffer.take(length), position)))
    }

    fn next_position(&self) -> Position {
        Position::Record {
            number: self.count + 1,
            offset: self.offset,
        }
    }

    #[cold]
    fn cut_off(&mut self, length: usize, have: usize) -> Fault {
        self.buffer.take(have);
        let expected = format!("a record of {length} bytes");
        Fault::at(
            self.next_position(),
            expected,
            format!("{have} bytes and the end"),
        )
    }
}

/// Returns the little-endian number in the two bytes at `at`.
#[inline]
pub(crate) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// Returns the little-endian number in the four bytes at `at`.
#[inline]
pub(crate) fn u32_at(record: &[u8], at: usize) -> u32 {
    let bytes = record[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("the slice has four bytes"))
}

/// Returns the little-endian number in the eight bytes at `at`.
#[inline]
pub(crate) fn u64_at(record: &[u8], at: usize) -> u64 {
    let bytes = record[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("the slice has eight bytes"))
}
