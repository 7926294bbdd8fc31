//! Sending snapshots and the feed to replicas.

use super::Worker;
use crate::dispatch::Executor;
use crate::net::connection::Next;
use crate::replication::primary;
use crate::state::Server;
use session::clock::Moment;
use std::time::Duration;

impl Worker {
    /// Sends this worker's replicas the bytes they have not received. Returns whether there is more
    /// that their sockets may accept.
    pub(super) fn feed_replicas(&mut self, executor: &mut Executor<'_>) -> bool {
        let server = executor.server();
        let mut has_more = false;
        for (index, id) in std::mem::take(&mut self.replicas) {
            let connection = self.connections.get_mut(index).and_then(Option::as_mut);
            let Some(connection) = connection.filter(|c| c.session.info.id == id) else {
                continue;
            };
            self.replicas.push((index, id));
            let (next, may_send) = connection.feed_replica(server, &mut self.scratch);
            has_more |= may_send;
            if next != Next::Wait || connection.pending_bytes() > 0 {
                self.after(index, next, executor);
            }
        }
        // Other workers may have replicas that wait for what this one has added.
        let end = server.feed.end();
        if server.workers.count > 1 && end != self.fed_until && server.replication.has_replicas() {
            server.workers.wake_all();
        }
        self.fed_until = end;
        has_more
    }

    /// Returns how long the first worker may sleep while clients wait for replicas or for the
    /// append-only file.
    pub(super) fn pause_of_waits(&self, server: &Server, now: Moment) -> Option<Duration> {
        if self.index != 0 || server.replication.waits.is_empty() {
            return None;
        }
        server.persistence.aof.wait();
        let deadline = server.replication.waits.next()?;
        Some(Duration::from_millis(deadline.since(now)))
    }

    /// Answers WAIT and WAITAOF.
    pub(super) fn check_waits(&self, executor: &Executor<'_>) {
        primary::check_waits(executor.server(), executor.moment());
    }
}
