//! End of a worker: clients take the replies that wait for them, then their connections are closed.

use super::{PERIODIC_INTERVAL, Worker};
use crate::dispatch::Executor;
use crate::net::connection::Next;
use durability::replication::{Phase, Replication};
use mio::{Events, Interest, Token};
use session::message::Message;
use settings::Id;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time after which a client that takes nothing of its replies is not waited for. A client that
/// does not read at all must not delay the end of the process by a second.
const STALL: Duration = Duration::from_millis(600);

/// Whether a client is a replica that has received its snapshot.
fn follows(replication: &Replication, client: u64) -> bool {
    let replica = replication.replica(client);
    replica.is_some_and(|replica| matches!(replica.phase, Phase::Follows))
}

impl Worker {
    /// Waits until the clients have taken their replies and replicas have taken the feed, for at
    /// most `shutdown-timeout`, and for at most [`STALL`] while a client takes nothing. Nothing
    /// else is served any longer. After `SHUTDOWN NOW`, replicas only get what they take
    /// immediately.
    pub(super) fn drain(&mut self, events: &mut Events, executor: &mut Executor<'_>) {
        let server = executor.server();
        let replication = &server.replication;
        self.listeners.leave(&server.lifecycle.restart);
        server.workers.draining.fetch_add(1, Relaxed);
        let seconds = server.config.number(Id::ShutdownTimeout) as u64;
        let started = Instant::now();
        let end = started + Duration::from_secs(seconds);
        // By connection: bytes sent, and the time at which they were seen to have grown.
        let mut progress = vec![(0, started); self.connections.len()];
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else {
                continue;
            };
            let (registry, token) = (self.poll.registry(), Token(index));
            let registered = registry.reregister(&mut connection.stream, token, Interest::WRITABLE);
            connection.is_cut_off |= registered.is_err();
        }
        loop {
            let now = Instant::now();
            self.take_answers(executor);
            let (mut timeout, mut waits) = (PERIODIC_INTERVAL, false);
            for (index, (sent, since)) in progress.iter_mut().enumerate() {
                let Some(connection) = self.connections[index].as_mut() else {
                    continue;
                };
                let mut is_behind = false;
                let session = &connection.session;
                if session.is_replica && follows(replication, session.info.id) {
                    let may_add = server.workers.draining.load(Relaxed) < server.workers.count;
                    let feed = &server.feed;
                    let (next, has_more) =
                        connection.feed_replica(feed, replication, &mut self.scratch);
                    is_behind = may_add || next != Next::Close || connection.pending_bytes() > 0;
                    is_behind &= !server.lifecycle.skips_replicas.load(Relaxed);
                    if has_more {
                        timeout = Duration::ZERO;
                    }
                }
                // A turn sends a part of large replies, after which the socket may have room.
                match connection.flush(&mut self.scratch) {
                    Next::Close => connection.is_cut_off = true,
                    Next::Again => timeout = Duration::ZERO,
                    _ => {}
                }
                if connection.sent_bytes() != *sent {
                    (*sent, *since) = (connection.sent_bytes(), now);
                }
                let stalls = now.duration_since(*since) >= STALL;
                let has_ended = connection.pending_bytes() == 0 || stalls;
                if connection.is_cut_off || has_ended && !is_behind {
                    // A client may read to the end before it reads from its next connection.
                    connection.discard_input(&mut self.scratch);
                    self.close(index, executor);
                } else {
                    waits = true;
                }
            }
            if !waits || now >= end || self.poll.poll(events, Some(timeout)).is_err() {
                return;
            }
            for event in events.iter() {
                let Token(index) = event.token();
                let connection = self.connections.get_mut(index).and_then(Option::as_mut);
                if let Some(connection) = connection {
                    connection.is_cut_off |= event.is_error() || event.is_write_closed();
                }
            }
        }
    }

    /// Takes the replies of blocked commands that other workers have served before they stopped.
    fn take_answers(&mut self, executor: &Executor<'_>) {
        let mut messages = Vec::new();
        self.server.workers.inboxes[self.index].take(&mut messages);
        for message in messages {
            if let Message::Answer(slot, client, reply) = message
                && let Some(connection) = self.client(slot, client)
            {
                connection.answer(reply, executor);
            }
        }
    }

    /// Closes all connections, after a last attempt to send their output.
    pub(super) fn close_all(&mut self, executor: &mut Executor<'_>) {
        for index in 0..self.connections.len() {
            if let Some(connection) = self.connections[index].as_mut() {
                connection.flush(&mut self.scratch);
                connection.discard_input(&mut self.scratch);
                self.close(index, executor);
            }
        }
    }
}
