//! Sending snapshots and the feed to replicas.

use super::Worker;
use crate::dispatch::Executor;
use crate::net::connection::Next;
use crate::replication::primary;
use durability::aof::AppendOnly;
use durability::replication::Replication;
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
            let (next, may_send) =
                connection.feed_replica(&server.feed, &server.replication, &mut self.scratch);
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
    pub(super) fn pause_of_waits(
        &self,
        aof: &AppendOnly,
        replication: &Replication,
        now: Moment,
    ) -> Option<Duration> {
        if self.index != 0 || replication.waits.is_empty() {
            return None;
        }
        aof.wait();
        let deadline = replication.waits.next()?;
        Some(Duration::from_millis(deadline.since(now)))
    }

    /// Answers WAIT and WAITAOF.
    pub(super) fn check_waits(&self, executor: &Executor<'_>) {
        primary::check_waits(executor.server(), executor.moment());
    }
}
