//! Publish and subscribe: the subscriptions of all clients, and the delivery of messages across
//! workers.

mod batch;
mod channels;
mod patterns;

pub use batch::Batch;

use self::channels::Channels;
use self::patterns::Patterns;

use crate::inbox::Inbox;
use crate::message::{Message, Publication, Source, Subscriber};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use wire::glob;

/// Maximum number of subscriptions that a client adds or removes in one step. A larger number takes
/// several steps, because each subscription takes about two microseconds.
pub const AT_ONCE_MAX: usize = 256;

/// Maximum number of names of a command that MULTI queues, because EXEC is one step.
pub const QUEUED_MAX: usize = 1024;

/// The three separate namespaces of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Channels, of SUBSCRIBE.
    Channel,
    /// Patterns, of PSUBSCRIBE.
    Pattern,
    /// Shard channels, of SSUBSCRIBE.
    Shard,
}

/// Subscriptions of one session.
#[derive(Clone, Debug, Default)]
pub struct Subscriptions {
    names: [BTreeSet<Vec<u8>>; 3],
    bytes: usize,
}

/// Bytes of a subscription in addition to its name: an element in two ordered sets, and the
/// subscriber.
const SUBSCRIPTION_BYTES: usize = 128;

/// Returns the bytes of a subscription. The session and the table of all subscriptions have a copy
/// of the name each.
fn cost_of(name: &[u8]) -> usize {
    2 * name.len() + SUBSCRIPTION_BYTES
}

impl Subscriptions {
    /// Returns the names in one namespace.
    pub fn names(&self, space: Space) -> &BTreeSet<Vec<u8>> {
        &self.names[space as usize]
    }

    /// Adds a name. Returns false if it was there.
    pub fn insert(&mut self, space: Space, name: &[u8]) -> bool {
        let is_new = self.names[space as usize].insert(name.to_vec());
        if is_new {
            self.bytes += cost_of(name);
        }
        is_new
    }

    /// Removes a name. Returns false if it was not there.
    pub fn remove(&mut self, space: Space, name: &[u8]) -> bool {
        let was_there = self.names[space as usize].remove(name);
        if was_there {
            self.bytes -= cost_of(name);
        }
        was_there
    }

    /// Returns the number of all subscriptions.
    pub fn len(&self) -> usize {
        self.names.iter().map(BTreeSet::len).sum()
    }

    /// Removes and returns the first name, of any namespace.
    fn pop(&mut self) -> Option<(Space, Vec<u8>)> {
        let spaces = [Space::Channel, Space::Pattern, Space::Shard];
        let pop = |space: Space| Some((space, self.names[space as usize].pop_first()?));
        let popped = spaces.into_iter().find_map(pop)?;
        self.bytes -= cost_of(&popped.1);
        Some(popped)
    }

    /// Returns the bytes that the subscriptions take on the heap, here and in the table of all
    /// subscriptions.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number that the replies of SUBSCRIBE show: channels and patterns together, or
    /// shard channels.
    pub fn count(&self, space: Space) -> usize {
        match space {
            Space::Shard => self.names[2].len(),
            _ => self.names[0].len() + self.names[1].len(),
        }
    }

    /// Whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }
}

type Listeners = Vec<Subscriber>;

#[derive(Default)]
struct Tables {
    channels: Channels,
    shards: Channels,
    patterns: Patterns,
}

/// Subscriptions of all clients.
#[derive(Default)]
pub struct PubSub {
    tables: RwLock<Tables>,
    count: AtomicUsize,
    /// Subscriptions of clients that have disconnected, which are removed in steps.
    forgotten: Mutex<VecDeque<(Subscriptions, Subscriber)>>,
    forgotten_count: AtomicUsize,
}

impl PubSub {
    /// Whether there are no subscriptions at all.
    pub fn is_idle(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Adds a subscription.
    pub fn subscribe(&self, space: Space, name: &[u8], subscriber: Subscriber) {
        let mut tables = self.tables.write().expect("the lock is not poisoned");
        let listeners = match space {
            Space::Channel => tables.channels.entry(name),
            Space::Shard => tables.shards.entry(name),
            Space::Pattern => tables.patterns.entry(name),
        };
        listeners.push(subscriber);
        self.count.fetch_add(1, Relaxed);
    }

    /// Removes a subscription.
    pub fn unsubscribe(&self, space: Space, name: &[u8], subscriber: Subscriber) {
        let mut tables = self.tables.write().expect("the lock is not poisoned");
        let Tables {
            channels,
            shards,
            patterns,
        } = &mut *tables;
        let listeners = match space {
            Space::Channel => channels.get_mut(name),
            Space::Shard => shards.get_mut(name),
            Space::Pattern => patterns.get_mut(name),
        };
        let Some(listeners) = listeners else { return };
        let before = listeners.len();
        listeners.retain(|listener| *listener != subscriber);
        self.count.fetch_sub(before - listeners.len(), Relaxed);
        if listeners.is_empty() {
            match space {
                Space::Channel => channels.remove(name),
                Space::Shard => shards.remove(name),
                Space::Pattern => patterns.remove(name),
            }
        }
    }

    /// Removes some subscriptions of a client, at most [`AT_ONCE_MAX`].
    pub fn unsubscribe_some(&self, subscriptions: &mut Subscriptions, subscriber: Subscriber) {
        for _ in 0..AT_ONCE_MAX {
            let Some((space, name)) = subscriptions.pop() else {
                return;
            };
            self.unsubscribe(space, &name, subscriber);
        }
    }

    /// Removes the subscriptions of a client that has disconnected. If there are many,
    /// [`PubSub::step`] removes them later. Messages to the client are dropped meanwhile; its id is
    /// not used again.
    pub fn forget(&self, mut subscriptions: Subscriptions, subscriber: Subscriber) {
        self.unsubscribe_some(&mut subscriptions, subscriber);
        if subscriptions.is_empty() {
            return;
        }
        let mut forgotten = self.forgotten();
        forgotten.push_back((subscriptions, subscriber));
        self.forgotten_count.store(forgotten.len(), Relaxed);
    }

    /// Whether subscriptions of disconnected clients remain to be removed.
    #[inline]
    pub fn has_forgotten(&self) -> bool {
        self.forgotten_count.load(Relaxed) > 0
    }

    /// Removes some subscriptions of a disconnected client. The list is not locked meanwhile, so no
    /// other worker waits.
    pub fn step(&self) {
        let taken = self.forgotten().pop_front();
        let Some((mut subscriptions, subscriber)) = taken else {
            return;
        };
        self.unsubscribe_some(&mut subscriptions, subscriber);
        let mut forgotten = self.forgotten();
        if !subscriptions.is_empty() {
            forgotten.push_front((subscriptions, subscriber));
        }
        self.forgotten_count.store(forgotten.len(), Relaxed);
    }

    fn forgotten(&self) -> MutexGuard<'_, VecDeque<(Subscriptions, Subscriber)>> {
        self.forgotten.lock().expect("the lock is not poisoned")
    }

    /// Whether a channel is too long to be compared with the subscribers' patterns. A message to it
    /// reaches only the subscribers of the channel itself.
    pub fn is_too_long(&self, channel: &[u8]) -> bool {
        let tables = || self.tables.read().expect("the lock is not poisoned");
        !self.is_idle() && tables().patterns.is_too_long(channel)
    }

    /// Sends a message to all subscribers of the channel. Returns their number.
    pub fn publish(&self, inboxes: &[Inbox], channel: &[u8], payload: &[u8]) -> usize {
        self.publish_in(inboxes, channel, payload, false)
    }

    /// Sends a message to the subscribers of a shard channel. Patterns do not apply. Returns their
    /// number.
    pub fn publish_sharded(&self, inboxes: &[Inbox], channel: &[u8], payload: &[u8]) -> usize {
        self.publish_in(inboxes, channel, payload, true)
    }

    fn publish_in(
        &self,
        inboxes: &[Inbox],
        channel: &[u8],
        payload: &[u8],
        is_sharded: bool,
    ) -> usize {
        if self.is_idle() {
            return 0;
        }
        let tables = self.tables.read().expect("the lock is not poisoned");
        let mut count = 0;
        tables.receivers(channel, is_sharded, &mut |listeners, source| {
            let mut publication = Publication::default();
            publication.push(source, channel, payload);
            deliver(inboxes, listeners, Arc::new(publication));
            count += listeners.len();
        });
        count
    }

    /// Sends the messages that `produce` adds to a batch. The subscriptions cannot change
    /// meanwhile.
    pub fn collect(&self, inboxes: &[Inbox], produce: impl FnOnce(&mut Batch<'_>)) {
        let tables = self.tables.read().expect("the lock is not poisoned");
        let mut batch = Batch::new(&tables, inboxes);
        produce(&mut batch);
        batch.send();
    }

    /// Returns the channels with subscribers whose names match the pattern.
    pub fn channels(&self, pattern: Option<&[u8]>, is_sharded: bool) -> Vec<Vec<u8>> {
        let tables = self.tables.read().expect("the lock is not poisoned");
        let table = if is_sharded {
            &tables.shards
        } else {
            &tables.channels
        };
        let is_wanted =
            |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, false));
        let names = table.iter().map(|(name, _)| name);
        names.filter(|name| is_wanted(name)).cloned().collect()
    }

    /// Returns the number of subscribers of a channel.
    pub fn listener_count(&self, channel: &[u8], is_sharded: bool) -> usize {
        let tables = self.tables.read().expect("the lock is not poisoned");
        let table = if is_sharded {
            &tables.shards
        } else {
            &tables.channels
        };
        table.get(channel).map_or(0, Vec::len)
    }

    /// Passes each subscription to `visit`: its namespace, the name, and the subscriber.
    pub fn each(&self, visit: &mut dyn FnMut(Space, &[u8], Subscriber)) {
        let tables = self.tables.read().expect("the lock is not poisoned");
        let mut all = |space, name: &[u8], listeners: &Listeners| {
            listeners.iter().for_each(|to| visit(space, name, *to));
        };
        for (name, listeners) in tables.channels.iter() {
            all(Space::Channel, name, listeners);
        }
        for (name, listeners) in tables.patterns.iter() {
            all(Space::Pattern, name, listeners);
        }
        for (name, listeners) in tables.shards.iter() {
            all(Space::Shard, name, listeners);
        }
    }

    /// Returns the numbers of channels, patterns and shard channels with subscribers.
    pub fn counts(&self) -> (usize, usize, usize) {
        let tables = self.tables.read().expect("the lock is not poisoned");
        (
            tables.channels.len(),
            tables.patterns.len(),
            tables.shards.len(),
        )
    }
}

impl Tables {
    /// Passes the subscribers that receive a message to `each`, one subscription at a time.
    fn receivers<'t>(
        &'t self,
        channel: &[u8],
        is_sharded: bool,
        each: &mut dyn FnMut(&'t Listeners, Source<'t>),
    ) {
        if is_sharded {
            if let Some(listeners) = self.shards.get(channel) {
                each(listeners, Source::Shard);
            }
            return;
        }
        if let Some(listeners) = self.channels.get(channel) {
            each(listeners, Source::Channel);
        }
        for (pattern, listeners) in self.patterns.matching(channel) {
            each(listeners, Source::Pattern(pattern));
        }
    }
}

/// Sends messages to all subscribers of one subscription.
fn deliver(inboxes: &[Inbox], listeners: &Listeners, publication: Arc<Publication>) {
    for to in listeners {
        let Some(inbox) = inboxes.get(to.worker) else {
            continue;
        };
        let message = Message::Deliver(*to, Arc::clone(&publication));
        if !inbox.push(to.worker, message) {
            inbox.push(to.worker, Message::Kill(to.slot, to.client));
        }
    }
}
