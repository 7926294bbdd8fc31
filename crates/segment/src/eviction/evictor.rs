//! State of the eviction, and the change to another eviction.

use super::learning::Learning;
use super::plan::{Plan, Store};
use super::setting::{Setting, ranked};
use crate::config::{Config, ConfigError, Eviction};
use crate::storage::{Objects, SegmentLists};
use crate::sync::AtomicU64;
use policy::Tick;

use super::choice::Candidates;

/// Exact counters of removals, readable at any time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) expired: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) flushed: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) segments_evicted: AtomicU64,
    pub(crate) segments_expired: AtomicU64,
    pub(crate) heads_read: AtomicU64,
    pub(crate) scans: AtomicU64,
}

/// State of the eviction outside of the directory's lock.
#[derive(Debug)]
pub(crate) struct EvictionState {
    config: Config,
    pub(super) setting: Setting,
    pub(crate) learning: Learning,
    pub(crate) counters: Counters,
}

/// Evictor that removes objects from storage: it chooses segments, and scans their objects.
#[derive(Debug)]
pub(crate) struct Evictor<'c, C> {
    pub(super) storage: &'c Store<C>,
    pub(super) state: &'c EvictionState,
}

impl<C> Clone for Evictor<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Evictor<'_, C> {}

impl EvictionState {
    pub(crate) fn new(config: &Config, segments: u32, learning: Learning) -> Self {
        EvictionState {
            config: *config,
            setting: Setting::new(config, segments),
            learning,
            counters: Counters::default(),
        }
    }

    /// Returns the configuration with the current eviction.
    pub(crate) fn config(&self) -> Config {
        Config {
            eviction: self.eviction(),
            ..self.config
        }
    }

    #[inline]
    pub(crate) fn eviction(&self) -> Eviction {
        self.setting.eviction()
    }

    /// Returns the number of segments per merge.
    #[inline]
    pub(crate) fn merged(&self) -> u8 {
        match self.config.merged {
            0 => self.eviction().merged(),
            merged => merged,
        }
    }

    /// Returns the number of free segments at or below which eviction begins.
    #[inline]
    pub(crate) fn low_water(&self) -> u32 {
        self.setting.low_water()
    }
}

impl<'c, C: Objects> Evictor<'c, C> {
    pub(crate) fn new(storage: &'c Store<C>, state: &'c EvictionState) -> Self {
        Evictor { storage, state }
    }

    pub(super) fn candidates<'a>(&'a self, lists: &'a SegmentLists, now: Tick) -> Candidates<'a> {
        Candidates {
            heap: self.storage.heap(),
            lists,
            now,
            merged: self.state.merged(),
        }
    }

    /// Changes the eviction.
    ///
    /// A policy over segments receives all segments in the order in which they were opened. An
    /// eviction that merges needs reserved free segments; until these are free, it evicts one
    /// segment at a time. Jobs of the previous eviction are finished unchanged.
    pub(crate) fn set(&self, eviction: Eviction) -> Result<(), ConfigError> {
        let config = Config {
            eviction,
            ..self.state.config
        };
        let segments = self.storage.heap().count();
        config.check_segments(u64::from(segments))?;
        // The policy is created before the lock is taken, because its size grows with the number of
        // segments.
        let mut ranked = ranked(&config, segments);
        if eviction.learns() {
            self.state.learning.watch.prepare(config.memory_bytes);
        }
        let mut directory = self.storage.directory().lock();
        if eviction == self.state.eviction() {
            return Ok(());
        }
        if !eviction.learns() {
            self.state.learning.watch.end();
        }
        if let Some(ranked) = &mut ranked {
            let mut all: Vec<_> = directory.lists.all().collect();
            all.sort_by_key(|&id| directory.lists.created(id));
            all.into_iter().for_each(|id| ranked.linked(id));
        }
        let plan: &mut Plan = &mut directory.plan;
        let before = (
            std::mem::replace(&mut plan.ranked, ranked),
            std::mem::take(&mut plan.ranking),
        );
        self.state.setting.set(&config, segments);
        // Writers that found nothing to evict try again, because this counts as a change.
        directory.set_reserve(config.reserve());
        drop(directory);
        // The previous state is freed without the lock, because its size grows with the number of
        // segments.
        drop(before);
        Ok(())
    }

    /// Expires everything that is stored now. Jobs remove it later.
    pub(crate) fn flush(&self) {
        let mut directory = self.storage.directory().lock();
        self.storage.expire_all(&directory);
        self.state.learning.watch.flushed();
        let ranking = std::mem::take(&mut directory.plan.ranking);
        // The ranking is freed without the lock.
        drop(directory);
        drop(ranking);
    }
}
