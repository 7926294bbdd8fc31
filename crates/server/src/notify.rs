//! Publishes keyspace events to subscribers.
//!
//! An event of changed fields or members is also published on the four channels of Redis 8.8 that
//! name them: by key, by event, by key and element, and by event and key. In a payload, each
//! element is preceded by its length, as `<length>:<element>`, so that elements may contain any
//! bytes.

use crate::state::Server;
use session::pubsub::Batch;
use settings::events::{
    KEYEVENT, KEYSPACE, SUBKEYEVENT, SUBKEYSPACE, SUBKEYSPACEEVENT, SUBKEYSPACEITEM, bit_of,
};
use std::io::Write as _;
use store::Event;

/// Publishes the enabled events in order and empties the list. Subscribers receive the messages of
/// one call together.
pub fn publish(server: &Server, events: &mut Vec<Event>) {
    if events.is_empty() {
        return;
    }
    let bits = server.config.number(settings::Id::NotifyKeyspaceEvents) as u32;
    if server.clients.pubsub.is_idle() {
        events.clear();
        return;
    }
    server
        .clients
        .pubsub
        .collect(&server.workers.inboxes, |batch| add(batch, events, bits));
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
        if !event.elements.is_empty() {
            add_elements(batch, &event, bits);
        }
    }
}

/// Adds the messages that name the elements of an event.
fn add_elements(batch: &mut Batch<'_>, event: &Event, bits: u32) {
    let Event {
        db,
        name,
        key,
        elements,
        ..
    } = event;
    let name = name.as_bytes();
    let mut list = Vec::new();
    for element in elements {
        if !list.is_empty() {
            list.push(b',');
        }
        push_counted(&mut list, element);
    }
    let channel = |kind: &str, parts: &[&[u8]]| {
        let mut channel = format!("__{kind}@{db}__:").into_bytes();
        parts
            .iter()
            .for_each(|part| channel.extend_from_slice(part));
        channel
    };
    if bits & SUBKEYSPACE != 0 {
        let payload = [name, b"|", &list].concat();
        batch.add(&channel("subkeyspace", &[key]), &payload);
    }
    if bits & SUBKEYEVENT != 0 {
        let mut payload = Vec::new();
        push_counted(&mut payload, key);
        payload.push(b'|');
        payload.extend_from_slice(&list);
        batch.add(&channel("subkeyevent", &[name]), &payload);
    }
    // A newline ends the key in the channel's name.
    if bits & SUBKEYSPACEITEM != 0 && !key.contains(&b'\n') {
        for element in elements {
            batch.add(&channel("subkeyspaceitem", &[key, b"\n", element]), name);
        }
    }
    if bits & SUBKEYSPACEEVENT != 0 {
        batch.add(&channel("subkeyspaceevent", &[name, b"|", key]), &list);
    }
}

/// Appends a text preceded by its length.
fn push_counted(out: &mut Vec<u8>, text: &[u8]) {
    // Writing to a vector does not fail.
    let _ = write!(out, "{}:", text.len());
    out.extend_from_slice(text);
}
