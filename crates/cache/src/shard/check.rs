//! The consistency check of a shard, for tests.

use super::Shard;
use crate::entries::{Entries, PROTECTED};
use crate::packed::PackedEntries;
use crate::value::Outside;
use policy::{ExpiryIndex, Facts, Meta, Policy};

impl<O, M, L, P, X> Shard<PackedEntries<O, M, L>, P, X>
where
    O: Outside,
    M: Meta,
    L: Meta,
    P: Policy<Meta = M>,
    X: ExpiryIndex<Link = L>,
{
    /// Panics if entries, policy and index disagree. Takes time proportional to the number of
    /// entries.
    pub fn check(&mut self) {
        self.entries.check();
        self.check_algorithms();
        self.check_groups();
        assert_eq!(self.expiry.len(), self.entries.deadlines());
        assert_eq!(
            self.entries.owned().iter().sum::<usize>(),
            self.entries.len()
        );
        let (mut at, mut sum, mut protected) = (0, 0, 0);
        while let Some(slot) = self.entries.walk(at) {
            let weight = u64::from(self.entries.weight_of(slot));
            match self.entries.owner(slot) {
                PROTECTED => protected += weight,
                owner if self.is_summed(owner) => sum += weight,
                _ => {}
            }
            at = slot.0 + 1;
        }
        assert_eq!(
            (sum, protected),
            (self.volatile_bytes, self.protected_bytes)
        );
        if self.needs_drain() {
            return;
        }
        let mut at = 0;
        while let Some(slot) = self.entries.walk(at) {
            let wanted = self.owner_for(|| self.entries.own_deadline(slot));
            let owner = self.entries.owner(slot);
            assert!(owner == wanted || owner == PROTECTED);
            at = slot.0 + 1;
        }
    }
}
