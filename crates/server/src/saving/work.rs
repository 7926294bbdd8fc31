//! Work of the workers on snapshots: requesting, beginning and walking one, lending large values,
//! and the actions after its end.

mod folder;
mod stopping;

pub use folder::prepare;
pub use stopping::{abort_stop, cancel, stop};

use crate::aof::work as aof;
use crate::replication::primary;
use crate::state::{Data, Server, Workers};
use durability::aof::WRITES_REFUSED as WRITES_REFUSED_BY_FILE;
use durability::replication::{READ_ONLY, TOO_FEW_REPLICAS};
use durability::saving::queue::{Plan, Sink, Task};
use durability::saving::{
    FAILED_PAUSE, Goal, Position, RETRY_PAUSE, Saving, Then, WRITES_REFUSED, Waiting,
};
use engine::refusal::LOADING;
use session::clock::Clock;
use session::long::Long;
use session::message::{Message, Subscriber, Written};
use session::slice::slice;
use settings::points::SavePoint;
use settings::{Config, Id, bytes_for_people};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::{Key, SnapshotSink, SnapshotStep, Tick, View};
use wire::{Output, Reply};

const NOT_SUPPORTED: &str = "ERR snapshots are not supported by the segment engine";
const NOT_SAVED: &str = "ERR the snapshot failed or was cancelled; see the log";
const SHUTDOWN_FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// Requests a snapshot, which the first worker begins. `cause` is for the log.
///
/// # Errors
/// Another snapshot is in progress, or the engine has none. The message is a reply.
pub fn request(server: &Server, cause: String, then: Then) -> Result<(), &'static str> {
    if server.data.segments.is_some() {
        return Err(NOT_SUPPORTED);
    }
    // A file with a part of the keys would replace the one that is being loaded.
    if server.persistence.loading.is_on() {
        return Err(LOADING);
    }
    let replaced = server
        .persistence
        .saving
        .request(&server.data, cause, then)?;
    if let Some(then) = replaced {
        follow(server, then, None);
    }
    server.workers.inboxes[0].wake();
    Ok(())
}

/// Requests a snapshot if save points are set, because a crash before the next save point would
/// bring back old keys or lose all. If another snapshot is in progress, this one follows it.
/// `cause` is for the log.
pub fn request_soon(server: &Server, cause: &'static str) {
    if !has_points(&server.data, &server.config) {
        return;
    }
    server.persistence.saving.state().due = Some(cause);
    // If it is refused, the periodic check of save points tries again.
    let _ = request(server, cause.to_owned(), Then::Nothing);
}

/// Continues after loading a snapshot left by the process before a restart. It stays until another
/// file has its keys: the append-only file, whose first base the load has requested, or the
/// snapshot file. A server that writes neither needs no file.
pub fn follow_restart(server: &Server) {
    if server.lifecycle.restart.inherited().is_none() || server.config.is_on(Id::AppendOnly) {
        return;
    }
    match has_points(&server.data, &server.config) {
        true => request_soon(server, "the keys are from the process before the restart"),
        false => server.lifecycle.restart.end_inherited(),
    }
}

/// Whether save points are set and the engine has snapshots.
pub fn has_points(data: &Data, config: &Config) -> bool {
    data.segments.is_none() && !config.text(Id::Save).is_empty()
}

/// Logs that changes are lost if the keys come from the snapshot file and nothing writes it again:
/// after the load, or before a stop with the number of `changes`, if there are any.
pub fn warn_unsaved(server: &Server, changes: Option<u64>) {
    let is_from_file = server.persistence.loading.is_from_file.load(Relaxed);
    if !is_from_file
        || has_points(&server.data, &server.config)
        || server.config.is_on(Id::AppendOnly)
    {
        return;
    }
    let path = server.config.path(Id::DbFilename);
    match changes {
        None => log::warn!(
            "changes of the keys from {path} are not saved, because there are neither save points (save) nor an append-only file (appendonly)"
        ),
        Some(0) => {}
        Some(changes) => log::warn!(
            "{changes} changes of the keys from {path} are discarded, because there are neither save points (save) nor an append-only file (appendonly)"
        ),
    }
}

/// Begins the requested snapshot, unless a long command runs, another snapshot is in progress, the
/// file's thread puts an earlier base in force or a command of the primary is being executed. No
/// shard may be locked by the caller.
pub fn begin(server: &Server, now: Tick) {
    let saving = &server.persistence.saving;
    if server.workers.long.is_running() {
        return;
    }
    // The effect of a command of the primary and its bytes in the feed are on one side of the
    // snapshot.
    let Some(_applying) = server.replication.try_lock_applying() else {
        return;
    };
    let changes = server.data.keyspace.changes();
    // Commands hold the locks of shards when they lock the state, so that the shards come first.
    let mut view = server.data.keyspace.lock_all(now);
    let mut state = saving.state();
    // Under the locks no long command begins.
    let must_wait = state.machine.has_requested_base() && server.persistence.aof.is_settling();
    if must_wait || server.workers.long.is_running() {
        return;
    }
    let Some((epoch, request)) = state.machine.begin(server.data.keyspace.shard_count()) else {
        return;
    };
    log::info!("snapshot begun: {}", request.cause);
    let (then, is_of_file) = (request.then, request.is_of_file());
    state.started = Some(Instant::now());
    state.started_changes = changes;
    state.is_cancelled = false;
    state.begun_due = state.due.take_if(|_| is_of_file);
    server.workers.long.hold();
    let mut plan = Plan {
        epoch,
        ends_restart: is_of_file && !server.config.is_on(Id::AppendOnly),
        ..plan(server, now)
    };
    let prepared = match then {
        Then::Rewritten => aof::begin_rewrite(server, &mut view, &mut plan),
        Then::Replicas => primary::begin_snapshot(server, &mut view, &mut plan),
        Then::Stop { goal, .. } => {
            plan.is_temporary = is_temporary(goal);
            primary::add_history(server, &mut view, &mut plan);
            Ok(())
        }
        _ => Ok(()),
    };
    if let Err(error) = prepared {
        drop(state);
        drop(view);
        return end(server, epoch, Err(error));
    }
    // Copies lack what has expired at this instant, as the file does.
    view.set_now(plan.now);
    saving.queue.begin(plan);
    let queue = Arc::clone(&saving.queue);
    let sink: Arc<dyn SnapshotSink> = Arc::new(Sink { queue, epoch });
    view.begin_snapshot(&sink);
    // Under the locks, so that no command finds unsaved entries without a snapshot.
    saving.publish(&server.data, &state);
    drop(state);
    drop(view);
    wake_walker(&server.persistence.saving, &server.workers);
}

fn is_temporary(goal: Goal) -> bool {
    matches!(
        goal,
        Goal::Restart {
            is_temporary: true,
            ..
        }
    )
}

/// Returns the contents for the file of a snapshot. The caller sets its number.
pub fn plan(server: &Server, now: Tick) -> Plan {
    let libraries = server.scripting.libraries.all();
    let fields = [
        ("mayfly-ver", settings::version::VERSION.to_owned()),
        ("redis-bits", "64".to_owned()),
        ("ctime", (now.0 / 1000).to_string()),
        (
            "used-mem",
            server.data.keyspace.published_bytes().to_string(),
        ),
    ];
    Plan {
        epoch: 0,
        folder: PathBuf::from(server.config.text(Id::Dir)),
        name: server.config.text(Id::DbFilename),
        is_temporary: false,
        ends_restart: false,
        now,
        is_checked: server.config.is_on(Id::RdbChecksum),
        is_valkey: server.config.number(Id::DumpHashFormat) == 1,
        has_keys: true,
        fields: fields.into(),
        libraries: libraries
            .values()
            .map(|library| library.code.to_vec())
            .collect(),
    }
}

/// Wakes the worker that walks the current shard.
pub fn wake_walker(saving: &Saving, workers: &Workers) {
    if let Some(at) = saving.position() {
        workers.inboxes[walker_of(workers, at)].wake();
    }
}

fn walker_of(workers: &Workers, at: Position) -> usize {
    at.shard as usize % workers.count
}

/// Returns how long a worker may sleep before it calls [`walk`]; `None` if it has nothing to walk.
#[inline]
pub fn next_walk(
    saving: &Saving,
    workers: &Workers,
    clock: &Clock,
    worker: usize,
) -> Option<Duration> {
    due_walk(saving, workers, clock, worker).map(|(_, pause)| pause)
}

/// Returns the part of the walk that a worker does next, and the pause before it.
#[inline]
fn due_walk(
    saving: &Saving,
    workers: &Workers,
    clock: &Clock,
    worker: usize,
) -> Option<(Position, Duration)> {
    let at = saving.position()?;
    if walker_of(workers, at) != worker || saving.queue.is_filled() {
        return None;
    }
    let now = clock.moment().0;
    let paused = saving.paused_until_ms.load(Relaxed).saturating_sub(now);
    Some((at, Duration::from_millis(paused)))
}

/// Walks the current shard for one time slice if it is this worker's. `turn` is the duration of the
/// previous iteration of the event loop. The caller must not have locked a shard.
pub fn walk(server: &Server, worker: usize, turn: Duration, now: Tick) {
    let saving = &server.persistence.saving;
    if saving.position().is_none() {
        return;
    }
    let (start, limit) = (Instant::now(), slice(turn, 0));
    while let Some((at, Duration::ZERO)) = due_walk(
        &server.persistence.saving,
        &server.workers,
        &server.clock,
        worker,
    ) && start.elapsed() < limit
    {
        let mut steps = saving.steps.lock().expect("the lock is not poisoned");
        let before = Instant::now();
        let step = server
            .data
            .keyspace
            .snapshot_step(at.shard as usize, steps.count);
        if step == SnapshotStep::More {
            steps.adapt(before.elapsed().as_micros(), true);
        }
        drop(steps);
        after_step(server, at, step, worker, now);
    }
}

/// Takes the actions that follow a step of the walk at a position. The snapshot may have ended
/// since then, and another one may have begun.
fn after_step(server: &Server, at: Position, step: SnapshotStep, worker: usize, now: Tick) {
    match step {
        SnapshotStep::More => {}
        SnapshotStep::Done => {
            if server.persistence.saving.pass(&server.data, at) {
                wake_walker(&server.persistence.saving, &server.workers);
            }
        }
        SnapshotStep::Locked => pause(&server.persistence.saving, &server.clock),
        SnapshotStep::Large(db, name) => {
            let key = server.data.keyspace.key(db, &name);
            let mut view = server.data.keyspace.lock_one(at.shard as usize, now);
            if !lend(
                &server.persistence.saving,
                &server.workers.long,
                &mut view,
                &key,
                worker,
            ) {
                pause(&server.persistence.saving, &server.clock);
            }
        }
    }
}

fn pause(saving: &Saving, clock: &Clock) {
    let until = clock.moment().0 + RETRY_PAUSE.as_millis() as u64;
    saving.paused_until_ms.store(until, Relaxed);
}

/// Passes the large value of a key to the thread, if it is not saved yet. The key's shard is
/// locked. Returns false if another large value or a long command must end first.
pub fn lend(
    saving: &Saving,
    long: &Long,
    view: &mut View<'_>,
    key: &Key<'_>,
    worker: usize,
) -> bool {
    // The keys are reserved only for a loan, because the end of a reservation serves clients.
    if !view.is_unsaved_large(key) {
        return true;
    }
    if !long.lease(HashSet::from([Box::from(key.bytes)])) {
        return false;
    }
    match view.lend_unsaved(key) {
        Some(loan) => {
            let epoch = saving.epoch();
            let task = Task::WriteLoan(epoch, Box::new(loan), worker);
            saving.queue.push(task);
        }
        None => long.end(),
    }
    true
}

/// Ends the snapshot in progress with the thread's result. No shard may be locked by the caller.
pub fn end(server: &Server, epoch: u32, result: Result<Written, String>) {
    let saving = &server.persistence.saving;
    if result.is_err() {
        let mut state = saving.state();
        if !state.machine.fail(epoch) {
            return;
        }
        let has_unsaved = state.machine.has_unsaved();
        saving.publish(&server.data, &state);
        drop(state);
        // No worker walks this snapshot any more, so that the next one finds no unsaved entries.
        if has_unsaved {
            server.data.keyspace.cancel_snapshot();
        }
    }
    let mut state = saving.state();
    let Some((request, is_saved)) = state.machine.finish(epoch) else {
        return;
    };
    let took = state.started.take().map(|started| started.elapsed());
    state.last_took = took;
    state.last_peak_bytes = saving.queue.peak_bytes();
    let is_file = request.is_of_file();
    state.due = state.due.or(state.begun_due.filter(|_| !is_saved));
    if let Ok(written) = &result
        && (is_file || matches!(request.then, Then::Rewritten))
        && let Some(readers) = written.version.readers()
        && !std::mem::replace(&mut state.has_named_readers, true)
    {
        log::warn!(
            "the file is in {}, which {readers}; dump-hash-ttl-format says in which form hashes with deadlines of fields are written",
            written.version
        );
    }
    match &result {
        Ok(_) if !is_file => log::info!(
            "snapshot complete: {:.3} s",
            took.unwrap_or_default().as_secs_f64()
        ),
        Err(why) if !is_file => log::warn!("snapshot failed: {why}"),
        Ok(written) => {
            state.saved_changes = state.started_changes;
            state.last_save = server.clock.now().0 / 1000;
            state.failed_at = None;
            state.saves += 1;
            saving.has_failed.store(false, Relaxed);
            log::info!(
                "snapshot complete: {} key{}, {}, {:.3} s",
                written.keys,
                if written.keys == 1 { "" } else { "s" },
                bytes_for_people(written.bytes),
                took.unwrap_or_default().as_secs_f64()
            );
        }
        Err(_) if state.is_cancelled => log::info!("snapshot cancelled"),
        Err(why) => {
            state.failed_at = Some(Instant::now());
            saving.has_failed.store(true, Relaxed);
            log::warn!("snapshot failed: {why}; the previous file is kept");
        }
    }
    saving.publish(&server.data, &state);
    drop(state);
    server.workers.long.release();
    let bytes = result.as_ref().ok().map(|written| written.bytes);
    follow(server, request.then, bytes.filter(|_| is_saved));
    if saving.has_request() {
        server.workers.inboxes[0].wake();
    }
}

/// Requests a snapshot if a save point is reached.
pub fn check_points(server: &Server) {
    if !has_points(&server.data, &server.config) {
        return;
    }
    let (changes, seconds, due) = {
        let changes = server.data.keyspace.changes();
        let state = server.persistence.saving.state();
        let failed = state.failed_at;
        let has_just_failed = failed.is_some_and(|failed| failed.elapsed() < FAILED_PAUSE);
        if state.machine.is_busy() || has_just_failed {
            return;
        }
        (
            changes.wrapping_sub(state.saved_changes),
            (server.clock.now().0 / 1000).saturating_sub(state.last_save),
            state.due,
        )
    };
    if let Some(cause) = due {
        return request_soon(server, cause);
    }
    let points = SavePoint::parse_all(&server.config.text(Id::Save)).unwrap_or_default();
    let is_reached = |point: &&SavePoint| changes >= point.changes && seconds > point.seconds;
    if let Some(point) = points.iter().find(is_reached) {
        let cause = format!(
            "save point {} {}: {changes} changes in {seconds} s",
            point.seconds, point.changes
        );
        // A command may have requested one meanwhile.
        let _ = request(server, cause, Then::Nothing);
    }
}

/// Returns the error for writes if they are refused: because save points are set and the last
/// snapshot failed, or because the append-only file cannot be written.
#[inline]
pub fn refuses_writes(server: &Server) -> Option<&'static str> {
    if server.persistence.aof.refuses_writes() {
        return Some(WRITES_REFUSED_BY_FILE);
    }
    if server.replication.is_replica() && server.config.is_on(Id::ReplicaReadOnly) {
        return Some(READ_ONLY);
    }
    if server.replication.lacks_replicas() {
        return Some(TOO_FEW_REPLICAS);
    }
    let is_refused = server.persistence.saving.has_failed.load(Relaxed)
        && server.config.is_on(Id::StopWritesOnError)
        && !server.config.text(Id::Save).is_empty();
    is_refused.then_some(WRITES_REFUSED)
}

/// Takes the actions that follow the end of a snapshot. `bytes` is the length of its file, if it is
/// complete.
fn follow(server: &Server, then: Then, bytes: Option<u64>) {
    let is_saved = bytes.is_some();
    match then {
        Then::Nothing => {}
        Then::Reload(waiting, flushes) if is_saved => {
            let message = Message::Reload(waiting.client, waiting.protocol, flushes);
            server.workers.inboxes[0].push(0, message);
        }
        Then::Reload(waiting, _) => reply(&server.workers, waiting, |reply| reply.error(NOT_SAVED)),
        Then::Rewritten => aof::end_rewrite(&server.persistence.aof, &server.feed, bytes),
        Then::Replicas => primary::end_snapshot(server, is_saved),
        Then::Reply(waiting) if is_saved => reply(&server.workers, waiting, |reply| reply.ok()),
        Then::Reply(waiting) => reply(&server.workers, waiting, |reply| {
            reply.error(NOT_SAVED);
        }),
        Then::Stop {
            is_forced, goal, ..
        } if is_saved || is_forced => {
            if !is_saved {
                log::warn!("stopping without a snapshot");
            }
            if let Goal::Restart { number, .. } = goal {
                // A restart that was cancelled is a stop.
                server.lifecycle.restart.commit(number);
            }
            server.stop();
        }
        Then::Stop { client, goal, .. } => {
            let mut what = "stop";
            if let Goal::Restart { number, .. } = goal {
                what = "restart";
                server.lifecycle.restart.fail(number);
            }
            log::warn!("the server does not {what}, because there is no snapshot");
            if let Some(waiting) = client {
                reply(&server.workers, waiting, |reply| {
                    reply.error(SHUTDOWN_FAILED)
                });
            }
            server.workers.wake_all();
        }
    }
}

/// Sends a later reply to a client that waits for it.
pub fn reply(workers: &Workers, waiting: Waiting, write: impl FnOnce(&mut Reply<'_>)) {
    let mut output = Output::default();
    write(&mut Reply::new(&mut output, waiting.protocol));
    let Subscriber {
        worker,
        slot,
        client,
    } = waiting.client;
    // A session without a connection, as in tests, has no worker.
    let worker = worker.min(workers.count - 1);
    workers.inboxes[worker].push(worker, Message::Answer(slot, client, output));
}

#[cfg(test)]
mod tests;
