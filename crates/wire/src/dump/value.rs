//! What a payload holds, as its reader and its writer exchange it.

/// A type of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
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
    /// A set, some of whose members have deadlines: ours alone.
    SetWithDeadlines,
    /// A sorted set, some of whose members have deadlines: ours alone.
    SortedSetWithDeadlines,
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
    fn begin(&mut self, kind: ValueType);
    /// Each element.
    fn element(&mut self, element: &Element<'_>);
}
