//! Adaptive W-TinyLFU: W-TinyLFU whose window is sized by hill climbing.
//!
//! # Idea
//! A workload of recency needs a large window, one of frequency a small one. The hit ratios of two
//! successive samples of requests are compared. While the ratio does not fall, the window keeps
//! growing or keeps shrinking; when it falls, the direction is reversed. The step decreases with
//! each sample, and a large change of the hit ratio restores it.
//!
//! # Source
//! G. Einziger, O. Eytan, R. Friedman, B. Manes, *Adaptive software cache management*, Middleware
//! 2018, <https://doi.org/10.1145/3274808.3274816>, with the parameters of Caffeine, the authors'
//! implementation. Compared with Caffeine's simulator 3.1.8.
//!
//! # State
//! Per entry: 8 bytes, and 8 bytes of a sketch, as in [`w_tinylfu`](super::w_tinylfu). Besides: 60
//! bytes.
//!
//! # Cost
//! The same as in W-TinyLFU. After a sample, up to eight entries move between window and main per
//! request until the step is done.
//!
//! # Knobs
//! `window` (0.01; 0.0001 to 0.99): the window's first share of the capacity. `protected` (0.8;
//! 0.01 to 0.99): the protected segment's first share of main. `step` (0.0625; 0.001 to 0.5): the
//! first step as a share of the capacity. `sample` (10; 0.5 to 100): requests of a sample, as a
//! multiple of the number of entries.
//!
//! # Departures
//! The same as in W-TinyLFU. Samples are counted from the first eviction on. An entry that moves
//! from the window to main becomes the newest of probation, as in Caffeine; its simulator makes it
//! the oldest.
//!
//! # Avoid when
//! The workload changes within fewer requests than a few samples. Hits must not take locks.

use super::w_tinylfu::{WTinyLfu, WTinyLfuConfig};
use crate::knobs::Knobs;
use crate::parts::list::Node;
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// Factor by which a step is smaller than the previous one.
const STEP_DECAY: f64 = 0.98;
/// Change of the hit ratio that restores the first step.
const RESTART: f64 = 0.05;
/// Maximum number of entries that one request moves between window and main.
const MOVES_MAX: usize = 8;

crate::knobs! {
    /// Knobs of [`WTinyLfuAdaptive`].
    pub struct WTinyLfuAdaptiveConfig {
        /// First share of the capacity for the window.
        window: f64 = 0.01, 0.0001 => 0.99;
        /// First share of main for the protected segment.
        protected: f64 = 0.8, 0.01 => 0.99;
        /// First step of the window as a share of the capacity.
        step: f64 = 0.0625, 0.001 => 0.5;
        /// Requests of a sample as a multiple of the number of entries.
        sample: f64 = 10.0, 0.5 => 100.0;
    }
}

/// The adaptive W-TinyLFU policy.
#[derive(Clone, Debug)]
pub struct WTinyLfuAdaptive {
    cache: WTinyLfu,
    config: WTinyLfuAdaptiveConfig,
    /// Whether an entry has been evicted.
    is_full: bool,
    hits: u64,
    misses: u64,
    /// Hit ratio of the previous sample.
    hit_ratio_before: f64,
    /// Next step as a share of the capacity; negative if the window shrinks.
    step: f64,
    /// Weight by which the window should still grow; negative if it should shrink.
    owed: i64,
}

impl WTinyLfuAdaptive {
    /// Ends the sample if it is complete: compares its hit ratio with that of the previous sample,
    /// and sets the step.
    fn climb(&mut self) {
        let requests = self.hits + self.misses;
        if (requests as f64) < self.cache.len() as f64 * self.config.sample {
            return;
        }
        let hit_ratio = self.hits as f64 / requests.max(1) as f64;
        let change = hit_ratio - self.hit_ratio_before;
        let step = if change >= 0.0 { self.step } else { -self.step };
        self.owed = (step * self.cache.capacity() as f64) as i64;
        self.step = match change.abs() >= RESTART {
            true => self.config.step.copysign(step),
            false => STEP_DECAY * step,
        };
        self.hit_ratio_before = hit_ratio;
        (self.hits, self.misses) = (0, 0);
    }

    /// Moves a few entries between window and main while weight is owed.
    fn shift(&mut self, cells: &mut impl Cells<Node>) {
        for _ in 0..MOVES_MAX {
            let limit = self.owed.unsigned_abs();
            let moved = match self.owed {
                0 => return,
                1.. => self.cache.widen_window(cells, limit),
                _ => self.cache.narrow_window(cells, limit),
            };
            match moved {
                Some(weight) => self.owed -= self.owed.signum() * weight as i64,
                None => self.owed = 0,
            }
        }
    }
}

impl Policy for WTinyLfuAdaptive {
    type Meta = Node;
    type Config = WTinyLfuAdaptiveConfig;
    const NAME: &'static str = "w-tinylfu-adaptive";
    const ALIASES: &'static [&'static str] = &["adaptive-w-tinylfu", "hill-climber-w-tinylfu"];
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &WTinyLfuAdaptiveConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let first = WTinyLfuConfig {
            window: config.window,
            protected: config.protected,
        };
        WTinyLfuAdaptive {
            cache: WTinyLfu::new(capacity, &first, seed),
            config: config.clone(),
            is_full: false,
            hits: 0,
            misses: 0,
            hit_ratio_before: 0.0,
            step: -config.step,
            owed: 0,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.cache.keep_shares();
        self.cache.resize(capacity);
    }

    #[inline]
    fn miss(&mut self, facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.misses += u64::from(self.is_full);
        self.cache.miss(facts, key_hash, weight)
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.cache.insert(cells, slot);
        if self.is_full {
            self.climb();
            self.shift(cells);
        }
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.cache.reorder(cells, slot);
        if self.is_full {
            self.hits += 1;
            self.climb();
            self.shift(cells);
        }
    }

    forward!(cache: Node, reweigh moved remove);

    fn evict(&mut self, cells: &mut impl Cells<Node>, budget: &mut Budget) -> Eviction {
        self.is_full = true;
        self.cache.evict(cells, budget)
    }

    fn heap_bytes(&self) -> usize {
        self.cache.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        self.cache.check(cells);
        assert!(self.cache.window_share() >= 0.0);
        assert!(self.step.abs() <= self.config.step);
    }
}
