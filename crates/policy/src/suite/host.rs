//! The test host: a slab of entries that reuses its slots at once, relocates entries on request,
//! and panics if an algorithm calls something that the contract does not promise.

use crate::{Cells, Facts, Slot, Tick};

/// A live entry of a [`Host`].
#[derive(Clone, Debug)]
struct Entry<M> {
    key_hash: u64,
    weight: u32,
    deadline: Option<Tick>,
    next_access: Option<u64>,
    meta: M,
    /// Index in `held`; `None` if the algorithm does not hold the entry.
    held_index: Option<u32>,
}

/// A host for one algorithm that keeps bits of type `M` in each entry.
///
/// It changes only by the test's calls: time, request count, insertions, removals and relocations.
/// `is_live` and `deadline` may be called for a vacant slot; any other call for a vacant slot
/// panics.
#[derive(Clone, Debug, Default)]
pub struct Host<M> {
    now: Tick,
    requests: u64,
    entries: Vec<Option<Entry<M>>>,
    /// Vacant slots; the last one is reused first, so that a slot is reused right after its entry
    /// left.
    vacant: Vec<Slot>,
    held: Vec<Slot>,
    weight_sum: u64,
}

impl<M: Copy + Default> Host<M> {
    /// Creates a host without entries, at instant `now`.
    pub fn new(now: Tick) -> Self {
        Host {
            now,
            requests: 0,
            entries: Vec::new(),
            vacant: Vec::new(),
            held: Vec::new(),
            weight_sum: 0,
        }
    }

    /// Sets the clock, forwards or backwards.
    pub fn set_now(&mut self, now: Tick) {
        self.now = now;
    }

    /// Counts one request.
    pub fn count_request(&mut self) {
        self.requests += 1;
    }

    /// Adds an entry with default bits, which the algorithm does not hold yet.
    pub fn add(&mut self, key_hash: u64, weight: u32, deadline: Option<Tick>) -> Slot {
        let slot = self.take_vacant();
        self.entries[slot.0 as usize] = Some(Entry {
            key_hash,
            weight,
            deadline,
            next_access: None,
            meta: M::default(),
            held_index: None,
        });
        self.weight_sum += u64::from(weight);
        slot
    }

    /// Records that the algorithm holds the entry from now on, so that `sample` may return it.
    pub fn hold(&mut self, slot: Slot) {
        let index = u32::try_from(self.held.len()).expect("slots are u32");
        let entry = self.entry_mut(slot);
        assert!(entry.held_index.is_none(), "{slot:?} is held twice");
        entry.held_index = Some(index);
        self.held.push(slot);
    }

    /// Records that the algorithm no longer holds the entry, which stays live: `sample` does not
    /// return it any more.
    pub fn release(&mut self, slot: Slot) {
        let index = self.entry_mut(slot).held_index.take();
        let index = index.expect("the algorithm knew the entry") as usize;
        self.held.swap_remove(index);
        if let Some(&last) = self.held.get(index) {
            self.entry_mut(last).held_index = Some(index as u32);
        }
    }

    /// Removes an entry; its slot is the next to be reused.
    pub fn free(&mut self, slot: Slot) {
        if self.is_held(slot) {
            self.release(slot);
        }
        let entry = self.entries[slot.0 as usize].take();
        let entry = entry.expect("only a live entry is freed");
        self.weight_sum -= u64::from(entry.weight);
        self.vacant.push(slot);
    }

    /// Moves an entry to another slot (a vacant one if there is any, else a new one) and leaves its
    /// old slot vacant. The caller then calls `moved`.
    pub fn relocate(&mut self, old: Slot) -> Slot {
        let new = self.take_vacant();
        let entry = self.entries[old.0 as usize].take();
        let entry = entry.expect("only a live entry is moved");
        if let Some(index) = entry.held_index {
            self.held[index as usize] = new;
        }
        self.entries[new.0 as usize] = Some(entry);
        self.vacant.push(old);
        new
    }

    /// Changes the weight of a live entry and returns the old one.
    pub fn set_weight(&mut self, slot: Slot, weight: u32) -> u32 {
        let old = core::mem::replace(&mut self.entry_mut(slot).weight, weight);
        self.weight_sum = self.weight_sum - u64::from(old) + u64::from(weight);
        old
    }

    /// Changes the deadline of a live entry and returns the old one.
    pub fn set_deadline(&mut self, slot: Slot, deadline: Option<Tick>) -> Option<Tick> {
        core::mem::replace(&mut self.entry_mut(slot).deadline, deadline)
    }

    /// Sets the number of the next request for the entry, as an annotated trace would.
    pub fn set_next_access(&mut self, slot: Slot, next: Option<u64>) {
        self.entry_mut(slot).next_access = next;
    }

    /// Whether the algorithm holds the entry at `slot`; false for a vacant slot.
    pub fn is_held(&self, slot: Slot) -> bool {
        let entry = self.entries.get(slot.0 as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| entry.held_index.is_some())
    }

    /// Returns the entries that the algorithm holds, in arbitrary order.
    pub fn held(&self) -> &[Slot] {
        &self.held
    }

    /// Returns all live entries in the order of their slots.
    pub fn live(&self) -> impl Iterator<Item = Slot> + '_ {
        let slots = self.entries.iter().enumerate();
        slots.filter_map(|(index, entry)| entry.as_ref().map(|_| Slot(index as u32)))
    }

    /// Returns the sum of the weights of all live entries.
    pub fn weight_sum(&self) -> u64 {
        self.weight_sum
    }

    fn take_vacant(&mut self) -> Slot {
        self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot(u32::try_from(self.entries.len() - 1).expect("slots are u32"))
        })
    }

    fn entry(&self, slot: Slot) -> &Entry<M> {
        let entry = self.entries.get(slot.0 as usize).and_then(Option::as_ref);
        entry.unwrap_or_else(|| panic!("asked about {slot:?}, which is vacant"))
    }

    fn entry_mut(&mut self, slot: Slot) -> &mut Entry<M> {
        let entry = self.entries.get_mut(slot.0 as usize);
        let entry = entry.and_then(Option::as_mut);
        entry.unwrap_or_else(|| panic!("wrote to {slot:?}, which is vacant"))
    }
}

impl<M: Copy + Default> Facts for Host<M> {
    fn now(&self) -> Tick {
        self.now
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn is_live(&self, slot: Slot) -> bool {
        self.entries
            .get(slot.0 as usize)
            .is_some_and(Option::is_some)
    }

    fn weight(&self, slot: Slot) -> u32 {
        self.entry(slot).weight
    }

    fn key_hash(&self, slot: Slot) -> u64 {
        self.entry(slot).key_hash
    }

    fn deadline(&self, slot: Slot) -> Option<Tick> {
        let entry = self.entries.get(slot.0 as usize).and_then(Option::as_ref);
        entry.and_then(|entry| entry.deadline)
    }

    fn len(&self) -> usize {
        self.held.len()
    }

    fn sample(&self, random: u64) -> Option<Slot> {
        let index = (u128::from(random) * self.held.len() as u128) >> 64;
        self.held.get(index as usize).copied()
    }

    fn next_access(&self, slot: Slot) -> Option<u64> {
        self.entry(slot).next_access
    }
}

impl<M: Copy + Default> Cells<M> for Host<M> {
    fn get(&self, slot: Slot) -> M {
        self.entry(slot).meta
    }

    fn set(&mut self, slot: Slot, meta: M) {
        self.entry_mut(slot).meta = meta;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_reused_right_after_its_entry_left() {
        let mut host: Host<u8> = Host::new(Tick(0));
        let first = host.add(1, 1, None);
        host.set(first, 7);
        host.free(first);
        let second = host.add(2, 1, None);
        assert_eq!(first, second);
        assert_eq!(host.get(second), 0);
    }

    #[test]
    fn a_moved_entry_keeps_its_bits_and_its_place_in_the_sample() {
        let mut host: Host<u8> = Host::new(Tick(0));
        let old = host.add(1, 3, Some(Tick(9)));
        host.hold(old);
        host.set(old, 7);
        let new = host.relocate(old);
        assert_ne!(old, new);
        assert!(!host.is_live(old));
        assert_eq!(host.deadline(old), None);
        assert_eq!((host.get(new), host.weight(new)), (7, 3));
        assert_eq!(host.sample(u64::MAX), Some(new));
        assert_eq!(host.weight_sum(), 3);
    }

    #[test]
    fn sample_returns_only_entries_that_are_held() {
        let mut host: Host<()> = Host::new(Tick(0));
        let held = host.add(1, 1, None);
        let other = host.add(2, 1, None);
        host.hold(held);
        assert_eq!(host.sample(0), Some(held));
        host.hold(other);
        host.release(held);
        assert_eq!(host.sample(0), Some(other));
        assert_eq!(host.len(), 1);
        assert_eq!(host.live().count(), 2);
    }
}
