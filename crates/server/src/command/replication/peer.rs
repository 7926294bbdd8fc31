//! What the links of other nodes send: their names, and messages of PUBLISH.

use crate::cluster;
use crate::context::Ctx;
use ::cluster::Name;
use std::sync::atomic::Ordering::Relaxed;
use wire::Args;

/// Handles the part of REPLCONF that links send. Returns false if it is another one.
pub(super) fn configure(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> bool {
    let is_message = args.is(1, "cluster-message");
    if !is_message && !args.is(1, "cluster-peer") {
        return false;
    }
    let result = match is_message {
        true => deliver(ctx, args),
        false => introduce(ctx, args).map(|()| ctx.reply.ok()),
    };
    if let Err(error) = result {
        let address = &ctx.session.info.address;
        log::warn!("cluster: the link of a node at {address} is closed: {error}");
        ctx.reply.error(&format!("ERR {error}"));
        ctx.session.is_closing = true;
    }
    true
}

/// Checks that both nodes are those that the link should connect.
fn introduce(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Result<(), String> {
    if !ctx.server.cluster.is_routed() {
        return Err("this server is no node of a cluster".to_owned());
    }
    let name = |at: usize| args.get(at).and_then(Name::parse);
    let (Some(from), Some(to), 4) = (name(2), name(3), args.len()) else {
        return Err("expected the names of two nodes".to_owned());
    };
    let me = cluster::id(ctx.server);
    if to != me {
        return Err(format!("this is node {me}, not {to}"));
    }
    let topology = ctx.server.cluster.current();
    let is_known = topology.is_some_and(|topology| topology.node(from).is_some());
    if !is_known || from == me {
        return Err(format!("node {from} is not another node of this cluster"));
    }
    ctx.session.announced.get_or_insert_default().is_peer = true;
    Ok(())
}

/// Sends a message to the subscribers of this node. There is no reply.
fn deliver(ctx: &Ctx<'_, '_>, args: Args<'_>) -> Result<(), String> {
    let announced = ctx.session.announced.as_deref();
    if !announced.is_some_and(|announced| announced.is_peer) {
        return Err("a message without REPLCONF CLUSTER-PEER before".to_owned());
    }
    let (Some(channel), Some(payload), 4) = (args.get(2), args.get(3), args.len()) else {
        return Err(format!(
            "a message of {} arguments: expected a channel and a text",
            args.len()
        ));
    };
    ctx.server.cluster.outbox.received.fetch_add(1, Relaxed);
    let inboxes = &ctx.server.workers.inboxes;
    ctx.server.clients.pubsub.publish(inboxes, channel, payload);
    Ok(())
}
