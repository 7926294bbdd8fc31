//! Connections that begin and end: accepting, registering and closing sockets.

use super::Worker;
use crate::dispatch::Executor;
use crate::net::connection::Connection;
use crate::net::listener::Accepted;
use mio::{Interest, Token};
use session::clients::flag;
use session::message::{Message, Port, PortProtocol};
use session::notices::Kind;
use session::session::Session;
use session::socket::{Peer, Stream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    pub(super) fn accept(&mut self, executor: &mut Executor<'_>) {
        let server = Arc::clone(&self.server);
        let mut accepted = Vec::new();
        self.listeners.accept(&server, &mut accepted);
        for Accepted { port, stream, peer } in accepted {
            let connections = |worker: usize| {
                server.observability.stats.workers[worker]
                    .connections
                    .load(Relaxed)
            };
            let worker = (0..server.workers.count)
                .min_by_key(|worker| connections(*worker))
                .unwrap_or(self.index);
            server.observability.stats.workers[worker]
                .connections
                .fetch_add(1, Relaxed);
            if worker == self.index {
                self.adopt(stream, peer, port, executor);
            } else {
                server.workers.inboxes[worker].push(worker, Message::Adopt(stream, peer, port));
            }
        }
    }

    /// Registers a connection and starts serving it.
    pub(super) fn adopt(
        &mut self,
        mut stream: Stream,
        peer: Peer,
        port: Port,
        executor: &mut Executor<'_>,
    ) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let registry = self.poll.registry();
        let registered = registry.register(&mut stream, Token(index), Interest::READABLE);
        let server = executor.server();
        if let Err(error) = registered {
            server.observability.notices.warn(
                Kind::Refused,
                server.clock.moment(),
                format_args!("a connection from {peer} could not be registered: {error}"),
            );
            server.clients.registry.release();
            server.observability.stats.workers[self.index]
                .connections
                .fetch_sub(1, Relaxed);
            self.free.push(index);
            return;
        }
        let endpoint = self.listeners.endpoint(&stream, &peer, self.index, index);
        let info = server.clients.registry.add(endpoint, executor.moment());
        if matches!(stream, Stream::Local(_)) {
            info.flags.fetch_or(flag::LOCAL, Relaxed);
        }
        let mut session = Session::of(info);
        session.log_out(&server.auth.acl);
        let mut connection = Connection::new(stream, session);
        if port.protocol == PortProtocol::Memcached {
            connection.use_memcached();
        }
        if port.has_tls {
            connection.use_tls(&server.network);
        }
        connection.account(&mut self.scratch);
        self.connections[index] = Some(Box::new(connection));
        // Input that arrived before the registration does not cause an event on every system.
        self.serve(index, executor);
    }

    /// Closes a connection, unless a reply to its blocked command is on its way.
    pub(super) fn close(&mut self, index: usize, executor: &mut Executor<'_>) {
        if !self.end_wait(index, executor) {
            return;
        }
        let Some(mut connection) = self.connections[index].take() else {
            return;
        };
        let _ = self.poll.registry().deregister(&mut connection.stream);
        connection.release(executor, &mut self.scratch);
        self.remove_delay(index, &connection.session);
        executor.forget(&mut connection.session);
        let server = executor.server();
        server.clients.registry.remove(connection.session.info.id);
        server.clients.registry.release();
        server.observability.stats.workers[self.index]
            .connections
            .fetch_sub(1, Relaxed);
        self.held.remove(&index);
        self.free.push(index);
    }
}
