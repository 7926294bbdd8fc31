//! Errors of commands, in Redis's wording.

use std::borrow::Cow;
use store::hyperloglog::Flaw;
use store::{Full, Keyspace, WrongType};
use wire::Reply;
use wire::output::can_allocate;

/// Error reply when memory is full.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Error reply to a read that would create a consumer in a database that has reached its own limit.
pub const CLASS_FULL: &str = "OOM the class of the database has reached its maxmemory";

/// Counts a write to a full database, and returns the error reply to it.
pub fn refuse_full(space: &Keyspace, db: u8, full: Full) -> Cow<'static, str> {
    if full == Full::Memory {
        return OUT_OF_MEMORY.into();
    }
    match space.refuse_full(db) {
        Some(class) => format!(
            "OOM class '{class}' has reached its maxmemory, and nothing in it can be evicted"
        )
        .into(),
        None => OUT_OF_MEMORY.into(),
    }
}

/// Error reply to a command on many keys that would take too much work for one step.
pub const BEYOND_LIMIT: &str = "ERR the estimated work of the command exceeds atomic-work-limit";

/// Error reply to commands that are not allowed while a file is loaded.
pub const NO_PRIMARY: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
/// Error for commands on keys while a file is loaded.
pub const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// Error reply when the memory for a value or an argument cannot be allocated.
pub const NO_MEMORY: &str = "OOM the memory for a value of this size cannot be allocated";

/// Returns an error unless a value of this many bytes can be built and stored, which may take one
/// copy.
///
/// # Errors
/// [`Refusal::NoMemory`].
pub fn check_memory(bytes: usize) -> Answer {
    match can_allocate(bytes.saturating_mul(2)) {
        true => Ok(()),
        false => Err(Refusal::NoMemory),
    }
}

/// Reason why a command was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Options are unknown, conflict, or lack an argument.
    Syntax,
    /// The key holds another type.
    WrongType,
    /// An argument or a value is not a 64-bit integer.
    NotInteger,
    /// The sum of integers exceeds 64 bits.
    Overflow,
    /// An argument or a value is not a number.
    NotFloat,
    /// The expiration time overflows, or is not positive where it must be. Contains the command's
    /// name.
    ExpireTime(&'static str),
    /// Wrong number of arguments, in a case that the command's arity cannot express. Contains the
    /// command's name.
    Arity(&'static str),
    /// The database does not exist.
    DatabaseRange,
    /// Source and destination are the same key.
    SameObject,
    /// The value would exceed the maximum size.
    TooLong,
    /// The memory for the value cannot be allocated.
    NoMemory,
    /// Any other error, with its full text and code.
    Message(&'static str),
}

/// Result of a command that may be refused. On success it has written its reply.
pub type Answer = Result<(), Refusal>;

impl From<WrongType> for Refusal {
    fn from(_: WrongType) -> Refusal {
        Refusal::WrongType
    }
}

impl Refusal {
    /// Writes the error reply.
    pub fn write(self, reply: &mut Reply<'_>) {
        let text = match self {
            Refusal::Syntax => "ERR syntax error",
            Refusal::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }
            Refusal::NotInteger => "ERR value is not an integer or out of range",
            Refusal::Overflow => "ERR increment or decrement would overflow",
            Refusal::NotFloat => "ERR value is not a valid float",
            Refusal::DatabaseRange => "ERR DB index is out of range",
            Refusal::SameObject => "ERR source and destination objects are the same",
            Refusal::TooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Refusal::NoMemory => NO_MEMORY,
            Refusal::Message(text) => text,
            Refusal::ExpireTime(name) => {
                return reply
                    .error_fmt(format_args!("ERR invalid expire time in '{name}' command"));
            }
            Refusal::Arity(name) => {
                return reply.error_fmt(format_args!(
                    "ERR wrong number of arguments for '{name}' command"
                ));
            }
        };
        reply.error(text);
    }
}

impl From<Flaw> for Refusal {
    fn from(flaw: Flaw) -> Refusal {
        Refusal::Message(match flaw {
            Flaw::NoSketch => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Flaw::Corrupt => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}
