//! A model that learns which objects are worth a write to flash, from their accesses in DRAM.
//!
//! # Idea
//! A linear support vector machine over a few features of an object's stay in DRAM predicts whether
//! it will be requested again while flash would still hold it. Each object that leaves DRAM,
//! written or not, becomes a training example. Its label is known when as much as flash holds has
//! left DRAM after it.
//!
//! # Source
//! A. Eisenman et al., *Flashield: a hybrid key-value cache that controls flash write
//! amplification*, NSDI 2019, <https://www.usenix.org/conference/nsdi19/presentation/eisenman>; its
//! part in the comparison of J. Yang's thesis, section 8.4.4.
//!
//! # State
//! 40 bytes for each object that left DRAM recently, and 4 for each object of the trace.
//!
//! # Departures
//! The model is trained with each example (stochastic gradient descent on the hinge loss) instead
//! of once an hour. One more request is enough for a positive label, where Flashield requires
//! several. Everything is written until the first thousand examples are labelled. The source's
//! log-structured storage is not modelled.

use policy::Slot;
use std::collections::VecDeque;

const FEATURES: usize = 5;
/// Number of labelled examples before the model is used.
const EXAMPLES_MIN: u64 = 1000;
/// Step size of the gradient descent. The next constant is the weight decay.
const STEP: f64 = 0.01;
const DECAY: f64 = 1e-4;

/// Accesses of an object in DRAM.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DramAccesses {
    /// Time of insertion.
    since: u32,
    /// Time of the last access.
    last: u32,
    /// Accesses after the first.
    pub(super) reads: u32,
}

impl DramAccesses {
    pub(super) fn at(now: u32) -> DramAccesses {
        DramAccesses {
            since: now,
            last: now,
            reads: 0,
        }
    }

    pub(super) fn record(&mut self, now: u32) {
        self.last = now;
        self.reads += 1;
    }

    fn features(self, weight: u32, now: u32) -> [f64; FEATURES] {
        let stay = f64::from((now - self.since).max(1));
        let log = |value: f64| (1.0 + value).log2() / 16.0;
        [
            1.0,
            log(f64::from(self.reads)),
            f64::from(now - self.last) / stay,
            log(stay / f64::from(self.reads + 1)),
            log(f64::from(weight)),
        ]
    }
}

/// An object that left DRAM, until its label is known.
struct Example {
    slot: Slot,
    left: u32,
    /// Total weight that had left DRAM before this object.
    clock: u64,
    features: [f32; FEATURES],
}

/// The model and its pending examples.
pub(super) struct Learner {
    weights: [f64; FEATURES],
    examples: VecDeque<Example>,
    learned: u64,
    /// Number of the last request of each object.
    last_requests: Vec<u32>,
    /// Total weight that has left DRAM.
    clock: u64,
    /// Capacity of flash, in units.
    horizon: u64,
}

impl Learner {
    pub(super) fn new(objects: usize, horizon: u64) -> Self {
        Learner {
            weights: [0.0; FEATURES],
            examples: VecDeque::new(),
            learned: 0,
            last_requests: vec![0; objects],
            clock: 0,
            horizon,
        }
    }

    pub(super) fn requested(&mut self, slot: Slot, now: u32) {
        self.last_requests[slot.0 as usize] = now;
    }

    /// Predicts whether an object that leaves DRAM is worth a write, and adds it as an example.
    pub(super) fn is_wanted(
        &mut self,
        slot: Slot,
        weight: u32,
        seen: DramAccesses,
        now: u32,
    ) -> bool {
        self.clock += u64::from(weight);
        self.learn();
        let features = seen.features(weight, now);
        self.examples.push_back(Example {
            slot,
            left: now,
            clock: self.clock,
            features: features.map(|feature| feature as f32),
        });
        self.learned < EXAMPLES_MIN || self.score(&features) > 0.0
    }

    fn score(&self, features: &[f64; FEATURES]) -> f64 {
        let terms = self.weights.iter().zip(features);
        terms.map(|(weight, feature)| weight * feature).sum()
    }

    /// Trains with the examples whose labels are known.
    fn learn(&mut self) {
        let horizon = self.horizon;
        while let Some(example) = self.examples.front()
            && self.clock - example.clock > horizon
        {
            let was_requested = self.last_requests[example.slot.0 as usize] > example.left;
            let truth = if was_requested { 1.0 } else { -1.0 };
            let features = example.features.map(f64::from);
            self.examples.pop_front();
            self.learned += 1;
            let is_clear = truth * self.score(&features) >= 1.0;
            for (weight, feature) in self.weights.iter_mut().zip(features) {
                *weight -= STEP * DECAY * *weight;
                if !is_clear {
                    *weight += STEP * truth * feature;
                }
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.examples.capacity() * size_of::<Example>() + self.last_requests.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects that are read twice in DRAM are requested again, others are not.
    #[test]
    fn objects_read_in_dram_are_predicted_to_be_worth_a_write() {
        let mut learner = Learner::new(20_000, 50);
        let mut right = 0;
        for id in 0..20_000u32 {
            let now = 10 * id + 10;
            let is_read = id % 3 == 0;
            let mut seen = DramAccesses::at(now - 5);
            if is_read {
                seen.record(now - 4);
                seen.record(now - 3);
            }
            let is_wanted = learner.is_wanted(Slot(id), 1, seen, now);
            right += u32::from(id >= 15_000 && is_wanted == is_read);
            if is_read {
                learner.requested(Slot(id), now + 1);
            }
        }
        assert!(right >= 4_900, "{right} of 5000");
    }

    #[test]
    fn examples_are_kept_no_longer_than_flash_holds_objects() {
        let mut learner = Learner::new(1000, 50);
        for id in 0..1000 {
            learner.is_wanted(Slot(id), 1, DramAccesses::at(id), id + 1);
        }
        assert!(learner.examples.len() <= 51, "{}", learner.examples.len());
        assert_eq!(learner.learned as usize + learner.examples.len(), 1000);
    }
}
