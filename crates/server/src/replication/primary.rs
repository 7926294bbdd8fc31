//! The server as a primary: accepting replicas, their snapshots, acknowledgements and limits.

use crate::effects;
use crate::routing;
use crate::state::Server;
use durability::aof::AppendOnly;
use durability::replication::waits::Wait;
use durability::replication::{EARLIEST, ID_DIGITS, Phase, ReplicaState, Replication};
use durability::saving::Then;
use durability::saving::queue::Plan;
use session::clients::ClientInfo;
use session::clock::Moment;
use session::feed::Feed;
use session::message::{Message, Subscriber};
use session::session::{Announced, SnapshotForm};
use settings::{ClientClass, Config, Id, temporary};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::View;
use wire::rdb::{HEADER_BYTES, Version};
use wire::{Output, Reply};

/// Time without replicas after which the feed is no longer kept.
const BACKLOG_SECONDS_MAX: u64 = 1 << 32;

/// Answer to a request for synchronization.
#[derive(Debug)]
pub enum Sync {
    /// The replica receives the feed from its position on.
    Partial(String),
    /// The replica receives a snapshot first. The reply follows when the snapshot begins.
    Full,
}

/// Returns whether a replica of a shard may follow this node in a term, or the error for it.
///
/// # Errors
/// This node is not the primary of that term, or does not continue its history yet as the primary.
/// A replica that followed before would keep the identifier of the earlier history, and would need
/// a snapshot after the next failover. The message is a reply.
pub fn check_follower(server: &Server, shard: &[u8], epoch: i64) -> Result<(), &'static str> {
    server.cluster.seat.check_follower(shard, epoch)?;
    match server.replication.is_replica() {
        true => Err("ERR this node is not the primary yet"),
        false => Ok(()),
    }
}

/// Registers a connection as a replica. `wanted` is the history and the position of the next byte
/// that the replica needs.
pub fn accept(
    server: &Server,
    info: &ClientInfo,
    announced: &Announced,
    wanted: Option<(&str, u64)>,
) -> Sync {
    let replication = &server.replication;
    let mut state = replication.state();
    let is_known = |(id, position): (&str, u64)| {
        id == state.id
            || state
                .earlier
                .as_ref()
                .is_some_and(|(earlier, end)| id == earlier && position <= *end)
    };
    let found = wanted.filter(|wanted| is_known(*wanted));
    let reader = found.and_then(|(_, position)| {
        let reader = server.feed.add_reader(position)?;
        Some((reader, position))
    });
    let host = info.address.parse::<SocketAddr>();
    let host = host.map_or_else(
        |_| "127.0.0.1".to_owned(),
        |a| a.ip().to_canonical().to_string(),
    );
    let replica = ReplicaState {
        client: Subscriber::of(info),
        address: announced.address.clone().unwrap_or(host),
        port: announced.port,
        node_id: announced.node_id.clone(),
        link: announced.link,
        is_old: announced.is_old,
        form: announced.form,
        is_snapshot_only: announced.is_snapshot_only,
        unread: None,
        phase: match reader {
            Some(_) => Phase::Follows,
            None => Phase::Waits,
        },
        reader: reader.map_or(0, |reader| reader.0),
        acked: reader.map_or(0, |reader| reader.1),
        acked_file: 0,
        acked_at: Instant::now(),
    };
    log::info!(
        "replica {}:{} requests {} synchronization",
        replica.address,
        replica.port,
        if reader.is_some() { "partial" } else { "full" }
    );
    state.replicas.insert(info.id, replica);
    state.no_replicas_since = None;
    replication
        .replica_count
        .store(state.replicas.len(), Relaxed);
    if reader.is_some() {
        replication.partial_syncs.fetch_add(1, Relaxed);
        return Sync::Partial(state.id.clone());
    }
    if wanted.is_some() {
        replication.refused_syncs.fetch_add(1, Relaxed);
    }
    drop(state);
    request_snapshot(server);
    Sync::Full
}

/// Requests the snapshot for waiting replicas, unless another one is in progress; then the first
/// worker requests it later.
pub fn request_snapshot(server: &Server) {
    {
        let mut state = server.replication.state();
        let waits = |replica: &ReplicaState| matches!(replica.phase, Phase::Waits);
        if state.has_snapshot || !state.replicas.values().any(waits) {
            return;
        }
        state.has_snapshot = true;
    }
    let cause = "for replicas".to_owned();
    let is_possible = !server.persistence.loading.is_on();
    if is_possible
        && server
            .persistence
            .saving
            .request(&server.data, cause, Then::Replicas)
            .is_ok()
    {
        return server.workers.inboxes[0].wake();
    }
    server.replication.state().has_snapshot = false;
}

/// Minimum of `repl-backlog-size`. Smaller values are accepted and have no effect, as in Redis.
const BACKLOG_BYTES_MIN: i64 = 16 << 10;

/// Returns the number of bytes of the feed that are kept for replicas that connect again.
pub fn backlog_bytes(config: &Config) -> u64 {
    config.number(Id::ReplBacklogSize).max(BACKLOG_BYTES_MIN) as u64
}

/// Begins the snapshot for replicas that request the same one, for which all shards are locked:
/// from now on, they read the feed. Others wait for the next snapshot.
///
/// # Errors
/// No replica waits any longer.
pub fn begin_snapshot(server: &Server, view: &mut View<'_>, plan: &mut Plan) -> Result<(), String> {
    if server.feed.is_on() {
        effects::add_all_removals(&server.data.keyspace, &server.feed, view);
    } else {
        effects::set_feed(server, view, true);
    }
    server.feed.set_backlog(backlog_bytes(&server.config));
    let position = server.feed.cut();
    let mut state = server.replication.state();
    let id = state.id.clone();
    let stream_db = match server.replication.is_replica() {
        true => state.stream_db,
        false => 0,
    };
    let waits = |replica: &ReplicaState| matches!(replica.phase, Phase::Waits);
    let first = state.replicas.values().find(|replica| waits(replica));
    let form = first.map_or_else(SnapshotForm::default, |replica| replica.form);
    let mut count = 0;
    for replica in state.replicas.values_mut() {
        if !waits(replica) || replica.form != form {
            continue;
        }
        let reader = server.feed.add_reader(position);
        replica.reader = reader.expect("the end of the feed is kept");
        replica.phase = Phase::Writes(position);
        count += 1;
        if replica.is_old {
            continue;
        }
        let line = format!("+FULLRESYNC {id} {position}\r\n");
        let worker = replica.client.worker;
        let message = Message::Send(replica.client, Arc::from(line.as_bytes()));
        server.workers.inboxes[worker].push(worker, message);
    }
    if count == 0 {
        state.has_snapshot = false;
        return Err("no replica waits".to_owned());
    }
    server.replication.full_syncs.fetch_add(count, Relaxed);
    plan.name = temporary::name(&server.lifecycle.run_id);
    plan.is_valkey = form.is_valkey;
    plan.has_keys = form.has_keys;
    if !form.has_libraries {
        plan.libraries.clear();
    }
    add_fields(plan, stream_db, id, position);
    Ok(())
}

fn add_fields(plan: &mut Plan, stream_db: u8, id: String, position: u64) {
    plan.fields.push(("repl-stream-db", stream_db.to_string()));
    plan.fields.push(("repl-id", id));
    plan.fields.push(("repl-offset", position.to_string()));
}

/// Adds the history and its position to the snapshot of a stop, for which all shards are locked, if
/// the feed is kept for replicas: after the next start, they continue there. The file then includes
/// entries that have expired but were not removed, because the feed has no deletion of them yet.
pub fn add_history(server: &Server, view: &mut View<'_>, plan: &mut Plan) {
    if server.replication.is_replica() || !server.feed.is_on() {
        return;
    }
    effects::add_all_removals(&server.data.keyspace, &server.feed, view);
    let state = server.replication.state();
    if state.replicas.is_empty() && state.no_replicas_since.is_none() {
        return;
    }
    add_fields(plan, 0, state.id.clone(), server.feed.end());
    plan.now = EARLIEST;
}

/// Makes the history of the snapshot file loaded at startup the previous one of this server, before
/// the first key is stored: whatever expires or is evicted from now on is in the feed. Returns
/// false if the server is a replica or its feed has begun.
pub fn continue_history(server: &Server, id: &str, position: u64) -> bool {
    let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    let mut state = server.replication.state();
    if !is_id || server.replication.is_replica() || server.feed.is_on() {
        return false;
    }
    state.earlier = Some((id.to_owned(), position));
    state.no_replicas_since = Some(Instant::now());
    server.feed.restart_at(position);
    server.feed.set_backlog(backlog_bytes(&server.config));
    effects::set_feed(server, &mut view, true);
    true
}

/// Passes a complete snapshot to the replicas that wait for it, or disconnects them.
pub fn end_snapshot(server: &Server, is_complete: bool) {
    let folder = server.config.text(Id::Dir);
    let path = Path::new(&folder).join(temporary::name(&server.lifecycle.run_id));
    let opened = is_complete.then(|| File::open(&path)).and_then(Result::ok);
    // The file exists as long as it is open.
    let _ = fs::remove_file(&path);
    let length = opened.as_ref().and_then(|file| file.metadata().ok());
    let version = opened.as_ref().and_then(version_of);
    let file = opened.map(Arc::new).zip(length.map(|found| found.len()));
    let mut state = server.replication.state();
    state.has_snapshot = false;
    for replica in state.replicas.values_mut() {
        let Phase::Writes(position) = replica.phase else {
            continue;
        };
        match &file {
            Some((file, len)) => {
                replica.phase = Phase::Receives(position, Arc::clone(file), *len);
                replica.unread = version.filter(|_| !replica.is_snapshot_only);
            }
            None => {
                let Subscriber {
                    worker,
                    slot,
                    client,
                } = replica.client;
                server.workers.inboxes[worker].push(worker, Message::Kill(slot, client));
            }
        }
    }
    drop(state);
    server.workers.wake_all();
}

/// Returns the version of a snapshot file.
fn version_of(file: &File) -> Option<Version> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    Version::read(header)
}

/// Records that a replica has received its snapshot.
pub fn follow(replication: &Replication, client: u64) {
    if let Some(replica) = replication.state().replicas.get_mut(&client) {
        replica.phase = Phase::Follows;
        replica.acked_at = Instant::now();
    }
}

/// Records the position that a replica has acknowledged.
pub fn acknowledge(server: &Server, client: u64, position: u64, in_file: Option<u64>) {
    let seat = &server.cluster.seat;
    let mut member = None;
    {
        let mut state = server.replication.state();
        let Some(replica) = state.replicas.get_mut(&client) else {
            return;
        };
        replica.acked = position;
        replica.unread = None;
        replica.acked_file = in_file.unwrap_or(replica.acked_file);
        replica.acked_at = Instant::now();
        let is_member = matches!(replica.phase, Phase::Follows) && replica.link > 0;
        if seat.is_sync() && is_member {
            member.clone_from(&replica.node_id);
        }
    }
    if let Some(member) = member {
        seat.received(&member, position, server.feed.end());
        if seat.has_awaiting() {
            server.workers.wake_others();
        }
    }
    check_waits(server, server.clock.moment());
}

/// Records that a replica has sent a line without a command: it is loading its snapshot.
pub fn hear(replication: &Replication, client: u64) {
    if let Some(replica) = replication.state().replicas.get_mut(&client) {
        replica.acked_at = Instant::now();
    }
}

/// Removes a replica that disconnects.
pub fn forget(config: &Config, feed: &Feed, replication: &Replication, client: u64) {
    let mut state = replication.state();
    let Some(replica) = state.replicas.remove(&client) else {
        return;
    };
    let name = format!("replica {}:{}", replica.address, replica.port);
    match replica.unread {
        None => log::info!("{name} has disconnected"),
        // It requests a snapshot again and again if it cannot read one.
        Some(version) => log::warn!(
            "{name} has disconnected before it acknowledged its snapshot in {version}; if this repeats, its log has the reason, such as a version that it cannot read"
        ),
    }
    if replica.reader > 0 {
        feed.remove_reader(replica.reader);
    }
    let count = state.replicas.len();
    replication.replica_count.store(count, Relaxed);
    if count == 0 {
        state.no_replicas_since = Some(Instant::now());
    }
    drop(state);
    replication.count_good(config);
}

/// Requests all replicas to acknowledge their positions.
pub fn request_acknowledgements(server: &Server) {
    // Only a primary adds bytes to its history.
    if server.replication.has_replicas() && !server.replication.is_replica() {
        server
            .feed
            .append_raw(b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n");
        server.workers.wake_all();
    }
}

/// Performs the work due every 100 ms: a snapshot for replicas, limits, and the number of replicas
/// that are up to date. `is_second` is true once per second.
pub fn check(server: &Server, is_second: bool) {
    let replication = &server.replication;
    let config = &server.config;
    if is_second || replication.has_replicas() {
        request_snapshot(server);
    }
    if !is_second {
        return;
    }
    server.feed.set_backlog(
        match replication.has_replicas() || replication.is_replica() {
            true => backlog_bytes(config),
            false => backlog_without_replicas(server),
        },
    );
    let limit = config.output_limit(ClientClass::Replica).hard_bytes;
    let timeout = Duration::from_secs(config.number(Id::ReplTimeout) as u64);
    for replica in replication.replicas() {
        let is_following = matches!(replica.phase, Phase::Follows);
        let age = replica.acked_at.elapsed();
        let is_slow = limit > 0 && replica.reader > 0 && server.feed.lag(replica.reader) > limit;
        let is_silent = is_following && age > timeout;
        if is_slow || is_silent {
            let why = if is_slow {
                "it has too many unsent bytes (client-output-buffer-limit)"
            } else {
                "it has sent nothing for repl-timeout"
            };
            log::warn!(
                "disconnecting replica {}:{}: {why}",
                replica.address,
                replica.port
            );
            let Subscriber {
                worker,
                slot,
                client,
            } = replica.client;
            server.workers.inboxes[worker].push(worker, Message::Kill(slot, client));
        }
    }
    replication.count_good(config);
}

/// Returns the size of the backlog while there is no replica, and ends a feed that is no longer
/// needed.
fn backlog_without_replicas(server: &Server) -> u64 {
    let since = server.replication.state().no_replicas_since;
    let limit = server.config.number(Id::ReplBacklogTtl) as u64;
    // A move of slots reads the feed.
    if server.cluster.moves.is_active() {
        return backlog_bytes(&server.config);
    }
    let Some(since) = since else {
        return 0;
    };
    let limit = if limit == 0 {
        BACKLOG_SECONDS_MAX
    } else {
        limit
    };
    if since.elapsed().as_secs() < limit {
        return backlog_bytes(&server.config);
    }
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    let mut state = server.replication.state();
    state.no_replicas_since = None;
    if !server.persistence.aof.is_on()
        && !server.replication.is_replica()
        && state.replicas.is_empty()
    {
        effects::set_feed(server, &mut view, false);
        // What follows is not in the feed, so that no replica may continue.
        (state.id, state.earlier) = (new_id(), None);
    }
    0
}

/// Returns a random identifier of a history.
pub fn new_id() -> String {
    let words: String = (0..3)
        .map(|salt| format!("{:016x}", settings::random::chance(0x1d00 + salt)))
        .collect();
    words[..ID_DIGITS].to_owned()
}

/// Sends the bytes that keep the connection of each replica alive.
pub fn ping(server: &Server) {
    // A replica that takes over must have the whole feed, and one that continues after a stop must
    // have no more than its snapshot.
    let is_stopping = server.persistence.saving.stop_in_progress().is_some();
    let replication = &server.replication;
    // The replicas' data counts as recent only while this node may serve.
    let is_beyond_fence =
        server.cluster.is_routed() && routing::now(&server.clock) >= server.cluster.fence();
    let is_changing = server.cluster.seat.is_changing.load(Relaxed) || is_beyond_fence;
    if replication.is_replica() || replication.failover().is_some() || is_stopping || is_changing {
        return;
    }
    if server.replication.has_replicas() {
        server.feed.append_raw(b"*1\r\n$4\r\nPING\r\n");
    }
    for replica in server.replication.replicas() {
        if matches!(replica.phase, Phase::Waits | Phase::Writes(_)) {
            let worker = replica.client.worker;
            let message = Message::Send(replica.client, Arc::from(&b"\n"[..]));
            server.workers.inboxes[worker].push(worker, message);
        }
    }
}

/// Returns the number of replicas that follow and have acknowledged a position.
fn acked_count(replication: &Replication, position: u64, in_file: bool) -> usize {
    let has_acked = |replica: &&ReplicaState| {
        let acked = match in_file {
            // A file may be ahead in the history that the replica has given up.
            true => replica.acked_file.min(replica.acked),
            false => replica.acked,
        };
        matches!(replica.phase, Phase::Follows) && acked >= position
    };
    let state = replication.state();
    state.replicas.values().filter(has_acked).count()
}

/// Returns the number of acknowledgements of the position that a client waits for: by this
/// server's own file (0 or 1), and by replicas.
fn reached(aof: &AppendOnly, replication: &Replication, wait: &Wait) -> (i64, i64) {
    let is_local = aof.is_complete() && aof.synced() >= wait.position;
    let replicas = acked_count(replication, wait.position, wait.local.is_some());
    (i64::from(is_local), replicas as i64)
}

/// Whether a client need not wait any longer.
pub fn is_over(aof: &AppendOnly, replication: &Replication, wait: &Wait) -> bool {
    let (local, replicas) = reached(aof, replication, wait);
    (wait.local != Some(true) || local > 0) && replicas >= wait.replicas as i64
}

/// Writes the reply to WAIT or WAITAOF as things stand.
pub fn reply(aof: &AppendOnly, replication: &Replication, wait: &Wait, reply: &mut Reply<'_>) {
    let (local, replicas) = reached(aof, replication, wait);
    if wait.local.is_some() {
        reply.array(2);
        reply.integer(local);
    }
    reply.integer(replicas);
}

/// Answers the clients whose wait is over at `now`.
pub fn check_waits(server: &Server, now: Moment) {
    let waits = &server.replication.waits;
    if waits.is_empty() {
        return;
    }
    let has_ended = |wait: &Wait| wait.deadline.is_some_and(|deadline| deadline <= now);
    for wait in waits
        .take(|wait| has_ended(wait) || is_over(&server.persistence.aof, &server.replication, wait))
    {
        let mut output = Output::default();
        reply(
            &server.persistence.aof,
            &server.replication,
            &wait,
            &mut Reply::new(&mut output, wait.protocol),
        );
        let Subscriber {
            worker,
            slot,
            client,
        } = wait.client;
        let worker = worker.min(server.workers.count - 1);
        server.workers.inboxes[worker].push(worker, Message::Answer(slot, client, output));
    }
}
