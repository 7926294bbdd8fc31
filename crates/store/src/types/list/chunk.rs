//! Elements in one byte array that can be read from either end.
//!
//! ```text
//! element   length │ bytes │ mirrored length
//! length    7 bits per byte, the lowest first; the top bit: more bytes follow
//! mirrored  the same bytes in reverse order, so that the length is read from its last byte on
//! ```

use super::End;

/// Limit of a chunk. A longer element gets its own chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLimit {
    /// Maximum length in bytes, including the encoded lengths of the elements.
    pub bytes: usize,
    /// Maximum number of elements.
    pub count: usize,
}

/// Minimum number of bytes that a copy reserves for further elements, if the limit allows it.
const ROOM_LEAST: usize = 64;
/// Maximum number of bytes of a chunk if the setting limits the number of elements.
const BYTES_OF_COUNTED: usize = 8 << 10;
/// Maximum number of elements of the packed form, which counts them in 16 bits.
const COUNT_MAX: usize = u16::MAX as usize;

impl ChunkLimit {
    /// Returns the limit for a value of `list-max-listpack-size`: a number of elements, or −1 to −5
    /// for 4 to 64 KiB.
    pub fn of(size: i64) -> ChunkLimit {
        match size {
            0.. => ChunkLimit {
                bytes: BYTES_OF_COUNTED,
                count: (size as usize).clamp(1, COUNT_MAX),
            },
            _ => ChunkLimit {
                bytes: (4 << 10) << (-1 - size.max(-5)),
                count: COUNT_MAX,
            },
        }
    }

    /// Returns whether `count` elements of `bytes` in total are within the limit.
    pub fn allows(&self, count: usize, bytes: usize) -> bool {
        count <= self.count && bytes <= self.bytes
    }

    /// Returns half of this limit. Neighbouring chunks are merged, and a list is packed again, only
    /// below half the limit. Otherwise a list whose length varies around the limit would be
    /// converted each time.
    pub fn half(&self) -> ChunkLimit {
        ChunkLimit {
            bytes: self.bytes / 2,
            count: self.count / 2,
        }
    }
}

/// Returns the number of bytes that encode a length.
fn length_bytes(len: usize) -> usize {
    match len {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        _ => (usize::BITS - len.leading_zeros()).div_ceil(7) as usize,
    }
}

/// Returns the encoded length of an element of length `len`.
pub(super) fn element_bytes(len: usize) -> usize {
    2 * length_bytes(len) + len
}

/// Encodes an element into `room`, which must have the length of the encoded element.
fn write_element(room: &mut [u8], value: &[u8]) {
    let width = length_bytes(value.len());
    let (mut rest, last) = (value.len(), room.len() - 1);
    for i in 0..width {
        let more = if i + 1 < width { 0x80 } else { 0 };
        let byte = (rest & 0x7f) as u8 | more;
        (room[i], room[last - i]) = (byte, byte);
        rest >>= 7;
    }
    room[width..=last - width].copy_from_slice(value);
}

/// Inserts an element before the one at a position.
pub(super) fn insert_element(buffer: &mut Vec<u8>, at: usize, value: &[u8]) {
    let (size, old_len) = (element_bytes(value.len()), buffer.len());
    buffer.resize(old_len + size, 0);
    buffer.copy_within(at..old_len, at + size);
    write_element(&mut buffer[at..at + size], value);
}

/// Reads an encoded length. Returns the length and the number of bytes that encode it.
#[inline(always)]
fn read_length(bytes: impl Iterator<Item = u8>) -> (usize, usize) {
    let (mut len, mut width) = (0, 0);
    for byte in bytes {
        len |= (byte as usize & 0x7f) << (7 * width);
        width += 1;
        if byte < 0x80 {
            break;
        }
    }
    (len, width)
}

/// Consecutive encoded elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Entries<'a> {
    pub(super) fn new(bytes: &'a [u8], count: usize) -> Entries<'a> {
        Entries { bytes, count }
    }

    /// Returns the bytes of the encoded elements.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the byte position of the element at an index, or the end if `index` is the number of
    /// elements.
    pub fn offset(&self, index: usize) -> usize {
        debug_assert!(index <= self.count);
        let mut walk = *self;
        if index <= self.count / 2 {
            for _ in 0..index {
                walk.next();
            }
            self.bytes.len() - walk.bytes.len()
        } else {
            for _ in index..self.count {
                walk.next_back();
            }
            walk.bytes.len()
        }
    }

    /// Returns the elements from an index on.
    pub fn from(&self, index: usize) -> Entries<'a> {
        Entries::new(&self.bytes[self.offset(index)..], self.count - index)
    }

    /// Returns the elements before an index.
    pub fn before(&self, index: usize) -> Entries<'a> {
        Entries::new(&self.bytes[..self.offset(index)], index)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.count = self.count.checked_sub(1)?;
        let (len, width) = read_length(self.bytes.iter().copied());
        let (element, rest) = self.bytes.split_at(len + 2 * width);
        self.bytes = rest;
        Some(&element[width..width + len])
    }
}

impl DoubleEndedIterator for Entries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let (len, width) = read_length(self.bytes.iter().rev().copied());
        let (rest, element) = self.bytes.split_at(self.bytes.len() - len - 2 * width);
        self.bytes = rest;
        Some(&element[width..width + len])
    }
}

/// A part of a large list.
///
/// ```text
/// buffer   unused bytes (`start` of them) │ elements │ unused bytes (spare capacity)
/// ```
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    buffer: Vec<u8>,
    start: u32,
    count: u32,
}

impl Chunk {
    /// Creates a chunk of elements without room for more.
    pub fn of(entries: Entries<'_>) -> Chunk {
        Chunk {
            buffer: entries.bytes.to_vec(),
            start: 0,
            count: entries.count as u32,
        }
    }

    /// Creates a chunk of one element without room for more.
    pub fn alone(value: &[u8]) -> Chunk {
        let mut buffer = vec![0; element_bytes(value.len())];
        write_element(&mut buffer, value);
        Chunk {
            buffer,
            start: 0,
            count: 1,
        }
    }

    /// Returns the elements.
    pub fn entries(&self) -> Entries<'_> {
        Entries::new(&self.buffer[self.start as usize..], self.len())
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the encoded length of the elements.
    pub fn bytes(&self) -> usize {
        self.buffer.len() - self.start as usize
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns whether the chunk stays within the limit when one more element of length `len` is
    /// added.
    pub fn takes(&self, len: usize, limit: ChunkLimit) -> bool {
        limit.allows(self.len() + 1, self.bytes() + element_bytes(len))
    }

    /// Returns whether an element of length `len` should be added here instead of to a new chunk.
    /// If the buffer is full, the elements must be copied into a larger one. That is worthwhile
    /// only if the chunk can still grow enough: its buffer is smaller than the limit, or its
    /// elements fill at most half of the limit.
    pub fn takes_at(&self, end: End, len: usize, limit: ChunkLimit) -> bool {
        let is_cheap = self.spare(end) >= element_bytes(len)
            || self.buffer.capacity() < limit.bytes
            || self.bytes() <= limit.bytes / 2;
        is_cheap && self.takes(len, limit)
    }

    fn spare(&self, end: End) -> usize {
        match end {
            End::Left => self.start as usize,
            End::Right => self.buffer.capacity() - self.buffer.len(),
        }
    }

    /// Moves the elements into a new buffer. At the end `end` the new buffer has `room` unused
    /// bytes and a quarter of the elements' bytes in addition, within the limit. The unused bytes
    /// at the other end stay the same.
    fn make_room(&mut self, end: End, room: usize, limit: ChunkLimit) {
        let live = self.bytes();
        let most = limit.bytes.max(live + room);
        let room = (room + live / 4 + ROOM_LEAST).min(most - live);
        let other = self.spare(end.other()).min(most - live - room);
        let start = match end {
            End::Left => room,
            End::Right => other,
        };
        let mut buffer = Vec::with_capacity(live + room + other);
        buffer.resize(start, 0);
        buffer.extend_from_slice(&self.buffer[self.start as usize..]);
        (self.buffer, self.start) = (buffer, start as u32);
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, value: &[u8], limit: ChunkLimit) {
        let size = element_bytes(value.len());
        if self.spare(end) < size {
            self.make_room(end, size, limit);
        }
        let at = match end {
            End::Left => {
                self.start -= size as u32;
                self.start as usize
            }
            End::Right => {
                let at = self.buffer.len();
                self.buffer.resize(at + size, 0);
                at
            }
        };
        write_element(&mut self.buffer[at..at + size], value);
        self.count += 1;
    }

    /// Removes `count` elements from an index on.
    pub fn remove(&mut self, index: usize, count: usize) {
        let entries = self.entries();
        let at = entries.offset(index);
        let end = at + entries.from(index).offset(count);
        self.count -= count as u32;
        if at == 0 {
            self.start += end as u32;
        } else {
            let start = self.start as usize;
            self.buffer.drain(start + at..start + end);
        }
        self.give_back();
    }

    /// Inserts an element before the one at an index.
    pub fn insert(&mut self, index: usize, value: &[u8]) {
        let at = self.start as usize + self.entries().offset(index);
        insert_element(&mut self.buffer, at, value);
        self.count += 1;
        self.give_back();
    }

    /// Splits off the elements from an index on.
    pub fn split(&mut self, index: usize) -> Chunk {
        let tail = Chunk::of(self.entries().from(index));
        *self = Chunk::of(self.entries().before(index));
        tail
    }

    /// Appends the elements of another chunk.
    pub fn append(&mut self, other: &Chunk) {
        self.buffer
            .extend_from_slice(&other.buffer[other.start as usize..]);
        self.count += other.count;
        self.give_back();
    }

    /// Removes up to `max` elements equal to `value`, beginning at an end. Returns their number.
    pub fn remove_equal(&mut self, value: &[u8], end: End, max: usize) -> usize {
        let equal = self.entries().filter(|element| *element == value).count();
        let removed = equal.min(max);
        if removed == 0 {
            return 0;
        }
        // If there are more equal elements than `max`, those nearest to the other end are kept.
        let spared = match end {
            End::Left => 0,
            End::Right => equal - removed,
        };
        let (mut kept, mut met) = (Vec::with_capacity(self.bytes()), 0);
        let mut rest = self.entries();
        while rest.len() > 0 {
            let before = rest;
            let is_equal = rest.next() == Some(value);
            met += usize::from(is_equal);
            if !is_equal || met <= spared || met > spared + removed {
                let size = before.bytes.len() - rest.bytes.len();
                kept.extend_from_slice(&before.bytes[..size]);
            }
        }
        self.count -= removed as u32;
        (self.buffer, self.start) = (kept, 0);
        self.give_back();
        removed
    }

    /// Shrinks the buffer if the unused bytes are more than half of the elements' bytes.
    fn give_back(&mut self) {
        if self.buffer.capacity() > self.bytes() + self.bytes() / 2 + 2 * ROOM_LEAST {
            self.seal();
        }
    }

    /// Removes all unused bytes from the buffer, because the chunk is no longer at an end of its
    /// list.
    pub fn seal(&mut self) {
        self.buffer.drain(..self.start as usize);
        self.start = 0;
        self.buffer.shrink_to_fit();
    }

    /// Panics if the chunk is inconsistent.
    pub fn check(&self) {
        let (mut forward, mut backward) = (self.entries(), self.entries());
        let (mut left, mut right) = (0, 0);
        while let (Some(a), Some(b)) = (forward.next(), backward.next_back()) {
            left += element_bytes(a.len());
            right += element_bytes(b.len());
        }
        assert_eq!(left, self.bytes(), "read from the left");
        assert_eq!(right, self.bytes(), "read from the right");
    }
}
