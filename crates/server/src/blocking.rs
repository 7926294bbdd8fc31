//! Clients that block until a key has a value: BLPOP and similar commands.
//!
//! A command that finds nothing adds a [`Waiter`] to the queues of its keys, under the same locks
//! under which it found nothing. A client that writes such a key serves the blocked clients before
//! it releases the locks: it runs their commands again on their behalf, in the order in which they
//! blocked, and sends the replies to their workers. Thus no wake-up is lost, no other client can
//! take the element in between, and clients do not poll.
//!
//! A client starts to block under the locks of all shards that its command needs. To serve it or to
//! end its wait (timeout, CLIENT UNBLOCK, disconnection), all these shards are locked. If a writer
//! holds only some of them, as for a BLMOVE to another shard, it releases its locks and locks all
//! shards together. Another client may take the element in between; then the blocked client remains
//! blocked.
//!
//! A server that becomes a replica ends all waits, because its clients may no longer change its
//! keys.
//!
//! A client that is not reachable is not served: one that the server has decided to disconnect, or
//! whose disconnection has arrived at its socket. Its worker ends its wait later. A client that was
//! served before the server decided to disconnect it receives the reply before its connection is
//! closed. An element is thus lost only if a connection breaks after the element was popped.
//!
//! A client is served at the current instant, because the command that wrote the key may have taken
//! longer than the TTL that it set.
//!
//! A command supports blocking by calling [`Ctx::wait`] where it has found nothing. It must have
//! the same meaning when it is run again.

use crate::context::{Ctx, Table};
use crate::effects;
use crate::permission::check_session;
use crate::state::Server;
use engine::slab::Slab;
use session::acl::log::Context;
use session::clients::flag as client_flag;
use session::clock::{Clock, Moment};
use session::inbox::Inbox;
use session::locks::Locks;
use session::long::Long;
use session::message::{Message, Subscriber};
use session::queue::Transaction;
use session::session::Session;
use session::spec::flag;
use session::waiting::{BlockingState, NEVER, Waiter};
use settings::Id;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use store::{Event, Key, Keyspace, Kind, Tick, View};
use wire::slot::slot;
use wire::{Args, Output, Reply};

/// Reply of CLIENT UNBLOCK … ERROR to the blocked command.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// Reply to the blocked commands of a primary that becomes a replica.
const BECAME_REPLICA: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// Time after which a command that waits for an instant is tried again if CLIENT PAUSE or a stop
/// holds it.
const HELD_RETRY_MS: u64 = 10;

impl Ctx<'_, '_> {
    /// Blocks the client until one of `keys` holds a value of this kind, or until the timeout (0
    /// means none). A command calls it when it has found nothing; it must not write a reply if the
    /// result is true. Returns false if the client may not block; the command then replies that
    /// there is nothing.
    ///
    /// All keys of `args` are locked, as for any command, and `keys` are among them.
    #[must_use = "a command that may not wait has to reply"]
    pub fn wait<'k>(
        &mut self,
        args: Args<'k>,
        keys: impl Iterator<Item = &'k [u8]>,
        kind: Kind,
        timeout_ms: u64,
    ) -> bool {
        self.wait_until(args, keys, kind, timeout_ms, None)
    }

    /// Like [`Ctx::wait`], for a command that also waits for an instant: it runs again at
    /// `retry_at`, or earlier whenever one of the keys is written.
    #[must_use = "a command that may not wait has to reply"]
    pub fn wait_until<'k>(
        &mut self,
        args: Args<'k>,
        keys: impl Iterator<Item = &'k [u8]>,
        kind: Kind,
        timeout_ms: u64,
        retry_at: Option<Tick>,
    ) -> bool {
        let now = self.server.clock.moment();
        let moment = |at: Tick| now.0.saturating_add(at.0.saturating_sub(self.view.now().0));
        let retry_at = retry_at.map_or(NEVER, moment);
        match &self.session.blocking_state {
            BlockingState::MayBlock => {}
            // A command that replies itself when its time is over.
            BlockingState::Retrying(waiter)
                if waiter.replies_late && waiter.deadline.is_some_and(|end| end < now) =>
            {
                return false;
            }
            BlockingState::Retrying(waiter) => {
                waiter.retry_at.store(retry_at, Relaxed);
                self.session.blocking_state = BlockingState::StillBlocked;
                return true;
            }
            _ => return false,
        }
        let index = self.table.lookup(args.name()).expect("it runs");
        let mut shards = Vec::new();
        self.table[index as usize].keys.each(args, |at| {
            let key = self.key(&args[at]);
            shards.push(self.server.data.keyspace.shard_of(&key));
        });
        shards.sort_unstable();
        shards.dedup();
        let mut call = Transaction::default();
        if !call.push(index, args) {
            return false;
        }
        let writes = self.table[index as usize].has(flag::WRITE);
        let waiter = Arc::new(Waiter {
            info: Arc::clone(&self.session.info),
            user: Arc::clone(&self.session.user),
            db: self.session.db,
            protocol: self.session.protocol,
            call,
            keys: keys.map(<[u8]>::to_vec).collect(),
            kind,
            // FETCH waits for a string, or for the end of a lease.
            may_fail: kind == Kind::Stream && writes || kind == Kind::String,
            replies_late: kind == Kind::String,
            writes,
            shards,
            deadline: (timeout_ms > 0).then(|| Moment(now.0.saturating_add(timeout_ms))),
            retry_at: AtomicU64::new(retry_at),
            timer: AtomicU64::new(NEVER),
            own_nanos: AtomicU64::new(0),
        });
        let id = self.session.info.id;
        for bytes in &waiter.keys {
            let key = self.key(bytes);
            self.view.wait(&key, id);
        }
        self.server.clients.blocking.add(Arc::clone(&waiter));
        self.session.set_flag(client_flag::BLOCKED, true);
        self.session.blocking_state = BlockingState::Blocked(waiter);
        true
    }
}

/// Serves the clients blocked on keys that a command has just written. Serving a client may write
/// further keys; the clients blocked on those are served too. The view may hold more shards
/// afterwards. Its instant is set back to the command's.
pub fn serve<'v>(
    server: &'v Server,
    table: &'static Table,
    view: &mut View<'v>,
    locks: &mut Locks,
) {
    let (mut ready, now) = (Vec::new(), view.now());
    loop {
        view.take_ready(&mut ready);
        if ready.is_empty() {
            return view.set_now(now);
        }
        for (db, bytes) in ready.drain(..) {
            let key = server.data.keyspace.key(db, &bytes);
            serve_key(server, table, view, locks, &key);
        }
    }
}

/// Serves the clients blocked on a key in the order in which they blocked, while the key has
/// elements for them.
fn serve_key<'v>(
    server: &'v Server,
    table: &'static Table,
    view: &mut View<'v>,
    locks: &mut Locks,
    key: &Key<'_>,
) {
    let (mut skipped, mut was_released) = (0, false);
    while let Some(id) = view.waiter(key, skipped) {
        let kind = view.kind(key);
        let waiter = server.clients.blocking.get(id).expect("it is in a queue");
        if kind != Some(waiter.kind) && !waiter.may_fail || is_read_only(server, table, &waiter) {
            skipped += 1;
        } else if is_passed_over(&server.workers.long, table, &waiter) {
            server.workers.long.pass_over(key.db, key.bytes);
            skipped += 1;
        } else if lock_also(&server.data.keyspace, view, locks, &waiter.shards) {
            // The queue may have changed while the locks were released.
            (skipped, was_released) = (0, true);
        } else if was_released && server.data.pause.holds(true, server.clock.moment())
            || is_elsewhere(server, &waiter)
        {
            retry_later(&server.clock, &server.workers.inboxes, &waiter);
            skipped += 1;
        } else if !retry(server, table, view, locks, &waiter) {
            skipped += 1;
        }
    }
}

/// Whether a blocked command would write to a replica whose clients may only read.
fn is_read_only(server: &Server, table: &'static Table, waiter: &Waiter) -> bool {
    let writes = |(index, args)| table.choose(index, args).flags() & flag::WRITE != 0;
    server.replication.is_replica()
        && server.config.is_on(Id::ReplicaReadOnly)
        && waiter.call.iter().any(writes)
}

/// Whether the stored call of a blocked client needs a key that a long command works on.
fn is_passed_over(long: &Long, table: &'static Table, waiter: &Waiter) -> bool {
    long.is_active()
        && long.blocks(|is_leased| {
            waiter.call.iter().any(|(index, args)| {
                let mut is_needed = false;
                let keys = table[index as usize].keys;
                keys.each(args, |index| is_needed |= is_leased(&args[index]));
                is_needed
            })
        })
}

/// Whether commands on the slot of a blocked command are held, or another node of the cluster
/// executes them.
fn is_elsewhere(server: &Server, waiter: &Waiter) -> bool {
    if !server.cluster.is_routed() {
        return false;
    }
    let (routes, slot) = (
        server.cluster.routes(),
        waiter.keys.first().map(|key| slot(key)),
    );
    slot.is_some_and(|slot| !routes.is_own(slot) || routes.held_since(slot).is_some())
}

/// Makes a blocked command run again once writes are no longer held.
fn retry_later(clock: &Clock, inboxes: &[Inbox], waiter: &Waiter) {
    let at = clock.moment().0.saturating_add(HELD_RETRY_MS);
    waiter.retry_at.fetch_min(at, Relaxed);
    plan(inboxes, waiter);
}

/// Lets the worker of a blocked client set its timer again.
fn plan(inboxes: &[Inbox], waiter: &Waiter) {
    let info = &waiter.info;
    let message = Message::Plan(info.slot, info.id);
    inboxes[info.worker].push(info.worker, message);
}

/// Locks these shards in addition to those of the view. Returns whether any of them was not locked
/// before. In that case all locks were released and taken again in between.
fn lock_also<'v>(
    keyspace: &'v Keyspace,
    view: &mut View<'v>,
    locks: &mut Locks,
    shards: &[usize],
) -> bool {
    let Locks::Some(held) = locks else {
        return false;
    };
    if shards.iter().all(|shard| held.binary_search(shard).is_ok()) {
        return false;
    }
    held.extend_from_slice(shards);
    held.sort_unstable();
    held.dedup();
    let now = view.now();
    view.exchange(keyspace.lock_many(&[], now));
    view.exchange(keyspace.lock_many(held, now));
    true
}

/// Runs a blocked command again on behalf of its client, at the current instant. Returns whether it
/// found something.
fn retry<'v>(
    server: &'v Server,
    table: &'static Table,
    view: &mut View<'v>,
    locks: &Locks,
    waiter: &Arc<Waiter>,
) -> bool {
    if !waiter.info.is_reachable() {
        return false;
    }
    view.set_now(server.clock.now());
    let mut session = Session::of(Arc::clone(&waiter.info));
    session.db = waiter.db;
    session.protocol = waiter.protocol;
    session.is_authenticated = true;
    session.user = Arc::clone(&waiter.user);
    session.blocking_state = BlockingState::Retrying(Arc::clone(waiter));
    let retry_at = waiter.retry_at.load(Relaxed);
    let mut output = Output::new(server.config.output_max(session.class()));
    let (index, args) = waiter.call.iter().next().expect("it holds one command");
    let spec = table[index as usize];
    let reply = Reply::new(&mut output, waiter.protocol);
    let mut ctx = Ctx {
        view: Slab::new(view, &server.data.keyspace, locks),
        session: &mut session,
        server,
        reply,
        table,
        memo: None,
    };
    let start = Instant::now();
    let chosen = table.choose(index, args);
    match check_session(table, server, ctx.session, chosen, args, Context::TopLevel) {
        Ok(()) if server.feed.is_on() => effects::run(&mut ctx, index, args),
        Ok(()) => (spec.run.slab)(&mut ctx, args),
        Err(denied) => {
            let text = denied.text(&ctx.session.user, chosen, args, false);
            ctx.reply.error(&format!("NOPERM {text}"));
        }
    }
    let nanos = start.elapsed().as_nanos() as u64;
    waiter.own_nanos.fetch_add(nanos, Relaxed);
    if matches!(session.blocking_state, BlockingState::StillBlocked) {
        if waiter.retry_at.load(Relaxed) != retry_at {
            plan(&server.workers.inboxes, waiter);
        }
        return false;
    }
    server
        .clients
        .blocking
        .withdraw(&server.data.keyspace, view, waiter);
    answer(&server.workers.inboxes, waiter, output);
    true
}

fn answer(inboxes: &[Inbox], waiter: &Waiter, reply: Output) {
    let info = &waiter.info;
    inboxes[info.worker].push(info.worker, Message::Answer(info.slot, info.id, reply));
}

/// Reruns a blocked command whose time has come. The caller must not hold a shard, and publishes
/// the events.
pub fn retry_in_time(
    server: &Server,
    table: &'static Table,
    waiter: &Arc<Waiter>,
    events: &mut Vec<Event>,
) {
    if is_passed_over(&server.workers.long, table, waiter) {
        let pass = |bytes: &Vec<u8>| server.workers.long.pass_over(waiter.db, bytes);
        return waiter.keys.iter().for_each(pass);
    }
    let mut locks = Locks::Some(waiter.shards.clone());
    let now = server.clock.now();
    let mut view = server.data.keyspace.lock_many(&waiter.shards, now);
    // The command writes. It runs again when the pause has ended.
    if server.data.pause.holds(true, server.clock.moment()) || is_elsewhere(server, waiter) {
        let at = server.clock.moment().0.saturating_add(HELD_RETRY_MS);
        return waiter.retry_at.store(at, Relaxed);
    }
    if server.clients.blocking.holds(waiter) && !is_read_only(server, table, waiter) {
        retry(server, table, &mut view, &locks, waiter);
        serve(server, table, &mut view, &mut locks);
        view.take_events(events);
    }
}

/// Ends a client's wait. Returns `None` if the client is not blocked or was served in the meantime.
/// The caller must not hold a shard.
pub fn end_wait(server: &Server, client: u64) -> Option<Arc<Waiter>> {
    let waiter = server.clients.blocking.get(client)?;
    let mut view = server
        .data
        .keyspace
        .lock_many(&waiter.shards, server.clock.now());
    let waits = server.clients.blocking.holds(&waiter);
    if waits {
        server
            .clients
            .blocking
            .withdraw(&server.data.keyspace, &mut view, &waiter);
    }
    waits.then_some(waiter)
}

/// Runs CLIENT UNBLOCK. Returns whether the client was blocked. The caller must not hold a shard.
pub fn unblock(server: &Server, client: u64, with_error: bool) -> bool {
    // A client that is being disconnected is not blocked any more, for other clients.
    let blocked = server.clients.blocking.get(client);
    if blocked.is_none_or(|waiter| waiter.info.is_killed()) {
        return false;
    }
    let Some(waiter) = end_wait(server, client) else {
        return false;
    };
    let mut output = Output::default();
    let mut reply = Reply::new(&mut output, waiter.protocol);
    if with_error {
        reply.error(UNBLOCKED);
    } else {
        reply.null_array();
    }
    answer(&server.workers.inboxes, &waiter, output);
    true
}

/// Sends an error to a blocked client, whose wait the caller has ended.
pub fn refuse(server: &Server, waiter: &Waiter, error: &str) {
    let mut output = Output::default();
    Reply::new(&mut output, waiter.protocol).error(error);
    answer(&server.workers.inboxes, waiter, output);
}

/// Ends the waits of all clients with an error, because the server becomes a replica: waits for
/// keys, for replicas and for the append-only file. All shards are locked, so that no client begins
/// to wait for a key meanwhile.
pub fn unblock_all(server: &Server, view: &mut View<'_>) {
    let error = |protocol| {
        let mut output = Output::default();
        Reply::new(&mut output, protocol).error(BECAME_REPLICA);
        output
    };
    for waiter in server.clients.blocking.list() {
        server
            .clients
            .blocking
            .withdraw(&server.data.keyspace, view, &waiter);
        answer(&server.workers.inboxes, &waiter, error(waiter.protocol));
    }
    for wait in server.replication.waits.take(|_| true) {
        let Subscriber {
            worker,
            slot,
            client,
        } = wait.client;
        let worker = worker.min(server.workers.count - 1);
        let message = Message::Answer(slot, client, error(wait.protocol));
        server.workers.inboxes[worker].push(worker, message);
    }
}
