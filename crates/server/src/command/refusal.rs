//! Reasons for which a command is refused, in Redis's words.

use store::WrongType;
use wire::Reply;

/// Error reply when memory is full.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Options that do not exist, do not go together, or lack their argument.
    Syntax,
    /// The key holds another type.
    WrongType,
    /// An argument or a value that had to be an integer of 64 bits.
    NotInteger,
    /// An argument or a value that had to be a number.
    NotFloat,
    /// A deadline that is not positive where it must be, or overflows; the command's name.
    ExpireTime(&'static str),
    /// A number of arguments that the table cannot tell wrong; the command's name.
    Arity(&'static str),
    /// A database that does not exist.
    DatabaseRange,
    /// Source and destination are one.
    SameObject,
    /// The value would grow beyond what one may be.
    TooLong,
    /// Anything else: the whole text with its code.
    Says(&'static str),
}

/// What a command ends in that may be refused: on success it has replied.
pub type Answer = Result<(), Refusal>;

impl From<WrongType> for Refusal {
    fn from(_: WrongType) -> Refusal {
        Refusal::WrongType
    }
}

impl Refusal {
    /// Says it.
    pub fn write(self, reply: &mut Reply<'_>) {
        let text = match self {
            Refusal::Syntax => "ERR syntax error",
            Refusal::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }
            Refusal::NotInteger => "ERR value is not an integer or out of range",
            Refusal::NotFloat => "ERR value is not a valid float",
            Refusal::DatabaseRange => "ERR DB index is out of range",
            Refusal::SameObject => "ERR source and destination objects are the same",
            Refusal::TooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Refusal::Says(text) => text,
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
