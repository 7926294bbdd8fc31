//! Commands of the cluster protocol. With `cluster-enabled emulated` they describe a cluster of one
//! node; otherwise they are refused.

pub(crate) mod slots;

use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::cluster::{self, Cluster, Endpoint, Health, Node};
use crate::context::{Ctx, Run, Spec};
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, FAST, LOADING, NOSCRIPT, STALE};
use wire::Args;
use wire::slot::{SLOTS, slot};

const ALWAYS: u32 = LOADING | STALE;

/// Error for commands of a cluster while there is none.
const DISABLED: &str = "ERR This instance has cluster support disabled";

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "cluster" []:
    "asking" 1 [connection], FAST, Keys::None, "3.0.0", Run::any(confirm),
        "", "Accepted for clients of a cluster; has no effect, because no slots move.";
    "cluster" -2, ALWAYS | CONTAINER, Keys::WholeIf(slots::WORDS), "3.0.0",
        Run::any(cluster).slots(),
        "subcommand [argument]...", "A container for cluster commands."
    {
        "addslots" -3, ADMIN | STALE, Keys::None, "3.0.0",
            "slot:integer...", "Refused, because the slots of a cluster of one node do not change.";
        "addslotsrange" -4, ADMIN | STALE, Keys::None, "7.0.0",
            "(start-slot:integer end-slot:integer)...",
            "Refused, because the slots of a cluster of one node do not change.";
        "bumpepoch" 2, ADMIN | STALE, Keys::None, "3.0.0",
            "", "Refused, because a cluster of one node has no epochs.";
        "count-failure-reports" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Returns 0, because nodes do not report failures.";
        "countkeysinslot" 3, STALE, Keys::None, "3.0.0",
            "slot:integer", "Returns the number of keys of the selected database in a slot.";
        "delslots" -3, ADMIN | STALE, Keys::None, "3.0.0",
            "slot:integer...", "Refused, because the slots of a cluster of one node do not change.";
        "delslotsrange" -4, ADMIN | STALE, Keys::None, "7.0.0",
            "(start-slot:integer end-slot:integer)...",
            "Refused, because the slots of a cluster of one node do not change.";
        "failover" -2, ADMIN | STALE, Keys::None, "3.0.0",
            "[FORCE | TAKEOVER]", "Refused; FAILOVER without CLUSTER exchanges the roles of two servers.";
        "flushslots" 2, ADMIN | STALE, Keys::None, "3.0.0",
            "", "Refused, because the slots of a cluster of one node do not change.";
        "forget" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Refused, because a cluster of one node has no others.";
        "getkeysinslot" 4, STALE, Keys::None, "3.0.0",
            "slot:integer count:integer", "Returns the names of keys of the selected database in a slot.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "info" 2, STALE, Keys::None, "3.0.0",
            "", "Returns the state of the cluster.";
        "keyslot" 3, STALE, Keys::None, "3.0.0",
            "key:string", "Returns the slot of a key.";
        "links" 2, STALE, Keys::None, "7.0.0",
            "", "Returns an empty list, because nodes are not connected by a bus.";
        "meet" -4, ADMIN | STALE, Keys::None, "3.0.0",
            "ip port:integer [cluster-bus-port:integer]",
            "Refused, because a cluster of one node accepts no others.";
        "migration" -4, ADMIN | STALE, Keys::None, "8.4.0",
            "subcommand argument...", "Refused, because the slots of a cluster of one node do not move.";
        "myid" 2, STALE, Keys::None, "3.0.0",
            "", "Returns the identifier of this node.";
        "myshardid" 2, STALE, Keys::None, "7.2.0",
            "", "Returns the identifier of the shard.";
        "nodes" 2, STALE, Keys::None, "3.0.0",
            "", "Returns the nodes, one line each.";
        "replicas" 3, ADMIN | STALE, Keys::None, "5.0.0",
            "node-id", "Returns the replicas of a node, one line each.";
        "replicate" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Refused; REPLICAOF makes the server a replica.";
        "reset" -2, ADMIN | NOSCRIPT | STALE, Keys::None, "3.0.0",
            "[HARD | SOFT]", "Refused, because a cluster of one node has no state to reset.";
        "saveconfig" 2, ADMIN | STALE, Keys::None, "3.0.0",
            "", "Refused, because a cluster of one node has no state to save.";
        "set-config-epoch" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "config-epoch:integer", "Refused, because a cluster of one node has no epochs.";
        "setslot" -4, ADMIN | STALE, Keys::None, "3.0.0",
            "slot:integer (IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE)",
            "Refused, because the slots of a cluster of one node do not move.";
        "shards" 2, LOADING | STALE, Keys::None, "7.0.0",
            "", "Returns the shard with its slots and its nodes.";
        "slaves" 3, ADMIN | STALE, Keys::None, "3.0.0",
            "node-id", "Returns the replicas of a node, one line each.";
        "slot-stats" -4, LOADING | STALE, Keys::None, "8.2.0",
            "(SLOTSRANGE start-slot:integer end-slot:integer) | (ORDERBY metric [LIMIT limit:integer] [ASC | DESC])",
            "Returns the number of keys of the selected database in each slot.";
        "slots" 2, LOADING | STALE, Keys::None, "3.0.0",
            "", "Returns the slots with the nodes that serve them.";
        "syncslots" -3, ADMIN | STALE, Keys::None, "8.4.0",
            "subcommand argument...", "Refused, because the slots of a cluster of one node do not move.";
    };
    "readonly" 1 [connection], FAST | LOADING | STALE, Keys::None, "3.0.0", Run::any(confirm),
        "", "Accepted for clients of a cluster; has no effect, because a replica answers all reads.";
    "readwrite" 1 [connection], FAST | LOADING | STALE, Keys::None, "3.0.0", Run::any(confirm),
        "", "Accepted for clients of a cluster; has no effect, because a replica answers all reads.";
};

/// Text of CLUSTER HELP.
const HELP: &[&str] = &[
    "COUNT-FAILURE-REPORTS <node-id>",
    "    Return 0, because nodes do not report failures.",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys of the selected database in <slot>.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return the names of up to <count> keys of the selected database in <slot>.",
    "INFO",
    "    Return the state of the cluster.",
    "KEYSLOT <key>",
    "    Return the slot of <key>.",
    "LINKS",
    "    Return an empty list, because nodes are not connected by a bus.",
    "MYID",
    "    Return the identifier of this node.",
    "MYSHARDID",
    "    Return the identifier of the shard.",
    "NODES",
    "    Return the nodes, one line each:",
    "    <id> <ip:port@bus-port[,hostname]> <flags> <primary> <ping> <pong> <epoch> <link> <slots>",
    "REPLICAS <node-id>",
    "    Return the replicas of <node-id> as lines of NODES.",
    "SHARDS",
    "    Return the shard with its slots and its nodes.",
    "SLOT-STATS SLOTSRANGE <start> <end>",
    "    Return the numbers of keys in these slots.",
    "SLOT-STATS ORDERBY KEY-COUNT [LIMIT <limit>] [ASC|DESC]",
    "    Return the numbers of keys of the slots that have the most or the fewest.",
    "SLOTS",
    "    Return the slots with the nodes that serve them.",
];

/// Confirms a command that has no effect on a cluster of one node.
fn confirm(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    match ctx.server.config.is_cluster() {
        true => ctx.reply.ok(),
        false => ctx.reply.error(DISABLED),
    }
}

fn cluster(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if !ctx.server.config.is_cluster() {
        return ctx.reply.error(DISABLED);
    }
    let word = args[1].to_ascii_lowercase();
    let view = || Cluster::of(ctx.server, ctx.session);
    match &word[..] {
        b"slots" => reply_slots(ctx, &view()),
        b"shards" => reply_shards(ctx, &view()),
        b"nodes" => {
            let view = view();
            let lines: String = view.nodes().map(|node| view.line(node) + "\n").collect();
            ctx.reply.verbatim("txt", lines.as_bytes());
        }
        b"info" => reply_info(ctx, &view()),
        b"myid" => ctx.reply.bulk(cluster::id(ctx.server).as_bytes()),
        b"myshardid" => ctx.reply.bulk(view().shard_id().as_bytes()),
        b"keyslot" => ctx.reply.integer(i64::from(slot(&args[2]))),
        b"links" => ctx.reply.array(0),
        b"replicas" | b"slaves" => reply_replicas(ctx, &view(), &args[2]),
        b"count-failure-reports" => match view().find(&args[2]) {
            Some(_) => ctx.reply.integer(0),
            None => refuse_node(ctx, &args[2]),
        },
        b"countkeysinslot" | b"getkeysinslot" | b"slot-stats" => slots::examine(ctx, args),
        b"help" => help(ctx, "CLUSTER", HELP),
        b"addslots" | b"addslotsrange" | b"bumpepoch" | b"delslots" | b"delslotsrange"
        | b"failover" | b"flushslots" | b"forget" | b"meet" | b"migration" | b"replicate"
        | b"reset" | b"saveconfig" | b"set-config-epoch" | b"setslot" | b"syncslots" => {
            let word = String::from_utf8_lossy(&word).to_uppercase();
            ctx.reply.error_fmt(format_args!(
                "ERR CLUSTER {word} is not possible with cluster-enabled emulated: the cluster is this server alone"
            ));
        }
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

fn refuse_node(ctx: &mut Ctx<'_, '_>, id: &[u8]) {
    let shown = String::from_utf8_lossy(&id[..id.len().min(128)]);
    ctx.reply
        .error_fmt(format_args!("ERR Unknown node {shown}"));
}

/// Returns what a client connects to; `None` means the host that it is connected to.
fn preferred(endpoint: Endpoint, node: &Node) -> Option<&str> {
    match endpoint {
        Endpoint::Ip => Some(&node.ip),
        Endpoint::Hostname if node.hostname.is_empty() => Some("?"),
        Endpoint::Hostname => Some(&node.hostname),
        Endpoint::Unknown => None,
    }
}

fn reply_slots(ctx: &mut Ctx<'_, '_>, view: &Cluster) {
    let is_online = |node: &&Node| node.health == Health::Online;
    let replicas: Vec<&Node> = view.replicas.iter().filter(is_online).collect();
    ctx.reply.array(1);
    ctx.reply.array(3 + replicas.len());
    ctx.reply.integer(0);
    ctx.reply.integer(i64::from(SLOTS - 1));
    for node in std::iter::once(&view.primary).chain(replicas) {
        reply_node_of_slots(ctx, view, node);
    }
}

fn reply_node_of_slots(ctx: &mut Ctx<'_, '_>, view: &Cluster, node: &Node) {
    let endpoint = cluster::endpoint(ctx.server);
    let reply = &mut ctx.reply;
    reply.array(4);
    match preferred(endpoint, node) {
        Some(host) => reply.bulk(host.as_bytes()),
        None => reply.null(),
    }
    reply.integer(i64::from(view.port(node)));
    reply.bulk(node.id.as_bytes());
    let ip = (endpoint != Endpoint::Ip).then_some(("ip", &node.ip));
    let has_hostname = endpoint != Endpoint::Hostname && !node.hostname.is_empty();
    let hostname = has_hostname.then_some(("hostname", &node.hostname));
    let others = ip.iter().chain(&hostname);
    reply.map(others.clone().count());
    for (name, value) in others {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

fn reply_shards(ctx: &mut Ctx<'_, '_>, view: &Cluster) {
    ctx.reply.array(1);
    ctx.reply.map(2);
    ctx.reply.bulk(b"slots");
    ctx.reply.array(2);
    ctx.reply.integer(0);
    ctx.reply.integer(i64::from(SLOTS - 1));
    ctx.reply.bulk(b"nodes");
    ctx.reply.array(1 + view.replicas.len());
    for node in view.nodes() {
        reply_node_of_shard(ctx, node, node.id == view.primary.id);
    }
}

fn reply_node_of_shard(ctx: &mut Ctx<'_, '_>, node: &Node, is_primary: bool) {
    let endpoint = preferred(cluster::endpoint(ctx.server), node).unwrap_or_default();
    let ports = [("port", node.port), ("tls-port", node.tls_port)];
    let ports = ports.into_iter().filter(|(_, port)| *port != 0);
    let hostname = (!node.hostname.is_empty()).then_some(&node.hostname);
    let reply = &mut ctx.reply;
    reply.map(6 + ports.clone().count() + usize::from(hostname.is_some()));
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    for (name, port) in ports {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(port));
    }
    reply.bulk(b"ip");
    reply.bulk(node.ip.as_bytes());
    reply.bulk(b"endpoint");
    reply.bulk(endpoint.as_bytes());
    if let Some(hostname) = hostname {
        reply.bulk(b"hostname");
        reply.bulk(hostname.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(if is_primary { b"master" } else { b"replica" });
    reply.bulk(b"replication-offset");
    reply.integer(node.offset as i64);
    reply.bulk(b"health");
    reply.bulk(match node.health {
        Health::Online => b"online",
        Health::Loading => b"loading",
        Health::Fail => b"fail",
    });
}

fn reply_info(ctx: &mut Ctx<'_, '_>, view: &Cluster) {
    let lines = [
        ("state", "ok"),
        ("slots_assigned", "16384"),
        ("slots_ok", "16384"),
        ("slots_pfail", "0"),
        ("slots_fail", "0"),
        ("known_nodes", &view.nodes().count().to_string()),
        ("size", "1"),
        ("current_epoch", "1"),
        ("my_epoch", "1"),
        ("stats_messages_sent", "0"),
        ("stats_messages_received", "0"),
    ];
    let lines = lines.map(|(name, value)| format!("cluster_{name}:{value}\r\n"));
    let text = lines.concat() + "total_cluster_links_buffer_limit_exceeded:0\r\n";
    ctx.reply.verbatim("txt", text.as_bytes());
}

fn reply_replicas(ctx: &mut Ctx<'_, '_>, view: &Cluster, id: &[u8]) {
    match view.find(id) {
        None => refuse_node(ctx, id),
        Some(node) if node.id != view.primary.id => {
            ctx.reply.error("ERR The specified node is not a master");
        }
        Some(_) => {
            ctx.reply.array(view.replicas.len());
            for replica in &view.replicas {
                ctx.reply.bulk(view.line(replica).as_bytes());
            }
        }
    }
}
