//! Publishes keyspace events to subscribers.

use crate::config::events::{KEYEVENT, KEYSPACE, bit_of};
use crate::state::Server;
use store::Event;

/// Publishes the enabled events in order and empties the list.
pub fn publish(server: &Server, events: &mut Vec<Event>) {
    if events.is_empty() {
        return;
    }
    let bits = server
        .config
        .number(crate::config::Id::NotifyKeyspaceEvents) as u32;
    if server.pubsub.is_idle() {
        events.clear();
        return;
    }
    let mut channel = Vec::new();
    for event in events.drain(..) {
        if bits & bit_of(event.class) == 0 {
            continue;
        }
        if bits & KEYSPACE != 0 {
            channel.clear();
            channel.extend_from_slice(format!("__keyspace@{}__:", event.db).as_bytes());
            channel.extend_from_slice(&event.key);
            server
                .pubsub
                .publish(&server.inboxes, &channel, event.name.as_bytes());
        }
        if bits & KEYEVENT != 0 {
            channel.clear();
            channel.extend_from_slice(format!("__keyevent@{}__:", event.db).as_bytes());
            channel.extend_from_slice(event.name.as_bytes());
            server.pubsub.publish(&server.inboxes, &channel, &event.key);
        }
    }
}
