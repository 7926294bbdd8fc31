//! Writes elements to a payload.

use super::crc::crc64;
use super::format::{NO_DEADLINE, code, version};
use super::space::{Cursor, LENGTH_BYTES_MAX, Space};
use super::value::{Element, Encoding};

/// Writer of one value. [`Writer::put`] must be called for the announced number of elements, then
/// [`Writer::finish`]. [`read`](super::read) has an example.
#[derive(Debug)]
pub struct Writer {
    out: Space,
    form: Encoding,
    /// Number of elements not yet written.
    left: usize,
}

impl Writer {
    /// Creates a writer for a value of `count` elements, at least one; a string is one element.
    pub fn new(form: Encoding, count: usize) -> Writer {
        assert!(count > 0, "there is no payload for nothing");
        assert!(form != Encoding::String || count == 1);
        let mut out = Space::default();
        let mut cursor = out.cursor(1 + HEAD_BYTES_MAX);
        cursor.bytes(&[form.code()]);
        cursor.head(form, count);
        drop(cursor);
        let left = count;
        Writer { out, form, left }
    }

    /// Writes the next element.
    pub fn put(&mut self, element: &Element<'_>) {
        assert!(self.left > 0, "no more were announced");
        self.left -= 1;
        self.out.put(self.form, element);
    }

    /// Returns the payload.
    pub fn finish(mut self) -> Vec<u8> {
        assert_eq!(self.left, 0, "all that was announced has come");
        seal(self.out.take(), self.form.version())
    }
}

impl Encoding {
    /// Returns the type's number.
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

/// Maximum length of the part of a value before its elements.
pub(crate) const HEAD_BYTES_MAX: usize = 8 + LENGTH_BYTES_MAX;
/// Maximum length of an element without its name and value.
const ELEMENT_BYTES_MAX: usize = 3 * LENGTH_BYTES_MAX + 8 + 8;

impl Cursor<'_> {
    /// Writes the part of a value before its elements.
    pub fn head(&mut self, form: Encoding, count: usize) {
        if let Encoding::RedisHash { first } = form {
            self.bytes(&first.to_le_bytes());
        }
        if form != Encoding::String {
            self.length(count as u64);
        }
    }
}

impl Space {
    /// Writes an element of a value.
    #[inline]
    pub fn put(&mut self, form: Encoding, element: &Element<'_>) {
        assert!(!element.score.is_nan());
        let texts = element.name.len() + element.value.len();
        let mut cursor = self.cursor(texts + ELEMENT_BYTES_MAX);
        if let Encoding::RedisHash { first } = form {
            let since = |at: u64| at.checked_sub(first).expect("the first is the earliest") + 1;
            cursor.length(element.deadline.map_or(0, since));
        }
        cursor.string(element.name);
        match form {
            Encoding::Hash | Encoding::RedisHash { .. } | Encoding::ValkeyHash => {
                cursor.string(element.value);
            }
            Encoding::SortedSet | Encoding::SortedSetWithDeadlines => {
                cursor.bytes(&element.score.to_le_bytes());
            }
            _ => {}
        }
        if let Encoding::SetWithDeadlines
        | Encoding::SortedSetWithDeadlines
        | Encoding::ValkeyHash = form
        {
            let at = element.deadline.map_or(NO_DEADLINE, |at| at as i64);
            cursor.bytes(&at.to_le_bytes());
        }
    }
}

/// Appends version and checksum.
pub(crate) fn seal(mut out: Vec<u8>, version: u16) -> Vec<u8> {
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}
