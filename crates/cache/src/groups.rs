//! Groups of entries that can be removed at one instant, by name. The host calls the name of a
//! group a tag of its keys.
//!
//! An entry stores the numbers of its groups in its block (`block.rs`), and a group its members
//! (`members.rs`). [`Groups::dissolve`] takes the name from a group in constant time, however many
//! members it has: the next entry with this name begins a new group with another number. So a group
//! is one *generation* of its name, no generation is stored or compared, and none can wrap. The
//! members of a dissolved group do not exist for the host, which removes them in steps
//! ([`Groups::next_stale`]). A number is used again only when no entry has it.
//!
//! [`Groups::soften`] takes the name, too, and dissolves the group at an instant. Until then its
//! members exist, and the host treats them as out of date. There may be several such groups of a
//! name, in the order of their instants. What dissolves or softens the name concerns all of them.
//!
//! An entry can also have a *note*, a number that the host gives it and that is stored like that of
//! a group.
//!
//! An entry leaves its groups when it is removed, and a group without members has no record. So
//! nothing is left of a key that has expired.
//!
//! ```text
//! in the entry   length word 2 (none more from 511 bytes on) │ number 4 for each group
//! in the group   2 to 5 bytes per member in one of few groups; a group of one takes about 150 more
//! ```

mod members;
#[cfg(test)]
mod tests;

use crate::block::{MARKS_MAX, NOTE};
use members::Members;
use policy::{Slot, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a group other than its name and members: its counters of references and its place in
/// the tree of names, whose nodes are two thirds full on average.
const GROUP_BYTES: usize =
    2 * size_of::<usize>() + (size_of::<Arc<[u8]>>() + size_of::<u32>()) * 3 / 2;

/// Numbers of an entry's groups, and its note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    numbers: [u32; MARKS_MAX],
    len: u8,
    /// 0 if there is none.
    note: u32,
}

impl Marks {
    /// Returns the numbers.
    pub fn as_slice(&self) -> &[u32] {
        &self.numbers[..usize::from(self.len)]
    }

    /// Returns the note; 0 if there is none.
    pub fn note(&self) -> u32 {
        self.note
    }

    /// Sets the note, before numbers are added.
    pub(crate) fn set_note(&mut self, note: u32) {
        debug_assert!(note < NOTE);
        debug_assert_eq!(self.len, 0);
        self.note = note;
    }

    /// Adds a number, unless it is there. Returns false if there is no room for it.
    pub(crate) fn push(&mut self, number: u32) -> bool {
        if self.as_slice().contains(&number) {
            return true;
        }
        let used = usize::from(self.len) + usize::from(self.note != 0);
        let is_free = used < MARKS_MAX;
        if is_free {
            self.numbers[usize::from(self.len)] = number;
            self.len += 1;
        }
        is_free
    }
}

#[derive(Debug)]
struct Group {
    name: Arc<[u8]>,
    members: Members,
    /// Number of the call of `dissolve` that made its members stale; 0 for others.
    dissolved: u64,
    /// Last instant of a softened group.
    until: Option<Tick>,
    /// Number of the call of `soften` that took its name; 0 for others.
    softened: u64,
    /// Whether it was dissolved because its last instant has passed.
    has_ended: bool,
}

/// Number of groups and of their members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Number of groups that have their name, or had it and are softened.
    pub groups: u64,
    /// Number of pairs of an entry and such a group.
    pub pairs: u64,
    /// Number of pairs of an entry and a dissolved group, which are not removed yet.
    pub stale_pairs: u64,
    /// Number of entries with a note.
    pub noted: u64,
    /// Number of bytes of all groups.
    pub bytes: u64,
}

/// The groups of one shard's entries.
#[derive(Debug, Default)]
pub struct Groups {
    by_name: BTreeMap<Arc<[u8]>, u32>,
    groups: Vec<Option<Group>>,
    vacant: Vec<u32>,
    /// Softened groups by name, and then by their last instants.
    soft: BTreeMap<Arc<[u8]>, BTreeSet<(Tick, u32)>>,
    soft_by_end: BTreeSet<(Tick, u32)>,
    /// Numbers of dissolved groups whose number is not free again. Some may have no members left.
    stale: Vec<u32>,
    pairs: u64,
    stale_pairs: u64,
    /// Number of entries with a note.
    noted: u64,
    /// Number of groups that were dissolved.
    dissolved: u64,
    /// Value of `dissolved` when the snapshot in progress began.
    dissolved_before_saving: u64,
    /// Bytes of names and members.
    held_bytes: u64,
}

impl Groups {
    /// Returns the number of the group with a name, which is created if there is none. The caller
    /// adds a member to a new group.
    pub fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        let name: Arc<[u8]> = name.into();
        self.held_bytes += (name.len() + GROUP_BYTES) as u64;
        let group = Group {
            name: Arc::clone(&name),
            members: Members::default(),
            dissolved: 0,
            until: None,
            softened: 0,
            has_ended: false,
        };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.groups[number as usize] = Some(group);
                number
            }
            None => {
                self.groups.push(Some(group));
                assert!(self.groups.len() <= NOTE as usize, "a note is not a number");
                self.groups.len() as u32 - 1
            }
        };
        self.by_name.insert(name, number);
        number
    }

    fn group(&self, number: u32) -> &Group {
        let group = self.groups[number as usize].as_ref();
        group.expect("an entry has the numbers of present groups only")
    }

    fn group_mut(&mut self, number: u32) -> &mut Group {
        let group = self.groups[number as usize].as_mut();
        group.expect("an entry has the numbers of present groups only")
    }

    fn count_bytes(&mut self, change: i64) {
        self.held_bytes = self.held_bytes.wrapping_add_signed(change);
    }

    /// Adds an entry to a group.
    pub fn add(&mut self, number: u32, slot: Slot) {
        let group = self.group_mut(number);
        debug_assert!(group.dissolved == 0 && group.until.is_none());
        let change = group.members.insert(slot.0);
        self.count_bytes(change);
        self.pairs += 1;
    }

    /// Removes an entry from a group. A group that has its name and no member left is removed, too.
    pub fn remove(&mut self, number: u32, slot: Slot) {
        let group = self.group_mut(number);
        let change = group.members.remove(slot.0).expect("the slot is a member");
        let (is_stale, is_empty) = (group.dissolved > 0, group.members.len() == 0);
        self.count_bytes(change);
        if is_stale {
            self.stale_pairs -= 1;
            return;
        }
        self.pairs -= 1;
        if is_empty && self.take_soft(number) {
            self.free(number);
        } else if is_empty {
            self.remove_empty(number);
        }
    }

    /// Removes a softened group from the lists of those. Returns false if it is none.
    fn take_soft(&mut self, number: u32) -> bool {
        let group = self.group(number);
        let Some(until) = group.until else {
            return false;
        };
        let name = Arc::clone(&group.name);
        self.soft_by_end.remove(&(until, number));
        let of_name = self.soft.get_mut(&name).expect("the list has the group");
        of_name.remove(&(until, number));
        if of_name.is_empty() {
            self.soft.remove(&name);
        }
        true
    }

    /// Removes a group to which no member was added.
    pub fn remove_empty(&mut self, number: u32) {
        if self.group(number).members.len() == 0 {
            let name = Arc::clone(&self.group(number).name);
            self.by_name.remove(&name);
            self.free(number);
        }
    }

    fn free(&mut self, number: u32) {
        let group = self.groups[number as usize].take();
        let group = group.expect("the group is present");
        debug_assert_eq!(group.members.len(), 0);
        let bytes = group.name.len() + GROUP_BYTES + group.members.heap_bytes();
        self.held_bytes -= bytes as u64;
        self.vacant.push(number);
    }

    /// Changes the slot of an entry in its groups.
    pub fn moved(&mut self, marks: &Marks, old: Slot, new: Slot) {
        for number in marks.as_slice() {
            let members = &mut self.group_mut(*number).members;
            let removed = members.remove(old.0).expect("the slot is a member");
            let change = removed + members.insert(new.0);
            self.count_bytes(change);
        }
    }

    /// Returns the name of a group.
    pub fn name(&self, number: u32) -> &[u8] {
        &self.group(number).name
    }

    /// Returns the group that has a name, and those that had it and are softened.
    fn all_of(&self, name: &[u8]) -> impl Iterator<Item = u32> {
        let soft = self.soft.get(name).into_iter().flatten();
        let named = self.by_name.get(name).copied();
        named.into_iter().chain(soft.map(|(_, number)| *number))
    }

    /// Returns the number of entries in the groups with a name.
    pub fn len_of(&self, name: &[u8]) -> usize {
        let groups = self.all_of(name);
        groups.map(|number| self.group(number).members.len()).sum()
    }

    /// Passes at most about `max` entries of each group with a name to `each`.
    pub fn each_of(&self, name: &[u8], max: usize, each: &mut dyn FnMut(Slot)) {
        for number in self.all_of(name) {
            let members = &self.group(number).members;
            members.each(max, &mut |slot| each(Slot(slot)));
        }
    }

    /// Takes the name from a group, so that its members are stale, and dissolves the softened
    /// groups of the name. Returns the number of members. Takes constant time for each group, apart
    /// from the search for the name.
    pub fn dissolve(&mut self, name: &[u8]) -> u64 {
        let mut members = 0;
        for (until, number) in self.soft.remove(name).unwrap_or_default() {
            self.soft_by_end.remove(&(until, number));
            members += self.dissolve_number(number);
        }
        match self.by_name.remove(name) {
            Some(number) => members + self.dissolve_number(number),
            None => members,
        }
    }

    fn dissolve_number(&mut self, number: u32) -> u64 {
        self.dissolved += 1;
        let at = self.dissolved;
        let group = self.group_mut(number);
        group.dissolved = at;
        let members = group.members.len() as u64;
        self.stale.push(number);
        self.pairs -= members;
        self.stale_pairs += members;
        members
    }

    /// Takes the name from a group, which is dissolved after `until`, as are the softened groups of
    /// the name at the latest. Returns the number of members that are softened now, and whether
    /// some are dissolved earlier than before. Takes constant time for each group that ends earlier
    /// than before, apart from the search for the name.
    pub fn soften(&mut self, name: &[u8], until: Tick) -> (u64, bool) {
        let of_name = self.soft.get_mut(name);
        let later = of_name.map(|of_name| of_name.split_off(&(until, u32::MAX)));
        let later = later.unwrap_or_default();
        let are_shorter = !later.is_empty();
        for (before, number) in later {
            self.soft_by_end.remove(&(before, number));
            self.add_soft(number, until);
        }
        let Some(number) = self.by_name.remove(name) else {
            return (0, are_shorter);
        };
        self.dissolved += 1;
        let at = self.dissolved;
        let group = self.group_mut(number);
        group.softened = at;
        let members = group.members.len() as u64;
        self.add_soft(number, until);
        (members, are_shorter)
    }

    /// Adds a group to the lists of softened ones.
    fn add_soft(&mut self, number: u32, until: Tick) {
        let group = self.group_mut(number);
        group.until = Some(until);
        let name = Arc::clone(&group.name);
        self.soft.entry(name).or_default().insert((until, number));
        self.soft_by_end.insert((until, number));
    }

    /// Dissolves the softened groups whose last instant has passed, one in each step. Returns
    /// whether there are more.
    pub fn end_soft(&mut self, now: Tick, steps: &mut u32) -> bool {
        while let Some((until, number)) = self.soft_by_end.first().copied()
            && now > until
        {
            if *steps == 0 {
                return true;
            }
            *steps -= 1;
            self.end(number);
        }
        false
    }

    /// Like [`Groups::end_soft`], for the groups of one entry. Returns whether there were any.
    pub fn end_soft_of(&mut self, marks: &Marks, now: Tick) -> bool {
        let mut has_ended = false;
        for number in marks.as_slice() {
            let group = self.group(*number);
            if group.dissolved == 0 && group.until.is_some_and(|until| now > until) {
                self.end(*number);
                has_ended = true;
            }
        }
        has_ended
    }

    /// Dissolves a softened group because its last instant has passed.
    fn end(&mut self, number: u32) {
        self.take_soft(number);
        self.group_mut(number).has_ended = true;
        self.dissolve_number(number);
    }

    /// Returns the earliest last instant of a softened group.
    pub fn next_soft_end(&self) -> Option<Tick> {
        self.soft_by_end.first().map(|(until, _)| *until)
    }

    /// Returns the last instant of an entry if one of its groups was softened.
    pub fn soft_until(&self, marks: &Marks) -> Option<Tick> {
        let groups = marks.as_slice().iter();
        groups.filter_map(|number| self.group(*number).until).min()
    }

    /// Like [`Groups::soft_until`], for the instant of the snapshot in progress.
    pub fn was_soft_until(&self, marks: &Marks) -> Option<Tick> {
        let groups = marks.as_slice().iter().map(|number| self.group(*number));
        let before = groups.filter(|group| group.softened <= self.dissolved_before_saving);
        before.filter_map(|group| group.until).min()
    }

    /// Whether a stale entry is one only because the last instant of its groups has passed.
    pub fn has_only_ended(&self, marks: &Marks) -> bool {
        let groups = marks.as_slice().iter().map(|number| self.group(*number));
        let mut dissolved = groups.filter(|group| group.dissolved > 0);
        dissolved.all(|group| group.has_ended)
    }

    /// Whether one of these groups was dissolved.
    pub fn is_stale(&self, marks: &Marks) -> bool {
        let mut numbers = marks.as_slice().iter();
        numbers.any(|number| self.group(*number).dissolved > 0)
    }

    /// Sets the instant of a snapshot for [`Groups::was_stale`].
    pub fn begin_saving(&mut self) {
        self.dissolved_before_saving = self.dissolved;
    }

    /// Whether one of these groups had been dissolved at the instant of the snapshot in progress.
    pub fn was_stale(&self, marks: &Marks) -> bool {
        let dissolved = marks.as_slice().iter().map(|n| self.group(*n).dissolved);
        let mut dissolved = dissolved.filter(|at| *at > 0);
        dissolved.any(|at| at <= self.dissolved_before_saving)
    }

    /// Whether there are dissolved or softened groups.
    pub fn may_be_stale(&self) -> bool {
        !self.stale.is_empty() || !self.soft.is_empty()
    }

    /// Returns a member of a dissolved group. Dissolved groups without members are removed before,
    /// at most `steps` of them. Returns `None` if there are only such groups, or none.
    pub fn next_stale(&mut self, steps: &mut u32) -> Option<Slot> {
        while let Some(number) = self.stale.last()
            && *steps > 0
        {
            if let Some(slot) = self.group(*number).members.last() {
                return Some(Slot(slot));
            }
            *steps -= 1;
            let number = *number;
            self.stale.pop();
            self.free(number);
        }
        None
    }

    /// Counts a change of an entry's note.
    pub fn note_changed(&mut self, old: u32, new: u32) {
        self.noted = self.noted - u64::from(old != 0) + u64::from(new != 0);
    }

    /// Whether there are no groups and no notes.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.soft.is_empty() && self.stale.is_empty() && self.noted == 0
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> u64 {
        let lists = self.groups.capacity() * size_of::<Option<Group>>()
            + (self.vacant.capacity() + self.stale.capacity()) * size_of::<u32>();
        self.held_bytes + lists as u64
    }

    /// Returns the numbers of groups and members.
    pub fn facts(&self) -> GroupFacts {
        GroupFacts {
            groups: (self.by_name.len() + self.soft_by_end.len()) as u64,
            pairs: self.pairs,
            stale_pairs: self.stale_pairs,
            noted: self.noted,
            bytes: self.heap_bytes(),
        }
    }

    /// Frees about `steps` groups whose entries are no longer needed. Returns whether there are
    /// more.
    pub fn dismantle(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            self.by_name.pop_first();
            self.soft.pop_first();
            self.soft_by_end.pop_first();
            self.groups.pop();
        }
        !(self.by_name.is_empty() && self.soft_by_end.is_empty() && self.groups.is_empty())
    }

    /// Panics if the groups contradict themselves or the entries, whose slots and marks are given.
    pub fn check(&self, entries: &mut dyn Iterator<Item = (Slot, Marks)>) {
        let (mut pairs, mut stale_pairs, mut noted) = (0, 0, 0);
        for (slot, marks) in entries {
            noted += u64::from(marks.note() != 0);
            for number in marks.as_slice() {
                let group = self.group(*number);
                assert!(group.members.contains(slot.0));
                match group.dissolved {
                    0 => pairs += 1,
                    _ => stale_pairs += 1,
                }
            }
        }
        assert_eq!((pairs, stale_pairs), (self.pairs, self.stale_pairs));
        assert_eq!(noted, self.noted);
        let mut held = 0;
        let (mut named, mut members) = (0, 0);
        let mut soft = BTreeSet::new();
        for (number, group) in self.groups.iter().enumerate() {
            let Some(group) = group else { continue };
            held += group.name.len() + GROUP_BYTES + group.members.heap_bytes();
            members += group.members.len() as u64;
            let is_named = self.by_name.get(&group.name) == Some(&(number as u32));
            let is_soft = group.until.is_some() && group.dissolved == 0;
            assert_eq!(is_named, group.dissolved == 0 && !is_soft);
            if is_soft {
                soft.extend(group.until.map(|until| (until, number as u32)));
            }
            assert!(!is_named || group.members.len() > 0);
            named += usize::from(is_named);
        }
        assert_eq!(named, self.by_name.len());
        assert_eq!(members, pairs + stale_pairs, "no member is left over");
        assert_eq!(held as u64, self.held_bytes);
        let present = self.groups.iter().flatten().count();
        assert_eq!(present, self.by_name.len() + soft.len() + self.stale.len());
        assert_eq!(soft, self.soft_by_end);
        let listed = self.soft.values().flatten().copied();
        assert_eq!(listed.collect::<BTreeSet<_>>(), soft);
        for (name, of_name) in &self.soft {
            assert!(!of_name.is_empty());
            let mut numbers = of_name.iter().map(|(_, number)| *number);
            assert!(numbers.all(|number| self.group(number).name == *name));
        }
        assert_eq!(present + self.vacant.len(), self.groups.len());
    }
}
