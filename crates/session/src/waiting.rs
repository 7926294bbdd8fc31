//! Commands that block their clients, and the registry of them.

use crate::acl::User;
use crate::clients::ClientInfo;
use crate::clock::Moment;
use crate::queue::Transaction;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Keyspace, Kind, View};
use wire::Protocol;

/// State of a session with regard to blocking commands.
#[derive(Clone, Debug, Default)]
pub enum BlockingState {
    /// Blocking commands reply immediately: within EXEC, or in a session without a connection.
    #[default]
    MustReply,
    /// A blocking command that finds nothing blocks the client.
    MayBlock,
    /// A command is blocked.
    Blocked(Arc<Waiter>),
    /// A long command of the client runs on the thread for long commands.
    RunsLong,
    /// A blocked command is being executed again on behalf of its client.
    Retrying(Arc<Waiter>),
    /// The command was executed again, has found nothing and remains blocked.
    StillBlocked,
}

/// Value of the moments of a [`Waiter`] that are not set.
pub const NEVER: u64 = u64::MAX;

/// Bytes of an awaited key in addition to its name: the copy of the key here, and the queue in its
/// shard.
const QUEUED_KEY_BYTES: usize = 128;

/// A blocked command.
#[derive(Debug)]
pub struct Waiter {
    /// Client that sent the command.
    pub info: Arc<ClientInfo>,
    /// User of the client. Its rights are looked up again when the command is executed again.
    pub user: Arc<User>,
    /// Selected database of the client.
    pub db: u8,
    /// Protocol version of the client.
    pub protocol: Protocol,
    /// The command with its arguments.
    pub call: Transaction,
    /// Keys that the command waits for.
    pub keys: Vec<Vec<u8>>,
    /// Type of value that the command waits for.
    pub kind: Kind,
    /// Whether the command may also end, with an error or another reply, when a key is removed or
    /// holds another type.
    pub may_fail: bool,
    /// Whether the command runs once more at the end of the wait, for a reply of its own.
    pub replies_late: bool,
    /// Whether the command writes.
    pub writes: bool,
    /// Shards that the command needs, in ascending order.
    pub shards: Vec<usize>,
    /// End of the wait; `None` if it has no timeout.
    pub deadline: Option<Moment>,
    /// Moment at which the command runs again even if no key was written, because something that it
    /// waits for is due then; [`NEVER`] if there is no such moment.
    pub retry_at: AtomicU64,
    /// Moment for which the worker of the client has set its timer, or [`NEVER`]. Only that worker
    /// uses it.
    pub timer: AtomicU64,
    /// Time in nanoseconds that the command has taken so far, not counting the wait.
    pub own_nanos: AtomicU64,
}

impl Waiter {
    /// Returns the earliest moment at which the client's worker must act.
    pub fn next_moment(&self) -> Option<Moment> {
        let retry = Some(self.retry_at.load(Relaxed)).filter(|at| *at != NEVER);
        let moments = [retry.map(Moment), self.deadline];
        moments.into_iter().flatten().min()
    }

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        // The shards have a copy of each key in their queues.
        let keys = self.keys.iter().map(|key| 2 * key.len() + QUEUED_KEY_BYTES);
        self.call.heap_bytes() + keys.sum::<usize>() + size_of::<Waiter>()
    }
}

/// All blocked commands by client id. A client has at most one.
#[derive(Default)]
pub struct Blocking {
    waiters: Mutex<HashMap<u64, Arc<Waiter>>>,
}

impl Blocking {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Arc<Waiter>>> {
        self.waiters.lock().expect("the lock is not poisoned")
    }

    /// Adds a blocked command. The client must not have another one.
    pub fn add(&self, waiter: Arc<Waiter>) {
        let before = self.all().insert(waiter.info.id, waiter);
        assert!(before.is_none(), "a blocked client sends no other command");
    }

    /// Returns the number of blocked clients.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether no client is blocked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of blocked clients with a timeout.
    pub fn with_deadline(&self) -> usize {
        let all = self.all();
        all.values()
            .filter(|waiter| waiter.deadline.is_some())
            .count()
    }

    /// Returns the number of keys whose removal ends a blocked command with an error.
    pub fn failing_keys(&self) -> usize {
        let all = self.all();
        let keys = all.values().filter(|waiter| waiter.may_fail);
        let keys = keys.flat_map(|waiter| waiter.keys.iter().map(|key| (waiter.db, &key[..])));
        keys.collect::<HashSet<_>>().len()
    }

    /// Returns all blocked commands.
    pub fn list(&self) -> Vec<Arc<Waiter>> {
        self.all().values().cloned().collect()
    }

    /// Returns the blocked command of a client.
    pub fn get(&self, client: u64) -> Option<Arc<Waiter>> {
        self.all().get(&client).cloned()
    }

    /// Whether the registry still contains this blocked command. It does not if the command was
    /// served, or if its client has since blocked on another one.
    pub fn holds(&self, waiter: &Arc<Waiter>) -> bool {
        let all = self.all();
        all.get(&waiter.info.id)
            .is_some_and(|at| Arc::ptr_eq(at, waiter))
    }

    /// Removes a blocked command from the registry and from the queues of all its keys. The caller
    /// must have locked its shards.
    pub fn withdraw(&self, space: &Keyspace, view: &mut View<'_>, waiter: &Waiter) {
        self.all().remove(&waiter.info.id);
        for bytes in &waiter.keys {
            let key = space.key(waiter.db, bytes);
            view.cancel_wait(&key, waiter.info.id);
        }
    }
}
