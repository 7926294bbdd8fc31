//! Commands of the cluster protocol. They describe the topology to clients; they do not change it.
//! Without a cluster they are refused.

mod moves;
mod reply;
pub(crate) mod slots;

use super::subcommand::help;
use super::table::commands;
use crate::cluster::View;
use crate::context::{Ctx, Run, Spec};
use ::cluster::Role;
use session::clients::flag as client_flag;
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, FAST, LOADING, NOSCRIPT, STALE};
use std::sync::atomic::Ordering::Relaxed;
use wire::Args;
use wire::slot::slot;

const ALWAYS: u32 = LOADING | STALE;

/// Error for commands of a cluster while there is none.
const DISABLED: &str = "ERR This instance has cluster support disabled";

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "cluster" []:
    "asking" 1 [connection], FAST, Keys::None, "3.0.0", Run::any(asking),
        "", "Accepted for clients of a cluster; has no effect, because a slot that moves has one owner at each time.";
    "cluster" -2, ALWAYS | CONTAINER, Keys::WholeIf(slots::WORDS), "3.0.0",
        Run::any(cluster).slots(),
        "subcommand [argument]...", "A container for cluster commands."
    {
        "addslots" -3, ADMIN | STALE, Keys::None, "3.0.0",
            "slot:integer...", "Refused, because clients do not change which node has which slots.";
        "addslotsrange" -4, ADMIN | STALE, Keys::None, "7.0.0",
            "(start-slot:integer end-slot:integer)...",
            "Refused, because clients do not change which node has which slots.";
        "bumpepoch" 2, ADMIN | STALE, Keys::None, "3.0.0",
            "", "Refused, because clients do not change epochs.";
        "cancelslotmigrations" 2, ADMIN | STALE, Keys::None, "9.0.0",
            "", "Ends the open moves of slots from this node; the slots stay.";
        "count-failure-reports" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Returns 0, because nodes do not report failures.";
        "countkeysinslot" 3, STALE, Keys::None, "3.0.0",
            "slot:integer", "Returns the number of keys of the selected database in a slot.";
        "delslots" -3, ADMIN | STALE, Keys::None, "3.0.0",
            "slot:integer...", "Refused, because clients do not change which node has which slots.";
        "delslotsrange" -4, ADMIN | STALE, Keys::None, "7.0.0",
            "(start-slot:integer end-slot:integer)...",
            "Refused, because clients do not change which node has which slots.";
        "failover" -2, ADMIN | STALE, Keys::None, "3.0.0",
            "[FORCE | TAKEOVER]", "Makes this replica the primary of its shard, without a lost write, or with FORCE as soon as the primary may not serve; TAKEOVER is refused.";
        "flushslots" 2, ADMIN | STALE, Keys::None, "3.0.0",
            "", "Refused, because clients do not change which node has which slots.";
        "forget" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Refused, because clients do not remove nodes.";
        "getkeysinslot" 4, STALE, Keys::None, "3.0.0",
            "slot:integer count:integer", "Returns the names of keys of the selected database in a slot.";
        "getslotmigrations" 2, ADMIN | STALE, Keys::None, "9.0.0",
            "", "Returns the moves of slots in which this node's shard takes part.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "info" 2, STALE, Keys::None, "3.0.0",
            "", "Returns the state of the cluster.";
        "keyslot" 3, STALE, Keys::None, "3.0.0",
            "key:string", "Returns the slot of a key.";
        "links" 2, STALE, Keys::None, "7.0.0",
            "", "Returns the connections over which messages of PUBLISH are sent to other nodes.";
        "meet" -4, ADMIN | STALE, Keys::None, "3.0.0",
            "ip port:integer [cluster-bus-port:integer]",
            "Refused, because nodes do not join by requests of clients.";
        "migrateslots" -6, ADMIN | STALE, Keys::None, "9.0.0",
            "(SLOTSRANGE (start-slot:integer end-slot:integer)... NODE node-id)...",
            "Begins moves of slots from this node to others.";
        "migration" -3, ADMIN | STALE, Keys::None, "8.4.0",
            "(IMPORT (start-slot:integer end-slot:integer)...) | (STATUS [(ID task-id) | ALL]) | (CANCEL (ID task-id) | ALL)",
            "Begins a move of slots to this node, returns the moves, or ends them.";
        "myid" 2, STALE, Keys::None, "3.0.0",
            "", "Returns the identifier of this node.";
        "myshardid" 2, STALE, Keys::None, "7.2.0",
            "", "Returns the identifier of this node's shard.";
        "nodes" 2, STALE, Keys::None, "3.0.0",
            "", "Returns the nodes, one line each.";
        "replicas" 3, ADMIN | STALE, Keys::None, "5.0.0",
            "node-id", "Returns the replicas of a node, one line each.";
        "replicate" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Refused, because clients do not assign replicas.";
        "reset" -2, ADMIN | NOSCRIPT | STALE, Keys::None, "3.0.0",
            "[HARD | SOFT]", "Refused, because the node has no state of its own to reset.";
        "saveconfig" 2, ADMIN | STALE, Keys::None, "3.0.0",
            "", "Refused, because the node has no file of its own to save.";
        "set-config-epoch" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "config-epoch:integer", "Refused, because clients do not change epochs.";
        "setslot" -4, ADMIN | STALE, Keys::None, "3.0.0",
            "slot:integer (IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE)",
            "Refused, because clients do not move slots.";
        "shards" 2, LOADING | STALE, Keys::None, "7.0.0",
            "", "Returns the shards with their slots and nodes.";
        "slaves" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Returns the replicas of a node, one line each.";
        "slot-stats" -4, LOADING | STALE, Keys::None, "8.2.0",
            "(SLOTSRANGE start-slot:integer end-slot:integer) | (ORDERBY metric [LIMIT limit:integer] [ASC | DESC])",
            "Returns the number of keys of the selected database in each slot.";
        "slots" 2, LOADING | STALE, Keys::None, "3.0.0",
            "", "Returns the slots with the nodes that serve them.";
        "syncslots" -3, ADMIN | STALE, Keys::None, "8.4.0",
            "subcommand argument...", "Passes the keys of moving slots between nodes. Nodes send it.";
    };
    "readonly" 1 [connection], FAST | LOADING | STALE, Keys::None, "3.0.0", Run::any(readonly),
        "", "Lets a replica of a cluster answer the reads of this client.";
    "readwrite" 1 [connection], FAST | LOADING | STALE, Keys::None, "3.0.0", Run::any(readwrite),
        "", "Ends the effect of READONLY.";
};

/// Text of CLUSTER HELP.
const HELP: &[&str] = &[
    "CANCELSLOTMIGRATIONS",
    "    End the open moves of slots from this node.",
    "COUNT-FAILURE-REPORTS <node-id>",
    "    Return 0, because nodes do not report failures.",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys of the selected database in <slot>.",
    "FAILOVER",
    "    Make this replica the primary of its shard.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return the names of up to <count> keys of the selected database in <slot>.",
    "GETSLOTMIGRATIONS",
    "    Return the moves of slots in which this node's shard takes part.",
    "INFO",
    "    Return the state of the cluster.",
    "KEYSLOT <key>",
    "    Return the slot of <key>.",
    "LINKS",
    "    Return the connections to other nodes.",
    "MIGRATESLOTS SLOTSRANGE <start> <end> [<start> <end> ...] NODE <node-id> [...]",
    "    Begin to move slots from this node to another.",
    "MIGRATION IMPORT <start> <end> [<start> <end> ...]",
    "    Begin to move slots to this node. Return the name of the move.",
    "MIGRATION STATUS [ID <name> | ALL]",
    "    Return the moves of slots in which this node's shard takes part.",
    "MIGRATION CANCEL (ID <name> | ALL)",
    "    End open moves. Return their number.",
    "MYID",
    "    Return the identifier of this node.",
    "MYSHARDID",
    "    Return the identifier of this node's shard.",
    "NODES",
    "    Return the nodes, one line each:",
    "    <id> <ip:port@bus-port[,hostname]> <flags> <primary> <ping> <pong> <epoch> <link> <slots>",
    "REPLICAS <node-id>",
    "    Return the replicas of <node-id> as lines of NODES.",
    "SHARDS",
    "    Return the shards with their slots and nodes.",
    "SLOT-STATS SLOTSRANGE <start> <end>",
    "    Return the numbers of keys in these slots.",
    "SLOT-STATS ORDERBY KEY-COUNT [LIMIT <limit>] [ASC|DESC]",
    "    Return the numbers of keys of the slots that have the most or the fewest.",
    "SLOTS",
    "    Return the slots with the nodes that serve them.",
];

/// Subcommands that change a cluster, with the command of the program that does it.
const ELSEWHERE: &[(&str, &str)] = &[
    ("addslots", "mayfly cluster init"),
    ("addslotsrange", "mayfly cluster init"),
    ("forget", "mayfly cluster forget"),
    ("meet", "mayfly serve --cluster"),
    ("replicate", "mayfly serve --cluster"),
];

fn asking(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    confirm(ctx);
}

fn readonly(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    if confirm(ctx) {
        ctx.session.set_flag(client_flag::READONLY, true);
    }
}

fn readwrite(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    if confirm(ctx) {
        ctx.session.set_flag(client_flag::READONLY, false);
    }
}

/// Replies to a command for clients of a cluster. Returns false if there is no cluster.
fn confirm(ctx: &mut Ctx<'_, '_>) -> bool {
    let is_cluster = ctx.server.config.is_cluster();
    match is_cluster {
        true => ctx.reply.ok(),
        false => ctx.reply.error(DISABLED),
    }
    is_cluster
}

fn cluster(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if !ctx.server.config.is_cluster() {
        return ctx.reply.error(DISABLED);
    }
    let word = args[1].to_ascii_lowercase();
    let view = || View::of(ctx.server, ctx.session);
    match &word[..] {
        b"slots" => reply::slots(ctx, &view()),
        b"shards" => reply::shards(ctx, &view()),
        b"nodes" => reply::nodes(ctx, &view()),
        b"info" => reply::info(ctx, &view()),
        b"myid" => ctx.reply.bulk(view().me.as_bytes()),
        b"myshardid" => ctx.reply.bulk(view().shard_id().as_bytes()),
        b"keyslot" => ctx.reply.integer(i64::from(slot(&args[2]))),
        b"links" => reply::links(ctx),
        b"replicas" | b"slaves" => reply::replicas(ctx, &view(), &args[2]),
        b"count-failure-reports" => match view().find(&args[2]) {
            Some(_) => ctx.reply.integer(0),
            None => reply::refuse_node(ctx, &args[2]),
        },
        b"countkeysinslot" | b"getkeysinslot" | b"slot-stats" => slots::examine(ctx, args),
        b"migrateslots" if ctx.server.cluster.is_routed() => moves::migrate(ctx, args),
        b"getslotmigrations" if ctx.server.cluster.is_routed() => moves::list(ctx),
        b"cancelslotmigrations" if ctx.server.cluster.is_routed() => moves::cancel_all(ctx),
        b"migration" if ctx.server.cluster.is_routed() => moves::migration(ctx, args),
        b"syncslots" if ctx.server.cluster.is_routed() => moves::synchronize(ctx, args),
        b"failover" if ctx.server.cluster.is_routed() => fail_over(ctx, args),
        b"help" => help(ctx, "CLUSTER", HELP),
        // The table has no others.
        _ => refuse(ctx, &String::from_utf8_lossy(&word)),
    }
}

/// Refuses a subcommand that would change the cluster.
fn refuse(ctx: &mut Ctx<'_, '_>, word: &str) {
    let upper = word.to_uppercase();
    if !ctx.server.cluster.is_routed() {
        return ctx.reply.error_fmt(format_args!(
            "ERR CLUSTER {upper} is not possible with cluster-enabled emulated: the cluster is this server alone"
        ));
    }
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == word);
    let hint = elsewhere.map_or_else(String::new, |(_, command)| format!("; use {command}"));
    ctx.reply.error_fmt(format_args!(
        "ERR CLUSTER {upper} is not possible: etcd has the state of the cluster{hint}"
    ));
}

/// Requests that this replica becomes the primary of its shard, without the loss of a write.
fn fail_over(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let cluster = &ctx.server.cluster;
    let routes = cluster.routes();
    let is_replica = matches!(routes.role, Role::Replica(_));
    match args.get(2).map(<[u8]>::to_ascii_lowercase).as_deref() {
        Some(b"takeover") => ctx.reply.error(TAKEOVER),
        Some(b"force") if routes.is_in_sync() => {
            cluster.seat.is_forced.store(true, Relaxed);
            ctx.reply.ok();
        }
        Some(b"force") if is_replica => ctx.reply.error(OUT_OF_SYNC),
        Some(b"force") => ctx.reply.error(NO_REPLICA),
        Some(_) => ctx.reply.error("ERR syntax error"),
        None if is_replica => {
            cluster.seat.wants_failover.store(true, Relaxed);
            ctx.reply.ok();
        }
        None => ctx.reply.error(NO_REPLICA),
    }
}

const NO_REPLICA: &str = "ERR You should send CLUSTER FAILOVER to a replica";
/// Error for a forced failover to a replica that may lack acknowledged writes.
const OUT_OF_SYNC: &str =
    "ERR this replica is not in sync: it lacks writes, and does not become the primary";
/// Error for a failover against the rules.
const TAKEOVER: &str = "ERR CLUSTER FAILOVER accepts no TAKEOVER: it would make two primaries, or lose writes that an in-sync replica has; FORCE lets an in-sync replica take over as soon as the primary may not serve";
