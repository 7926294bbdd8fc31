//! The sequence of a restart.

use crate::saving::work;
use crate::state::Server;
use durability::restart::{IN_PROGRESS, NO_PROGRAM, Phase, Request};
use durability::saving::{Goal, Then};
use engine::refusal::LOADING;
use engine::segment::Segments;

const STOPPING: &str = "ERR the server is stopping";
const NOT_KEPT: &str = "ERR without segment-file, the segment engine keeps no keys across a restart; SHUTDOWN NOSAVE RESTART restarts without them";
const NO_THREAD: &str = "ERR no thread can be started";
const CANCELLED: &str = "it was cancelled";
const NO_FILE: &str =
    "the append-only file is not complete; the log says why, or it is being written";

/// Requests a restart, which a separate thread performs. If it succeeds, clients are disconnected.
/// If it fails, the server continues and the client that requested it receives an error.
///
/// # Errors
/// A restart is not possible now. The message is a reply.
pub fn request(server: &Server, request: Request) -> Result<(), &'static str> {
    let restart = &server.lifecycle.restart;
    if restart.program().is_none() {
        return Err(NO_PROGRAM);
    }
    if server.lifecycle.stops() || server.persistence.saving.stop_in_progress().is_some() {
        return match restart.phase() {
            Phase::None => Err(STOPPING),
            _ => Err(IN_PROGRESS),
        };
    }
    if server.persistence.loading.is_on() {
        return Err(LOADING);
    }
    let is_kept = |segments: &Segments| segments.has_file();
    if !server.data.segments.as_ref().is_none_or(is_kept) && request.wants != Some(false) {
        return Err(NOT_KEPT);
    }
    let number = restart.begin()?;
    let runner = restart.runner.get();
    if !runner.is_some_and(|run| run(number, request)) {
        restart.fail(number);
        return Err(NO_THREAD);
    }
    Ok(())
}

/// Performs the restart with this number up to the end of the workers.
pub fn run(server: &Server, number: u64, request: Request) {
    let client = request.client;
    if let Err(why) = prepare(server, number, request) {
        server.lifecycle.restart.fail(number);
        log::warn!("the server does not restart: {why}");
        if let Some(waiting) = client {
            let first = why.lines().next().unwrap_or_default().trim_end_matches(':');
            let text = format!("ERR the server does not restart: {first}");
            work::reply(&server.workers, waiting, |reply| reply.error(&text));
        }
    }
}

/// Checks the program, and saves the keys or requests a snapshot, whose end stops the server.
fn prepare(server: &Server, number: u64, request: Request) -> Result<(), String> {
    let restart = &server.lifecycle.restart;
    let program = restart.program().ok_or(NO_PROGRAM)?;
    log::info!(
        "{}: restarting; {} checks its settings",
        request.cause,
        program.path.display()
    );
    let keys_path = program.check()?;
    if !restart.proceed(number) {
        return Err(CANCELLED.to_owned());
    }
    let has_file = server.persistence.aof.is_on();
    let is_file_good =
        server.persistence.aof.is_complete() && !server.persistence.aof.refuses_writes();
    let goal = match request.wants {
        Some(false) => None,
        _ if has_file && !is_file_good => return Err(NO_FILE.to_owned()),
        // The segments are in their file when the workers have ended.
        None if server.data.segments.is_some() => None,
        Some(true) => Some(false),
        // Settings that differ from those of the file, or a file that was changed, may lead the
        // program to other keys. Then a snapshot is handed over.
        None if server.config.keys_path() != keys_path => Some(true),
        None if has_file => None,
        None => Some(!work::has_points(&server.data, &server.config)),
    };
    let Some(is_temporary) = goal else {
        // The thread of the append-only file writes its rest when the workers have ended.
        if !restart.commit(number) {
            return Err(CANCELLED.to_owned());
        }
        server.stop();
        return Ok(());
    };
    let then = Then::Stop {
        client: request.client,
        is_forced: false,
        goal: Goal::Restart {
            number,
            is_temporary,
        },
    };
    work::request(server, request.cause, then).map_err(str::to_owned)
}
