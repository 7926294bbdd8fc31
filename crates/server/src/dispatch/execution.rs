//! How a command runs on the engine that holds the keys.

use super::Step;
use super::held::is_late;
use super::long::{self, Way};
use super::shards::LockedShards;
use crate::command::{self, tracking};
use crate::context::{Ctx, KeyMemo, Segment, Spec};
use crate::effects;
use crate::state::Server;
use engine::refusal::{BEYOND_LIMIT, refuse_full};
use engine::segment::Handle;
use engine::slab::Slab;
use session::locks::{Locks, Room, lock};
use session::session::Session;
use session::spec::{SpecIndex, flag};
use store::{Keyspace, View};
use wire::{Args, Reply};

/// A worker's access to the engine that holds the keys.
pub(crate) enum Engine<'s> {
    /// The keyspace.
    Slab(LockedShards<'s>),
    /// The segment engine. The keyspace is empty in this case.
    Segment(Handle<'s>),
}

/// Runs a command on locked shards, unless it is a long one or has to wait.
#[inline(always)]
pub(super) fn run_on_slab<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    locks: &Locks,
    session: &mut Session,
    (index, spec, args, memo): (SpecIndex, &'static Spec, &Args<'_>, Option<&KeyMemo>),
    mut reply: Reply<'_>,
) -> Step {
    match long::way(server, view, session, spec, args) {
        Way::Now => {}
        way => return step_of(way, &mut reply),
    }
    if long::exceeds_output(
        &server.data.keyspace,
        view,
        session.db,
        spec,
        args,
        reply.buffer(),
    ) {
        return Step::Ran;
    }
    let reply_bytes_max = long::reply_bytes_max(server, spec, args);
    if let Some(bytes_max) = reply_bytes_max {
        reply.begin_step(bytes_max);
    }
    let (space, position) = (&server.data.keyspace, reply.position());
    let inner = reply.nested(reply.protocol());
    let mut ctx = context(server, space, view, locks, session, memo, inner);
    let step = call(&mut ctx, index, spec, args);
    if reply_bytes_max.is_some() && reply.end_step() {
        // The command has changed nothing but counters. It runs again.
        reply.truncate(position);
        let way = long::way_of_large_reply(server, view, session, spec, args);
        return step_of(way, &mut reply);
    }
    if view.has_invalidated() {
        tracking::send(
            &server.clients,
            &server.workers.inboxes,
            view,
            session.info.id,
        );
    }
    step
}

/// Returns the outcome for a command that does not run now, refusing it if necessary.
#[cold]
fn step_of(way: Way, reply: &mut Reply<'_>) -> Step {
    match way {
        Way::Now => Step::Ran,
        Way::Later => Step::Waits,
        Way::Aside => Step::IsLong,
        Way::Never => {
            reply.error(BEYOND_LIMIT);
            Step::Refused
        }
    }
}

/// Runs or refuses a command on the segment engine.
pub(super) fn run_on_segment<'a, 's>(
    handle: &'a mut Handle<'s>,
    server: &'s Server,
    session: &'a mut Session,
    (spec, args, memo): (&Spec, &Args<'_>, Option<&'a KeyMemo>),
    mut reply: Reply<'a>,
) -> Step {
    let table = command::table();
    match spec.run.segment {
        Segment::Own(run) => {
            let mut ctx = Ctx {
                view: handle,
                session,
                server,
                reply,
                table,
                memo,
            };
            run(&mut ctx, *args);
            match ctx.session.stopped_at.take() {
                Some(next) => Step::Stopped(next),
                None => Step::Ran,
            }
        }
        Segment::Keyless => {
            let locks = Locks::Some(Vec::new());
            let mut view = lock(&server.data.keyspace, &locks, handle.now);
            let space = &server.data.keyspace;
            let mut ctx = context(server, space, &mut view, &locks, session, memo, reply);
            (spec.run.slab)(&mut ctx, *args);
            Step::Ran
        }
        Segment::Refused => {
            let name = spec.name.to_ascii_uppercase();
            reply.error_fmt(format_args!(
                "ERR '{name}' is not served by the segment engine; start with --engine slab"
            ));
            Step::Refused
        }
    }
}

/// Creates the context of a command on locked shards.
#[inline]
pub(super) fn context<'a, 'v>(
    server: &'v Server,
    space: &'v Keyspace,
    view: &'a mut View<'v>,
    locks: &'a Locks,
    session: &'a mut Session,
    memo: Option<&'a KeyMemo>,
    reply: Reply<'a>,
) -> Ctx<'a, 'v> {
    Ctx {
        view: Slab {
            view,
            space,
            locks,
            is_of_feed: session.is_of_feed(),
        },
        session,
        server,
        reply,
        table: command::table(),
        memo,
    }
}

/// Runs a command whose shards are locked, if there is room for its writes.
#[inline]
pub(super) fn call(ctx: &mut Ctx<'_, '_>, index: SpecIndex, spec: &Spec, args: &Args<'_>) -> Step {
    let flags = ctx.table.flags_of(spec, *args);
    if flags & flag::DENYOOM != 0 {
        let server = ctx.server;
        let db = command::written_db(spec, *args, ctx.session.db);
        match ctx.view.make_room(db) {
            Room::Free => {}
            Room::Made => {
                let moment = server.clock.moment();
                if is_late(server, ctx.session, (spec, flags, *args), moment) {
                    return Step::Held;
                }
            }
            Room::None(full) => {
                let error = refuse_full(&server.data.keyspace, db, full);
                ctx.reply.error(&error);
                return Step::Refused;
            }
        }
    }
    let position = ctx.reply.position();
    match ctx.server.feed.is_on() {
        false => (spec.run.slab)(ctx, *args),
        true => effects::run(ctx, index, *args),
    }
    if std::mem::take(&mut ctx.session.is_held_late) {
        ctx.reply.truncate(position);
        return Step::Held;
    }
    if ctx.session.tracking.is_some() {
        tracking::remember(ctx, spec, *args);
        tracking::end_command(ctx.session, spec);
    }
    Step::Ran
}
