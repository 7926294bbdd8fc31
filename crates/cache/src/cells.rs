//! Views through which a policy or an expiry index accesses the packed entries: facts common to all
//! views, and the state that the algorithm keeps in each entry.

use crate::entries::{Entries, Owner};
use crate::packed::PackedEntries;
use crate::value::Outside;
use policy::{Cells, Facts, Meta, Slot, Tick};

/// Implements access to the facts that are the same in all views.
macro_rules! shared_facts {
    ($entries:ident, $deadline:ident) => {
        #[inline]
        fn now(&self) -> Tick {
            self.$entries().now
        }
        #[inline]
        fn requests(&self) -> u64 {
            self.$entries().requests
        }
        #[inline]
        fn weight(&self, slot: Slot) -> u32 {
            self.$entries().weight_of(slot)
        }
        #[inline]
        fn key_hash(&self, slot: Slot) -> u64 {
            self.$entries().blocks.key_hash(slot)
        }
        #[inline]
        fn deadline(&self, slot: Slot) -> Option<Tick> {
            if !self.is_live(slot) {
                return None;
            }
            self.$entries().$deadline(slot)
        }
    };
}

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    #[inline(always)]
    fn this(&self) -> &Self {
        self
    }
}

impl<O: Outside, M: Meta, L: Meta> Facts for PackedEntries<O, M, L> {
    shared_facts!(this, indexed_deadline);
    fn is_live(&self, slot: Slot) -> bool {
        self.blocks.arena.is_live(slot.0)
    }
    fn len(&self) -> usize {
        self.table.len()
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        if self.len() == 0 {
            return None; // The search would walk far to find none.
        }
        self.sample_where(random, |_| true)
    }
}

/// View of the entries for the policy of one owner.
pub struct PolicyCells<'a, O, M, L> {
    entries: &'a mut PackedEntries<O, M, L>,
    owner: Owner,
}

impl<O, M, L> PolicyCells<'_, O, M, L> {
    #[inline(always)]
    fn entries(&self) -> &PackedEntries<O, M, L> {
        self.entries
    }
}

impl<O: Outside, M: Meta, L: Meta> Facts for PolicyCells<'_, O, M, L> {
    // The entry's own deadline: the deadline of a part is no reason to evict the whole entry.
    shared_facts!(entries, own_deadline);
    /// Returns whether an entry is live and belongs to this owner. A policy may hold a stale slot
    /// that now names an entry of another owner. The bits of that entry are the state of another
    /// policy.
    #[inline]
    fn is_live(&self, slot: Slot) -> bool {
        let blocks = &self.entries.blocks;
        blocks.arena.is_live(slot.0) && blocks.parts(slot).1.owner() == self.owner
    }
    fn len(&self) -> usize {
        self.entries.owned[self.owner as usize]
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        if self.len() == 0 {
            return None; // The search would walk far to find none.
        }
        self.entries
            .sample_where(random, |slot| self.entries.owner(slot) == self.owner)
    }
}

impl<O: Outside, M: Meta, L: Meta> Cells<M> for PolicyCells<'_, O, M, L> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        let blocks = &self.entries.blocks;
        M::unpack(blocks.widths.policy_bits(blocks.arena.from(slot.0)))
    }
    #[inline]
    fn set(&mut self, slot: Slot, meta: M) {
        debug_assert!(self.is_live(slot));
        let blocks = &mut self.entries.blocks;
        blocks
            .widths
            .set_policy_bits(blocks.arena.from_mut(slot.0), meta.pack());
    }
}

/// View of the entries for the expiry index.
pub struct LinkCells<'a, O, M, L> {
    entries: &'a mut PackedEntries<O, M, L>,
    /// A slot that the caller knows to be live, so that its live bit need not be read again. The
    /// bit is on another cache line than the entry, and a command that changes one entry has not
    /// loaded that line.
    known: Slot,
}

impl<O, M, L> LinkCells<'_, O, M, L> {
    #[inline(always)]
    fn entries(&self) -> &PackedEntries<O, M, L> {
        self.entries
    }
}

impl<O: Outside, M: Meta, L: Meta> Facts for LinkCells<'_, O, M, L> {
    shared_facts!(entries, indexed_deadline);
    #[inline]
    fn is_live(&self, slot: Slot) -> bool {
        slot == self.known || self.entries.blocks.arena.is_live(slot.0)
    }
    fn len(&self) -> usize {
        self.entries.deadlines
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        if self.len() == 0 {
            return None; // The search would walk far to find none.
        }
        let is_filed = |slot| self.entries.blocks.parts(slot).1.has_deadline();
        self.entries.sample_where(random, is_filed)
    }
}

impl<O: Outside, M: Meta, L: Meta> Cells<L> for LinkCells<'_, O, M, L> {
    #[inline]
    fn get(&self, slot: Slot) -> L {
        let blocks = &self.entries.blocks;
        L::unpack(blocks.widths.link_bits(blocks.arena.from(slot.0)))
    }
    #[inline]
    fn set(&mut self, slot: Slot, link: L) {
        debug_assert!(self.entries.blocks.parts(slot).1.has_deadline());
        let blocks = &mut self.entries.blocks;
        blocks
            .widths
            .set_link_bits(blocks.arena.from_mut(slot.0), link.pack());
    }
}

impl<O: Outside, M: Meta, L: Meta> Entries for PackedEntries<O, M, L> {
    type Meta = M;
    type Link = L;
    type PolicyCells<'a>
        = PolicyCells<'a, O, M, L>
    where
        Self: 'a;
    type LinkCells<'a>
        = LinkCells<'a, O, M, L>
    where
        Self: 'a;
    #[inline]
    fn policy_cells(&mut self, owner: Owner) -> PolicyCells<'_, O, M, L> {
        PolicyCells {
            entries: self,
            owner,
        }
    }
    #[inline]
    fn link_cells(&mut self) -> LinkCells<'_, O, M, L> {
        self.link_cells_of(Slot(u32::MAX))
    }
    #[inline]
    fn link_cells_of(&mut self, slot: Slot) -> LinkCells<'_, O, M, L> {
        LinkCells {
            entries: self,
            known: slot,
        }
    }
    #[inline]
    fn owner(&self, slot: Slot) -> Owner {
        self.blocks.parts(slot).1.owner()
    }
    #[inline]
    fn begin(&mut self, now: Tick) {
        self.now = now;
        self.requests += 1;
    }
}

/// View of a newly written entry for the expiry index. Its deadline is not read back, because the
/// read would wait for the entry's memory to arrive in the CPU cache, and all of the index's work
/// depends on it.
pub(crate) struct NewCells<C> {
    pub cells: C,
    pub slot: Slot,
    pub deadline: Tick,
}

impl<C: Facts> Facts for NewCells<C> {
    policy::delegate_facts!(cells: now requests is_live weight key_hash len sample next_access);
    #[inline]
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        if slot == self.slot {
            return Some(self.deadline);
        }
        self.cells.deadline(slot)
    }
}

impl<M: Copy + Default, C: Cells<M>> Cells<M> for NewCells<C> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        self.cells.get(slot)
    }
    #[inline]
    fn set(&mut self, slot: Slot, link: M) {
        self.cells.set(slot, link);
    }
}
