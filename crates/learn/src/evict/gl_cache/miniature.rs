//! Miniature cache with a sample of the keys, which tries one strategy and reports its misses.

use super::samples::IdentityHasher;
use super::{EntryState, GlCache, GlConfig, Strategy};
use policy::{Budget, Cells, Eviction, Facts, Policy, Slot, Tick};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key_hash: u64,
    note: EntryState,
    weight: u32,
    is_live: bool,
}

/// Host that stores a miniature's entries. Keys are hashes.
#[derive(Debug, Default)]
struct Host {
    slots: HashMap<u64, Slot, BuildHasherDefault<IdentityHasher>>,
    entries: Vec<Entry>,
    vacant: Vec<Slot>,
    now: Tick,
    requests: u64,
}

impl Host {
    fn add(&mut self, key_hash: u64, weight: u32) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            Slot(self.entries.len() as u32 - 1)
        });
        self.entries[slot.0 as usize] = Entry {
            key_hash,
            note: EntryState::default(),
            weight,
            is_live: true,
        };
        self.slots.insert(key_hash, slot);
        slot
    }

    /// Frees an entry and returns its weight.
    fn take(&mut self, slot: Slot) -> u32 {
        let entry = &mut self.entries[slot.0 as usize];
        entry.is_live = false;
        self.slots.remove(&entry.key_hash);
        self.vacant.push(slot);
        entry.weight
    }
}

impl Facts for Host {
    fn now(&self) -> Tick {
        self.now
    }
    fn requests(&self) -> u64 {
        self.requests
    }
    fn is_live(&self, slot: Slot) -> bool {
        self.entries
            .get(slot.0 as usize)
            .is_some_and(|entry| entry.is_live)
    }
    fn weight(&self, slot: Slot) -> u32 {
        self.entries[slot.0 as usize].weight
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        self.entries[slot.0 as usize].key_hash
    }
    fn deadline(&self, _slot: Slot) -> Option<Tick> {
        None
    }
    fn len(&self) -> usize {
        self.slots.len()
    }
    /// Returns nothing, because this policy draws no samples.
    fn sample(&self, _random: u64) -> Option<Slot> {
        None
    }
}

impl Cells<EntryState> for Host {
    fn get(&self, slot: Slot) -> EntryState {
        self.entries[slot.0 as usize].note
    }
    fn set(&mut self, slot: Slot, note: EntryState) {
        self.entries[slot.0 as usize].note = note;
    }
}

/// Small cache that runs the same policy. Entries keep their first weight, and nothing expires.
pub(super) struct Miniature {
    policy: GlCache,
    host: Host,
    capacity: u64,
    occupied: u64,
}

impl Miniature {
    pub(super) fn new(capacity: u64, config: &GlConfig, way: Strategy, seed: u64) -> Miniature {
        let config = GlConfig {
            way: Some(way),
            ..config.clone()
        };
        Miniature {
            policy: GlCache::new(capacity, &config, seed),
            host: Host::default(),
            capacity,
            occupied: 0,
        }
    }

    /// Requests a key, and inserts it if it is absent and fits. Returns true if it was present.
    pub(super) fn request(&mut self, key_hash: u64, weight: u32, now: Tick) -> bool {
        self.host.now = now;
        self.host.requests += 1;
        if let Some(&slot) = self.host.slots.get(&key_hash) {
            self.policy.reorder(&mut self.host, slot);
            return true;
        }
        let weight_of_key = u64::from(weight);
        if weight_of_key > self.capacity {
            return false;
        }
        self.policy.miss(&self.host, key_hash, weight);
        while self.occupied + weight_of_key > self.capacity {
            let mut budget = Budget(u32::MAX);
            match self.policy.evict(&mut self.host, &mut budget) {
                Eviction::Victim(slot) => self.occupied -= u64::from(self.host.take(slot)),
                Eviction::Again => {}
                Eviction::Empty => unreachable!("what occupies the miniature can go"),
            }
        }
        let slot = self.host.add(key_hash, weight);
        self.occupied += weight_of_key;
        self.policy.insert(&mut self.host, slot);
        false
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.policy.heap_bytes()
            + self.host.slots.capacity() * (size_of::<(u64, Slot)>() + 1) * 8 / 7
            + self.host.entries.capacity() * size_of::<Entry>()
            + self.host.vacant.capacity() * size_of::<Slot>()
    }

    pub(super) fn check(&self) {
        self.policy.check(&self.host);
        let live = self.host.entries.iter().filter(|entry| entry.is_live);
        let weight: u64 = live.map(|entry| u64::from(entry.weight)).sum();
        assert_eq!(weight, self.occupied);
        assert!(self.occupied <= self.capacity);
    }
}
