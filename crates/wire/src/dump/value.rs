//! The parts of a value, as reader and writer exchange them.

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

/// Receiver of a value that [`read`](super::read) reads. The same name may occur twice; the
/// receiver must check this.
pub trait Sink {
    /// Receives the type; called once, first.
    fn begin(&mut self, kind: ValueType);
    /// Receives an element; called for each in order.
    fn element(&mut self, element: &Element<'_>);
}
