//! Current eviction, which any thread may change at any time.

use super::ranked::Ranked;
use crate::config::{Config, Eviction};
// Relaxed is enough, because these values publish no other data: what an eviction needs is guarded
// by the directory's lock.
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Minimum number of segments for evicting ahead of need. With fewer, a free segment would be a
/// large share of the memory.
const AHEAD_FROM: u32 = 32;

/// Current eviction, and the number of free segments at which it begins.
#[derive(Debug)]
pub(super) struct Setting {
    /// Index of the eviction in [`Eviction::ALL`].
    eviction: AtomicU8,
    /// Number of free segments at or below which eviction begins.
    low_water: AtomicU32,
}

impl Setting {
    pub(super) fn new(config: &Config, segments: u32) -> Self {
        let setting = Setting {
            eviction: AtomicU8::new(0),
            low_water: AtomicU32::new(0),
        };
        setting.set(config, segments);
        setting
    }

    pub(super) fn set(&self, config: &Config, segments: u32) {
        let index = Eviction::ALL.iter().position(|&one| one == config.eviction);
        let index = index.expect("ALL lists every eviction") as u8;
        let ahead = match config.eviction {
            Eviction::None => 0,
            _ if segments < AHEAD_FROM => 0,
            _ => u32::from(config.writers),
        };
        self.eviction.store(index, Relaxed);
        self.low_water.store(config.reserve() + ahead, Relaxed);
    }

    #[inline]
    pub(super) fn eviction(&self) -> Eviction {
        Eviction::ALL[usize::from(self.eviction.load(Relaxed))]
    }

    #[inline]
    pub(super) fn low_water(&self) -> u32 {
        self.low_water.load(Relaxed)
    }
}

/// Creates the replacement policy over segments, without segments yet. `None` if the eviction uses
/// none.
pub(crate) fn ranked(config: &Config, segments: u32) -> Option<Ranked> {
    let spec = config.eviction.policy()?;
    Ranked::new(&spec, segments, config.seed)
}
