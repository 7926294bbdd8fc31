//! Choice of victims: ranks the groups and merges the least useful one with its neighbours, step by
//! step.

use super::entry::{GHOSTED, LEAVING};
use super::groups::Birth;
use super::groups::NONE;
use super::{EntryState, GlCache, Strategy};
use policy::{Cells, Facts, Slot};

/// Next step of an eviction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// Choose the groups to merge.
    Idle,
    /// Rank the group with this number. With an oracle, each step handles one member.
    Ranking { id: u32, member: usize, sum: f64 },
    /// Examine the next member of the groups being merged.
    Examining,
    /// Move the most valuable remaining entry to the new group, `left` more times.
    Keeping { group: u32, left: usize },
    /// Return the next victim.
    Leaving,
}

/// Member of a group being merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Examined {
    pub(super) slot: Slot,
    /// Value of the entry: 1 / (size × age), or hits / size, depending on the strategy.
    worth: f32,
    /// Whether the entry was requested since it joined its group.
    was_requested: bool,
    /// Age of the entry. It decides between entries of equal value.
    time: f32,
}

/// Group with its utility when it was ranked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    utility: f32,
    id: u32,
    serial: u64,
}

/// Minimum number of entries that the FIFO-Merge strategy compares at a time.
const EXAMINED_MIN: usize = 100;

/// Distance in requests that represents "never again". It is longer than any real distance, but
/// short enough for sizes to make a difference.
const NEVER: u64 = 1 << 40;

/// Returns the number of requests until the entry's next one.
fn time_left(facts: &impl Facts, slot: Slot) -> u64 {
    let next = facts.next_access(slot);
    let next = next.expect("the oracle is asked where the future is known");
    next.saturating_sub(facts.requests()).clamp(1, NEVER)
}

impl<const ORACLE: bool> GlCache<ORACLE> {
    /// Takes one step, and returns a victim if the step found one. The cache must hold at least one
    /// entry.
    pub(super) fn step(&mut self, cells: &mut impl Cells<EntryState>) -> Option<Slot> {
        match self.stage {
            Stage::Idle => self.choose(cells),
            Stage::Ranking { id, member, sum } => self.rank_next(cells, id, member, sum),
            Stage::Examining => self.examine_next(cells),
            Stage::Keeping { group, left } => self.keep_next(cells, group, left),
            Stage::Leaving => {
                let victim = self.examined.pop();
                if victim.is_none() {
                    self.stage = Stage::Idle;
                }
                return victim.map(|one| one.slot);
            }
        }
        None
    }

    /// Chooses the groups to merge, or begins to rank all groups.
    fn choose(&mut self, facts: &mut impl Cells<EntryState>) {
        if !self.has_closed_group() {
            self.close(facts);
        }
        if !ORACLE && self.is_due(facts) {
            self.train(facts);
        }
        self.merging_strategy = self.strategy();
        if self.merging_strategy != Strategy::Model {
            let id = self.next_by_age();
            self.begin_merge(id);
        } else if self.quota > 0
            && let Some(id) = self.next_ranked()
        {
            self.begin_merge(id);
            self.quota = self.quota.saturating_sub(self.merging.len());
        } else {
            self.ranked.clear();
            self.rows.clear();
            self.stage = Stage::Ranking {
                id: 0,
                member: 0,
                sum: 0.0,
            };
        }
    }

    /// Returns the least useful ranked group that still exists.
    fn next_ranked(&mut self) -> Option<u32> {
        while let Some(ranked) = self.ranked.pop() {
            let group = self.groups.get(ranked.id);
            if group.is_some_and(|group| group.serial == ranked.serial) {
                return Some(ranked.id);
            }
        }
        None
    }

    /// Returns the oldest group not yet reached in the current pass.
    fn next_by_age(&mut self) -> u32 {
        if self.hand == NONE {
            self.hand = self.groups.oldest();
        }
        assert_ne!(
            self.hand, self.open,
            "there is a group that was written full"
        );
        self.hand
    }

    /// Begins to merge a group with groups written after it. If there are too few, groups written
    /// before it are added.
    fn begin_merge(&mut self, id: u32) {
        assert!(self.merging.is_empty());
        self.merging.push(id);
        let mut next = self.groups.at(id).next;
        let mut previous = self.groups.at(id).previous;
        while !self.has_enough_to_merge() {
            if next != NONE && next != self.open {
                self.merging.push(next);
                next = self.groups.at(next).next;
            } else if previous != NONE {
                self.merging.insert(0, previous);
                previous = self.groups.at(previous).previous;
            } else {
                break;
            }
        }
        for &id in &self.merging {
            self.groups.at_mut(id).is_merging = true;
        }
        self.learning_stats.groups_evicted += self.merging.len() as u64;
        self.stage = Stage::Examining;
    }

    fn has_enough_to_merge(&self) -> bool {
        match self.merging_strategy {
            Strategy::Merge => {
                let lens = self
                    .merging
                    .iter()
                    .map(|&id| self.groups.at(id).members.len());
                lens.sum::<usize>() >= EXAMINED_MIN
            }
            Strategy::Requested | Strategy::Model => self.merging.len() >= self.merged,
        }
    }

    fn rank_next(&mut self, facts: &impl Facts, id: u32, member: usize, mut sum: f64) {
        if id as usize >= self.groups.ids() {
            self.rank();
            self.stage = Stage::Idle;
            return;
        }
        let mut next = (id + 1, 0);
        let is_written = id == self.open;
        if let Some(group) = self.groups.get(id).filter(|_| !is_written) {
            if ORACLE && let Some(&slot) = group.members.get(member) {
                let weight = f64::from(facts.weight(slot).max(1));
                sum += 1.0 / (time_left(facts, slot) as f64 * weight);
                next = (id, member + 1);
            } else {
                self.ranked.push(Ranked {
                    utility: sum as f32,
                    id,
                    serial: group.serial,
                });
                if !ORACLE {
                    self.rows.push(&self.window.features(group, facts));
                }
                sum = 0.0;
            }
        }
        let (id, member) = next;
        self.stage = Stage::Ranking { id, member, sum };
    }

    /// Sorts the groups by utility. Among equal groups, the oldest is evicted first.
    fn rank(&mut self) {
        if !ORACLE {
            self.predictions.clear();
            self.regressor.predict(&self.rows, &mut self.predictions);
            for (ranked, &utility) in self.ranked.iter_mut().zip(&self.predictions) {
                ranked.utility = utility;
            }
            self.learning_stats.inferences += 1;
            self.learning_stats.inference_rows += self.rows.len() as u64;
        }
        self.ranked.sort_unstable_by(|a, b| {
            let by_utility = b.utility.total_cmp(&a.utility);
            by_utility.then(b.serial.cmp(&a.serial))
        });
        self.quota = ((self.ranked.len() as f32 * self.fraction) as usize).max(1);
    }

    fn examine_next(&mut self, cells: &mut impl Cells<EntryState>) {
        let mut groups = self.merging.iter().rev();
        let Some(&id) = groups.find(|id| !self.groups.at(**id).members.is_empty()) else {
            self.merge(cells);
            return;
        };
        let slot = self
            .groups
            .pop(id)
            .expect("it was just seen not to be empty");
        let mut note = cells.get(slot);
        let weight = cells.weight(slot);
        let time = match ORACLE {
            true => time_left(cells, slot),
            false => note.age(cells.requests()),
        };
        let group = self.groups.at(id);
        if note.tag() != group.tag && self.samples.is_collecting(group.sample) {
            let key_hash = cells.key_hash(slot);
            let is_haunted = self
                .samples
                .add_ghost(group.sample, key_hash, weight, self.held);
            note = note.with_tag(if is_haunted { GHOSTED } else { 0 });
        } else if note.tag() != GHOSTED {
            note = note.with_tag(0);
        }
        cells.set(slot, note.in_group(LEAVING));
        let merit = match self.merging_strategy {
            Strategy::Merge => note.hits() as f32,
            Strategy::Requested | Strategy::Model => 1.0 / time as f32,
        };
        self.examined.push(Examined {
            slot,
            worth: merit / weight.max(1) as f32,
            was_requested: note.was_requested(),
            time: time as f32,
        });
    }

    /// Sorts the examined entries, and creates the group for the entries to keep.
    fn merge(&mut self, cells: &impl Facts) {
        let kept = self.kept();
        self.examined.sort_unstable_by(|a, b| {
            let by_worth = a.worth.total_cmp(&b.worth);
            let by_time = by_worth.then(b.time.total_cmp(&a.time));
            by_time.then(a.slot.cmp(&b.slot))
        });
        let group = match kept {
            0 => NONE,
            _ => self.merged_group(kept, cells.requests()),
        };
        for id in core::mem::take(&mut self.merging) {
            self.free(id);
        }
        if group != NONE {
            self.hand = self.closed_after(group);
        }
        debug_assert!(cells.len() >= self.held);
        self.stage = Stage::Keeping { group, left: kept };
    }

    /// Returns the number of examined entries to keep.
    fn kept(&self) -> usize {
        let all = self.examined.len();
        let kept = match self.merging.len() {
            _ if self.merging_strategy == Strategy::Merge => return all / 2,
            1 => all / self.merged,
            _ => all.min(self.group_size()),
        };
        if self.merging_strategy == Strategy::Model {
            return kept;
        }
        kept.min(self.examined.iter().filter(|one| one.was_requested).count())
    }

    /// Creates the group that replaces the merged ones, with the means of their features.
    fn merged_group(&mut self, room: usize, now: u64) -> u32 {
        let merged_group = self.groups.add(self.merging[0], room);
        let births: Vec<Birth> = self
            .merging
            .iter()
            .map(|&id| self.groups.at(id).birth)
            .collect();
        let mean = |of: fn(&super::groups::Group) -> f32| {
            let sum: f32 = self.merging.iter().map(|&id| of(self.groups.at(id))).sum();
            sum / self.merging.len() as f32
        };
        let requests = mean(|group| group.requests);
        let requested = mean(|group| group.requested);
        let group = self.groups.at_mut(merged_group);
        group.birth = Birth::mean(&births);
        (group.requests, group.requested) = (requests, requested);
        group.made_at = now;
        group.is_merging = true;
        merged_group
    }

    fn keep_next(&mut self, cells: &mut impl Cells<EntryState>, group: u32, left: usize) {
        if left > 0
            && let Some(Examined { slot, .. }) = self.examined.pop()
        {
            self.groups.push(group, slot, cells.weight(slot));
            let note = cells.get(slot).in_group(group);
            cells.set(slot, note.with_half_the_hits());
            let left = left - 1;
            self.stage = Stage::Keeping { group, left };
            return;
        }
        if group != NONE {
            self.groups.at_mut(group).is_merging = false;
            if self.groups.at(group).members.is_empty() {
                self.free(group);
            }
        }
        self.examined.reverse();
        self.stage = Stage::Leaving;
    }

    /// Drops an entry that is removed while it is being examined or was chosen as a victim.
    pub(super) fn forget_examined(&mut self, slot: Slot) {
        let at = self.examined.iter().position(|one| one.slot == slot);
        let at = at.expect("what leaves was examined");
        if let Stage::Keeping { left, .. } = &mut self.stage
            && at >= self.examined.len() - *left
        {
            *left -= 1;
        }
        self.examined.remove(at);
    }
}
