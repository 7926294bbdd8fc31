//! 2Q, the full version: a FIFO for new entries, an LRU for returning ones, and ghosts between
//! them; `twoq-sieve` has a SIEVE for the returning ones.
//!
//! # Idea
//! A new entry enters the FIFO *A1in*, where hits do not count, because they may belong to one
//! burst. The keys of its victims are remembered in *A1out*. A key that is requested while it is
//! remembered returns after some time, so it is worth keeping: it enters the LRU *Am*.
//!
//! # Source
//! T. Johnson, D. Shasha, *2Q: a low overhead high performance buffer management replacement
//! algorithm*, VLDB 1994, <https://www.vldb.org/conf/1994/P439.PDF>; with SIEVE: chapter 9.5.2 in
//! J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU 2024. 2Q
//! compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bytes (two links of 31 bits, which queue). Besides: half a ghost per entry at 5
//! bytes.
//!
//! # Cost
//! hit, insert, remove, evict O(1); with SIEVE one step per entry spared · miss: a look-up in two
//! cache lines of ghosts.
//!
//! # Knobs
//! `newcomers` (0.25; 0.001 to 0.99): A1in's share of the capacity. `ghost` (0.5; 0 to 10): the
//! weight that A1out remembers, as a share of the capacity.
//!
//! # Departures
//! Ghosts are fingerprints (see [`ghost`](crate::parts::ghost)). The queue that gives up an entry
//! is chosen when room is needed: A1in if it is above its share, else Am; the reference's Am also
//! evicts when it alone is full.
//!
//! # Avoid when
//! Popular entries are requested in one burst only, or hits must not take locks.

use crate::knobs::Knobs;
use crate::parts::ghost::Ghost;
use crate::parts::list::{List, Node};
use crate::parts::shelf::{LruShelf, Shelf, SieveShelf};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// Index of A1in.
const NEW: usize = 0;
/// Index of Am.
const MAIN: usize = 1;

crate::knobs! {
    /// Knobs of [`TwoQ`].
    pub struct TwoQConfig {
        /// Share of the capacity for A1in.
        newcomers: f64 = 0.25, 0.001 => 0.99;
        /// Weight that A1out remembers, as a share of the capacity.
        ghost: f64 = 0.5, 0.0 => 10.0;
    }
}

/// A shelf that can be Am.
pub trait Am: Shelf {
    /// Name of 2Q with this shelf.
    const TWOQ_NAME: &'static str;
    /// Other names of 2Q with this shelf.
    const TWOQ_ALIASES: &'static [&'static str];
}

impl Am for LruShelf {
    const TWOQ_NAME: &'static str = "twoq";
    const TWOQ_ALIASES: &'static [&'static str] = &["2q"];
}
impl Am for SieveShelf {
    const TWOQ_NAME: &'static str = "twoq-sieve";
    const TWOQ_ALIASES: &'static [&'static str] = &["2q-sieve"];
}

/// The 2Q policy with the shelf `S` as Am.
#[derive(Clone, Debug)]
pub struct TwoQ<S = LruShelf> {
    newcomers: List,
    main: S,
    weight: [u64; 2],
    new_capacity: u64,
    capacity: u64,
    ghost: Ghost,
    returning: Option<u64>,
    config: TwoQConfig,
}

/// Index of the queue that the entry is in.
#[inline]
fn list_of(node: Node) -> usize {
    usize::from(node.list()) & MAIN
}

impl<S: Am> Policy for TwoQ<S> {
    type Meta = Node;
    type Config = TwoQConfig;
    const NAME: &'static str = S::TWOQ_NAME;
    const ALIASES: &'static [&'static str] = S::TWOQ_ALIASES;
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &TwoQConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        TwoQ {
            newcomers: List::new(NEW as u8),
            main: S::new(MAIN as u8),
            weight: [0, 0],
            new_capacity: (capacity as f64 * config.newcomers) as u64,
            capacity,
            ghost: Ghost::new((capacity as f64 * config.ghost) as u64),
            returning: None,
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.new_capacity = (capacity as f64 * self.config.newcomers) as u64;
        self.ghost
            .resize((capacity as f64 * self.config.ghost) as u64);
    }

    #[inline]
    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.returning = self.ghost.take(key_hash, weight).then_some(key_hash);
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let returning = self.returning.take();
        let is_back = returning.is_some_and(|key_hash| key_hash == cells.key_hash(slot));
        let list = if is_back { MAIN } else { NEW };
        if is_back {
            self.main.push(cells, slot);
        } else {
            self.newcomers.push(cells, slot);
        }
        self.weight[list] += u64::from(cells.weight(slot));
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        if list_of(cells.get(slot)) == MAIN {
            self.main.hit(cells, slot);
        }
    }

    fn reweigh(&mut self, cells: &mut impl Cells<Node>, slot: Slot, old_weight: u32) {
        let list = list_of(cells.get(slot));
        let weight = self.weight[list] - u64::from(old_weight);
        self.weight[list] = weight + u64::from(cells.weight(slot));
    }

    fn moved(&mut self, cells: &mut impl Cells<Node>, old: Slot, new: Slot) {
        if list_of(cells.get(new)) == MAIN {
            self.main.moved(cells, old, new);
        } else {
            self.newcomers.moved(cells, new);
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let list = list_of(cells.get(slot));
        if list == MAIN {
            self.main.unlink(cells, slot);
        } else {
            self.newcomers.unlink(cells, slot);
        }
        self.weight[list] -= u64::from(cells.weight(slot));
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<Node>, budget: &mut Budget) -> Eviction {
        if self.newcomers.is_empty() && self.main.list().is_empty() {
            return Eviction::Empty;
        }
        while budget.spend() {
            let live = (self.newcomers.len() + self.main.list().len()) as f64;
            let all = (self.weight[NEW] + self.weight[MAIN]).max(1) as f64;
            if self.weight[NEW] <= self.new_capacity && !self.main.list().is_empty() {
                if let Some(victim) = self.main.step(cells) {
                    self.weight[MAIN] -= u64::from(cells.weight(victim));
                    return Eviction::Victim(victim);
                }
                continue;
            }
            let victim = self.newcomers.pop(cells);
            let victim = victim.expect("newcomers are above their share, or alone");
            let weight = cells.weight(victim);
            self.weight[NEW] -= u64::from(weight);
            let window = self.capacity as f64 * self.config.ghost;
            let expected = || (window * live / all) as u64;
            self.ghost.file(cells.key_hash(victim), weight, expected);
            return Eviction::Victim(victim);
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        self.ghost.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        self.ghost.check();
        assert_eq!(self.newcomers.check(cells), self.weight[NEW]);
        assert_eq!(self.main.check(cells), self.weight[MAIN]);
    }
}
