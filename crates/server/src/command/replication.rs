//! Commands of replication: REPLICAOF, PSYNC, REPLCONF, ROLE, WAIT, WAITAOF.

mod peer;

use super::table::commands;
use crate::context::{Ctx, Run, Spec};
use crate::replication::primary::{self, Sync};
use crate::replication::{failover, role};
use ::cluster::Name;
use durability::replication::waits::Wait;
use durability::replication::{Phase, PrimaryState};
use engine::lifetime::whole_timeout_ms;
use session::clients;
use session::clock::Moment;
use session::message::Subscriber;
use session::spec::Keys;
use session::spec::flag::{ADMIN, FAST, LOADING, NO_MULTI, NOSCRIPT, STALE};
use session::waiting::BlockingState;
use std::time::Duration;
use wire::Args;
use wire::number::parse_i64;

const ALWAYS: u32 = LOADING | STALE;
const ADMIN_ALWAYS: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "role" 1 [admin dangerous], ALWAYS | FAST | NOSCRIPT, Keys::None, "2.8.12", Run::any(role),
        "", "Returns the replication role.";
    "replicaof" 3, ADMIN_ALWAYS, Keys::None, "5.0.0", Run::any(replica_of),
        "(host port) | (NO ONE)", "Makes the server a replica of another one, or a primary.";
    "slaveof" 3, ADMIN_ALWAYS, Keys::None, "1.0.0", Run::any(replica_of),
        "(host port) | (NO ONE)", "Makes the server a replica of another one, or a primary.";
    "failover" -1, ADMIN | NOSCRIPT | STALE, Keys::None, "6.2.0", Run::any(fail_over),
        "[TO (host port:integer [FORCE])] [ABORT] [TIMEOUT milliseconds:integer]",
        "Exchanges the roles of this server and one of its replicas.";
    "replconf" -1, ADMIN_ALWAYS, Keys::None, "3.0.0", Run::any(configure),
        "[option value]...", "Passes facts between a replica and its primary. Replicas send it.";
    "psync" -3, ADMIN | NOSCRIPT | NO_MULTI, Keys::None, "2.8.0", Run::any(synchronize),
        "replicationid:string offset:integer", "Begins to send a replica what it has missed. Replicas send it.";
    "sync" 1, ADMIN | NOSCRIPT | NO_MULTI, Keys::None, "1.0.0", Run::any(synchronize),
        "", "Begins to send a replica all keys. Old replicas send it.";
    in "generic" []:
    "wait" 3 [blocking connection], 0, Keys::None, "3.0.0", Run::any(wait),
        "numreplicas timeout:integer",
        "Waits until replicas have acknowledged the connection's writes. Returns their number.";
    "waitaof" 4 [blocking connection], 0, Keys::None, "7.2.0", Run::any(wait_for_file),
        "numlocal:integer numreplicas timeout:integer",
        "Waits until the append-only files of this server and of replicas have the connection's writes. Returns the numbers of files.";
};

const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

fn role(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    let replication = &ctx.server.replication;
    let position = ctx.server.feed.end();
    if let Some(primary) = replication.primary() {
        ctx.reply.array(5);
        ctx.reply.bulk(b"slave");
        ctx.reply.bulk(primary.host.as_bytes());
        ctx.reply.integer(i64::from(primary.port));
        ctx.reply.bulk(match primary {
            PrimaryState {
                is_syncing: true, ..
            } => b"sync",
            PrimaryState {
                is_connected: true, ..
            } => b"connected",
            _ => b"connect",
        });
        return ctx.reply.integer(position as i64);
    }
    let follows = |phase: &Phase| matches!(phase, Phase::Follows);
    let replicas = replication.replicas();
    let replicas: Vec<_> = replicas.iter().filter(|r| follows(&r.phase)).collect();
    ctx.reply.array(3);
    ctx.reply.bulk(b"master");
    ctx.reply.integer(position as i64);
    ctx.reply.array(replicas.len());
    for replica in replicas {
        ctx.reply.array(3);
        ctx.reply.bulk(replica.address.as_bytes());
        ctx.reply.bulk(replica.port.to_string().as_bytes());
        ctx.reply.bulk(replica.acked.to_string().as_bytes());
    }
}

/// Error for the commands that a cluster replaces.
const IN_CLUSTER: &str =
    "is not allowed in cluster mode; the records of the cluster assign the roles";

fn replica_of(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if ctx.server.cluster.is_routed() {
        return ctx.reply.error(&format!("ERR REPLICAOF {IN_CLUSTER}"));
    }
    if ctx.server.data.segments.is_some() {
        return ctx.reply.error("ERR the segment engine has no replication");
    }
    if args.is(1, "no") && args.is(2, "one") {
        ctx.unlocked(role::promote);
        return ctx.reply.ok();
    }
    let host = String::from_utf8_lossy(&args[1]).into_owned();
    let port = parse_i64(&args[2]).and_then(|port| u16::try_from(port).ok());
    let Some(port) = port else {
        return ctx.reply.error("ERR Invalid master port");
    };
    let present = ctx.server.replication.primary();
    if present.is_some_and(|primary| primary.host == host && primary.port == port) {
        return ctx.reply.simple("OK Already connected to specified master");
    }
    ctx.unlocked(|server| role::follow(server, &host, port));
    ctx.reply.ok();
}

fn fail_over(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if ctx.server.cluster.is_routed() {
        let text = format!("ERR FAILOVER {IN_CLUSTER}; use CLUSTER FAILOVER");
        return ctx.reply.error(&text);
    }
    if args.len() == 2 && args.is(1, "abort") {
        return match ctx.unlocked(failover::abort) {
            Ok(()) => ctx.reply.ok(),
            Err(error) => ctx.reply.error(error),
        };
    }
    let (mut target, mut timeout, mut is_forced, mut at) = (None, None, false, 1);
    while at < args.len() {
        let rest = args.len() - at - 1;
        if args.is(at, "to") && rest >= 2 && target.is_none() {
            let port = parse_i64(&args[at + 2]).and_then(|port| u16::try_from(port).ok());
            let Some(port) = port else {
                return ctx.reply.error(NOT_INTEGER);
            };
            target = Some((String::from_utf8_lossy(&args[at + 1]).into_owned(), port));
            at += 3;
        } else if args.is(at, "timeout") && rest >= 1 && timeout.is_none() {
            let Some(span) = parse_i64(&args[at + 1]) else {
                return ctx.reply.error(NOT_INTEGER);
            };
            let Some(span) = u64::try_from(span).ok().filter(|span| *span > 0) else {
                return ctx
                    .reply
                    .error("ERR FAILOVER timeout must be greater than 0");
            };
            timeout = Some(Duration::from_millis(span));
            at += 2;
        } else if args.is(at, "force") && !is_forced {
            is_forced = true;
            at += 1;
        } else {
            return ctx.reply.error("ERR syntax error");
        }
    }
    if is_forced && (target.is_none() || timeout.is_none()) {
        return ctx.reply.error(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        );
    }
    match ctx.unlocked(|server| failover::begin(server, target, timeout, is_forced)) {
        Ok(()) => ctx.reply.ok(),
        Err(error) => ctx.reply.error(error),
    }
}

/// Handles what replicas of a cluster send: the shard and the term that they follow, and promises.
fn configure_member(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let number = |at: usize| args.get(at).and_then(parse_i64);
    let seat = &ctx.server.cluster.seat;
    if args.is(1, "cluster-promise") {
        // A replica expects no reply.
        let node = ctx.session.announced.as_deref();
        let node = node.and_then(|announced| announced.node_id.as_deref());
        let unsigned = |at| number(at).and_then(|n| u64::try_from(n).ok());
        if let (Some(node), Some(epoch), Some(sent)) = (node, unsigned(2), unsigned(3)) {
            seat.promised(node, epoch, sent);
        }
        return;
    }
    let link = number(4).and_then(|n| u64::try_from(n).ok());
    let (Some(epoch), Some(link), 5) = (number(3), link, args.len()) else {
        return ctx.reply.error("ERR syntax error");
    };
    match primary::check_follower(ctx.server, &args[2], epoch) {
        Ok(()) => {
            ctx.session.announced.get_or_insert_default().link = link;
            ctx.reply.ok();
        }
        Err(error) => ctx.reply.error(error),
    }
}

fn configure(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let is_of_member = args.is(1, "cluster-link") || args.is(1, "cluster-promise");
    match is_of_member {
        true => configure_member(ctx, args),
        false if peer::configure(ctx, args) => {}
        false => configure_replica(ctx, args),
    }
}

fn configure_replica(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if args.len().is_multiple_of(2) {
        return ctx.reply.error("ERR syntax error");
    }
    let number = |at: usize| args.get(at).and_then(parse_i64);
    let mut at = 1;
    while at < args.len() {
        let word = args[at].to_ascii_lowercase();
        match &word[..] {
            b"ack" => {
                let position = number(at + 1).and_then(|n| u64::try_from(n).ok());
                let file = match args.is(at + 2, "fack") {
                    true => number(at + 3).and_then(|n| u64::try_from(n).ok()),
                    false => None,
                };
                let client = ctx.session.info.id;
                primary::acknowledge(ctx.server, client, position.unwrap_or(0), file);
                // A replica expects no reply.
                return;
            }
            b"getack" => return,
            b"listening-port" => match number(at + 1).and_then(|n| u16::try_from(n).ok()) {
                Some(port) => ctx.session.announced.get_or_insert_default().port = port,
                None => return ctx.reply.error(NOT_INTEGER),
            },
            b"ip-address" => {
                let address = String::from_utf8_lossy(&args[at + 1]).into_owned();
                ctx.session.announced.get_or_insert_default().address = Some(address);
            }
            b"version" => {
                let form = &mut ctx.session.announced.get_or_insert_default().form;
                form.is_valkey = reads_form_of_valkey(&args[at + 1]);
            }
            b"rdb-only" => match number(at + 1) {
                Some(flag @ 0..=1) => {
                    let announced = ctx.session.announced.get_or_insert_default();
                    announced.is_snapshot_only = flag == 1;
                }
                Some(_) => {
                    let error = "ERR value is out of range, must be between 0 and 1";
                    return ctx.reply.error(error);
                }
                None => return ctx.reply.error(NOT_INTEGER),
            },
            b"rdb-filter-only" => match parts_of(&args[at + 1]) {
                Ok((has_keys, has_libraries)) => {
                    let form = &mut ctx.session.announced.get_or_insert_default().form;
                    (form.has_keys, form.has_libraries) = (has_keys, has_libraries);
                }
                Err(error) => return ctx.reply.error(&error),
            },
            b"set-cluster-node-id" => {
                let id = &args[at + 1];
                let id = Name::parse(id).map(|id| id.to_string());
                ctx.session.announced.get_or_insert_default().node_id = id;
            }
            b"capa" | b"rdb-channel" | b"main-ch-client-id" | b"set-rdb-client-id" => {}
            _ => {
                let shown = String::from_utf8_lossy(&args[at]);
                let text = format!("ERR Unrecognized REPLCONF option: {shown}");
                return ctx.reply.error(&text);
            }
        }
        at += 2;
    }
    ctx.reply.ok();
}

/// Whether a replica that announces a version reads Valkey's form of hashes with field deadlines.
/// Only Valkey since 8 announces one, and Valkey since 9 has such hashes.
fn reads_form_of_valkey(version: &[u8]) -> bool {
    const FIRST_MAJOR: i64 = 9;
    let major = version.split(|byte| *byte == b'.').next();
    let major = major.and_then(parse_i64);
    major.is_some_and(|major| major >= FIRST_MAJOR)
}

/// Returns whether a snapshot should have the keys and the function libraries, given the words of
/// `rdb-filter-only`. It contains only what the words name.
fn parts_of(words: &[u8]) -> Result<(bool, bool), String> {
    let mut has_libraries = false;
    for word in words.split(u8::is_ascii_whitespace) {
        match word {
            b"" => {}
            word if word.eq_ignore_ascii_case(b"functions") => has_libraries = true,
            word => {
                let shown = word.escape_ascii();
                return Err(format!("ERR Unsupported rdb-filter-only option: {shown}"));
            }
        }
    }
    Ok((false, has_libraries))
}

fn synchronize(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let server = ctx.server;
    if server.data.segments.is_some() {
        return ctx.reply.error("ERR the segment engine has no replication");
    }
    if ctx.session.is_replica {
        return;
    }
    let id = args.get(1).map(String::from_utf8_lossy);
    let next = args.get(2).and_then(parse_i64);
    // The position of the first byte is 1 in this command and 0 in the feed.
    let position = next.and_then(|next| u64::try_from(next.checked_sub(1)?).ok());
    if args.is(3, "failover") {
        let id = id.as_deref().unwrap_or_default();
        let is_forced = args.is(4, "force");
        let taken = ctx.unlocked(|server| failover::take_over(server, id, position, is_forced));
        if let Err(error) = taken {
            return ctx.reply.error(error);
        }
    }
    let primary = server.replication.primary();
    if primary.is_some_and(|primary| !primary.is_connected) {
        return ctx
            .reply
            .error("NOMASTERLINK Can't SYNC while not connected with my master");
    }
    let is_old = args.len() == 1;
    let mut announced = ctx
        .session
        .announced
        .as_deref()
        .cloned()
        .unwrap_or_default();
    announced.is_old = is_old;
    let wanted = id.as_deref().zip(position).filter(|(id, _)| *id != "?");
    let info = std::sync::Arc::clone(&ctx.session.info);
    ctx.session.is_replica = true;
    ctx.session.set_flag(clients::flag::REPLICA, true);
    match primary::accept(server, &info, &announced, wanted) {
        Sync::Partial(id) => ctx.reply.simple(&format!("CONTINUE {id}")),
        Sync::Full => {}
    }
}

/// Waits until `wait` is over, or replies immediately if the client may not wait.
fn wait_until(ctx: &mut Ctx<'_, '_>, local: Option<bool>, replicas: i64, timeout_ms: u64) {
    let server = ctx.server;
    let now = server.clock.moment();
    let wait = Wait {
        client: Subscriber::of(&ctx.session.info),
        protocol: ctx.session.protocol,
        position: server.feed.end(),
        local,
        replicas: replicas as usize,
        deadline: (timeout_ms > 0).then(|| Moment(now.0.saturating_add(timeout_ms))),
    };
    let may_wait = matches!(ctx.session.blocking_state, BlockingState::MayBlock);
    if !may_wait || primary::is_over(&server.persistence.aof, &server.replication, &wait) {
        return primary::reply(
            &server.persistence.aof,
            &server.replication,
            &wait,
            &mut ctx.reply,
        );
    }
    ctx.session.blocking_state = BlockingState::RunsLong;
    server.replication.waits.add(wait);
    primary::request_acknowledgements(server);
    server.feed.wake();
    // What it waits for may have been reached before it was added.
    primary::check_waits(server, now);
}

fn wait(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if ctx.server.replication.is_replica() {
        return ctx
            .reply
            .error("ERR WAIT cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.");
    }
    match (parse_i64(&args[1]), whole_timeout_ms(&args[2])) {
        (Some(replicas), Ok(timeout_ms)) => wait_until(ctx, None, replicas.max(0), timeout_ms),
        (None, _) => ctx.reply.error(NOT_INTEGER),
        (_, Err(refusal)) => refusal.write(&mut ctx.reply),
    }
}

fn wait_for_file(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let error = match (parse_i64(&args[1]), parse_i64(&args[2])) {
        (None, _) | (_, None) => NOT_INTEGER,
        (Some(local), _) if !(0..=1).contains(&local) => {
            "ERR value is out of range, must be between 0 and 1"
        }
        (_, Some(replicas)) if replicas < 0 => "ERR value is out of range, must be positive",
        (Some(local), Some(replicas)) => match whole_timeout_ms(&args[3]) {
            Err(refusal) => return refusal.write(&mut ctx.reply),
            Ok(_) if local == 1 && !ctx.server.persistence.aof.is_on() => {
                "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
            }
            Ok(timeout_ms) => return wait_until(ctx, Some(local == 1), replicas, timeout_ms),
        },
    };
    ctx.reply.error(error);
}
