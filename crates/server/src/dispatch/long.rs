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

mod way;

pub(super) use way::{
    Way, exceeds_output, must_purge_names, needs, needs_names, reply_bytes_max, way,
    way_of_large_reply,
};

use super::shards::{lock_for, wake_owners};
use super::steps::Steps;
use super::{Engine, Executor, Step, context, is_late, publish};
use crate::blocking;
use crate::command::{self, tracking};
use crate::context::Spec;
use crate::effects::{self, Ran, ReplyAt};
use crate::replication::role;
use crate::state::{Server, Workers};
use durability::replication::READ_ONLY;
use engine::refusal::refuse_full;
use session::locks::{Locks, Room, lock, lock_now, make_room};
use session::long::{Job, Task};
use session::message::Message;
use session::queue::OwnedCall;
use session::session::Session;
use session::spec::flag;
use session::tracking::TrackingOptions;
use session::waiting::BlockingState;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;
use store::{Keyspace, Lease, Loan, Removed, Tick, View};
use wire::{Output, Reply};

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

/// Ends the wait of a client.
pub(super) fn leave(workers: &Workers, session: &mut Session) {
    if let Some(ticket) = session.ticket.take()
        && workers.long.leave(ticket)
    {
        workers.wake_all();
    }
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
        if let Some(waits) = self.route_long(session, &call, out) {
            leave(&server.workers, session);
            if waits {
                return Begun::Waits(call);
            }
            super::after_reply(session, out, position, false);
            return Begun::Refused;
        }
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

    /// Checks whether this node executes a long command, which may have waited since it was routed.
    /// Returns `None` if it does; otherwise whether the command waits for the end of a hold. If it
    /// does not wait, the error is written.
    fn route_long(
        &mut self,
        session: &mut Session,
        call: &OwnedCall,
        out: &mut Output,
    ) -> Option<bool> {
        let args = call.args();
        let chosen = command::table().choose(call.index, args);
        let mut reply = Reply::new(out, session.protocol);
        let routed = self
            .router
            .route(self.server, session, &chosen, &args, &mut reply);
        routed.map(|step| step == Step::Waits)
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
    let db = command::written_db(spec, args, session.db);
    if flags & flag::DENYOOM != 0
        && let Room::None(full) = make_room(&server.data.keyspace, view, locks, db)
    {
        reply.error(&refuse_full(&server.data.keyspace, db, full));
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
