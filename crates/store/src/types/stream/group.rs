//! Consumer groups: how far each has read, its consumers, and the entries that it was given and has
//! not acknowledged.
//!
//! A pending entry is stored in one tree by ID and in another by consumer and ID, so that a
//! consumer's own entries are found without a tree for each consumer. A third tree, by time of
//! delivery, exists from the first XREADGROUP with CLAIM on.

use super::id::StreamId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

/// Bytes of a pending entry in the tree by ID and in the tree by consumer, with the trees' share.
/// Keys are mostly added in ascending order, which leaves the nodes of a tree 6/11 full.
const PENDING_BYTES: usize = 64 + 48;
/// Bytes of a pending entry in the tree by time.
const TIMED_BYTES: usize = 48;
/// Bytes of a consumer without its name: its record, its place in the order of names, and the head
/// of the shared name.
const CONSUMER_BYTES: usize = size_of::<Option<Consumer>>() + 40 + 16;

/// Number of a consumer within its group. It is reused after the consumer is deleted.
pub type ConsumerIndex = u32;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Time of the last delivery in milliseconds since the Unix epoch.
    pub delivered_ms: u64,
    /// Number of deliveries. It does not exceed 32 bits.
    pub deliveries: u32,
    /// Consumer to which the entry was delivered last.
    pub consumer: ConsumerIndex,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Name of the consumer.
    pub name: Arc<[u8]>,
    /// Time of its last attempt to read or claim entries, in milliseconds since the Unix epoch.
    pub seen_ms: u64,
    /// Time of the consumer's last successful attempt; `None` if there was none.
    pub active_ms: Option<u64>,
    /// Number of the consumer's pending entries, including expired ones.
    pending: usize,
}

/// Entries that have expired but are still listed as pending.
#[derive(Clone, Debug, Default)]
pub struct Expired {
    /// All entries with smaller IDs have expired.
    pub(super) line: StreamId,
    /// Further expired entries in ascending order.
    pub(super) others: Vec<StreamId>,
}

impl Expired {
    /// Returns whether an entry has expired.
    pub fn contains(&self, id: StreamId) -> bool {
        id < self.line || self.others.binary_search(&id).is_ok()
    }
}

/// A consumer group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// ID of the last entry that was delivered.
    pub last_delivered: StreamId,
    /// Number of entries ever added to the stream up to `last_delivered`; `None` if unknown.
    pub entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Pending>,
    by_consumer: BTreeSet<(ConsumerIndex, StreamId)>,
    by_time: Option<BTreeSet<(u64, StreamId)>>,
    names: BTreeMap<Arc<[u8]>, ConsumerIndex>,
    consumers: Vec<Option<Consumer>>,
    vacant: Vec<ConsumerIndex>,
    name_bytes: usize,
}

impl Group {
    /// Returns the number of bytes on the heap, estimated for the trees.
    pub fn heap_bytes(&self) -> usize {
        let timed = self.by_time.as_ref().map_or(0, BTreeSet::len);
        self.pending.len() * PENDING_BYTES
            + timed * TIMED_BYTES
            + self.consumers.len() * CONSUMER_BYTES
            + self.vacant.len() * size_of::<ConsumerIndex>()
            + self.name_bytes
    }

    /// Returns the number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.names.len()
    }

    /// Returns the consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (ConsumerIndex, &Consumer)> {
        self.names
            .values()
            .map(|index| (*index, self.consumer(*index)))
    }

    /// Returns the consumer with this name.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerIndex> {
        self.names.get(name).copied()
    }

    /// Returns a consumer.
    ///
    /// # Panics
    ///
    /// The consumer does not exist.
    pub fn consumer(&self, index: ConsumerIndex) -> &Consumer {
        self.consumers[index as usize]
            .as_ref()
            .expect("the consumer exists")
    }

    /// Returns a consumer for changes.
    pub(super) fn consumer_mut(&mut self, index: ConsumerIndex) -> &mut Consumer {
        self.consumers[index as usize]
            .as_mut()
            .expect("the consumer exists")
    }

    /// Adds a consumer. Returns `None` if the name is in use or the group has 2^32 consumers.
    pub(super) fn add_consumer(&mut self, name: &[u8], now_ms: u64) -> Option<ConsumerIndex> {
        if self.names.contains_key(name) {
            return None;
        }
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                let index = ConsumerIndex::try_from(self.consumers.len()).ok()?;
                self.consumers.push(None);
                index
            }
        };
        let name: Arc<[u8]> = name.into();
        self.name_bytes += name.len();
        self.names.insert(Arc::clone(&name), index);
        self.consumers[index as usize] = Some(Consumer {
            name,
            seen_ms: now_ms,
            active_ms: None,
            pending: 0,
        });
        Some(index)
    }

    /// Removes a consumer with its pending entries. Returns the number of those that have not
    /// expired; `None` without such a consumer.
    pub(super) fn remove_consumer(&mut self, name: &[u8], expired: &Expired) -> Option<usize> {
        let index = self.find(name)?;
        let mut count = 0;
        let first = (index, StreamId::MIN);
        while let Some(&(of, id)) = self.by_consumer.range(first..).next() {
            if of != index {
                break;
            }
            self.remove(id);
            count += usize::from(!expired.contains(id));
        }
        self.names.remove(name);
        self.consumers[index as usize] = None;
        self.vacant.push(index);
        self.name_bytes -= name.len();
        Some(count)
    }

    /// Returns the number of pending entries, including expired ones that are still stored.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of pending entries.
    pub fn pending_count(&self, expired: &Expired) -> usize {
        let before = self.pending.range(..expired.line).count();
        let others = expired
            .others
            .iter()
            .filter(|id| self.pending.contains_key(id));
        self.pending.len() - before - others.count()
    }

    /// Returns the number of pending entries of a consumer.
    pub fn pending_count_of(&self, index: ConsumerIndex, expired: &Expired) -> usize {
        let before = self
            .by_consumer
            .range((index, StreamId::MIN)..(index, expired.line));
        let is_own = |id: &&StreamId| self.by_consumer.contains(&(index, **id));
        let others = expired.others.iter().filter(is_own);
        self.consumer(index).pending - before.count() - others.count()
    }

    /// Returns the pending entries from one ID to another, in order.
    pub fn pending<'g>(
        &'g self,
        from: StreamId,
        to: StreamId,
        expired: &'g Expired,
    ) -> impl DoubleEndedIterator<Item = (StreamId, Pending)> + 'g {
        let to = to.max(from);
        let all = self
            .pending
            .range(from..=to)
            .map(|(id, pending)| (*id, *pending));
        all.filter(|(id, _)| !expired.contains(*id))
    }

    /// Returns the pending entries of a consumer from one ID to another, in order.
    pub fn pending_of<'g>(
        &'g self,
        index: ConsumerIndex,
        from: StreamId,
        to: StreamId,
        expired: &'g Expired,
    ) -> impl Iterator<Item = (StreamId, Pending)> + 'g {
        let to = to.max(from);
        let ids = self
            .by_consumer
            .range((index, from)..=(index, to))
            .map(|(_, id)| *id);
        let live = ids.filter(|id| !expired.contains(*id));
        live.filter_map(|id| Some((id, *self.pending.get(&id)?)))
    }

    /// Returns whether an entry is pending. An expired entry may be.
    pub fn is_pending(&self, id: StreamId) -> bool {
        self.pending.contains_key(&id)
    }

    /// Returns a pending entry, expired or not.
    pub fn get(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(&id).copied()
    }

    /// Records that an entry is pending, or changes its record.
    pub(super) fn put(&mut self, id: StreamId, pending: Pending) {
        let before = self.pending.insert(id, pending);
        if let Some(times) = &mut self.by_time {
            if let Some(before) = before {
                times.remove(&(before.delivered_ms, id));
            }
            times.insert((pending.delivered_ms, id));
        }
        let old = before.map(|before| before.consumer);
        if old == Some(pending.consumer) {
            return;
        }
        if let Some(old) = old {
            self.by_consumer.remove(&(old, id));
            self.consumer_mut(old).pending -= 1;
        }
        self.by_consumer.insert((pending.consumer, id));
        self.consumer_mut(pending.consumer).pending += 1;
    }

    /// Removes a pending entry. Returns whether there was one.
    pub(super) fn remove(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else {
            return false;
        };
        self.by_consumer.remove(&(pending.consumer, id));
        if let Some(times) = &mut self.by_time {
            times.remove(&(pending.delivered_ms, id));
        }
        self.consumer_mut(pending.consumer).pending -= 1;
        true
    }

    /// Returns the first pending entry from an ID on, expired or not.
    pub(super) fn first_from(&self, id: StreamId) -> Option<(StreamId, Pending)> {
        let first = self.pending.range((Included(id), Unbounded)).next();
        first.map(|(id, pending)| (*id, *pending))
    }

    /// Returns the pending entries in the order of their deliveries, expired ones included.
    pub(super) fn by_time(&mut self) -> &BTreeSet<(u64, StreamId)> {
        let pending = &self.pending;
        self.by_time.get_or_insert_with(|| {
            let times = pending
                .iter()
                .map(|(id, pending)| (pending.delivered_ms, *id));
            times.collect()
        })
    }

    /// Frees one part of a group that is no longer used. Returns false if none is left.
    pub(super) fn dismantle_one(&mut self) -> bool {
        let timed = self.by_time.as_mut().and_then(BTreeSet::pop_first);
        self.pending.pop_first().is_some()
            || timed.is_some()
            || self.by_consumer.pop_first().is_some()
            || self.names.pop_first().is_some()
            || self.consumers.pop().is_some()
    }

    /// Panics if the group is inconsistent.
    pub(super) fn check(&self) {
        assert_eq!(self.pending.len(), self.by_consumer.len());
        for (id, pending) in &self.pending {
            assert!(self.by_consumer.contains(&(pending.consumer, *id)));
        }
        if let Some(times) = &self.by_time {
            assert_eq!(times.len(), self.pending.len());
        }
        let present = self.consumers.iter().flatten();
        assert_eq!(present.clone().count(), self.names.len());
        let pending: usize = present.clone().map(|consumer| consumer.pending).sum();
        assert_eq!(pending, self.pending.len());
        assert_eq!(
            present.map(|consumer| consumer.name.len()).sum::<usize>(),
            self.name_bytes
        );
        for (name, index) in &self.names {
            assert_eq!(*name, self.consumer(*index).name);
        }
        assert_eq!(self.names.len() + self.vacant.len(), self.consumers.len());
    }
}
