//! Clients that hang up or are disconnected, and clients held by CLIENT PAUSE. There are often many
//! at the same time, so each iteration serves a limited number of them.

use super::Worker;
use crate::dispatch::Executor;

/// Maximum number of leaving clients served per iteration. Closing a socket takes about 20 µs.
const LEAVING_PER_TURN: usize = 16;
/// Maximum number of clients per iteration that are served after the end of CLIENT PAUSE.
const RELEASED_PER_TURN: usize = 32;

impl Worker {
    /// Serves a connection whose client has hung up: immediately, or in a later iteration if many
    /// clients leave in this one.
    pub(super) fn leave(&mut self, index: usize, executor: &mut Executor<'_>) {
        if self.leaving_left > 0 && self.leaving.is_empty() {
            self.leaving_left -= 1;
            return self.serve_or_close(index, executor);
        }
        let Some(connection) = self.connection(index) else {
            return;
        };
        if !connection.lists.is_in_leaving {
            connection.lists.is_in_leaving = true;
            self.leaving.push_back(index);
        }
    }

    /// Disconnects a client, even with unsent output. Its further commands are not executed.
    pub(super) fn cut_off(&mut self, index: usize, executor: &mut Executor<'_>) {
        // A blocked command ends at once, so that no element is popped for it.
        if self.end_wait(index, executor)
            && let Some(connection) = self.connection(index)
        {
            connection.cut_off();
            self.leave(index, executor);
        }
    }

    /// Ends the wait of a client that is being disconnected. Returns false if the client was served
    /// before: then its reply is on its way to this worker, and the connection is closed once the
    /// reply has been sent, so that no element is lost.
    pub(super) fn end_wait(&mut self, index: usize, executor: &mut Executor<'_>) -> bool {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return true;
        };
        let Some(waiter) = connection.session.waiter().cloned() else {
            return true;
        };
        let has_ended = executor.end_wait(&connection.session);
        match has_ended {
            true => drop(connection.session.end_wait()),
            false => connection.cut_off(),
        }
        self.set_timer(index, &waiter, None);
        has_ended
    }

    /// Serves clients that left in earlier iterations. Commands that a client sent before it hung
    /// up are executed.
    pub(super) fn serve_leaving(&mut self, executor: &mut Executor<'_>) {
        self.leaving_left = LEAVING_PER_TURN;
        while self.leaving_left > 0
            && let Some(index) = self.leaving.pop_front()
        {
            // A later connection at the index of one that was closed meanwhile is not leaving.
            let connection = self.connection(index);
            if connection
                .is_some_and(|connection| std::mem::take(&mut connection.lists.is_in_leaving))
            {
                self.leaving_left -= 1;
                self.serve_or_close(index, executor);
            }
        }
    }

    fn serve_or_close(&mut self, index: usize, executor: &mut Executor<'_>) {
        let connection = self.connection(index);
        if connection.is_some_and(|connection| connection.is_cut_off) {
            self.close(index, executor);
        } else {
            self.serve(index, executor);
        }
    }

    /// Serves the connections that CLIENT PAUSE held, once the pause has ended.
    pub(super) fn release_held(&mut self, executor: &mut Executor<'_>) {
        for _ in 0..RELEASED_PER_TURN {
            if self.held.is_empty()
                || executor
                    .server()
                    .data
                    .pause
                    .until(executor.moment())
                    .is_some()
            {
                return;
            }
            if let Some(index) = self.held.pop_first() {
                self.serve(index, executor);
            }
        }
    }
}
