//! Timeouts of blocked clients, delays of attempts to authenticate, and clients that wait for a
//! long command.

use super::Worker;
use crate::dispatch::Executor;
use crate::session::Session;
use wire::{Output, Reply};

/// Maximum number of clients that try again in one iteration of the event loop.
const RETRIES_PER_TURN: usize = 64;

impl Worker {
    /// Removes a client's timeout and its delay.
    pub(super) fn remove_timeout(&mut self, index: usize, session: &Session) {
        if let Some(deadline) = session.waiter().and_then(|waiter| waiter.deadline) {
            self.waits.remove(&(deadline, index, session.info.id));
        }
        if let Some(at) = session.login_at {
            self.delayed.remove(&(at, index, session.info.id));
        }
    }

    /// Serves the clients whose attempt to authenticate has waited long enough.
    pub(super) fn end_delays(&mut self, executor: &mut Executor<'_>) {
        while let Some(&(at, index, id)) = self.delayed.first()
            && at <= executor.moment()
        {
            self.delayed.pop_first();
            if self.client(index, id).is_some() {
                self.serve(index, executor);
            }
        }
    }

    /// Sends a null reply to the blocked clients whose timeout has passed.
    pub(super) fn end_timed_out_waits(&mut self, executor: &mut Executor<'_>) {
        // Strictly later, because the deadline's milliseconds are rounded down.
        while let Some(&(deadline, index, id)) = self.waits.first()
            && deadline < executor.server().clock.moment()
        {
            self.waits.pop_first();
            let Some(connection) = self.client(index, id) else {
                continue;
            };
            // A client that was served in the meantime has its reply in the inbox.
            if executor.end_wait(&connection.session) {
                let mut nothing = Output::default();
                Reply::new(&mut nothing, connection.session.protocol).null_array();
                self.answer(index, id, nothing, executor);
            }
        }
    }

    /// Serves the clients that wait for a long command again, in the order in which they began to
    /// wait, if one has ended. Serves a limited number per iteration of the event loop.
    pub(super) fn retry_waiting(&mut self, executor: &mut Executor<'_>) {
        if executor.server().long.take_retry(self.index) {
            self.retry_count = self.waiting.len();
        }
        for _ in 0..RETRIES_PER_TURN.min(self.retry_count) {
            self.retry_count -= 1;
            let Some((index, id)) = self.waiting.pop_front() else {
                break;
            };
            if let Some(connection) = self.client(index, id) {
                connection.is_waiting = false;
                self.serve(index, executor);
            }
        }
    }

    /// Sends the reply of a blocked command and continues to serve its client.
    pub(super) fn answer(
        &mut self,
        index: usize,
        id: u64,
        reply: Output,
        executor: &mut Executor<'_>,
    ) {
        let Some(connection) = self.client(index, id) else {
            return;
        };
        let deadline = connection
            .session
            .waiter()
            .and_then(|waiter| waiter.deadline);
        connection.answer(reply, executor);
        if let Some(deadline) = deadline {
            self.waits.remove(&(deadline, index, id));
        }
        self.serve(index, executor);
    }
}
