//! Why a command is refused, in Redis's words; and how a command that may be refused is run.

use super::Ctx;
use store::{Class, Edited, Key, WrongType};
use wire::{Args, Reply};

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

/// Runs a command that may be refused. What it had replied by then is taken back, so that there is
/// exactly one reply.
pub fn settle(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    work: impl FnOnce(&mut Ctx<'_, '_>, Args<'_>) -> Answer,
) {
    let start = ctx.reply.position();
    if let Err(refusal) = work(ctx, args) {
        ctx.reply.truncate(start);
        refusal.write(&mut ctx.reply);
    }
}

impl Ctx<'_, '_> {
    /// Tells listeners that a read found nothing under this key.
    #[inline]
    pub fn missed(&mut self, key: &Key<'_>) {
        self.view.notify(Class::KeyMiss, "keymiss", key);
    }

    /// Tells listeners of an edit: the key's birth, the event, the key's end.
    #[inline]
    pub fn edited<R>(
        &mut self,
        key: &Key<'_>,
        edited: &Edited<R>,
        class: Class,
        name: &'static str,
    ) {
        if edited.is_new {
            self.view.notify(Class::New, "new", key);
        }
        self.view.notify(class, name, key);
        if edited.is_deleted {
            self.view.notify(Class::Generic, "del", key);
        }
    }

    /// Whether a write of this key should tell listeners that it is new. Looks it up only when
    /// anybody listens at all.
    #[inline]
    pub fn is_news(&mut self, key: &Key<'_>) -> bool {
        self.view.notifies() && self.view.kind(key).is_none()
    }
}
