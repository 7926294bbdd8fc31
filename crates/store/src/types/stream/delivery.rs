//! Delivery of entries to the consumers of groups: reading, acknowledging and claiming.

use super::body::{Body, GROUP_BYTES, Live};
use super::group::{ConsumerIndex, Expired, Group, Pending};
use super::id::StreamId;
use super::log::Log;
use super::{Entry, References, Removed, Stream};
use crate::collection::Scene;

/// Maximum number of pending entries that XAUTOCLAIM examines for each that it may claim.
const ATTEMPTS_PER_CLAIM: usize = 10;

/// Way in which entries are delivered.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Consumer that receives the entries.
    pub consumer: ConsumerIndex,
    /// Maximum number of entries.
    pub count: usize,
    /// Whether the entries become pending.
    pub becomes_pending: bool,
}

/// Way in which entries are claimed.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// New consumer of the entries.
    pub consumer: ConsumerIndex,
    /// Minimum time since the last delivery, in milliseconds.
    pub idle_ms_min: u64,
    /// Time of delivery to record, in milliseconds since the Unix epoch.
    pub delivered_ms: u64,
    /// Number of deliveries to record. Otherwise the number increases, unless `keeps_deliveries` is
    /// true.
    pub deliveries: Option<u32>,
    /// Whether the number of deliveries stays.
    pub keeps_deliveries: bool,
    /// Whether an entry that is not pending becomes so.
    pub may_create: bool,
}

/// Result of [`Stream::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The entry was claimed.
    Done,
    /// The entry does not exist in the stream and was removed from the list.
    Missing,
    /// Nothing was changed.
    Refused,
}

/// Result of [`Stream::auto_claim`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoClaimed {
    /// Number of claimed entries.
    pub count: usize,
    /// First pending entry that was not examined; the smallest ID if there is none.
    pub next: StreamId,
    /// Pending entries that no longer exist in the stream and were removed from the list.
    pub missing: Vec<StreamId>,
}

/// State of a stream in an operation on a group.
struct Around<'s> {
    log: &'s Log,
    live: Live,
    expired: Expired,
}

impl Claim {
    /// Claims an entry that exists. Returns whether it did.
    fn apply(&self, group: &mut Group, id: StreamId, now_ms: u64) -> bool {
        let before = group.get(id);
        let deliveries = match before {
            None if !self.may_create => return false,
            Some(before) if now_ms.saturating_sub(before.delivered_ms) < self.idle_ms_min => {
                return false;
            }
            None => 1,
            Some(before) => before.deliveries,
        };
        let deliveries = match (self.deliveries, before) {
            (Some(deliveries), _) => deliveries,
            (None, Some(_)) if !self.keeps_deliveries => deliveries.saturating_add(1),
            // Redis creates the record with one delivery and then counts this one.
            (None, None) if !self.keeps_deliveries => 2,
            _ => deliveries,
        };
        group.put(
            id,
            Pending {
                delivered_ms: self.delivered_ms,
                deliveries,
                consumer: self.consumer,
            },
        );
        group.consumer_mut(self.consumer).active_ms = Some(now_ms);
        true
    }
}

impl Body {
    /// Runs an operation on a group and counts the group's bytes. Returns `None` without such a
    /// group.
    fn on_group<R>(
        &mut self,
        name: &[u8],
        scene: &Scene<'_>,
        work: impl FnOnce(&mut Group, &Around<'_>) -> R,
    ) -> Option<R> {
        let expired = self.expired(scene.horizon);
        let live = self.live(scene.horizon);
        let group = self.groups.get_mut(name)?;
        let before = group.heap_bytes();
        let log = &self.log;
        let result = work(group, &Around { log, live, expired });
        self.group_bytes = self.group_bytes + group.heap_bytes() - before;
        Some(result)
    }

    /// Returns the numbers from which distances between IDs are derived.
    fn counts(&self, scene: &Scene<'_>) -> Counts {
        Counts {
            len: self.len(scene.horizon) as u64,
            first: self.first_id(scene.horizon),
            last_id: self.last_id,
            max_deleted_id: self.max_deleted_id,
            entries_added: self.entries_added,
        }
    }
}

/// Numbers of a stream from which the number of entries up to an ID is derived, as Redis does.
#[derive(Clone, Copy)]
struct Counts {
    len: u64,
    first: StreamId,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
}

impl Counts {
    /// Returns whether an entry after an ID was deleted other than by trimming.
    fn has_gap_from(&self, id: StreamId) -> bool {
        self.len > 0 && self.max_deleted_id > StreamId::MIN && id <= self.max_deleted_id
    }

    /// Returns the number of entries ever added up to an ID; `None` if that is unknown.
    fn distance(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id > StreamId::MIN && id < self.max_deleted_id {
            return None;
        }
        if id >= self.last_id {
            return (id == self.last_id).then_some(self.entries_added);
        }
        let has_no_gap = self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first;
        let before = self.entries_added.saturating_sub(self.len);
        match id.cmp(&self.first) {
            _ if !has_no_gap => None,
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before + 1),
            std::cmp::Ordering::Greater => None,
        }
    }
}

impl Stream {
    /// Returns the number of groups.
    pub fn group_count(&self) -> usize {
        self.body.groups.len()
    }

    /// Returns the groups in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.body
            .groups
            .iter()
            .map(|(name, group)| (&**name, group))
    }

    /// Returns the group with a name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.body.groups.get(name)
    }

    /// Returns the entries that have expired and may still be listed as pending.
    pub fn expired(&self, scene: &Scene<'_>) -> Expired {
        self.body.expired(scene.horizon)
    }

    /// Creates a group. Returns false if it exists.
    pub fn create_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> bool {
        let body = &mut *self.body;
        if body.groups.contains_key(name) {
            return false;
        }
        let mut group = Group::default();
        group.last_delivered = last;
        group.entries_read = read.map(|read| read.min(body.entries_added));
        body.group_bytes += GROUP_BYTES + name.len() + group.heap_bytes();
        body.groups.insert(name.into(), group);
        true
    }

    /// Sets how far a group has read. Returns whether that changes a group.
    pub fn set_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> bool {
        let body = &mut *self.body;
        let Some(group) = body.groups.get_mut(name) else {
            return false;
        };
        let new = (last, read.map(|read| read.min(body.entries_added)));
        let old = (group.last_delivered, group.entries_read);
        (group.last_delivered, group.entries_read) = new;
        new != old
    }

    /// Removes a group and returns a stream that holds only that group, to be freed in steps;
    /// `None` without such a group.
    pub fn destroy_group(&mut self, name: &[u8]) -> Option<Stream> {
        let (name, group) = self.body.groups.remove_entry(name)?;
        let bytes = GROUP_BYTES + name.len() + group.heap_bytes();
        self.body.group_bytes -= bytes;
        let mut waste = Stream::default();
        waste.body.group_bytes = bytes;
        waste.body.groups.insert(name, group);
        Some(waste)
    }

    /// Adds a consumer to a group: `None` without such a group, `Some(None)` if the name is in use.
    pub fn add_consumer(
        &mut self,
        group: &[u8],
        name: &[u8],
        scene: &Scene<'_>,
    ) -> Option<Option<ConsumerIndex>> {
        self.body.on_group(group, scene, |group, _| {
            group.add_consumer(name, scene.now.0)
        })
    }

    /// Removes a consumer from a group and returns the number of its pending entries: `None`
    /// without such a group, `Some(None)` without such a consumer.
    pub fn remove_consumer(
        &mut self,
        group: &[u8],
        name: &[u8],
        scene: &Scene<'_>,
    ) -> Option<Option<usize>> {
        self.body.on_group(group, scene, |group, around| {
            group.remove_consumer(name, &around.expired)
        })
    }

    /// Records that a consumer attempts to read or claim entries.
    pub fn consumer_seen(&mut self, group: &[u8], consumer: ConsumerIndex, scene: &Scene<'_>) {
        if let Some(group) = self.body.groups.get_mut(group) {
            group.consumer_mut(consumer).seen_ms = scene.now.0;
        }
    }

    /// Restores a consumer's times from a dump.
    pub fn set_consumer_times(
        &mut self,
        group: &[u8],
        consumer: ConsumerIndex,
        seen_ms: u64,
        active_ms: Option<u64>,
    ) {
        if let Some(group) = self.body.groups.get_mut(group) {
            let consumer = group.consumer_mut(consumer);
            (consumer.seen_ms, consumer.active_ms) = (seen_ms, active_ms);
        }
    }

    /// Returns whether the stream has entries that a group has not read.
    pub fn has_unread(&self, group: &Group, scene: &Scene<'_>) -> bool {
        let last = self.last_entry_id(scene);
        last.is_some_and(|last| last > group.last_delivered)
    }

    /// Passes the entries that a group has not read to `each` and records that they are delivered.
    pub fn deliver(
        &mut self,
        name: &[u8],
        delivery: &Delivery,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&Entry<'_>),
    ) {
        let counts = self.body.counts(scene);
        self.body.on_group(name, scene, |group, around| {
            let from = group.last_delivered.next();
            let entries = from.map(|id| around.live.from(around.log, id));
            for entry in entries.into_iter().flatten().take(delivery.count) {
                let last = group.last_delivered;
                group.entries_read = match group.entries_read {
                    Some(read) if last >= counts.first && !counts.has_gap_from(last) => {
                        Some(read + 1)
                    }
                    read if counts.entries_added == 0 => read,
                    _ => counts.distance(entry.id),
                };
                group.last_delivered = entry.id;
                each(&entry);
                if delivery.becomes_pending {
                    let pending = Pending {
                        delivered_ms: scene.now.0,
                        deliveries: 1,
                        consumer: delivery.consumer,
                    };
                    group.put(entry.id, pending);
                    group.consumer_mut(delivery.consumer).active_ms = Some(scene.now.0);
                }
            }
        });
    }

    /// Passes pending entries of a consumer, beginning at an ID, to `each`, and counts the
    /// delivery. An entry that was deleted from the stream is passed as `None`.
    pub fn deliver_again(
        &mut self,
        name: &[u8],
        delivery: &Delivery,
        from: StreamId,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(StreamId, Option<&Entry<'_>>),
    ) {
        self.body.on_group(name, scene, |group, around| {
            let own = group.pending_of(delivery.consumer, from, StreamId::MAX, &around.expired);
            let own: Vec<_> = own.take(delivery.count).collect();
            for (id, pending) in own {
                let entry = around.live.get(around.log, id);
                each(id, entry.as_ref());
                if entry.is_some() {
                    let again = Pending {
                        delivered_ms: scene.now.0,
                        deliveries: pending.deliveries.saturating_add(1),
                        ..pending
                    };
                    group.put(id, again);
                }
            }
        });
    }

    /// Returns the time of the earliest last delivery among the pending entries of a group that
    /// exist in the stream.
    pub fn oldest_delivery(&mut self, name: &[u8], scene: &Scene<'_>) -> Option<u64> {
        let oldest = self.body.on_group(name, scene, |group, around| {
            let mut times = group.by_time().iter();
            times
                .find(|(_, id)| around.live.get(around.log, *id).is_some())
                .map(|(ms, _)| *ms)
        });
        oldest.flatten()
    }

    /// Claims entries whose last delivery is at least this long ago, the oldest deliveries first,
    /// and passes each to `each` with the milliseconds since its last delivery and the number of
    /// earlier deliveries. Returns their number.
    pub fn claim_idle(
        &mut self,
        name: &[u8],
        delivery: &Delivery,
        idle_ms_min: u64,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&Entry<'_>, u64, u32),
    ) -> usize {
        let now_ms = scene.now.0;
        let claimed = self.body.on_group(name, scene, |group, around| {
            let idle = |delivered: u64| now_ms.saturating_sub(delivered);
            let times = group.by_time().iter();
            let due = times.take_while(|(delivered, _)| idle(*delivered) >= idle_ms_min);
            let exists = |id: &StreamId| around.live.get(around.log, *id).is_some();
            let due = due.map(|(_, id)| *id).filter(exists).take(delivery.count);
            let due: Vec<_> = due.collect();
            for id in &due {
                let entry = around.live.get(around.log, *id);
                let (Some(entry), Some(pending)) = (entry, group.get(*id)) else {
                    continue;
                };
                each(&entry, idle(pending.delivered_ms), pending.deliveries);
                let again = Pending {
                    delivered_ms: now_ms,
                    deliveries: pending.deliveries.saturating_add(1),
                    consumer: delivery.consumer,
                };
                group.put(*id, again);
                group.consumer_mut(delivery.consumer).active_ms = Some(now_ms);
            }
            due.len()
        });
        claimed.unwrap_or(0)
    }

    /// Removes pending entries from a group's list. Returns the number of those that were listed
    /// and had not expired; `None` without such a group.
    pub fn acknowledge(
        &mut self,
        name: &[u8],
        ids: impl Iterator<Item = StreamId>,
        scene: &Scene<'_>,
    ) -> Option<usize> {
        self.body.on_group(name, scene, |group, around| {
            ids.filter(|id| !around.expired.contains(*id) && group.remove(*id))
                .count()
        })
    }

    /// Acknowledges an entry and removes it from the stream: [`Removed::Missing`] if it was not
    /// pending.
    pub fn acknowledge_and_remove(
        &mut self,
        name: &[u8],
        id: StreamId,
        references: References,
        scene: &Scene<'_>,
    ) -> (Removed, bool) {
        if self.acknowledge(name, std::iter::once(id), scene) != Some(1) {
            return (Removed::Missing, false);
        }
        match self.remove(id, references, scene) {
            Removed::Referenced => (Removed::Referenced, false),
            // An entry that was pending but is not in the stream counts as deleted.
            removed => (Removed::Done, removed == Removed::Done),
        }
    }

    /// Claims a pending entry for a consumer. If the entry is not in the stream, removes it from
    /// the list.
    pub fn claim(
        &mut self,
        name: &[u8],
        id: StreamId,
        claim: &Claim,
        scene: &Scene<'_>,
    ) -> Claimed {
        let claimed = self.body.on_group(name, scene, |group, around| {
            let exists = around.live.get(around.log, id).is_some();
            if exists && claim.apply(group, id, scene.now.0) {
                Claimed::Done
            } else if !exists && group.remove(id) {
                Claimed::Missing
            } else {
                Claimed::Refused
            }
        });
        claimed.unwrap_or(Claimed::Refused)
    }

    /// Claims up to `count` pending entries, beginning at an ID, and passes each to `each`.
    /// Examines at most ten times as many.
    pub fn auto_claim(
        &mut self,
        name: &[u8],
        (from, count): (StreamId, usize),
        claim: &Claim,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&Entry<'_>),
    ) -> AutoClaimed {
        let result = self.body.on_group(name, scene, |group, around| {
            let mut result = AutoClaimed::default();
            let (mut left, mut next) = (count, Some(from));
            let mut attempts = count.saturating_mul(ATTEMPTS_PER_CLAIM);
            while let Some((id, _)) = next.and_then(|next| group.first_from(next)) {
                if left == 0 || attempts == 0 {
                    result.next = id;
                    break;
                }
                attempts -= 1;
                next = id.next();
                match around.live.get(around.log, id) {
                    None => {
                        group.remove(id);
                        if !around.expired.contains(id) {
                            result.missing.push(id);
                            left -= 1;
                        }
                    }
                    Some(entry) => {
                        if claim.apply(group, id, scene.now.0) {
                            each(&entry);
                            result.count += 1;
                            left -= 1;
                        }
                    }
                }
            }
            result
        });
        result.unwrap_or_default()
    }

    /// Adds a pending entry of a dump. Returns false if the group lists it already.
    pub fn restore_pending(&mut self, name: &[u8], id: StreamId, pending: Pending) -> bool {
        let body = &mut *self.body;
        let Some(group) = body
            .groups
            .get_mut(name)
            .filter(|group| !group.is_pending(id))
        else {
            return false;
        };
        let before = group.heap_bytes();
        group.put(id, pending);
        body.group_bytes = body.group_bytes + group.heap_bytes() - before;
        true
    }

    /// Returns the number of entries ever added up to an ID; `None` if it cannot be derived.
    pub fn count_up_to(&self, id: StreamId, scene: &Scene<'_>) -> Option<u64> {
        self.body.counts(scene).distance(id)
    }

    /// Returns the number of entries that a group has yet to read; `None` if that is unknown
    /// because entries were deleted.
    pub fn lag(&self, group: &Group, scene: &Scene<'_>) -> Option<i64> {
        let counts = self.body.counts(scene);
        if counts.entries_added == 0 || counts.len == 0 {
            return Some(0);
        }
        if group.last_delivered < counts.first && counts.max_deleted_id < counts.first {
            return Some(counts.len as i64);
        }
        let read = match group.entries_read {
            Some(read) if !counts.has_gap_from(group.last_delivered) => Some(read),
            _ => counts.distance(group.last_delivered),
        };
        read.map(|read| counts.entries_added.wrapping_sub(read) as i64)
    }
}
