//! What a [`crate::Shard`] needs of the place where its entries live.

use policy::{Cells, Facts, Meta, Slot, Tick};

/// Who decides about an entry's eviction: nobody (0), or one of a shard's two policies (1, 2). Two,
/// because a policy switched at run time takes over while the old one drains.
pub type Owner = u8;

/// Entries by slot, with room in each for a policy's bits and an expiry index's bits.
pub trait Entries: Facts {
    /// The policy's bits.
    type Meta: Copy + Default;
    /// The expiry index's bits.
    type Link: Meta;
    /// The entries as the policy of one owner sees them.
    type PolicyCells<'a>: Cells<Self::Meta>
    where
        Self: 'a;
    /// The entries as the expiry index sees them.
    type LinkCells<'a>: Cells<Self::Link>
    where
        Self: 'a;

    /// Lends them to a policy.
    fn policy_cells(&mut self, owner: Owner) -> Self::PolicyCells<'_>;
    /// Lends them to the expiry index.
    fn link_cells(&mut self) -> Self::LinkCells<'_>;
    /// The same, where the caller knows that `slot` lives: questions about it need no proof of that.
    fn link_cells_of(&mut self, slot: Slot) -> Self::LinkCells<'_>;
    /// Who owns a live entry.
    fn owner(&self, slot: Slot) -> Owner;
    /// Another request begins, at this instant.
    fn begin(&mut self, now: Tick);
}
