//! Timeouts of blocked clients, delays of attempts to authenticate, and clients that wait for a
//! long command.

use super::Worker;
use crate::dispatch::Executor;
use session::clock::Moment;
use session::session::Session;
use session::waiting::{NEVER, Waiter};
use std::sync::atomic::Ordering::Relaxed;
use wire::{Output, Reply};

/// Maximum number of clients that try again in one iteration of the event loop.
const RETRIES_PER_TURN: usize = 64;

impl Worker {
    /// Removes a client's delay.
    pub(super) fn remove_delay(&mut self, index: usize, session: &Session) {
        if let Some(at) = session.login_at {
            self.delayed.remove(&(at, index, session.info.id));
        }
    }

    /// Sets the timer of a blocked client: to the end of its wait, or to its next attempt.
    pub(super) fn plan_wait(&mut self, index: usize, waiter: &Waiter) {
        self.set_timer(index, waiter, waiter.next_moment());
    }

    pub(super) fn set_timer(&mut self, index: usize, waiter: &Waiter, at: Option<Moment>) {
        let id = waiter.info.id;
        let before = waiter.timer.swap(at.map_or(NEVER, |at| at.0), Relaxed);
        if before != NEVER {
            self.waits.remove(&(Moment(before), index, id));
        }
        if let Some(at) = at {
            self.waits.insert((at, index, id));
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

    /// Sends a null reply to the blocked clients whose timeout has passed, and reruns the commands
    /// that wait for the current moment.
    pub(super) fn end_timed_out_waits(&mut self, executor: &mut Executor<'_>) {
        // Strictly later, because the deadline's milliseconds are rounded down.
        while let Some(&(at, index, id)) = self.waits.first()
            && at < executor.server().clock.moment()
        {
            self.waits.pop_first();
            let Some(connection) = self.client(index, id) else {
                continue;
            };
            if let Some(waiter) = connection.session.waiter().cloned() {
                waiter.timer.store(NEVER, Relaxed);
                let now = executor.server().clock.moment();
                if waiter.deadline.is_none_or(|deadline| deadline >= now) {
                    waiter.retry_at.store(NEVER, Relaxed);
                    executor.retry_wait(&waiter);
                    self.plan_wait(index, &waiter);
                    continue;
                }
                if waiter.replies_late {
                    executor.retry_wait(&waiter);
                }
            }
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

    /// After a long command has ended, serves the clients waiting for one, in the order in which
    /// they began to wait. Serves a limited number per iteration of the event loop.
    pub(super) fn retry_waiting(&mut self, executor: &mut Executor<'_>) {
        if executor.server().workers.long.take_retry(self.index) {
            self.retry_count = self.waiting.len();
        }
        for _ in 0..RETRIES_PER_TURN.min(self.retry_count) {
            self.retry_count -= 1;
            let Some((index, id)) = self.waiting.pop_front() else {
                break;
            };
            if let Some(connection) = self.client(index, id) {
                connection.lists.is_in_waiting = false;
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
        let waiter = connection.session.waiter().cloned();
        let is_late = executor.is_beyond_fence_late(&reply);
        match is_late {
            true => drop(connection.session.end_wait()),
            false => connection.answer(reply, executor),
        }
        if let Some(waiter) = waiter {
            self.set_timer(index, &waiter, None);
        }
        match is_late {
            true => self.close(index, executor),
            false => self.serve(index, executor),
        }
    }
}
