//! Constants of the format: types, versions, and values at fixed positions.

/// Bytes of version and checksum.
pub(super) const FOOTER_BYTES: usize = 2 + 8;

/// Numbers of the types.
pub(crate) mod code {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    /// Scores as text, before Redis 4.
    pub const SORTED_SET_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    /// A value of a module, with numbers for the kinds of its parts.
    pub const MODULE: u8 = 7;
    /// A hash in a packed form, before Redis 2.6.
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTEGERS: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list in several ziplists.
    pub const LIST_ZIPLISTS: u8 = 14;
    /// A stream: entries in listpacks, groups.
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    /// A list in several listpacks and long single elements.
    pub const LIST_LISTPACKS: u8 = 18;
    /// A stream with the numbers of entries ever added and read, since Redis 7.0.
    pub const STREAM_COUNTED: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    /// A stream whose consumers have two times, since Redis 7.2.
    pub const STREAM_TIMED: u8 = 21;
    /// Valkey's hash with deadlines: each after its field and value. In a version of Redis, a hash
    /// with deadlines as release candidates of Redis 7.4 wrote it: each before its field.
    pub const HASH_VALKEY: u8 = 22;
    /// A packed hash with deadlines, as written by release candidates of Redis 7.4: without the
    /// earliest deadline at the front.
    pub const HASH_CANDIDATE_LISTPACK: u8 = 23;
    /// Redis's hash with deadlines: the earliest one, then each, relative to it, before its field.
    pub const HASH_REDIS: u8 = 24;
    /// Redis's hash with deadlines, packed: fields, values and deadlines after the earliest one.
    pub const HASH_REDIS_LISTPACK: u8 = 25;
    /// A stream with messages of producers, since Redis 8.6.
    pub const STREAM_MESSAGES: u8 = 26;
    /// Type of this server: members, each followed by its deadline. The number is above all that
    /// Redis and Valkey use for types, and below those with other meanings in their snapshots.
    pub const SET_DEADLINES: u8 = 128;
    /// Type of this server: members and scores, each followed by its deadline.
    pub const SORTED_SET_DEADLINES: u8 = 129;
    /// Type of this server: a stream with messages of producers, a maximum age and deadlines.
    pub const STREAM_DEADLINES: u8 = 130;
}

/// Versions in the footer. Redis's are below 80, Valkey's from 80 on. A type keeps its meaning in
/// later versions, so a payload is accepted if its type is known.
pub(crate) mod version {
    /// Version of Redis 5, which all later ones read.
    pub const PLAIN: u16 = 9;
    /// Version of Redis 7.0, the first that counts entries ever added to a stream.
    pub const STREAM_COUNTED: u16 = 10;
    /// Version of Redis 7.2, the first with two times of consumers.
    pub const STREAM_TIMED: u16 = 11;
    /// Version of Redis 8.6, the first with messages of producers.
    pub const STREAM_MESSAGES: u16 = 13;
    /// Version of Redis 7.4, the first with deadlines of fields.
    pub const REDIS: u16 = 12;
    /// Version of Valkey 9.0, the first with deadlines of fields.
    pub const VALKEY: u16 = 80;
    /// Largest version accepted; no server uses one near it.
    pub const MAX: u16 = 255;
}

/// Value in place of a deadline for an element without one.
pub(super) const NO_DEADLINE: i64 = -1;

/// Whether a payload is of a type whose elements may have deadlines.
pub fn may_have_deadlines(payload: &[u8]) -> bool {
    use code::*;
    let may = [
        HASH_VALKEY,
        HASH_CANDIDATE_LISTPACK,
        HASH_REDIS,
        HASH_REDIS_LISTPACK,
        STREAM_MESSAGES,
    ];
    payload
        .first()
        .is_some_and(|code| is_own_type(*code) || may.contains(code))
}

/// Whether a type is specific to this server.
pub(crate) fn is_own_type(code: u8) -> bool {
    (code::SET_DEADLINES..=code::STREAM_DEADLINES).contains(&code)
}
