//! Clients waiting until replicas or the append-only file have their writes: WAIT and WAITAOF.

use session::clock::Moment;
use session::message::Subscriber;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wire::Protocol;

/// A client's wait.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The client.
    pub client: Subscriber,
    /// Protocol version of the client.
    pub protocol: Protocol,
    /// Feed position that must be reached.
    pub position: u64,
    /// Whether this server's append-only file must reach it too; `None` for WAIT.
    pub local: Option<bool>,
    /// Number of replicas that must reach the position.
    pub replicas: usize,
    /// Deadline of the wait.
    pub deadline: Option<Moment>,
}

/// All waiting clients.
#[derive(Default)]
pub struct Waits {
    all: Mutex<Vec<Wait>>,
    count: AtomicUsize,
}

impl Waits {
    /// Adds a client.
    pub fn add(&self, wait: Wait) {
        let mut all = self.all.lock().expect("the lock is not poisoned");
        all.push(wait);
        self.count.store(all.len(), Relaxed);
    }

    /// Removes a client that has disconnected.
    pub fn remove(&self, client: u64) {
        if self.count.load(Relaxed) > 0 {
            let mut all = self.all.lock().expect("the lock is not poisoned");
            all.retain(|wait| wait.client.client != client);
            self.count.store(all.len(), Relaxed);
        }
    }

    /// Whether no client waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Moment> {
        if self.is_empty() {
            return None;
        }
        let all = self.all.lock().expect("the lock is not poisoned");
        all.iter().filter_map(|wait| wait.deadline).min()
    }

    /// Removes the clients whose wait is over and returns them.
    pub fn take(&self, mut is_over: impl FnMut(&Wait) -> bool) -> Vec<Wait> {
        let mut over = Vec::new();
        let mut all = self.all.lock().expect("the lock is not poisoned");
        all.retain(|wait| {
            let is_over = is_over(wait);
            if is_over {
                over.push(*wait);
            }
            !is_over
        });
        self.count.store(all.len(), Relaxed);
        over
    }
}
