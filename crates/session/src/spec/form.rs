//! The form in which the effect of a command is added to the feed.

use wire::Args;

/// Form of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The command as it is. It has the same effect on the same keys wherever and whenever it runs:
    /// it depends on neither the time, chance nor the client.
    Same,
    /// The effects of the commands that it runs.
    Inner,
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
