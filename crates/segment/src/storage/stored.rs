//! Objects as bytes: the contents of a server's engine.
//!
//! ```text
//! word 0      63      40 39  32 31           8 7      0
//!             [key 0..3][flags][ value bytes  ][key bytes]    5 bytes of metadata, then the key
//! a value     key · client flags (0 or 4 bytes) · value · padding to the end of a word
//! a number    key · client flags (0 or 4 bytes) · padding to the end of a word · number, one word
//! flags       bit 0: the value is a number   bit 1: there are client flags
//!             bits 2 to 7: the host's marks
//! ```
//! A value becomes a number with the first `incr`. From then on it is changed in place, and
//! returned as decimal digits. Only the first word and the number of an object ever change, each by
//! one store while the chain is locked.

use super::content::{Content, Objects};
use super::hash::KeyHash;
use super::heap::Heap;
use super::location::{Location, SegmentId};
use super::words::{WORD, WordWriter, append_to, copy, equals, four_at};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Size of the metadata before each key, in bytes.
pub(crate) const METADATA_BYTES: usize = 5;
/// Maximum length of a key in bytes.
pub const KEY_MAX: usize = 255;
/// Maximum length of a value in bytes. A segment may hold less:
/// [`Segcache::value_max`](crate::Segcache::value_max).
pub const VALUE_MAX: usize = (1 << 24) - 1;

const VALUE_SHIFT: u32 = 8;
const FLAGS_SHIFT: u32 = 32;
const IS_NUMBER: u8 = 1;
const HAS_CLIENT_FLAGS: u8 = 2;
const MARKS_SHIFT: u32 = 2;
/// Value with all mark bits set. Marks are bits in each object that belong to the host.
pub const MARKS_MAX: u8 = 0x3f;

/// Value to be stored, with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'v> {
    /// The value's bytes.
    pub bytes: &'v [u8],
    /// Number that the client stores with the value; 0 takes no memory.
    pub client_flags: u32,
    /// Bits that belong to the host, at most [`MARKS_MAX`].
    pub marks: u8,
}

impl<'v> Value<'v> {
    /// Creates a value without client flags and marks.
    pub fn plain(bytes: &'v [u8]) -> Self {
        Value {
            bytes,
            client_flags: 0,
            marks: 0,
        }
    }
}

/// Content of an object: bytes, or a number that is changed in place.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'v> {
    /// A value.
    Bytes(Value<'v>),
    /// A number that is changed in place and read as decimal digits.
    Number {
        /// The number.
        number: u64,
        /// The client flags, as in [`Value`].
        client_flags: u32,
        /// The host's bits, as in [`Value`].
        marks: u8,
    },
}

impl Payload<'_> {
    fn client_flags(&self) -> u32 {
        match self {
            Payload::Bytes(value) => value.client_flags,
            Payload::Number { client_flags, .. } => *client_flags,
        }
    }

    #[inline]
    fn metadata(&self, key_len: usize) -> Metadata {
        let (len, marks, is_number) = match self {
            Payload::Bytes(value) => (value.bytes.len(), value.marks, 0),
            Payload::Number { marks, .. } => (WORD, *marks, IS_NUMBER),
        };
        debug_assert!(key_len <= KEY_MAX);
        debug_assert!(len <= VALUE_MAX);
        debug_assert!(marks <= MARKS_MAX);
        let wide = match self.client_flags() {
            0 => 0,
            _ => HAS_CLIENT_FLAGS,
        };
        let flags = u64::from(is_number | wide | marks << MARKS_SHIFT);
        Metadata(key_len as u64 | (len as u64) << VALUE_SHIFT | flags << FLAGS_SHIFT)
    }
}

/// First word of an object. A reader whose segment was freed meanwhile may read any bits here, so
/// the lengths in it are checked against the segment's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metadata(u64);

impl Metadata {
    fn key_len(self) -> usize {
        self.0 as usize & 0xff
    }

    fn value_len(self) -> usize {
        (self.0 >> VALUE_SHIFT) as usize & VALUE_MAX
    }

    fn flags(self) -> u8 {
        (self.0 >> FLAGS_SHIFT) as u8
    }

    pub(crate) fn is_number(self) -> bool {
        self.flags() & IS_NUMBER != 0
    }

    fn has_client_flags(self) -> bool {
        self.flags() & HAS_CLIENT_FLAGS != 0
    }

    pub(crate) fn marks(self) -> u8 {
        self.flags() >> MARKS_SHIFT
    }

    pub(crate) fn with_marks(self, marks: u8) -> Metadata {
        let low = u64::from(IS_NUMBER | HAS_CLIENT_FLAGS) << FLAGS_SHIFT;
        let others = self.0 & (!(0xff << FLAGS_SHIFT) | low);
        Metadata(others | u64::from(marks & MARKS_MAX) << (FLAGS_SHIFT + MARKS_SHIFT))
    }

    /// Returns the index of the byte after the client flags.
    fn value_at(self) -> usize {
        METADATA_BYTES + self.key_len() + if self.has_client_flags() { 4 } else { 0 }
    }

    /// Returns the index of the word that holds the number.
    fn number_at(self) -> usize {
        self.value_at().div_ceil(WORD)
    }

    fn words(self) -> u32 {
        let words = if self.is_number() {
            self.number_at() + 1
        } else {
            (self.value_at() + self.value_len()).div_ceil(WORD)
        };
        words as u32
    }
}

/// An object whose lengths were checked against its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectView<'h> {
    pub(crate) client_flags: u32,
    pub(crate) marks: u8,
    pub(crate) number: Option<u64>,
    /// Size of the value in bytes.
    pub(crate) len: usize,
    words: &'h [AtomicU64],
    value_at: usize,
}

impl ObjectView<'_> {
    /// Appends the value. Returns false if the memory is too short for it.
    #[inline]
    pub(crate) fn append(&self, out: &mut Vec<u8>) -> bool {
        match self.number {
            Some(number) => {
                append_decimal(out, number);
                true
            }
            None => append_to(out, self.words, self.value_at, self.len),
        }
    }
}

/// Content of an engine that stores bytes. The module text draws the layout.
#[derive(Clone, Debug)]
pub struct Stored {
    hash: KeyHash,
}

impl Content for Stored {
    type Key<'k> = &'k [u8];
    type Value<'v> = Payload<'v>;

    const FILLS: bool = true;

    fn new(_segments: u32, hash_key: [u64; 2]) -> Self {
        Stored {
            hash: KeyHash::new(hash_key),
        }
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        self.hash.of(key)
    }

    fn words(key: &[u8], value: Payload<'_>) -> Option<u32> {
        let value_len = match value {
            Payload::Bytes(value) => value.bytes.len(),
            Payload::Number { .. } => WORD,
        };
        if key.len() > KEY_MAX || value_len > VALUE_MAX {
            return None;
        }
        Some(value.metadata(key.len()).words())
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Objects for Stored {
    type View<'h> = &'h [AtomicU64];

    fn write(&self, heap: &Heap, location: Location, words: u32, key: &[u8], value: Payload<'_>) {
        let words = &Stored::at(heap, location)[..words as usize];
        let mut writer = WordWriter::new(words, value.metadata(key.len()).0, METADATA_BYTES);
        writer.push(key);
        if value.client_flags() != 0 {
            writer.push(&value.client_flags().to_le_bytes());
        }
        match value {
            Payload::Bytes(value) => {
                writer.push(value.bytes);
                writer.finish();
            }
            Payload::Number { number, .. } => writer.finish_with(number),
        }
    }

    #[inline]
    fn words_at(&self, heap: &Heap, location: Location) -> u32 {
        Stored::metadata_at(heap, location).words()
    }

    #[inline]
    fn hash_at(&self, heap: &Heap, location: Location) -> u64 {
        let metadata = Stored::metadata_at(heap, location);
        let mut key = [0; (METADATA_BYTES + KEY_MAX).next_multiple_of(WORD)];
        let words = Stored::at(heap, location);
        let len = METADATA_BYTES + metadata.key_len();
        let (chunks, _) = key.as_chunks_mut::<WORD>();
        for (chunk, word) in chunks.iter_mut().zip(&words[..len.div_ceil(WORD)]) {
            *chunk = word.load(Relaxed).to_le_bytes();
        }
        self.hash.of(&key[METADATA_BYTES..len])
    }

    #[inline(always)]
    fn view<'h>(&self, heap: &'h Heap, location: Location) -> Option<&'h [AtomicU64]> {
        heap.words(location)
    }

    #[inline(always)]
    fn has_key(&self, words: &[AtomicU64], key: &[u8]) -> bool {
        let metadata = Metadata(words[0].load(Relaxed));
        metadata.key_len() == key.len() && equals::<METADATA_BYTES>(words, key)
    }

    fn copy(&self, heap: &Heap, from: Location, to: Location, words: u32) {
        let span = |location: Location| &Stored::at(heap, location)[..words as usize];
        copy(span(from), span(to));
    }

    fn copy_changes(&self, heap: &Heap, from: Location, to: Location) {
        let metadata = Stored::metadata_at(heap, from);
        Stored::cell(heap, to, 0).store(metadata.0, Relaxed);
        if metadata.is_number() {
            let number = Stored::cell(heap, from, metadata.number_at()).load(Relaxed);
            Stored::cell(heap, to, metadata.number_at()).store(number, Relaxed);
        }
    }

    fn prepare(&self, heap: &Heap, segment: SegmentId) {
        heap.memory().reserve(segment);
    }

    fn undo(&self, _place: Location) {}
}

impl Stored {
    /// Returns the words starting at a location. An object must begin there, or be about to be
    /// written there.
    #[inline(always)]
    fn at(heap: &Heap, location: Location) -> &[AtomicU64] {
        heap.words(location)
            .expect("the memory of a segment is reserved when it is opened")
    }

    #[inline(always)]
    fn cell(heap: &Heap, location: Location, index: usize) -> &AtomicU64 {
        &Stored::at(heap, location)[index]
    }

    /// Returns the metadata of an object that is certain to be there.
    pub(crate) fn metadata_at(heap: &Heap, location: Location) -> Metadata {
        Metadata(Stored::cell(heap, location, 0).load(Relaxed))
    }

    /// Replaces the marks. The chain must be locked.
    pub(crate) fn set_marks(heap: &Heap, location: Location, marks: u8) {
        let metadata = Stored::metadata_at(heap, location).with_marks(marks);
        Stored::cell(heap, location, 0).store(metadata.0, Relaxed);
    }

    /// Replaces the number. The chain must be locked.
    pub(crate) fn set_number(heap: &Heap, location: Location, number: u64) {
        let index = Stored::metadata_at(heap, location).number_at();
        Stored::cell(heap, location, index).store(number, Relaxed);
    }

    /// Returns the number, or `None` if the value is not stored as one. The chain must be locked.
    pub(crate) fn number_at(heap: &Heap, location: Location) -> Option<u64> {
        let metadata = Stored::metadata_at(heap, location);
        let number = || Stored::cell(heap, location, metadata.number_at()).load(Relaxed);
        metadata.is_number().then(number)
    }

    /// Returns the object that begins with these words, or `None` if none can. The words may be
    /// arbitrary, because a reader's segment may have been freed.
    #[inline(always)]
    pub(crate) fn parse(words: &[AtomicU64]) -> Option<ObjectView<'_>> {
        let metadata = Metadata(words[0].load(Relaxed));
        let value_at = metadata.value_at();
        let client_flags = if metadata.has_client_flags() {
            four_at(words, value_at - 4)?
        } else {
            0
        };
        let number = match metadata.is_number() {
            true => Some(words.get(metadata.number_at())?.load(Relaxed)),
            false => None,
        };
        Some(ObjectView {
            client_flags,
            marks: metadata.marks(),
            number,
            len: number.map_or(metadata.value_len(), decimal_len),
            words,
            value_at,
        })
    }
}

/// Returns the number of decimal digits of a number.
pub(crate) fn decimal_len(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Appends a number's decimal digits.
pub(crate) fn append_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Parses up to 20 decimal digits. `None` for anything else, and for numbers above `u64::MAX`.
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    bytes.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        let shifted = number.checked_mul(10)?;
        (digit < 10).then(|| shifted.checked_add(u64::from(digit)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap() -> Heap {
        let heap = Heap::new(4, 512, true);
        heap.memory().reserve(SegmentId(1));
        heap
    }

    fn at(segment: u32, offset: u32) -> Location {
        Location {
            segment: SegmentId(segment),
            offset,
        }
    }

    fn read(heap: &Heap, location: Location) -> Option<ObjectView<'_>> {
        Stored::parse(heap.words(location)?)
    }

    fn has_key(heap: &Heap, location: Location, key: &[u8]) -> bool {
        let stored = Stored::new(4, [1, 2]);
        let view = stored.view(heap, location);
        view.is_some_and(|view| stored.has_key(view, key))
    }

    fn value(heap: &Heap, location: Location) -> Vec<u8> {
        let mut out = vec![];
        let parse = read(heap, location).expect("an object");
        assert!(parse.append(&mut out));
        assert_eq!(out.len(), parse.len);
        out
    }

    #[test]
    fn an_object_is_read_as_it_was_written() {
        let (heap, stored) = (heap(), Stored::new(4, [1, 2]));
        for key_len in [0, 1, 2, 3, 4, 11, 16, 250, 255] {
            for (len, client_flags, marks) in [(0, 0, 0), (1, 7, 63), (3, 0, 5), (700, 1 << 31, 1)]
            {
                let (key, bytes) = (vec![b'k'; key_len], vec![b'v'; len]);
                let payload = Payload::Bytes(Value {
                    bytes: &bytes,
                    client_flags,
                    marks,
                });
                let words = Stored::words(&key, payload).expect("small");
                let plain = 5 + key_len + len + if client_flags == 0 { 0 } else { 4 };
                assert_eq!(words as usize, plain.div_ceil(8));
                let location = at(1, 3);
                stored.write(&heap, location, words, &key, payload);
                assert_eq!(stored.words_at(&heap, location), words);
                assert_eq!(stored.hash_at(&heap, location), stored.hash(&key));
                assert!(has_key(&heap, location, &key));
                assert!(!has_key(&heap, location, &[key.as_slice(), b"k"].concat()));
                assert_eq!(value(&heap, location), bytes);
                let parse = read(&heap, location).expect("an object");
                assert_eq!((parse.client_flags, parse.marks), (client_flags, marks));
            }
        }
    }

    #[test]
    fn a_key_of_16_bytes_and_a_value_of_3_take_24() {
        let payload = Payload::Bytes(Value::plain(b"abc"));
        assert_eq!(Stored::words(b"sixteen bytes me", payload), Some(3));
    }

    /// Regression test: an addition between the copy of an object and the publication of the copy
    /// used to be lost.
    #[test]
    fn changes_since_the_copy_are_copied() {
        let (heap, stored) = (heap(), Stored::new(4, [1, 2]));
        let payload = Payload::Number {
            number: 41,
            client_flags: 9,
            marks: 3,
        };
        let words = Stored::words(b"counter", payload).expect("small");
        let (from, to) = (at(1, 0), at(2, 7));
        stored.write(&heap, from, words, b"counter", payload);
        stored.copy(&heap, from, to, words);
        Stored::set_number(&heap, from, u64::MAX);
        Stored::set_marks(&heap, from, 60);
        stored.copy_changes(&heap, from, to);
        assert_eq!(Stored::number_at(&heap, to), Some(u64::MAX));
        assert_eq!(value(&heap, to), u64::MAX.to_string().into_bytes());
        let metadata = Stored::metadata_at(&heap, to);
        assert_eq!(metadata.marks(), 60);
        assert!(has_key(&heap, to, b"counter"));
    }

    /// A reader whose segment was freed may find any bits as metadata.
    #[test]
    fn arbitrary_bytes_are_read_within_the_segment() {
        let heap = heap();
        let mut out = vec![];
        for word in [u64::MAX, 0xff, 0x00ff_ffff_ffff_ff00, 0xdead_beef_cafe_babe] {
            for offset in [0, 1, 500, 511] {
                let words = &heap.words(at(1, 0)).expect("reserved")[..512];
                words.iter().for_each(|cell| cell.store(word, Relaxed));
                let location = at(1, offset);
                let _any = has_key(&heap, location, &[0xff; 255]);
                if let Some(parse) = read(&heap, location) {
                    let _fits = parse.append(&mut out);
                }
            }
        }
        assert!(read(&heap, at(9, 0)).is_none(), "the heap has 4 segments");
        let empty = Heap::new(4, 512, true);
        assert!(read(&empty, at(1, 0)).is_none(), "never reserved");
    }

    #[test]
    fn only_decimal_digits_are_a_number() {
        for (text, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("-1", None),
            ("1 ", None),
            ("000000000000000000001", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), number, "{text}");
        }
        let mut out = vec![];
        for number in [0, 9, 10, 99, 100, u64::MAX] {
            out.clear();
            append_decimal(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
            assert_eq!(out.len(), decimal_len(number));
        }
    }
}
