//! Messages that are collected per subscription and sent together.
//!
//! A million expired keys are a million messages for each subscriber. Collected, a message costs
//! its encoding, once per subscription. The look-up of the channel, the inbox and the subscriber's
//! connection are paid once per batch.

use super::{Listeners, Tables, deliver};
use crate::inbox::Inbox;
use crate::message::{Publication, Source};
use std::collections::HashSet;
use std::sync::Arc;

/// Number of bytes of one subscription's messages after which a batch is sent.
const BYTES_MAX: usize = 64 << 10;
/// Maximum number of subscriptions in a batch. Each message searches them one by one.
const GROUPS_MAX: usize = 16;

/// Messages for the subscribers of one channel or pattern.
struct Group<'t> {
    listeners: &'t Listeners,
    publication: Publication,
}

/// Messages to channels. A client with several subscriptions receives them in the same order as if
/// they were sent one by one.
pub struct Batch<'t> {
    tables: &'t Tables,
    inboxes: &'t [Inbox],
    groups: Vec<Group<'t>>,
    /// Channel of the last message.
    channel: Vec<u8>,
    /// Subscriptions that received the last message: index of the group, and source.
    targets: Vec<(usize, Source<'t>)>,
    /// Whether a client belongs to several groups. Each message is then sent at once.
    is_mixed: bool,
}

impl<'t> Batch<'t> {
    pub(super) fn new(tables: &'t Tables, inboxes: &'t [Inbox]) -> Batch<'t> {
        Batch {
            tables,
            inboxes,
            groups: Vec::new(),
            channel: Vec::new(),
            targets: Vec::new(),
            is_mixed: false,
        }
    }

    /// Adds a message to a channel.
    pub fn add(&mut self, channel: &[u8], payload: &[u8]) {
        if self.targets.is_empty() || self.channel != channel {
            self.find_targets(channel);
        }
        let mut is_large = self.is_mixed;
        for &(index, source) in &self.targets {
            let publication = &mut self.groups[index].publication;
            publication.push(source, channel, payload);
            is_large |= publication.bytes() >= BYTES_MAX;
            if self.is_mixed {
                send(self.inboxes, &mut self.groups[index]);
            }
        }
        if is_large {
            self.send();
        }
    }

    /// Sends the collected messages.
    pub(super) fn send(&mut self) {
        for group in &mut self.groups {
            send(self.inboxes, group);
        }
    }

    /// Finds the subscriptions that receive messages to a channel.
    fn find_targets(&mut self, channel: &[u8]) {
        self.channel.clear();
        self.channel.extend_from_slice(channel);
        self.targets.clear();
        let mut found = Vec::new();
        self.tables
            .receivers(channel, false, &mut |listeners, source| {
                found.push((listeners, source));
            });
        let is_new = |groups: &[Group<'_>], listeners: &Listeners| {
            let mut groups = groups.iter();
            groups.all(|group| !std::ptr::eq(group.listeners, listeners))
        };
        let new = found
            .iter()
            .filter(|(l, _)| is_new(&self.groups, l))
            .count();
        if new > 0 && self.groups.len() + new > GROUPS_MAX {
            self.send();
            self.groups.clear();
            self.is_mixed = false;
        }
        for (listeners, source) in found {
            let at = self
                .groups
                .iter()
                .position(|group| std::ptr::eq(group.listeners, listeners));
            let index = at.unwrap_or_else(|| {
                self.groups.push(Group {
                    listeners,
                    publication: Publication::default(),
                });
                self.groups.len() - 1
            });
            self.targets.push((index, source));
        }
        if new > 0 && self.groups.len() > 1 && !self.is_mixed {
            let mut clients = HashSet::new();
            let mut all = self.groups.iter().flat_map(|group| group.listeners);
            self.is_mixed = !all.all(|listener| clients.insert(listener.client));
            if self.is_mixed {
                self.send();
            }
        }
    }
}

fn send(inboxes: &[Inbox], group: &mut Group<'_>) {
    if !group.publication.is_empty() {
        let publication = std::mem::take(&mut group.publication);
        deliver(inboxes, group.listeners, Arc::new(publication));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, Subscriber};
    use crate::pubsub::{PubSub, Space};
    use wire::Protocol;

    /// Returns the text that each of three clients receives.
    fn received(inbox: &Inbox) -> [String; 3] {
        let mut messages = Vec::new();
        inbox.take(&mut messages);
        let mut texts = [const { String::new() }; 3];
        for message in messages {
            let Message::Deliver(to, publication) = message else {
                panic!("nothing else is sent");
            };
            let bytes = publication.encoded(Protocol::Resp3);
            texts[to.client as usize].push_str(&String::from_utf8_lossy(bytes));
        }
        texts
    }

    #[test]
    fn a_batch_sends_the_same_messages_as_single_publications() {
        let (pubsub, inboxes) = (PubSub::default(), [Inbox::default()]);
        let client = |client: u64| Subscriber {
            worker: 0,
            slot: 0,
            client,
        };
        // Client 0 has one subscription; clients 1 and 2 have several.
        pubsub.subscribe(Space::Channel, b"a", client(0));
        for round in 0..3 {
            if round == 1 {
                pubsub.subscribe(Space::Pattern, b"[ab]", client(1));
            }
            if round == 2 {
                pubsub.subscribe(Space::Channel, b"b", client(1));
                pubsub.subscribe(Space::Pattern, b"*", client(2));
                for name in 0..40 {
                    pubsub.subscribe(Space::Channel, format!("{name}").as_bytes(), client(2));
                }
            }
            let mut sent = Vec::new();
            for at in 0..2_000u32 {
                let channel = match at % 7 {
                    0..4 => "a".to_string(),
                    4 => "b".to_string(),
                    _ => format!("{}", at % 50),
                };
                sent.push((channel, format!("payload {at}").repeat(20)));
            }
            for (channel, payload) in &sent {
                pubsub.publish(&inboxes, channel.as_bytes(), payload.as_bytes());
            }
            let expected = received(&inboxes[0]);
            pubsub.collect(&inboxes, |batch| {
                for (channel, payload) in &sent {
                    batch.add(channel.as_bytes(), payload.as_bytes());
                }
            });
            assert!(!expected[0].is_empty());
            assert!(received(&inboxes[0]) == expected, "round {round}");
        }
    }
}
