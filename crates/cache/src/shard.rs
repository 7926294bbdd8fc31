//! Host of an eviction policy and an expiry index. It notifies both of the insertions, accesses,
//! changes and removals that concern them.
//!
//! The general part works with any [`Entries`] and is used by the simulator. The keyed part stores
//! [`PackedEntries`] and is used by the server. Policies and indexes meet only here: an entry that
//! one of them removes is removed from the other's structure exactly once.

use crate::block::{INLINE_KEY_MAX, INLINE_VALUE_MAX, Shape};
use crate::cells::NewCells;
use crate::entries::{Entries, Owner, PROTECTED};
use crate::groups::Groups;
use crate::packed::PackedEntries;
use crate::value::{NewValue, Outside, Value};
use policy::{
    Admit, Budget, Cells, Due, Eviction, ExpiryIndex, Facts, Meta, OnHit, Policy, Slot, Tick,
};

mod check;
mod drain;
mod grouping;
mod protection;

/// Set of entries managed by the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scope {
    /// No entries, so that nothing is evicted.
    #[default]
    Nothing,
    /// All entries.
    All,
    /// The entries with their own deadline.
    Volatile,
}

/// Entries together with their policy and their expiry index.
pub struct Shard<E, P, X> {
    /// Storage of the entries.
    pub entries: E,
    /// Policies. The index is their owner number minus 1.
    policies: [Option<P>; 2],
    /// Owner of new entries.
    current: Owner,
    scope: Scope,
    /// Total weight of the current policy's entries while the scope is [`Scope::Volatile`]. The
    /// other scopes need no such sum, because it would cover all entries or none.
    volatile_bytes: u64,
    /// Total weight of the protected entries.
    protected_bytes: u64,
    /// Whether only writes count as hits.
    ignores_reads: bool,
    expiry: X,
    /// `None` if no entry has groups.
    groups: Option<Box<Groups>>,
    /// Whether a group was dissolved whose members are not all removed.
    has_stale: bool,
}

/// Returns the policy in charge of an owner's entries.
#[inline(always)]
fn policy_of<P>(policies: &mut [Option<P>; 2], owner: Owner) -> Option<&mut P> {
    let index = usize::from(owner).wrapping_sub(1);
    policies.get_mut(index)?.as_mut()
}

impl<E, P, X> Shard<E, P, X>
where
    E: Entries,
    P: Policy<Meta = E::Meta>,
    X: ExpiryIndex<Link = E::Link>,
{
    /// Creates a shard without a policy, which evicts nothing.
    pub fn new(entries: E, expiry: X) -> Self {
        Shard {
            entries,
            policies: [None, None],
            current: 1,
            scope: Scope::Nothing,
            volatile_bytes: 0,
            protected_bytes: 0,
            ignores_reads: false,
            expiry,
            groups: None,
            has_stale: false,
        }
    }

    /// Creates a shard whose policy manages all entries and is never replaced.
    pub fn with_policy(entries: E, policy: P, expiry: X) -> Self {
        Shard {
            policies: [Some(policy), None],
            scope: Scope::All,
            ..Shard::new(entries, expiry)
        }
    }

    /// Returns the expiry index.
    pub fn expiry(&self) -> &X {
        &self.expiry
    }

    /// Returns the policy that receives new entries, and its scope.
    pub fn policy(&self) -> (Option<&P>, Scope) {
        (
            self.policies[self.current as usize - 1].as_ref(),
            self.scope,
        )
    }

    /// Returns the heap bytes of the policies and of the index.
    pub fn algorithm_bytes(&self) -> (u64, u64) {
        let policies: usize = self.policies.iter().flatten().map(P::heap_bytes).sum();
        (policies as u64, self.expiry.heap_bytes() as u64)
    }

    /// Returns the number of heap bytes by which the policies will still grow at the current number
    /// of entries, because their ghost queues are not full yet.
    pub fn algorithm_bytes_ahead(&self) -> u64 {
        let ahead = self.policies.iter().flatten().map(P::heap_bytes_ahead);
        ahead.sum::<usize>() as u64
    }

    /// Sets the capacity of the policies as a total weight of entries.
    pub fn resize(&mut self, capacity: u64) {
        debug_assert!(capacity > 0);
        for policy in self.policies.iter_mut().flatten() {
            policy.resize(capacity);
        }
    }

    /// Returns the owner that an entry with its own deadline `own()` should have. `own` is called
    /// only if the result depends on it.
    #[inline(always)]
    fn owner_for(&self, own: impl FnOnce() -> Option<Tick>) -> Owner {
        match self.scope {
            Scope::All => self.current,
            Scope::Volatile if own().is_some() => self.current,
            _ => 0,
        }
    }

    /// Returns the owner of an entry after a change; `owner` is its owner before the change. An
    /// entry of a policy that is being drained keeps its owner until the drain reaches it, unless
    /// the entry has left the scope. A protected entry stays protected.
    #[inline(always)]
    fn owner_after(&self, owner: Owner, own: impl FnOnce() -> Option<Tick>) -> Owner {
        match self.owner_for(own) {
            wanted if wanted == self.current && owner != 0 => owner,
            _ if owner == PROTECTED => owner,
            wanted => wanted,
        }
    }

    /// Sets whether the policy is notified of writes only, in which case it ranks entries by their
    /// last modification.
    pub fn set_ignores_reads(&mut self, ignores_reads: bool) {
        self.ignores_reads = ignores_reads;
    }

    /// Notifies the policy of a read of a live entry, unless only writes count.
    #[inline]
    pub fn read(&mut self, slot: Slot) {
        if !self.ignores_reads {
            self.hit(slot);
        }
    }

    /// Notifies the policy of a hit on a live entry.
    #[inline]
    pub fn hit(&mut self, slot: Slot) {
        debug_assert!(self.entries.is_live(slot));
        let owner = self.entries.owner(slot);
        let Some(policy) = policy_of(&mut self.policies, owner) else {
            return;
        };
        match P::ON_HIT {
            OnHit::Ignore => {}
            OnHit::Mark => {
                let mut cells = self.entries.policy_cells(owner);
                let meta = Cells::get(&cells, slot);
                if let Some(marked) = policy.mark(&cells, slot, meta) {
                    Cells::set(&mut cells, slot, marked);
                }
            }
            OnHit::Reorder => policy.reorder(&mut self.entries.policy_cells(owner), slot),
        }
    }

    /// Asks the policy whether to admit an absent key that is about to be inserted with its own
    /// deadline `own`.
    pub fn admit(&mut self, key_hash: u64, weight: u32, own: Option<Tick>) -> Admit {
        let owner = self.owner_for(|| own);
        if owner == 0 {
            return Admit::Yes;
        }
        let cells = self.entries.policy_cells(owner);
        match &mut self.policies[owner as usize - 1] {
            Some(policy) => policy.miss(&cells, key_hash, weight),
            None => Admit::Yes,
        }
    }

    /// Adds a new entry to its policy and to the expiry index.
    #[inline]
    pub fn inserted(&mut self, slot: Slot, shape: Shape) {
        debug_assert!(self.entries.is_live(slot));
        self.insert_into_policy(slot, shape.owner);
        if let Some(deadline) = shape.deadline {
            let mut cells = NewCells {
                cells: self.entries.link_cells_of(slot),
                slot,
                deadline,
            };
            debug_assert_eq!(cells.cells.deadline(slot), Some(deadline));
            self.expiry.insert(&mut cells, slot);
        }
    }

    /// Updates the index after the deadline of a live entry was set or changed. `old` is the
    /// previous deadline; `None` if there was none.
    pub fn deadline_changed(&mut self, slot: Slot, old: Option<Tick>) {
        debug_assert!(self.entries.is_live(slot));
        let cells = &mut self.entries.link_cells_of(slot);
        match old {
            Some(old) => self.expiry.update(cells, slot, old),
            None => self.expiry.insert(cells, slot),
        }
    }

    /// Removes a live entry from the index, before it loses its deadline or is removed.
    pub fn deadline_lost(&mut self, slot: Slot) {
        debug_assert!(self.entries.is_live(slot));
        self.expiry
            .remove(&mut self.entries.link_cells_of(slot), slot);
    }

    /// Notifies the policy that a live entry's weight changed from `old` to its current weight.
    pub fn weight_changed(&mut self, slot: Slot, old: u32) {
        let owner = self.entries.owner(slot);
        if let Some(policy) = policy_of(&mut self.policies, owner) {
            policy.reweigh(&mut self.entries.policy_cells(owner), slot, old);
        }
    }

    fn insert_into_policy(&mut self, slot: Slot, owner: Owner) {
        if let Some(policy) = policy_of(&mut self.policies, owner) {
            policy.insert(&mut self.entries.policy_cells(owner), slot);
        }
    }

    /// Removes a live entry from its policy, before the entry gets another owner or is removed.
    pub fn remove_from_policy(&mut self, slot: Slot) {
        let owner = self.entries.owner(slot);
        if let Some(policy) = policy_of(&mut self.policies, owner) {
            policy.remove(&mut self.entries.policy_cells(owner), slot);
        }
    }

    /// Updates policy and index after an entry has moved to another slot.
    fn moved(&mut self, old: Slot, new: Slot, shape: Shape) {
        debug_assert_ne!(old, new);
        debug_assert!(self.entries.is_live(new));
        if let Some(policy) = policy_of(&mut self.policies, shape.owner) {
            policy.moved(&mut self.entries.policy_cells(shape.owner), old, new);
        }
        if shape.deadline.is_some() {
            self.expiry.moved(&mut self.entries.link_cells(), old, new);
        }
    }

    /// Returns a victim chosen by the policies, starting with a policy that is being drained. The
    /// caller removes the entry with [`Shard::remove_evicted`]. Returns `Empty` when the scope is
    /// [`Scope::Nothing`], even while a drain is in progress.
    pub fn evict(&mut self, budget: &mut Budget) -> Eviction {
        if self.scope == Scope::Nothing {
            return Eviction::Empty;
        }
        for owner in [3 - self.current, self.current] {
            let Some(policy) = &mut self.policies[owner as usize - 1] else {
                continue;
            };
            match policy.evict(&mut self.entries.policy_cells(owner), budget) {
                Eviction::Empty => {}
                other => return other,
            }
        }
        Eviction::Empty
    }

    /// Panics if an algorithm is inconsistent with itself or with the entries. Takes time
    /// proportional to the number of entries.
    pub fn check_algorithms(&mut self) {
        self.expiry.check(&self.entries.link_cells());
        for owner in [1, 2] {
            let cells = self.entries.policy_cells(owner);
            match &self.policies[owner as usize - 1] {
                Some(policy) => policy.check(&cells),
                None => assert_eq!(cells.len(), 0),
            }
        }
    }

    /// Notifies the index that the clock has gone back.
    pub fn clock_went_back(&mut self, now: Tick) {
        self.expiry.clock_went_back(now);
    }

    /// Removes an expired entry from the index and returns it. The caller removes the entry itself
    /// with [`Shard::remove_expired`].
    #[inline]
    pub fn pop_expired(&mut self, now: Tick, budget: &mut Budget) -> Due {
        self.expiry
            .pop_expired(&mut self.entries.link_cells(), now, budget)
    }
}

impl<O, M, L, P, X> Shard<PackedEntries<O, M, L>, P, X>
where
    O: Outside,
    M: Meta,
    L: Meta,
    P: Policy<Meta = M>,
    X: ExpiryIndex<Link = L>,
{
    /// Returns whether [`Shard::evict`] can return a victim now or after [`Shard::drain`].
    pub fn has_evictable(&self) -> bool {
        let owned = self.entries.owned();
        self.scope != Scope::Nothing && (owned[1] + owned[2] > 0 || !self.is_settled())
    }

    /// Returns approximately how many of the shard's `all` bytes [`Shard::evict`] can free in
    /// total, or 0 if it cannot free any.
    pub fn evictable_bytes(&self, all: u64) -> u64 {
        match self.scope {
            _ if !self.has_evictable() => 0,
            Scope::Volatile => self.volatile_bytes.max(1),
            _ => all.saturating_sub(self.protected_bytes).max(1),
        }
    }

    /// Whether the sum includes entries of this owner.
    #[inline(always)]
    fn is_summed(&self, owner: Owner) -> bool {
        self.scope == Scope::Volatile && owner == self.current
    }

    /// Adds an entry's weight to the sum if the sum includes its owner's entries.
    #[inline(always)]
    fn add_weight(&mut self, slot: Slot, owner: Owner) {
        if self.is_summed(owner) {
            self.volatile_bytes += u64::from(self.entries.weight_of(slot));
        } else if owner == PROTECTED {
            self.protected_bytes += u64::from(self.entries.weight_of(slot));
        }
    }

    /// Subtracts a weight from the sum if the sum includes this owner's entries.
    #[inline(always)]
    fn subtract_weight(&mut self, owner: Owner, weight: impl FnOnce(&Self) -> u32) {
        if self.is_summed(owner) {
            self.volatile_bytes -= u64::from(weight(self));
        } else if owner == PROTECTED {
            self.protected_bytes -= u64::from(weight(self));
        }
    }

    /// Changes an entry and notifies the algorithms. If the owner changes, the caller must have
    /// removed the entry from the old policy.
    fn reshape(
        &mut self,
        slot: Slot,
        value: NewValue<'_, O>,
        new: Shape,
        old: Shape,
    ) -> (Slot, Option<O>) {
        match (old.deadline, new.deadline) {
            (Some(_), None) => self.deadline_lost(slot),
            (Some(before), Some(after)) if before != after => {
                // The deadline is changed in place and by itself, so that the index is never
                // notified of a new deadline and a new slot at once.
                let shape = Shape {
                    deadline: new.deadline,
                    owner: old.owner,
                };
                self.entries.reshape(slot, NewValue::Same, shape);
                self.deadline_changed(slot, Some(before));
            }
            _ => {}
        }
        let is_value_new = !matches!(value, NewValue::Same);
        // Only the policy that keeps the entry uses its weight, and the sum of weights.
        let is_weighed = old.owner > 0 && new.owner == old.owner;
        let old_weight = is_weighed.then(|| self.entries.weight_of(slot));
        if !is_weighed {
            self.subtract_weight(old.owner, |this| this.entries.weight_of(slot));
        }
        let (at, dropped) = self.entries.reshape(slot, value, new);
        if at != slot {
            let owner = if old.owner == new.owner { new.owner } else { 0 };
            let deadline = if old.deadline.is_some() {
                new.deadline
            } else {
                None
            };
            self.moved(slot, at, Shape { deadline, owner });
            self.moved_in_groups(slot, at);
        }
        if old.deadline.is_none() && new.deadline.is_some() {
            self.deadline_changed(at, None);
        }
        if new.owner != old.owner {
            self.insert_into_policy(at, new.owner);
            self.add_weight(at, new.owner);
        } else if let Some(old_weight) = old_weight
            && (is_value_new || at != slot)
            && self.entries.weight_of(at) != old_weight
        {
            self.weight_changed(at, old_weight);
            self.subtract_weight(new.owner, |_| old_weight);
            self.add_weight(at, new.owner);
        }
        (at, dropped)
    }

    /// Returns the slot of a key, even if the key has expired.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        self.entries.find(hash, key)
    }

    /// Returns whether a value must be stored in an outside object.
    pub fn must_be_outside(key: &[u8], value_len: usize) -> bool {
        key.len() > INLINE_KEY_MAX || value_len > INLINE_VALUE_MAX
    }

    /// Inserts a new entry under the deadline for the expiry index. The caller must have called
    /// [`Shard::admit`], and have evicted entries if memory was needed.
    pub fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<'_, O>,
        deadline: Option<Tick>,
    ) -> Slot {
        let shape = Shape {
            deadline,
            owner: self.owner_for(|| value.embedded_deadline().unwrap_or(deadline)),
        };
        let slot = self.entries.insert(hash, key, value, shape);
        debug_assert_eq!(self.entries.shape(slot), shape);
        self.inserted(slot, shape);
        self.add_weight(slot, shape.owner);
        slot
    }

    /// Changes the value of a live entry and its deadline in the expiry index. Returns the entry's
    /// slot after the change, and the outside object that it no longer holds.
    ///
    /// With [`NewValue::Same`], it updates index and owner after an edit of an outside object that
    /// may have changed the object's deadlines.
    #[inline]
    pub fn change(
        &mut self,
        slot: Slot,
        value: NewValue<'_, O>,
        deadline: Option<Tick>,
    ) -> (Slot, Option<O>) {
        debug_assert!(self.entries.is_live(slot));
        let old = self.entries.shape(slot);
        let owner = self.owner_after(old.owner, || {
            let kept = match &value {
                NewValue::Same => O::embedded_deadline(&self.entries.value(slot)),
                value => value.embedded_deadline(),
            };
            kept.unwrap_or(deadline)
        });
        let new = Shape { deadline, owner };
        if new == old && matches!(value, NewValue::Same) {
            return (slot, None);
        }
        if owner != old.owner {
            self.remove_from_policy(slot);
        }
        self.reshape(slot, value, new, old)
    }

    /// Changes a live entry's outside object in place. Returns `None` if its value is inline.
    pub fn edit_outside<R>(&mut self, slot: Slot, edit: impl FnOnce(&mut O) -> R) -> Option<R> {
        let old_weight = self.entries.weight_of(slot);
        let result = self.entries.edit_outside(slot, edit)?;
        if self.entries.weight_of(slot) != old_weight {
            self.weight_changed(slot, old_weight);
            let owner = self.entries.owner(slot);
            self.subtract_weight(owner, |_| old_weight);
            self.add_weight(slot, owner);
        }
        Some(result)
    }

    /// Returns the milliseconds since a live entry's last access and its number of accesses, each
    /// `None` if the policy does not record it.
    pub fn usage(&mut self, slot: Slot) -> (Option<u64>, Option<u32>) {
        let owner = self.entries.owner(slot);
        match policy_of(&mut self.policies, owner) {
            Some(policy) => policy.usage(&self.entries.policy_cells(owner), slot),
            None => (None, None),
        }
    }

    /// Removes a live entry that a command deleted.
    pub fn delete(&mut self, slot: Slot) -> Option<O> {
        self.remove_from_policy(slot);
        self.remove_evicted(slot)
    }

    /// Removes an entry that [`Shard::evict`] returned.
    pub fn remove_evicted(&mut self, slot: Slot) -> Option<O> {
        debug_assert!(self.entries.is_live(slot));
        let shape = self.entries.shape(slot);
        if shape.deadline.is_some() {
            self.deadline_lost(slot);
        }
        self.subtract_weight(shape.owner, |this| this.entries.weight_of(slot));
        self.leave_groups(slot);
        self.entries.remove(slot)
    }

    /// Removes an entry that [`Shard::pop_expired`] returned.
    pub fn remove_expired(&mut self, slot: Slot) -> Option<O> {
        let shape = self.entries.shape(slot);
        debug_assert!(shape.deadline.is_some());
        self.remove_from_policy(slot);
        self.subtract_weight(shape.owner, |this| this.entries.weight_of(slot));
        self.leave_groups(slot);
        self.entries.remove(slot)
    }

    /// Puts an entry that [`Shard::pop_expired`] returned back into the index under another
    /// deadline. The owner stays the same; if it must change, the caller uses [`Shard::change`].
    pub fn reindex(&mut self, slot: Slot, deadline: Tick) {
        let shape = self.entries.shape(slot);
        assert!(shape.deadline.is_some());
        let shape = Shape {
            deadline: Some(deadline),
            ..shape
        };
        let (at, _) = self.entries.reshape(slot, NewValue::Same, shape);
        assert_eq!(at, slot, "a deadline changes in place");
        let cells = &mut self.entries.link_cells_of(slot);
        Cells::set(cells, slot, L::default());
        self.expiry.insert(cells, slot);
    }

    /// Returns the value of a live entry.
    #[inline]
    pub fn value(&self, slot: Slot) -> Value<'_, O> {
        self.entries.value(slot)
    }

    /// Moves up to `steps` entries out of sparse pages. Returns whether there is more to do.
    pub fn compact(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            let Some((old, new)) = self.entries.compact() else {
                return false;
            };
            let shape = self.entries.shape(new);
            self.moved(old, new, shape);
            self.moved_in_groups(old, new);
        }
        true
    }
}
