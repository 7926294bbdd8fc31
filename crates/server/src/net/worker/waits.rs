//! Clients that wait for a key for some time only: the end of that time, and of the wait.

use super::Worker;
use crate::dispatch::Executor;
use crate::session::Session;
use wire::Reply;

impl Worker {
    /// No longer looks at a client's time to wait.
    pub(super) fn forget_wait(&mut self, index: usize, session: &Session) {
        if let Some(deadline) = session.waiter().and_then(|waiter| waiter.deadline) {
            self.waits.remove(&(deadline, index, session.info.id));
        }
    }

    /// Tells those that they have got nothing whose time to wait is up.
    pub(super) fn end_waits(&mut self, executor: &mut Executor<'_>) {
        // Later than the deadline, whose milliseconds are rounded down.
        while let Some(&(deadline, index, id)) = self.waits.first()
            && deadline < executor.server().clock.moment()
        {
            self.waits.pop_first();
            let Some(connection) = self.client(index, id) else {
                continue;
            };
            // Who was served in the meantime finds the reply in the inbox.
            if executor.end_wait(&connection.session) {
                let mut nothing = Vec::new();
                Reply::new(&mut nothing, connection.session.protocol).null_array();
                self.answer(index, id, &nothing, executor);
            }
        }
    }

    /// Sends the reply of a command that has waited, and lets its client go on.
    pub(super) fn answer(
        &mut self,
        index: usize,
        id: u64,
        reply: &[u8],
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
