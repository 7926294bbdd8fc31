//! Entries and groups of a stream, and the removal of what has expired.

use super::Entry;
use super::group::{Expired, Group};
use super::id::StreamId;
use super::log::Log;
use super::producers::Idempotence;
use crate::collection::{ChangedElements, Deadlines, ReportExpired, Representation};
use policy::{Budget, Tick};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Bytes of a group in addition to those that the group counts.
pub(super) const GROUP_BYTES: usize = size_of::<Group>() + 64;
/// Number of groups that are visited in a step of a budget.
const GROUPS_PER_STEP: usize = 16;

/// Everything that a stream owns.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub log: Log,
    pub last_id: StreamId,
    pub max_deleted_id: StreamId,
    pub entries_added: u64,
    pub groups: BTreeMap<Box<[u8]>, Group>,
    /// Number of bytes of all groups.
    pub group_bytes: usize,
    /// Maximum age in milliseconds; 0 for none.
    pub max_age_ms: u64,
    /// The key's own deadline, while entries have deadlines.
    pub own: Option<Tick>,
    /// Entries with smaller IDs have expired, regardless of the current maximum age, and they or
    /// their places in lists of pending entries remain to be removed.
    pub floor: StreamId,
    /// Name of the group at which the removal of pending entries continues, and the ID before which
    /// it removes them; `None` if it begins with the first group.
    pub purge: Option<(Box<[u8]>, StreamId)>,
    /// IDs of messages that producers may send again.
    pub idempotence: Option<Box<Idempotence>>,
}

/// Condition under which the entries of a stream are live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    /// Smallest ID that the maximum age permits.
    pub line: StreamId,
    pub now: Tick,
}

impl Live {
    /// Returns whether an entry has not expired.
    #[inline]
    pub fn is_met(self, entry: &Entry<'_>) -> bool {
        entry.deadline.is_none_or(|deadline| self.now <= deadline) && entry.id >= self.line
    }

    /// Returns the live entry with an ID.
    pub fn get(self, log: &Log, id: StreamId) -> Option<Entry<'_>> {
        log.get(id).filter(|entry| self.is_met(entry))
    }

    /// Returns the live entries from an ID on, in order.
    pub fn from(self, log: &Log, id: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let entries = log.iter_from(id.max(self.line));
        entries.filter(move |entry| self.is_met(entry))
    }

    /// Returns the live entries up to an ID, in descending order.
    pub fn back(self, log: &Log, id: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let entries = log
            .iter_back(id)
            .take_while(move |entry| entry.id >= self.line);
        entries.filter(move |entry| self.is_met(entry))
    }
}

impl Body {
    /// Returns the condition under which entries are live at an instant.
    pub fn live(&self, now: Tick) -> Live {
        let line = match self.max_age_ms {
            0 => self.floor,
            age => StreamId::new(now.0.saturating_sub(age), 0).max(self.floor),
        };
        Live { line, now }
    }

    /// Returns whether an entry may have expired without having been removed.
    #[inline]
    pub fn may_hold_dead(&self, now: Tick) -> bool {
        self.log.nearest().is_some_and(|nearest| nearest < now)
            || self
                .log
                .first()
                .is_some_and(|first| first < self.live(now).line)
    }

    /// Returns the entries that have expired and are still stored or listed as pending.
    pub fn expired(&self, now: Tick) -> Expired {
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

    pub fn len(&self, now: Tick) -> usize {
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

    pub fn first_id(&self, now: Tick) -> StreamId {
        let first = self.live(now).from(&self.log, StreamId::MIN).next();
        first.map_or(StreamId::MIN, |entry| entry.id)
    }

    /// Returns whether a group has not read an entry, or lists it as pending. An expired entry is
    /// not listed.
    pub fn is_referenced(&self, id: StreamId, is_expired: bool) -> bool {
        is_referenced(&self.groups, id, is_expired)
    }

    /// Removes entries from all lists of pending entries. Returns the number of places removed.
    pub fn forget(&mut self, ids: &[StreamId]) -> usize {
        self.on_pending(|group| ids.iter().filter(|id| group.remove(**id)).count())
    }

    /// Removes the entries up to an ID from all lists of pending entries. Returns the number of
    /// places removed, apart from those of expired entries.
    pub fn forget_up_to(&mut self, last: StreamId, horizon: Tick) -> usize {
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

/// Returns whether a group has not read an entry, or lists it as pending. An expired entry is not
/// listed.
pub(super) fn is_referenced(
    groups: &BTreeMap<Box<[u8]>, Group>,
    id: StreamId,
    is_expired: bool,
) -> bool {
    let is_listed = |group: &Group| !is_expired && group.is_pending(id);
    let mut groups = groups.values();
    groups.any(|group| group.last_delivered < id || is_listed(group))
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
