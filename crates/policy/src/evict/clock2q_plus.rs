//! Clock2Q+: S3-FIFO's queues, with one bit per entry and a correlation window.
//!
//! # Idea
//! Blocks of metadata are requested several times at once and then not again for long. A hit on an
//! entry of the small queue counts only if as many entries as half of the queue were inserted after
//! it. A counted hit leads to the main clock, in which entries have one bit; others are evicted and
//! remembered, and return to main.
//!
//! # Source
//! Y. Zhai, J. Yang et al., *Clock2Q+: a simple and efficient replacement algorithm for metadata
//! cache in VMware vSAN*, 2025, <https://arxiv.org/abs/2511.21958>. Compared with libCacheSim's
//! `Clock2QPlus`.
//!
//! # State
//! The same as in [`s3fifo`](super::s3fifo). The window takes no bits, because it is kept as a set
//! of the small queue's newest epochs.
//!
//! # Cost
//! The same as in S3-FIFO, plus one test of a bit per hit.
//!
//! # Knobs
//! `small` (0.1; 0.001 to 0.9): the small queue's share of the capacity. `ghost` (0.9; 0 to 10):
//! the weight that the ghost queue remembers, as a share of the capacity. `window` (0.5; 0 to
//! 0.95): the share of the small queue in which hits do not count.
//!
//! # Departures
//! The same as in S3-FIFO, on which the reference is built, too. Within 1 % of the reference on its
//! 27 rows. The window ends where an epoch of the small queue begins, which is at most a 24th of
//! the queue later than in the source.
//!
//! # Avoid when
//! Entries that are requested twice in a short time are requested again for long: they pass through
//! small twice.

use super::s3fifo::{S3Fifo, S3FifoConfig};
use crate::knobs::Knobs;
#[cfg(not(any(test, feature = "std")))]
use crate::parts::float::Float as _;
use crate::{Admit, Cells, Facts, Marker, OnHit, Policy};

crate::knobs! {
    /// Knobs of [`Clock2QPlus`].
    pub struct Clock2QPlusConfig {
        /// Share of the capacity for the small queue.
        small: f64 = 0.1, 0.001 => 0.9;
        /// Weight that the ghost queue remembers, as a share of the capacity.
        ghost: f64 = 0.9, 0.0 => 10.0;
        /// Share of the small queue in which hits do not count.
        window: f64 = 0.5, 0.0 => 0.95;
    }
}

/// The Clock2Q+ policy.
#[derive(Clone, Debug)]
pub struct Clock2QPlus {
    queues: S3Fifo,
    config: Clock2QPlusConfig,
}

impl Clock2QPlus {
    fn set_window(&mut self) {
        let window = self.queues.small_capacity() as f64 * self.config.window;
        self.queues.set_small_window(window.ceil() as u64);
    }
}

impl Policy for Clock2QPlus {
    type Meta = u8;
    type Config = Clock2QPlusConfig;
    const NAME: &'static str = "clock2q-plus";
    const ALIASES: &'static [&'static str] = &["clock2q+"];
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, config: &Clock2QPlusConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let queues = S3FifoConfig {
            small: config.small,
            ghost: config.ghost,
            threshold: 1,
        };
        let mut policy = Clock2QPlus {
            queues: S3Fifo::new(capacity, &queues, seed),
            config: config.clone(),
        };
        policy.set_window();
        policy
    }

    fn resize(&mut self, capacity: u64) {
        self.queues.resize(capacity);
        self.set_window();
    }

    #[inline]
    fn miss(&mut self, facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.queues.miss(facts, key_hash, weight)
    }

    forward!(queues: u8, insert reweigh moved remove evict usage heap_bytes_ahead);

    #[inline]
    fn marker(&self) -> Marker {
        self.queues.windowed_marker(1)
    }
    mark_by_marker!(u8);

    fn heap_bytes(&self) -> usize {
        self.queues.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.queues.check(cells);
    }
}
