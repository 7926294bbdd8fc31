//! Publishes keyspace events to subscribers.

use crate::config::events::{KEYEVENT, KEYSPACE, bit_of};
use crate::pubsub::Batch;
use crate::state::Server;
use std::io::Write as _;
use store::Event;

/// Publishes the enabled events in order and empties the list. Subscribers receive the messages of
/// one call together.
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
    server
        .pubsub
        .collect(&server.inboxes, |batch| add(batch, events, bits));
}

/// Adds the enabled events to a batch.
fn add(batch: &mut Batch<'_>, events: &mut Vec<Event>, bits: u32) {
    // The two channels; that of the event's name is kept while name and database stay the same.
    let (mut of_key, mut of_name) = (Vec::new(), Vec::new());
    let mut last = None;
    for event in events.drain(..) {
        if bits & bit_of(event.class) == 0 {
            continue;
        }
        if bits & KEYSPACE != 0 {
            of_key.clear();
            // Writing to a vector does not fail.
            let _ = write!(of_key, "__keyspace@{}__:", event.db);
            of_key.extend_from_slice(&event.key);
            batch.add(&of_key, event.name.as_bytes());
        }
        if bits & KEYEVENT != 0 {
            if last != Some((event.db, event.name)) {
                last = Some((event.db, event.name));
                of_name.clear();
                let _ = write!(of_name, "__keyevent@{}__:{}", event.db, event.name);
            }
            batch.add(&of_name, &event.key);
        }
    }
}
