//! LeCaR: eviction by LRU or LFU, chosen by regret.
//!
//! # Idea
//! Two experts, LRU and LFU, each name a victim. One of them is drawn by their weights, and the
//! victim's key is remembered with the expert that named it. If the key is requested again, the
//! expert was wrong and loses weight: the more, the more recent the eviction.
//!
//! # Source
//! G. Vietri, L. V. Rodriguez, W. A. Martinez, S. Lyons, J. Liu, R. Rangaswami, M. Zhao, G.
//! Narasimhan, *Driving cache replacement with ML-based LeCaR*, HotStorage 2018,
//! <https://www.usenix.org/conference/hotstorage18/presentation/vietri>. Compared with libCacheSim
//! 0.3.5.
//!
//! # State
//! Per entry: 4 bytes (the number of its node) and a node of 28; one ghost for each at about 40
//! bytes.
//!
//! # Cost
//! hit, insert, remove, evict O(1) · miss: a look-up in two hash tables.
//!
//! # Knobs
//! `learn` (0.45; 0 to 1): the learning rate.
//!
//! # Departures
//! All lengths are weights, but a ghost's age is measured in requests relative to the number of
//! entries. Where both experts name the same victim it leaves no ghost, as in the authors' code. A
//! returning key starts at frequency 1, as in the reference; the authors' later code restores its
//! count. Among the least frequent entries the one that reached its frequency first is evicted; the
//! source leaves this open.
//!
//! # Avoid when
//! Neither LRU nor LFU is good: scans, and loops longer than the cache. Memory per entry matters.

use crate::knobs::Knobs;
use crate::parts::chance::Chance;
#[cfg(not(any(test, feature = "std")))]
use crate::parts::float::Float as _;
use crate::parts::frequencies::{Frequencies, counted};
use crate::parts::history::History;
use crate::parts::pool::{Chain, Links, Pool};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};
use alloc::vec::Vec;

/// Regret for a ghost that is requested as many requests after its eviction as the cache has
/// entries. An earlier request gives more regret.
const DISCOUNT: f64 = 0.005;
/// Maximum number of ghosts that one eviction drops.
const DROPS_MAX: usize = 4;
/// Lower bound of an expert's weight.
const WEIGHT_MIN: f64 = 1e-10;

crate::knobs! {
    /// Knobs of [`Lecar`].
    pub struct LecarConfig {
        /// The learning rate.
        learn: f64 = 0.45, 0.0 => 1.0;
    }
}

/// State of an entry, stored outside of the entry.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    slot: Slot,
    recency: Links,
    frequency: Links,
    group: u32,
    /// Mark of a hit, for experts that need one.
    pub(super) is_visited: bool,
}

counted!(Node);

/// The expert for recency: a list of nodes, from which it chooses a victim.
pub trait Recency: Default + Send {
    /// Name of LeCaR with this expert.
    const NAME: &'static str;
    /// Adds a new node.
    fn insert(&mut self, pool: &mut Pool<Node>, node: u32);
    /// Records a hit on a node.
    fn hit(&mut self, pool: &mut Pool<Node>, node: u32);
    /// Removes a node.
    fn leave(&mut self, pool: &mut Pool<Node>, node: u32);
    /// Returns the node to evict; `None` if there is none or the budget ran out.
    fn candidate(&mut self, pool: &mut Pool<Node>, budget: &mut Budget) -> Option<u32>;
    /// Returns all nodes, for checks.
    fn members(&self, pool: &Pool<Node>) -> Vec<u32>;
}

/// The expert that chooses the least recently used entry.
#[derive(Clone, Debug, Default)]
pub struct LeastRecent(Chain);

impl Recency for LeastRecent {
    const NAME: &'static str = "lecar";

    #[inline]
    fn insert(&mut self, pool: &mut Pool<Node>, node: u32) {
        self.0.push(pool, node);
    }
    #[inline]
    fn hit(&mut self, pool: &mut Pool<Node>, node: u32) {
        self.0.promote(pool, node);
    }
    #[inline]
    fn leave(&mut self, pool: &mut Pool<Node>, node: u32) {
        self.0.unlink(pool, node);
    }
    #[inline]
    fn candidate(&mut self, _pool: &mut Pool<Node>, budget: &mut Budget) -> Option<u32> {
        budget.spend().then(|| self.0.oldest()).flatten()
    }
    fn members(&self, pool: &Pool<Node>) -> Vec<u32> {
        self.0.members(pool)
    }
}

const RECENCY: usize = 0;
const FREQUENCY: usize = 1;

/// LeCaR with an expert `R` for recency.
#[derive(Clone, Debug)]
pub struct Lecar<R = LeastRecent> {
    pool: Pool<Node>,
    recency: R,
    frequency: Frequencies,
    /// For each expert, the keys of its victims, and the request at which each was evicted.
    regrets: [History<u64>; 2],
    /// Weight of the expert for recency. The weight of the other expert is 1 minus this.
    trust: f64,
    chance: Chance,
    capacity: u64,
    learn: f64,
}

impl<R: Recency> Lecar<R> {
    /// Lowers the weight of an expert whose victim was requested again after `age` requests.
    fn learn(&mut self, expert: usize, age: u64, entries: usize) {
        let regret = DISCOUNT.powf(age as f64 / entries.max(1) as f64);
        let mut trust = [self.trust, 1.0 - self.trust];
        trust[expert] *= (-self.learn * regret).exp();
        let trust = trust.map(|trust| trust + WEIGHT_MIN);
        self.trust = trust[RECENCY] / (trust[RECENCY] + trust[FREQUENCY]);
    }

    /// Removes a node from both experts and frees it.
    fn forget(&mut self, node: u32) {
        self.recency.leave(&mut self.pool, node);
        self.frequency.leave(&mut self.pool, node);
        self.pool.remove(node);
    }

    fn remember(&mut self, cells: &impl Facts, slot: Slot, expert: usize) {
        let regrets = &mut self.regrets[expert];
        regrets.push(cells.key_hash(slot), cells.weight(slot), cells.requests());
        for _ in 0..DROPS_MAX {
            if regrets.weight() > self.capacity / 2 {
                regrets.pop();
            }
        }
    }
}

impl<R: Recency> Policy for Lecar<R> {
    type Meta = u32;
    type Config = LecarConfig;
    const NAME: &'static str = R::NAME;
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &LecarConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Lecar {
            pool: Pool::new(),
            recency: R::default(),
            frequency: Frequencies::new(),
            regrets: [History::new(), History::new()],
            trust: 0.5,
            chance: Chance::new(seed),
            capacity,
            learn: config.learn,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    fn miss(&mut self, facts: &impl Facts, key_hash: u64, _weight: u32) -> Admit {
        for expert in [RECENCY, FREQUENCY] {
            if let Some((_, then)) = self.regrets[expert].take(key_hash) {
                self.learn(expert, facts.requests().saturating_sub(then), facts.len());
            }
        }
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let node = self.pool.add(Node {
            slot,
            recency: Links::default(),
            frequency: Links::default(),
            group: 0,
            is_visited: false,
        });
        self.recency.insert(&mut self.pool, node);
        self.frequency.enter(&mut self.pool, node, 1);
        cells.set(slot, node);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let node = cells.get(slot);
        self.recency.hit(&mut self.pool, node);
        self.frequency.hit(&mut self.pool, node);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.pool.at_mut(cells.get(new)).slot = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.forget(cells.get(slot));
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        let Some(frequent) = self.frequency.oldest_of_least() else {
            return Eviction::Empty;
        };
        let Some(recent) = self.recency.candidate(&mut self.pool, budget) else {
            return Eviction::Again;
        };
        let expert = if self.chance.unit() < self.trust {
            RECENCY
        } else {
            FREQUENCY
        };
        let node = [recent, frequent][expert];
        let victim = self.pool.at(node).slot;
        if recent != frequent {
            self.remember(cells, victim, expert);
        }
        self.forget(node);
        Eviction::Victim(victim)
    }

    fn usage(&self, cells: &impl Cells<u32>, slot: Slot) -> (Option<u64>, Option<u32>) {
        let frequency = self.frequency.frequency(&self.pool, cells.get(slot));
        (None, Some(frequency))
    }

    fn heap_bytes(&self) -> usize {
        let regrets: usize = self.regrets.iter().map(History::heap_bytes).sum();
        self.pool.heap_bytes() + self.frequency.heap_bytes() + regrets
    }

    fn check(&self, cells: &impl Cells<u32>) {
        let members = self.recency.members(&self.pool);
        for &node in &members {
            let slot = self.pool.at(node).slot;
            assert!(cells.is_live(slot));
            assert_eq!(cells.get(slot), node);
        }
        assert_eq!(members.len(), self.pool.len());
        assert_eq!(self.frequency.check(&self.pool).len(), self.pool.len());
        self.regrets.iter().for_each(History::check);
        assert!((0.0..=1.0).contains(&self.trust));
    }
}
