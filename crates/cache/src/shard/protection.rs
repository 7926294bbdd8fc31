//! Protection of single entries from eviction: a protected entry belongs to no policy.

use super::Shard;
use crate::block::Shape;
use crate::entries::PROTECTED;
use crate::packed::PackedEntries;
use crate::value::{NewValue, Outside};
use policy::{ExpiryIndex, Meta, Policy, Slot};

impl<O, M, L, P, X> Shard<PackedEntries<O, M, L>, P, X>
where
    O: Outside,
    M: Meta,
    L: Meta,
    P: Policy<Meta = M>,
    X: ExpiryIndex<Link = L>,
{
    /// Protects a live entry from eviction, or ends the protection. Returns its slot after the
    /// change.
    pub fn protect(&mut self, slot: Slot, is_protected: bool) -> Slot {
        let old = self.entries.shape(slot);
        if is_protected == (old.owner == PROTECTED) {
            return slot;
        }
        self.remove_from_policy(slot);
        let owner = match is_protected {
            true => PROTECTED,
            false => self.owner_for(|| self.entries.own_deadline(slot)),
        };
        self.reshape(slot, NewValue::Same, Shape { owner, ..old }, old)
            .0
    }

    /// Whether a live entry is protected from eviction.
    pub fn is_protected(&self, slot: Slot) -> bool {
        self.entries.shape(slot).owner == PROTECTED
    }

    /// Returns the number of protected entries.
    pub fn protected_len(&self) -> usize {
        self.entries.owned()[PROTECTED as usize]
    }
}
