//! The numbers of the format: types, versions, and what stands at fixed places.

/// Version and checksum.
pub(super) const FOOTER_BYTES: usize = 2 + 8;

/// The numbers that stand for types. 22 means something else in release candidates of Redis 7.4: the
/// version tells.
pub(super) mod code {
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
pub(super) mod version {
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
pub(super) const NO_DEADLINE: i64 = -1;
