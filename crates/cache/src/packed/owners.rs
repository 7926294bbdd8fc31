//! Entries by owner. A shard compares the numbers to know whether all entries that a policy may
//! evict belong to it.

use super::PackedEntries;
use crate::block::width;
use crate::entries::{OWNERS, Owner, PROTECTED};
use crate::value::Outside;
use policy::{Meta, Slot};

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// Sets the number of bits that the policy of `owner` needs in each entry. The owner must have
    /// no entries.
    pub fn set_policy_bits(&mut self, owner: Owner, bits: u32) {
        assert!(matches!(owner, 1 | 2), "other owners have no policy");
        assert_eq!(self.owned[owner as usize], 0);
        self.blocks.widths.policy[owner as usize] = width(bits, 8);
    }

    /// Returns the number of entries of each owner.
    pub fn owned(&self) -> [usize; OWNERS] {
        self.owned
    }

    /// Returns the number of entries with their own deadline that may have a policy.
    pub fn evictable_deadlines(&self) -> usize {
        self.own_deadlines() - self.protected_deadlines
    }

    /// Whether an entry is protected and has its own deadline.
    #[inline(always)]
    pub(super) fn is_protected_with_deadline(&self, slot: Slot) -> bool {
        self.owned[PROTECTED as usize] > 0
            && self.shape(slot).owner == PROTECTED
            && self.own_deadline(slot).is_some()
    }

    /// Updates the number of protected entries with deadlines after a change of an entry.
    #[inline(always)]
    pub(super) fn count_protected(&mut self, slot: Slot, was_counted: bool) {
        self.protected_deadlines += usize::from(self.is_protected_with_deadline(slot));
        self.protected_deadlines -= usize::from(was_counted);
    }
}
