//! Entries in groups: joining, leaving, and the removal of all members of a group.
//!
//! This host notifies [`Groups`] of each move and removal of an entry. An entry without groups
//! costs a comparison where it is removed, moved or looked up ([`Shard::may_be_stale`]).

use super::Shard;
#[cfg(doc)]
use crate::groups::Groups;
use crate::groups::{GroupFacts, Marks};
use crate::packed::PackedEntries;
use crate::value::Outside;
use policy::{ExpiryIndex, Meta, Policy, Slot, Tick};

impl<O, M, L, P, X> Shard<PackedEntries<O, M, L>, P, X>
where
    O: Outside,
    M: Meta,
    L: Meta,
    P: Policy<Meta = M>,
    X: ExpiryIndex<Link = L>,
{
    /// Whether a group was dissolved whose members are not all removed, or softened, so that an
    /// entry may be stale.
    #[inline(always)]
    pub fn has_stale(&self) -> bool {
        self.has_stale
    }

    /// Whether an entry has groups, and one may be dissolved or softened.
    #[inline(always)]
    pub fn may_be_stale(&self, slot: Slot) -> bool {
        self.has_stale && self.entries.has_marks(slot)
    }

    /// Whether an entry belongs to a group that was dissolved, so that the host must treat it as
    /// absent.
    #[inline(always)]
    pub fn is_stale(&self, slot: Slot) -> bool {
        self.may_be_stale(slot) && self.is_in_stale(slot)
    }

    #[cold]
    fn is_in_stale(&self, slot: Slot) -> bool {
        let groups = self.groups.as_ref();
        groups.is_some_and(|groups| groups.is_stale(&self.entries.marks(slot)))
    }

    /// Returns the last instant of an entry that belongs to a softened group.
    #[inline(always)]
    pub fn soft_until(&self, slot: Slot) -> Option<Tick> {
        match self.may_be_stale(slot) {
            true => self.soft_end(slot),
            false => None,
        }
    }

    #[cold]
    fn soft_end(&self, slot: Slot) -> Option<Tick> {
        let groups = self.groups.as_ref()?;
        groups.soft_until(&self.entries.marks(slot))
    }

    /// Like [`Shard::soft_until`], for the instant of the snapshot in progress.
    pub fn was_soft_until(&self, slot: Slot) -> Option<Tick> {
        let groups = self.groups.as_ref();
        let groups = groups.filter(|_| self.may_be_stale(slot))?;
        groups.was_soft_until(&self.entries.marks(slot))
    }

    /// Whether a stale entry is one only because the last instant of its groups has passed.
    pub fn has_only_ended(&self, slot: Slot) -> bool {
        let groups = self.groups.as_ref();
        groups.is_some_and(|groups| groups.has_only_ended(&self.entries.marks(slot)))
    }

    /// Takes the name from a group, whose members become stale after `until`, in constant time.
    /// Returns their number, and whether earlier members become stale earlier than before.
    pub fn soften(&mut self, name: &[u8], until: Tick) -> (u64, bool) {
        let groups = self.groups.as_mut();
        let softened = groups.map_or((0, false), |groups| groups.soften(name, until));
        self.has_stale |= softened.0 > 0;
        softened
    }

    /// Makes the members of softened groups stale whose last instant has passed, one group in each
    /// step. Returns whether there are more.
    pub fn end_soft(&mut self, now: Tick, steps: &mut u32) -> bool {
        let groups = self.groups.as_mut().filter(|_| self.has_stale);
        groups.is_some_and(|groups| groups.end_soft(now, steps))
    }

    /// Like [`Shard::end_soft`], for the groups of one entry. Returns whether there were any.
    pub fn end_soft_of(&mut self, slot: Slot, now: Tick) -> bool {
        let groups = self.groups.as_mut();
        groups.is_some_and(|groups| groups.end_soft_of(&self.entries.marks(slot), now))
    }

    /// Returns the earliest last instant of a softened group.
    pub fn next_soft_end(&self) -> Option<Tick> {
        self.groups.as_ref()?.next_soft_end()
    }

    /// Begins a snapshot of the entries as they are now, see [`PackedEntries::begin_saving`].
    pub fn begin_saving(&mut self, label: u8) {
        self.entries.begin_saving(label);
        if let Some(groups) = &mut self.groups {
            groups.begin_saving();
        }
    }

    /// Whether an entry was stale at the instant of the snapshot in progress.
    pub fn was_stale(&self, slot: Slot) -> bool {
        let groups = self.groups.as_ref();
        let groups = groups.filter(|_| self.may_be_stale(slot));
        groups.is_some_and(|groups| groups.was_stale(&self.entries.marks(slot)))
    }

    /// Whether any entry has groups.
    #[inline(always)]
    pub fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Passes the names of an entry's groups to `each`, in the order in which it has joined them.
    pub fn each_group(&self, slot: Slot, each: &mut dyn FnMut(&[u8])) {
        if let Some(groups) = &self.groups {
            for number in self.entries.marks(slot).as_slice() {
                each(groups.name(*number));
            }
        }
    }

    /// Returns the note of an entry; 0 if it has none.
    #[inline(always)]
    pub fn note(&self, slot: Slot) -> u32 {
        match self.groups {
            Some(_) => self.entries.note(slot),
            None => 0,
        }
    }

    /// Makes an entry that is not stale a member of the groups with these names only, and gives it
    /// a note below 2^31, or none. Returns its slot after the change. Names beyond
    /// [`crate::MARKS_MAX`] have no effect.
    pub fn set_groups<'n>(
        &mut self,
        slot: Slot,
        names: impl IntoIterator<Item = &'n [u8]>,
        note: u32,
    ) -> Slot {
        let (old, mut new) = (self.entries.marks(slot), Marks::default());
        new.set_note(note);
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            let groups = self.groups.get_or_insert_default();
            for name in names {
                let number = groups.number(name);
                if !new.push(number) {
                    groups.remove_empty(number);
                }
            }
        }
        if old == new {
            return slot;
        }
        let groups = self.groups.get_or_insert_default();
        groups.note_changed(old.note(), note);
        let is_in = |marks: &Marks, number: &u32| marks.as_slice().contains(number);
        for number in new.as_slice().iter().filter(|number| !is_in(&old, number)) {
            groups.add(*number, slot);
        }
        for number in old.as_slice().iter().filter(|number| !is_in(&new, number)) {
            groups.remove(*number, slot);
        }
        let (shape, old_weight) = (self.entries.shape(slot), self.entries.weight_of(slot));
        let at = self.entries.set_marks(slot, &new);
        if at != slot {
            self.moved(slot, at, shape);
            self.moved_in_groups(slot, at);
        }
        if self.entries.weight_of(at) != old_weight {
            self.weight_changed(at, old_weight);
            self.subtract_weight(shape.owner, |_| old_weight);
            self.add_weight(at, shape.owner);
        }
        self.drop_empty_groups();
        at
    }

    /// Removes an entry from its groups, before it is removed.
    #[inline(always)]
    pub(super) fn leave_groups(&mut self, slot: Slot) {
        if self.groups.is_some() {
            self.leave_all_groups(slot);
        }
    }

    #[cold]
    fn leave_all_groups(&mut self, slot: Slot) {
        let marks = self.entries.marks(slot);
        if let Some(groups) = self.groups.as_mut().filter(|_| marks != Marks::default()) {
            for number in marks.as_slice() {
                groups.remove(*number, slot);
            }
            groups.note_changed(marks.note(), 0);
            self.drop_empty_groups();
        }
    }

    fn drop_empty_groups(&mut self) {
        if self.groups.as_ref().is_some_and(|groups| groups.is_empty()) {
            self.groups = None;
        }
        self.has_stale = self
            .groups
            .as_ref()
            .is_some_and(|groups| groups.may_be_stale());
    }

    /// Updates the groups of an entry that has moved to another slot.
    #[inline(always)]
    pub(super) fn moved_in_groups(&mut self, old: Slot, new: Slot) {
        if let Some(groups) = &mut self.groups {
            groups.moved(&self.entries.marks(new), old, new);
        }
    }

    /// Makes all members of a group stale and takes its name, in constant time. Returns their
    /// number.
    pub fn dissolve(&mut self, name: &[u8]) -> u64 {
        let members = self
            .groups
            .as_mut()
            .map_or(0, |groups| groups.dissolve(name));
        self.has_stale |= members > 0;
        members
    }

    /// Returns a stale entry, which the caller removes as one that a command deletes. Takes some of
    /// the steps if there is none.
    pub fn next_stale(&mut self, steps: &mut u32) -> Option<Slot> {
        let stale = self.groups.as_mut()?.next_stale(steps);
        if stale.is_none() {
            self.drop_empty_groups();
        }
        stale
    }

    /// Returns the number of entries in the group with a name.
    pub fn group_len(&self, name: &[u8]) -> usize {
        let groups = self.groups.as_ref();
        groups.map_or(0, |groups| groups.len_of(name))
    }

    /// Passes at most about `max` entries of the group with a name to `each`. Some may be stale,
    /// because another of their groups was dissolved.
    pub fn each_of_group(&self, name: &[u8], max: usize, each: &mut dyn FnMut(Slot)) {
        if let Some(groups) = &self.groups {
            groups.each_of(name, max, each);
        }
    }

    /// Returns the numbers of groups and members.
    pub fn group_facts(&self) -> GroupFacts {
        let groups = self.groups.as_ref();
        groups.map_or_else(GroupFacts::default, |groups| groups.facts())
    }

    /// Returns the number of bytes of all groups.
    #[inline(always)]
    pub fn group_bytes(&self) -> u64 {
        let groups = self.groups.as_ref();
        groups.map_or(0, |groups| groups.heap_bytes())
    }

    /// Frees the groups and then the entries in steps, see [`PackedEntries::dismantle`].
    pub fn dismantle(&mut self, steps: u32, each: impl FnMut(O)) -> bool {
        if let Some(groups) = &mut self.groups
            && groups.dismantle(steps)
        {
            return true;
        }
        self.groups = None;
        self.entries.dismantle(steps, each)
    }

    /// Panics if the groups contradict the entries.
    pub(super) fn check_groups(&self) {
        let mut at = 0;
        let mut entries = std::iter::from_fn(|| {
            let slot = self.entries.walk(at)?;
            at = slot.0 + 1;
            Some((slot, self.entries.marks(slot)))
        });
        match &self.groups {
            Some(groups) => {
                groups.check(&mut entries);
                assert_eq!(groups.may_be_stale(), self.has_stale);
            }
            None => assert!(entries.all(|(_, marks)| marks == Marks::default())),
        }
    }
}
