//! Commands that CLIENT PAUSE, a stop or FAILOVER holds, before and after their shards are locked.

use crate::command;
use crate::context::Spec;
use crate::state::Server;
use session::clock::Moment;
use session::session::Session;
use session::spec::{Keys, flag};
use settings::Id;
use wire::Args;

/// Whether CLIENT PAUSE or a stop holds a command of this client. As in Redis, a command that would
/// be refused anyway is not held, and EXEC is held like the commands that it runs. A script or
/// function that declares that it does not write does not count as a write.
#[cold]
pub(super) fn is_held(
    server: &Server,
    session: &Session,
    (spec, flags, args): (&Spec, u32, Args<'_>),
    moment: Moment,
) -> bool {
    if spec.has(flag::NO_PAUSE) || session.info.id == 0 {
        return false;
    }
    const WRITES: u32 = flag::WRITE | flag::MAY_WRITE;
    let writes = |spec: &Spec, flags: u32, args: Args<'_>| {
        flags & WRITES != 0
            && !command::scripting::declares_no_writes(&server.scripting, spec, args)
    };
    let may_write = match (spec.keys, &session.transaction) {
        (Keys::Queued, Some(transaction)) => transaction.iter().any(|(index, args)| {
            let chosen = command::table().choose(index, args);
            writes(chosen.spec, chosen.flags(), args)
        }),
        (Keys::Queued, None) => false,
        _ => writes(spec, flags, args),
    };
    server.data.pause.holds(may_write, moment)
}

/// Whether a command that was allowed before its shards were locked must be checked again: a stop
/// or FAILOVER holds it now, or the server has become a replica.
#[inline]
pub(super) fn is_late(
    server: &Server,
    session: &Session,
    (spec, flags, args): (&Spec, u32, Args<'_>),
    moment: Moment,
) -> bool {
    let is_refused = || {
        flags & flag::WRITE != 0 && server.config.is_on(Id::ReplicaReadOnly) && session.info.id != 0
    };
    server.data.pause.is_set() && is_held(server, session, (spec, flags, args), moment)
        || server.replication.is_replica() && is_refused()
}
