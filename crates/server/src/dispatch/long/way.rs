//! The way in which a command is run: now, later, or on the thread for long commands.

use super::leave;
use crate::command::{self, work};
use crate::context::{Spec, Work};
use crate::saving::work::lend;
use crate::state::{Server, Workers};
use crate::{effects, memcached};
use session::session::Session;
use session::spec::{Keys, flag};
use settings::{Config, Id};
use store::{Keyspace, View};
use wire::number::parse_i64;
use wire::{Args, CutOff, Output, Span};

/// Maximum number of keys of a long command. A command on more keys runs immediately, within
/// `atomic-work-limit`, because moving the values would take as long.
const KEYS_MAX: usize = 1024;

/// Minimum length of a value in bytes for which its length matters.
const VALUE_BYTES_MIN: usize = 1 << 20;

/// Minimum number of reply bytes that makes a command a long one.
const REPLY_BYTES_MIN: usize = 256 << 10;

/// Way in which a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dispatch) enum Way {
    /// Serve it now.
    Now,
    /// Later, because it needs a key of a long command, or because it is long itself and another
    /// one is running.
    Later,
    /// On the thread for long commands.
    Aside,
    /// Not at all, because it is one step that exceeds `atomic-work-limit`.
    Never,
}

/// Decides how to run a command. The shards of its keys are locked.
#[inline(always)]
pub(in crate::dispatch) fn way<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    session: &mut Session,
    spec: &'static Spec,
    args: &Args<'_>,
) -> Way {
    if server.feed.is_on()
        && view.has_timed_collections()
        && must_purge_first(server, view, session, spec, *args)
    {
        return Way::Later;
    }
    let is_short = match spec.run.work {
        Work::Short | Work::InSteps | Work::Confirmed | Work::Unsubscribes(_) | Work::Resets => {
            true
        }
        Work::ByArguments => {
            // -1, which is no threshold, becomes the greatest number.
            work::arguments(*args) <= server.config.number(Id::LongCommandThreshold) as u64
        }
        Work::Strings | Work::RepliedStrings => {
            !view.has_huge_strings() && !is_every_command_long(&server.config)
        }
        Work::Value => {
            let is_large = args
                .get(2)
                .is_some_and(|value| value.len() >= VALUE_BYTES_MIN);
            !is_large && !is_every_command_long(&server.config)
        }
        _ => false,
    };
    if is_short && args.len() <= KEYS_MAX && !server.workers.long.is_active() {
        return Way::Now;
    }
    decide(server, view, session, spec, *args)
}

/// Returns the maximum number of bytes that a command which only reads may reply with in one step;
/// `None` if its reply is bounded otherwise. Estimates do not look at each value, so that a few
/// large ones are noticed only when they are read.
#[inline]
pub(in crate::dispatch) fn reply_bytes_max(
    server: &Server,
    spec: &Spec,
    args: &Args<'_>,
) -> Option<usize> {
    let may_be_long = match spec.run.work {
        // The estimate is that of the value itself.
        Work::Strings | Work::RepliedStrings => args.len() > 2,
        Work::ByArguments | Work::Estimated(_) => true,
        _ => false,
    };
    if !may_be_long || !spec.has(flag::READONLY) {
        return None;
    }
    if has_many_keys(spec, args) {
        return work::limit(&server.config)
            .map(|units| work::reply_bytes(units).max(REPLY_BYTES_MIN));
    }
    let units = u64::try_from(server.config.number(Id::LongCommandThreshold)).ok()?;
    // A reply is written to new memory: the first access to a page takes as long as the copy.
    Some((work::bytes(units) / 2).max(REPLY_BYTES_MIN))
}

/// Cuts the output off if a command with many keys would reply with values that are longer, so that
/// they are not copied. Returns whether it has.
#[inline]
pub(in crate::dispatch) fn exceeds_output(
    keyspace: &Keyspace,
    view: &mut View<'_>,
    db: u8,
    spec: &Spec,
    args: &Args<'_>,
    out: &mut Output,
) -> bool {
    if args.len() <= KEYS_MAX {
        return false;
    }
    let len = work::values_len(keyspace, view, db, spec, *args);
    let exceeds = len.is_some_and(|len| len > out.room());
    if exceeds {
        out.cut(CutOff::Limit);
    }
    exceeds
}

/// Whether a command has more keys than a long command may have.
fn has_many_keys(spec: &Spec, args: &Args<'_>) -> bool {
    args.len() > KEYS_MAX && spec.keys.count(*args) > KEYS_MAX
}

/// Decides how to run a command whose reply has turned out to be longer than [`reply_bytes_max`].
#[cold]
pub(in crate::dispatch) fn way_of_large_reply<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    session: &mut Session,
    spec: &'static Spec,
    args: &Args<'_>,
) -> Way {
    if has_many_keys(spec, args) {
        return Way::Never;
    }
    match server.workers.long.is_active() {
        true => way_beside_others(server, view, session, spec, *args, true),
        false => Way::Aside,
    }
}

/// Whether every command that can be long counts as long, regardless of its work.
fn is_every_command_long(config: &Config) -> bool {
    config.number(Id::LongCommandThreshold) == 0
}

fn decide<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    session: &mut Session,
    spec: &'static Spec,
    args: Args<'_>,
) -> Way {
    let threshold = u64::try_from(server.config.number(Id::LongCommandThreshold));
    let threshold = threshold.unwrap_or(u64::MAX);
    let units = work::units(server, view, (session.db, threshold), spec, args);
    let keys = match args.len() > KEYS_MAX {
        true => spec.keys.count(args),
        false => 0,
    };
    let has_many_keys = keys > KEYS_MAX;
    if has_many_keys && work::is_beyond_limit(&server.config, units.max(keys as u64)) {
        return Way::Never;
    }
    let is_long = units > threshold && !has_many_keys;
    if !server.workers.long.is_active() {
        return if is_long { Way::Aside } else { Way::Now };
    }
    way_beside_others(server, view, session, spec, args, is_long)
}

/// Decides how to run a command while a long command runs, clients wait or a snapshot is in
/// progress.
#[cold]
fn way_beside_others<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    session: &mut Session,
    spec: &'static Spec,
    args: Args<'_>,
    is_long: bool,
) -> Way {
    let is_blocked = server
        .workers
        .long
        .blocks(|is_leased| needs(spec, session, args, is_leased))
        || must_save_first(server, view, session, (spec, is_long), args);
    if is_blocked || (is_long && !server.workers.long.may_begin(session.ticket)) {
        session.ticket = Some(server.workers.long.wait(session.ticket));
        return Way::Later;
    }
    if is_long {
        return Way::Aside;
    }
    leave(&server.workers, session);
    Way::Now
}

/// Whether a command changes a large value that a snapshot has not saved. Begins to save it. A long
/// command counts as a change even if it only reads, because it moves its values.
fn must_save_first<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    session: &Session,
    (spec, is_long): (&'static Spec, bool),
    args: Args<'_>,
) -> bool {
    if !server.persistence.saving.is_walking()
        || (!is_long && spec.flags & (flag::WRITE | flag::MAY_WRITE) == 0)
    {
        return false;
    }
    if let (Keys::Queued, Some(transaction)) = (spec.keys, &session.transaction) {
        return transaction.iter().any(|(index, args)| {
            let spec = command::table()[index as usize];
            spec.keys != Keys::Queued && must_save_first(server, view, session, (spec, false), args)
        });
    }
    let mut must = false;
    spec.keys.each(args, |index| {
        let key = server.data.keyspace.key(session.db, &args[index]);
        if !must && view.is_unsaved_large(&key) {
            // If another value is borrowed at present, this one is saved at a later attempt.
            lend(
                &server.persistence.saving,
                &server.workers.long,
                view,
                &key,
                session.info.worker,
            );
            must = true;
        }
    });
    must
}

/// Removes some of the expired elements of the large collections that a command names, while
/// removals are being recorded. Returns whether more are left, in which case the command waits: it
/// would otherwise remove all of them in one step, because the feed must contain their deletions
/// before its effect.
#[cold]
fn must_purge_first<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    session: &mut Session,
    spec: &'static Spec,
    args: Args<'_>,
) -> bool {
    let mut has_more = false;
    let mut purge = |view: &mut View<'v>, db: u8, keys: Keys, args: Args<'_>| {
        keys.each(args, |index| {
            has_more |= view.purge_some(&server.data.keyspace.key(db, &args[index]));
        });
    };
    match (spec.keys, &session.transaction) {
        (Keys::Queued, Some(transaction)) => {
            let mut db = session.db;
            for (index, args) in transaction.iter() {
                let spec = command::table()[index as usize];
                purge(view, db, spec.keys, args);
                if spec.name == "select" {
                    db = parse_i64(&args[1]).map_or(db, |number| number as u8);
                }
            }
        }
        _ => purge(view, session.db, spec.keys, args),
    }
    wait_for_removals(server, view, session, has_more);
    has_more
}

/// Like [`must_purge_first`], for the keys of a memcached request.
#[cold]
pub(in crate::dispatch) fn must_purge_names(
    server: &Server,
    view: &mut View<'_>,
    session: &mut Session,
    names: &[Vec<u8>],
) -> bool {
    let mut has_more = false;
    for name in names {
        let key = server.data.keyspace.key(memcached::DATABASE, name);
        has_more |= view.purge_some(&key);
    }
    wait_for_removals(server, view, session, has_more);
    has_more
}

/// Adds the removals to the feed. If there are more, lets the client wait for its next attempt.
fn wait_for_removals(server: &Server, view: &mut View<'_>, session: &mut Session, has_more: bool) {
    if view.has_removed() {
        effects::add_all_removals(&server.data.keyspace, &server.feed, view);
    }
    if has_more {
        session.ticket = Some(server.workers.long.wait(session.ticket));
        server.workers.long.request_retries();
    }
}

/// Whether a command needs a key for which `is_leased` is true. A command that writes the whole
/// keyspace, or that may read any key, needs all keys.
pub(in crate::dispatch) fn needs(
    spec: &Spec,
    session: &Session,
    args: Args<'_>,
    is_leased: &dyn Fn(&[u8]) -> bool,
) -> bool {
    match spec.keys {
        Keys::None | Keys::WholeIf(_) | Keys::Watched => false,
        Keys::Whole => spec.has(flag::WRITE),
        Keys::Queued => session
            .transaction
            .iter()
            .flat_map(|queue| queue.iter())
            .any(|(index, args)| {
                let spec = command::table()[index as usize];
                spec.keys != Keys::Queued && needs(spec, session, args, is_leased)
            }),
        keys => {
            let mut is_needed = keys.reach_beyond(args);
            keys.each(args, |index| is_needed |= is_leased(&args[index]));
            is_needed
        }
    }
}

/// Whether a memcached request must wait, because a long command works on one of these keys, or
/// because the request needs all keys.
pub(in crate::dispatch) fn needs_names(
    workers: &Workers,
    session: &mut Session,
    (keys, needs_all): (&[Span], bool),
    input: &[u8],
) -> bool {
    if !workers.long.is_active() {
        return false;
    }
    let is_blocked = workers
        .long
        .blocks(|is_leased| needs_all || keys.iter().any(|key| is_leased(&input[key.range()])));
    if is_blocked {
        session.ticket = Some(workers.long.wait(session.ticket));
    } else {
        leave(workers, session);
    }
    is_blocked
}
