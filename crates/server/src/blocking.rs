//! Clients that wait for a key to hold something: BLPOP and its kin.
//!
//! Idea: a command that finds nothing leaves a [`Waiter`] in the queues of its keys, under the locks under
//! which it found nothing. Whoever writes such a key serves those who wait for it before letting go of
//! the locks: it runs their commands again in their stead, first come, first served, and sends the
//! replies to their workers. So no wake-up is lost, nobody gets in between, and nobody asks twice.
//!
//! Whether a client waits is decided under the locks of all shards that its command needs: to serve it,
//! to end its wait (its time is up, CLIENT UNBLOCK, it goes away), they are all held. When who writes
//! holds only some of them, as for a BLMOVE into another shard, it lets go and locks the rest with them:
//! another client may then take the element first, and the one that waits goes on waiting.
//!
//! A reply that is under way to a client which goes away is lost, as on a broken connection.
//!
//! A command joins in with [`Ctx::wait`] where it has found nothing, and has to mean the same when it is
//! run again.

use crate::clients::flag;
use crate::clock::Moment;
use crate::context::{Ctx, Table};
use crate::locks::Locks;
use crate::message::Message;
use crate::queue::Transaction;
use crate::session::Session;
use crate::state::Server;
use crate::waiting::{Stance, Waiter};
use std::sync::Arc;
use store::{Key, Kind, View};
use wire::{Args, Reply};

/// What CLIENT UNBLOCK … ERROR answers in the command's stead.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

impl Ctx<'_, '_> {
    /// Where a command has found nothing: lets its client wait until one of `keys` holds a value of this
    /// kind, or its time is up (`timeout_ms`; 0: never). Then nothing is replied. False when it may not
    /// wait: it replies that there is nothing.
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
        match self.session.stance {
            Stance::MayWait => {}
            Stance::Retries => {
                self.session.stance = Stance::StillWaits;
                return true;
            }
            _ => return false,
        }
        let index = self.table.lookup(args.name()).expect("it runs");
        let mut shards = Vec::new();
        self.table[index as usize].keys.each(args, |at| {
            let key = self.key(&args[at]);
            shards.push(self.server.keyspace.shard_of(&key));
        });
        shards.sort_unstable();
        shards.dedup();
        let mut call = Transaction::default();
        call.push(index, args);
        let now = self.server.clock.moment();
        let waiter = Arc::new(Waiter {
            info: Arc::clone(&self.session.info),
            db: self.session.db,
            protocol: self.session.protocol,
            call,
            keys: keys.map(<[u8]>::to_vec).collect(),
            kind,
            shards,
            deadline: (timeout_ms > 0).then(|| Moment(now.0.saturating_add(timeout_ms))),
        });
        let id = self.session.info.id;
        for bytes in &waiter.keys {
            let key = self.key(bytes);
            self.view.wait(&key, id);
        }
        self.server.blocking.add(Arc::clone(&waiter));
        self.session.set_flag(flag::BLOCKED, true);
        self.session.stance = Stance::Waits(waiter);
        true
    }
}

/// Serves those who wait for keys that a command has just written, and for those that serving writes.
/// Afterwards the view may hold more shards than before.
pub fn serve<'v>(
    server: &'v Server,
    table: &'static Table,
    view: &mut View<'v>,
    locks: &mut Locks,
) {
    let mut ready = Vec::new();
    loop {
        view.take_ready(&mut ready);
        if ready.is_empty() {
            return;
        }
        for (db, bytes) in ready.drain(..) {
            let key = server.keyspace.key(db, &bytes);
            serve_key(server, table, view, locks, &key);
        }
    }
}

/// Serves as many of those who wait for a key as it has something for, in the order in which they came.
fn serve_key<'v>(
    server: &'v Server,
    table: &'static Table,
    view: &mut View<'v>,
    locks: &mut Locks,
    key: &Key<'_>,
) {
    let mut passed = 0;
    while let Some(id) = view.waiter(key, passed) {
        let Some(kind) = view.kind(key) else { return };
        let waiter = server.blocking.get(id).expect("it is in a queue");
        if waiter.kind != kind {
            passed += 1;
        } else if lock_also(server, view, locks, &waiter.shards) {
            // Anybody may have come, gone or been served in the meantime.
            passed = 0;
        } else if !retry(server, table, view, locks, &waiter) {
            passed += 1;
        }
    }
}

/// Locks these shards, too. Whether any was missing: then what was held was let go of for a moment.
fn lock_also<'v>(
    server: &'v Server,
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
    view.exchange(server.keyspace.lock_many(&[], now));
    view.exchange(server.keyspace.lock_many(held, now));
    true
}

/// Runs a command that waits once more, for its client; whether it found something.
fn retry<'v>(
    server: &'v Server,
    table: &'static Table,
    view: &mut View<'v>,
    locks: &Locks,
    waiter: &Arc<Waiter>,
) -> bool {
    let mut session = Session::of(Arc::clone(&waiter.info));
    session.db = waiter.db;
    session.protocol = waiter.protocol;
    session.is_authenticated = true;
    session.stance = Stance::Retries;
    let mut bytes = Vec::new();
    let (index, args) = waiter.call.iter().next().expect("it holds one command");
    let spec = table[index as usize];
    let reply = Reply::new(&mut bytes, waiter.protocol);
    let mut ctx = Ctx {
        view,
        session: &mut session,
        server,
        reply,
        locks,
        table,
        memo: None,
    };
    (spec.run)(&mut ctx, args);
    if matches!(session.stance, Stance::StillWaits) {
        return false;
    }
    server.blocking.withdraw(&server.keyspace, view, waiter);
    answer(server, waiter, bytes);
    true
}

fn answer(server: &Server, waiter: &Waiter, bytes: Vec<u8>) {
    let info = &waiter.info;
    server.inboxes[info.worker].push(info.worker, Message::Answer(info.slot, info.id, bytes));
}

/// Ends a client's wait from outside; false when it does not wait, or was served in the meantime. The
/// caller holds no shard.
pub fn give_up(server: &Server, client: u64) -> Option<Arc<Waiter>> {
    let waiter = server.blocking.get(client)?;
    let mut view = server
        .keyspace
        .lock_many(&waiter.shards, server.clock.now());
    let waits = server.blocking.holds(&waiter);
    if waits {
        server
            .blocking
            .withdraw(&server.keyspace, &mut view, &waiter);
    }
    waits.then_some(waiter)
}

/// CLIENT UNBLOCK: whether the client waited. The caller holds no shard.
pub fn unblock(server: &Server, client: u64, with_error: bool) -> bool {
    let Some(waiter) = give_up(server, client) else {
        return false;
    };
    let mut bytes = Vec::new();
    let mut reply = Reply::new(&mut bytes, waiter.protocol);
    if with_error {
        reply.error(UNBLOCKED);
    } else {
        reply.null_array();
    }
    answer(server, &waiter, bytes);
    true
}
