//! Inboxes of the workers for messages from other workers.

use crate::message::Message;
use mio::Waker;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Maximum number of bytes of published messages that wait for one worker. A subscriber whose
/// message does not fit is disconnected, like one whose output buffer is full, so that it notices
/// the loss. Messages between workers other than publications are not counted.
pub const INBOX_BYTES_MAX: usize = 64 << 20;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Records that this thread is the worker with this index. A worker does not wake itself.
pub fn enter(worker: usize) {
    CURRENT.set(worker);
}

/// Inbox of one worker.
#[derive(Default)]
pub struct Inbox {
    queue: Mutex<Vec<Message>>,
    bytes: AtomicUsize,
    is_filled: AtomicBool,
    waker: OnceLock<Waker>,
    /// Time at which the worker will wake to check its deadlines, in ms since 1970; 0 while it is
    /// awake.
    planned_ms: AtomicU64,
}

impl Inbox {
    /// Sets the waker of the worker.
    pub fn set_waker(&self, waker: Waker) {
        // A second waker would mean that two workers have the same index.
        assert!(self.waker.set(waker).is_ok(), "one worker per inbox");
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // If the eventfd is full, the worker wakes anyway.
            let _ = waker.wake();
        }
    }

    /// Adds a message. Returns false if there is no space for it.
    pub fn push(&self, worker: usize, message: Message) -> bool {
        let size = match &message {
            Message::Deliver(_, publication, _) => publication.bytes() + size_of::<Message>(),
            Message::Send(_, bytes) | Message::Monitor(_, bytes) => {
                bytes.len() + size_of::<Message>()
            }
            Message::Invalidate(_, keys, _) => {
                keys.as_ref().map_or(0, |keys| keys.len()) + size_of::<Message>()
            }
            _ => 0,
        };
        if size > 0 && self.bytes.load(Ordering::Relaxed) + size > INBOX_BYTES_MAX {
            return false;
        }
        self.bytes.fetch_add(size, Ordering::Relaxed);
        self.queue
            .lock()
            .expect("the lock is not poisoned")
            .push(message);
        if !self.is_filled.swap(true, Ordering::AcqRel) && CURRENT.get() != worker {
            self.wake();
        }
        true
    }

    /// Whether there are messages.
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// Appends all messages to `into`, the oldest first, and empties the inbox.
    pub fn take(&self, into: &mut Vec<Message>) {
        self.is_filled.store(false, Ordering::Release);
        let mut queue = self.queue.lock().expect("the lock is not poisoned");
        into.append(&mut queue);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Publishes the time at which the worker will wake. After this call the worker checks its
    /// deadlines once more, before it sleeps.
    pub fn plan(&self, wake_ms: u64) {
        self.planned_ms.store(wake_ms, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Wakes the worker if it is going to sleep beyond `due_ms`. The caller has stored the earlier
    /// deadline in its shard before. Therefore either the worker's last check finds the deadline,
    /// or this call finds the published time.
    pub fn wake_by(&self, due_ms: u64) {
        std::sync::atomic::fence(Ordering::SeqCst);
        let planned = self.planned_ms.load(Ordering::SeqCst);
        if planned > due_ms {
            let swapped = self.planned_ms.compare_exchange(
                planned,
                due_ms,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            if swapped.is_ok() {
                self.wake();
            }
        }
    }
}
