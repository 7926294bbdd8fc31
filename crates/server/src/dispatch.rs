//! Dispatch of commands: looks a command up, checks what holds for all commands, locks the shards
//! of its keys, runs it and counts it.

mod memcached;
mod prefetch;
mod segment;

use crate::blocking;
use crate::clients;
use crate::clock::Moment;
use crate::command::refusal::OUT_OF_MEMORY;
use crate::command::{self, tracking};
use crate::context::{Ctx, KeyMemo, Segment, Spec};
use crate::engine::segment::Handle;
use crate::engine::slab::Slab;
use crate::locks::{Locks, lock};
use crate::notify;
use crate::session::{ReplyMode, Session};
use crate::spec::{Keys, SpecIndex, flag};
use crate::state::Server;
use crate::timing::Timing;
use std::sync::atomic::Ordering::Relaxed;
use store::{Event, Tick, View};
use wire::{Args, Output, Protocol, Reply, Span};

/// Minimum number of commands of one client in a batch for which a single worker holds all shards
/// until the end of its turn.
const WHOLE_FROM_CALLS: usize = 4;

/// Maximum number of commands parsed before the first of them runs, so that the prefetched keys
/// stay cached.
pub const BATCH_CALLS_MAX: usize = 64;

/// One parsed command of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Offset of the command in the input.
    pub start: usize,
    /// Length of the command in bytes.
    pub len: usize,
    /// Index of its first span.
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
}

/// A worker's access to the engine that holds the keys.
pub(crate) enum Engine<'s> {
    /// The keyspace.
    Slab(LockedShards<'s>),
    /// The segment engine. The keyspace is empty in this case.
    Segment(Handle<'s>),
}

/// Shards that a worker has locked.
pub(crate) struct LockedShards<'s> {
    /// View of all shards, kept from one command to the next; `None` while they are not all locked.
    whole: Option<View<'s>>,
    /// Shards of the last command if it did not need all of them.
    locks: Locks,
}

impl Default for LockedShards<'_> {
    fn default() -> Self {
        LockedShards {
            whole: None,
            locks: Locks::Some(Vec::new()),
        }
    }
}

impl<'s> LockedShards<'s> {
    /// Locks all shards until [`Executor::finish`] if there is only one worker.
    fn lock_whole(&mut self, server: &'s Server, now: Tick) {
        if server.threads == 1 {
            let whole = || server.keyspace.lock_all(now);
            self.whole.get_or_insert_with(whole);
        }
    }
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
    /// Hashes of a batch's keys.
    hashed: Vec<u64>,
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
            engine: match &server.segments {
                Some(segments) => {
                    Engine::Segment(Handle::new(segments, &server.stats, worker, now))
                }
                None => Engine::Slab(LockedShards::default()),
            },
            events: Vec::new(),
            timing: Timing::new(server, worker),
            hashed: Vec::new(),
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
        let server = self.server;
        let Some(spec) = call.index.map(|index| command::table()[index as usize]) else {
            server.stats.unexpected_commands.fetch_add(1, Relaxed);
            session.break_transaction();
            Reply::new(out, session.protocol).error(&unknown_command(args));
            server.stats.count_error(&out[position..]);
            after_reply(session, out, position);
            return Outcome::Done;
        };
        if server.pause.holds(spec.flags, self.moment) && session.info.id != 0 {
            return Outcome::Held;
        }
        let index = call.index.expect("it was looked up");
        self.timing.before(spec, args, call.len);
        let is_run = self.dispatch(session, spec, index, args, call.memo, out);
        if out.get(position) == Some(&b'-') {
            server.stats.count_error(&out[position..]);
            self.timing.count_failed(index, is_run);
        }
        if is_run {
            self.timing.after(
                index,
                spec,
                session,
                args,
                out.len().saturating_sub(position),
                self.now,
            );
        }
        if !session.is_blocked() {
            after_reply(session, out, position);
        }
        Outcome::Done
    }

    /// Writes the reply of a command that was blocked and has now been served.
    pub fn reply_late(&self, session: &mut Session, late: &Output, out: &mut Output) {
        let position = out.len();
        out.append(late);
        if late.first() == Some(&b'-') {
            self.server.stats.count_error(late);
        }
        after_reply(session, out, position);
    }

    /// Checks a command, then queues or runs it. Returns whether it ran.
    fn dispatch(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        index: SpecIndex,
        args: Args<'_>,
        memo: Option<KeyMemo>,
        out: &mut Output,
    ) -> bool {
        let server = self.server;
        let mut reply = Reply::new(out, session.protocol);
        if let Err(why) = check(server, session, spec, args) {
            session.break_transaction();
            reply.error(&why);
            return false;
        }
        if session.transaction.is_some() && !spec.has(flag::NO_QUEUE) {
            command::transaction::queue(server, session, (index, spec), args, &mut reply);
            return false;
        }
        if server.monitors.is_on() {
            tracking::show(server, session, spec, args);
        }
        if spec.flags & (flag::WRITE | flag::MAY_WRITE) != 0 {
            self.has_written = true;
        }
        let now = self.now;
        let held = match &mut self.engine {
            Engine::Slab(held) => held,
            Engine::Segment(handle) => {
                return run_on_segment(handle, server, session, (spec, args, memo), reply);
            }
        };
        if let Some(view) = held.whole.as_mut() {
            let mut ctx = context(server, view, &Locks::All, session, memo, reply);
            call(&mut ctx, spec, args);
            if view.has_invalidated() {
                tracking::send(server, view, session.info.id);
            }
            if view.has_ready() {
                blocking::serve(server, command::table(), view, &mut Locks::All);
            }
            return true;
        }
        lock_for(server, held, session, spec, args, memo);
        let mut view = lock(&server.keyspace, &held.locks, now);
        let mut ctx = context(server, &mut view, &held.locks, session, memo, reply);
        call(&mut ctx, spec, args);
        if view.has_invalidated() {
            tracking::send(server, &mut view, session.info.id);
        }
        if view.has_ready() {
            blocking::serve(server, command::table(), &mut view, &mut held.locks);
        }
        publish(server, &mut view, &mut self.events);
        drop(view);
        if server.threads > 1 && spec.flags & (flag::WRITE | flag::MAY_WRITE) != 0 {
            wake_owners(server, self.worker, &held.locks);
        }
        true
    }

    /// Ends a client's batch and records the duration of its last group of commands.
    pub fn end_batch(&mut self) {
        self.timing.close();
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

    /// Removes all state of a client that disconnects.
    pub fn forget(&mut self, session: &mut Session) {
        session.unsubscribe_all(&self.server.pubsub);
        session.end_transaction();
        self.end_wait(session);
        if session.tracking.is_some() || session.has_flag(clients::flag::MONITOR) {
            self.finish();
            tracking::forget(self.server, session);
        }
        if session.watched.is_empty() {
            return;
        }
        self.finish();
        for (db, bytes) in session.watched.drain() {
            let key = self.server.keyspace.key(db, &bytes);
            let shard = self.server.keyspace.shard_of(&key);
            let mut view = self.server.keyspace.lock_one(shard, self.now);
            view.unwatch(&key, &session.is_dirty);
        }
    }
}

/// Publishes the events of the keys in locked shards, and the invalidations that no client caused.
fn publish(server: &Server, view: &mut View<'_>, events: &mut Vec<Event>) {
    if server.tracking.is_on() {
        tracking::send(server, view, 0);
    }
    if server.notifies() {
        view.take_events(events);
        notify::publish(server, events);
    }
}

/// Determines the shards of a command's keys.
fn lock_for(
    server: &Server,
    held: &mut LockedShards<'_>,
    session: &Session,
    spec: &Spec,
    args: Args<'_>,
    memo: Option<KeyMemo>,
) {
    let mut shards = spare(&mut held.locks);
    if collect(server, session, spec, args, memo, &mut shards) {
        return;
    }
    if shards.len() > 1 {
        shards.sort_unstable();
        shards.dedup();
    }
    held.locks = Locks::Some(shards);
}

/// Wakes the workers that expire the written shards if a shard has an earlier deadline than its
/// worker is going to wait for.
fn wake_owners(server: &Server, worker: usize, locks: &Locks) {
    let wake = |shard: usize| {
        let owner = shard % server.threads;
        if owner != worker
            && let Some(due) = server.keyspace.next_due(shard)
        {
            server.inboxes[owner].wake_by(due.0);
        }
    };
    match locks {
        Locks::All => (0..server.keyspace.shard_count()).for_each(wake),
        Locks::Some(shards) => shards.iter().copied().for_each(wake),
    }
}

/// Empties the list of the last command's shards and returns it, so that its allocation is reused.
/// Until the caller puts it back, `locks` is set to all shards.
fn spare(locks: &mut Locks) -> Vec<usize> {
    let mut shards = match std::mem::replace(locks, Locks::All) {
        Locks::All => Vec::new(),
        Locks::Some(shards) => shards,
    };
    shards.clear();
    shards
}

/// Adds the shards of a command's keys to a list. Returns true if the command needs all shards.
fn collect(
    server: &Server,
    session: &Session,
    spec: &Spec,
    args: Args<'_>,
    memo: Option<KeyMemo>,
    shards: &mut Vec<usize>,
) -> bool {
    let space = &server.keyspace;
    match spec.keys {
        Keys::None => {}
        keys if keys.reach_beyond(args) => return true,
        Keys::Queued | Keys::Watched => {
            for (db, bytes) in &session.watched {
                shards.push(space.shard_of(&space.key(*db, bytes)));
            }
            if spec.keys == Keys::Queued
                && let Some(transaction) = &session.transaction
            {
                return transaction.iter().any(|(index, args)| {
                    let spec = command::table()[index as usize];
                    collect(server, session, spec, args, None, shards)
                });
            }
        }
        _ => spec.keys.each(args, |index| {
            let bytes = &args[index];
            let key = match memo {
                Some(memo) if memo.names(session.db, bytes) => memo.key(bytes),
                _ => space.key(session.db, bytes),
            };
            shards.push(space.shard_of(&key));
        }),
    }
    false
}

/// Checks the conditions that every command must meet before it runs or is queued: arity,
/// authentication, and the state of the session.
fn check(server: &Server, session: &Session, spec: &Spec, args: Args<'_>) -> Result<(), String> {
    if !spec.accepts(args.len()) {
        return Err(format!(
            "ERR wrong number of arguments for '{}' command",
            spec.name
        ));
    }
    if !session.is_authenticated && !spec.has(flag::NO_AUTH) && server.needs_password() {
        return Err("NOAUTH Authentication required.".into());
    }
    if session.protocol == Protocol::Resp2
        && session.subscriptions.is_some()
        && !spec.has(flag::SUBSCRIBER)
        && session.is_subscriber()
    {
        return Err(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            spec.name
        ));
    }
    Ok(())
}

/// Removes the reply to a command if CLIENT REPLY has disabled it.
fn after_reply(session: &mut Session, out: &mut Output, position: usize) {
    match session.reply_mode {
        ReplyMode::On => {}
        ReplyMode::Off => out.truncate(position),
        ReplyMode::SkipNext => {
            out.truncate(position);
            session.reply_mode = ReplyMode::Skip;
        }
        ReplyMode::Skip => {
            out.truncate(position);
            session.reply_mode = ReplyMode::On;
        }
    }
}

/// Runs or refuses a command on the segment engine. Returns whether it ran.
fn run_on_segment<'a, 's>(
    handle: &'a mut Handle<'s>,
    server: &'s Server,
    session: &'a mut Session,
    (spec, args, memo): (&Spec, Args<'_>, Option<KeyMemo>),
    mut reply: Reply<'a>,
) -> bool {
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
            run(&mut ctx, args);
            true
        }
        Segment::Keyless => {
            let locks = Locks::Some(Vec::new());
            let mut view = lock(&server.keyspace, &locks, handle.now);
            let mut ctx = context(server, &mut view, &locks, session, memo, reply);
            (spec.run.slab)(&mut ctx, args);
            true
        }
        Segment::Refused => {
            let name = spec.name.to_ascii_uppercase();
            reply.error_fmt(format_args!(
                "ERR '{name}' is not served by the segment engine; start with --engine slab"
            ));
            false
        }
    }
}

/// Creates the context of a command on locked shards.
#[inline]
fn context<'a, 'v>(
    server: &'v Server,
    view: &'a mut View<'v>,
    locks: &'a Locks,
    session: &'a mut Session,
    memo: Option<KeyMemo>,
    reply: Reply<'a>,
) -> Ctx<'a, 'v> {
    let space = &server.keyspace;
    Ctx {
        view: Slab { view, space, locks },
        session,
        server,
        reply,
        table: command::table(),
        memo,
    }
}

/// Runs a command whose shards are locked, if there is room for what it may write.
#[inline]
fn call(ctx: &mut Ctx<'_, '_>, spec: &Spec, args: Args<'_>) {
    if spec.has(flag::DENYOOM) && ctx.view.is_full() {
        return ctx.reply.error(OUT_OF_MEMORY);
    }
    (spec.run.slab)(ctx, args);
    if ctx.session.tracking.is_some() {
        tracking::remember(ctx, spec, args);
        tracking::end_command(ctx.session, spec);
    }
}

/// Runs one command without a connection, for tests.
pub fn exec(server: &Server, session: &mut Session, args: &[&[u8]], now: Tick, out: &mut Vec<u8>) {
    let mut input = Vec::new();
    let mut spans = Vec::new();
    for arg in args {
        spans.push(Span {
            start: input.len() as u32,
            len: arg.len() as u32,
        });
        input.extend_from_slice(arg);
    }
    if args.is_empty() {
        return;
    }
    let args = Args::new(&input, &spans);
    let call = Call {
        start: 0,
        len: input.len(),
        first: 0,
        count: args.len(),
        index: command::table().lookup(args.name()),
        memo: None,
    };
    let mut executor = Executor::new(server, 0, now);
    let mut output = Output::from(std::mem::take(out));
    executor.run(session, args, &call, &mut output);
    *out = output.take_bytes();
    executor.finish();
}

/// Describes the missing feature if Redis has a command that is not served.
fn not_served(name: &str) -> Option<&'static str> {
    const STREAMS: &[&str] = &[
        "xack",
        "xackdel",
        "xadd",
        "xautoclaim",
        "xclaim",
        "xdel",
        "xdelex",
        "xgroup",
        "xinfo",
        "xlen",
        "xpending",
        "xrange",
        "xread",
        "xreadgroup",
        "xrevrange",
        "xsetid",
        "xtrim",
    ];
    const SCRIPTS: &[&str] = &[
        "eval",
        "eval_ro",
        "evalsha",
        "evalsha_ro",
        "fcall",
        "fcall_ro",
        "function",
        "script",
    ];
    match name {
        "migrate" => Some("moving keys between servers is"),
        _ if STREAMS.contains(&name) => Some("streams are"),
        _ if SCRIPTS.contains(&name) => Some("scripts and functions are"),
        _ => None,
    }
}

/// Formats the error for an unknown command as Redis does, with the beginning of its arguments.
fn unknown_command(args: Args<'_>) -> String {
    let name = String::from_utf8_lossy(&args[0][..args[0].len().min(128)]).into_owned();
    if let Some(what) = not_served(&name.to_ascii_lowercase()) {
        return format!("ERR unknown command '{name}': {what} not served yet");
    }
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    let head = text.len();
    for arg in args.from(1).iter() {
        let room = (head + 128).saturating_sub(text.len());
        if room == 0 {
            break;
        }
        let shown = String::from_utf8_lossy(&arg[..arg.len().min(room)]).into_owned();
        text.push_str(&format!("'{shown}' "));
    }
    text
}

#[cfg(test)]
mod tests;
