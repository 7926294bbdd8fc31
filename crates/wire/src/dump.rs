//! Values as bytes, as DUMP hands them out and RESTORE takes them in: the encodings of one value in
//! Redis's snapshots, with a version and a checksum behind.
//!
//! ```text
//! payload   type 1 │ body │ version 2 │ CRC-64 of all before it 8
//! length    00 + 6 bits │ 01 + 14 bits │ 0x80, 4 bytes │ 0x81, 8 bytes; these are big-endian, all else little
//! string    length, bytes │ 0xC0 0xC1 0xC2: an integer of 1, 2, 4 bytes │ 0xC3: two lengths and LZF
//! ```
//!
//! [`Writer`] writes what every server since Redis 5 reads, where no element has a deadline. Hashes whose
//! fields have some are written as Redis since 7.4 or as Valkey since 9.0 reads them; for
//! sets and sorted sets with deadlines nobody else has a form, so theirs is our own and refused elsewhere.
//! [`read`] takes all of these, and the packed forms in which Redis and Valkey write what is small.
//!
//! Deliberately absent: streams, modules, zipmaps (before Redis 2.6), forms of release candidates, and
//! compression when writing. What a payload announces is never believed: memory grows with bytes that
//! are there, and what compression unfolds is bounded by the caller.

mod crc;
mod format;
mod input;
mod packed;
mod read;
mod value;
mod write;

pub use read::read;
pub use value::{DumpError, Element, Encoding, Sink, ValueType};
pub use write::Writer;

#[cfg(test)]
mod tests;
