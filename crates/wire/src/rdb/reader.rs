//! Reads the items of a file.

use super::opcode;
use super::version::{HEADER_BYTES, Version};
use super::window::Window;
use crate::dump::{
    Body, DumpError, Element, Input, LIBRARY, Read, Sink, StreamPart, ValueType, code, read_value,
    seal, type_of,
};
use std::fmt;
use std::io;

/// First version of files that end with a checksum.
const CHECKSUM_SINCE: u16 = 5;

/// An item of a file.
#[derive(Debug)]
pub enum Item<'r> {
    /// An additional field.
    Field {
        /// Name of the field.
        name: &'r [u8],
        /// The field's value.
        value: &'r [u8],
    },
    /// Data of a module that belongs to no key, by the name of the module. It has been skipped.
    ModuleField(String),
    /// Code of a function library.
    Library(&'r [u8]),
    /// Database of the following keys.
    Database(u64),
    /// Approximate sizes of the database.
    Sizes {
        /// Number of keys.
        keys: u64,
        /// Number of keys with deadlines.
        keys_with_deadlines: u64,
    },
    /// A key. [`Reader::value`] reads its value.
    Entry(Entry<'r>),
    /// End of the file. Its checksum is correct, or it has none.
    End,
}

/// A key and the facts known about its value before it is read.
#[derive(Debug)]
pub struct Entry<'r> {
    /// The key.
    pub key: &'r [u8],
    /// Deadline in milliseconds since 1970; it fits an `i64`.
    pub deadline: Option<u64>,
    /// Kind of the value.
    pub kind: Kind,
}

/// Kind of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that [`Reader::value`] can read.
    Value(ValueType),
    /// A value of the named module, which can only be skipped.
    Module(String),
}

/// Reason why a file cannot be read on.
#[derive(Debug)]
pub struct RdbError {
    /// Offset of the first byte that could not be used.
    pub offset: u64,
    /// What was expected at this position, as a noun.
    pub expected: String,
    /// What was found.
    pub cause: Cause,
}

/// What was found instead.
#[derive(Debug)]
pub enum Cause {
    /// Other bytes.
    Malformed,
    /// The end of the file.
    Cut,
    /// The checksum in the file and the actual checksum of its bytes.
    Checksum {
        /// Checksum in the file.
        stored: u64,
        /// Checksum of the bytes before it.
        computed: u64,
    },
    /// Something that this server does not support.
    Unsupported(String),
    /// An error of the source.
    Source(io::Error),
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "offset {}: expected {}, found ",
            self.offset, self.expected
        )?;
        match &self.cause {
            Cause::Malformed => write!(f, "other bytes"),
            Cause::Cut => write!(f, "the end of the file"),
            Cause::Checksum { stored, computed } => {
                write!(f, "{stored:016x} (computed {computed:016x})")
            }
            Cause::Unsupported(found) => write!(f, "{found}"),
            Cause::Source(error) => write!(f, "an error: {error}"),
        }
    }
}

impl std::error::Error for RdbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Source(error) => Some(error),
            _ => None,
        }
    }
}

/// Reader of a file, item by item. [`Writer`](super::Writer) has an example.
#[derive(Debug)]
pub struct Reader<R> {
    window: Window<R>,
    version: Version,
    database: u64,
    /// Type of the value that follows in the source.
    unread: Option<u8>,
    /// Last key, or the value of a field.
    text: Vec<u8>,
    name: Vec<u8>,
    scratch: Vec<u8>,
}

impl<R: io::Read> Reader<R> {
    /// Creates a reader; [`Reader::begin`] must be called next.
    pub fn new(source: R) -> Self {
        Reader {
            window: Window::new(source),
            version: Version::PLAIN,
            database: 0,
            unread: None,
            text: Vec::new(),
            name: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Returns the size of the buffers in bytes.
    pub fn buffer_bytes(&self) -> usize {
        let texts = [&self.text, &self.name, &self.scratch];
        let capacities = texts.map(Vec::capacity);
        self.window.buffer_bytes() + capacities.iter().sum::<usize>()
    }

    /// Returns the source and the bytes after the last item that were read from it.
    pub fn into_parts(self) -> (R, Vec<u8>) {
        self.window.into_parts()
    }

    /// Reads the header.
    ///
    /// # Errors
    /// The file is of another kind or version.
    pub fn begin(&mut self) -> Result<Version, RdbError> {
        const EXPECTED: &str = "a header such as REDIS0009, VALKEY080 or MAYFLY001";
        let header: [u8; HEADER_BYTES] = self.window.array().map_err(|_| self.error(EXPECTED))?;
        self.version = Version::read(header).ok_or_else(|| RdbError {
            offset: 0,
            expected: EXPECTED.into(),
            cause: Cause::Unsupported(format!("'{}'", header.escape_ascii())),
        })?;
        Ok(self.version)
    }

    /// Reads the next item. A value that has not been read is skipped. [`Item::End`] is the last.
    ///
    /// # Errors
    /// See [`RdbError`].
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows from the reader, which an iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Item<'_>, RdbError> {
        if self.unread.is_some() {
            self.skip()?;
        }
        let mut deadline = None;
        loop {
            let opcode = self.read("an item", |window| window.byte())?;
            match opcode {
                opcode::DEADLINE_MS => {
                    let at = self.read("a deadline", |window| window.array())?;
                    deadline = read_deadline(i64::from_le_bytes(at));
                }
                opcode::DEADLINE_SECONDS => {
                    let at = self.read("a deadline", |window| window.array())?;
                    deadline = read_deadline(i64::from(i32::from_le_bytes(at)) * 1000);
                }
                opcode::IDLE => {
                    self.read("an idle time", |window| window.length())?;
                }
                opcode::FREQUENCY => {
                    self.read("a frequency", |window| window.byte())?;
                }
                opcode::SLOT_INFO => {
                    self.read("sizes of a slot", |window| {
                        (0..3).try_for_each(|_| window.length().map(drop))
                    })?;
                }
                opcode::KEY_METADATA => self.key_metadata()?,
                code if type_of(code, self.version.number()).is_some() || code == MODULE => {
                    return self.entry(code, deadline);
                }
                other => return self.other(other),
            }
        }
    }

    /// Reads an item that does not concern the next key.
    fn other(&mut self, opcode: u8) -> Result<Item<'_>, RdbError> {
        match opcode {
            opcode::FIELD => {
                self.string("the name of a field", Text::Name)?;
                self.string("the value of a field", Text::Other)?;
                Ok(Item::Field {
                    name: &self.name,
                    value: &self.text,
                })
            }
            LIBRARY => {
                self.string("the code of a library", Text::Other)?;
                Ok(Item::Library(&self.text))
            }
            opcode::DATABASE => {
                self.database = self.read("the number of a database", |window| window.length())?;
                Ok(Item::Database(self.database))
            }
            opcode::SIZES => {
                let sizes = |window: &mut Window<R>| Ok((window.length()?, window.length()?));
                let (keys, keys_with_deadlines) = self.read("sizes of a database", sizes)?;
                Ok(Item::Sizes {
                    keys,
                    keys_with_deadlines,
                })
            }
            opcode::MODULE_FIELD => {
                let id = self.read("the number of a module", |window| window.length())?;
                let name = module_name(id);
                let expected = format!("data of module '{name}'");
                self.read(&expected, |window| {
                    let (_unsigned, _when) = (window.length()?, window.length()?);
                    skip_module(window)
                })?;
                Ok(Item::ModuleField(name))
            }
            opcode::END => self.end(),
            other => Err(RdbError {
                offset: self.offset() - 1,
                expected: "an item or a type of value".into(),
                cause: Cause::Unsupported(format!("number {other} in {}", self.version)),
            }),
        }
    }

    /// Skips metadata of modules for the next key, if these modules allow it.
    fn key_metadata(&mut self) -> Result<(), RdbError> {
        const MAY_BE_SKIPPED: u32 = 1;
        let offset = self.offset();
        let unsupported = |found: String| RdbError {
            offset,
            expected: "a key".into(),
            cause: Cause::Unsupported(found),
        };
        if !matches!(self.version, Version::Redis(_)) {
            return Err(unsupported("an unfinished import of cluster slots".into()));
        }
        let count = self.read("the number of metadata", |window| window.length())?;
        for _ in 0..count {
            let class = self.read("a class of metadata", |window| window.array())?;
            let class = u32::from_le_bytes(class);
            let name = characters(u64::from(class >> 8), 4);
            if class & MAY_BE_SKIPPED == 0 {
                return Err(unsupported(format!("metadata of module class '{name}'")));
            }
            let expected = format!("metadata of module class '{name}'");
            self.read(&expected, skip_module)?;
        }
        Ok(())
    }

    fn entry(&mut self, code: u8, deadline: Option<u64>) -> Result<Item<'_>, RdbError> {
        self.string("a key", Text::Other)?;
        self.window.begin_value();
        self.unread = Some(code);
        let kind = match type_of(code, self.version.number()) {
            Some(kind) => Kind::Value(kind),
            None => {
                let id = self.read("the number of a module", |window| window.length())?;
                Kind::Module(module_name(id))
            }
        };
        Ok(Item::Entry(Entry {
            key: &self.text,
            deadline,
            kind,
        }))
    }

    /// Reads the value of the key that [`Reader::next`] returned, and passes it to `sink`. After an
    /// error, the sink has received an unusable part.
    ///
    /// # Errors
    /// See [`RdbError`].
    ///
    /// # Panics
    /// There is no unread value, or it belongs to a module.
    pub fn value(&mut self, sink: &mut impl Sink) -> Result<(), RdbError> {
        let code = self.unread.take().expect("a key was read");
        assert_ne!(code, MODULE, "a value of a module can only be skipped");
        let version = self.version.number();
        match read_value(&mut self.window, code, version, sink) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.value_error(code)),
        }
    }

    /// Takes the value of the key that [`Reader::next`] returned out of the file without building
    /// it, so that another thread can. Its structure is checked. Returns `None` if it is longer
    /// than `bytes_max` and not completely in the buffer, in which case [`Reader::value`] reads it.
    ///
    /// # Errors
    /// See [`RdbError`].
    ///
    /// # Panics
    /// There is no unread value, or it belongs to a module.
    pub fn raw_value(&mut self, bytes_max: usize) -> Result<Option<RawValue<'_>>, RdbError> {
        let code = self.unread.expect("a key was read");
        assert_ne!(code, MODULE, "a value of a module can only be skipped");
        let head = RawHead {
            offset: self.offset(),
            database: self.database,
            version: self.version.number(),
            code,
        };
        self.window.mark(bytes_max);
        match read_value(&mut self.window, code, head.version, &mut Ignore) {
            Ok(()) => {
                self.unread = None;
                let bytes = self.window.take_marked();
                Ok(Some(RawValue { head, bytes }))
            }
            Err(_) if self.window.rewind() => Ok(None),
            Err(_) => {
                self.unread = None;
                Err(self.value_error(code))
            }
        }
    }

    fn value_error(&mut self, code: u8) -> RdbError {
        let (version, database) = (self.version.number(), self.database);
        let expected = expected_value(code, version, &self.text, database);
        self.error(&expected)
    }

    /// Skips the value of the key that [`Reader::next`] returned.
    ///
    /// # Errors
    /// See [`RdbError`].
    ///
    /// # Panics
    /// There is no unread value.
    pub fn skip(&mut self) -> Result<(), RdbError> {
        if self.unread != Some(MODULE) {
            return self.value(&mut Ignore);
        }
        self.unread = None;
        skip_module(&mut self.window).map_err(|_| self.value_error(MODULE))
    }

    fn end(&mut self) -> Result<Item<'_>, RdbError> {
        if self.version.number() < CHECKSUM_SINCE {
            return Ok(Item::End);
        }
        let computed = self.window.checksum();
        let offset = self.offset();
        let stored = self.read("a checksum", |window| window.array())?;
        match u64::from_le_bytes(stored) {
            0 => Ok(Item::End),
            stored if stored == computed => Ok(Item::End),
            stored => Err(RdbError {
                offset,
                expected: "the checksum of the file".into(),
                cause: Cause::Checksum { stored, computed },
            }),
        }
    }

    fn string(&mut self, expected: &str, text: Text) -> Result<(), RdbError> {
        let into = match text {
            Text::Name => &mut self.name,
            Text::Other => &mut self.text,
        };
        self.window.begin_value();
        let read = self.window.copy_string(into, &mut self.scratch);
        read.map_err(|_| self.error(expected))
    }

    fn read<T>(
        &mut self,
        expected: &str,
        read: impl FnOnce(&mut Window<R>) -> Read<T>,
    ) -> Result<T, RdbError> {
        read(&mut self.window).map_err(|_| self.error(expected))
    }

    #[cold]
    fn error(&mut self, expected: &str) -> RdbError {
        let cause = match self.window.take_failure() {
            Some(error) => Cause::Source(error),
            None if self.window.is_over() => Cause::Cut,
            None => Cause::Malformed,
        };
        RdbError {
            offset: self.offset(),
            expected: expected.to_owned(),
            cause,
        }
    }
}

/// A value as encoded in a file.
#[derive(Debug)]
pub struct RawValue<'r> {
    /// Facts needed to read the value.
    pub head: RawHead,
    /// The value's bytes.
    pub bytes: &'r [u8],
}

/// Form and position of a [`RawValue`].
#[derive(Clone, Copy, Debug)]
pub struct RawHead {
    /// Offset of the value in its file.
    pub offset: u64,
    database: u64,
    version: u16,
    code: u8,
}

impl RawHead {
    /// Reads the value, whose bytes are `bytes`, and passes it to `sink`. After an error, the sink
    /// has received an unusable part. `key` is named in errors.
    ///
    /// # Errors
    /// The sink refuses a part of it. The offset is that in the file.
    pub fn read(&self, key: &[u8], bytes: &[u8], sink: &mut impl Sink) -> Result<(), RdbError> {
        // `Reader::raw_value` has checked the sum of expanded bytes.
        let mut input = Input::new(bytes, usize::MAX);
        let read = read_value(&mut input, self.code, self.version, sink);
        read.map_err(|_| RdbError {
            offset: self.offset + (bytes.len() - input.len()) as u64,
            expected: expected_value(self.code, self.version, key, self.database),
            cause: Cause::Malformed,
        })
    }
}

impl RawValue<'_> {
    /// Returns the value as DUMP would return it.
    pub fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.bytes.len() + 11);
        payload.push(self.head.code);
        payload.extend_from_slice(self.bytes);
        seal(payload, self.head.version)
    }
}

/// Returns a description of what a file must contain where a key's value is expected.
fn expected_value(code: u8, version: u16, key: &[u8], database: u64) -> String {
    let kind = type_of(code, version).map_or("value", |kind| kind.name());
    let key = key.escape_ascii();
    format!("a {kind} (type {code}), the value of key '{key}' in database {database}")
}

/// Type of values of modules.
const MODULE: u8 = code::MODULE;

/// Buffer that a string is read into.
enum Text {
    Name,
    Other,
}

/// Returns the deadline stored in a file. −1 means none, and any other time before 1970 is treated
/// as 1970.
fn read_deadline(at: i64) -> Option<u64> {
    (at != -1).then_some(at.max(0) as u64)
}

/// Receives a value that is not needed.
struct Ignore;

impl Sink for Ignore {
    fn begin(&mut self, _kind: ValueType) {}
    fn element(&mut self, _element: &Element<'_>) {}
    fn stream_part(&mut self, _part: &StreamPart<'_>) -> bool {
        true
    }
}

/// Skips data of a module: numbers and strings, each after a number for its kind.
fn skip_module<R: io::Read>(window: &mut Window<R>) -> Read<()> {
    let mut scratch = Vec::new();
    loop {
        match window.length()? {
            0 => return Ok(()),
            1 | 2 => drop(window.length()?),
            3 => drop(window.array::<4>()?),
            4 => drop(window.array::<8>()?),
            5 => drop(window.string(&mut scratch)?),
            _ => return Err(DumpError::Body),
        }
    }
}

/// Returns the name of a module from the upper 54 bits of its number.
fn module_name(id: u64) -> String {
    characters(id >> 10, 9)
}

/// Returns the characters in groups of six bits, the last one in the lowest.
fn characters(bits: u64, count: u32) -> String {
    const SET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let character = |place| SET[(bits >> (6 * place) & 0x3F) as usize];
    (0..count)
        .rev()
        .map(|place| char::from(character(place)))
        .collect()
}
