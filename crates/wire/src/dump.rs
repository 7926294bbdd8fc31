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
mod input;
mod packed;
mod read;
mod write;

pub use read::read;
pub use write::Writer;

/// A type of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes: one element, its name.
    String,
    /// Elements in their order.
    List,
    /// Members.
    Set,
    /// Members with scores.
    SortedSet,
    /// Fields with values.
    Hash,
}

/// One element of a value; what its kind does not have is left empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Element<'a> {
    /// A string, an element of a list, a member, a field.
    pub name: &'a [u8],
    /// A field's value.
    pub value: &'a [u8],
    /// A member's score, never NaN.
    pub score: f64,
    /// The millisecond since 1970 at which it dies; fits an `i64`.
    pub deadline: Option<u64>,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A string.
    String,
    /// A list.
    List,
    /// A set without deadlines.
    Set,
    /// A sorted set without deadlines.
    SortedSet,
    /// A hash without deadlines.
    Hash,
    /// A set, some of whose members have deadlines: ours alone.
    MortalSet,
    /// A sorted set, some of whose members have deadlines: ours alone.
    MortalSortedSet,
    /// A hash, some of whose fields have deadlines, as Redis since 7.4 reads it.
    RedisHash {
        /// The earliest of the deadlines.
        first: u64,
    },
    /// A hash, some of whose fields have deadlines, as Valkey since 9.0 reads it. No form is read by both.
    ValkeyHash,
}

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// Too short, of an unknown version, or the checksum is another.
    Footer,
    /// A type that is not known, or a body that contradicts itself.
    Body,
}

/// What [`read`] tells of a value, in its order. The same name may come twice: who collects finds out.
pub trait Sink {
    /// First, once.
    fn begin(&mut self, kind: Kind);
    /// Each element.
    fn element(&mut self, element: &Element<'_>);
}

/// Version and checksum.
const FOOTER_BYTES: usize = 2 + 8;

/// The numbers that stand for types. 22 means something else in release candidates of Redis 7.4: the
/// version tells.
mod code {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    /// Scores as text, before Redis 4.
    pub const SORTED_SET_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTEGERS: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list cut into ziplists.
    pub const LIST_ZIPLISTS: u8 = 14;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    /// A list cut into listpacks and long single elements.
    pub const LIST_LISTPACKS: u8 = 18;
    pub const SET_LISTPACK: u8 = 20;
    /// Valkey's hash with deadlines: each behind its field and value.
    pub const HASH_VALKEY: u8 = 22;
    /// Redis's hash with deadlines: the earliest, then each, relative to it, before its field.
    pub const HASH_REDIS: u8 = 24;
    /// The same, packed: fields, values and deadlines behind the earliest.
    pub const HASH_REDIS_LISTPACK: u8 = 25;
    /// Our own: members, each followed by its deadline. Beyond all numbers that Redis and Valkey use for
    /// types, and below those that stand for other things in their snapshots.
    pub const SET_DEADLINES: u8 = 128;
    /// Our own: members and scores, each followed by its deadline.
    pub const SORTED_SET_DEADLINES: u8 = 129;
}

/// Versions in the footer. Redis's stand below 80, Valkey's from 80 on; a type keeps its meaning in the
/// later ones, so what counts is whether the type is known.
mod version {
    /// Of Redis 5: what every later one reads.
    pub const PLAIN: u16 = 9;
    /// Of Redis 7.4, the first that knows deadlines of fields.
    pub const REDIS: u16 = 12;
    /// Of Valkey 9.0, likewise.
    pub const VALKEY: u16 = 80;
    /// None so far is near it.
    pub const MAX: u16 = 255;
}

/// Behind an element: it has no deadline.
const NO_DEADLINE: i64 = -1;

#[cfg(test)]
mod tests;
