//! LeCaR and LeCaR-SIEVE, with the draws of the policy's own seed.

use super::steps;
use crate::evict::lecar::{Lecar, LecarConfig};
use crate::evict::lecar_sieve::LecarSieve;
use crate::parts::chance::Chance;
use crate::suite::policy::{NaivePolicy, agrees_with_model};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const CAPACITY: u64 = 60;

/// State of a key: its frequency, the time at which it reached that frequency, and its weight.
#[derive(Clone, Copy)]
struct Entry {
    frequency: u32,
    since: u64,
    weight: u32,
}

struct PlainLecar {
    /// Keys with marks of hits, in LRU order, or for SIEVE in order of insertion.
    queue: Vec<(u64, bool)>,
    /// Position of SIEVE's hand.
    hand: Option<usize>,
    entries: BTreeMap<u64, Entry>,
    /// For each expert its victims: key, weight, and number of the request that evicted it.
    regrets: [VecDeque<(u64, u32, u64)>; 2],
    trust: [f64; 2],
    chance: Chance,
    requests: u64,
    moments: u64,
}

impl PlainLecar {
    fn new(is_sieve: bool) -> Self {
        PlainLecar {
            queue: Vec::new(),
            hand: is_sieve.then_some(0),
            entries: BTreeMap::new(),
            regrets: Default::default(),
            trust: [0.5, 0.5],
            chance: Chance::new(1),
            requests: 0,
            moments: 0,
        }
    }

    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    /// Returns the victim of the expert for recency, LRU or SIEVE.
    fn recent(&mut self) -> u64 {
        let Some(hand) = &mut self.hand else {
            return self.queue[0].0;
        };
        loop {
            *hand %= self.queue.len();
            let (key, is_visited) = &mut self.queue[*hand];
            if !core::mem::take(is_visited) {
                return *key;
            }
            *hand += 1;
        }
    }
}

impl NaivePolicy for PlainLecar {
    fn hit(&mut self, key: u64) {
        self.requests += 1;
        let since = self.moment();
        let entry = self.entries.get_mut(&key).expect("a hit is held");
        (entry.frequency, entry.since) = (entry.frequency + 1, since);
        let at = self.queue.iter().position(|&(other, _)| other == key);
        let at = at.expect("a hit is held");
        if self.hand.is_some() {
            self.queue[at].1 = true;
        } else {
            self.queue[at..].rotate_left(1);
        }
    }
    fn miss(&mut self, key: u64) {
        self.requests += 1;
        for expert in [0, 1] {
            let regrets = &mut self.regrets[expert];
            let Some(at) = regrets.iter().position(|&(other, ..)| other == key) else {
                continue;
            };
            let (.., then) = regrets.remove(at).expect("it was just found");
            let age = (self.requests - then) as f64 / self.entries.len().max(1) as f64;
            self.trust[expert] *= (-0.45 * 0.005f64.powf(age)).exp();
            let trust = self.trust.map(|trust| trust + 1e-10);
            let recent = trust[0] / (trust[0] + trust[1]);
            self.trust = [recent, 1.0 - recent];
        }
    }
    fn insert(&mut self, key: u64, weight: u32) {
        if self.hand == Some(self.queue.len()) {
            self.hand = Some(0);
        }
        self.queue.push((key, false));
        let (frequency, since) = (1, self.moment());
        let entry = Entry {
            frequency,
            since,
            weight,
        };
        self.entries.insert(key, entry);
    }
    fn remove(&mut self, key: u64) {
        let at = self.queue.iter().position(|&(other, _)| other == key);
        let at = at.expect("an entry that leaves is held");
        self.queue.remove(at);
        self.entries.remove(&key);
        if let Some(hand) = &mut self.hand {
            *hand -= usize::from(at < *hand);
        }
    }
    fn evict(&mut self) -> Option<u64> {
        let order = |&(_, entry): &(&u64, &Entry)| (entry.frequency, entry.since);
        let frequent = *self.entries.iter().min_by_key(order)?.0;
        let recent = self.recent();
        let expert = usize::from(self.chance.unit() >= self.trust[0]);
        let victim = [recent, frequent][expert];
        if recent != frequent {
            let regrets = &mut self.regrets[expert];
            let weight = self.entries[&victim].weight;
            regrets.push_back((victim, weight, self.requests));
            let weigh = |regrets: &VecDeque<(u64, u32, u64)>| -> u64 {
                regrets
                    .iter()
                    .map(|&(_, weight, _)| u64::from(weight))
                    .sum()
            };
            while weigh(regrets) > CAPACITY / 2 {
                regrets.pop_front();
            }
        }
        self.remove(victim);
        Some(victim)
    }
}

proptest! {
    #[test]
    fn lecar_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        let (config, model) = (LecarConfig::default(), PlainLecar::new(false));
        agrees_with_model::<Lecar>(&config, model, CAPACITY, &steps, true);
    }

    #[test]
    fn lecar_sieve_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        let (config, model) = (LecarConfig::default(), PlainLecar::new(true));
        agrees_with_model::<LecarSieve>(&config, model, CAPACITY, &steps, true);
    }
}
