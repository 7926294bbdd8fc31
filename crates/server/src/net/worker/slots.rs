//! Subscriptions to shard channels whose slots another node of the cluster has taken over.

use super::Worker;
use crate::dispatch::Executor;
use session::message::Subscriber;
use session::pubsub::Space;
use session::session::Session;
use wire::slot::slot;
use wire::{Output, Reply};

impl Worker {
    /// Ends the subscriptions of all clients to shard channels in slots that this node has lost,
    /// and notifies the clients.
    pub(super) fn end_lost_subscriptions(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        let routes = server.cluster.routes();
        for index in 0..self.connections.len() {
            let Some(connection) = self.connection(index) else {
                continue;
            };
            let session = &mut connection.session;
            let subscriptions = session.subscriptions.as_deref();
            let lost = subscriptions.map_or_else(Vec::new, |all| {
                let names = all.names(Space::Shard).iter();
                let lost = names.filter(|name| !routes.is_own(slot(name)));
                lost.cloned().collect()
            });
            if lost.is_empty() {
                continue;
            }
            let who = session.subscriber();
            let mut ends = Output::default();
            for name in lost {
                server.clients.pubsub.unsubscribe(Space::Shard, &name, who);
                end(session, &name, &mut ends);
            }
            session.update_subscription_counts();
            self.send_ends(who, &ends, executor);
        }
    }

    fn send_ends(&mut self, to: Subscriber, ends: &[u8], executor: &mut Executor<'_>) {
        self.add_output(to, |connection| connection.append(ends), executor);
    }
}

/// Removes a subscription from the session and adds the message about it.
fn end(session: &mut Session, name: &[u8], ends: &mut Output) {
    if let Some(subscriptions) = &mut session.subscriptions {
        subscriptions.remove(Space::Shard, name);
    }
    let mut reply = Reply::new(ends, session.protocol);
    reply.push(3);
    reply.bulk(b"sunsubscribe");
    reply.bulk(name);
    reply.integer(session.subscription_count(Space::Shard) as i64);
}
