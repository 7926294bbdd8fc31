//! The one host of policies and expiry indexes: who tells whom what, and in which order.
//!
//! The general part works for any [`Entries`] and is what a simulator drives; the keyed part stores
//! [`PackedEntries`] entries and is what the server drives. Deadlines and policies meet only here: an entry
//! that leaves for one reason is taken from the other's structure, once.

use crate::block::{INLINE_KEY_MAX, INLINE_VALUE_MAX, Shape};
use crate::entries::{Entries, Owner};
use crate::packed::PackedEntries;
use crate::value::{NewValue, Outside, Value};
use policy::{Admit, Budget, Due, Eviction, ExpiryIndex, Facts, Meta, OnHit, Policy, Slot, Tick};

/// Looks at entries that may have no deadline, for each deadline that is to be sampled.
const LOOKS_PER_SAMPLE: u64 = 4;

/// Which entries a policy is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scope {
    /// None: nothing is ever evicted.
    #[default]
    Nothing,
    /// All.
    All,
    /// Those with a deadline of their own.
    Volatile,
}

/// Entries with the algorithms that govern them.
pub struct Shard<E, P, X> {
    /// The entries.
    pub entries: E,
    /// By owner − 1.
    policies: [Option<P>; 2],
    /// The owner of new entries.
    current: Owner,
    scope: Scope,
    expiry: X,
}

impl<E, P, X> Shard<E, P, X>
where
    E: Entries,
    P: Policy<Meta = E::Meta>,
    X: ExpiryIndex<Link = E::Link>,
{
    /// A shard that evicts nothing until it is given a policy.
    pub fn new(entries: E, expiry: X) -> Self {
        Shard {
            entries,
            policies: [None, None],
            current: 1,
            scope: Scope::Nothing,
            expiry,
        }
    }

    /// A shard of which one policy governs all entries, for good.
    pub fn with_policy(entries: E, policy: P, expiry: X) -> Self {
        Shard {
            entries,
            policies: [Some(policy), None],
            current: 1,
            scope: Scope::All,
            expiry,
        }
    }

    /// The expiry index.
    pub fn expiry(&self) -> &X {
        &self.expiry
    }

    /// The policy of new entries and its scope.
    pub fn policy(&self) -> (Option<&P>, Scope) {
        (
            self.policies[self.current as usize - 1].as_ref(),
            self.scope,
        )
    }

    /// Bytes on the heap of policies and index.
    pub fn algorithm_bytes(&self) -> (u64, u64) {
        let policies: usize = self.policies.iter().flatten().map(P::heap_bytes).sum();
        (policies as u64, self.expiry.heap_bytes() as u64)
    }

    /// Bytes that the policies will grow by without a further entry.
    pub fn algorithm_bytes_ahead(&self) -> u64 {
        let ahead = self.policies.iter().flatten().map(P::heap_bytes_ahead);
        ahead.sum::<usize>() as u64
    }

    /// The policy that decides about new entries was told its share of memory anew.
    pub fn resize(&mut self, capacity: u64) {
        for policy in self.policies.iter_mut().flatten() {
            policy.resize(capacity);
        }
    }

    /// Who shall own an entry with this deadline of its own, which is asked for only where it matters.
    #[inline(always)]
    fn owner_for(&self, own: impl FnOnce() -> Option<Tick>) -> Owner {
        match self.scope {
            Scope::All => self.current,
            Scope::Volatile if own().is_some() => self.current,
            _ => 0,
        }
    }

    /// The owner to which an entry shall belong that has `owner` now: the draining policy keeps its
    /// own until the drain reaches them.
    #[inline(always)]
    fn owner_after(&self, owner: Owner, own: impl FnOnce() -> Option<Tick>) -> Owner {
        match self.owner_for(own) {
            wanted if wanted == self.current && owner != 0 => owner,
            wanted => wanted,
        }
    }

    /// A hit on a live entry.
    #[inline]
    pub fn hit(&mut self, slot: Slot) {
        let owner = self.entries.owner(slot);
        if owner == 0 {
            return;
        }
        let Some(policy) = &mut self.policies[owner as usize - 1] else {
            return;
        };
        match P::ON_HIT {
            OnHit::Ignore => {}
            OnHit::Mark => {
                let mut cells = self.entries.policy_cells(owner);
                let meta = policy::Cells::get(&cells, slot);
                if let Some(marked) = policy.mark(&cells, slot, meta) {
                    policy::Cells::set(&mut cells, slot, marked);
                }
            }
            OnHit::Reorder => policy.reorder(&mut self.entries.policy_cells(owner), slot),
        }
    }

    /// A key was asked for, is absent and is about to be inserted, with this deadline of its own.
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

    /// An entry became live, in its shape.
    #[inline]
    pub fn inserted(&mut self, slot: Slot, shape: Shape) {
        self.insert_into_policy(slot, shape.owner);
        if shape.deadline.is_some() {
            self.expiry
                .insert(&mut self.entries.link_cells_of(slot), slot);
        }
    }

    /// A live entry has another deadline than `old`, or one for the first time.
    pub fn deadline_changed(&mut self, slot: Slot, old: Option<Tick>) {
        let cells = &mut self.entries.link_cells_of(slot);
        match old {
            Some(old) => self.expiry.update(cells, slot, old),
            None => self.expiry.insert(cells, slot),
        }
    }

    /// A live entry that has a deadline is about to lose it, or to leave.
    pub fn deadline_lost(&mut self, slot: Slot) {
        self.expiry
            .remove(&mut self.entries.link_cells_of(slot), slot);
    }

    /// A live entry's weight changed from `old` to what the entries say now.
    pub fn weight_changed(&mut self, slot: Slot, old: u32) {
        let owner = self.entries.owner(slot);
        if owner > 0
            && let Some(policy) = &mut self.policies[owner as usize - 1]
        {
            policy.reweigh(&mut self.entries.policy_cells(owner), slot, old);
        }
    }

    fn insert_into_policy(&mut self, slot: Slot, owner: Owner) {
        if owner > 0
            && let Some(policy) = &mut self.policies[owner as usize - 1]
        {
            policy.insert(&mut self.entries.policy_cells(owner), slot);
        }
    }

    /// A live entry is about to leave its policy's care.
    pub fn remove_from_policy(&mut self, slot: Slot) {
        let owner = self.entries.owner(slot);
        if owner > 0
            && let Some(policy) = &mut self.policies[owner as usize - 1]
        {
            policy.remove(&mut self.entries.policy_cells(owner), slot);
        }
    }

    /// An entry moved within its structures.
    fn moved(&mut self, old: Slot, new: Slot, shape: Shape) {
        if shape.owner > 0
            && let Some(policy) = &mut self.policies[shape.owner as usize - 1]
        {
            policy.moved(&mut self.entries.policy_cells(shape.owner), old, new);
        }
        if shape.deadline.is_some() {
            self.expiry.moved(&mut self.entries.link_cells(), old, new);
        }
    }

    /// Takes a victim from the policies, the draining one first; the caller removes the entry with
    /// [`Shard::remove_evicted`]. None once nothing shall be evicted any more, however far the drain is.
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

    /// Panics when an algorithm contradicts itself or the entries. Walks everything.
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

    /// Tells the index that the clock went back.
    pub fn clock_went_back(&mut self, now: Tick) {
        self.expiry.clock_went_back(now);
    }

    /// Takes a dead entry from the index; the caller removes it with [`Shard::remove_expired`].
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
    /// Changes the policy: new entries go to `policy`, the old one keeps its entries until
    /// [`Shard::drain`] has carried them over. A drain in progress must have ended.
    pub fn set_policy(&mut self, policy: Option<(P, u32)>, scope: Scope) {
        assert!(!self.is_draining());
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

    /// Whether a victim stays: a draining policy of all entries also names those that shall not go any
    /// more. Such a one is carried over as [`Shard::drain`] would.
    pub fn retain_if_out_of_scope(&mut self, slot: Slot) -> bool {
        let old = self.entries.shape(slot);
        let owner = self.owner_for(|| self.entries.own_deadline(slot));
        if owner != 0 {
            return false;
        }
        // Its policy has let go of it.
        self.reshape(slot, NewValue::Same, Shape { owner, ..old }, old);
        true
    }

    /// Whether some entries still belong to another owner than they shall.
    pub fn is_draining(&self) -> bool {
        self.policies[2 - self.current as usize].is_some()
    }

    /// Whether [`Shard::drain`] has work.
    pub fn needs_drain(&self) -> bool {
        self.is_draining() || !self.is_settled()
    }

    fn is_settled(&self) -> bool {
        let owned = self.entries.owned();
        let old = owned[3 - self.current as usize];
        match self.scope {
            Scope::Nothing => owned[1] + owned[2] == 0,
            Scope::All => owned[0] + old == 0,
            Scope::Volatile => {
                old == 0 && owned[self.current as usize] == self.entries.own_deadlines()
            }
        }
    }

    fn finish_drain(&mut self) {
        self.policies[2 - self.current as usize] = None;
        if self.scope == Scope::Nothing {
            self.policies[self.current as usize - 1] = None;
        }
    }

    /// Carries up to `steps` entries to the owner they shall have, from `cursor` on in the order of
    /// the arena. Returns where to go on; `None` when all have theirs.
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
            if owner != old.owner {
                self.remove_from_policy(slot);
                self.reshape(slot, NewValue::Same, Shape { owner, ..old }, old);
            }
            at = slot.0 + 1;
        }
        Some(at)
    }

    /// Reshapes an entry and tells the algorithms all that follows, except that a policy which loses
    /// the entry was told before.
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
                // In place and on its own, so that the index never has to tell a changed deadline
                // and a moved entry apart.
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
        let old_weight = self.entries.weight_of(slot);
        let (at, dropped) = self.entries.reshape(slot, value, new);
        if at != slot {
            let owner = if old.owner == new.owner { new.owner } else { 0 };
            let deadline = if old.deadline.is_some() {
                new.deadline
            } else {
                None
            };
            self.moved(slot, at, Shape { deadline, owner });
        }
        if old.deadline.is_none() && new.deadline.is_some() {
            self.deadline_changed(at, None);
        }
        if new.owner != old.owner {
            self.insert_into_policy(at, new.owner);
        } else if (is_value_new || at != slot) && self.entries.weight_of(at) != old_weight {
            self.weight_changed(at, old_weight);
        }
        (at, dropped)
    }

    /// The slot of a key, dead or alive.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        self.entries.find(hash, key)
    }

    /// What a value must be to be stored under a key: whether it goes outside.
    pub fn must_be_outside(key: &[u8], value_len: usize) -> bool {
        key.len() > INLINE_KEY_MAX || value_len > INLINE_VALUE_MAX
    }

    /// Stores a new entry, filed under a deadline. The caller has asked [`Shard::admit`] and made room.
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
        self.inserted(slot, shape);
        slot
    }

    /// Gives a live entry another value and files it under a deadline. After an edit of an outside
    /// object that may have changed its deadlines, it files and owns the entry as the object now wants.
    /// Returns where it is now, and the object that it no longer holds.
    #[inline]
    pub fn change(
        &mut self,
        slot: Slot,
        value: NewValue<'_, O>,
        deadline: Option<Tick>,
    ) -> (Slot, Option<O>) {
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

    /// Changes a live entry's outside object in place; `None` when its value is inline.
    pub fn edit_outside<R>(&mut self, slot: Slot, edit: impl FnOnce(&mut O) -> R) -> Option<R> {
        let old_weight = self.entries.weight_of(slot);
        let result = self.entries.edit_outside(slot, edit)?;
        if self.entries.weight_of(slot) != old_weight {
            self.weight_changed(slot, old_weight);
        }
        Some(result)
    }

    /// What the policy knows of a live entry's use: milliseconds since the last, and how often; each
    /// `None` where it does not keep that.
    pub fn usage(&mut self, slot: Slot) -> (Option<u64>, Option<u32>) {
        let owner = self.entries.owner(slot);
        match self.policies.get((owner as usize).wrapping_sub(1)) {
            Some(Some(policy)) => policy.usage(&self.entries.policy_cells(owner), slot),
            _ => (None, None),
        }
    }

    /// Removes a live entry that somebody deleted.
    pub fn delete(&mut self, slot: Slot) -> Option<O> {
        self.remove_from_policy(slot);
        self.remove_evicted(slot)
    }

    /// Removes an entry that [`Shard::evict`] named.
    pub fn remove_evicted(&mut self, slot: Slot) -> Option<O> {
        if self.entries.shape(slot).deadline.is_some() {
            self.deadline_lost(slot);
        }
        self.entries.remove(slot)
    }

    /// Removes an entry that [`Shard::pop_expired`] named.
    pub fn remove_expired(&mut self, slot: Slot) -> Option<O> {
        self.remove_from_policy(slot);
        self.entries.remove(slot)
    }

    /// Files an entry that [`Shard::pop_expired`] named, and that stays, under another deadline. Its owner
    /// is as before: [`Shard::change`] follows where that may change, too.
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
        policy::Cells::set(cells, slot, L::default());
        self.expiry.insert(cells, slot);
    }

    /// Tells the own deadlines of up to `count` entries: of all when the shard has no more entries than
    /// that, else of a uniform sample, fewer where few entries have one; at least one if there is any
    /// to be found.
    pub fn sample_deadlines(&self, count: usize, mut each: impl FnMut(Tick)) {
        if self.entries.own_deadlines() == 0 {
            return;
        }
        if self.entries.len() <= count {
            let mut at = 0;
            while let Some(slot) = self.entries.walk(at) {
                let own = self.entries.own_deadline(slot);
                own.into_iter().for_each(&mut each);
                at = slot.0 + 1;
            }
            return;
        }
        // The increment of SplitMix64: an even sequence is chance enough for a sample.
        let randoms =
            (0..count as u64 * LOOKS_PER_SAMPLE).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let own = |slot| self.entries.own_deadline(slot);
        let mut found = 0;
        for random in randoms {
            if let Some(deadline) = self.entries.probe(random).and_then(own) {
                each(deadline);
                found += 1;
                if found == count {
                    return;
                }
            }
        }
        if found == 0
            && let Some(slot) = self.entries.sample_where(0, |slot| own(slot).is_some())
        {
            own(slot).into_iter().for_each(each);
        }
    }

    /// A live entry's value.
    #[inline]
    pub fn value(&self, slot: Slot) -> Value<'_, O> {
        self.entries.value(slot)
    }

    /// Moves up to `steps` entries out of sparse pages; true while there is more to do.
    pub fn compact(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            let Some((old, new)) = self.entries.compact() else {
                return false;
            };
            let shape = self.entries.shape(new);
            self.moved(old, new, shape);
        }
        true
    }

    /// Panics when the parts contradict each other. Walks everything.
    pub fn check(&mut self) {
        self.entries.check();
        self.check_algorithms();
        assert_eq!(self.expiry.len(), self.entries.deadlines());
        assert_eq!(
            self.entries.owned().iter().sum::<usize>(),
            self.entries.len()
        );
        if self.needs_drain() {
            return;
        }
        let mut at = 0;
        while let Some(slot) = self.entries.walk(at) {
            let owner = self.owner_for(|| self.entries.own_deadline(slot));
            assert_eq!(self.entries.shape(slot).owner, owner);
            at = slot.0 + 1;
        }
    }
}
