//! A timer that is polled far more often than it ends.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::time::{Instant, Sleep, sleep_until};

/// A timer. While the same task polls it again, the task is not registered again.
pub struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// The task that is registered.
    waker: Option<Waker>,
}

impl Alarm {
    /// Makes a timer that ends at an instant.
    pub fn new(at: Instant) -> Self {
        Alarm {
            sleep: Box::pin(sleep_until(at)),
            waker: None,
        }
    }

    /// Moves the end.
    pub fn reset(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at);
        self.waker = None;
    }

    /// Waits for the end.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_registered = |waker: &Waker| waker.will_wake(context.waker());
        // An end after this wakes the task.
        if self.waker.as_ref().is_some_and(is_registered) && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        let result = Future::poll(self.sleep.as_mut(), context);
        self.waker = result.is_pending().then(|| context.waker().clone());
        result
    }
}
