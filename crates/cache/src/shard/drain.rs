//! Replacement of the policy: the entries of the old one move to the new one step by step.

use super::{Scope, Shard};
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
    /// Replaces the policy. New entries belong to `policy`; the old one keeps its entries until
    /// [`Shard::drain`] has moved them. The previous drain must have ended.
    pub fn set_policy(&mut self, policy: Option<(P, u32)>, scope: Scope) {
        assert!(!self.is_draining());
        // The new policy has no entries yet.
        self.volatile_bytes = 0;
        let next = 3 - self.current;
        self.scope = if policy.is_some() {
            scope
        } else {
            Scope::Nothing
        };
        if let Some((policy, bits)) = policy {
            self.entries.set_policy_bits(next, bits);
            self.policies[next as usize - 1] = Some(policy);
            self.current = next;
        }
        if self.is_settled() {
            self.finish_drain();
        }
    }

    /// Keeps a victim that has left the policy's scope, and returns its slot. The entry gets the
    /// owner that [`Shard::drain`] would give it. Returns `None` for any other victim. Victims
    /// outside of the scope come from a policy that is being drained.
    pub fn retain_if_out_of_scope(&mut self, slot: Slot) -> Option<Slot> {
        let old = self.entries.shape(slot);
        let owner = self.owner_for(|| self.entries.own_deadline(slot));
        if owner != 0 {
            return None;
        }
        // The policy has already removed the entry from its structures.
        let (slot, _) = self.reshape(slot, NewValue::Same, Shape { owner, ..old }, old);
        Some(slot)
    }

    /// Returns whether a replaced policy still has entries.
    pub fn is_draining(&self) -> bool {
        self.policies[2 - self.current as usize].is_some()
    }

    /// Returns whether [`Shard::drain`] has entries to move.
    pub fn needs_drain(&self) -> bool {
        self.is_draining() || !self.is_settled()
    }

    /// Moves up to `steps` entries to the owner that the scope requires, beginning at `cursor` in
    /// arena order. Returns the cursor for the next call, or `None` once all entries have the
    /// required owner.
    pub fn drain(&mut self, cursor: u32, steps: u32) -> Option<u32> {
        if self.is_settled() {
            self.finish_drain();
            return None;
        }
        let mut at = cursor;
        for _ in 0..steps {
            let Some(slot) = self.entries.walk(at) else {
                return Some(0);
            };
            let old = self.entries.shape(slot);
            let owner = self.owner_for(|| self.entries.own_deadline(slot));
            if owner != old.owner && old.owner != PROTECTED {
                self.remove_from_policy(slot);
                self.reshape(slot, NewValue::Same, Shape { owner, ..old }, old);
            }
            at = slot.0 + 1;
        }
        Some(at)
    }

    pub(super) fn is_settled(&self) -> bool {
        let owned = self.entries.owned();
        let old = owned[3 - self.current as usize];
        match self.scope {
            Scope::Nothing => owned[1] + owned[2] == 0,
            Scope::All => owned[0] + old == 0,
            Scope::Volatile => {
                old == 0 && owned[self.current as usize] == self.entries.evictable_deadlines()
            }
        }
    }

    fn finish_drain(&mut self) {
        self.policies[2 - self.current as usize] = None;
        if self.scope == Scope::Nothing {
            self.policies[self.current as usize - 1] = None;
        }
    }
}
