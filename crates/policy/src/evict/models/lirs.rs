//! LIRS as drawn in its source: one stack of keys, pruned at once, and one queue.

use super::steps;
use crate::evict::lirs::{Lirs, LirsConfig};
use crate::suite::policy::{NaivePolicy, agrees_with_model};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Default)]
struct PlainLirs {
    /// Keys from the bottom to the top.
    stack: Vec<u64>,
    queue: Vec<u64>,
    /// LIR keys with their weights.
    lir: BTreeMap<u64, u64>,
    weights: BTreeMap<u64, u64>,
    is_back: bool,
    lir_capacity: u64,
}

impl PlainLirs {
    fn prune(&mut self) {
        while self
            .stack
            .first()
            .is_some_and(|key| !self.lir.contains_key(key))
        {
            self.stack.remove(0);
        }
    }
    fn put_on_top(&mut self, key: u64) {
        self.stack.retain(|&other| other != key);
        self.stack.push(key);
    }
    fn becomes_lir(&mut self, key: u64) {
        self.lir.insert(key, self.weights[&key]);
        self.put_on_top(key);
        while self.lir.values().sum::<u64>() > self.lir_capacity && self.lir.len() > 1 {
            let bottom = self.stack.remove(0);
            self.lir.remove(&bottom);
            self.queue.push(bottom);
            self.prune();
        }
    }
}

impl NaivePolicy for PlainLirs {
    fn hit(&mut self, key: u64) {
        if self.lir.contains_key(&key) {
            self.put_on_top(key);
            self.prune();
        } else if self.stack.contains(&key) {
            self.queue.retain(|&other| other != key);
            self.becomes_lir(key);
            self.prune();
        } else {
            self.queue.retain(|&other| other != key);
            self.queue.push(key);
            self.put_on_top(key);
            self.prune();
        }
    }
    fn miss(&mut self, key: u64) {
        self.is_back = self.stack.contains(&key);
        self.stack.retain(|&other| other != key);
    }
    fn insert(&mut self, key: u64, weight: u32) {
        self.weights.insert(key, u64::from(weight));
        let lir = self.lir.values().sum::<u64>();
        if self.is_back || lir + u64::from(weight) <= self.lir_capacity {
            self.becomes_lir(key);
        } else {
            self.put_on_top(key);
            self.queue.push(key);
        }
        self.prune();
    }
    fn remove(&mut self, key: u64) {
        self.stack.retain(|&other| other != key);
        self.queue.retain(|&other| other != key);
        self.lir.remove(&key);
        self.prune();
    }
    fn evict(&mut self) -> Option<u64> {
        if self.queue.is_empty() {
            let bottom = (!self.stack.is_empty()).then(|| self.stack.remove(0))?;
            self.lir.remove(&bottom);
            self.prune();
            return Some(bottom);
        }
        Some(self.queue.remove(0))
    }
}

proptest! {
    #[test]
    fn lirs_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        let config = LirsConfig { hir: 0.1, stack: 10.0 };
        let model = PlainLirs { lir_capacity: 54, ..PlainLirs::default() };
        agrees_with_model::<Lirs>(&config, model, 60, &steps, true);
    }
}
