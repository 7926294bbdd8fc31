//! Clients that wait within a blocking command.

use crate::clients::ClientInfo;
use crate::clock::Moment;
use crate::queue::Transaction;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Keyspace, Kind, View};
use wire::Protocol;

/// What a session's commands do that find nothing.
#[derive(Clone, Debug, Default)]
pub enum Stance {
    /// Answer that there is nothing: within EXEC, or without a connection that could wait.
    #[default]
    Answers,
    /// Wait, if they can.
    MayWait,
    /// One waits.
    Waits(Arc<Waiter>),
    /// One that waits is run again in its client's stead.
    Retries,
    /// It has found nothing again.
    StillWaits,
}

/// One command that waits.
#[derive(Debug)]
pub struct Waiter {
    /// Whose it is.
    pub info: Arc<ClientInfo>,
    /// Its database.
    pub db: u8,
    /// Its dialect.
    pub protocol: Protocol,
    /// The command.
    pub call: Transaction,
    /// What it waits for: any of these keys, holding this.
    pub keys: Vec<Vec<u8>>,
    /// The type of value that it waits for.
    pub kind: Kind,
    /// The shards that it needs, ascending.
    pub shards: Vec<usize>,
    /// Until when it waits.
    pub deadline: Option<Moment>,
}

impl Waiter {
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let keys = self.keys.iter().map(Vec::capacity).sum::<usize>();
        self.call.heap_bytes() + keys + size_of::<Waiter>()
    }
}

/// All that wait, by the client's id, of which each has one at most.
#[derive(Default)]
pub struct Blocking {
    waiters: Mutex<HashMap<u64, Arc<Waiter>>>,
}

impl Blocking {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Arc<Waiter>>> {
        self.waiters.lock().expect("no holder panics")
    }

    /// Adds a waiter; it is its client's only one.
    pub fn add(&self, waiter: Arc<Waiter>) {
        let before = self.all().insert(waiter.info.id, waiter);
        assert!(before.is_none(), "a client that waits sends nothing else");
    }

    /// How many clients wait.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them wait for some time only.
    pub fn with_deadline(&self) -> usize {
        let all = self.all();
        all.values()
            .filter(|waiter| waiter.deadline.is_some())
            .count()
    }

    /// A client's waiter.
    pub fn get(&self, client: u64) -> Option<Arc<Waiter>> {
        self.all().get(&client).cloned()
    }

    /// Whether this one still waits.
    pub fn holds(&self, waiter: &Arc<Waiter>) -> bool {
        let all = self.all();
        all.get(&waiter.info.id)
            .is_some_and(|at| Arc::ptr_eq(at, waiter))
    }

    /// Takes a waiter out of all queues; all its shards are locked.
    pub fn withdraw(&self, space: &Keyspace, view: &mut View<'_>, waiter: &Waiter) {
        self.all().remove(&waiter.info.id);
        for bytes in &waiter.keys {
            let key = space.key(waiter.db, bytes);
            view.cancel_wait(&key, waiter.info.id);
        }
    }
}
