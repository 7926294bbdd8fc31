//! The work of the workers on snapshots: requesting, beginning and walking one, lending large
//! values, and what follows its end.

use super::WRITES_REFUSED;
use super::points::SavePoint;
use super::queue::{Plan, Task, Written};
use super::{FAILED_PAUSE, NO_SHARD, Progress, RETRY_PAUSE, Saving, Then, Waiting};
use crate::aof::{WRITES_REFUSED as WRITES_REFUSED_BY_FILE, work as aof};
use crate::clock::Moment;
use crate::command::refusal::LOADING;
use crate::config::{Id, bytes_for_people};
use crate::message::{Message, Subscriber};
use crate::replication::{READ_ONLY, TOO_FEW_REPLICAS, primary};
use crate::slice::slice;
use crate::state::Server;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::{Key, Loan, SnapshotSink, SnapshotStep, Tick, View};
use wire::{Output, Reply};

const NOT_SUPPORTED: &str = "ERR snapshots are not supported by the segment engine";
const SHUTDOWN_FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// Requests a snapshot, which the first worker begins. `cause` is for the log.
///
/// # Errors
/// Another snapshot is in progress, or the engine has none. The message is a reply.
pub fn request(server: &Server, cause: String, then: Then) -> Result<(), &'static str> {
    if server.segments.is_some() {
        return Err(NOT_SUPPORTED);
    }
    // A file with a part of the keys would replace the one that is being loaded.
    if server.loading.is_on() {
        return Err(LOADING);
    }
    server.saving.request(cause, then)?;
    server.inboxes[0].wake();
    Ok(())
}

/// Begins the requested snapshot, unless a long command runs or another snapshot is in progress. No
/// shard may be locked by the caller.
pub fn begin(server: &Server, now: Tick) {
    let saving = &server.saving;
    if server.long.is_running() || saving.state().progress.is_some() {
        return;
    }
    let changes = server.keyspace.changes();
    // Commands hold the locks of shards when they lock the state, so that the shards come first.
    let mut view = server.keyspace.lock_all(now);
    let mut state = saving.state();
    // Under the locks no long command begins.
    if server.long.is_running() {
        return;
    }
    let Some(request) = state.request.take() else {
        return;
    };
    saving.has_request.store(false, Relaxed);
    log::info!("snapshot begun: {}", request.cause);
    server.long.hold();
    let mut plan = plan(server, now);
    if let Then::Rewritten = request.then
        && let Err(error) = aof::begin_rewrite(server, &mut view, &mut plan)
    {
        log::warn!("the append-only file cannot be rewritten: {error}");
        drop(state);
        drop(view);
        server.long.release();
        return aof::end_rewrite(server, None);
    }
    if let Then::Replicas = request.then
        && let Err(error) = primary::begin_snapshot(server, &mut view, &mut plan)
    {
        log::info!("no snapshot for replicas: {error}");
        drop(state);
        drop(view);
        return server.long.release();
    }
    saving.queue.begin(plan);
    let sink: Arc<dyn SnapshotSink> = Arc::<super::queue::Queue>::clone(&saving.queue);
    view.begin_snapshot(&sink);
    drop(view);
    saving.is_walking.store(true, Relaxed);
    state.progress = Some(Progress {
        request,
        started: Instant::now(),
        changes,
        is_cancelled: false,
    });
    drop(state);
    walk_shard(server, 0);
}

/// Returns what the file of a snapshot contains.
pub fn plan(server: &Server, now: Tick) -> Plan {
    let libraries = server.scripting.libraries.all();
    let fields = [
        ("mayfly-ver", crate::version::VERSION.to_owned()),
        ("redis-bits", "64".to_owned()),
        ("ctime", (now.0 / 1000).to_string()),
        ("used-mem", server.keyspace.published_bytes().to_string()),
    ];
    Plan {
        folder: PathBuf::from(server.config.text(Id::Dir)),
        name: server.config.text(Id::DbFilename),
        now,
        is_checked: server.config.is_on(Id::RdbChecksum),
        is_valkey: server.config.number(Id::DumpHashFormat) == 1,
        fields: fields.into(),
        libraries: libraries
            .values()
            .map(|library| library.code.to_vec())
            .collect(),
    }
}

fn walk_shard(server: &Server, shard: usize) {
    let saving = &server.saving;
    if shard == server.keyspace.shard_count() {
        saving.shard.store(NO_SHARD, Relaxed);
        saving.is_walking.store(false, Relaxed);
        saving.queue.push(Task::End);
        return;
    }
    saving.shard.store(shard, Relaxed);
    wake_walker(server);
}

/// Wakes the worker that walks the present shard.
pub fn wake_walker(server: &Server) {
    let shard = server.saving.shard.load(Relaxed);
    if shard != NO_SHARD {
        server.inboxes[shard % server.threads].wake();
    }
}

/// Returns how long a worker may sleep before it calls [`walk`]; `None` if it has nothing to walk.
#[inline]
pub fn next_walk(server: &Server, worker: usize) -> Option<Duration> {
    let saving = &server.saving;
    let shard = saving.shard.load(Relaxed);
    if shard == NO_SHARD || shard % server.threads != worker || saving.queue.is_filled() {
        return None;
    }
    let now = server.clock.moment().0;
    let paused = saving.paused_until_ms.load(Relaxed).saturating_sub(now);
    Some(Duration::from_millis(paused))
}

/// Walks the present shard for one time slice if it is this worker's. `turn` is the duration of the
/// preceding iteration of the event loop. No shard may be locked by the caller.
pub fn walk(server: &Server, worker: usize, turn: Duration, now: Tick) {
    if server.saving.shard.load(Relaxed) == NO_SHARD {
        return;
    }
    let saving = &server.saving;
    let (start, limit) = (Instant::now(), slice(turn, 0));
    while next_walk(server, worker) == Some(Duration::ZERO) && start.elapsed() < limit {
        let shard = saving.shard.load(Relaxed);
        let mut steps = saving.steps.lock().expect("the lock is not poisoned");
        let before = Instant::now();
        match server.keyspace.snapshot_step(shard, steps.count) {
            SnapshotStep::More => steps.adapt(before.elapsed().as_micros(), true),
            SnapshotStep::Done => walk_shard(server, shard + 1),
            SnapshotStep::Locked => pause(server),
            SnapshotStep::Large(db, name) => {
                let key = server.keyspace.key(db, &name);
                let mut view = server.keyspace.lock_one(shard, now);
                if !lend(server, &mut view, &key, worker) {
                    pause(server);
                }
            }
        }
    }
}

fn pause(server: &Server) {
    let until = server.clock.moment().0 + RETRY_PAUSE.as_millis() as u64;
    server.saving.paused_until_ms.store(until, Relaxed);
}

/// Passes the large value of a key, which is not saved yet, to the thread. The key's shard is
/// locked. Returns false if another large value or a long command must end first.
pub fn lend(server: &Server, view: &mut View<'_>, key: &Key<'_>, worker: usize) -> bool {
    if !server.long.lease(HashSet::from([Box::from(key.bytes)])) {
        return false;
    }
    match view.lend_unsaved(key) {
        Some(loan) => {
            let task = Task::WriteLoan(Box::new(loan), worker);
            server.saving.queue.push(task);
        }
        None => server.long.end(),
    }
    true
}

/// Puts a value back that the thread has encoded. No shard may be locked by the caller.
pub fn take_back(server: &Server, loan: Loan, now: Tick) {
    let key = server.keyspace.key(0, loan.key());
    let mut view = server
        .keyspace
        .lock_one(server.keyspace.shard_of(&key), now);
    view.take_loan_back(loan);
    server.long.end();
    drop(view);
    server.wake_all();
}

/// Ends the snapshot in progress with the thread's result. No shard may be locked by the caller.
pub fn end(server: &Server, result: Result<Written, String>) {
    let saving = &server.saving;
    saving.shard.store(NO_SHARD, Relaxed);
    if saving.is_walking.swap(false, Relaxed) {
        server.keyspace.cancel_snapshot();
    }
    server.long.release();
    let mut state = saving.state();
    let progress = state.progress.take().expect("a snapshot is in progress");
    let took = progress.started.elapsed();
    state.last_took = Some(took);
    state.last_peak_bytes = saving.queue.peak_bytes();
    let is_file = !matches!(progress.request.then, Then::Rewritten | Then::Replicas);
    match &result {
        Ok(_) if !is_file => log::info!("snapshot complete: {:.3} s", took.as_secs_f64()),
        Err(why) if !is_file => log::warn!("snapshot failed: {why}"),
        Ok(written) => {
            state.saved_changes = progress.changes;
            state.last_save = server.clock.now().0 / 1000;
            state.failed_at = None;
            state.saves += 1;
            saving.has_failed.store(false, Relaxed);
            log::info!(
                "snapshot complete: {} keys, {}, {:.3} s",
                written.keys,
                bytes_for_people(written.bytes),
                took.as_secs_f64()
            );
        }
        Err(_) if progress.is_cancelled => log::info!("snapshot cancelled"),
        Err(why) => {
            state.failed_at = Some(Instant::now());
            saving.has_failed.store(true, Relaxed);
            log::warn!("snapshot failed: {why}; the previous file is kept");
        }
    }
    drop(state);
    let bytes = result.as_ref().ok().map(|written| written.bytes);
    follow(server, progress.request.then, bytes);
    if saving.has_request() {
        server.inboxes[0].wake();
    }
}

/// Requests a snapshot if a save point is reached.
pub fn check_points(server: &Server) {
    let points = SavePoint::parse_all(&server.config.text(Id::Save)).unwrap_or_default();
    if points.is_empty() || server.segments.is_some() {
        return;
    }
    let (changes, seconds) = {
        let changes = server.keyspace.changes();
        let state = server.saving.state();
        let failed = state.failed_at;
        let has_just_failed = failed.is_some_and(|failed| failed.elapsed() < FAILED_PAUSE);
        if state.progress.is_some() || state.request.is_some() || has_just_failed {
            return;
        }
        (
            changes.wrapping_sub(state.saved_changes),
            (server.clock.now().0 / 1000).saturating_sub(state.last_save),
        )
    };
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
    if server.aof.refuses_writes() {
        return Some(WRITES_REFUSED_BY_FILE);
    }
    if server.replication.is_replica() && server.config.is_on(Id::ReplicaReadOnly) {
        return Some(READ_ONLY);
    }
    if server.replication.lacks_replicas() {
        return Some(TOO_FEW_REPLICAS);
    }
    let is_refused = server.saving.has_failed.load(Relaxed)
        && server.config.is_on(Id::StopWritesOnError)
        && !server.config.text(Id::Save).is_empty();
    is_refused.then_some(WRITES_REFUSED)
}

/// Stops the server, after a snapshot if one is wanted and no file is being loaded. `wants` is
/// `None` if that depends on whether save points are set. Returns whether the snapshot is awaited.
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
    let has_points = || !server.config.text(Id::Save).is_empty() && server.segments.is_none();
    if server.loading.is_on() || !wants.unwrap_or_else(has_points) {
        server.stop();
        return Ok(false);
    }
    if server.segments.is_some() {
        return Err(NOT_SUPPORTED);
    }
    // Writes that are acknowledged from now on might not be saved. The pause begins before the
    // request, because the first worker may end both at any time after it.
    server.begin_pause(Moment(u64::MAX), false);
    request(server, cause.to_owned(), Then::Stop { client, is_forced })?;
    Ok(true)
}

/// Cancels a stop that awaits its snapshot. Returns whether there was one.
pub fn abort_stop(server: &Server) -> bool {
    let saving: &Saving = &server.saving;
    match saving.abort_stop() {
        None => false,
        Some(waiting) => {
            if let Some(then) = waiting {
                follow(server, then, None);
            }
            true
        }
    }
}

/// Does what follows the end of a snapshot. `bytes` is the length of its file, if it is complete.
fn follow(server: &Server, then: Then, bytes: Option<u64>) {
    let is_saved = bytes.is_some();
    match then {
        Then::Nothing => {}
        Then::Rewritten => aof::end_rewrite(server, bytes),
        Then::Replicas => primary::end_snapshot(server, is_saved),
        Then::Reply(waiting) if is_saved => reply(server, waiting, |reply| reply.ok()),
        Then::Reply(waiting) => reply(server, waiting, |reply| {
            reply.error("ERR the snapshot failed or was cancelled; see the log");
        }),
        Then::Stop { is_forced, .. } if is_saved || is_forced => {
            if !is_saved {
                log::warn!("stopping without a snapshot");
            }
            server.stop();
        }
        Then::Stop { client, .. } => {
            log::warn!("the server does not stop, because there is no snapshot");
            // Another stop may have been requested since the snapshot ended.
            if !server.saving.state().stops() {
                server.end_pause();
            }
            if let Some(waiting) = client {
                reply(server, waiting, |reply| reply.error(SHUTDOWN_FAILED));
            }
            server.wake_all();
        }
    }
}

fn reply(server: &Server, waiting: Waiting, write: impl FnOnce(&mut Reply<'_>)) {
    let mut output = Output::default();
    write(&mut Reply::new(&mut output, waiting.protocol));
    let Subscriber {
        worker,
        slot,
        client,
    } = waiting.client;
    // A session without a connection, as in tests, has no worker.
    let worker = worker.min(server.threads - 1);
    server.inboxes[worker].push(worker, Message::Answer(slot, client, output));
}
