//! Snapshots that end early, and stops of the server after a snapshot.

use super::{NOT_SUPPORTED, follow, has_points, request, warn_unsaved};
use crate::state::Server;
use durability::restart::Phase as RestartPhase;
use durability::saving::phase::{Ended, Machine};
use durability::saving::{Goal, Then, Waiting};

const NOTHING_TO_CANCEL: &str = "ERR Background saving is currently not in progress or scheduled";

pub(super) const STOP_NOT_CANCELLED: &str =
    "ERR the server stops after this snapshot; use SHUTDOWN ABORT";

/// Stops the server, after a snapshot if one is wanted and no file is being loaded. With `None`,
/// `wants` depends on whether save points are set. Returns whether the snapshot is awaited. A
/// restart in progress becomes this stop.
///
/// # Errors
/// The engine has no snapshots, or another stop awaits its snapshot. The message is a reply.
pub fn stop(
    server: &Server,
    cause: &str,
    wants: Option<bool>,
    client: Option<Waiting>,
    is_forced: bool,
) -> Result<bool, &'static str> {
    match server.lifecycle.restart.cancel() {
        RestartPhase::Saving => {
            abort_stop(server);
        }
        // The workers end already.
        RestartPhase::Ready | RestartPhase::Executing => return Ok(false),
        RestartPhase::None | RestartPhase::Checking => {}
    }
    if server.persistence.loading.is_on()
        || !wants.unwrap_or_else(|| has_points(&server.data, &server.config))
    {
        if wants.is_none() {
            let changes = server.data.keyspace.changes();
            warn_unsaved(
                server,
                Some(server.persistence.saving.facts(changes).changes),
            );
        }
        server.stop();
        return Ok(false);
    }
    if server.data.segments.is_some() {
        return Err(NOT_SUPPORTED);
    }
    let then = Then::Stop {
        client,
        is_forced,
        goal: Goal::End,
    };
    request(server, cause.to_owned(), then)?;
    Ok(true)
}

/// Cancels the snapshot in progress or requested, unless the server stops after it. Returns whether
/// it had begun.
///
/// # Errors
/// There is no such snapshot. The message is a reply.
pub fn cancel(server: &Server) -> Result<bool, &'static str> {
    match end_early(server, Machine::cancel) {
        Ended::Requested(_) => Ok(false),
        Ended::Running(_) => Ok(true),
        Ended::Nothing => Err(NOTHING_TO_CANCEL),
        Ended::IsStop => Err(STOP_NOT_CANCELLED),
    }
}

/// Cancels a stop that awaits its snapshot, whether it is forced or not. Returns whether there was
/// one.
pub fn abort_stop(server: &Server) -> bool {
    matches!(
        end_early(server, Machine::abort),
        Ended::Requested(_) | Ended::Running(_)
    )
}

fn end_early(server: &Server, event: impl FnOnce(&mut Machine) -> Ended) -> Ended {
    let ended = server.persistence.saving.end_early(&server.data, event);
    if let Ended::Requested(request) = &ended {
        follow(server, request.then, None);
    }
    ended
}
