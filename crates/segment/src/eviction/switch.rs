//! Which eviction is in force, and how another comes into force at any moment.
//!
//! Who chooses segments by a policy keeps ranks of them: these are made anew, in the order in which the segments
//! were opened, for which all are gone through under the chains' lock. Who merges keeps segments free: what is
//! missing of these is what the next evictions leave, each of which gives up one segment as long as there is none
//! to merge into. What was begun before goes on as it began.

use crate::config::{Config, ConfigError, Eviction};
use crate::engine::Segcache;
use crate::eviction::ranked::Ranked;
use crate::storage::content::Objects;
// Neither publishes anything: what a choice needs is behind the chains' lock.
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Heaps of fewer segments evict only when they must: a segment kept free would be a large share.
const AHEAD_FROM: u32 = 32;

/// The choice in force.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Its place in [`Eviction::ALL`].
    eviction: AtomicU8,
    /// Eviction begins when no more segments are free.
    low_water: AtomicU32,
}

impl Choice {
    pub(crate) fn new(config: &Config, segments: u32) -> Self {
        let choice = Choice {
            eviction: AtomicU8::new(0),
            low_water: AtomicU32::new(0),
        };
        choice.set(config, segments);
        choice
    }

    fn set(&self, config: &Config, segments: u32) {
        let place = Eviction::ALL.iter().position(|&one| one == config.eviction);
        let place = place.expect("all are there") as u8;
        let ahead = match config.eviction {
            Eviction::None => 0,
            _ if segments < AHEAD_FROM => 0,
            _ => u32::from(config.writers),
        };
        self.eviction.store(place, Relaxed);
        self.low_water.store(config.reserve() + ahead, Relaxed);
    }

    #[inline]
    pub(crate) fn low_water(&self) -> u32 {
        self.low_water.load(Relaxed)
    }
}

/// The policy that chooses segments, where one does, which knows of none yet.
pub(crate) fn ranked(config: &Config, segments: u32) -> Option<Ranked> {
    let spec = config.eviction.policy()?;
    Ranked::new(&spec, segments, config.seed)
}

impl<C: Objects> Segcache<C> {
    /// Which segments go when memory is short.
    pub fn eviction(&self) -> Eviction {
        Eviction::ALL[usize::from(self.choice.eviction.load(Relaxed))]
    }

    /// How many segments become one.
    pub(crate) fn merged(&self) -> u8 {
        match self.config.merged {
            0 => self.eviction().merged(),
            merged => merged,
        }
    }

    /// The configuration with the eviction in force.
    pub(crate) fn config_now(&self) -> Config {
        Config {
            eviction: self.eviction(),
            ..self.config
        }
    }

    /// From now on others go. Any thread may say so at any time.
    ///
    /// # Errors
    /// Too few segments for those that a merging one keeps free. Nothing has changed then.
    pub fn set_eviction(&self, eviction: Eviction) -> Result<(), ConfigError> {
        let config = Config {
            eviction,
            ..self.config
        };
        let segments = self.heap.count();
        if u64::from(segments) < config.segments_least() {
            let more = config.segments_least() - u64::from(segments);
            return Err(ConfigError::TooSmall {
                needed_bytes: config.memory_bytes + more * config.segment_bytes as u64,
            });
        }
        // Made before the lock is taken: it is as large as there are segments.
        let ranked = ranked(&config, segments);
        if eviction.learns() {
            self.learning.watch.prepare(config.memory_bytes);
        }
        let mut chains = self.heap.chains();
        if eviction == self.eviction() {
            return Ok(());
        }
        if !eviction.learns() {
            self.learning.watch.end();
        }
        let before = chains.choose_by(config.reserve(), ranked);
        self.choice.set(&config, segments);
        // Whoever found nothing to evict looks again.
        self.heap.tell_free(&chains);
        drop(chains);
        // As large as there are segments, too.
        drop(before);
        Ok(())
    }
}
