//! Dispatch of commands: looks up a command, makes the checks common to all commands, locks the
//! shards of its keys, runs it and counts it.

pub mod apply;
mod check;
mod execution;
mod held;
pub mod long;
mod memcached;
mod prefetch;
mod queueing;
mod route;
mod segment;
mod shards;
mod single;
pub mod steps;

pub use single::exec;

use crate::command::{self, tracking};
use crate::context::{Chosen, KeyMemo, Spec};
use crate::replication::primary;
use crate::routing::WorkerRoutes;
use crate::saving::work::refuses_writes;
use crate::state::Server;
use crate::timing::Timing;
use crate::{blocking, cluster, notify};
use check::{check, is_login, refuse, unknown_command};
use durability::replication::READ_ONLY;
use engine::refusal::{NO_MEMORY, OUT_OF_MEMORY};
use engine::segment::Handle;
use execution::{Engine, context, run_on_segment, run_on_slab};
use held::{is_held, is_late};
use session::clients;
use session::clock::Moment;
use session::locks::{Locks, lock_now};
use session::session::{ReplyMode, Session};
use session::spec::{SpecIndex, flag};
use session::waiting::Waiter;
use session::watches::AT_ONCE_MAX;
use shards::{LockedShards, lock_for, wake_owners};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use steps::FirstStep;
use store::{Event, Tick, View};
use wire::output::{LARGE_BYTES, can_allocate};
use wire::{Args, Output, Reply, Span};

/// Minimum number of one client's commands in a batch for which a single worker holds all shards
/// until the end of its turn.
const WHOLE_FROM_CALLS: usize = 4;

/// Maximum length in bytes of a command that is stored without checking the remaining memory.
const SMALL_BYTES: usize = 64 << 10;

/// Maximum number of commands parsed before the first of them runs, so that the prefetched keys
/// stay cached.
pub const BATCH_CALLS_MAX: usize = 64;

/// One parsed command of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Offset of the command in the input.
    pub start: usize,
    /// Length of the command in bytes; 0 for a part of a command that runs in steps.
    pub len: usize,
    /// Index of the call's first span.
    pub first: usize,
    /// Number of spans.
    pub count: usize,
    /// Index of the command in the command table; `None` for an unknown command.
    pub index: Option<SpecIndex>,
    /// Hash of the first key, if it was computed.
    pub memo: Option<KeyMemo>,
}

impl Call {
    /// Returns the arguments.
    pub fn args<'a>(&self, input: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args::new(
            &input[self.start..],
            &spans[self.first..self.first + self.count],
        )
    }
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command was answered.
    Done,
    /// CLIENT PAUSE holds the command back. Nothing was written; the caller tries again later.
    Held,
    /// The command may authenticate the client and waits until this time, because of failures from
    /// the same address. Nothing was written; the caller tries again then.
    Delayed(Moment),
    /// The command waits for a long one. Nothing was written; the caller tries again when
    /// [`session::long::Long::take_retry`] says so.
    Waits,
    /// The command is a long one, or has begun and continues in steps. Nothing was written; the
    /// caller passes it to [`Executor::begin_long`] before another command runs.
    IsLong,
}

/// Outcome of dispatching a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The command ran.
    Ran,
    /// The command was queued by MULTI.
    Queued,
    /// The command was refused before it could run.
    Refused,
    /// CLIENT PAUSE holds the command back.
    Held,
    /// The command waits for a long command.
    Waits,
    /// The command is a long one.
    IsLong,
    /// The command has replied for the arguments before this one; the rest runs in further steps.
    Stopped(usize),
}

/// Runs commands for one worker. A single worker may hold all shards from one command to the next
/// until [`Executor::finish`]; with several workers, each command locks only its shards. The
/// segment engine needs no locks.
pub struct Executor<'s> {
    server: &'s Server,
    worker: usize,
    now: Tick,
    moment: Moment,
    engine: Engine<'s>,
    events: Vec<Event>,
    timing: Timing<'s>,
    router: route::Router,
    used_routes: WorkerRoutes<'s>,
    /// Hashes of a batch's keys.
    hashed: Vec<u64>,
    /// First step of the command that [`Executor::begin_long`] is about to begin, if it has run.
    begun: Option<FirstStep>,
    /// Whether a command that may have set a deadline has run since this was last cleared.
    pub has_written: bool,
}

impl<'s> Executor<'s> {
    /// Creates an executor that has locked nothing.
    pub fn new(server: &'s Server, worker: usize, now: Tick) -> Self {
        Executor {
            server,
            worker,
            now,
            moment: server.clock.moment(),
            engine: match &server.data.segments {
                Some(segments) => Engine::Segment(Handle::new(
                    segments,
                    &server.observability.stats,
                    worker,
                    now,
                )),
                None => Engine::Slab(LockedShards::default()),
            },
            events: Vec::new(),
            timing: Timing::new(server, worker, command::table()),
            router: route::Router::new(server),
            used_routes: WorkerRoutes::new(&server.cluster, worker),
            hashed: Vec::new(),
            begun: None,
            has_written: false,
        }
    }

    /// Returns the server.
    pub fn server(&self) -> &'s Server {
        self.server
    }

    /// Returns the time at which commands run.
    pub fn now(&self) -> Tick {
        self.now
    }

    /// Returns the same time on the monotonic clock.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// Sets the time at which commands run.
    pub fn set_now(&mut self, now: Tick) {
        self.now = now;
        self.moment = self.server.clock.moment();
        self.server.data.end_pause_in_time(self.moment);
        self.router.set_now(self.server);
        match &mut self.engine {
            Engine::Slab(held) => {
                if let Some(view) = &mut held.whole {
                    view.set_now(now);
                }
            }
            Engine::Segment(handle) => handle.now = now,
        }
    }

    /// Runs one command. Writes exactly one reply to `out`, unless the command is held or the
    /// client wants no reply.
    pub fn run(
        &mut self,
        session: &mut Session,
        args: Args<'_>,
        call: &Call,
        out: &mut Output,
    ) -> Outcome {
        let position = out.len();
        let stats = &self.server.observability.stats;
        let Some(index) = call.index else {
            stats.unexpected_commands.fetch_add(1, Relaxed);
            session.break_transaction();
            Reply::new(out, session.protocol).error(&unknown_command(args));
            stats.count_error(&out[position..]);
            after_reply(session, out, position, false);
            return Outcome::Done;
        };
        // Chosen in place, because the compiler does not remove the copy of a returned value.
        let table = command::table();
        let mut chosen = table.plain(index);
        let spec = chosen.spec;
        if spec.has(flag::CONTAINER) {
            table.choose_subcommand(&mut chosen, args);
        }
        let shown = chosen.counted().unwrap_or(index);
        session.info.command.store(shown, Relaxed);
        if spec.has(flag::LOGIN)
            && is_login(spec, args)
            && let Some(until) = self.login_delay(session)
        {
            return Outcome::Delayed(until);
        }
        self.timing.before(index, args.len(), call.len);
        let step = self.dispatch(session, &chosen, &args, call, out);
        match step {
            Step::Ran | Step::Queued | Step::Refused => session.is_shown = false,
            Step::Held => return Outcome::Held,
            Step::Waits => return Outcome::Waits,
            Step::IsLong => return Outcome::IsLong,
            Step::Stopped(next) => {
                self.begun = Some(FirstStep::take(next, out, position));
                return Outcome::IsLong;
            }
        }
        let is_error = out.get(position) == Some(&b'-');
        if is_error {
            if !std::mem::take(&mut session.is_error_counted) {
                stats.count_error(&out[position..]);
            }
            if let Some(counted) = chosen.counted() {
                self.timing.count_failed(counted, step == Step::Ran);
            }
        }
        if let Some(waiter) = session.waiter() {
            let nanos = self.timing.suspend();
            waiter.own_nanos.fetch_add(nanos, Relaxed);
            return Outcome::Done;
        }
        if step == Step::Ran {
            let (counted, reply_len) = (chosen.counted(), out.len().saturating_sub(position));
            let client = &session.info;
            self.timing
                .after(counted, spec, client, &args, reply_len, self.now);
        }
        let is_push = spec.has(flag::PUSHES) && !is_error;
        after_reply(session, out, position, is_push);
        Outcome::Done
    }

    /// Writes the reply of a command that was blocked and has now been served.
    pub fn reply_late(
        &self,
        session: &mut Session,
        waiter: Option<&Waiter>,
        late: &Output,
        out: &mut Output,
    ) {
        let position = out.len();
        out.append(late);
        let is_error = late.first() == Some(&b'-');
        self.count_error(late);
        if let Some(waiter) = waiter
            && let Some((index, args)) = waiter.call.iter().next()
        {
            let nanos = waiter.own_nanos.load(Relaxed);
            self.timing
                .count_blocked(index, &session.info, args, nanos, self.now);
            if is_error {
                self.timing.count_failed(index, true);
            }
        }
        after_reply(session, out, position, false);
    }

    /// Counts a reply if it is an error.
    pub fn count_error(&self, reply: &[u8]) {
        if reply.first() == Some(&b'-') {
            self.server.observability.stats.count_error(reply);
        }
    }

    /// Checks a command, then queues or runs it.
    #[inline(always)]
    fn dispatch(
        &mut self,
        session: &mut Session,
        chosen: &Chosen,
        args: &Args<'_>,
        call: &Call,
        out: &mut Output,
    ) -> Step {
        let server = self.server;
        let (spec, flags, len) = (chosen.spec, chosen.flags(), call.len);
        let mut reply = Reply::new(out, session.protocol);
        if let Err(why) = check(server, session, chosen, args) {
            refuse(server, session, spec, &why, &mut reply);
            return Step::Refused;
        }
        if let Some(step) = self.router.route(server, session, chosen, args, &mut reply) {
            return step;
        }
        if server.data.pause.is_set() && is_held(server, session, (spec, flags, *args), self.moment)
        {
            return Step::Held;
        }
        if let Some(error) = refusal(server, flags, session.db, len) {
            session.break_transaction();
            let moved = redirection(server, error, spec, *args);
            reply.error(moved.as_deref().unwrap_or(error));
            return Step::Refused;
        }
        if session.transaction.is_some() && !spec.has(flag::NO_QUEUE) {
            return self.queue(session, *chosen, *args, &mut reply);
        }
        if server.clients.monitors.is_on() {
            show(server, session, chosen, *args, call);
        }
        self.has_written |= spec.flags & (flag::WRITE | flag::MAY_WRITE) != 0;
        let is_on_segment = matches!(self.engine, Engine::Segment(_));
        if steps::runs_in_steps(session, spec, (args.len(), len), is_on_segment) {
            return Step::IsLong;
        }
        self.execute(session, chosen, args, call.memo.as_ref(), reply)
    }

    /// Locks the shards of a command and runs it.
    #[inline(always)]
    fn execute(
        &mut self,
        session: &mut Session,
        chosen: &Chosen,
        args: &Args<'_>,
        memo: Option<&KeyMemo>,
        mut reply: Reply<'_>,
    ) -> Step {
        let server = self.server;
        let (spec, flags) = (chosen.spec, chosen.flags());
        let held = match &mut self.engine {
            Engine::Slab(held) => held,
            Engine::Segment(handle) => {
                return run_on_segment(handle, server, session, (spec, args, memo), reply);
            }
        };
        let call = (chosen.index, spec, args, memo);
        if let Some(view) = held.whole.as_mut() {
            let result = run_on_slab(server, view, &Locks::All, session, call, reply);
            if view.has_ready() {
                blocking::serve(server, command::table(), view, &mut Locks::All);
            }
            session.is_shown |= result == Step::Held;
            return result;
        }
        lock_for(&server.data.keyspace, held, session, spec, *args, memo);
        let mut view = lock_now(&server.data.keyspace, &server.clock, &held.locks, self.now);
        if is_late(server, session, (spec, flags, *args), self.moment) {
            session.is_shown = true;
            return Step::Held;
        }
        if let Some(step) = self
            .router
            .route_again(server, session, chosen, args, &mut reply)
        {
            return step;
        }
        let result = run_on_slab(server, &mut view, &held.locks, session, call, reply);
        if view.has_ready() {
            blocking::serve(server, command::table(), &mut view, &mut held.locks);
        }
        publish(server, &mut view, &mut self.events);
        drop(view);
        if server.workers.count > 1 && spec.flags & (flag::WRITE | flag::MAY_WRITE) != 0 {
            wake_owners(&server.data, &server.workers, self.worker, &held.locks);
        }
        session.is_shown |= result == Step::Held;
        result
    }

    /// Begins the turn of a connection.
    pub fn begin_turn(&mut self) {
        self.timing.begin_turn();
    }

    /// Whether other connections are served before the next command of this one.
    #[inline]
    pub fn is_turn_spent(&self) -> bool {
        self.timing.is_turn_spent()
    }

    /// Ends a client's batch and records the duration of its last group of commands. If the batch
    /// is a single command, `only` contains its index and arguments.
    pub fn end_batch(&mut self, session: &Session, only: Option<(SpecIndex, Args<'_>)>) {
        let only = only.map(|(index, args)| (command::table()[index as usize], args));
        self.timing.end_batch(&session.info, only, self.now);
    }

    /// Unlocks all shards and publishes the events of their keys.
    pub fn finish(&mut self) {
        self.timing.close();
        match &mut self.engine {
            Engine::Slab(held) => {
                if let Some(mut view) = held.whole.take() {
                    publish(self.server, &mut view, &mut self.events);
                }
            }
            Engine::Segment(handle) => handle.release(),
        }
    }

    /// Ends a client's wait. Returns false if the client is not blocked, or if it was served
    /// already and the reply is in the worker's inbox.
    pub fn end_wait(&mut self, session: &Session) -> bool {
        if !session.is_blocked() {
            return false;
        }
        self.finish();
        blocking::end_wait(self.server, session.info.id).is_some()
    }

    /// Reruns a blocked command whose time has come.
    pub fn retry_wait(&mut self, waiter: &Arc<Waiter>) {
        self.finish();
        blocking::retry_in_time(self.server, command::table(), waiter, &mut self.events);
        notify::publish(self.server, &mut self.events);
    }

    /// Removes all state of a client that disconnects.
    pub fn forget(&mut self, session: &mut Session) {
        session.forget_subscriptions(&self.server.clients.pubsub);
        session.end_transaction();
        self.end_wait(session);
        if session.tracking.is_some() || session.has_flag(clients::flag::MONITOR) {
            self.finish();
            tracking::forget(&self.server.clients, &self.server.data.keyspace, session);
        }
        self.server.replication.waits.remove(session.info.id);
        if session.is_replica {
            primary::forget(
                &self.server.config,
                &self.server.feed,
                &self.server.replication,
                session.info.id,
            );
        }
        long::leave(&self.server.workers, session);
        if session.watched.is_empty() {
            return;
        }
        self.finish();
        let watched = session.take_watched();
        if watched.len() > AT_ONCE_MAX {
            return self
                .server
                .clients
                .watches
                .forget(watched, &session.is_dirty);
        }
        for (db, bytes) in watched {
            let key = self.server.data.keyspace.key(db, &bytes);
            let shard = self.server.data.keyspace.shard_of(&key);
            let mut view = self.server.data.keyspace.lock_one(shard, self.now);
            view.unwatch(&key, &session.is_dirty);
        }
    }
}

/// Shows a command to the monitoring clients before it runs, unless it was shown before it had to
/// wait or was held, or it is a part of a command that was shown.
#[cold]
fn show(server: &Server, session: &Session, chosen: &Chosen, args: Args<'_>, call: &Call) {
    if !session.is_shown && session.ticket.is_none() && call.len > 0 {
        tracking::show(server, session, false, *chosen, args);
    }
}

/// Returns the error for a command of this length that is not permitted now, or for which there is
/// no memory. A command is assumed to store about its own length, so that one that does not fit
/// into `maxmemory` is refused before it evicts all keys.
#[inline]
fn refusal(server: &Server, flags: u32, db: u8, len: usize) -> Option<&'static str> {
    if flags & flag::WRITE != 0
        && let Some(error) = refuses_writes(server)
    {
        return Some(error);
    }
    if flags & flag::KEEPS != 0 && server.data.keyspace.is_outside_full() {
        Some(OUT_OF_MEMORY)
    } else if len <= SMALL_BYTES {
        None
    } else if flags & flag::DENYOOM != 0 && !server.data.keyspace.can_hold(db, len, len) {
        Some(OUT_OF_MEMORY)
    } else {
        let lacks_memory = len > LARGE_BYTES && !can_allocate(len.saturating_mul(2));
        lacks_memory.then_some(NO_MEMORY)
    }
}

/// Returns the error that leads a client of a cluster to the primary, for a write that a replica
/// has refused.
#[cold]
fn redirection(server: &Server, error: &str, spec: &Spec, args: Args<'_>) -> Option<String> {
    if error != READ_ONLY {
        return None;
    }
    let mut first = None;
    spec.keys
        .each(args, |index| first = first.or(args.get(index)));
    cluster::redirection(server, first?)
}

/// Publishes the events of the keys in locked shards, and the invalidations that no client caused.
fn publish(server: &Server, view: &mut View<'_>, events: &mut Vec<Event>) {
    if server.clients.tracking.is_on() {
        tracking::send(&server.clients, &server.workers.inboxes, view, 0);
    }
    if server.data.notifies() {
        view.take_events(events);
        notify::publish(server, events);
    }
}

/// Removes the reply to a command if CLIENT REPLY has disabled it. Messages to a subscriber,
/// including the confirmations of SUBSCRIBE, are still sent, as in Redis.
pub(crate) fn after_reply(session: &mut Session, out: &mut Output, position: usize, is_push: bool) {
    match session.reply_mode {
        ReplyMode::On => return,
        ReplyMode::Off => {}
        ReplyMode::SkipNext => session.reply_mode = ReplyMode::Skip,
        ReplyMode::Skip => session.reply_mode = ReplyMode::On,
    }
    if !is_push {
        out.truncate(position);
    }
}

#[cfg(test)]
mod tests;
