//! Comparison of every victim with the choice of a plain implementation of the policy.

mod cart;
mod clock_pro;
mod experts;
mod lirs;
mod ranked;
mod slab;

use super::b_lru::{BLru, BLruConfig};
use super::clock::{Clock, ClockConfig};
use super::clock2q_plus::{Clock2QPlus, Clock2QPlusConfig};
use super::fifo::Fifo;
use super::lru::Lru;
use super::qd::QdConfig;
use super::s3_sieve::S3Sieve;
use super::s3fifo::{S3Fifo, S3FifoConfig};
use super::s3fifo_d::{S3FifoD, S3FifoDConfig};
use super::sieve::Sieve;
use crate::suite::policy::{NaivePolicy, Step, agrees_with_model};
use proptest::prelude::*;

/// Keys from the oldest to the youngest, each with its hits.
#[derive(Default)]
struct Queue(Vec<(u64, u32)>);

impl Queue {
    fn push(&mut self, key: u64) {
        self.0.push((key, 0));
    }
    fn remove(&mut self, key: u64) {
        self.0.retain(|&(other, _)| other != key);
    }
    fn hit(&mut self, key: u64, most: u32) {
        for (other, hits) in &mut self.0 {
            if *other == key {
                *hits = (*hits + 1).min(most);
            }
        }
    }
}

#[derive(Default)]
struct PlainFifo(Queue);

impl NaivePolicy for PlainFifo {
    fn hit(&mut self, _key: u64) {}
    fn insert(&mut self, key: u64, _weight: u32) {
        self.0.push(key);
    }
    fn remove(&mut self, key: u64) {
        self.0.remove(key);
    }
    fn evict(&mut self) -> Option<u64> {
        (!self.0.0.is_empty()).then(|| self.0.0.remove(0).0)
    }
}

#[derive(Default)]
struct PlainLru(Queue);

impl NaivePolicy for PlainLru {
    fn hit(&mut self, key: u64) {
        self.0.remove(key);
        self.0.push(key);
    }
    fn insert(&mut self, key: u64, _weight: u32) {
        self.0.push(key);
    }
    fn remove(&mut self, key: u64) {
        self.0.remove(key);
    }
    fn evict(&mut self) -> Option<u64> {
        (!self.0.0.is_empty()).then(|| self.0.0.remove(0).0)
    }
}

struct PlainClock {
    queue: Queue,
    most: u32,
}

impl NaivePolicy for PlainClock {
    fn hit(&mut self, key: u64) {
        self.queue.hit(key, self.most);
    }
    fn insert(&mut self, key: u64, _weight: u32) {
        self.queue.push(key);
    }
    fn remove(&mut self, key: u64) {
        self.queue.remove(key);
    }
    fn evict(&mut self) -> Option<u64> {
        while !self.queue.0.is_empty() {
            let (key, hits) = self.queue.0.remove(0);
            if hits == 0 {
                return Some(key);
            }
            self.queue.0.push((key, hits - 1));
        }
        None
    }
}

/// SIEVE with the source's list and hand; the hand is the position of the next entry.
#[derive(Default)]
struct PlainSieve {
    queue: Queue,
    hand: usize,
}

impl NaivePolicy for PlainSieve {
    fn hit(&mut self, key: u64) {
        self.queue.hit(key, 1);
    }
    fn insert(&mut self, key: u64, _weight: u32) {
        if self.hand == self.queue.0.len() {
            self.hand = 0;
        }
        self.queue.push(key);
    }
    fn remove(&mut self, key: u64) {
        let position = self.queue.0.iter().position(|&(other, _)| other == key);
        if position.is_some_and(|position| position < self.hand) {
            self.hand -= 1;
        }
        self.queue.remove(key);
    }
    fn evict(&mut self) -> Option<u64> {
        while !self.queue.0.is_empty() {
            if self.hand == self.queue.0.len() {
                self.hand = 0;
            }
            if self.queue.0[self.hand].1 == 0 {
                return Some(self.queue.0.remove(self.hand).0);
            }
            self.queue.0[self.hand].1 = 0;
            self.hand += 1;
        }
        None
    }
}

/// S3-FIFO without ghosts, by weight.
#[derive(Default)]
struct PlainS3Fifo {
    small: Queue,
    main: Queue,
    weights: std::collections::BTreeMap<u64, u64>,
    capacity: u64,
    has_evicted: bool,
}

impl PlainS3Fifo {
    fn weight(&self, queue: &Queue) -> u64 {
        queue.0.iter().map(|(key, _)| self.weights[key]).sum()
    }
    fn small_capacity(&self) -> u64 {
        self.capacity / 10
    }
}

impl NaivePolicy for PlainS3Fifo {
    fn hit(&mut self, key: u64) {
        self.small.hit(key, 3);
        self.main.hit(key, 3);
    }
    fn insert(&mut self, key: u64, weight: u32) {
        let is_filling =
            !self.has_evicted && self.weight(&self.small) >= self.small_capacity().max(1);
        self.weights.insert(key, u64::from(weight));
        if is_filling {
            self.main.push(key)
        } else {
            self.small.push(key)
        }
    }
    fn remove(&mut self, key: u64) {
        self.small.remove(key);
        self.main.remove(key);
    }
    fn evict(&mut self) -> Option<u64> {
        self.has_evicted = true;
        let main_is_over = self.weight(&self.main) > self.capacity - self.small_capacity();
        if !main_is_over || self.main.0.is_empty() {
            while !self.small.0.is_empty() {
                let (key, hits) = self.small.0.remove(0);
                if hits < 2 {
                    return Some(key);
                }
                self.main.push(key);
            }
        }
        while !self.main.0.is_empty() {
            let (key, hits) = self.main.0.remove(0);
            if hits == 0 {
                return Some(key);
            }
            self.main.0.push((key, hits - 1));
        }
        // Main exceeded its share and is empty now, so only small is left.
        (!self.small.0.is_empty()).then(|| self.small.0.remove(0).0)
    }
}

/// Clock2Q+ without ghosts, by weight: S3-FIFO whose hits count only as stated.
#[derive(Default)]
struct PlainClock2QPlus {
    queues: PlainS3Fifo,
    window: u64,
    /// Weight that was inserted into small before each entry of it.
    before: std::collections::BTreeMap<u64, u64>,
    /// Weight inserted into small before the entry inserted last, and that entry's own weight.
    newest: (u64, u64),
}

impl NaivePolicy for PlainClock2QPlus {
    fn hit(&mut self, key: u64) {
        let is_young = |before: &u64| self.newest.0 - before < self.window;
        if !self.before.get(&key).is_some_and(is_young) {
            // Two hits that lead to main stand for one that counts.
            self.queues.small.hit(key, 2);
            self.queues.small.hit(key, 2);
        }
        self.queues.main.hit(key, 1);
    }
    fn insert(&mut self, key: u64, weight: u32) {
        self.before.remove(&key);
        self.queues.insert(key, weight);
        if self.queues.small.0.iter().any(|&(other, _)| other == key) {
            self.newest = (self.newest.1, self.newest.1 + u64::from(weight));
            self.before.insert(key, self.newest.0);
        }
    }
    fn remove(&mut self, key: u64) {
        self.queues.remove(key);
    }
    fn evict(&mut self) -> Option<u64> {
        let victim = self.queues.evict();
        let small = &self.queues.small.0;
        self.before
            .retain(|key, _| small.iter().any(|(other, _)| other == key));
        victim
    }
}

/// S3-SIEVE without ghosts, by weight.
#[derive(Default)]
struct PlainS3Sieve {
    small: Queue,
    main: PlainSieve,
    /// Key that moves to main as soon as there is room.
    waiting: Option<u64>,
    weights: std::collections::BTreeMap<u64, u64>,
    main_capacity: u64,
}

impl PlainS3Sieve {
    fn settle(&mut self) {
        let keys = self.main.queue.0.iter().map(|(key, _)| self.weights[key]);
        let (weight, is_empty) = (keys.sum::<u64>(), self.main.queue.0.is_empty());
        if let Some(key) = self.waiting
            && (is_empty || weight + self.weights[&key] <= self.main_capacity)
        {
            self.waiting = None;
            self.main.insert(key, 0);
        }
    }
}

impl NaivePolicy for PlainS3Sieve {
    fn hit(&mut self, key: u64) {
        self.small.hit(key, 2);
        self.main.hit(key);
    }
    fn insert(&mut self, key: u64, weight: u32) {
        self.settle();
        self.weights.insert(key, u64::from(weight));
        self.small.push(key);
    }
    fn remove(&mut self, _key: u64) {}
    fn evict(&mut self) -> Option<u64> {
        loop {
            self.settle();
            if self.waiting.is_some() || self.small.0.is_empty() {
                return self.main.evict();
            }
            let (key, hits) = self.small.0.remove(0);
            if hits < 2 {
                return Some(key);
            }
            self.waiting = Some(key);
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(any::<Step>(), 0..600)
}

proptest! {
    #[test]
    fn lru_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        agrees_with_model::<Lru>(&(), PlainLru::default(), 60, &steps, true);
    }

    #[test]
    fn fifo_evicts_as_its_model(steps in steps()) {
        agrees_with_model::<Fifo>(&(), PlainFifo::default(), 60, &steps, false);
    }

    #[test]
    fn clock_evicts_as_its_model(steps in steps(), bits in 1u8..4) {
        let model = PlainClock { queue: Queue::default(), most: (1 << bits) - 1 };
        agrees_with_model::<Clock>(&ClockConfig { bits }, model, 60, &steps, false);
    }

    #[test]
    fn sieve_evicts_as_its_model(steps in steps()) {
        agrees_with_model::<Sieve>(&(), PlainSieve::default(), 60, &steps, false);
    }

    #[test]
    fn s3fifo_evicts_as_its_model(steps in steps()) {
        let config = S3FifoConfig { ghost: 0.0, ..S3FifoConfig::default() };
        let model = PlainS3Fifo { capacity: 60, ..PlainS3Fifo::default() };
        agrees_with_model::<S3Fifo>(&config, model, 60, &steps, false);
    }

    #[test]
    fn s3fifo_d_evicts_as_the_model_of_s3fifo_while_nothing_moves_the_border(steps in steps()) {
        let config = S3FifoDConfig { ghost: 0.0, ..S3FifoDConfig::default() };
        let model = PlainS3Fifo { capacity: 60, has_evicted: true, ..PlainS3Fifo::default() };
        agrees_with_model::<S3FifoD>(&config, model, 60, &steps, false);
    }

    #[test]
    fn clock2q_plus_evicts_as_its_model(steps in steps()) {
        let config = Clock2QPlusConfig { ghost: 0.0, ..Clock2QPlusConfig::default() };
        let queues = PlainS3Fifo { capacity: 60, ..PlainS3Fifo::default() };
        let model = PlainClock2QPlus { queues, window: 3, ..PlainClock2QPlus::default() };
        agrees_with_model::<Clock2QPlus>(&config, model, 60, &steps, false);
    }

    #[test]
    fn s3_sieve_evicts_as_its_model(steps in steps()) {
        let config = QdConfig { ghost: 0.0, ..QdConfig::default() };
        let model = PlainS3Sieve { main_capacity: 54, ..PlainS3Sieve::default() };
        agrees_with_model::<S3Sieve>(&config, model, 60, &steps, false);
    }

    #[test]
    fn b_lru_evicts_as_the_model_of_lru(steps in steps()) {
        agrees_with_model::<BLru>(&BLruConfig::default(), PlainLru::default(), 60, &steps, true);
    }
}
