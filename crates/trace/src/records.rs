//! Records of a fixed number of bytes, without a copy of each.

use crate::error::{Fault, Place};
use std::io::{ErrorKind, Read};

const BUFFER_BYTES: usize = 1 << 18;
/// No record or header here is longer.
const RECORD_BYTES_MAX: usize = 1 << 13;

/// A stream cut into records.
pub(crate) struct Records<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    is_at_end: bool,
    /// Where `start` is in the stream.
    offset: u64,
    /// Records taken so far, without a header.
    count: u64,
}

impl<R: Read> Records<R> {
    pub(crate) fn new(input: R) -> Self {
        Records {
            input,
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            is_at_end: false,
            offset: 0,
            count: 0,
        }
    }

    /// How many records were taken.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The place of the record taken last, or where the next would begin.
    pub(crate) fn place(&self) -> Place {
        Place::Record {
            number: self.count,
            offset: self.offset,
        }
    }

    /// Up to `wanted` bytes that come next, without taking them; fewer only at the end.
    pub(crate) fn peek(&mut self, wanted: usize) -> Result<&[u8], Fault> {
        assert!(wanted <= RECORD_BYTES_MAX);
        while self.end - self.start < wanted && !self.is_at_end {
            self.fill()?;
        }
        let have = self.end.min(self.start + wanted);
        Ok(&self.buffer[self.start..have])
    }

    /// Takes `length` bytes in front of the records; `None` where the stream has fewer.
    pub(crate) fn header(&mut self, length: usize) -> Result<Option<&[u8]>, Fault> {
        let have = self.peek(length)?.len();
        if have < length {
            return Ok(None);
        }
        let start = self.start;
        self.start += length;
        self.offset += length as u64;
        Ok(Some(&self.buffer[start..self.start]))
    }

    /// The next record and its place; `None` at the end of the stream.
    #[inline]
    pub(crate) fn next(&mut self, length: usize) -> Result<Option<(&[u8], Place)>, Fault> {
        if self.end - self.start < length {
            let have = self.peek(length)?.len();
            if have == 0 {
                return Ok(None);
            }
            if have < length {
                return Err(self.cut_off(length, have));
            }
        }
        let place = Place::Record {
            number: self.count + 1,
            offset: self.offset,
        };
        let start = self.start;
        self.start += length;
        self.offset += length as u64;
        self.count += 1;
        Ok(Some((&self.buffer[start..self.start], place)))
    }

    #[cold]
    fn cut_off(&mut self, length: usize, have: usize) -> Fault {
        let place = Place::Record {
            number: self.count + 1,
            offset: self.offset,
        };
        self.start = self.end;
        let expected = format!("a record of {length} bytes");
        Fault::at(place, expected, format!("{have} bytes and the end"))
    }

    /// Reads more behind what is there, which is moved to the front.
    fn fill(&mut self) -> Result<(), Fault> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        assert!(self.end < self.buffer.len());
        let read = loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let read = read.map_err(|source| Fault::Unreadable {
            place: self.place(),
            source,
        })?;
        self.is_at_end = read == 0;
        self.end += read;
        Ok(())
    }
}

/// The two bytes at `at` as a number, the lowest first.
#[inline]
pub(crate) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// The same of four bytes.
#[inline]
pub(crate) fn u32_at(record: &[u8], at: usize) -> u32 {
    let bytes = record[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("the slice has four bytes"))
}

/// The same of eight bytes.
#[inline]
pub(crate) fn u64_at(record: &[u8], at: usize) -> u64 {
    let bytes = record[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("the slice has eight bytes"))
}
