//! Long commands: jobs for the thread that runs them, the keys that it works on, and the order of
//! the clients that wait for these keys or for the thread.
//!
//! A command that may take longer than a worker should be busy does not run on the worker. The
//! worker moves the values of the command's keys to a separate keyspace, in constant time per key,
//! where the thread for long commands runs the command. Until the values are back, a command that
//! names one of these keys waits together with its client; all others run. At the end, the worker
//! puts the values back, publishes the events and sends the reply, in one step for other clients.
//! `dispatch/long.rs` does all this; this module holds the state.
//!
//! There is one thread, so at most one long command runs at a time. A client that must wait gets a
//! ticket when its wait begins. A long command begins only if no client with an earlier ticket
//! waits, so that a client that sends one long command after another cannot keep others waiting.

use crate::acl::User;
use crate::clients::ClientInfo;
use crate::queue::OwnedCall;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use store::{Keyspace, Lease, Tick};
use wire::{Output, Protocol};

/// A long command with the values of its keys.
pub struct Job {
    /// Client that sent the command.
    pub info: Arc<ClientInfo>,
    /// User of the client.
    pub user: Arc<User>,
    /// Selected database of the client.
    pub db: u8,
    /// Protocol version of the client.
    pub protocol: Protocol,
    /// The command with its arguments.
    pub call: OwnedCall,
    /// Keyspace that contains the values of the keys while the command runs.
    pub annex: Keyspace,
    /// Values that were moved to the annex.
    pub leases: Vec<Lease>,
    /// Whether the server was a primary when the command began.
    pub is_of_primary: bool,
    /// Whether the client caches the keys that the command reads.
    pub is_tracked: bool,
    /// Time at which the command runs.
    pub now: Tick,
    /// Reply of the command when it has run.
    pub reply: Output,
    /// Whether the command has counted a change, either of a key or of an entry's delivery count.
    pub has_changed: bool,
    /// Duration of the command in nanoseconds.
    pub nanos: u64,
}

/// Work for the thread.
pub enum Task {
    /// Run a command.
    Run(Box<Job>),
    /// Free the remains of a finished command.
    Free(Box<Job>),
}

/// State of long commands.
#[derive(Default)]
pub struct Long {
    /// Number of clients with tickets, plus one while a command runs and one while a snapshot is in
    /// progress. 0 means that a command needs no check. It changes under the locks of the keys'
    /// shards, or when it only decreases.
    active: AtomicUsize,
    state: Mutex<State>,
    has_task: Condvar,
    /// For each worker whether its waiting clients should try again.
    retries: Vec<AtomicBool>,
    /// Number of long commands that have run.
    pub count: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Names of the keys that the running command uses or whose value a snapshot has borrowed;
    /// `None` if there are none.
    leased: Option<HashSet<Box<[u8]>>>,
    /// Tickets of the waiting clients.
    tickets: BTreeSet<u64>,
    next_ticket: u64,
    /// Keys that were written while a client blocked on them also needed a leased key.
    passed_over: Vec<(u8, Vec<u8>)>,
    tasks: VecDeque<Task>,
    stops: bool,
}

impl Long {
    /// Creates the state for a number of workers.
    pub fn new(workers: usize) -> Long {
        Long {
            retries: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            ..Long::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Whether a long command runs, a client waits or a snapshot is in progress. If not, a command
    /// needs no further check.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed) > 0
    }

    /// Whether a long command runs, or a snapshot has borrowed a value.
    pub fn is_running(&self) -> bool {
        self.state().leased.is_some()
    }

    /// Returns the number of waiting clients.
    pub fn waiting(&self) -> usize {
        self.state().tickets.len()
    }

    /// Calls `conflicts` with a function that returns whether a key is in use. Returns its result;
    /// false if no long command runs.
    pub fn blocks(&self, conflicts: impl FnOnce(&dyn Fn(&[u8]) -> bool) -> bool) -> bool {
        match &self.state().leased {
            Some(names) => conflicts(&|name| names.contains(name)),
            None => false,
        }
    }

    /// Whether a long command, or a snapshot, uses a key of which this is true.
    pub fn uses(&self, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
        let state = self.state();
        let mut names = state.leased.iter().flatten();
        names.any(|name| is_wanted(name))
    }

    /// Whether a client's long command may begin. `ticket` is the client's ticket, if it has one.
    pub fn may_begin(&self, ticket: Option<u64>) -> bool {
        let state = self.state();
        let first = state.tickets.first().copied();
        state.leased.is_none() && first.is_none_or(|first| Some(first) == ticket)
    }

    /// Returns the ticket of a client that begins or continues to wait.
    pub fn wait(&self, ticket: Option<u64>) -> u64 {
        if let Some(ticket) = ticket {
            return ticket;
        }
        let mut state = self.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.tickets.insert(ticket);
        self.active.fetch_add(1, Relaxed);
        ticket
    }

    /// Removes the ticket of a client that no longer waits. Returns whether the other waiting
    /// clients should try again.
    pub fn leave(&self, ticket: u64) -> bool {
        let mut state = self.state();
        if !state.tickets.remove(&ticket) {
            return false;
        }
        self.active.fetch_sub(1, Relaxed);
        let retries = state.leased.is_none() && !state.tickets.is_empty();
        if retries {
            self.request_retries();
        }
        retries
    }

    /// Begins a long command on these keys. The caller must have checked [`Long::may_begin`] and
    /// locked the keys' shards. Returns false if another worker has begun one in the meantime.
    pub fn begin(&self, names: HashSet<Box<[u8]>>) -> bool {
        let has_begun = self.lease(names);
        self.count.fetch_add(u64::from(has_begun), Relaxed);
        has_begun
    }

    /// Reserves keys until [`Long::end`]. The caller must have locked their shards. Returns false
    /// if other keys are reserved.
    pub fn lease(&self, names: HashSet<Box<[u8]>>) -> bool {
        let mut state = self.state();
        if state.leased.is_some() {
            return false;
        }
        state.leased = Some(names);
        self.active.fetch_add(1, Relaxed);
        true
    }

    /// Requires that commands be checked until [`Long::release`], because a snapshot begins. The
    /// caller must have locked all shards.
    pub fn hold(&self) {
        self.active.fetch_add(1, Relaxed);
    }

    /// Ends [`Long::hold`].
    pub fn release(&self) {
        self.active.fetch_sub(1, Relaxed);
    }

    /// Ends the long command, so that its keys can be used and the next one can begin. The caller
    /// must have locked the keys' shards.
    pub fn end(&self) {
        let mut state = self.state();
        let leased = state.leased.take();
        assert!(leased.is_some(), "keys are reserved");
        self.active.fetch_sub(1, Relaxed);
        if !state.tickets.is_empty() {
            self.request_retries();
        }
    }

    /// Remembers a key that was written while a client blocked on it also needed a leased key.
    pub fn pass_over(&self, db: u8, key: &[u8]) {
        let mut state = self.state();
        if !state.passed_over.iter().any(|at| at.0 == db && at.1 == key) {
            state.passed_over.push((db, key.to_vec()));
        }
    }

    /// Returns the keys that were skipped since the last call.
    pub fn take_passed_over(&self) -> Vec<(u8, Vec<u8>)> {
        std::mem::take(&mut self.state().passed_over)
    }

    /// Lets the waiting clients of all workers try again. The caller wakes the workers.
    pub fn request_retries(&self) {
        for retries in &self.retries {
            retries.store(true, Ordering::Release);
        }
    }

    /// Whether the waiting clients of a worker should try again.
    #[inline]
    pub fn has_retry(&self, worker: usize) -> bool {
        self.retries
            .get(worker)
            .is_some_and(|retries| retries.load(Ordering::Acquire))
    }

    /// Returns whether the waiting clients of a worker should try again, and clears the request.
    pub fn take_retry(&self, worker: usize) -> bool {
        self.has_retry(worker) && self.retries[worker].swap(false, Ordering::AcqRel)
    }

    /// Adds a task for the thread.
    pub fn push(&self, task: Task) {
        self.state().tasks.push_back(task);
        self.has_task.notify_one();
    }

    /// Returns the next task, if any.
    pub fn try_next(&self) -> Option<Task> {
        self.state().tasks.pop_front()
    }

    /// Waits for the next task; `None` when the server stops.
    pub fn next(&self) -> Option<Task> {
        let mut state = self.state();
        loop {
            if state.stops {
                return None;
            }
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            state = self.has_task.wait(state).expect("the lock is not poisoned");
        }
    }

    /// Ends the thread after its current task.
    pub fn stop(&self) {
        self.state().stops = true;
        self.has_task.notify_all();
    }
}
