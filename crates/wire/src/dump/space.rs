//! Lengths and strings, and the buffer to which they are written.
//!
//! Most strings in a file have 4 to 32 bytes. Appending each to a vector costs a check of the
//! capacity, an update of the length and a call of `memcpy`, several times the cost of the bytes.
//! Here, the unused part of the buffer is initialised, one check precedes several strings, and a
//! short string is two overlapping moves of fixed size.

use crate::number::parse_i64;

/// Maximum length of an encoded length.
pub(crate) const LENGTH_BYTES_MAX: usize = 9;
/// Length of the longest text of an integer of four bytes.
const INTEGER_TEXT_MAX: usize = 11;
/// Size of a buffer that is kept when it was emptied.
const KEPT_BYTES: usize = 1 << 20;
/// Smallest size by which a buffer grows.
const GROWTH_BYTES: usize = 64;

/// Buffer with an initialised unused part.
#[derive(Debug, Default)]
pub(crate) struct Space {
    bytes: Vec<u8>,
    used: usize,
}

impl Space {
    /// Returns the written bytes.
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Removes the written bytes. The buffer is kept unless it is large.
    pub fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Returns the written bytes and removes them.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(std::mem::take(&mut self.used));
        bytes
    }

    /// Returns a cursor that can write `room` bytes. More are a panic.
    #[inline(always)]
    pub fn cursor(&mut self, room: usize) -> Cursor<'_> {
        if self.bytes.len() - self.used < room {
            self.grow(room);
        }
        Cursor {
            at: self.used,
            out: &mut self.bytes,
            used: &mut self.used,
        }
    }

    #[cold]
    fn grow(&mut self, room: usize) {
        let missing = self.used + room - self.bytes.len();
        // A large string needs memory of its own length only.
        let growth = self
            .bytes
            .len()
            .clamp(GROWTH_BYTES, KEPT_BYTES)
            .max(missing);
        self.bytes.resize(self.bytes.len() + growth, 0);
    }
}

/// Position in a [`Space`]. What was written counts when it is dropped.
#[derive(Debug)]
pub(crate) struct Cursor<'s> {
    out: &'s mut [u8],
    used: &'s mut usize,
    at: usize,
}

impl Drop for Cursor<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.used = self.at;
    }
}

impl Cursor<'_> {
    /// Writes bytes.
    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        copy(&mut self.out[self.at..end], bytes);
        self.at = end;
    }

    /// Writes a length.
    #[inline(always)]
    pub fn length(&mut self, length: u64) {
        if length < 0x40 {
            self.out[self.at] = length as u8;
            self.at += 1;
        } else {
            let (bytes, count) = long_length(length);
            self.bytes(&bytes[..count]);
        }
    }

    /// Writes a string. The text of an integer of up to four bytes is encoded as an integer.
    #[inline(always)]
    pub fn string(&mut self, text: &[u8]) {
        match integer(text) {
            Some((bytes, count)) => self.bytes(&bytes[..count]),
            None => {
                self.length(text.len() as u64);
                self.bytes(text);
            }
        }
    }
}

/// Copies bytes to a place of the same length.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        17..=32 => copy_halves::<16>(to, from),
        8..=16 => copy_halves::<8>(to, from),
        4..=7 => copy_halves::<4>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies `N` to `2 * N` bytes.
#[inline(always)]
fn copy_halves<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(to) = to.first_chunk_mut::<N>() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut::<N>() {
            *to = *last;
        }
    }
}

/// Returns the encoding of a length of at least 64, and its own length.
fn long_length(length: u64) -> ([u8; LENGTH_BYTES_MAX], usize) {
    let mut bytes = [0; LENGTH_BYTES_MAX];
    let count = match length {
        0..0x4000 => {
            bytes[..2].copy_from_slice(&(length as u16 | 0x4000).to_be_bytes());
            2
        }
        _ => match u32::try_from(length) {
            Ok(length) => {
                bytes[0] = 0x80;
                bytes[1..5].copy_from_slice(&length.to_be_bytes());
                5
            }
            Err(_) => {
                bytes[0] = 0x81;
                bytes[1..].copy_from_slice(&length.to_be_bytes());
                9
            }
        },
    };
    (bytes, count)
}

/// Returns the encoding of a text as an integer, and its length; `None` if it is not the text of an
/// integer of up to four bytes.
#[inline(always)]
fn integer(text: &[u8]) -> Option<([u8; 5], usize)> {
    let first = *text.first()?;
    if !(first.is_ascii_digit() || first == b'-') || text.len() > INTEGER_TEXT_MAX {
        return None;
    }
    integer_of_digits(text)
}

fn integer_of_digits(text: &[u8]) -> Option<([u8; 5], usize)> {
    let (code, width) = match parse_i64(text)? {
        -0x80..0x80 => (0xC0, 1),
        -0x8000..0x8000 => (0xC1, 2),
        -0x8000_0000..0x8000_0000 => (0xC2, 4),
        _ => return None,
    };
    let [a, b, c, d] = (parse_i64(text)? as i32).to_le_bytes();
    Some(([code, a, b, c, d], 1 + width))
}

/// Appends the shortest encoding of a length.
pub(crate) fn push_length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..0x40 => out.push(length as u8),
        _ => {
            let (bytes, count) = long_length(length);
            out.extend_from_slice(&bytes[..count]);
        }
    }
}

/// Appends a string. The text of an integer of up to four bytes is encoded as an integer.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    match integer(text) {
        Some((bytes, count)) => out.extend_from_slice(&bytes[..count]),
        None => {
            push_length(out, text.len() as u64);
            out.extend_from_slice(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_all_lengths_are_written_like_appended_ones() {
        let (mut space, mut expected) = (Space::default(), Vec::new());
        let texts = (0..200).chain([16_383, 16_384, 70_000]).map(|len| {
            let text = (0..len).map(|at| b'a' + (at * 7 % 26) as u8);
            text.collect::<Vec<_>>()
        });
        let integers = [
            "0",
            "-1",
            "127",
            "128",
            "-32768",
            "32768",
            "2147483647",
            "2147483648",
        ];
        let texts = texts.chain(integers.map(|text| text.as_bytes().to_vec()));
        for text in texts.chain(["007", "-", "-0", "1a"].map(|text| text.as_bytes().to_vec())) {
            space.cursor(text.len() + LENGTH_BYTES_MAX).string(&text);
            push_string(&mut expected, &text);
            assert_eq!(space.written(), expected, "{}", text.len());
        }
        assert_eq!(space.take(), expected);
        assert_eq!(space.written(), b"");
    }

    #[test]
    fn a_large_string_needs_memory_of_its_length_only() {
        let mut space = Space::default();
        space.cursor(10).bytes(b"0123456789");
        let text = vec![b'x'; 8 << 20];
        space.cursor(text.len() + LENGTH_BYTES_MAX).string(&text);
        assert!(space.bytes.len() < text.len() + KEPT_BYTES + 100);
        space.clear();
        assert_eq!(space.bytes.capacity(), 0);
    }
}
