//! Tags of inline values, which state the type and the form of an entry's bytes.

/// An inline string.
pub(crate) const TAG_STRING: u8 = 1;
/// A packed hash.
pub(crate) const TAG_HASH: u8 = 2;
/// A packed hash whose fields have deadlines.
pub(crate) const TAG_HASH_TTL: u8 = 3;
/// A packed set.
pub(crate) const TAG_SET: u8 = 4;
/// A packed set whose members have deadlines.
pub(crate) const TAG_SET_TTL: u8 = 5;
/// A set of integers.
pub(crate) const TAG_INTSET: u8 = 6;
/// A packed sorted set.
pub(crate) const TAG_SORTED_SET: u8 = 7;
/// A packed sorted set whose members have deadlines.
pub(crate) const TAG_SORTED_SET_TTL: u8 = 8;
/// A packed list.
pub(crate) const TAG_LIST: u8 = 9;
/// A string with memcached's head before it.
pub(crate) const TAG_ITEM: u8 = 10;
