//! Messages that producers may send again: XADD with IDMP or IDMPAUTO adds a message once.
//!
//! For each producer the IDs of its last messages are kept, up to a number and a time. They are
//! forgotten on time, in the order of their stream IDs, by the same background work that removes
//! expired entries.

use super::id::StreamId;
use policy::{Budget, Tick};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Messages of a producer with the IDs of their entries.
pub type Messages<'a> = dyn Iterator<Item = (&'a [u8], StreamId)> + 'a;

/// Range of the number of seconds for which messages are kept, and its default.
pub const IDEMPOTENCE_SECONDS: (i64, i64, i64) = (1, 86_400, 100);
/// Range of the number of messages kept for each producer, and its default.
pub const IDEMPOTENCE_SIZE: (i64, i64, i64) = (1, 10_000, 100);

/// Bytes of a message without its ID, and of a producer without its name.
const MESSAGE_BYTES: usize = 16 + 2 * (16 + 16) + 16 + 8;
const PRODUCER_BYTES: usize = 16 + 24 + 48 + 32;

/// Numbers about the messages that producers may send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotenceFacts {
    /// Seconds for which a message is kept.
    pub seconds: i64,
    /// Maximum number of messages kept for each producer.
    pub size: i64,
    /// Number of producers.
    pub producers: usize,
    /// Number of messages.
    pub messages: usize,
    /// Number of messages ever recorded.
    pub added: u64,
    /// Number of messages that were sent again.
    pub duplicates: u64,
}

impl Default for IdempotenceFacts {
    fn default() -> Self {
        IdempotenceFacts {
            seconds: IDEMPOTENCE_SECONDS.2,
            size: IDEMPOTENCE_SIZE.2,
            producers: 0,
            messages: 0,
            added: 0,
            duplicates: 0,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Producer {
    ids: HashMap<Arc<[u8]>, StreamId>,
    order: VecDeque<(StreamId, Arc<[u8]>)>,
}

/// The last messages of all producers of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Idempotence {
    producers: BTreeMap<Arc<[u8]>, Producer>,
    /// Stream ID and producer of each message. Messages that are no longer kept may remain.
    queue: VecDeque<(StreamId, Arc<[u8]>)>,
    pub facts: IdempotenceFacts,
    text_bytes: usize,
}

impl Idempotence {
    /// Returns whether nothing distinguishes this from a new record.
    pub fn is_default(&self) -> bool {
        self.queue.is_empty() && self.facts == IdempotenceFacts::default()
    }

    /// Returns the number of bytes on the heap, estimated for the maps.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Idempotence>()
            + self.facts.messages * MESSAGE_BYTES
            + self.facts.producers * PRODUCER_BYTES
            + self.queue.capacity() * size_of::<(StreamId, Arc<[u8]>)>()
            + self.text_bytes
    }

    fn end_of(&self, id: StreamId) -> Tick {
        Tick(id.ms.saturating_add(self.facts.seconds as u64 * 1000))
    }

    /// Returns the instant after which the oldest message is forgotten.
    pub fn nearest(&self) -> Option<Tick> {
        self.queue.front().map(|(id, _)| self.end_of(*id))
    }

    /// Returns the stream ID of a message of a producer that was sent before.
    pub fn find(&self, producer: &[u8], message: &[u8], now: Tick) -> Option<StreamId> {
        let id = *self.producers.get(producer)?.ids.get(message)?;
        (now < self.end_of(id)).then_some(id)
    }

    /// Records a message that is not recorded yet, or only by an expired record.
    pub fn add(&mut self, producer: &[u8], message: &[u8], id: StreamId) {
        let name = match self.producers.get_key_value(producer) {
            Some((name, _)) => Arc::clone(name),
            None => {
                let name: Arc<[u8]> = producer.into();
                self.producers
                    .insert(Arc::clone(&name), Producer::default());
                self.facts.producers += 1;
                self.text_bytes += name.len();
                name
            }
        };
        let of = self.producers.get_mut(&name).expect("it was added above");
        let message: Arc<[u8]> = message.into();
        if of.ids.insert(Arc::clone(&message), id).is_none() {
            self.facts.messages += 1;
            self.text_bytes += message.len();
        }
        of.order.push_back((id, message));
        self.facts.added += 1;
        self.queue.push_back((id, Arc::clone(&name)));
        while self
            .producers
            .get(&name)
            .is_some_and(|of| of.ids.len() as i64 > self.facts.size)
        {
            self.forget_first(&name);
        }
        // Records that a later one replaced, or that exceeded the size, are dropped here.
        while self.queue.len() > 2 * self.facts.messages + 16 {
            let stale = |(id, name): &(StreamId, Arc<[u8]>)| {
                let first = self.producers.get(name).and_then(|of| of.order.front());
                first.is_none_or(|first| first.0 > *id)
            };
            if !self.queue.front().is_some_and(stale) {
                break;
            }
            self.queue.pop_front();
        }
    }

    /// Forgets the oldest message of a producer.
    fn forget_first(&mut self, name: &Arc<[u8]>) {
        let Some(producer) = self.producers.get_mut(name) else {
            return;
        };
        if let Some((id, message)) = producer.order.pop_front()
            && producer.ids.get(&message) == Some(&id)
        {
            producer.ids.remove(&message);
            self.facts.messages -= 1;
            self.text_bytes -= message.len();
        }
        if producer.order.is_empty() {
            self.producers.remove(name);
            self.facts.producers -= 1;
            self.text_bytes -= name.len();
        }
    }

    /// Forgets messages whose time has passed, one per step of the budget.
    pub fn purge(&mut self, now: Tick, budget: &mut Budget) {
        while self.nearest().is_some_and(|end| end < now) && budget.spend() {
            let Some((id, name)) = self.queue.pop_front() else {
                return;
            };
            let first = |this: &Self| Some(this.producers.get(&name)?.order.front()?.0);
            if first(self).is_some_and(|first| first <= id) {
                self.forget_first(&name);
            }
        }
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        let facts = self.facts;
        *self = Idempotence::default();
        self.facts = IdempotenceFacts {
            producers: 0,
            messages: 0,
            ..facts
        };
    }

    /// Passes each producer with its messages to `visit`, in the order of their stream IDs.
    pub fn visit(&self, visit: &mut dyn FnMut(&[u8], &mut Messages<'_>)) {
        for (name, producer) in &self.producers {
            let is_current =
                |(id, message): &&(StreamId, Arc<[u8]>)| producer.ids.get(message) == Some(id);
            let current = producer.order.iter().filter(is_current);
            visit(name, &mut current.map(|(id, message)| (&**message, *id)));
        }
    }
}
