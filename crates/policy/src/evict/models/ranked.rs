//! Policies that evict the lowest rank, as maps that are searched as a whole.

use super::steps;
use crate::evict::gdsf::Gdsf;
use crate::evict::lfu::Lfu;
use crate::evict::lfuda::Lfuda;
use crate::evict::lru_k::{LruK, LruKConfig};
use crate::suite::policy::{NaivePolicy, agrees_with_model};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Removes and returns the key of the lowest rank.
fn pop_lowest<R: Copy + PartialOrd>(ranks: &mut BTreeMap<u64, R>) -> Option<(u64, R)> {
    let lowest = ranks
        .iter()
        .reduce(|low, at| if at.1 < low.1 { at } else { low });
    let (key, rank) = lowest.map(|(&key, &rank)| (key, rank))?;
    ranks.remove(&key);
    Some((key, rank))
}

/// For each key, its frequency and the time at which it reached that frequency.
#[derive(Default)]
struct PlainLfu {
    keys: BTreeMap<u64, (u32, u64)>,
    now: u64,
}

impl NaivePolicy for PlainLfu {
    fn hit(&mut self, key: u64) {
        self.now += 1;
        let frequency = self.keys[&key].0 + 1;
        self.keys.insert(key, (frequency, self.now));
    }
    fn insert(&mut self, key: u64, _weight: u32) {
        self.now += 1;
        self.keys.insert(key, (1, self.now));
    }
    fn remove(&mut self, key: u64) {
        self.keys.remove(&key);
    }
    fn evict(&mut self) -> Option<u64> {
        pop_lowest(&mut self.keys).map(|(key, _)| key)
    }
}

/// For each key, its last request but one and its last request; for each evicted key, its last
/// request.
#[derive(Default)]
struct PlainLruTwo {
    keys: BTreeMap<u64, (u64, u64)>,
    gone: BTreeMap<u64, u64>,
    now: u64,
    returning: u64,
}

impl NaivePolicy for PlainLruTwo {
    fn hit(&mut self, key: u64) {
        self.now += 1;
        let (_, last) = self.keys[&key];
        self.keys.insert(key, (last, self.now));
    }
    fn miss(&mut self, key: u64) {
        self.returning = self.gone.remove(&key).unwrap_or(0);
    }
    fn insert(&mut self, key: u64, _weight: u32) {
        self.now += 1;
        self.keys.insert(key, (self.returning, self.now));
    }
    fn remove(&mut self, key: u64) {
        self.keys.remove(&key);
    }
    fn evict(&mut self) -> Option<u64> {
        let (key, (_, last)) = pop_lowest(&mut self.keys)?;
        self.gone.insert(key, last);
        Some(key)
    }
}

/// For each key, its frequency, its weight, and its rank at its last request.
#[derive(Default)]
struct PlainGreedyDual {
    keys: BTreeMap<u64, (u32, u32)>,
    ranks: BTreeMap<u64, (f64, u64)>,
    inflation: f64,
    now: u64,
    is_by_size: bool,
}

impl PlainGreedyDual {
    fn rank(&mut self, key: u64) {
        self.now += 1;
        let (frequency, weight) = self.keys[&key];
        let size = if self.is_by_size { weight } else { 1 };
        let worth = f64::from(frequency) / f64::from(size);
        self.ranks.insert(key, (self.inflation + worth, self.now));
    }
}

impl NaivePolicy for PlainGreedyDual {
    fn hit(&mut self, key: u64) {
        let (frequency, weight) = self.keys[&key];
        self.keys.insert(key, (frequency + 1, weight));
        self.rank(key);
    }
    fn insert(&mut self, key: u64, weight: u32) {
        self.keys.insert(key, (1, weight));
        self.rank(key);
    }
    fn remove(&mut self, key: u64) {
        self.ranks.remove(&key);
    }
    fn evict(&mut self) -> Option<u64> {
        let (key, (rank, _)) = pop_lowest(&mut self.ranks)?;
        self.inflation = rank;
        Some(key)
    }
}

proptest! {
    #[test]
    fn gdsf_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        let model = PlainGreedyDual { is_by_size: true, ..PlainGreedyDual::default() };
        agrees_with_model::<Gdsf>(&(), model, 60, &steps, true);
    }

    #[test]
    fn lfuda_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        agrees_with_model::<Lfuda>(&(), PlainGreedyDual::default(), 60, &steps, true);
    }

    #[test]
    fn lfu_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        agrees_with_model::<Lfu>(&(), PlainLfu::default(), 60, &steps, true);
    }

    #[test]
    fn lru_k_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        let config = LruKConfig {
            history: 10.0,
            ..LruKConfig::default()
        };
        agrees_with_model::<LruK>(&config, PlainLruTwo::default(), 60, &steps, true);
    }
}
