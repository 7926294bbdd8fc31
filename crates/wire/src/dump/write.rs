//! From elements to a payload.

use super::crc::crc64;
use super::{Element, Form, NO_DEADLINE, code, version};
use crate::number::parse_i64;

/// Writes one value: as many elements as announced, then [`Writer::finish`]. [`read`](super::read) shows
/// an example.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    form: Form,
    version: u16,
    /// Elements still to come.
    left: usize,
}

impl Writer {
    /// For a value of so many elements, at least one; a string is one.
    pub fn new(form: Form, count: usize) -> Writer {
        assert!(count > 0, "there is no payload for nothing");
        assert!(form != Form::String || count == 1);
        let (code, version) = match form {
            Form::String => (code::STRING, version::PLAIN),
            Form::List => (code::LIST, version::PLAIN),
            Form::Set => (code::SET, version::PLAIN),
            Form::SortedSet => (code::SORTED_SET, version::PLAIN),
            Form::Hash => (code::HASH, version::PLAIN),
            Form::MortalSet => (code::SET_DEADLINES, version::PLAIN),
            Form::MortalSortedSet => (code::SORTED_SET_DEADLINES, version::PLAIN),
            Form::RedisHash { .. } => (code::HASH_REDIS, version::REDIS),
            Form::ValkeyHash => (code::HASH_VALKEY, version::VALKEY),
        };
        let mut out = vec![code];
        if let Form::RedisHash { first } = form {
            out.extend_from_slice(&first.to_le_bytes());
        }
        if form != Form::String {
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
        if let Form::RedisHash { first } = self.form {
            let since = |at: u64| at.checked_sub(first).expect("the first is the earliest") + 1;
            push_length(out, element.deadline.map_or(0, since));
        }
        push_string(out, element.name);
        match self.form {
            Form::Hash | Form::RedisHash { .. } | Form::ValkeyHash => {
                push_string(out, element.value);
            }
            Form::SortedSet | Form::MortalSortedSet => {
                out.extend_from_slice(&element.score.to_le_bytes());
            }
            _ => {}
        }
        if let Form::MortalSet | Form::MortalSortedSet | Form::ValkeyHash = self.form {
            let at = element.deadline.map_or(NO_DEADLINE, |at| at as i64);
            out.extend_from_slice(&at.to_le_bytes());
        }
    }

    /// The payload.
    pub fn finish(mut self) -> Vec<u8> {
        assert_eq!(self.left, 0, "all that was announced has come");
        self.out.extend_from_slice(&self.version.to_le_bytes());
        let sum = crc64(&self.out);
        self.out.extend_from_slice(&sum.to_le_bytes());
        self.out
    }
}

/// The shortest form of a length.
fn push_length(out: &mut Vec<u8>, length: u64) {
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

/// A string; as an integer where it is the text of one of up to four bytes.
fn push_string(out: &mut Vec<u8>, text: &[u8]) {
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
