//! Delivery of messages from other workers and from own commands.

use super::Worker;
use crate::command::scripting::functions::load_library;
use crate::dispatch::Executor;
use crate::loading::file::reload;
use crate::net::connection::{Connection, Next};
use crate::saving::work as saving;
use crate::state::Server;
use durability::saving::Waiting;
use session::clients::flag;
use session::message::{Message, Subscriber};

/// Performs DEBUG RELOAD for a client, after the snapshot file was written.
fn reload_for(server: &Server, waiting: Waiting, flushes: bool) {
    let result = reload(server, flushes, load_library);
    saving::reply(&server.workers, waiting, |reply| match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    });
}

impl Worker {
    /// Handles messages from other workers and from this worker's own commands.
    pub(super) fn deliver(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        if !server.workers.inboxes[self.index].is_filled() {
            return;
        }
        let mut messages = std::mem::take(&mut self.messages);
        server.workers.inboxes[self.index].take(&mut messages);
        for message in messages.drain(..) {
            match message {
                Message::Adopt(stream, peer, port) => {
                    self.adopt(stream, peer, port, executor);
                }
                Message::Deliver(to, publication) => {
                    let add = |connection: &mut Connection| connection.deliver(&publication);
                    self.add_output(to, add, executor);
                }
                Message::Send(to, bytes) => {
                    self.add_output(to, |connection| connection.append(&bytes), executor);
                }
                Message::Monitor(to, line) => {
                    let add = |connection: &mut Connection| {
                        if connection.session.has_flag(flag::MONITOR) {
                            connection.append(&line);
                        }
                    };
                    self.add_output(to, add, executor);
                }
                Message::Invalidate(to, keys, is_redirected) => {
                    let add = |c: &mut Connection| c.invalidate(keys.as_deref(), is_redirected);
                    self.add_output(to, add, executor);
                }
                Message::Answer(slot, client, reply) => {
                    self.answer(slot, client, reply, executor);
                }
                Message::Plan(slot, client) => self.plan_wait_of(slot, client),
                Message::Finished(job) => {
                    let (slot, client, reply) = executor.finish_long(job);
                    self.answer(slot, client, reply, executor);
                }
                Message::Returned(loan) => {
                    executor.take_back(*loan);
                }
                Message::Saved(epoch, result) => {
                    executor.finish();
                    saving::end(server, epoch, result);
                }
                Message::Reload(client, protocol, flushes) => {
                    executor.finish();
                    reload_for(server, Waiting { client, protocol }, flushes);
                }
                Message::LostSlots => self.end_lost_subscriptions(executor),
                Message::Kill(slot, client) => {
                    if self.client(slot, client).is_some() {
                        self.cut_off(slot, executor);
                    }
                }
            }
        }
        self.messages = messages;
        for index in std::mem::take(&mut self.touched) {
            if let Some(connection) = self.connections[index].as_mut() {
                let next = connection.flush(&mut self.scratch);
                self.after(index, next, executor);
            }
        }
    }

    /// Plans the end of a client's wait, if the client is still connected and waiting.
    fn plan_wait_of(&mut self, slot: usize, client: u64) {
        let connection = self.client(slot, client);
        let waiter = connection.and_then(|one| one.session.waiter().cloned());
        if let Some(waiter) = waiter {
            self.plan_wait(slot, &waiter);
        }
    }

    /// Adds a message to the output of a client, if it is still connected. The output is sent at
    /// the end of [`Worker::deliver`].
    pub(super) fn add_output(
        &mut self,
        to: Subscriber,
        add: impl FnOnce(&mut Connection),
        executor: &mut Executor<'_>,
    ) {
        let connection = self.connections.get_mut(to.slot).and_then(Option::as_mut);
        let Some(connection) = connection.filter(|c| c.session.info.id == to.client) else {
            return;
        };
        if connection.session.is_closing {
            return;
        }
        let was_idle = connection.pending_bytes() == 0;
        connection.bound_output(&executor.server().config);
        add(connection);
        connection.account(&mut self.scratch);
        if was_idle {
            self.touched.push(to.slot);
        } else if connection.is_over_limit(&executor.server().config, executor.moment()) {
            self.after(to.slot, Next::Wait, executor);
        }
        self.account(executor);
    }
}
