//! LRU-K with K = 2: the victim is the entry whose last request but one is the longest ago.
//!
//! # Idea
//! The time of the last request says little, because it may be the only one. The time of the last
//! but one shows how often an entry is requested. Entries requested once are evicted first, the
//! least recent first. An evicted entry's last request is remembered; otherwise a key that returns
//! more rarely than the cache turns over could never show a second one.
//!
//! # Source
//! E. J. O'Neil, P. E. O'Neil, G. Weikum, *The LRU-K page replacement algorithm for database disk
//! buffering*, SIGMOD 1993, <https://doi.org/10.1145/170035.170081>. Compared with libCacheSim
//! 0.3.5.
//!
//! # State
//! Per entry: 4 bytes (its place in a heap) and 24 in the heap; per remembered key about 40.
//!
//! # Cost
//! hit, insert, remove, evict O(log n) · miss: a look-up in a hash table.
//!
//! # Knobs
//! `history` (1; 0 to 10): maximum weight of the remembered keys, as a multiple of the capacity.
//! `correlated` (0; 0 to 1,000,000): a request that comes at most this many requests after the
//! entry's last one counts as part of it and only renews it: the source's *Correlated Reference
//! Period*.
//!
//! # Departures
//! K is 2: the source finds little gain beyond. An entry within its Correlated Reference Period is
//! not spared by evictions. The *Retained Information Period* is a weight, not a time.
//!
//! The reference remembers nothing (`history=0`, which is compared with it): once the cache is full
//! of entries requested twice, a new entry is the next victim, and the miss ratio stays near LFU's:
//! 0.554 on `arc_oltp` at 18,688 objects, where the source's history leads to 0.378, and with
//! `correlated=10000` to 0.365.
//!
//! # Avoid when
//! A hit must be cheap, or memory is short: the history weighs as much as the entries' own state.

use crate::knobs::Knobs;
use crate::parts::heap::Heap;
use crate::parts::history::History;
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

crate::knobs! {
    /// Knobs of [`LruK`].
    pub struct LruKConfig {
        /// Maximum weight of the remembered keys, as a multiple of the capacity.
        history: f64 = 1.0, 0.0 => 10.0;
        /// The source's Correlated Reference Period, in requests.
        correlated: u32 = 0, 0 => 1000000;
    }
}

/// Order of eviction; times are numbers of requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Times {
    /// Time of the last request but one. It is 0 if there was none; then the last request decides.
    before: u64,
    last: u64,
}

/// The LRU-2 policy.
#[derive(Clone, Debug)]
pub struct LruK {
    heap: Heap<Times>,
    /// Last request for each remembered key.
    history: History<u64>,
    history_capacity: u64,
    /// Number of requests so far.
    now: u64,
    /// Key that was found in the history and is about to be inserted, with its last request.
    returning: Option<(u64, u64)>,
    config: LruKConfig,
}

impl Policy for LruK {
    type Meta = u32;
    type Config = LruKConfig;
    const NAME: &'static str = "lru-k";
    const ALIASES: &'static [&'static str] = &["lru-2"];
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &LruKConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        LruK {
            heap: Heap::new(),
            history: History::new(),
            history_capacity: (capacity as f64 * config.history) as u64,
            now: 0,
            returning: None,
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.history_capacity = (capacity as f64 * self.config.history) as u64;
    }

    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, _weight: u32) -> Admit {
        let found = self.history.take(key_hash);
        self.returning = found.map(|(_, last)| (key_hash, last));
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.now += 1;
        let returning = self.returning.take();
        let returning = returning.filter(|(key_hash, _)| *key_hash == cells.key_hash(slot));
        let times = Times {
            before: returning.map_or(0, |(_, last)| last),
            last: self.now,
        };
        self.heap.push(cells, slot, times);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.now += 1;
        let Times { before, last } = self.heap.rank(cells, slot);
        let is_correlated = self.now - last <= u64::from(self.config.correlated);
        let times = Times {
            before: if is_correlated { before } else { last },
            last: self.now,
        };
        self.heap.rerank(cells, slot, times);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.heap.moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.heap.remove(cells, slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        let Some((times, victim)) = self.heap.top() else {
            return Eviction::Empty;
        };
        if !budget.spend() {
            return Eviction::Again;
        }
        self.heap.remove(cells, victim);
        if self.history_capacity > 0 {
            let (key_hash, weight) = (cells.key_hash(victim), cells.weight(victim));
            self.history.push(key_hash, weight, times.last);
        }
        self.history.bound(self.history_capacity);
        Eviction::Victim(victim)
    }

    fn heap_bytes(&self) -> usize {
        self.heap.heap_bytes() + self.history.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        self.heap.check(cells);
        self.history.check();
    }
}
