//! The slab policies in their plainest implementation.

use crate::evict::memcached_lru::{MemcachedLru, MemcachedLruConfig};
use crate::evict::slab::{Created, SlabConfig, Slabs, Used};
use crate::suite::policy::{NaivePolicy, agrees_with_model};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Entries weigh 1, 2 or 3, and each of these weights is a class.
const CAPACITY: u64 = 60;
const FEWEST: u32 = 5;
const SLAB: usize = CAPACITY as usize / FEWEST as usize;

/// Slabs in the order of eviction, each with its class and its keys.
#[derive(Default)]
struct PlainSlabs {
    slabs: Vec<(u32, Vec<u64>)>,
    /// Remaining keys of the slab that is being emptied.
    leaving: Vec<u64>,
    is_touched: bool,
}

impl PlainSlabs {
    fn touch(&mut self, index: usize) {
        if self.is_touched {
            let slab = self.slabs.remove(index);
            self.slabs.push(slab);
        }
    }
}

impl NaivePolicy for PlainSlabs {
    fn hit(&mut self, key: u64) {
        if let Some(index) = self.slabs.iter().position(|(_, keys)| keys.contains(&key)) {
            self.touch(index);
        }
    }
    fn insert(&mut self, key: u64, weight: u32) {
        let has_room = |(class, keys): &(u32, Vec<u64>)| {
            *class == weight && keys.len() < SLAB / weight as usize
        };
        let index = self.slabs.iter().position(has_room).unwrap_or_else(|| {
            self.slabs.push((weight, Vec::new()));
            self.slabs.len() - 1
        });
        self.slabs[index].1.push(key);
        self.touch(index);
    }
    fn remove(&mut self, _key: u64) {
        unreachable!("which hole is filled first is not modelled");
    }
    fn evict(&mut self) -> Option<u64> {
        if self.leaving.is_empty() && !self.slabs.is_empty() {
            self.leaving = self.slabs.remove(0).1;
        }
        (!self.leaving.is_empty()).then(|| self.leaving.remove(0))
    }
}

/// For each class, a queue of keys, the next victim first.
#[derive(Default)]
struct PlainMemcached {
    queues: BTreeMap<u32, Vec<u64>>,
    weights: BTreeMap<u64, u32>,
    newcomer: u32,
}

impl NaivePolicy for PlainMemcached {
    fn hit(&mut self, key: u64) {
        let weight = self.weights[&key];
        self.remove(key);
        self.insert(key, weight);
    }
    fn miss(&mut self, key: u64) {
        self.newcomer = weight_of(key);
    }
    fn insert(&mut self, key: u64, weight: u32) {
        self.weights.insert(key, weight);
        self.queues.entry(weight).or_default().push(key);
    }
    fn remove(&mut self, key: u64) {
        self.weights.remove(&key);
        for queue in self.queues.values_mut() {
            queue.retain(|&other| other != key);
        }
    }
    fn evict(&mut self) -> Option<u64> {
        let weight = |&(&class, queue): &(&u32, &Vec<u64>)| class as usize * queue.len();
        let own = self.queues.get_key_value(&self.newcomer);
        let own = own.filter(|own| weight(own) >= SLAB);
        let (_, queue) = own.or_else(|| self.queues.iter().max_by_key(weight))?;
        let victim = *queue.first()?;
        self.remove(victim);
        Some(victim)
    }
}

/// Returns the weight of a key, which never changes, so that the model knows it at the miss.
fn weight_of(key: u64) -> u32 {
    1 + (key % 3) as u32
}

/// Generates steps in which the weight depends only on the key; see [`agrees_with_model`].
fn steps_of_fixed_weights() -> impl Strategy<Value = Vec<(u8, u16, u16)>> {
    let step = (any::<u8>(), 0u16..96, 0u16..20_000);
    proptest::collection::vec(
        step.prop_map(|(kind, key, amount)| (kind, key, amount * 3 + key % 3)),
        0..600,
    )
}

fn config() -> SlabConfig {
    SlabConfig {
        fewest: FEWEST,
        ..SlabConfig::default()
    }
}

proptest! {
    #[test]
    fn slab_lrc_evicts_as_its_model(steps in super::steps()) {
        let model = PlainSlabs::default();
        agrees_with_model::<Slabs<Created>>(&config(), model, CAPACITY, &steps, false);
    }

    #[test]
    fn slab_lru_evicts_as_its_model(steps in super::steps()) {
        let model = PlainSlabs { is_touched: true, ..PlainSlabs::default() };
        agrees_with_model::<Slabs<Used>>(&config(), model, CAPACITY, &steps, false);
    }

    #[test]
    fn memcached_lru_evicts_as_its_model_with_removals_and_relocations(
        steps in steps_of_fixed_weights(),
    ) {
        let config = MemcachedLruConfig { fewest: FEWEST, ..MemcachedLruConfig::default() };
        agrees_with_model::<MemcachedLru>(&config, PlainMemcached::default(), CAPACITY, &steps, true);
    }
}
