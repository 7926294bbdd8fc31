//! Writes items, and the parts before and after them in a file.

use super::opcode;
use super::version::{HEADER_BYTES, Version};
use crate::dump::{
    Cursor, Element, Encoding, HEAD_BYTES_MAX, LENGTH_BYTES_MAX, LIBRARY, LIBRARY_VERSION, Space,
    StreamWriter, crc64, crc64_after, crc64_joined,
};

/// Writer of items to a buffer, which the caller takes from time to time.
///
/// ```
/// use wire::dump::{Element, Encoding};
/// use wire::rdb::{Framing, Item, Reader, Version, Writer};
/// let mut writer = Writer::default();
/// writer.database(3);
/// writer.begin(b"key", Some(1_900_000_000_000), Encoding::String, 1);
/// writer.put(&Element { name: b"value", ..Element::default() });
/// let items = writer.take();
/// let mut framing = Framing::default();
/// framing.add(&items);
/// let ending = framing.end(writer.version());
/// let file = [&ending.header[..], &items, &ending.tail].concat();
/// assert_eq!(&file[..9], b"REDIS0009");
/// let mut reader = Reader::new(&file[..]);
/// assert_eq!(reader.begin().unwrap(), Version::PLAIN);
/// assert!(matches!(reader.next().unwrap(), Item::Database(3)));
/// ```
#[derive(Debug)]
pub struct Writer {
    out: Space,
    version: Version,
    /// Type of the value that is being written, and the number of elements not yet written.
    form: Encoding,
    left: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Writer {
            out: Space::default(),
            version: Version::PLAIN,
            form: Encoding::String,
            left: 0,
        }
    }
}

impl Writer {
    /// Returns the lowest version that has all types written so far.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the bytes written since the last call. It may be called at any time, also between
    /// the elements of a value.
    pub fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Returns the bytes written since the last [`Writer::take`] or [`Writer::clear`].
    pub fn bytes(&self) -> &[u8] {
        self.out.written()
    }

    /// Removes the bytes but keeps their buffer, unless it is large.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Writes an additional field. Readers skip fields whose names are unknown to them.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        let mut cursor = self.item(
            opcode::FIELD,
            name.len() + value.len() + 2 * LENGTH_BYTES_MAX,
        );
        cursor.string(name);
        cursor.string(value);
    }

    /// Writes the code of a function library.
    pub fn library(&mut self, code: &[u8]) {
        self.item(LIBRARY, code.len() + LENGTH_BYTES_MAX)
            .string(code);
        self.version = self.version.and(Version::Redis(LIBRARY_VERSION));
    }

    /// Selects the database of the following keys.
    pub fn database(&mut self, database: u64) {
        self.item(opcode::DATABASE, LENGTH_BYTES_MAX)
            .length(database);
    }

    /// Writes the numbers of keys and of keys with deadlines in the database. Readers use them to
    /// allocate tables; they need not be exact.
    pub fn sizes(&mut self, keys: u64, keys_with_deadlines: u64) {
        let mut cursor = self.item(opcode::SIZES, 2 * LENGTH_BYTES_MAX);
        cursor.length(keys);
        cursor.length(keys_with_deadlines);
    }

    /// Begins a value of `count` elements, at least one; a string is one element. The deadline is
    /// in milliseconds since 1970. [`Writer::put`] must be called for each element next.
    pub fn begin(&mut self, key: &[u8], deadline: Option<u64>, form: Encoding, count: usize) {
        assert!(count > 0, "an empty value is not stored");
        assert!(form != Encoding::String || count == 1);
        let mut cursor = self.key((key, deadline), form.code(), form.version(), HEAD_BYTES_MAX);
        cursor.head(form, count);
        drop(cursor);
        (self.form, self.left) = (form, count);
    }

    /// Writes the next element.
    #[inline]
    pub fn put(&mut self, element: &Element<'_>) {
        assert!(self.left > 0, "no more were announced");
        self.left -= 1;
        self.out.put(self.form, element);
    }

    /// Writes a string, which is faster than [`Writer::begin`] and [`Writer::put`].
    #[inline]
    pub fn string(&mut self, key: &[u8], deadline: Option<u64>, text: &[u8]) {
        let form = Encoding::String;
        let room = text.len() + LENGTH_BYTES_MAX;
        let mut cursor = self.key((key, deadline), form.code(), form.version(), room);
        cursor.string(text);
    }

    /// Writes a hash, a set or a sorted set without deadlines, of `count` elements whose bytes are
    /// at most `text_bytes`. After an element's name comes a value, nothing, or the eight bytes of
    /// a score, lowest first. This is faster than [`Writer::begin`] and [`Writer::put`].
    #[inline]
    pub fn elements<'e>(
        &mut self,
        (key, deadline): (&[u8], Option<u64>),
        form: Encoding,
        (count, text_bytes): (usize, usize),
        elements: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) {
        assert!(count > 0, "an empty value is not stored");
        let room = HEAD_BYTES_MAX + text_bytes + 2 * LENGTH_BYTES_MAX * count;
        let mut cursor = self.key((key, deadline), form.code(), form.version(), room);
        cursor.head(form, count);
        let mut written = 0;
        match form {
            Encoding::Hash => elements.for_each(|(name, value)| {
                cursor.string(name);
                cursor.string(value);
                written += 1;
            }),
            Encoding::Set => elements.for_each(|(name, _)| {
                cursor.string(name);
                written += 1;
            }),
            Encoding::SortedSet => elements.for_each(|(name, score)| {
                cursor.string(name);
                cursor.bytes(score);
                written += 1;
            }),
            _ => panic!("the type has other elements"),
        }
        assert_eq!(written, count, "as many as were announced");
    }

    /// Writes a stream.
    pub fn stream(&mut self, key: &[u8], deadline: Option<u64>, stream: StreamWriter) {
        let (code, since) = stream.form().code();
        let payload = stream.unsealed();
        let mut cursor = self.key((key, deadline), code, since, payload.len());
        cursor.bytes(&payload[1..]);
    }

    /// Writes the part before a value. Returns a cursor for `room` more bytes.
    #[inline(always)]
    fn key(
        &mut self,
        (key, deadline): (&[u8], Option<u64>),
        code: u8,
        since: u16,
        room: usize,
    ) -> Cursor<'_> {
        self.version = self.version.and(Version::of_type(code, since));
        let room = 1 + 8 + key.len() + LENGTH_BYTES_MAX + room;
        let Some(deadline) = deadline else {
            let mut cursor = self.item(code, room);
            cursor.string(key);
            return cursor;
        };
        let mut cursor = self.item(opcode::DEADLINE_MS, room);
        cursor.bytes(&deadline.to_le_bytes());
        cursor.bytes(&[code]);
        cursor.string(key);
        cursor
    }

    /// Writes the first byte of an item. Returns a cursor for `room` more bytes.
    #[inline(always)]
    fn item(&mut self, opcode: u8, room: usize) -> Cursor<'_> {
        assert_eq!(self.left, 0, "all announced elements precede the next item");
        let mut cursor = self.out.cursor(1 + room);
        cursor.bytes(&[opcode]);
        cursor
    }
}

/// Length and checksum of the items of a file whose header is known last.
///
/// A file is written as [`HEADER_PENDING`](super::HEADER_PENDING), the items, and the tail; then
/// the header is written over the first bytes. A stream, whose first bytes cannot be written later,
/// must begin with the header of a version that has all its types.
#[derive(Debug, Default)]
pub struct Framing {
    sum: u64,
    bytes: u64,
}

/// The parts before and after the items of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// First bytes of the file.
    pub header: [u8; HEADER_BYTES],
    /// Last bytes of the file.
    pub tail: [u8; 9],
}

impl Framing {
    /// Adds items, in the order in which they are written to the file.
    pub fn add(&mut self, items: &[u8]) {
        self.sum = crc64_after(self.sum, items);
        self.bytes += items.len() as u64;
    }

    /// Returns the length of the file if it ends here.
    pub fn file_bytes(&self) -> u64 {
        self.bytes + HEADER_BYTES as u64 + 9
    }

    /// Returns the parts before and after the items in a file of a version.
    pub fn end(mut self, version: Version) -> Ending {
        self.add(&[opcode::END]);
        let header = version.header();
        let sum = crc64_joined(crc64(&header), self.sum, self.bytes);
        let mut tail = [opcode::END; 9];
        tail[1..].copy_from_slice(&sum.to_le_bytes());
        Ending { header, tail }
    }

    /// Returns the parts before and after the items in a file without a checksum.
    pub fn end_unchecked(self, version: Version) -> Ending {
        let mut tail = [0; 9];
        tail[0] = opcode::END;
        Ending {
            header: version.header(),
            tail,
        }
    }
}
