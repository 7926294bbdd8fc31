//! The interface between a [`crate::Shard`] and the storage of its entries.

use policy::{Cells, Facts, Meta, Slot, Tick};

/// Policy in charge of evicting an entry: none (0, [`PROTECTED`]), or one of a shard's two policies
/// (1, 2). There are two because a policy replaced at run time keeps its entries until they are
/// drained.
pub type Owner = u8;

/// Owner of the entries that are never evicted, whatever the policy and its scope.
pub const PROTECTED: Owner = 3;
/// Number of owners.
pub const OWNERS: usize = 4;

/// Storage of entries by slot, with room in each entry for bits of a policy and of an expiry index.
pub trait Entries: Facts {
    /// State that the policy keeps in each entry.
    type Meta: Copy + Default;
    /// State that the expiry index keeps in each entry.
    type Link: Meta;
    /// View of the entries for the policy of one owner.
    type PolicyCells<'a>: Cells<Self::Meta>
    where
        Self: 'a;
    /// View of the entries for the expiry index.
    type LinkCells<'a>: Cells<Self::Link>
    where
        Self: 'a;

    /// Returns the view of the entries for the policy of `owner`.
    fn policy_cells(&mut self, owner: Owner) -> Self::PolicyCells<'_>;
    /// Returns the view of the entries for the expiry index.
    fn link_cells(&mut self) -> Self::LinkCells<'_>;
    /// Returns the view of the entries for the expiry index. The caller guarantees that `slot` is
    /// live, which saves a memory access.
    fn link_cells_of(&mut self, slot: Slot) -> Self::LinkCells<'_>;
    /// Returns the owner of a live entry.
    fn owner(&self, slot: Slot) -> Owner;
    /// Sets the instant `now` for the request that follows.
    fn begin(&mut self, now: Tick);
}
