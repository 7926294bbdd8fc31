//! Inboxes of the workers for messages from other workers.

use crate::message::Message;
use mio::Waker;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// Maximum number of bytes of messages waiting for one worker when a published message is added. A
/// subscriber whose message does not fit is disconnected, like one whose output buffer is full, so
/// that it notices the loss. Other messages are counted too, but never refused: there is at most
/// one per connection.
pub const INBOX_BYTES_MAX: usize = 64 << 20;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Records that this thread is the worker with this index. A worker does not wake itself.
pub fn enter(worker: usize) {
    CURRENT.set(worker);
}

/// Returns the index of the worker that this thread is; `usize::MAX` for another thread.
pub fn current() -> usize {
    CURRENT.get()
}

/// Messages with the sum of their bytes.
#[derive(Default)]
struct Queue {
    messages: Vec<Message>,
    bytes: usize,
}

/// Inbox of one worker.
#[derive(Default)]
pub struct Inbox {
    queue: Mutex<Queue>,
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
        let size = message.bytes();
        let mut queue = self.queue.lock().expect("the lock is not poisoned");
        if message.may_be_refused() && queue.bytes.saturating_add(size) > INBOX_BYTES_MAX {
            return false;
        }
        queue.bytes += size;
        queue.messages.push(message);
        drop(queue);
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
        into.append(&mut queue.messages);
        queue.bytes = 0;
    }

    /// Publishes the time at which the worker will wake. After this call the worker checks its
    /// deadlines once more, before it sleeps.
    pub fn plan(&self, wake_ms: u64) {
        self.planned_ms.store(wake_ms, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Wakes the worker if it is going to sleep beyond `due_ms`. The caller must already have
    /// stored the earlier deadline in its shard. Either the worker's last check then finds the
    /// deadline, or this call finds the published time.
    pub fn wake_by(&self, due_ms: u64) {
        std::sync::atomic::fence(Ordering::SeqCst);
        let lower = |planned: u64| (planned > due_ms).then_some(due_ms);
        // It repeats if the worker publishes another time meanwhile, which may also be too late.
        let order = Ordering::SeqCst;
        if self.planned_ms.fetch_update(order, order, lower).is_ok() {
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Publication, Source, Subscriber};
    use std::sync::Arc;

    fn publication(len: usize) -> Message {
        let to = Subscriber {
            worker: 0,
            slot: 0,
            client: 1,
        };
        let mut publication = Publication::default();
        publication.push(Source::Channel, b"news", &vec![b'x'; len]);
        Message::Deliver(to, Arc::new(publication))
    }

    #[test]
    fn all_messages_count_and_only_publications_are_refused() {
        // Regression: replies of blocked clients were not counted.
        let inbox = Inbox::default();
        enter(0);
        assert!(inbox.push(
            0,
            Message::Answer(0, 1, vec![0; INBOX_BYTES_MAX / 2].into())
        ));
        assert!(inbox.push(0, publication(INBOX_BYTES_MAX / 4)));
        assert!(!inbox.push(0, publication(INBOX_BYTES_MAX / 4)));
        assert!(inbox.push(
            0,
            Message::Answer(0, 1, vec![0; INBOX_BYTES_MAX / 2].into())
        ));
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert_eq!(taken.len(), 3);
        assert!(inbox.push(0, publication(INBOX_BYTES_MAX / 2)));
    }

    #[test]
    fn a_deadline_before_the_planned_time_replaces_it() {
        let inbox = Inbox::default();
        for (planned, due, expected) in [(100, 50, 50), (80, 90, 80), (0, 50, 0)] {
            inbox.plan(planned);
            inbox.wake_by(due);
            assert_eq!(inbox.planned_ms.load(Ordering::SeqCst), expected);
        }
    }
}
