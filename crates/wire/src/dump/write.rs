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
    /// Number of elements not yet written.
    left: usize,
}

impl Writer {
    /// Creates a writer for a value of `count` elements, at least one; a string is one element.
    pub fn new(form: Encoding, count: usize) -> Writer {
        assert!(count > 0, "there is no payload for nothing");
        assert!(form != Encoding::String || count == 1);
        let mut out = vec![form.code()];
        push_head(&mut out, form, count);
        Writer {
            out,
            form,
            left: count,
        }
    }

    /// Writes the next element.
    pub fn put(&mut self, element: &Element<'_>) {
        assert!(self.left > 0, "no more were announced");
        self.left -= 1;
        push_element(&mut self.out, self.form, element);
    }

    /// Returns the payload.
    pub fn finish(self) -> Vec<u8> {
        assert_eq!(self.left, 0, "all that was announced has come");
        seal(self.out, self.form.version())
    }
}

impl Encoding {
    /// Returns the number of the type.
    pub(crate) fn code(self) -> u8 {
        match self {
            Encoding::String => code::STRING,
            Encoding::List => code::LIST,
            Encoding::Set => code::SET,
            Encoding::SortedSet => code::SORTED_SET,
            Encoding::Hash => code::HASH,
            Encoding::SetWithDeadlines => code::SET_DEADLINES,
            Encoding::SortedSetWithDeadlines => code::SORTED_SET_DEADLINES,
            Encoding::RedisHash { .. } => code::HASH_REDIS,
            Encoding::ValkeyHash => code::HASH_VALKEY,
        }
    }

    /// Returns the first version of the format that has the type.
    pub(crate) fn version(self) -> u16 {
        match self {
            Encoding::RedisHash { .. } => version::REDIS,
            Encoding::ValkeyHash => version::VALKEY,
            _ => version::PLAIN,
        }
    }
}

/// Appends what precedes the elements of a value.
pub(crate) fn push_head(out: &mut Vec<u8>, form: Encoding, count: usize) {
    if let Encoding::RedisHash { first } = form {
        out.extend_from_slice(&first.to_le_bytes());
    }
    if form != Encoding::String {
        push_length(out, count as u64);
    }
}

/// Appends an element of a value.
pub(crate) fn push_element(out: &mut Vec<u8>, form: Encoding, element: &Element<'_>) {
    assert!(!element.score.is_nan());
    if let Encoding::RedisHash { first } = form {
        let since = |at: u64| at.checked_sub(first).expect("the first is the earliest") + 1;
        push_length(out, element.deadline.map_or(0, since));
    }
    push_string(out, element.name);
    match form {
        Encoding::Hash | Encoding::RedisHash { .. } | Encoding::ValkeyHash => {
            push_string(out, element.value);
        }
        Encoding::SortedSet | Encoding::SortedSetWithDeadlines => {
            out.extend_from_slice(&element.score.to_le_bytes());
        }
        _ => {}
    }
    if let Encoding::SetWithDeadlines | Encoding::SortedSetWithDeadlines | Encoding::ValkeyHash =
        form
    {
        let at = element.deadline.map_or(NO_DEADLINE, |at| at as i64);
        out.extend_from_slice(&at.to_le_bytes());
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
pub(crate) fn push_length(out: &mut Vec<u8>, length: u64) {
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
pub(crate) fn push_string(out: &mut Vec<u8>, text: &[u8]) {
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
