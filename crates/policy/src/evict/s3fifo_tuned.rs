//! S3-FIFO that learns its border from miniature caches.
//!
//! # Idea
//! The best size of the small queue and the best number of hits that leads to main differ by
//! workload, and eight pairs of both cover what helps. A hashed sample of the keys is replayed
//! through eight miniature S3-FIFO caches, one for each pair. When one of them misses clearly less
//! than the pair in use, its pair is used from then on. A change of the pair can evict popular
//! entries from main. The miniatures do not measure these losses. So the misses of the cache itself
//! on the sample are compared as well: when they clearly exceed those of S3-FIFO's default pair, by
//! more than the new pair seemed to gain, the default returns, each time for twice as long.
//!
//! # Source
//! Our own, of known parts: S3-FIFO (J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, *FIFO queues
//! are all you need for cache eviction*, SOSP 2023), and parameters from miniature simulations (C.
//! A. Waldspurger, T. Saemundson, I. Ahmad, N. Park, *Cache modeling and optimization using
//! miniature simulations*, USENIX ATC 2017), which has no return to a baseline and no bound on
//! random switching.
//!
//! # State
//! That of [`s3fifo`](super::s3fifo). Besides, independent of the number of entries, at most some
//! 300 KB: eight miniatures of 512 to 1,023 entries. Below one byte per entry from 300,000 entries
//! on.
//!
//! # Cost
//! That of S3-FIFO, except that a hit is `Reorder` instead of `Mark` and hashes the key. One
//! request in (entries / 1,023) also goes through eight miniatures, each of which passes over
//! entries as S3-FIFO does.
//!
//! # Knobs
//! `margin` (2.5; 0.5 to 10): number of square roots of the recorded misses by which two caches
//! must differ before one counts as better. `memory` (80; 1 to 10000): number of fillings of a
//! miniature over which misses fade by a factor of e.
//!
//! # Departures
//! None, because there is no source. The pairs, in the order in which they are tried: a tenth and 2
//! (S3-FIFO's), a tenth and 1, a hundredth and 2 or 1, three hundredths and 1, three tenths and 2
//! or 1, eight tenths and 1. Deleted and expired keys stay in the miniatures.
//!
//! # Avoid when
//! The cache is cut into many small shards, each of which would pay for its own miniatures; or a
//! hit must not lock.

mod miniature;

use super::s3fifo::{S3Fifo, S3FifoConfig};
use crate::knobs::Knobs;
use crate::parts::chance::scramble;
#[cfg(not(any(test, feature = "std")))]
use crate::parts::float::Float as _;
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};
use alloc::boxed::Box;
use miniature::{Border, COUNT, Miniatures};

crate::knobs! {
    /// Knobs of [`S3FifoTuned`].
    pub struct S3FifoTunedConfig {
        /// Number of square roots of the recorded misses by which a cache must be better than the
        /// one in use.
        margin: f64 = 2.5, 0.5 => 10.0;
        /// Number of fillings of a miniature over which misses fade by a factor of e.
        memory: f64 = 80.0, 1.0 => 10_000.0;
    }
}

const fn border(small: f64, threshold: u8) -> Border {
    Border { small, threshold }
}

/// Borders that are tried; S3-FIFO's default is the first.
const BORDERS: [Border; COUNT] = [
    border(0.1, 2),
    border(0.1, 1),
    border(0.01, 2),
    border(0.01, 1),
    border(0.03, 1),
    border(0.3, 2),
    border(0.3, 1),
    border(0.8, 1),
];
/// Index of S3-FIFO's default border.
const OWN: usize = 0;
/// Minimum number of entries of a miniature: the sample is halved until there are fewer than twice
/// this number.
const ENTRIES_MIN: usize = 512;
/// Number of decisions during the time in which a miniature can be filled.
const DECISIONS_PER_FILLING: f64 = 4.0;
/// Minimum number of sampled requests between two decisions.
const PERIOD_MIN: u32 = 16;
/// Number of decisions for which the default border stays after the first return to it.
const STAY_FIRST: u64 = 64;
const STAY_MAX: u64 = 1 << 32;
/// Constant that makes the sample's hash independent of the hashes of tables and shards.
const SAMPLE: u64 = 0x5EED_0F5A_3B1E_57A1;

/// State learned from the sample.
#[derive(Clone, Debug)]
struct Tuner {
    miniatures: Miniatures,
    /// One key in 2^`halvings` is sampled.
    halvings: u32,
    /// Capacity for which the sample was chosen.
    capacity_first: u64,
    /// Misses of each miniature on sampled requests, weighted by age. The same for the cache itself
    /// is `own_misses`.
    misses: [f64; COUNT],
    own_misses: f64,
    /// Number of sampled requests between two decisions. The next field counts those since the last
    /// one.
    period: u32,
    seen: u32,
    fading: f64,
    /// Index of the border in use.
    current: usize,
    /// Number of decisions for which the default border still stays. `stay_next` is the number for
    /// the next return to it.
    stay: u64,
    stay_next: u64,
}

/// S3-FIFO with a border that is learned.
#[derive(Clone, Debug)]
pub struct S3FifoTuned {
    queues: S3Fifo,
    /// `None` before the first eviction: a cache that is not full needs no border.
    tuner: Option<Box<Tuner>>,
    capacity: u64,
    config: S3FifoTunedConfig,
}

impl Tuner {
    fn new(capacity: u64, entries: usize, config: &S3FifoTunedConfig) -> Self {
        let halvings = (entries / ENTRIES_MIN).checked_ilog2().unwrap_or(0);
        let period = f64::from((entries >> halvings) as u32) / DECISIONS_PER_FILLING;
        Tuner {
            miniatures: Miniatures::new(BORDERS, (capacity >> halvings).max(1)),
            halvings,
            capacity_first: capacity,
            misses: [0.0; COUNT],
            own_misses: 0.0,
            period: (period as u32).max(PERIOD_MIN),
            seen: 0,
            fading: 1.0 - 1.0 / (config.memory * DECISIONS_PER_FILLING),
            current: OWN,
            stay: 0,
            stay_next: STAY_FIRST,
        }
    }

    /// Records a request if its key is sampled. Returns whether a decision is due.
    #[inline]
    fn watch(&mut self, key_hash: u64, weight: u32, is_miss: bool) -> bool {
        let is_sampled = scramble(key_hash ^ SAMPLE).trailing_zeros() >= self.halvings;
        is_sampled && self.count(key_hash, weight, is_miss)
    }

    fn count(&mut self, key_hash: u64, weight: u32, is_miss: bool) -> bool {
        let Some(missed) = self.miniatures.request(key_hash, weight) else {
            return false;
        };
        if !self.miniatures.are_full() {
            // The cache is warm, and the miniatures are not.
            return false;
        }
        for (misses, missed) in self.misses.iter_mut().zip(missed) {
            *misses += f64::from(u8::from(missed));
        }
        self.own_misses += f64::from(u8::from(is_miss));
        self.seen += 1;
        self.seen >= self.period
    }

    /// Returns the border to be used from now on.
    fn decide(&mut self, margin: f64) -> Border {
        self.seen = 0;
        self.stay = self.stay.saturating_sub(1);
        let noise = |misses: f64| margin * misses.max(1.0).sqrt();
        let own = self.misses[OWN];
        // The larger the apparent gain of the border in use, the more a change to it may cost.
        let gain = (own - self.misses[self.current]).max(0.0);
        if self.current != OWN && self.own_misses > own + gain + noise(own) {
            self.current = OWN;
            self.own_misses = own;
            self.stay = self.stay_next;
            self.stay_next = (2 * self.stay_next).min(STAY_MAX);
        } else if self.stay == 0 {
            let misses = &self.misses;
            let best = (0..COUNT).fold(self.current, |best, other| {
                if misses[other] < misses[best] {
                    other
                } else {
                    best
                }
            });
            let now = misses[self.current];
            if now - misses[best] > noise(now) {
                self.current = best;
            }
        }
        let fading = self.fading;
        self.misses.iter_mut().for_each(|misses| *misses *= fading);
        self.own_misses *= fading;
        BORDERS[self.current]
    }

    /// Adapts to a capacity that is still near the first. Returns false if it is not.
    fn resize(&mut self, capacity: u64) -> bool {
        let is_near = capacity / 2 <= self.capacity_first && self.capacity_first / 2 <= capacity;
        if is_near {
            self.miniatures.resize((capacity >> self.halvings).max(1));
        }
        is_near
    }
}

impl S3FifoTuned {
    #[inline]
    fn watch(&mut self, key_hash: u64, weight: u32, is_miss: bool) {
        if let Some(tuner) = &mut self.tuner
            && tuner.watch(key_hash, weight, is_miss)
        {
            let Border { small, threshold } = tuner.decide(self.config.margin);
            self.queues.set_border(small, threshold);
        }
    }
}

impl Policy for S3FifoTuned {
    type Meta = u8;
    type Config = S3FifoTunedConfig;
    const NAME: &'static str = "s3fifo-tuned";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &S3FifoTunedConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        S3FifoTuned {
            queues: S3Fifo::new(capacity, &S3FifoConfig::default(), seed),
            tuner: None,
            capacity,
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.queues.resize(capacity);
        if let Some(tuner) = &mut self.tuner
            && !tuner.resize(capacity)
        {
            // The sample has the wrong size: it starts again, and so does the learned state.
            self.tuner = None;
            self.queues
                .set_border(BORDERS[OWN].small, BORDERS[OWN].threshold);
        }
    }

    #[inline]
    fn miss(&mut self, facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.watch(key_hash, weight, true);
        self.queues.miss(facts, key_hash, weight)
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.queues.insert(cells, slot);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        if let Some(meta) = self.queues.mark(cells, slot, cells.get(slot)) {
            cells.set(slot, meta);
        }
        if self.tuner.is_some() {
            self.watch(cells.key_hash(slot), cells.weight(slot), false);
        }
    }

    fn reweigh(&mut self, cells: &mut impl Cells<u8>, slot: Slot, old_weight: u32) {
        self.queues.reweigh(cells, slot, old_weight);
    }

    fn moved(&mut self, cells: &mut impl Cells<u8>, old: Slot, new: Slot) {
        self.queues.moved(cells, old, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.queues.remove(cells, slot);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        if self.tuner.is_none() {
            let tuner = Tuner::new(self.capacity, cells.len(), &self.config);
            self.tuner = Some(Box::new(tuner));
        }
        self.queues.evict(cells, budget)
    }

    fn usage(&self, cells: &impl Cells<u8>, slot: Slot) -> (Option<u64>, Option<u32>) {
        self.queues.usage(cells, slot)
    }

    fn heap_bytes(&self) -> usize {
        let tuner = self.tuner.as_ref();
        self.queues.heap_bytes()
            + tuner.map_or(0, |tuner| {
                size_of::<Tuner>() + tuner.miniatures.heap_bytes()
            })
    }

    fn heap_bytes_ahead(&self) -> usize {
        self.queues.heap_bytes_ahead()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.queues.check(cells);
        if let Some(tuner) = &self.tuner {
            tuner.miniatures.check();
            assert!(tuner.current < COUNT);
            assert!(tuner.seen < tuner.period);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::chance::Chance;
    use crate::suite::policy::Trial;

    /// Returns the miss ratio of the second half of the keys, and the state at the end.
    fn misses<P: Policy>(config: &P::Config, capacity: u64, keys: &[u64]) -> (f64, Trial<P>) {
        let mut trial = Trial::<P>::new(capacity, config, 1);
        let mut missed = 0;
        for (index, &key) in keys.iter().enumerate() {
            let is_miss = !trial.table.contains_key(&key);
            missed += u32::from(is_miss && index >= keys.len() / 2);
            trial.request(key, 1, 1000);
        }
        trial.policy.check(&trial.host);
        (f64::from(missed) / (keys.len() / 2) as f64, trial)
    }

    fn current(trial: &Trial<S3FifoTuned>) -> Border {
        let tuner = trial.policy.tuner.as_ref().expect("something was evicted");
        BORDERS[tuner.current]
    }

    /// Returns keys of which each occurs three times. The last occurrence comes after a small
    /// queue of a tenth has evicted the key.
    fn late_thirds(count: u64) -> Vec<u64> {
        (0..count)
            .flat_map(|step| [step, step.saturating_sub(100), step.saturating_sub(300)])
            .collect()
    }

    #[test]
    fn it_learns_that_new_entries_need_more_time() {
        let keys = late_thirds(20_000);
        let (own, _) = misses::<S3Fifo>(&S3FifoConfig::default(), 500, &keys);
        let (tuned, trial) = misses::<S3FifoTuned>(&Default::default(), 500, &keys);
        assert!(current(&trial).small > 0.1, "{:?}", current(&trial));
        assert!(tuned < own - 0.05, "{tuned} {own}");
    }

    #[test]
    fn a_sample_leads_to_the_same_choice() {
        // The same as before, but forty times as large, so that one key in 32 is sampled.
        let keys: Vec<u64> = (0..200_000u64)
            .flat_map(|step| {
                [
                    step,
                    step.saturating_sub(4_000),
                    step.saturating_sub(12_000),
                ]
            })
            .collect();
        let (own, _) = misses::<S3Fifo>(&S3FifoConfig::default(), 20_000, &keys);
        let (tuned, trial) = misses::<S3FifoTuned>(&Default::default(), 20_000, &keys);
        let tuner = trial.policy.tuner.as_ref().expect("something was evicted");
        assert_eq!(tuner.halvings, 5);
        assert!(tuned < own - 0.05, "{tuned} {own}");
    }

    #[test]
    fn without_a_better_border_it_equals_s3fifo() {
        // A few keys are popular, and all others are requested once.
        let mut chance = Chance::new(3);
        let keys: Vec<u64> = (0..40_000)
            .map(|index| match chance.below(2) {
                0 => chance.below(300),
                _ => 1_000 + index,
            })
            .collect();
        let (own, s3fifo) = misses::<S3Fifo>(&S3FifoConfig::default(), 600, &keys);
        let (tuned, trial) = misses::<S3FifoTuned>(&Default::default(), 600, &keys);
        assert!(tuned < own + 0.002, "{tuned} {own}");
        if current(&trial) == BORDERS[OWN] {
            assert_eq!(trial.victims, s3fifo.victims);
        }
    }

    #[test]
    fn a_border_that_turns_out_worse_is_dropped_for_longer_each_time() {
        let mut tuner = Tuner::new(1_000, 1_000, &S3FifoTunedConfig::default());
        let mut stays = Vec::new();
        for _ in 0..4 {
            // The miniature of another border seems to miss much less than the present one.
            tuner.misses = [
                1_000.0, 1_000.0, 1_000.0, 100.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0,
            ];
            tuner.stay = 0;
            assert_eq!(tuner.decide(2.5), BORDERS[3]);
            // But the cache itself misses more than with the default border.
            tuner.own_misses = 2_500.0;
            assert_eq!(tuner.decide(2.5), BORDERS[OWN]);
            stays.push(tuner.stay);
            assert_eq!(
                tuner.decide(2.5),
                BORDERS[OWN],
                "though the other looks better still"
            );
        }
        assert_eq!(stays, [64, 128, 256, 512]);
    }

    #[test]
    fn random_differences_do_not_change_the_border() {
        let mut tuner = Tuner::new(1_000, 1_000, &S3FifoTunedConfig::default());
        tuner.misses = [400.0, 351.0, 399.0, 400.0, 400.0, 400.0, 400.0, 400.0];
        assert_eq!(tuner.decide(2.5), BORDERS[OWN]);
        tuner.misses = [400.0, 349.0, 399.0, 400.0, 400.0, 400.0, 400.0, 400.0];
        assert_eq!(tuner.decide(2.5), BORDERS[1]);
    }

    #[test]
    fn a_capacity_far_from_the_first_starts_a_new_sample() {
        let keys = late_thirds(20_000);
        let (_, mut trial) = misses::<S3FifoTuned>(&Default::default(), 500, &keys);
        trial.resize(600, 1000);
        assert!(current(&trial).small > 0.1);
        trial.resize(5_000, 1000);
        assert!(trial.policy.tuner.is_none());
        assert_eq!(trial.policy.queues.small_capacity(), 500);
        trial.resize(100, 1000);
        trial.policy.check(&trial.host);
    }

    #[test]
    fn miniatures_take_the_memory_that_the_card_states() {
        let mut trial = Trial::<S3FifoTuned>::new(1_023, &Default::default(), 1);
        let mut chance = Chance::new(2);
        let mut most = 0;
        for request in 0..60_000u64 {
            let key = match chance.below(3) {
                0 => request - chance.below(1_500).min(request),
                _ => request,
            };
            trial.request(key, 1, 1000);
            if request % 512 == 0 {
                let tuner = trial.policy.tuner.as_ref();
                most = most.max(tuner.map_or(0, |tuner| tuner.miniatures.heap_bytes()));
            }
        }
        assert!((100_000..300_000).contains(&most), "{most} bytes");
    }
}
