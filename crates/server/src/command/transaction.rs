//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! A transaction runs under the locks of all its commands and of the watched keys, so that no other
//! client's write comes between the check of the watched keys and its last command. Commands that
//! take the keyspace's locks themselves (INFO, CONFIG SET, CLIENT UNBLOCK) release them in between;
//! see `Ctx::unlocked`.

use super::inner::{Caller, at_one_instant};
use super::table::commands;
use super::{tracking, work, written_db};
use crate::context::{Ctx, Held, Run, Spec, Work};
use crate::saving::work::refuses_writes;
use engine::refusal::{BEYOND_LIMIT, refuse_full};
use session::clients;
use session::pubsub::QUEUED_MAX;
use session::queue::Transaction;
use session::session::Session;
use session::spec::flag::{
    self, FAST, KEEPS, LOADING, MAY_WRITE, NO_QUEUE, NOSCRIPT, SKIP_MONITOR, SKIP_SLOWLOG, STALE,
    UNBOUNDED,
};
use session::spec::{Access, Form, Keys, SpecIndex};
use session::watches::AT_ONCE_MAX;
use settings::{Config, Id};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::Full;
use wire::number::parse_i64;
use wire::{Args, CutOff, Reply};

/// Work of adding or removing a subscription, which takes about two microseconds.
const NAME_UNITS: u64 = 20;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "transactions" [transaction]:
    "multi" 1, NOSCRIPT | LOADING | STALE | FAST | NO_QUEUE, Keys::None, "1.2.0", Run::slab(multi),
        "", "Starts a transaction.";
    "exec" 1, NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG | NO_QUEUE | MAY_WRITE | SKIP_MONITOR => Form::Inner,
        Keys::Queued, "1.2.0", Run::slab(exec),
        "", "Executes all commands of the transaction.";
    "discard" 1, NOSCRIPT | LOADING | STALE | FAST | NO_QUEUE | UNBOUNDED, Keys::Watched, "2.0.0",
        Run::slab(discard),
        "", "Discards the transaction.";
    "watch" -2, NOSCRIPT | LOADING | STALE | FAST | NO_QUEUE | KEEPS,
        Keys::Range(1, -1, 1) => Access::INSPECT, "2.2.0", Run::slab(watch).in_steps(),
        "key...", "Makes the next transaction fail if one of the given keys changes before it.";
    "unwatch" 1, NOSCRIPT | LOADING | STALE | FAST | UNBOUNDED, Keys::Watched, "2.2.0", Run::slab(unwatch),
        "", "Stops watching all keys.";
};

/// Queues a command after MULTI. Returns false if it was refused.
pub fn queue(
    config: &Config,
    session: &mut Session,
    (index, spec): (SpecIndex, &Spec),
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> bool {
    let limit = config.number(Id::QueryBufferLimit) as usize;
    let is_of_feed = session.is_of_feed();
    let Some(transaction) = &mut session.transaction else {
        return false;
    };
    if spec.has(flag::NO_MULTI) {
        transaction.is_broken = true;
        reply.error("ERR Command not allowed inside a transaction");
        return false;
    }
    if has_many_names(spec, args) {
        transaction.is_broken = true;
        let name = spec.name;
        reply.error(&format!(
            "ERR '{name}' accepts at most {QUEUED_MAX} names in a transaction"
        ));
        return false;
    }
    if transaction.heap_bytes() > limit && !is_of_feed {
        // The transaction will not run, so its queue is freed at once.
        **transaction = Transaction::default();
        transaction.is_broken = true;
        reply.error("ERR the transaction exceeds client-query-buffer-limit");
        return false;
    }
    // After a refused command the transaction will not run, therefore further commands are not
    // kept.
    if !transaction.is_broken && !transaction.push(index, args) {
        **transaction = Transaction::default();
        transaction.is_broken = true;
        reply.error("ERR the transaction exceeds 4 GiB or the memory that can be allocated");
        return false;
    }
    session.info.queued.store(transaction.len() as i64, Relaxed);
    reply.simple("QUEUED");
    true
}

/// Whether a command confirms more names than one step of EXEC may contain.
fn has_many_names(spec: &Spec, args: Args<'_>) -> bool {
    let confirms = matches!(spec.run.work, Work::Confirmed | Work::Unsubscribes(_));
    confirms && args.len() > QUEUED_MAX + 1
}

fn multi(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    if ctx.session.transaction.is_some() {
        return ctx.reply.error("ERR MULTI calls can not be nested");
    }
    ctx.session.transaction = Some(Box::default());
    ctx.session.info.queued.store(0, Relaxed);
    ctx.session.set_flag(clients::flag::MULTI, true);
    ctx.reply.ok();
}

fn discard(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    if ctx.session.transaction.is_none() {
        return ctx.reply.error("ERR DISCARD without MULTI");
    }
    ctx.session.end_transaction();
    forget_watched(ctx);
    ctx.reply.ok();
}

fn watch(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if ctx.session.transaction.is_some() {
        return ctx.reply.error("ERR WATCH inside MULTI is not allowed");
    }
    if ctx.session.watched.is_empty() && ctx.server.cluster.is_routed() {
        ctx.session.watched_losses = ctx.server.cluster.routes().losses;
    }
    let db = ctx.session.db;
    for bytes in args.from(1).iter() {
        if !ctx.session.watch(db, bytes) {
            continue;
        }
        let key = ctx.key(bytes);
        // It removes an expired key, so that the removal does not count as a change later.
        let due = ctx.view.watch(&key, &ctx.session.is_dirty);
        let earliest = ctx.session.watched_due.into_iter().chain(due).min();
        ctx.session.watched_due = earliest;
    }
    let count = ctx.session.watched.len() as u32;
    ctx.session.info.watched.store(count, Relaxed);
    ctx.reply.ok();
}

fn unwatch(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    forget_watched(ctx);
    ctx.reply.ok();
}

/// Stops watching all keys. The caller has locked the shards of the watched keys.
pub fn forget_watched(ctx: &mut Ctx<'_, '_>) {
    let watched = ctx.session.take_watched();
    if watched.len() > AT_ONCE_MAX {
        let watches = &ctx.server.clients.watches;
        watches.forget(watched, &ctx.session.is_dirty);
        return renew_flag(ctx);
    }
    for (db, bytes) in watched {
        let key = ctx.key_in(db, &bytes);
        ctx.view.unwatch(&key, &ctx.session.is_dirty);
    }
    renew_flag(ctx);
}

/// Gives the session a new flag for watched keys, because a writer may still hold the old one.
fn renew_flag(ctx: &mut Ctx<'_, '_>) {
    ctx.session.info.watched.store(0, Relaxed);
    ctx.session.set_flag(clients::flag::DIRTY, false);
    ctx.session.is_dirty = Arc::new(AtomicBool::new(false));
}

fn exec(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    run_queued(ctx);
    if ctx.server.clients.monitors.is_on() && !ctx.session.is_held_late {
        tracking::send_line(ctx.server, ctx.session, false, args);
    }
}

/// Runs the commands of the transaction, or replies why not.
fn run_queued(ctx: &mut Ctx<'_, '_>) {
    let Some(transaction) = ctx.session.transaction.take() else {
        return ctx.reply.error("ERR EXEC without MULTI");
    };
    let is_of_feed = ctx.session.is_of_feed();
    // This comes first, because it may release the locks.
    let Ok(full) = full_for(ctx, &transaction) else {
        ctx.session.transaction = Some(transaction);
        return;
    };
    // The commands may have been queued before the last snapshot failed.
    let writes = |(index, args): (SpecIndex, Args<'_>)| {
        ctx.table.choose(index, args).flags() & flag::WRITE != 0
    };
    let refusal = match full {
        _ if is_of_feed => None,
        Some((db, full)) => Some(refuse_full(&ctx.server.data.keyspace, db, full)),
        None => {
            let refusal = refuses_writes(ctx.server).filter(|_| transaction.iter().any(writes));
            refusal.map(Cow::Borrowed)
        }
    };
    let is_dirty = has_changed(ctx);
    ctx.session.end_transaction();
    forget_watched(ctx);
    if transaction.is_broken {
        return ctx
            .reply
            .error("EXECABORT Transaction discarded because of previous errors.");
    }
    if is_dirty {
        return ctx.reply.null_array();
    }
    if let Some(refusal) = refusal {
        return ctx.reply.error(&format!(
            "EXECABORT Transaction discarded because of: {refusal}"
        ));
    }
    if !is_of_feed && work::is_beyond_limit(&ctx.server.config, work_of(ctx, &transaction)) {
        return ctx.reply.error(
            "EXECABORT Transaction discarded because of: its estimated work exceeds atomic-work-limit",
        );
    }
    if exceeds_output(ctx, &transaction) {
        return ctx.reply.buffer().cut(CutOff::Limit);
    }
    ctx.reply.array(transaction.len());
    let blocking_state = std::mem::take(&mut ctx.session.blocking_state);
    ctx.session.runs_transaction = true;
    let mut done = 0;
    at_one_instant(ctx, |ctx| {
        for (index, args) in transaction.iter() {
            done = run_next(ctx, index, args, done);
        }
    });
    ctx.session.runs_transaction = false;
    ctx.session.blocking_state = blocking_state;
}

/// Whether the commands only reply with values, which are longer than the output may be. Then they
/// are not copied.
fn exceeds_output(ctx: &mut Ctx<'_, '_>, transaction: &Transaction) -> bool {
    let (db, mut len) = (ctx.session.db, 0usize);
    for (index, args) in transaction.iter() {
        let spec = ctx.table[index as usize];
        match work::values_len(&ctx.server.data.keyspace, ctx.view.view, db, spec, args) {
            Some(more) => len = len.saturating_add(more),
            None => return false,
        }
    }
    len > ctx.reply.buffer().room()
}

/// Runs a queued command if the limit of a transaction leaves enough work for it after `done`.
/// Returns the work that is done then.
fn run_next(ctx: &mut Ctx<'_, '_>, index: SpecIndex, args: Args<'_>, done: u64) -> u64 {
    let (spec, chosen) = (ctx.table[index as usize], ctx.table.choose(index, args));
    let limit = match ctx.session.is_of_feed() {
        true => None,
        false => work::limit(&ctx.server.config),
    };
    // Commands before this one may have made its values larger than they were when the sum was
    // estimated.
    let units = done.saturating_add(units_of(ctx, ctx.session.db, spec, args));
    if limit.is_some_and(|limit| units > limit) {
        ctx.refuse_inner(Some(chosen), BEYOND_LIMIT, Caller::Transaction);
        return done;
    }
    let is_read = spec.has(flag::READONLY);
    if is_read && ctx.reply.is_full() {
        // After the reply was cut off, only writes have an effect.
        return units;
    }
    // The estimate of a read does not look at each value.
    let position = ctx.reply.position();
    if let Some(limit) = limit.filter(|_| is_read) {
        ctx.reply.begin_step(work::reply_bytes(limit - done));
    }
    ctx.run_inner(chosen, args, Caller::Transaction);
    if ctx.reply.end_step() {
        ctx.reply.truncate(position);
        ctx.refuse_inner(Some(chosen), BEYOND_LIMIT, Caller::Transaction);
    }
    let reply_len = ctx.reply.position().saturating_sub(position);
    units.max(done.saturating_add(work::reply_units(reply_len)))
}

/// Makes room for the commands. If a database to which one of them writes is full, returns that
/// database and the reason.
///
/// # Errors
/// The transaction is held; see [`Ctx::make_room`].
fn full_for(ctx: &mut Ctx<'_, '_>, transaction: &Transaction) -> Result<Option<(u8, Full)>, Held> {
    if ctx.session.is_of_feed() {
        return Ok(None);
    }
    let mut db = ctx.session.db;
    let (mut grown, mut may_grow) = (BTreeSet::new(), false);
    for (index, args) in transaction.iter() {
        let flags = ctx.table.choose(index, args).flags();
        may_grow |= flags & MAY_WRITE != 0;
        if flags & flag::DENYOOM != 0 {
            grown.insert(written_db(ctx.table[index as usize], args, db));
        }
        db = selected(ctx.table[index as usize], args).unwrap_or(db);
    }
    // A script makes no room itself, because that may release the locks.
    if grown.is_empty() && may_grow {
        ctx.make_room(db)?;
    }
    for db in grown {
        if let Some(full) = ctx.make_room(db)? {
            return Ok(Some((db, full)));
        }
    }
    Ok(None)
}

/// Returns the database that a command selects.
fn selected(spec: &Spec, args: Args<'_>) -> Option<u8> {
    let number = (spec.name == "select").then(|| parse_i64(&args[1]))??;
    Some(number as u8)
}

/// Returns the estimated work of all commands.
fn work_of(ctx: &mut Ctx<'_, '_>, transaction: &Transaction) -> u64 {
    let mut db = ctx.session.db;
    let mut sum = 0u64;
    for (index, args) in transaction.iter() {
        let spec = ctx.table[index as usize];
        sum = sum.saturating_add(units_of(ctx, db, spec, args));
        db = selected(spec, args).unwrap_or(db);
    }
    sum
}

/// Returns the estimated work of a queued command: one at least, and one for each of its keys.
fn units_of(ctx: &mut Ctx<'_, '_>, db: u8, spec: &Spec, args: Args<'_>) -> u64 {
    let names = match spec.run.work {
        Work::Confirmed => args.len() - 1,
        Work::Unsubscribes(space) if args.len() == 1 => ctx.session.subscription_len(space),
        Work::Unsubscribes(_) => args.len() - 1,
        _ => 0,
    };
    if names > 0 {
        return names as u64 * NAME_UNITS;
    }
    let units = work::units(ctx.server, ctx.view.view, (db, 1), spec, args);
    units.max(spec.keys.count(args) as u64).max(1)
}

/// Whether a watched key has changed or expired since WATCH.
fn has_changed(ctx: &mut Ctx<'_, '_>) -> bool {
    let now = ctx.view.now();
    // A deadline that was set later is a change. An expired key is one when it is looked up.
    if ctx.session.watched_due.is_some_and(|due| now > due) {
        for (db, bytes) in &ctx.session.watched {
            let key = ctx.server.data.keyspace.key(*db, bytes);
            let _ = ctx.view.kind(&key);
        }
    }
    ctx.session.is_dirty.load(Relaxed) || has_lost_slots(ctx)
}

/// Whether keys are watched and this node of a cluster has lost slots since. Another node may have
/// changed the keys, even if their slots are back.
fn has_lost_slots(ctx: &Ctx<'_, '_>) -> bool {
    let session = &ctx.session;
    !session.watched.is_empty()
        && ctx.server.cluster.is_routed()
        && ctx.server.cluster.routes().losses != session.watched_losses
}
