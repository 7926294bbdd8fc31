//! Form in which a command's effect is added to the feed.

use wire::Args;

/// Form of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The command itself, unchanged. It has the same effect on the same keys wherever and whenever
    /// it runs, because it depends on neither the time, chance nor the client.
    Same,
    /// The effects of the commands that it runs.
    Inner,
    /// Like `Same` if there are no options, because the command then sets the value that it names
    /// and removes the deadline. Otherwise like `String`.
    Set,
    /// `SET key value [PXAT instant]` with the current value, or `DEL`.
    String,
    /// Like `String`, for each pair of MSETEX.
    Strings,
    /// `PEXPIREAT`, `PERSIST` or `DEL`, according to the key's deadline after the command.
    Deadline,
    /// `DEL key`.
    Deleted,
    /// `HDEL key field …`, the fields of HGETDEL.
    FieldsDeleted,
    /// `RESTORE` with the current value of each key that the command may write, or `DEL`.
    State,
    /// Like `State`, but only for the key after STORE or STOREDIST.
    Stored,
    /// Like `State`, but only for the key at this index.
    StateOf(usize),
    /// RESTORE with the payload unchanged and the deadline as an instant.
    Restored,
    /// The deadlines of the named elements after the command.
    ElementDeadlines,
    /// Like `ElementDeadlines`, for KeyDB's commands on a single member.
    MemberDeadline,
    /// The values and deadlines of the named fields after the command.
    Fields,
    /// The members added by SADDEX, with their deadlines after the command.
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
    /// The IDs deleted by XDELEX. Like `Same` if it also removes references.
    EntriesDeleted,
    /// XGROUP without the number of entries read, and then with it.
    GroupNumbered,
    /// The pending entries that the command has delivered or claimed, in their state after the
    /// command.
    Delivered,
    /// INVALIDATE with the end of SOFT as an instant.
    Invalidated,
    /// Like `Same`, but for function libraries instead of keys.
    Library,
}

impl Form {
    /// Whether a command that has changed something is added unchanged.
    #[inline]
    pub fn is_same(self, args: Args<'_>) -> bool {
        match self {
            Form::Same => true,
            Form::Set => args.len() == 3,
            Form::Invalidated => !(3..args.len()).any(|at| args.is(at, "soft")),
            Form::Bits => ["and", "or", "xor", "not"]
                .iter()
                .any(|word| args.is(1, word)),
            Form::EntriesDeleted => args.is(2, "delref"),
            Form::GroupNumbered => !(5..args.len()).any(|at| args.is(at, "entriesread")),
            _ => false,
        }
    }
}
