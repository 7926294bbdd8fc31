//! Replies that describe a topology.

use crate::cluster::{Endpoint, View, is_ok};
use crate::context::Ctx;
use ::cluster::{Health, Node, Role, Shard};
use std::sync::atomic::Ordering::Relaxed;
use wire::Reply;

/// CLUSTER NODES.
pub(super) fn nodes(ctx: &mut Ctx<'_, '_>, view: &View) {
    let nodes = view.topology.nodes().iter();
    let lines: String = nodes.map(|node| view.line(node) + "\n").collect();
    ctx.reply.verbatim("txt", lines.as_bytes());
}

/// Refuses the identifier of a node that does not exist.
pub(super) fn refuse_node(ctx: &mut Ctx<'_, '_>, id: &[u8]) {
    let shown = String::from_utf8_lossy(&id[..id.len().min(128)]);
    ctx.reply
        .error_fmt(format_args!("ERR Unknown node {shown}"));
}

/// CLUSTER SLOTS.
pub(super) fn slots(ctx: &mut Ctx<'_, '_>, view: &View) {
    let endpoint = Endpoint::of(ctx.server);
    ctx.reply.array(view.topology.all_ranges().count());
    for (range, shard) in view.topology.all_ranges() {
        let is_online = |node: &&Node| view.health(node) == Health::Online;
        let mut members = view.topology.members(shard);
        let primary = members.next();
        let listed: Vec<&Node> = primary
            .into_iter()
            .chain(members.filter(is_online))
            .collect();
        ctx.reply.array(2 + listed.len());
        ctx.reply.integer(i64::from(*range.start()));
        ctx.reply.integer(i64::from(*range.end()));
        for node in listed {
            node_of_slots(&mut ctx.reply, endpoint, view, node);
        }
    }
}

fn node_of_slots(reply: &mut Reply<'_>, endpoint: Endpoint, view: &View, node: &Node) {
    reply.array(4);
    match endpoint.host(node) {
        Some(host) => reply.bulk(host.as_bytes()),
        None => reply.null(),
    }
    reply.integer(i64::from(view.port(node)));
    reply.bulk(node.id.as_bytes());
    let ip = (endpoint != Endpoint::Ip).then_some(("ip", &node.ip));
    let has_hostname = endpoint != Endpoint::Hostname && !node.hostname.is_empty();
    let hostname = has_hostname.then_some(("hostname", &node.hostname));
    let zone = (!node.zone.is_empty()).then_some(("availability-zone", &node.zone));
    let others = ip.iter().chain(&hostname).chain(&zone);
    reply.map(others.clone().count());
    for (name, value) in others {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

/// CLUSTER SHARDS.
pub(super) fn shards(ctx: &mut Ctx<'_, '_>, view: &View) {
    let endpoint = Endpoint::of(ctx.server);
    let shards = view.topology.shards();
    ctx.reply.array(shards.len());
    for (index, shard) in shards.iter().enumerate() {
        let ranges: Vec<_> = view.topology.ranges(index).collect();
        ctx.reply.map(2);
        ctx.reply.bulk(b"slots");
        ctx.reply.array(2 * ranges.len());
        for range in ranges {
            ctx.reply.integer(i64::from(*range.start()));
            ctx.reply.integer(i64::from(*range.end()));
        }
        ctx.reply.bulk(b"nodes");
        ctx.reply.array(view.topology.members(index).count());
        for node in view.topology.members(index) {
            node_of_shard(&mut ctx.reply, endpoint, view, shard, node);
        }
    }
}

fn node_of_shard(
    reply: &mut Reply<'_>,
    endpoint: Endpoint,
    view: &View,
    shard: &Shard,
    node: &Node,
) {
    let ports = [("port", node.port), ("tls-port", node.tls_port)];
    let ports = ports.into_iter().filter(|(_, port)| *port != 0);
    let texts = [
        ("hostname", &node.hostname),
        ("availability-zone", &node.zone),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    reply.map(6 + ports.clone().count() + texts.clone().count());
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    for (name, port) in ports {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(port));
    }
    reply.bulk(b"ip");
    reply.bulk(node.ip.as_bytes());
    reply.bulk(b"endpoint");
    reply.bulk(endpoint.host(node).unwrap_or_default().as_bytes());
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(match node.id == shard.primary {
        true => b"master",
        false => b"replica",
    });
    reply.bulk(b"replication-offset");
    reply.integer(view.offset(node) as i64);
    reply.bulk(b"health");
    reply.bulk(match view.health(node) {
        Health::Online => b"online",
        Health::Loading => b"loading",
        Health::Fail => b"fail",
    });
}

/// CLUSTER INFO.
pub(super) fn info(ctx: &mut Ctx<'_, '_>, view: &View) {
    let topology = &view.topology;
    let is_failed = |shard: &usize| {
        let primary = topology.primary(*shard);
        primary.is_some_and(|node| view.health(node) == Health::Fail)
    };
    let slots_of = |shard: usize| {
        topology
            .ranges(shard)
            .map(|range| range.len())
            .sum::<usize>()
    };
    let failed: usize = (0..topology.shards().len())
        .filter(is_failed)
        .map(slots_of)
        .sum();
    let assigned = topology.assigned();
    let epochs = topology.shards().iter().map(|shard| shard.epoch);
    let own_epoch = view.shard_of(view.me).map_or(0, |shard| shard.epoch);
    let state = match is_ok(ctx.server, topology, view.me) {
        true => "ok",
        false => "fail",
    };
    let outbox = &ctx.server.cluster.outbox;
    let (sent, received) = (outbox.sent.load(Relaxed), outbox.received.load(Relaxed));
    let lines = [
        ("state", state.to_owned()),
        ("slots_assigned", assigned.to_string()),
        ("slots_ok", (assigned - failed).to_string()),
        ("slots_pfail", "0".to_owned()),
        ("slots_fail", failed.to_string()),
        ("known_nodes", topology.nodes().len().to_string()),
        ("size", topology.size().to_string()),
        (
            "current_epoch",
            epochs.max().unwrap_or_default().to_string(),
        ),
        ("my_epoch", own_epoch.to_string()),
        ("stats_messages_publish_sent", sent.to_string()),
        ("stats_messages_sent", sent.to_string()),
        ("stats_messages_publish_received", received.to_string()),
        ("stats_messages_received", received.to_string()),
    ];
    // As in Redis, the messages of a kind are listed once there are some.
    let is_shown =
        |(name, value): &&(&str, String)| !name.contains("_publish_") || value.as_str() != "0";
    let lines = lines.iter().filter(is_shown);
    let lines = lines.map(|(name, value)| format!("cluster_{name}:{value}\r\n"));
    let mut text = lines.collect::<String>() + "total_cluster_links_buffer_limit_exceeded:0\r\n";
    if ctx.server.cluster.is_routed() {
        let strength = ctx.server.cluster.seat.strength().word();
        text += &format!("cluster_strength:{strength}\r\n");
    }
    ctx.reply.verbatim("txt", text.as_bytes());
}

/// CLUSTER LINKS: the connections that send messages. Those of other nodes to this one are clients.
pub(super) fn links(ctx: &mut Ctx<'_, '_>) {
    let links = ctx.server.cluster.outbox.links();
    let reply = &mut ctx.reply;
    reply.array(links.len());
    for link in links {
        reply.map(6);
        reply.bulk(b"direction");
        reply.bulk(b"to");
        reply.bulk(b"node");
        reply.bulk(link.node.as_bytes());
        reply.bulk(b"create-time");
        reply.integer(link.since_ms as i64);
        reply.bulk(b"events");
        reply.bulk(if link.waiting_bytes > 0 { b"rw" } else { b"r" });
        for field in ["send-buffer-allocated", "send-buffer-used"] {
            reply.bulk(field.as_bytes());
            reply.integer(link.waiting_bytes as i64);
        }
    }
}

/// CLUSTER REPLICAS.
pub(super) fn replicas(ctx: &mut Ctx<'_, '_>, view: &View, id: &[u8]) {
    let Some(node) = view.find(id) else {
        return refuse_node(ctx, id);
    };
    let shard = match view.topology.role(node.id) {
        Role::Replica(_) => return ctx.reply.error("ERR The specified node is not a master"),
        Role::Primary(shard) => Some(shard),
        Role::Spare => None,
    };
    let members = shard
        .into_iter()
        .flat_map(|shard| view.topology.members(shard));
    let lines: Vec<String> = members.skip(1).map(|replica| view.line(replica)).collect();
    ctx.reply.array(lines.len());
    for line in lines {
        ctx.reply.bulk(line.as_bytes());
    }
}
