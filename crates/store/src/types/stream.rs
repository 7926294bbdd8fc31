//! Streams: entries in the order of their IDs, and groups of consumers that read them.
//!
//! Entries leave a stream by commands, by their own deadlines, or by the maximum age of the stream.
//! The age of an entry counts from the time in its ID. That needs no bytes, and expired entries are
//! always the first ones, so that they are removed a block at a time. A client that chooses IDs
//! which are not times gives deadlines to its entries instead.
//!
//! An expired entry is not visible. It is also removed from the lists of pending entries, which may
//! take several steps of background work; until then the lists pass over it.
//!
//! A stream without entries exists: it keeps its last ID and its groups.

mod block;
mod body;
mod delivery;
mod group;
mod id;
mod log;
mod producers;

pub use block::{Entry, Fields, NewFields};
pub use delivery::{AutoClaimed, Claim, Claimed, Delivery};
pub use group::{Consumer, ConsumerIndex, Expired, Group, Pending};
pub use id::StreamId;
pub use producers::{IDEMPOTENCE_SECONDS, IDEMPOTENCE_SIZE, IdempotenceFacts};

use crate::collection::{Collection, Representation, Scene};
use crate::event::Class;
use crate::facts::Kind;
use body::{Body, is_referenced};
use log::BlockLimit;
use policy::Tick;

/// Treatment of consumer group references when entries are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// Pending entries remain listed.
    #[default]
    Keep,
    /// Pending entries are removed from all lists.
    Delete,
    /// Entries are removed only if every group has read and acknowledged them.
    Acknowledged,
}

/// Entries that a trim removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// The first entries while there are more than this number.
    Length(u64),
    /// Entries with smaller IDs.
    Id(StreamId),
}

/// A trim of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// Entries to be removed.
    pub to: TrimTo,
    /// Whether only whole blocks are removed.
    pub is_approximate: bool,
    /// Maximum number of removed entries; `None` for no limit.
    pub limit: Option<u64>,
    /// Treatment of pending entries.
    pub references: References,
}

/// Result of the removal of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// There is no such entry.
    Missing,
    /// There is no such entry, and groups no longer list it as pending.
    Forgotten,
    /// The entry was removed.
    Done,
    /// The entry is referenced by a group and was not removed.
    Referenced,
}

/// Result of a trim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Number of entries that were removed.
    pub entries: u64,
    /// Number of places in lists of pending entries that were removed. It is 0 unless the trim
    /// deletes references.
    pub references: usize,
}

impl Trimmed {
    /// Whether the trim has changed nothing.
    pub fn is_empty(&self) -> bool {
        *self == Trimmed::default()
    }
}

/// A stream. Reading methods never return an entry whose deadline has passed.
#[derive(Debug)]
pub struct Stream {
    body: Box<Body>,
}

/// A stream's numbers that commands may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// Largest ID that was ever added or set.
    pub last_id: StreamId,
    /// Largest ID of an entry that was deleted other than by trimming.
    pub max_deleted_id: StreamId,
    /// Number of entries ever added.
    pub entries_added: u64,
    /// Maximum age in milliseconds; 0 for none.
    pub max_age_ms: u64,
}

impl Stream {
    /// Returns the number of entries.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        self.body.len(scene.horizon)
    }

    /// Returns the number of stored entries if the own deadlines of any have passed, and 0
    /// otherwise.
    pub fn overdue_len(&self, scene: &Scene<'_>) -> usize {
        let log = &self.body.log;
        match log.nearest().is_some_and(|nearest| nearest < scene.horizon) {
            true => log.len(),
            false => 0,
        }
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
        self.len(scene) == 0
    }

    /// Returns the numbers that commands may set.
    pub fn facts(&self) -> StreamFacts {
        StreamFacts {
            last_id: self.body.last_id,
            max_deleted_id: self.body.max_deleted_id,
            entries_added: self.body.entries_added,
            max_age_ms: self.body.max_age_ms,
        }
    }

    /// Sets the numbers of a stream.
    pub fn set_facts(&mut self, facts: StreamFacts) {
        debug_assert!(
            self.body
                .log
                .last()
                .is_none_or(|last| last <= facts.last_id)
        );
        self.body.last_id = facts.last_id;
        self.body.max_deleted_id = facts.max_deleted_id;
        self.body.entries_added = facts.entries_added;
    }

    /// Sets the maximum age in milliseconds; 0 for none. Entries that have expired by the current
    /// one stay expired.
    pub fn set_max_age(&mut self, ms: u64, scene: &Scene<'_>) {
        self.body.floor = self.body.live(scene.horizon).line;
        self.body.max_age_ms = ms;
    }

    /// Returns the approximate number of entries after an ID, including expired ones: whole blocks
    /// are counted, until they have more than `enough` entries.
    pub fn count_behind(&self, id: StreamId, enough: usize) -> usize {
        id.next()
            .map_or(0, |next| self.body.log.count_from(next, enough))
    }

    /// Returns the ID of the first entry; the smallest ID without entries.
    pub fn first_id(&self, scene: &Scene<'_>) -> StreamId {
        self.body.first_id(scene.horizon)
    }

    /// Returns the ID of the last entry, which may be smaller than the last ID that was added.
    pub fn last_entry_id(&self, scene: &Scene<'_>) -> Option<StreamId> {
        if !self.body.may_hold_dead(scene.horizon) {
            return self.body.log.last();
        }
        Some(
            self.range_back(StreamId::MIN, StreamId::MAX, scene)
                .next()?
                .id,
        )
    }

    /// Returns the number of blocks of entries, and of groups of blocks.
    pub fn block_counts(&self) -> (usize, usize) {
        (self.body.log.block_count(), self.body.log.group_count())
    }

    /// Returns the ID that the server gives to the next entry; `None` if the IDs are exhausted.
    pub fn next_id(&self, scene: &Scene<'_>) -> Option<StreamId> {
        if scene.now.0 > self.body.last_id.ms {
            return Some(StreamId::new(scene.now.0, 0));
        }
        self.body.last_id.next()
    }

    /// Returns whether an entry with this ID would be older than the maximum age.
    pub fn is_too_old(&self, id: StreamId, scene: &Scene<'_>) -> bool {
        id < self.body.live(scene.horizon).line
    }

    /// Adds an entry. Its ID must be larger than the last one.
    ///
    /// # Panics
    ///
    /// The ID is not larger than the last one.
    pub fn add<'f>(
        &mut self,
        id: StreamId,
        deadline: Option<Tick>,
        fields: impl NewFields<'f>,
        scene: &Scene<'_>,
    ) {
        let body = &mut *self.body;
        assert!(id > body.last_id);
        let limit = BlockLimit::new(scene.limits.stream_entries(), scene.limits.stream_bytes());
        let deadline = deadline.map(|deadline| deadline.min(Tick::MAX));
        body.log.push(id, deadline, fields, limit);
        body.last_id = id;
        body.entries_added = body.entries_added.saturating_add(1);
        if body.entries_added == 1 && body.idempotence.is_none() {
            let (seconds, size) = (
                scene.limits.stream_idmp_seconds(),
                scene.limits.stream_idmp_size(),
            );
            if (seconds, size) != (IDEMPOTENCE_SECONDS.2, IDEMPOTENCE_SIZE.2) {
                self.set_idempotence(seconds, size);
            }
        }
    }

    /// Returns the entry with an ID.
    pub fn get(&self, id: StreamId, scene: &Scene<'_>) -> Option<Entry<'_>> {
        self.body.live(scene.horizon).get(&self.body.log, id)
    }

    /// Returns the entries from one ID to another, both included, in order.
    pub fn range(
        &self,
        from: StreamId,
        to: StreamId,
        scene: &Scene<'_>,
    ) -> impl Iterator<Item = Entry<'_>> {
        let entries = self.body.live(scene.horizon).from(&self.body.log, from);
        entries.take_while(move |entry| entry.id <= to)
    }

    /// Returns the entries from one ID to another, both included, in descending order.
    pub fn range_back(
        &self,
        from: StreamId,
        to: StreamId,
        scene: &Scene<'_>,
    ) -> impl Iterator<Item = Entry<'_>> {
        let entries = self.body.live(scene.horizon).back(&self.body.log, to);
        entries.take_while(move |entry| entry.id >= from)
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: StreamId, references: References, scene: &Scene<'_>) -> Removed {
        let body = &mut *self.body;
        let live = body.live(scene.horizon);
        let is_live = live.get(&body.log, id).is_some();
        // An expired entry stays until the expiry removes it, so that it is counted.
        let is_expired = !is_live && (id < live.line || body.log.get(id).is_some());
        let forgotten = match references {
            References::Acknowledged if body.is_referenced(id, is_expired) => {
                return Removed::Referenced;
            }
            References::Delete => body.forget(&[id]),
            _ => 0,
        };
        if !is_live {
            return match forgotten > 0 && !is_expired {
                true => Removed::Forgotten,
                false => Removed::Missing,
            };
        }
        body.log.remove(id);
        body.max_deleted_id = body.max_deleted_id.max(id);
        Removed::Done
    }

    /// Removes entries from the front. If references are deleted, those of entries in the trimmed
    /// range that were deleted earlier are deleted, too.
    pub fn trim_to(&mut self, trim: &Trim, scene: &Scene<'_>) -> Trimmed {
        let (entries, last) = match trim.references {
            References::Keep => (self.trim_blocks(trim, scene), None),
            _ => self.trim_entries(trim, scene),
        };
        let references = match (trim.references, last) {
            (References::Delete, Some(last)) => self.body.forget_up_to(last, scene.horizon),
            _ => 0,
        };
        Trimmed {
            entries,
            references,
        }
    }

    /// Trims regardless of references from groups. Returns the number of removed entries.
    fn trim_blocks(&mut self, trim: &Trim, scene: &Scene<'_>) -> u64 {
        let body = &mut *self.body;
        let (len, mut removed) = (body.len(scene.horizon) as u64, 0);
        let hidden = body.log.len() as u64 - len;
        while let Some(front) = body.log.front() {
            let count = front.len() as u64;
            let (is_whole, is_done) = match trim.to {
                TrimTo::Length(max) => (
                    (len - removed) >= max.saturating_add(count),
                    len - removed <= max,
                ),
                TrimTo::Id(id) => (front.last() < id, front.first() >= id),
            };
            // Expired entries are left to the expiry, which counts them.
            if is_done || hidden > 0 || trim.limit.is_some_and(|limit| removed + count > limit) {
                break;
            }
            if is_whole {
                body.log.pop_block();
                removed += count;
            } else if trim.is_approximate {
                break;
            } else {
                let mut left = match trim.to {
                    TrimTo::Length(max) => len - removed - max,
                    TrimTo::Id(_) => u64::MAX,
                };
                removed += body.log.trim_front(|entry| {
                    let is_waste = left > 0
                        && match trim.to {
                            TrimTo::Length(_) => true,
                            TrimTo::Id(id) => entry.id < id,
                        };
                    left -= u64::from(is_waste);
                    is_waste
                }) as u64;
                break;
            }
        }
        if hidden > 0 {
            return self.trim_entries(trim, scene).0;
        }
        removed
    }

    /// Trims entry by entry, because groups or expired entries must be respected. Returns the
    /// number of removed entries and the last ID of the trimmed range, which ends at the ID of the
    /// trim or at the first entry that is left.
    fn trim_entries(&mut self, trim: &Trim, scene: &Scene<'_>) -> (u64, Option<StreamId>) {
        let (mut len, mut removed) = (self.len(scene) as u64, 0);
        let live = self.body.live(scene.horizon);
        let body = &mut *self.body;
        let (mut is_done, mut is_cut) = (false, false);
        let mut next = Some(live.line);
        while let Some(from) = next.filter(|_| !is_done) {
            next = body.log.remove_from_block(from, |entry| {
                if is_done || !live.is_met(entry) {
                    return false;
                }
                let is_beyond = match trim.to {
                    TrimTo::Length(max) => len <= max,
                    TrimTo::Id(to) => entry.id >= to,
                };
                is_done = is_beyond || trim.limit.is_some_and(|limit| removed >= limit);
                is_cut = is_done && !is_beyond;
                let is_kept = trim.references == References::Acknowledged
                    && is_referenced(&body.groups, entry.id, false);
                if is_done || is_kept {
                    return false;
                }
                (len, removed) = (len - 1, removed + 1);
                true
            });
        }
        let last = match trim.to {
            TrimTo::Id(to) if !is_cut => to.previous(),
            _ if removed == 0 => None,
            _ => match live.from(&body.log, StreamId::MIN).next() {
                Some(first) => first.id.previous(),
                None => Some(body.last_id),
            },
        };
        (removed, last)
    }

    /// Returns the deadline of the entry with the ID in `text`, its own or by the maximum age:
    /// `None` without such an entry, `Some(None)` without a deadline.
    pub fn deadline(&self, text: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
        let entry = self.get(StreamId::parse(text)?, scene)?;
        let age = Some(self.body.max_age_ms).filter(|age| *age > 0);
        let by_age = age.map(|age| Tick(entry.id.ms.saturating_add(age)).min(Tick::MAX));
        Some(entry.deadline.into_iter().chain(by_age).min())
    }

    /// Passes the own deadline of the entry with the ID in `text` to `choose` and sets the deadline
    /// that it returns; `None` changes nothing. Returns whether there is such an entry.
    pub fn update_deadline(
        &mut self,
        text: &[u8],
        scene: &Scene<'_>,
        mut choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
    ) -> bool {
        let found = StreamId::parse(text).and_then(|id| self.get(id, scene));
        let Some((id, deadline)) = found.map(|entry| (entry.id, entry.deadline)) else {
            return false;
        };
        if let Some(deadline) = choose(deadline) {
            self.set_deadline(id, deadline, scene);
        }
        true
    }

    /// Sets or removes the own deadline of an entry. Returns whether there is such an entry.
    pub fn set_deadline(&mut self, id: StreamId, to: Option<Tick>, scene: &Scene<'_>) -> bool {
        let is_there = self.get(id, scene).is_some();
        is_there
            && self
                .body
                .log
                .set_deadline(id, to.map(|to| to.min(Tick::MAX)))
    }

    /// Returns the numbers about messages that producers may send again.
    pub fn idempotence(&self) -> IdempotenceFacts {
        let ids = self.body.idempotence.as_ref();
        ids.map_or_else(IdempotenceFacts::default, |ids| ids.facts)
    }

    /// Sets for how many seconds, and how many messages of each producer, are kept. Messages are
    /// forgotten if a number changes.
    pub fn set_idempotence(&mut self, seconds: i64, size: i64) {
        let ids = self.body.idempotence.get_or_insert_default();
        if (ids.facts.seconds, ids.facts.size) != (seconds, size) {
            ids.clear();
            (ids.facts.seconds, ids.facts.size) = (seconds, size);
        }
    }

    /// Restores the numbers of messages ever recorded and sent again.
    pub fn set_idempotence_counts(&mut self, added: u64, duplicates: u64) {
        let ids = self.body.idempotence.get_or_insert_default();
        (ids.facts.added, ids.facts.duplicates) = (added, duplicates);
    }

    /// Returns the ID of the entry that a producer's message became before.
    pub fn find_message(
        &self,
        producer: &[u8],
        message: &[u8],
        scene: &Scene<'_>,
    ) -> Option<StreamId> {
        let ids = self.body.idempotence.as_ref()?;
        ids.find(producer, message, scene.now)
    }

    /// Counts a message that was sent again.
    pub fn count_duplicate(&mut self) {
        self.body
            .idempotence
            .get_or_insert_default()
            .facts
            .duplicates += 1;
    }

    /// Records that a producer's message became an entry.
    pub fn add_message(&mut self, producer: &[u8], message: &[u8], id: StreamId) {
        let ids = self.body.idempotence.get_or_insert_default();
        ids.add(producer, message, id);
    }

    /// Passes each producer with its messages and the IDs of their entries to `visit`.
    pub fn messages(&self, visit: &mut dyn FnMut(&[u8], &mut producers::Messages<'_>)) {
        if let Some(ids) = &self.body.idempotence {
            ids.visit(visit);
        }
    }

    /// Returns whether any entry has its own deadline.
    pub fn has_own_deadlines(&self) -> bool {
        self.body.log.nearest().is_some()
    }
}

impl Collection for Stream {
    const KIND: Kind = Kind::Stream;
    const EXPIRED: (Class, &'static str) = (Class::Stream, "xexpired");

    fn new() -> Self {
        Stream {
            body: Box::default(),
        }
    }

    fn unpack(_tag: u8, _bytes: Vec<u8>) -> Self {
        unreachable!("a stream is never inline")
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        None
    }

    fn into_bytes(self) -> Vec<u8> {
        Vec::new()
    }

    fn duplicate(&self, _scene: &Scene<'_>) -> Self {
        let body = &*self.body;
        Stream {
            body: Box::new(Body {
                log: body.log.duplicate(),
                groups: body.groups.clone(),
                purge: body.purge.clone(),
                own: None,
                idempotence: body.idempotence.clone(),
                ..*body
            }),
        }
    }

    fn body(&self) -> &dyn Representation {
        &*self.body
    }

    fn body_mut(&mut self) -> &mut dyn Representation {
        &mut *self.body
    }
}

impl Default for Stream {
    fn default() -> Self {
        Collection::new()
    }
}

#[cfg(test)]
mod tests;
