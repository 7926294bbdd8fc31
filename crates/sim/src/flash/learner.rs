//! A model that learns which objects are worth a write to flash, from what happened to them in DRAM.
//!
//! # Idea
//! A linear support vector machine over a few features of an object's stay in DRAM says whether it will
//! be asked for again while flash would have kept it. Each object that leaves DRAM, written or not, is
//! a lesson: whether it was asked for again is known when as much as flash holds has left after it.
//!
//! # Source
//! A. Eisenman et al., *Flashield: a hybrid key-value cache that controls flash write amplification*,
//! NSDI 2019, <https://www.usenix.org/conference/nsdi19/presentation/eisenman>; its part in the
//! comparison of J. Yang's thesis, section 8.4.4.
//!
//! # State
//! 40 bytes for each object that left DRAM lately, and 4 for each object of the trace.
//!
//! # Departures
//! Learning goes on with each lesson (stochastic gradient descent on the hinge loss) instead of once an
//! hour. One request again is enough, where Flashield asks for several. Until the first thousand lessons
//! everything is written. No part of the source's log-structured storage is modelled.

use policy::Slot;
use std::collections::VecDeque;

const FEATURES: usize = 5;
/// Lessons before the model is asked.
const LESSONS_MIN: u64 = 1000;
/// The length of a step of the descent, and the pull towards zero.
const STEP: f64 = 0.01;
const DECAY: f64 = 1e-4;

/// What happened to an object in DRAM.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// When it came.
    since: u32,
    /// When it was last asked for.
    last: u32,
    /// Requests after the one with which it came.
    pub(super) reads: u32,
}

impl Seen {
    pub(super) fn at(now: u32) -> Seen {
        Seen {
            since: now,
            last: now,
            reads: 0,
        }
    }

    pub(super) fn again(&mut self, now: u32) {
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

/// An object that left DRAM, until it is known what became of it.
struct Lesson {
    slot: Slot,
    left: u32,
    /// Units that had left DRAM by then.
    clock: u64,
    features: [f32; FEATURES],
}

/// The model and its lessons.
pub(super) struct Learner {
    weights: [f64; FEATURES],
    lessons: VecDeque<Lesson>,
    learned: u64,
    /// By object, the number of its last request.
    asked: Vec<u32>,
    /// Units that have left DRAM.
    clock: u64,
    /// Units that flash holds.
    horizon: u64,
}

impl Learner {
    pub(super) fn new(objects: usize, horizon: u64) -> Self {
        Learner {
            weights: [0.0; FEATURES],
            lessons: VecDeque::new(),
            learned: 0,
            asked: vec![0; objects],
            clock: 0,
            horizon,
        }
    }

    pub(super) fn requested(&mut self, slot: Slot, now: u32) {
        self.asked[slot.0 as usize] = now;
    }

    /// An object leaves DRAM: is it worth a write?
    pub(super) fn is_wanted(&mut self, slot: Slot, weight: u32, seen: Seen, now: u32) -> bool {
        self.clock += u64::from(weight);
        self.learn();
        let features = seen.features(weight, now);
        self.lessons.push_back(Lesson {
            slot,
            left: now,
            clock: self.clock,
            features: features.map(|feature| feature as f32),
        });
        self.learned < LESSONS_MIN || self.score(&features) > 0.0
    }

    fn score(&self, features: &[f64; FEATURES]) -> f64 {
        let terms = self.weights.iter().zip(features);
        terms.map(|(weight, feature)| weight * feature).sum()
    }

    /// Takes the lessons whose time has come.
    fn learn(&mut self) {
        let horizon = self.horizon;
        while let Some(lesson) = self.lessons.front()
            && self.clock - lesson.clock > horizon
        {
            let was_asked = self.asked[lesson.slot.0 as usize] > lesson.left;
            let truth = if was_asked { 1.0 } else { -1.0 };
            let features = lesson.features.map(f64::from);
            self.lessons.pop_front();
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
        self.lessons.capacity() * size_of::<Lesson>() + self.asked.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects read twice in DRAM come back, others do not.
    #[test]
    fn what_is_read_in_dram_is_found_to_be_worth_a_write() {
        let mut learner = Learner::new(20_000, 50);
        let mut right = 0;
        for id in 0..20_000u32 {
            let now = 10 * id + 10;
            let is_read = id % 3 == 0;
            let mut seen = Seen::at(now - 5);
            if is_read {
                seen.again(now - 4);
                seen.again(now - 3);
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
    fn lessons_are_kept_no_longer_than_flash_holds() {
        let mut learner = Learner::new(1000, 50);
        for id in 0..1000 {
            learner.is_wanted(Slot(id), 1, Seen::at(id), id + 1);
        }
        assert!(learner.lessons.len() <= 51, "{}", learner.lessons.len());
        assert_eq!(learner.learned as usize + learner.lessons.len(), 1000);
    }
}
