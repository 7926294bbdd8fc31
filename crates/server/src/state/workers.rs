//! Worker threads, and long commands beside them.

use session::clients::ClientInfo;
use session::inbox::Inbox;
use session::long::Long;
use session::message::Message;
use std::sync::atomic::AtomicUsize;

/// Worker threads, and long commands beside them.
pub struct Workers {
    /// Number of workers. If there is only one, it may keep all shards locked while it serves.
    pub count: usize,
    /// Inbox of each worker.
    pub inboxes: Vec<Inbox>,
    /// Long commands and the clients that wait for them.
    pub long: Long,
    /// Number of workers that no longer execute commands, because the server is stopping.
    pub draining: AtomicUsize,
}

impl Workers {
    /// Wakes all workers.
    pub fn wake_all(&self) {
        for inbox in &self.inboxes {
            inbox.wake();
        }
    }

    /// Wakes all workers except the one that this thread is.
    pub fn wake_others(&self) {
        let own = session::inbox::current();
        for (worker, inbox) in self.inboxes.iter().enumerate() {
            if worker != own {
                inbox.wake();
            }
        }
    }

    /// Requests the worker of a client to disconnect it. From now on the client is not served.
    /// Returns false if that was already requested.
    pub fn disconnect(&self, info: &ClientInfo) -> bool {
        let is_first = info.kill();
        if is_first && let Some(inbox) = self.inboxes.get(info.worker) {
            inbox.push(info.worker, Message::Kill(info.slot, info.id));
        }
        is_first
    }
}
