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

use crate::collection::{
    ChangedElements, Collection, Deadlines, ReportExpired, Representation, Scene,
};
use crate::event::Class;
use crate::facts::Kind;
use log::{BlockLimit, Log};
use policy::{Budget, Tick};
use producers::Idempotence;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Bytes of a group in addition to those that the group counts.
const GROUP_BYTES: usize = size_of::<Group>() + 64;

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

#[derive(Debug, Default)]
struct Body {
    log: Log,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    groups: BTreeMap<Box<[u8]>, Group>,
    /// Number of bytes of all groups.
    group_bytes: usize,
    /// Maximum age in milliseconds; 0 for none.
    max_age_ms: u64,
    /// The key's own deadline, while entries have deadlines.
    own: Option<Tick>,
    /// Entries with smaller IDs have expired, regardless of the current maximum age, and they or
    /// their places in lists of pending entries remain to be removed.
    floor: StreamId,
    /// Name of the group at which the removal of pending entries continues, and the ID before which
    /// it removes them; `None` if it begins with the first group.
    purge: Option<(Box<[u8]>, StreamId)>,
    /// IDs of messages that producers may send again.
    idempotence: Option<Box<Idempotence>>,
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

/// Condition under which the entries of a stream are live.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// Smallest ID that the maximum age permits.
    line: StreamId,
    now: Tick,
}

impl Live {
    /// Returns whether an entry has not expired.
    #[inline]
    fn is_met(self, entry: &Entry<'_>) -> bool {
        entry.deadline.is_none_or(|deadline| self.now <= deadline) && entry.id >= self.line
    }

    /// Returns the live entry with an ID.
    fn get(self, log: &Log, id: StreamId) -> Option<Entry<'_>> {
        log.get(id).filter(|entry| self.is_met(entry))
    }

    /// Returns the live entries from an ID on, in order.
    fn from(self, log: &Log, id: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let entries = log.iter_from(id.max(self.line));
        entries.filter(move |entry| self.is_met(entry))
    }

    /// Returns the live entries up to an ID, in descending order.
    fn back(self, log: &Log, id: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let entries = log
            .iter_back(id)
            .take_while(move |entry| entry.id >= self.line);
        entries.filter(move |entry| self.is_met(entry))
    }
}

impl Body {
    /// Returns the condition under which entries are live at an instant.
    fn live(&self, now: Tick) -> Live {
        let line = match self.max_age_ms {
            0 => self.floor,
            age => StreamId::new(now.0.saturating_sub(age), 0).max(self.floor),
        };
        Live { line, now }
    }

    /// Returns whether an entry may have expired without having been removed.
    #[inline]
    fn may_hold_dead(&self, now: Tick) -> bool {
        self.log.nearest().is_some_and(|nearest| nearest < now)
            || self
                .log
                .first()
                .is_some_and(|first| first < self.live(now).line)
    }

    /// Returns the entries that have expired and are still stored or listed as pending.
    fn expired(&self, now: Tick) -> Expired {
        let mut expired = Expired {
            line: self.live(now).line,
            others: Vec::new(),
        };
        if self.log.nearest().is_some_and(|nearest| nearest < now) {
            self.log.each_overdue(now, |id| expired.others.push(id));
            expired.others.retain(|id| *id >= expired.line);
            expired.others.sort_unstable();
        }
        expired
    }

    fn len(&self, now: Tick) -> usize {
        if !self.may_hold_dead(now) {
            return self.log.len();
        }
        let line = self.live(now).line;
        let mut dead = match line {
            StreamId::MIN => 0,
            line => self.log.count_before(line),
        };
        self.log
            .each_overdue(now, |id| dead += usize::from(id >= line));
        self.log.len() - dead
    }

    fn first_id(&self, now: Tick) -> StreamId {
        let first = self.live(now).from(&self.log, StreamId::MIN).next();
        first.map_or(StreamId::MIN, |entry| entry.id)
    }

    /// Returns whether a group has not read an entry, or lists it as pending. An expired entry is
    /// not listed.
    fn is_referenced(&self, id: StreamId, is_expired: bool) -> bool {
        is_referenced(&self.groups, id, is_expired)
    }

    /// Removes entries from all lists of pending entries. Returns the number of places removed.
    fn forget(&mut self, ids: &[StreamId]) -> usize {
        self.on_pending(|group| ids.iter().filter(|id| group.remove(**id)).count())
    }

    /// Removes the entries up to an ID from all lists of pending entries. Returns the number of
    /// places removed, apart from those of expired entries.
    fn forget_up_to(&mut self, last: StreamId, horizon: Tick) -> usize {
        let expired = self.expired(horizon);
        self.on_pending(|group| {
            let mut count = 0;
            while let Some((id, _)) = group.first_from(StreamId::MIN)
                && id <= last
            {
                count += usize::from(group.remove(id) && !expired.contains(id));
            }
            count
        })
    }

    /// Runs an operation on each group with pending entries, and counts the groups' bytes. Returns
    /// the sum of the results.
    fn on_pending(&mut self, mut work: impl FnMut(&mut Group) -> usize) -> usize {
        let mut sum = 0;
        for group in self.groups.values_mut() {
            if group.pending_len() > 0 {
                let before = group.heap_bytes();
                sum += work(group);
                self.group_bytes = self.group_bytes + group.heap_bytes() - before;
            }
        }
        sum
    }

    /// Removes the pending entries before the floor, one per step of the budget, and takes a step
    /// per group. Resets the floor when nothing is left before it.
    fn purge_pending(&mut self, budget: &mut Budget) {
        while self.floor > StreamId::MIN && self.log.first().is_none_or(|first| first >= self.floor)
        {
            let (start, line) = self.purge.take().unwrap_or_default();
            let line = if start.is_empty() { self.floor } else { line };
            let rest = (Bound::Included(&*start), Bound::Unbounded);
            for (name, group) in self.groups.range_mut::<[u8], _>(rest) {
                let (before, mut is_done) = (group.heap_bytes(), true);
                while is_done
                    && let Some((id, _)) = group.first_from(StreamId::MIN)
                    && id < line
                {
                    is_done = budget.spend();
                    if is_done {
                        group.remove(id);
                    }
                }
                // The step for the group comes last, so that any budget makes progress.
                is_done = is_done && budget.spend();
                self.group_bytes = self.group_bytes + group.heap_bytes() - before;
                if !is_done {
                    self.purge = Some((name.clone(), line));
                    return;
                }
            }
            // The floor may have risen since the first group was visited.
            if line == self.floor {
                self.floor = StreamId::MIN;
            }
        }
    }

    /// Removes entries older than the maximum age, a block per step of the budget.
    fn purge_old(&mut self, now: Tick, budget: &mut Budget, expired: ReportExpired<'_>) {
        let (line, age) = (self.live(now).line, self.max_age_ms);
        if !self.groups.is_empty() {
            self.floor = line;
        }
        let mut report = |id: StreamId, deadline: Option<Tick>| {
            // Entries before the floor may have expired by an age that has been changed since.
            let by_age = Tick(id.ms.saturating_add(age).min(now.0.saturating_sub(1)));
            expired(deadline.map_or(by_age, |deadline| deadline.min(by_age)), 1);
        };
        while let Some(front) = self.log.front().filter(|front| front.first() < line) {
            if !budget.spend() {
                return;
            }
            if front.last() < line {
                let block = self.log.pop_block().expect("there is a first block");
                block
                    .entries()
                    .for_each(|entry| report(entry.id, entry.deadline));
            } else {
                self.log.trim_front(|entry| {
                    let is_old = entry.id < line;
                    if is_old {
                        report(entry.id, entry.deadline);
                    }
                    is_old
                });
            }
        }
    }

    /// Removes entries whose own deadlines have passed, a block per step of the budget, and further
    /// steps for the groups that may list them.
    fn purge_own(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        let mut removed = Vec::new();
        while self.log.nearest().is_some_and(|nearest| nearest < now) && budget.spend() {
            self.log.expire_block(now, &mut removed);
            for (id, deadline) in &removed {
                expired(*deadline, 1);
                if let Some(names) = names {
                    names.add(id.to_string().as_bytes());
                }
                self.max_deleted_id = self.max_deleted_id.max(*id);
            }
            let ids: Vec<StreamId> = removed.drain(..).map(|(id, _)| id).collect();
            self.forget(&ids);
            let visits = self.groups.len() / GROUPS_PER_STEP;
            budget.0 = budget.0.saturating_sub(visits as u32);
        }
    }
}

/// Number of groups that are visited in a step of a budget.
const GROUPS_PER_STEP: usize = 16;

/// Returns whether a group has not read an entry, or lists it as pending. An expired entry is not
/// listed.
fn is_referenced(groups: &BTreeMap<Box<[u8]>, Group>, id: StreamId, is_expired: bool) -> bool {
    let is_listed = |group: &Group| !is_expired && group.is_pending(id);
    let mut groups = groups.values();
    groups.any(|group| group.last_delivered < id || is_listed(group))
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

impl Representation for Body {
    fn is_void(&self) -> bool {
        false
    }

    fn heap_bytes(&self) -> usize {
        let idempotence = self.idempotence.as_ref().map_or(0, |ids| ids.heap_bytes());
        size_of::<Body>() + self.log.heap_bytes() + self.group_bytes + idempotence
    }

    fn deadlines(&self) -> Option<Deadlines> {
        let first = self.log.first().filter(|_| self.max_age_ms > 0);
        let by_age = first.map(|first| Tick(first.ms.saturating_add(self.max_age_ms)));
        let late = (self.floor > StreamId::MIN).then_some(Tick(0));
        let ids = self.idempotence.as_ref().and_then(|ids| ids.nearest());
        let nearest = [by_age, self.log.nearest(), late, ids]
            .into_iter()
            .flatten()
            .min()?;
        Some(Deadlines {
            own: self.own,
            nearest: Some(nearest),
        })
    }

    fn embedded_deadline(&self) -> Option<Option<Tick>> {
        self.deadlines().map(|deadlines| deadlines.own)
    }

    fn set_own(&mut self, own: Option<Tick>) {
        self.own = own;
    }

    fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        self.purge_old(now, budget, expired);
        self.purge_own(now, budget, expired, names);
        self.purge_pending(budget);
        if let Some(ids) = &mut self.idempotence {
            ids.purge(now, budget);
            if ids.is_default() {
                self.idempotence = None;
            }
        }
    }

    fn dismantle(&mut self, steps: u32) -> bool {
        let mut left = steps;
        if self.log.dismantle(&mut left) {
            return true;
        }
        while left > 0 {
            let Some(mut first) = self.groups.first_entry() else {
                self.idempotence = None;
                return false;
            };
            if !first.get_mut().dismantle_one() {
                first.remove();
            }
            left -= 1;
        }
        true
    }

    fn check(&self) {
        self.log.check();
        self.groups.values().for_each(Group::check);
        let groups = self.groups.iter();
        let bytes = groups.map(|(name, group)| GROUP_BYTES + name.len() + group.heap_bytes());
        assert_eq!(bytes.sum::<usize>(), self.group_bytes);
        assert!(self.log.last().is_none_or(|last| last <= self.last_id));
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
