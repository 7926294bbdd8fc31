//! A request, in the same form for every format.

/// Operation of a request. The operations are those of the Twitter traces, and so of memcached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Reads the object. It is the operation of formats that have no operations.
    #[default]
    Get,
    /// Reads the object and its version.
    Gets,
    /// Writes the object.
    Set,
    /// Writes the object if it does not exist.
    Add,
    /// Writes the object if it exists.
    Replace,
    /// Writes the object if its version is the given one.
    Cas,
    /// Appends to the value of an existing object.
    Append,
    /// Prepends to the value of an existing object.
    Prepend,
    /// Removes the object.
    Delete,
    /// Adds to a number.
    Incr,
    /// Subtracts from a number.
    Decr,
}

impl Op {
    /// Every operation, in the order of the type.
    pub const ALL: [Op; 11] = [
        Op::Get,
        Op::Gets,
        Op::Set,
        Op::Add,
        Op::Replace,
        Op::Cas,
        Op::Append,
        Op::Prepend,
        Op::Delete,
        Op::Incr,
        Op::Decr,
    ];

    /// Returns the operation's name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Get => "get",
            Op::Gets => "gets",
            Op::Set => "set",
            Op::Add => "add",
            Op::Replace => "replace",
            Op::Cas => "cas",
            Op::Append => "append",
            Op::Prepend => "prepend",
            Op::Delete => "delete",
            Op::Incr => "incr",
            Op::Decr => "decr",
        }
    }

    /// Returns the operation of a name, in upper or lower case. Block traces use `read` and `write`
    /// for `get` and `set`, and CacheBench has leases.
    #[inline]
    pub fn from_name(name: &[u8]) -> Option<Op> {
        let is_named = |op: &Op| op.name().as_bytes().eq_ignore_ascii_case(name);
        match name {
            b"get" | b"read" | b"GET" | b"GET_LEASE" => Some(Op::Get),
            b"set" | b"write" | b"SET" | b"SET_LEASE" => Some(Op::Set),
            _ => Op::ALL.into_iter().find(is_named),
        }
    }

    /// Whether the operation leaves the object unchanged.
    pub const fn is_read(self) -> bool {
        matches!(self, Op::Get | Op::Gets)
    }
}

/// Position of the next request of the same object, if the trace has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NextAccess {
    /// The trace does not include this information.
    #[default]
    Unknown,
    /// No later request in the trace.
    Never,
    /// Number of the next request; the trace's first request has number 0.
    At(u64),
}

/// A request of a trace.
///
/// A field that a format lacks has its default value, so that all formats look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time in milliseconds, from an origin that the trace chooses. It is passed on unchanged, even
    /// if it decreases; always 0 in a format without times.
    pub time_ms: u64,
    /// Key of the object: the number in the trace, or the hash of its text
    /// ([`crate::key_of_text`]).
    pub key: u64,
    /// TTL in milliseconds, counted from the write; 0 for none.
    pub ttl_ms: u64,
    /// Size of the object in bytes, key and value where both are known. It is 1 in a format without
    /// sizes; a 0 in the trace is passed on.
    pub size: u32,
    /// Size of the key in bytes; 0 where the trace lacks it.
    pub key_size: u32,
    /// Size of the value in bytes: `size` − `key_size` where the trace lacks it.
    pub value_size: u32,
    /// Number of the client; 0 where the trace lacks it.
    pub client: u32,
    /// Operation.
    pub op: Op,
    /// Next request of the object. Only annotated traces have it. A reader that skips malformed
    /// input never returns it, because the numbers of requests would no longer match.
    pub next_access: NextAccess,
}

const _: () = assert!(size_of::<Request>() <= 64, "a request fits a cache line");

impl Default for Request {
    fn default() -> Self {
        Request {
            time_ms: 0,
            key: 0,
            ttl_ms: 0,
            size: 1,
            key_size: 0,
            value_size: 1,
            client: 0,
            op: Op::Get,
            next_access: NextAccess::Unknown,
        }
    }
}

impl Request {
    /// Creates a request with a time, a key and a size.
    pub fn new(time_ms: u64, key: u64, size: u32) -> Self {
        Request {
            time_ms,
            key,
            size,
            value_size: size,
            ..Request::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name() {
        for op in Op::ALL {
            assert_eq!(Op::from_name(op.name().as_bytes()), Some(op));
        }
        assert_eq!(Op::from_name(b"read"), Some(Op::Get));
        assert_eq!(Op::from_name(b"write"), Some(Op::Set));
        assert_eq!(Op::from_name(b"GET"), Some(Op::Get));
        assert_eq!(Op::from_name(b"touch"), None);
    }
}
