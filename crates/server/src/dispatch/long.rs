//! Long commands: deciding whether a command is one, running it on the thread for long commands,
//! and putting its values back. See [`session::long`] for the whole.
//!
//! # The feed beside a long command
//!
//! A reader of the feed executes the command at a single position, that of its end, and must get
//! the command's result for the keys as they were at its beginning. Hence one rule: for a reader,
//! the keys of a long command do not change between its beginning and its effect.
//!
//! ```text
//! feed    … effects on other keys … │ elements found expired │ effect │ keys lost meanwhile │ …
//! ```
//!
//! - Commands on one of its keys, on the whole keyspace, or on keys that are not known before they
//!   run, wait. So do snapshots that begin, and with them new readers of the feed.
//! - Expiry and eviction do not wait. If they remove an entry whose value is lent, the removal is
//!   not recorded. If the key is still absent when the values are back, its deletion is added after
//!   the effect; if the command has written the key, it is stored as a whole, and no deletion is
//!   added.
//! - Elements expire only in the command's keyspace, at the command's instant. These deletions come
//!   before the effect. Deletions for the time since then come after it, because an effect that
//!   consists of current values is written as of the command's instant. At the current instant,
//!   reading a value would also remove its expired elements in one step.
//! - A server that has become a replica meanwhile adds nothing; see [`Executor::finish_long`].

use super::shards::{lock_for, wake_owners};
use super::steps::Steps;
use super::{Engine, Executor, context, is_late, publish};
use crate::command::{self, tracking, work};
use crate::context::{Spec, Work};
use crate::effects::{self, Ran, ReplyAt};
use crate::replication::role;
use crate::saving::work::lend;
use crate::state::Server;
use crate::state::Workers;
use crate::{blocking, memcached};
use durability::replication::READ_ONLY;
use engine::refusal::OUT_OF_MEMORY;
use session::locks::{Locks, Room, lock, lock_now, make_room};
use session::long::{Job, Task};
use session::message::Message;
use session::queue::OwnedCall;
use session::session::Session;
use session::spec::{Keys, flag};
use session::tracking::TrackingOptions;
use session::waiting::BlockingState;
use settings::Config;
use settings::Id;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;
use store::Keyspace;
use store::{Lease, Loan, Removed, Tick, View};
use wire::number::parse_i64;
use wire::{Args, CutOff, Output, Reply, Span};

/// Maximum number of keys of a long command. A command on more keys runs immediately, within
/// `atomic-work-limit`, because moving the values would take as long.
const KEYS_MAX: usize = 1024;

/// Minimum length of a value in bytes for which its length matters.
const VALUE_BYTES_MIN: usize = 1 << 20;
/// Minimum number of reply bytes that makes a command a long one.
const REPLY_BYTES_MIN: usize = 256 << 10;

/// Way in which a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
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

/// Result of an attempt to begin a long command.
#[derive(Debug)]
pub enum Begun {
    /// The command is running. The reply follows as a message.
    Runs,
    /// The command was refused; the error is written.
    Refused,
    /// The command must wait.
    Waits(OwnedCall),
    /// The command runs in steps; see [`Executor::step`].
    InSteps(Box<Steps>),
}

/// Decides how to run a command. The shards of its keys are locked.
#[inline(always)]
pub(super) fn way<'v>(
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
pub(super) fn reply_bytes_max(server: &Server, spec: &Spec, args: &Args<'_>) -> Option<usize> {
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
pub(super) fn exceeds_output(
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
pub(super) fn way_of_large_reply<'v>(
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
pub(super) fn must_purge_names(
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

/// Ends the wait of a client.
pub(super) fn leave(workers: &Workers, session: &mut Session) {
    if let Some(ticket) = session.ticket.take()
        && workers.long.leave(ticket)
    {
        workers.wake_all();
    }
}

/// Whether a command needs a key for which `is_leased` is true. A command that writes the whole
/// keyspace, or that may read any key, needs all keys.
pub(super) fn needs(
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
pub(super) fn needs_names(
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

impl<'s> Executor<'s> {
    /// Begins a long command: moves the values of its keys to a separate keyspace, and passes them
    /// to the thread.
    pub fn begin_long(
        &mut self,
        session: &mut Session,
        call: OwnedCall,
        out: &mut Output,
    ) -> Begun {
        let (server, now) = (self.server, self.now);
        let spec = command::table()[call.index as usize];
        let position = out.len();
        let bytes_max = server.config.output_max(session.class());
        let host = (&*session, matches!(self.engine, Engine::Segment(_)));
        let begun = self.begun.take();
        let call = match Steps::new(spec, call, (bytes_max, begun), host) {
            Ok(steps) => return Begun::InSteps(Box::new(steps)),
            Err(call) => call,
        };
        let Engine::Slab(held) = &mut self.engine else {
            unreachable!("the segment engine has no long commands");
        };
        let begun = match held.whole.as_mut() {
            Some(view) => begin(server, view, &Locks::All, session, spec, call, out),
            None => {
                lock_for(
                    &server.data.keyspace,
                    held,
                    session,
                    spec,
                    call.args(),
                    None,
                );
                let mut view = lock_now(&server.data.keyspace, &server.clock, &held.locks, now);
                let begun = begin(server, &mut view, &held.locks, session, spec, call, out);
                publish(server, &mut view, &mut self.events);
                begun
            }
        };
        if let Begun::Refused = begun {
            super::after_reply(session, out, position, false);
        }
        if !matches!(begun, Begun::Waits(_)) {
            leave(&server.workers, session);
        }
        begun
    }

    /// Puts back the values of a long command, serves the clients blocked on its keys, and
    /// publishes its events. If the server has become a replica meanwhile, the new primary lacks
    /// the command: the client gets an error, and a snapshot replaces the values. Returns the
    /// client's position in its worker, its id and the reply.
    pub fn finish_long(&mut self, mut job: Box<Job>) -> (usize, u64, Output) {
        let server = self.server;
        self.finish();
        self.has_written = true;
        let spec = command::table()[job.call.index as usize];
        let mut locks = locks_of(&server.data.keyspace, spec, &job);
        let mut view = lock(&server.data.keyspace, &locks, self.now);
        let changes_before = view.changes();
        let lost = put_back(&server.data.keyspace, &mut view, &mut job);
        let has_ended_on_replica = job.is_of_primary && server.replication.is_replica();
        // If a snapshot of the new primary has replaced the keys, the values are not put back.
        let is_lost = has_ended_on_replica && job.leases.iter().any(Lease::is_changed);
        let differs = is_lost && view.changes() != changes_before;
        if is_lost {
            job.reply = Output::default();
            Reply::new(&mut job.reply, job.protocol).error(READ_ONLY);
        } else if server.feed.is_on() {
            add_effect(server, &mut view, &locks, &job, changes_before);
            view.record(lost);
            effects::add_all_removals(&server.data.keyspace, &server.feed, &mut view);
        }
        // Clients blocked on these keys may be served from now on.
        server.workers.long.end();
        if job.is_tracked {
            let reader = (job.info.id, job.db);
            tracking::remember_keys(
                &server.clients,
                &server.config,
                &server.data.keyspace,
                &mut view,
                reader,
                spec.keys,
                job.call.args(),
            );
        }
        if view.has_invalidated() {
            tracking::send(
                &server.clients,
                &server.workers.inboxes,
                &mut view,
                job.info.id,
            );
        }
        if view.has_ready() {
            blocking::serve(server, command::table(), &mut view, &mut locks);
        }
        self.end_lease(view, &locks);
        if differs {
            role::resynchronize(&server.replication);
        }
        self.count_long(&job);
        let reply = std::mem::take(&mut job.reply);
        let (slot, id) = (job.info.slot, job.info.id);
        server.workers.long.push(Task::Free(job));
        (slot, id, reply)
    }

    /// Puts back a value that a snapshot has borrowed.
    pub fn take_back(&mut self, loan: Loan) {
        let server = self.server;
        self.finish();
        let key = server.data.keyspace.key(0, loan.key());
        let locks = Locks::Some(vec![server.data.keyspace.shard_of(&key)]);
        let mut view = lock(&server.data.keyspace, &locks, self.now);
        view.take_loan_back(loan);
        server.workers.long.end();
        self.end_lease(view, &locks);
    }

    /// Completes the end of a reservation of keys after [`session::long::Long::end`] was called:
    /// releases the locks, and serves the clients blocked on keys that were written meanwhile but
    /// that also needed a reserved key.
    fn end_lease(&mut self, mut view: View<'s>, locks: &Locks) {
        let server = self.server;
        publish(server, &mut view, &mut self.events);
        drop(view);
        for (db, name) in server.workers.long.take_passed_over() {
            let key = server.data.keyspace.key(db, &name);
            let mut locks = Locks::Some(vec![server.data.keyspace.shard_of(&key)]);
            let mut view = lock(&server.data.keyspace, &locks, self.now);
            view.remind_waiters(&key);
            blocking::serve(server, command::table(), &mut view, &mut locks);
            publish(server, &mut view, &mut self.events);
            self.has_written = true;
        }
        if server.workers.count > 1 {
            wake_owners(&server.data, &server.workers, self.worker, locks);
        }
        server.workers.wake_all();
    }

    /// Counts and times a long command like any other.
    fn count_long(&self, job: &Job) {
        let (index, args) = (job.call.index, job.call.args());
        self.timing
            .count_blocked(index, &job.info, args, job.nanos, job.now);
        if job.reply.first() == Some(&b'-') {
            self.timing.count_failed(index, true);
        }
    }
}

/// Returns the shards of a long command's keys. They depend on the names only.
fn locks_of(keyspace: &Keyspace, spec: &Spec, job: &Job) -> Locks {
    let args = job.call.args();
    let mut shards = Vec::new();
    spec.keys.each(args, |index| {
        let key = keyspace.key(job.db, &args[index]);
        shards.push(keyspace.shard_of(&key));
    });
    shards.sort_unstable();
    shards.dedup();
    Locks::Some(shards)
}

/// Begins a long command whose shards are locked.
fn begin<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    locks: &Locks,
    session: &mut Session,
    spec: &'static Spec,
    call: OwnedCall,
    out: &mut Output,
) -> Begun {
    let mut reply = Reply::new(out, session.protocol);
    let args = call.args();
    let flags = command::table().flags_of(spec, args);
    // This comes first, because it may release the locks.
    if flags & flag::DENYOOM != 0 && make_room(&server.data.keyspace, view, locks) == Room::None {
        reply.error(OUT_OF_MEMORY);
        return Begun::Refused;
    }
    let mut names = HashSet::new();
    spec.keys.each(args, |index| {
        names.insert(Box::from(&args[index]));
    });
    // A stop, FAILOVER or REPLICAOF may have begun since the command was found to be long.
    let call_of = (spec, spec.flags, args);
    if is_late(server, session, call_of, server.clock.moment()) {
        session.ticket = Some(server.workers.long.wait(session.ticket));
        server.workers.long.request_retries();
        server.workers.wake_all();
        return Begun::Waits(call);
    }
    if !server.workers.long.may_begin(session.ticket) || !server.workers.long.begin(names.clone()) {
        session.ticket = Some(server.workers.long.wait(session.ticket));
        return Begun::Waits(call);
    }
    let now = view.now();
    let annex = server.data.keyspace.annex();
    let mut other = annex.lock_all(now);
    let leases = names
        .iter()
        .map(|name| view.lend(name, &mut other))
        .collect();
    drop(other);
    session.blocking_state = BlockingState::RunsLong;
    let tracks_reads = |tracking: &TrackingOptions| tracking.tracks_reads();
    let is_tracked =
        spec.has(flag::READONLY) && session.tracking.as_deref().is_some_and(tracks_reads);
    tracking::end_command(session, spec);
    let job = Job {
        info: Arc::clone(&session.info),
        user: Arc::clone(&session.user),
        db: session.db,
        protocol: session.protocol,
        call,
        is_of_primary: !server.replication.is_replica(),
        annex,
        leases,
        is_tracked,
        now,
        reply: Output::new(server.config.output_max(session.class())),
        has_changed: false,
        nanos: 0,
    };
    server.workers.long.push(Task::Run(Box::new(job)));
    Begun::Runs
}

/// Adds the effect of a long command to the feed, as of the command's instant.
fn add_effect<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    locks: &Locks,
    job: &Job,
    changes_before: u64,
) {
    let mut session = Session::new();
    session.db = job.db;
    let (space, mut out) = (&server.data.keyspace, Output::default());
    let end = view.now();
    view.set_now(job.now);
    let reply = Reply::new(&mut out, job.protocol);
    let mut ctx = context(server, space, view, locks, &mut session, None, reply);
    effects::add(
        &mut ctx,
        Ran {
            index: job.call.index,
            args: job.call.args(),
            reply: ReplyAt::Bytes(&job.reply),
            changes_before,
        },
    );
    view.set_now(end);
}

/// Puts back the values of a long command. Returns the keys that expiry and eviction have removed
/// meanwhile.
fn put_back(keyspace: &Keyspace, view: &mut View<'_>, job: &mut Job) -> Vec<Removed> {
    let mut lost = Vec::new();
    let mut other = job.annex.lock_all(view.now());
    for lease in &job.leases {
        view.take_back(lease, &mut other, &mut lost);
    }
    if job.has_changed && !job.leases.iter().any(Lease::is_changed) {
        view.count_redelivery();
    }
    let args = job.call.args();
    let mut first = None;
    let spec = command::table()[job.call.index as usize];
    spec.keys.each(args, |index| first = first.or(Some(index)));
    if let Some(index) = first {
        let key = keyspace.key(job.db, &args[index]);
        view.adopt(&key, &mut other);
    }
    lost
}

/// Runs long commands until the server stops.
pub fn run_thread(server: &Server) {
    while let Some(task) = server.workers.long.next() {
        perform(server, task);
    }
}

/// Performs a task of the thread.
pub fn perform(server: &Server, task: Task) {
    match task {
        Task::Run(mut job) => {
            run_job(server, &mut job);
            let worker = job.info.worker;
            server.workers.inboxes[worker].push(worker, Message::Finished(job));
        }
        Task::Free(job) => drop(job),
    }
}

/// Runs a long command in the keyspace that contains its values.
pub fn run_job(server: &Server, job: &mut Job) {
    let start = Instant::now();
    let mut session = Session::of(Arc::clone(&job.info));
    session.db = job.db;
    session.protocol = job.protocol;
    session.is_authenticated = true;
    session.user = Arc::clone(&job.user);
    session.blocking_state = BlockingState::MustReply;
    let spec = command::table()[job.call.index as usize];
    run_in(server, job, &mut session, spec, job.now);
    job.nanos = start.elapsed().as_nanos() as u64;
}

fn run_in(server: &Server, job: &mut Job, session: &mut Session, spec: &Spec, now: Tick) {
    let mut bytes = std::mem::take(&mut job.reply);
    let reply = Reply::new(&mut bytes, job.protocol);
    let mut view = job.annex.lock_all(now);
    let locks = Locks::All;
    let mut ctx = context(server, &job.annex, &mut view, &locks, session, None, reply);
    (spec.run.slab)(&mut ctx, job.call.args());
    job.has_changed = view.changes() > 0;
    drop(view);
    job.reply = bytes;
}
