//! Writes elements to a payload.

use super::crc::crc64;
use super::format::{NO_DEADLINE, code, version};
use super::value::{Element, Encoding};
use crate::number::parse_i64;

/// Writer of one value. [`Writer::put`] must be called for the announced number of elements, then
/// [`Writer::finish`]. [`read`](super::read) has an example.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    form: Encoding,
    version: u16,
    /// Number of elements not yet written.
    left: usize,
}

impl Writer {
    /// Creates a writer for a value of `count` elements, at least one; a string is one element.
    pub fn new(form: Encoding, count: usize) -> Writer {
        assert!(count > 0, "there is no payload for nothing");
        assert!(form != Encoding::String || count == 1);
        let (code, version) = match form {
            Encoding::String => (code::STRING, version::PLAIN),
            Encoding::List => (code::LIST, version::PLAIN),
            Encoding::Set => (code::SET, version::PLAIN),
            Encoding::SortedSet => (code::SORTED_SET, version::PLAIN),
            Encoding::Hash => (code::HASH, version::PLAIN),
            Encoding::SetWithDeadlines => (code::SET_DEADLINES, version::PLAIN),
            Encoding::SortedSetWithDeadlines => (code::SORTED_SET_DEADLINES, version::PLAIN),
            Encoding::RedisHash { .. } => (code::HASH_REDIS, version::REDIS),
            Encoding::ValkeyHash => (code::HASH_VALKEY, version::VALKEY),
        };
        let mut out = vec![code];
        if let Encoding::RedisHash { first } = form {
            out.extend_from_slice(&first.to_le_bytes());
        }
        if form != Encoding::String {
            push_length(&mut out, count as u64);
        }
        Writer {
            out,
            form,
            version,
            left: count,
        }
    }

    /// Writes the next element.
    pub fn put(&mut self, element: &Element<'_>) {
        assert!(self.left > 0, "no more were announced");
        assert!(!element.score.is_nan());
        self.left -= 1;
        let out = &mut self.out;
        if let Encoding::RedisHash { first } = self.form {
            let since = |at: u64| at.checked_sub(first).expect("the first is the earliest") + 1;
            push_length(out, element.deadline.map_or(0, since));
        }
        push_string(out, element.name);
        match self.form {
            Encoding::Hash | Encoding::RedisHash { .. } | Encoding::ValkeyHash => {
                push_string(out, element.value);
            }
            Encoding::SortedSet | Encoding::SortedSetWithDeadlines => {
                out.extend_from_slice(&element.score.to_le_bytes());
            }
            _ => {}
        }
        if let Encoding::SetWithDeadlines
        | Encoding::SortedSetWithDeadlines
        | Encoding::ValkeyHash = self.form
        {
            let at = element.deadline.map_or(NO_DEADLINE, |at| at as i64);
            out.extend_from_slice(&at.to_le_bytes());
        }
    }

    /// Returns the payload.
    pub fn finish(self) -> Vec<u8> {
        assert_eq!(self.left, 0, "all that was announced has come");
        seal(self.out, self.version)
    }
}

/// Appends version and checksum.
pub(super) fn seal(mut out: Vec<u8>, version: u16) -> Vec<u8> {
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Appends the shortest encoding of a length.
pub(super) fn push_length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..0x40 => out.push(length as u8),
        0x40..0x4000 => out.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes()),
        _ => match u32::try_from(length) {
            Ok(length) => {
                out.push(0x80);
                out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                out.push(0x81);
                out.extend_from_slice(&length.to_be_bytes());
            }
        },
    }
}

/// Appends a string, encoded as an integer if it is the text of one of up to four bytes.
pub(super) fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    match parse_i64(text) {
        Some(number @ -0x80..0x80) => out.extend_from_slice(&[0xC0, number as u8]),
        Some(number @ -0x8000..0x8000) => {
            out.push(0xC1);
            out.extend_from_slice(&(number as i16).to_le_bytes());
        }
        Some(number @ -0x8000_0000..0x8000_0000) => {
            out.push(0xC2);
            out.extend_from_slice(&(number as i32).to_le_bytes());
        }
        _ => {
            push_length(out, text.len() as u64);
            out.extend_from_slice(text);
        }
    }
}
