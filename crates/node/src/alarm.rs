//! Timer that is polled far more often than it fires.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// Timer that registers a task only once, even if the task polls it repeatedly.
pub struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// Waker of the registered task.
    waker: Option<Waker>,
}

impl Alarm {
    /// Creates a timer that fires at an instant.
    pub fn new(at: Instant) -> Self {
        Alarm {
            sleep: Box::pin(sleep_until(at)),
            waker: None,
        }
    }

    /// Moves the instant at which the timer fires.
    pub fn reset(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at);
        self.waker = None;
    }

    /// Returns `Ready` once the timer has fired.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_registered = |waker: &Waker| waker.will_wake(context.waker());
        // The timer has not fired yet, and will wake the task.
        if self.waker.as_ref().is_some_and(is_registered) && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        // If the task's cooperative budget were used up, the timer would return Pending without
        // registering the task.
        let sleep = pin!(unconstrained(self.sleep.as_mut()));
        let result = sleep.poll(context);
        self.waker = result.is_pending().then(|| context.waker().clone());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::task::coop::{consume_budget, has_budget_remaining};
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_used_up_its_budget_is_registered() {
        // Regression: a client that sent 126 requests in 4,096 bytes was no longer subject to time
        // limits.
        let mut alarm = Alarm::new(Instant::now() + Duration::from_secs(1));
        let ended = poll_fn(move |context| {
            while has_budget_remaining() {
                let _ = pin!(consume_budget()).poll(context);
            }
            alarm.poll(context)
        });
        let ended = tokio::spawn(timeout(Duration::from_secs(5), ended));
        assert!(ended.await.expect("it does not panic").is_ok());
    }
}
