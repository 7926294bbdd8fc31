//! The parts of a value, as exchanged between reader and writer.

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A string: one element, its name.
    String,
    /// A list: elements in order.
    List,
    /// A set: members.
    Set,
    /// A sorted set: members with scores.
    SortedSet,
    /// A hash: fields with values.
    Hash,
    /// A stream, which has its own kinds of parts.
    Stream,
}

impl ValueType {
    /// Returns the name of the type as TYPE replies it.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::String => "string",
            ValueType::List => "list",
            ValueType::Set => "set",
            ValueType::SortedSet => "zset",
            ValueType::Hash => "hash",
            ValueType::Stream => "stream",
        }
    }
}

/// An element of a value. Parts that its type lacks are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Element<'a> {
    /// String, element of a list, member, or field.
    pub name: &'a [u8],
    /// Value of a field.
    pub value: &'a [u8],
    /// Score of a member, never NaN.
    pub score: f64,
    /// Deadline in milliseconds since 1970; it fits an `i64`.
    pub deadline: Option<u64>,
}

/// ID of an entry: time and number.
pub type DumpId = (u64, u64);

/// Numbers of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamNumbers {
    /// Number of entries. Faults of earlier servers have written wrong ones, so that a reader
    /// counts the entries itself.
    pub len: u64,
    /// Largest ID ever added.
    pub last_id: DumpId,
    /// ID of the first entry.
    pub first_id: DumpId,
    /// Largest ID ever deleted.
    pub max_deleted_id: DumpId,
    /// Number of entries ever added; `None` in a payload of Redis before 7.0.
    pub entries_added: Option<u64>,
}

/// A part of a stream, in the order in which they are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StreamPart<'a> {
    /// An entry.
    Entry {
        /// ID of the entry.
        id: DumpId,
        /// Names of the entry's fields.
        names: &'a [Vec<u8>],
        /// Values of the entry's fields, one for each name.
        values: &'a [Vec<u8>],
    },
    /// The numbers, after all entries.
    Numbers(StreamNumbers),
    /// A group.
    Group {
        /// Name of the group.
        name: &'a [u8],
        /// ID of the last entry that was delivered.
        last_id: DumpId,
        /// Number of entries read; `None` if unknown.
        entries_read: Option<u64>,
    },
    /// A pending entry of the last group.
    Pending {
        /// ID of the entry.
        id: DumpId,
        /// Time of the last delivery.
        delivered_ms: u64,
        /// Number of deliveries.
        deliveries: u64,
    },
    /// A consumer of the last group, after all pending entries.
    Consumer {
        /// Name of the consumer.
        name: &'a [u8],
        /// Time of the last attempt to read.
        seen_ms: u64,
        /// Time of the last successful attempt.
        active_ms: Option<u64>,
    },
    /// A pending entry of the last consumer.
    Owned(DumpId),
    /// Seconds and number for which messages of producers are kept.
    Kept(u64, u64),
    /// A message of a producer.
    Message {
        /// Name of the producer.
        producer: &'a [u8],
        /// Name of the message.
        message: &'a [u8],
        /// ID of the entry that it became.
        id: DumpId,
    },
    /// Numbers of messages ever recorded and sent again.
    Messages(u64, u64),
    /// Maximum age of entries in milliseconds; 0 for none.
    MaxAge(u64),
    /// An entry's own deadline.
    Deadline(DumpId, u64),
}

/// Encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
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
    /// A set with deadlines of members; only this server reads it.
    SetWithDeadlines,
    /// A sorted set with deadlines of members; only this server reads it.
    SortedSetWithDeadlines,
    /// A hash with deadlines of fields, as Redis since 7.4 reads it.
    RedisHash {
        /// Earliest of the deadlines, in milliseconds since 1970.
        first: u64,
    },
    /// A hash with deadlines of fields, as Valkey since 9.0 reads it. Redis does not.
    ValkeyHash,
}

/// Reason why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// The payload is too short, its version is unknown, or its checksum is wrong.
    Footer,
    /// The type is unknown, or the body is malformed.
    Body,
}

/// Receiver of a value read by [`read`](super::read). A name may occur twice; the receiver must
/// check for this.
pub trait Sink {
    /// Receives the type; called once, first.
    fn begin(&mut self, kind: ValueType);
    /// Receives an element; called for each in order.
    fn element(&mut self, element: &Element<'_>);
    /// Receives a part of a stream. Returns false if it contradicts earlier parts or the receiver
    /// accepts no streams.
    fn stream_part(&mut self, _part: &StreamPart<'_>) -> bool {
        false
    }
}
