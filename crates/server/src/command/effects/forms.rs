//! The form in which each command is added to the feed.

use crate::command::table;
use session::spec::SpecIndex;
use std::sync::OnceLock;
use wire::Args;

/// Form of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The command as it is. It has the same effect on the same keys at any time.
    Same,
    /// As `Same` without options, because the command then sets the value that it names and removes
    /// the deadline; else as `String`.
    Set,
    /// `SET key value [PXAT instant]` with the present value, or `DEL`.
    String,
    /// As `String`, for each pair of MSETEX.
    Strings,
    /// `PEXPIREAT`, `PERSIST` or `DEL`, as the deadline of the key is now.
    Deadline,
    /// `DEL key`.
    Deleted,
    /// `HDEL key field …`, the fields of HGETDEL.
    FieldsDeleted,
    /// `RESTORE` of the present value of each key that the command may write, or `DEL`.
    State,
    /// As `State`, but only of the key after STORE or STOREDIST.
    Stored,
    /// As `State`, but only of the key at this index.
    StateOf(usize),
    /// RESTORE with the payload as it is and the deadline as an instant.
    Restored,
    /// The deadlines of the named elements as they are now.
    ElementDeadlines,
    /// The same for KeyDB's commands on one member.
    MemberDeadline,
    /// The values of the named fields and their deadlines as they are now.
    Fields,
    /// The member added by SADDEX, and its deadlines as they are now.
    Members,
    /// `SREM key member …`, the members in the reply.
    Popped,
    /// The command of this name with the key in the reply, and a count if the reply has several
    /// elements.
    ServedBy(&'static str),
    /// `LPOP`, `RPOP`, `ZPOPMIN` or `ZPOPMAX` on the key in the reply of LMPOP, ZMPOP or their
    /// blocking forms.
    ServedMany,
    /// The command of this name with the arguments except the timeout at the given index.
    Without(&'static str, usize),
    /// XADD with the ID in the reply, and the trim as a smallest ID.
    Added,
    /// `XTRIM key MINID = first`.
    Trimmed,
    /// The result of BITOP, unless Redis 2.6 has the operation.
    Bits,
    /// The IDs that XDELEX has deleted. As `Same` if it also removes references.
    EntriesDeleted,
    /// XGROUP without the number of entries read, and then with it.
    GroupNumbered,
    /// The pending entries that the command has delivered or claimed, as they are now.
    Delivered,
    /// As `Same`; it concerns the function libraries, not keys.
    Library,
}

impl Form {
    /// Whether a command that has changed something is added as it is.
    #[inline]
    pub fn is_same(self, args: Args<'_>) -> bool {
        match self {
            Form::Same => true,
            Form::Set => args.len() == 3,
            Form::Bits => ["and", "or", "xor", "not"]
                .iter()
                .any(|word| args.is(1, word)),
            Form::EntriesDeleted => args.is(2, "delref"),
            Form::GroupNumbered => !(5..args.len()).any(|at| args.is(at, "entriesread")),
            _ => false,
        }
    }
}

fn form_of(name: &str) -> Form {
    match name {
        "set" => Form::Set,
        "setex" | "psetex" | "incrbyfloat" | "increx" => Form::String,
        "msetex" => Form::Strings,
        "expire" | "pexpire" | "expireat" | "pexpireat" | "getex" => Form::Deadline,
        "getdel" | "delex" => Form::Deleted,
        "hgetdel" => Form::FieldsDeleted,
        "sort" | "georadius" | "georadiusbymember" => Form::Stored,
        "geosearchstore" => Form::StateOf(1),
        "himport" => Form::StateOf(2),
        "restore" => Form::Restored,
        "hexpire" | "hpexpire" | "hexpireat" | "hpexpireat" | "sexpire" | "spexpire"
        | "sexpireat" | "spexpireat" | "zexpire" | "zpexpire" | "zexpireat" | "zpexpireat"
        | "xexpire" | "xpexpire" | "xexpireat" | "xpexpireat" | "hgetex" => Form::ElementDeadlines,
        "expiremember" | "expirememberat" | "pexpirememberat" => Form::MemberDeadline,
        "hsetex" | "hincrbyfloat" => Form::Fields,
        "saddex" => Form::Members,
        "spop" => Form::Popped,
        "blpop" => Form::ServedBy("LPOP"),
        "brpop" => Form::ServedBy("RPOP"),
        "bzpopmin" => Form::ServedBy("ZPOPMIN"),
        "bzpopmax" => Form::ServedBy("ZPOPMAX"),
        "lmpop" | "zmpop" | "blmpop" | "bzmpop" => Form::ServedMany,
        "blmove" => Form::Without("LMOVE", 5),
        "brpoplpush" => Form::Without("RPOPLPUSH", 3),
        "blmovem" => Form::Without("LMOVEM", 5),
        "xadd" => Form::Added,
        "xtrim" => Form::Trimmed,
        "bitop" => Form::Bits,
        "xdelex" => Form::EntriesDeleted,
        "xgroup" => Form::GroupNumbered,
        "xreadgroup" | "xclaim" | "xautoclaim" => Form::Delivered,
        "function" => Form::Library,
        _ => Form::Same,
    }
}

/// Returns the form of the command with this index.
#[inline]
pub fn form(index: SpecIndex) -> Form {
    static FORMS: OnceLock<Vec<Form>> = OnceLock::new();
    let all = || table().iter().map(|spec| form_of(spec.name)).collect();
    FORMS.get_or_init(all)[index as usize]
}
