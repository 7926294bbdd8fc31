//! What workers send each other: connections to serve, messages to deliver, replies to clients that
//! waited, clients to cut off.

use crate::message::Message;
use mio::Waker;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Bytes of messages that may wait for one worker. A subscriber for whom there is no room is cut off,
/// as one whose output buffer is full: it learns that it missed something.
pub const INBOX_BYTES_MAX: usize = 64 << 20;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Says that this thread is the worker of this index, which needs no waking by itself.
pub fn enter(worker: usize) {
    CURRENT.set(worker);
}

/// One worker's.
#[derive(Default)]
pub struct Inbox {
    queue: Mutex<Vec<Message>>,
    bytes: AtomicUsize,
    is_filled: AtomicBool,
    waker: OnceLock<Waker>,
    /// When the worker will look at its deadlines next, in ms since 1970; 0 while it is awake.
    planned_ms: AtomicU64,
}

impl Inbox {
    /// Gives the inbox what wakes its worker.
    pub fn set_waker(&self, waker: Waker) {
        // A second waker for the same worker would mean two workers of one index.
        assert!(self.waker.set(waker).is_ok(), "one worker per inbox");
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // A full eventfd is one that wakes anyway.
            let _ = waker.wake();
        }
    }

    /// Leaves a message; false when there is no room for it.
    pub fn push(&self, worker: usize, message: Message) -> bool {
        let size = match &message {
            Message::Deliver(_, publication, _) => publication.bytes() + size_of::<Message>(),
            _ => 0,
        };
        if size > 0 && self.bytes.load(Ordering::Relaxed) + size > INBOX_BYTES_MAX {
            return false;
        }
        self.bytes.fetch_add(size, Ordering::Relaxed);
        self.queue.lock().expect("no holder panics").push(message);
        if !self.is_filled.swap(true, Ordering::AcqRel) && CURRENT.get() != worker {
            self.wake();
        }
        true
    }

    /// Whether there is anything.
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// Takes out all messages, oldest first, behind those already in `into`.
    pub fn take(&self, into: &mut Vec<Message>) {
        self.is_filled.store(false, Ordering::Release);
        let mut queue = self.queue.lock().expect("no holder panics");
        into.append(&mut queue);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Says until when the worker means to sleep, before it looks at its deadlines a last time.
    pub fn plan(&self, wake_ms: u64) {
        self.planned_ms.store(wake_ms, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Wakes the worker if it means to sleep beyond this. Called after the earlier deadline is in its
    /// shard: either the worker's last look sees that, or this sees the plan.
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
