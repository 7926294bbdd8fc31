//! Commands that describe and configure streams: XINFO, XCFGSET, XIDMPRECORD.

use super::arguments::{count, integer, plain_id};
use super::range::write_entries;
use super::reply::{self, no_group};
use crate::command::subcommand::{help, refuse_subcommand};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::stream::{
    Consumer, ConsumerIndex, Expired, Group, IDEMPOTENCE_SECONDS, IDEMPOTENCE_SIZE, StreamId,
};
use store::{Scene, Stream};
use wire::{Args, Reply};

/// Text of XINFO HELP.
const HELP: &[&str] = &[
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
];

/// Number of entries that XINFO STREAM FULL lists without COUNT.
const COUNT_DEFAULT: usize = 10;

/// `XINFO STREAM | GROUPS | CONSUMERS | HELP …`
pub fn xinfo(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"help", 2) => help(ctx, "XINFO", HELP),
        (b"stream", 3..) => return stream(ctx, args),
        (b"groups", 3) => return groups(ctx, args),
        (b"consumers", 4) => return consumers(ctx, args),
        _ => refuse_subcommand(ctx, args, HELP),
    }
    Ok(())
}

/// Passes the stream under a key to `write`, which writes the reply. Refuses an absent key.
fn describe<R>(
    ctx: &mut Ctx<'_, '_>,
    name: &[u8],
    write: impl FnOnce(&mut Reply<'_>, &Stream, &Scene<'_>) -> R,
) -> Result<R, Refusal> {
    let key = ctx.key(name);
    let out = &mut ctx.reply;
    let read = ctx
        .view
        .read_stream(&key, |stream, scene| write(out, stream, scene))?;
    read.ok_or(Refusal::Message("ERR no such key"))
}

fn optional(reply: &mut Reply<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn name(reply: &mut Reply<'_>, name: &str) {
    reply.bulk(name.as_bytes());
}

/// Writes a name and a number.
fn pair(reply: &mut Reply<'_>, of: &str, number: impl TryInto<i64>) {
    name(reply, of);
    reply.integer(number.try_into().unwrap_or(i64::MAX));
}

fn groups(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    describe(ctx, &args[2], |reply, stream, scene| {
        let expired = stream.expired(scene);
        reply.array(stream.group_count());
        for (group_name, group) in stream.groups() {
            reply.map(6);
            name(reply, "name");
            reply.bulk(group_name);
            pair(reply, "consumers", group.consumer_count());
            pair(reply, "pending", group.pending_count(&expired));
            write_progress(reply, stream, group, scene);
        }
    })
}

/// Writes how far a group has read.
fn write_progress(reply: &mut Reply<'_>, stream: &Stream, group: &Group, scene: &Scene<'_>) {
    name(reply, "last-delivered-id");
    reply::id(reply, group.last_delivered);
    name(reply, "entries-read");
    optional(reply, group.entries_read.map(|read| read as i64));
    name(reply, "lag");
    optional(reply, stream.lag(group, scene));
}

fn consumers(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let is_found = describe(ctx, &args[2], |reply, stream, scene| {
        let group = stream.group(&args[3])?;
        let expired = stream.expired(scene);
        let since = |ms: u64| scene.now.0 as i64 - ms as i64;
        reply.array(group.consumer_count());
        for (index, consumer) in group.consumers() {
            reply.map(4);
            name(reply, "name");
            reply.bulk(&consumer.name);
            pair(reply, "pending", group.pending_count_of(index, &expired));
            pair(reply, "idle", since(consumer.seen_ms).max(0));
            pair(reply, "inactive", consumer.active_ms.map_or(-1, since));
        }
        Some(())
    })?;
    match is_found {
        Some(()) => Ok(()),
        None => no_group(ctx, &args[2], &args[3]),
    }
}

fn stream(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let is_valid = matches!(args.len(), 3 | 4 | 6)
        && (args.len() < 4 || args.is(3, "full"))
        && (args.len() < 6 || args.is(4, "count"));
    let key = ctx.key(&args[2]);
    if !is_valid {
        if ctx.view.read_stream(&key, |_, _| ())?.is_none() {
            return Err(Refusal::Message("ERR no such key"));
        }
        refuse_subcommand(ctx, args, HELP);
        return Ok(());
    }
    let limit = match args.get(5) {
        None => Ok(COUNT_DEFAULT),
        Some(text) => match integer(text) {
            Ok(..0) => Ok(COUNT_DEFAULT),
            _ => count(text),
        },
    };
    describe(ctx, &args[2], |reply, stream, scene| {
        let limit = match limit? {
            0 => usize::MAX,
            limit => limit,
        };
        let is_full = args.len() > 3;
        let age = stream.facts().max_age_ms;
        reply.map(if is_full { 15 } else { 16 } + usize::from(age > 0));
        write_numbers(reply, stream, scene);
        if age > 0 {
            pair(reply, "max-age", age);
        }
        match is_full {
            true => write_full(reply, stream, scene, limit),
            false => write_ends(reply, stream, scene),
        }
        Ok(())
    })?
}

fn write_numbers(reply: &mut Reply<'_>, stream: &Stream, scene: &Scene<'_>) {
    let (facts, ids) = (stream.facts(), stream.idempotence());
    let (blocks, groups) = stream.block_counts();
    pair(reply, "length", stream.len(scene));
    pair(reply, "radix-tree-keys", blocks);
    pair(reply, "radix-tree-nodes", blocks + groups);
    name(reply, "last-generated-id");
    reply::id(reply, facts.last_id);
    name(reply, "max-deleted-entry-id");
    reply::id(reply, facts.max_deleted_id);
    pair(reply, "entries-added", facts.entries_added);
    name(reply, "recorded-first-entry-id");
    reply::id(reply, stream.first_id(scene));
    pair(reply, "idmp-duration", ids.seconds);
    pair(reply, "idmp-maxsize", ids.size);
    pair(reply, "pids-tracked", ids.producers);
    pair(reply, "iids-tracked", ids.messages);
    pair(reply, "iids-added", ids.added);
    pair(reply, "iids-duplicates", ids.duplicates);
}

/// Writes the number of groups, and the first and the last entry.
fn write_ends(reply: &mut Reply<'_>, stream: &Stream, scene: &Scene<'_>) {
    pair(reply, "groups", stream.group_count());
    let first = stream.range(StreamId::MIN, StreamId::MAX, scene).next();
    let last = stream
        .range_back(StreamId::MIN, StreamId::MAX, scene)
        .next();
    for (of, entry) in [("first-entry", first), ("last-entry", last)] {
        name(reply, of);
        match entry {
            Some(entry) => reply::entry(reply, &entry),
            None => reply.null(),
        }
    }
}

fn write_full(reply: &mut Reply<'_>, stream: &Stream, scene: &Scene<'_>, limit: usize) {
    let expired = stream.expired(scene);
    name(reply, "entries");
    let entries = stream.range(StreamId::MIN, StreamId::MAX, scene);
    write_entries(reply, entries.take(limit));
    name(reply, "groups");
    reply.array(stream.group_count());
    for (group_name, group) in stream.groups() {
        reply.map(7);
        name(reply, "name");
        reply.bulk(group_name);
        write_progress(reply, stream, group, scene);
        pair(reply, "pel-count", group.pending_count(&expired));
        name(reply, "pending");
        reply::array_of(reply, |reply| {
            let pending = group.pending(StreamId::MIN, StreamId::MAX, &expired);
            let mut len = 0;
            for (id, pending) in pending.take(limit) {
                reply.array(4);
                reply::id(reply, id);
                reply.bulk(&group.consumer(pending.consumer).name);
                reply.integer(pending.delivered_ms as i64);
                reply.integer(pending.deliveries.into());
                len += 1;
            }
            len
        });
        name(reply, "consumers");
        reply.array(group.consumer_count());
        for (index, consumer) in group.consumers() {
            write_consumer(reply, group, (index, consumer), &expired, limit);
        }
    }
}

fn write_consumer(
    reply: &mut Reply<'_>,
    group: &Group,
    (index, consumer): (ConsumerIndex, &Consumer),
    expired: &Expired,
    limit: usize,
) {
    reply.map(5);
    name(reply, "name");
    reply.bulk(&consumer.name);
    pair(reply, "seen-time", consumer.seen_ms);
    pair(
        reply,
        "active-time",
        consumer.active_ms.map_or(-1, |ms| ms as i64),
    );
    pair(reply, "pel-count", group.pending_count_of(index, expired));
    name(reply, "pending");
    reply::array_of(reply, |reply| {
        let own = group.pending_of(index, StreamId::MIN, StreamId::MAX, expired);
        let mut len = 0;
        for (id, pending) in own.take(limit) {
            reply.array(3);
            reply::id(reply, id);
            reply.integer(pending.delivered_ms as i64);
            reply.integer(pending.deliveries.into());
            len += 1;
        }
        len
    });
}

/// `XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]`
pub fn xcfgset(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    if ctx.view.read_stream(&key, |_, _| ())?.is_none() {
        return Err(Refusal::Message("ERR no such key"));
    }
    let (mut seconds, mut size, mut index) = (None, None, 2);
    while index < args.len() {
        let (slot, range, twice, outside) = if args.is(index, "idmp-duration") {
            let outside = "ERR IDMP-DURATION must be between 1 and 86400 seconds";
            let twice = "ERR IDMP-DURATION specified multiple times";
            (&mut seconds, IDEMPOTENCE_SECONDS, twice, outside)
        } else if args.is(index, "idmp-maxsize") {
            let outside = "ERR IDMP-MAXSIZE must be between 1 and 10000 entries";
            let twice = "ERR IDMP-MAXSIZE specified multiple times";
            (&mut size, IDEMPOTENCE_SIZE, twice, outside)
        } else {
            return Err(Refusal::Syntax);
        };
        let text = args.get(index + 1).ok_or(Refusal::Syntax)?;
        if slot.is_some() {
            return Err(Refusal::Message(twice));
        }
        let number = integer(text)?;
        if !(range.0..=range.1).contains(&number) {
            return Err(Refusal::Message(outside));
        }
        *slot = Some(number);
        index += 2;
    }
    if seconds.is_none() && size.is_none() {
        return Err(Refusal::Message(
            "ERR At least one parameter must be specified",
        ));
    }
    ctx.view.edit_stream(&key, false, |stream, _| {
        let facts = stream.idempotence();
        let new = (seconds.unwrap_or(facts.seconds), size.unwrap_or(facts.size));
        (new != (facts.seconds, facts.size)).then(|| stream.set_idempotence(new.0, new.1))
    })?;
    ctx.reply.ok();
    Ok(())
}

/// `XIDMPRECORD key producer message id`: records that an entry is a message of a producer.
pub fn xidmprecord(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (key, producer, message) = (ctx.key(&args[1]), &args[2], &args[3]);
    let id = plain_id(&args[4])?;
    if producer.is_empty() {
        return Err(Refusal::Message("ERR producer ID must be non-empty"));
    }
    if message.is_empty() {
        return Err(Refusal::Message("ERR idempotent ID must be non-empty"));
    }
    let mut refusal = Some("ERR no such key");
    ctx.view.edit_stream(&key, false, |stream, scene| {
        if stream.get(id, scene).is_none() {
            refusal = Some("ERR No such message in stream");
            return None;
        }
        refusal = None;
        match stream.find_message(producer, message, scene) {
            Some(other) if other != id => {
                refusal =
                    Some("ERR IID already exists for this producer with a different stream ID");
                None
            }
            Some(_) => None,
            None => {
                stream.add_message(producer, message, id);
                Some(())
            }
        }
    })?;
    if let Some(text) = refusal {
        return Err(Refusal::Message(text));
    }
    ctx.reply.ok();
    Ok(())
}
