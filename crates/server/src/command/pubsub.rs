//! Commands for publish and subscribe: SUBSCRIBE and its variants, PUBLISH, PUBSUB.

use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::context::{Ctx, Run, Spec};
use session::pubsub::Space;
use session::spec::flag::{
    CONTAINER, FAST, KEEPS, LOADING, MAY_WRITE, NO_PAUSE, NOSCRIPT, PUBSUB, PUSHES, STALE,
    SUBSCRIBER, UNBOUNDED,
};
use session::spec::{Access, Form, Keys};
use wire::Args;

const LISTEN: u32 = PUBSUB | NOSCRIPT | LOADING | STALE | SUBSCRIBER | NO_PAUSE | PUSHES;
const SAY: u32 = PUBSUB | LOADING | STALE | FAST | MAY_WRITE;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "pubsub" []:
    "subscribe" -2, LISTEN | KEEPS, Keys::None => Access::CHANNELS, "2.0.0", Run::any(subscribe).confirmed(),
        "channel...", "Subscribes to channels.";
    "unsubscribe" -1, LISTEN, Keys::None => Access::UNCHECKED_CHANNELS, "2.0.0",
        Run::any(unsubscribe).unsubscribes(Space::Channel),
        "[channel]...", "Unsubscribes from channels.";
    "psubscribe" -2, LISTEN | KEEPS, Keys::None => Access::PATTERNS, "2.0.0",
        Run::any(psubscribe).confirmed(),
        "pattern...", "Subscribes to the channels that match patterns.";
    "punsubscribe" -1, LISTEN, Keys::None => Access::UNCHECKED_CHANNELS, "2.0.0",
        Run::any(punsubscribe).unsubscribes(Space::Pattern),
        "[pattern]...", "Unsubscribes from patterns.";
    "ssubscribe" -2, LISTEN | KEEPS, Keys::None => Access::CHANNELS, "7.0.0",
        Run::any(ssubscribe).confirmed(),
        "shardchannel...", "Subscribes to shard channels.";
    "sunsubscribe" -1, LISTEN, Keys::None => Access::UNCHECKED_CHANNELS, "7.0.0",
        Run::any(sunsubscribe).unsubscribes(Space::Shard),
        "[shardchannel]...", "Unsubscribes from shard channels.";
    "publish" 3, SAY | UNBOUNDED => Form::Same, Keys::None => Access::CHANNEL, "2.0.0", Run::any(publish),
        "channel message", "Publishes a message to a channel.";
    "spublish" 3, SAY | UNBOUNDED => Form::Same, Keys::None => Access::CHANNEL, "7.0.0", Run::any(spublish),
        "shardchannel message", "Publishes a message to a shard channel.";
    "pubsub" -2, PUBSUB | LOADING | STALE | CONTAINER, Keys::None, "2.8.0", Run::any(pubsub),
        "subcommand [argument]...", "A container for Pub/Sub commands."
    {
        "channels" -2, PUBSUB | LOADING | STALE, Keys::None => Access::UNCHECKED_CHANNELS, "2.8.0",
            "[pattern]", "Lists the active channels.";
        "help" 2, LOADING | STALE, Keys::None, "6.2.0",
            "", "Returns help about the subcommands.";
        "numpat" 2, PUBSUB | LOADING | STALE, Keys::None => Access::UNCHECKED_CHANNELS, "2.8.0",
            "", "Returns the number of subscribed patterns.";
        "numsub" -2, PUBSUB | LOADING | STALE, Keys::None => Access::UNCHECKED_CHANNELS, "2.8.0",
            "[channel]...", "Returns the number of subscribers of channels.";
        "shardchannels" -2, PUBSUB | LOADING | STALE, Keys::None => Access::UNCHECKED_CHANNELS, "7.0.0",
            "[pattern]", "Lists the active shard channels.";
        "shardnumsub" -2, PUBSUB | LOADING | STALE, Keys::None => Access::UNCHECKED_CHANNELS, "7.0.0",
            "[shardchannel]...", "Returns the number of subscribers of shard channels.";
    };
};

/// Text of PUBSUB HELP.
const HELP: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
];

fn subscribe(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    listen(ctx, args, Space::Channel, "subscribe");
}

fn psubscribe(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    listen(ctx, args, Space::Pattern, "psubscribe");
}

fn ssubscribe(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    listen(ctx, args, Space::Shard, "ssubscribe");
}

fn unsubscribe(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    stop_listening(ctx, args, Space::Channel, "unsubscribe");
}

fn punsubscribe(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    stop_listening(ctx, args, Space::Pattern, "punsubscribe");
}

fn sunsubscribe(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    stop_listening(ctx, args, Space::Shard, "sunsubscribe");
}

fn listen(ctx: &mut Ctx<'_, '_>, args: Args<'_>, space: Space, word: &str) {
    let who = ctx.session.subscriber();
    for name in args.from(1).iter() {
        let subscriptions = ctx.session.subscriptions.get_or_insert_default();
        if subscriptions.insert(space, name) {
            ctx.server.clients.pubsub.subscribe(space, name, who);
        }
        confirm(ctx, word, Some(name), space);
    }
    ctx.session.update_subscription_counts();
}

fn stop_listening(ctx: &mut Ctx<'_, '_>, args: Args<'_>, space: Space, word: &str) {
    let names: Vec<Vec<u8>> = if args.len() > 1 {
        args.from(1).iter().map(<[u8]>::to_vec).collect()
    } else {
        let subscriptions = ctx.session.subscriptions.as_deref();
        subscriptions.map_or_else(Vec::new, |all| all.names(space).iter().cloned().collect())
    };
    let who = ctx.session.subscriber();
    for name in &names {
        if let Some(subscriptions) = &mut ctx.session.subscriptions
            && subscriptions.remove(space, name)
        {
            ctx.server.clients.pubsub.unsubscribe(space, name, who);
        }
        confirm(ctx, word, Some(name), space);
    }
    if names.is_empty() {
        confirm(ctx, word, None, space);
    }
    ctx.session.update_subscription_counts();
}

fn confirm(ctx: &mut Ctx<'_, '_>, word: &str, name: Option<&[u8]>, space: Space) {
    let count = ctx.session.subscription_count(space);
    ctx.reply.push(3);
    ctx.reply.bulk(word.as_bytes());
    match name {
        Some(name) => ctx.reply.bulk(name),
        None => ctx.reply.null(),
    }
    ctx.reply.integer(count as i64);
}

fn publish(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if ctx.server.clients.pubsub.is_too_long(&args[1]) {
        let text =
            "ERR the channel is too long to be compared with the patterns of all subscribers";
        return ctx.reply.error(text);
    }
    let count = ctx
        .server
        .clients
        .pubsub
        .publish(&ctx.server.workers.inboxes, &args[1], &args[2]);
    match ctx.server.cluster.is_routed() {
        true => ctx.server.cluster.outbox.publish(&args[1], &args[2]),
        false => send_to_replicas(ctx, b"PUBLISH", args),
    }
    ctx.reply.integer(count as i64);
}

/// Adds a message to the feed for the subscribers of replicas. A message on a replica stays there.
fn send_to_replicas(ctx: &Ctx<'_, '_>, name: &[u8], args: Args<'_>) {
    let server = ctx.server;
    if server.replication.has_replicas() && server.feed.is_on() && !server.replication.is_replica()
    {
        let command = [name, &args[1], &args[2]];
        server.feed.append(ctx.session.db, command.into_iter());
    }
}

fn spublish(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let pubsub = &ctx.server.clients.pubsub;
    let count = pubsub.publish_sharded(&ctx.server.workers.inboxes, &args[1], &args[2]);
    send_to_replicas(ctx, b"SPUBLISH", args);
    ctx.reply.integer(count as i64);
}

fn pubsub(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"channels", 2 | 3) => channels(ctx, args.get(2), false),
        (b"shardchannels", 2 | 3) => channels(ctx, args.get(2), true),
        (b"numsub", _) => counts(ctx, args, false),
        (b"shardnumsub", _) => counts(ctx, args, true),
        (b"numpat", 2) => {
            let (_, patterns, _) = ctx.server.clients.pubsub.counts();
            ctx.reply.integer(patterns as i64);
        }
        (b"help", 2) => help(ctx, "PUBSUB", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

fn channels(ctx: &mut Ctx<'_, '_>, pattern: Option<&[u8]>, is_sharded: bool) {
    let names = ctx.server.clients.pubsub.channels(pattern, is_sharded);
    ctx.reply.array(names.len());
    for name in names {
        ctx.reply.bulk(&name);
    }
}

fn counts(ctx: &mut Ctx<'_, '_>, args: Args<'_>, is_sharded: bool) {
    // A flat list in both protocol versions.
    ctx.reply.array((args.len() - 2) * 2);
    for name in args.from(2).iter() {
        let count = ctx.server.clients.pubsub.listener_count(name, is_sharded);
        ctx.reply.bulk(name);
        ctx.reply.integer(count as i64);
    }
}
