//! Values as the bytes that DUMP returns and RESTORE takes: the encodings of one value in Redis's
//! snapshots, followed by a version and a checksum.
//!
//! ```text
//! payload   type 1 │ body │ version 2 │ CRC-64 of all before it 8
//! length    00 + 6 bits │ 01 + 14 bits │ 0x80, 4 bytes │ 0x81, 8 bytes
//!           these are big-endian, all other numbers little-endian
//! string    length, bytes │ 0xC0, 0xC1, 0xC2: integer of 1, 2, 4 bytes │ 0xC3: two lengths, LZF
//! ```
//!
//! [`Writer`] writes types that every server since Redis 5 reads, if no element has a deadline.
//! Hashes with deadlines are written in the form read by Redis since 7.4 or by Valkey since 9.0. No
//! other server has a type for sets and sorted sets with deadlines, so their types are our own and
//! refused elsewhere. [`read`] accepts all of these, and the packed encodings in which Redis and
//! Valkey write small values.
//!
//! A stream is written as the oldest type that expresses it, or as a type of our own if its entries
//! have deadlines.
//!
//! Not supported: modules, and compression when writing. Lengths in a payload are not trusted:
//! memory grows only with bytes that are present, and the caller limits how far compression may
//! expand.

mod crc;
mod format;
mod input;
mod libraries;
mod packed;
mod read;
mod space;
mod stream;
mod value;
mod write;

pub(crate) use crc::{crc64, crc64_after, crc64_joined};
pub use format::may_have_deadlines;
pub(crate) use format::{code, is_own_type, version};
pub(crate) use input::{Body, Input, Read};
pub(crate) use libraries::{LIBRARY, VERSION as LIBRARY_VERSION};
pub use libraries::{read_libraries, write_libraries};
pub use read::read;
pub(crate) use read::{read_value, type_of};
pub(crate) use space::{Cursor, LENGTH_BYTES_MAX, Space};
pub use stream::{StreamForm, StreamWriter};
pub use value::{DumpError, DumpId, Element, Encoding, Sink, StreamNumbers, StreamPart, ValueType};
pub use write::Writer;
pub(crate) use write::{HEAD_BYTES_MAX, seal};

#[cfg(test)]
mod tests;
