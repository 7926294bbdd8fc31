//! One request, whatever the format it came in.

/// What a request asks for: the operations of the Twitter traces, which are memcached's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Reads the object; what a format without operations means.
    #[default]
    Get,
    /// Reads the object and its version.
    Gets,
    /// Writes the object.
    Set,
    /// Writes the object if there is none.
    Add,
    /// Writes the object if it is there.
    Replace,
    /// Writes the object if its version is the one given.
    Cas,
    /// Writes behind the value that is there.
    Append,
    /// Writes before the value that is there.
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

    /// Its name in a trace.
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

    /// The operation of this name, in either case. Block traces say `read` and `write` for `get` and `set`.
    #[inline]
    pub fn from_name(name: &[u8]) -> Option<Op> {
        let is_named = |op: &Op| op.name().as_bytes().eq_ignore_ascii_case(name);
        match name {
            b"get" | b"read" => Some(Op::Get),
            b"set" | b"write" => Some(Op::Set),
            _ => Op::ALL.into_iter().find(is_named),
        }
    }

    /// Whether it leaves the object as it is.
    pub const fn is_read(self) -> bool {
        matches!(self, Op::Get | Op::Gets)
    }
}

/// When a request's object is asked for again, as far as the trace tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NextAccess {
    /// The trace does not tell.
    #[default]
    Unknown,
    /// Never within the trace.
    Never,
    /// By the request of this number; the trace's first request has number 0.
    At(u64),
}

/// One request of a trace.
///
/// A format that lacks a field leaves it at its default, so that a consumer sees one shape for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When, in milliseconds from an origin of the trace's own. Passed on as the trace has it, also when
    /// it goes backwards; always 0 in a format without time.
    pub time_ms: u64,
    /// Which object: the number that the trace has, or the hash of its text ([`crate::key_of_text`]).
    pub key: u64,
    /// How long the object lives after it was written, in milliseconds; 0 for no limit.
    pub ttl_ms: u64,
    /// How large the object is, in bytes: key and value where both are known. 1 in a format without
    /// sizes; 0 is passed on where a trace has it.
    pub size: u32,
    /// The bytes of the key; 0 where the trace does not tell.
    pub key_size: u32,
    /// The bytes of the value: `size` − `key_size` where the trace has no number of its own for it.
    pub value_size: u32,
    /// Who asks; 0 where the trace does not tell.
    pub client: u32,
    /// What for.
    pub op: Op,
    /// When the object is asked for again. Told by annotated traces only, and never by a reader that
    /// skips, because the numbers of requests would no longer fit.
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
    /// A request that only tells time, key and size.
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
