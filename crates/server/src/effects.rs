//! Effects: the changes made by a command, as commands that have the same effect wherever and
//! whenever they run. They are added to the feed ([`session::feed`]) for the append-only file and
//! for replicas.
//!
//! - An effect is added under the locks of the command, directly after it has run. The effects on
//!   one key are therefore in the order of its changes.
//! - A command without a change adds nothing. Most others are added unchanged. Expiration times
//!   become instants, randomly chosen elements are named, and a blocking command becomes what it
//!   did (the row of a command declares its form, `rewrite.rs` produces it).
//! - The effects of a transaction or a script are collected in the session and added as one step.
//! - Keys and elements that expire, and keys that are evicted, are added as deletions, because a
//!   reader executes the feed at an instant at which nothing has expired (`dispatch/apply.rs`). The
//!   store records them (`store::Removed`). The next command that locks a shard, or the shard's
//!   worker, takes the shard's records.
//!
//! While no reader exists, a command pays one relaxed load.

mod replies;
mod rewrite;

use crate::context::Ctx;
use crate::state::Server;
use rewrite::Rewrite;
use session::feed::{Batch, Feed};
use session::spec::{Form, SpecIndex, flag};
use store::{Class, Key, Keyspace, Labels, Lost, Removed, Tick, View};
use wire::Args;
use wire::number::Text;

/// Reply to a command whose effect is added.
#[derive(Clone, Copy)]
pub enum ReplyAt<'r> {
    /// The reply is in the context's output, starting at this position.
    Position(usize),
    /// The reply consists of these bytes.
    Bytes(&'r [u8]),
}

/// A command that has run.
#[derive(Clone, Copy)]
pub struct Ran<'r> {
    /// Index of the command in the table.
    pub index: SpecIndex,
    /// The command's arguments.
    pub args: Args<'r>,
    /// The command's reply.
    pub reply: ReplyAt<'r>,
    /// Number of changes of the view before it ran.
    pub changes_before: u64,
}

/// Runs the command with this index on locked shards and adds its effect to the feed.
#[inline(never)]
pub fn run(ctx: &mut Ctx<'_, '_>, index: SpecIndex, args: Args<'_>) {
    let (position, changes_before) = (ctx.reply.position(), ctx.view.changes());
    (ctx.table[index as usize].run.slab)(ctx, args);
    add(
        ctx,
        Ran {
            index,
            args,
            reply: ReplyAt::Position(position),
            changes_before,
        },
    );
}

/// Adds the effect of a command to the feed, together with the effects of the commands that it ran,
/// if any.
pub fn add(ctx: &mut Ctx<'_, '_>, ran: Ran<'_>) {
    let server = ctx.server;
    let mut batch = match ctx.session.effects.take() {
        Some(batch) => *batch,
        None => {
            let has_changed = ctx.view.changes() != ran.changes_before;
            let chosen = ctx.table.choose(ran.index, ran.args);
            let (name, form) = (chosen.spec.name, chosen.form());
            if !has_changed && !ctx.view.has_removed() && form != Some(Form::Library) {
                return;
            }
            debug_assert!(
                form.is_some() || !has_changed,
                "{name} has no form, but has changed something"
            );
            if let Some(form) = form
                && has_changed
                && form.is_same(ran.args)
                && !ctx.view.has_removed()
            {
                let db = ctx.session.db;
                return server.feed.append_received(db, name, ran.args);
            }
            Batch::default()
        }
    };
    collect(ctx, ran, &mut batch);
    server.feed.append_batch(&mut batch);
}

/// Maximum number of bytes of effects that are collected before they are added to the feed. A
/// transaction or a script with more is several steps for readers.
pub const STEP_BYTES_MAX: usize = 32 << 20;

/// Collects the effect of a command that a transaction or a script has run.
pub fn add_inner(ctx: &mut Ctx<'_, '_>, ran: Ran<'_>) {
    let mut batch = ctx.session.effects.take().unwrap_or_default();
    collect(ctx, ran, &mut batch);
    if batch.len() >= STEP_BYTES_MAX {
        ctx.server.feed.append_part(&mut batch);
    }
    if !batch.is_empty() {
        ctx.session.effects = Some(batch);
    }
}

/// Adds the removals of the locked shards and the effect of a command to a batch.
fn collect(ctx: &mut Ctx<'_, '_>, ran: Ran<'_>, batch: &mut Batch) {
    let mut removed = Vec::new();
    ctx.view.take_removed(&mut removed);
    // A key that was evicted while the command ran, and that is absent, was evicted after the
    // command wrote it. A class gives a deadline to what the command writes. Everything else was
    // removed before.
    let (late, early): (Vec<Removed>, Vec<Removed>) = removed.into_iter().partition(|one| {
        let key = ctx.server.data.keyspace.key(one.db, &one.key);
        match one.lost {
            Lost::Evicted => ctx.view.view.kind(&key).is_none(),
            Lost::NewDeadline(_) => true,
            _ => false,
        }
    });
    for one in &early {
        add_removed(&ctx.server.data.keyspace, batch, ctx.view.view, one);
    }
    let has_changed = ctx.view.changes() != ran.changes_before;
    let chosen = ctx.table.choose(ran.index, ran.args);
    let is_write = chosen.flags() & flag::WRITE != 0;
    if let Some(form) = chosen.form()
        && is_write
        && (has_changed || form == Form::Library)
    {
        let is_error = match ran.reply {
            ReplyAt::Position(at) => ctx.reply.written(at).first() == Some(&b'-'),
            ReplyAt::Bytes(bytes) => bytes.first() == Some(&b'-'),
        };
        let form = match form {
            Form::Library if is_error => None,
            // A command that was refused in the middle.
            _ if is_error => Some(Form::State),
            form => Some(form),
        };
        if let Some(form) = form {
            Rewrite::new(ctx, ran, batch, &early).write(form);
        }
    }
    for one in &late {
        add_removed(&ctx.server.data.keyspace, batch, ctx.view.view, one);
    }
}

/// Adds the deletion of expired and evicted keys and elements, or the deadline that a class has
/// set.
fn add_removed(keyspace: &Keyspace, batch: &mut Batch, view: &mut View<'_>, one: &Removed) {
    let key = &one.key[..];
    let (command, names): (&[u8], _) = match &one.lost {
        Lost::Expired | Lost::Evicted | Lost::WhileLent => {
            return batch.add(one.db, &[b"DEL", key]);
        }
        Lost::NewDeadline(_) => {
            // The command itself may have set another deadline, or removed it.
            let named = keyspace.key(one.db, key);
            if let Some(Some(deadline)) = view.deadline(&named) {
                let text = Text::unsigned(deadline.0);
                batch.add(one.db, &[b"PEXPIREAT", key, text.as_bytes()]);
            }
            return;
        }
        Lost::Elements(Class::Hash, names) => (b"HDEL", names),
        Lost::Elements(Class::Set, names) => (b"SREM", names),
        Lost::Elements(Class::SortedSet, names) => (b"ZREM", names),
        Lost::Elements(_, names) => {
            trim_old(keyspace, batch, view, one.db, key);
            for names in names.chunks(NAMES_PER_COMMAND) {
                // What has expired is not pending either. Servers without this command run the next
                // one.
                let count = Text::unsigned(names.len() as u64);
                let mut args: Vec<&[u8]> = vec![b"XDELEX", key, b"DELREF", b"IDS"];
                args.push(count.as_bytes());
                args.extend(names.iter().map(Vec::as_slice));
                batch.add(one.db, &args);
            }
            (b"XDEL", names)
        }
    };
    for names in names.chunks(NAMES_PER_COMMAND) {
        let mut args: Vec<&[u8]> = vec![command, key];
        args.extend(names.iter().map(Vec::as_slice));
        batch.add(one.db, &args);
    }
}

/// Maximum number of elements in one deletion.
pub(super) const NAMES_PER_COMMAND: usize = 1024;

/// Adds a command that removes the entries of a stream before its first live one.
fn trim_old(keyspace: &Keyspace, batch: &mut Batch, view: &mut View<'_>, db: u8, name: &[u8]) {
    let key = keyspace.key(db, name);
    if let Ok(Some(facts)) = view.read_stream(&key, |stream, scene| {
        (
            stream.facts().max_age_ms,
            stream.is_empty(scene),
            stream.first_id(scene),
        )
    }) && facts.0 > 0
    {
        let first = facts.2.to_string();
        let args: &[&[u8]] = match facts.1 {
            true => &[b"XTRIM", name, b"MAXLEN", b"=", b"0"],
            false => &[b"XTRIM", name, b"MINID", b"=", first.as_bytes()],
        };
        batch.add(db, &[args, &[b"DELREF"]].concat());
        batch.add(db, args);
    }
}

/// Adds the removals that expiry and eviction have recorded in a shard, unless another thread holds
/// it; then its next command adds them.
pub fn add_removals(keyspace: &Keyspace, feed: &Feed, shard: usize, now: Tick) {
    if !feed.is_on() || !keyspace.has_removed(shard) {
        return;
    }
    if let Some(mut view) = keyspace.try_lock_one(shard, now) {
        add_all_removals(keyspace, feed, &mut view);
    }
}

/// Adds the removals that expiry and eviction have recorded in the locked shards.
pub fn add_all_removals(keyspace: &Keyspace, feed: &Feed, view: &mut View<'_>) {
    let mut removed = Vec::new();
    view.take_removed(&mut removed);
    let mut batch = Batch::default();
    for one in &removed {
        add_removed(keyspace, &mut batch, view, one);
    }
    feed.append_separately(&mut batch);
}

/// Adds the current values of items that a memcached request may have changed. A request without
/// keys has emptied the database.
pub fn add_items<'k>(
    keyspace: &Keyspace,
    feed: &Feed,
    view: &mut View<'_>,
    db: u8,
    changes_before: u64,
    keys: impl Iterator<Item = Key<'k>>,
) {
    let mut batch = Batch::default();
    let mut removed = Vec::new();
    view.take_removed(&mut removed);
    for one in &removed {
        add_removed(keyspace, &mut batch, view, one);
    }
    if view.changes() != changes_before {
        let mut names_key = false;
        for key in keys {
            add_item(&mut batch, view, db, &key);
            names_key = true;
        }
        if !names_key {
            batch.add(db, &[b"FLUSHDB"]);
        }
    }
    feed.append_separately(&mut batch);
}

/// Adds the tags and the freshness of a key whose value was added, which a reader sets without
/// them, and the key's protection from eviction.
pub fn add_marks(batch: &mut Batch, view: &mut View<'_>, db: u8, key: &Key<'_>) {
    let Labels { tags, soft } = view.labels(key).unwrap_or_default();
    if !tags.is_empty() {
        let mut args: Vec<&[u8]> = vec![b"TAG", key.bytes];
        args.extend(tags.iter().map(Vec::as_slice));
        batch.add(db, &args);
    }
    if soft.is_negative {
        batch.add(db, &[b"STALE", key.bytes, b"NEGATIVE"]);
    } else if soft.window_ms > 0 {
        let ms = Text::unsigned(soft.window_ms);
        batch.add(db, &[b"STALE", key.bytes, ms.as_bytes()]);
    }
    if view.is_protected(key) == Some(true) {
        batch.add(db, &[b"BLESS", b"SET", key.bytes, b"NO-EVICT"]);
    }
}

/// Name of the message that carries the head of an item. Other servers execute it without effect.
pub const ITEM_MARK: &[u8] = b"mayfly-item";

fn add_item(batch: &mut Batch, view: &mut View<'_>, db: u8, key: &Key<'_>) {
    let deadline = view.deadline(key).flatten();
    let Ok(Some((head, value))) = view.peek_item(key) else {
        return batch.add(db, &[b"DEL", key.bytes]);
    };
    let (head, len) = head.encode();
    let text = deadline.map(|deadline| Text::unsigned(deadline.0));
    match &text {
        Some(text) => batch.add(db, &[b"SET", key.bytes, value, b"PXAT", text.as_bytes()]),
        None => batch.add(db, &[b"SET", key.bytes, value]),
    }
    add_marks(batch, view, db, key);
    batch.add(db, &[b"ECHO", &item_message(&head[..len], key.bytes)]);
}

/// Returns the message that carries the encoded head of an item.
pub fn item_message(head: &[u8], name: &[u8]) -> Vec<u8> {
    [ITEM_MARK, &[head.len() as u8], head, name].concat()
}

/// Removes all keys of a database if `is_due` returns true under the locks. Returns false without
/// calling it if a long command or a move of slots must end first.
pub fn flush(server: &Server, db: u8, now: Tick, is_due: impl FnOnce() -> bool) -> bool {
    let mut view = server.data.keyspace.lock_all(now);
    // Under the locks no long command begins.
    if server.workers.long.is_running() || server.cluster.moves.is_active() {
        return false;
    }
    if !is_due() {
        return true;
    }
    view.flush(db);
    if server.feed.is_on() {
        server.feed.append(db, [&b"FLUSHDB"[..]].into_iter());
    }
    true
}

/// Begins or ends the feed of this server's own commands. A replica has none: the positions of its
/// feed are its primary's. Nothing else may run: all shards are locked.
pub fn set_feed(server: &Server, view: &mut View<'_>, on: bool) {
    let on = on && !server.replication.is_replica();
    if !on {
        add_all_removals(&server.data.keyspace, &server.feed, view);
    }
    view.set_recording(on);
    server.feed.set_on(on);
}
