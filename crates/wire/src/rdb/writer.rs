//! Writes items, and what surrounds them in a file.

use super::opcode;
use super::version::{HEADER_BYTES, Version};
use crate::dump::{
    Element, Encoding, LIBRARY, LIBRARY_VERSION, StreamWriter, crc64, crc64_after, crc64_joined,
    push_element, push_head, push_length, push_string,
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
    out: Vec<u8>,
    version: Version,
    /// Type of the value that is being written, and the number of elements not yet written.
    form: Encoding,
    left: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Writer {
            out: Vec::new(),
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
        std::mem::take(&mut self.out)
    }

    /// Returns the bytes written since the last [`Writer::take`] or [`Writer::clear`].
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Removes the bytes but keeps their buffer.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Writes an additional field. Readers skip fields whose names are unknown to them.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        self.opcode(opcode::FIELD);
        push_string(&mut self.out, name);
        push_string(&mut self.out, value);
    }

    /// Writes the code of a function library.
    pub fn library(&mut self, code: &[u8]) {
        self.opcode(LIBRARY);
        push_string(&mut self.out, code);
        self.version = self.version.and(Version::Redis(LIBRARY_VERSION));
    }

    /// Selects the database of the following keys.
    pub fn database(&mut self, database: u64) {
        self.opcode(opcode::DATABASE);
        push_length(&mut self.out, database);
    }

    /// Writes the numbers of keys and of keys with deadlines in the database. Readers use them to
    /// allocate tables; they need not be exact.
    pub fn sizes(&mut self, keys: u64, keys_with_deadlines: u64) {
        self.opcode(opcode::SIZES);
        push_length(&mut self.out, keys);
        push_length(&mut self.out, keys_with_deadlines);
    }

    /// Begins a value of `count` elements, at least one; a string is one element. The deadline is
    /// in milliseconds since 1970. [`Writer::put`] must be called for each element next.
    pub fn begin(&mut self, key: &[u8], deadline: Option<u64>, form: Encoding, count: usize) {
        assert!(count > 0, "an empty value is not stored");
        assert!(form != Encoding::String || count == 1);
        self.key(key, deadline, form.code(), form.version());
        push_head(&mut self.out, form, count);
        (self.form, self.left) = (form, count);
    }

    /// Writes the next element.
    #[inline]
    pub fn put(&mut self, element: &Element<'_>) {
        assert!(self.left > 0, "no more were announced");
        self.left -= 1;
        push_element(&mut self.out, self.form, element);
    }

    /// Writes a stream.
    pub fn stream(&mut self, key: &[u8], deadline: Option<u64>, stream: StreamWriter) {
        let (code, since) = stream.form().code();
        self.key(key, deadline, code, since);
        self.out.extend_from_slice(&stream.unsealed()[1..]);
    }

    fn key(&mut self, key: &[u8], deadline: Option<u64>, code: u8, since: u16) {
        if let Some(deadline) = deadline {
            self.opcode(opcode::DEADLINE_MS);
            self.out.extend_from_slice(&deadline.to_le_bytes());
        }
        self.opcode(code);
        push_string(&mut self.out, key);
        self.version = self.version.and(Version::of_type(code, since));
    }

    fn opcode(&mut self, opcode: u8) {
        assert_eq!(self.left, 0, "all announced elements precede the next item");
        self.out.push(opcode);
    }
}

/// Length and checksum of the items of a file, whose header is known last.
///
/// A file is written as [`HEADER_PENDING`](super::HEADER_PENDING), the items, and the tail; then
/// the header is written over the first bytes. A stream, whose first bytes cannot be written later,
/// must begin with the header of a version that has all its types.
#[derive(Debug, Default)]
pub struct Framing {
    sum: u64,
    bytes: u64,
}

/// What surrounds the items of a file.
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

    /// Returns what surrounds the items in a file of a version.
    pub fn end(mut self, version: Version) -> Ending {
        self.add(&[opcode::END]);
        let header = version.header();
        let sum = crc64_joined(crc64(&header), self.sum, self.bytes);
        let mut tail = [opcode::END; 9];
        tail[1..].copy_from_slice(&sum.to_le_bytes());
        Ending { header, tail }
    }

    /// Returns what surrounds the items in a file without checksum.
    pub fn end_unchecked(self, version: Version) -> Ending {
        let mut tail = [0; 9];
        tail[0] = opcode::END;
        Ending {
            header: version.header(),
            tail,
        }
    }
}
