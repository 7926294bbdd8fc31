//! MQ: multi-queue.
//!
//! # Idea
//! A cache below another cache sees the requests that missed there: long reuse distances, but
//! frequencies that still distinguish entries. There is an LRU queue for each power of two of the
//! frequency, and the victim comes from the lowest. An entry without a request during a *lifetime*
//! moves down one queue, and so is evicted in the end. A victim's key is remembered with its
//! frequency.
//!
//! # Source
//! Y. Zhou, J. F. Philbin, K. Li, *The multi-queue replacement algorithm for second level buffer
//! caches*, USENIX ATC 2001,
//! <https://www.usenix.org/conference/2001-usenix-annual-technical-conference/multi-queue-replacement-algorithm-second-level-buffer>.
//! Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 4 bytes (the number of its node) and a node of 32 bytes; per remembered key about 40.
//!
//! # Cost
//! hit, insert O(queues) · remove, evict O(1) · miss: a look-up in a hash table.
//!
//! # Knobs
//! `queues` (8; 1 to 16): number of queues. `lifetime` (10000; 1 to 1,000,000,000): requests until
//! an entry moves down. `history` (4; 0 to 10): maximum weight of the remembered keys, as a
//! multiple of the capacity.
//!
//! # Departures
//! The lifetime is a knob, as in the reference; the source also learns it while it runs.
//!
//! # Avoid when
//! The cache is the first one: recency then says more (`lru`, `s3fifo`). Memory is short.

use crate::knobs::Knobs;
use crate::parts::history::History;
use crate::parts::pool::{Chain, Links, Pool, chained};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};
use alloc::vec;
use alloc::vec::Vec;

crate::knobs! {
    /// Knobs of [`Mq`].
    pub struct MqConfig {
        /// Number of queues.
        queues: u8 = 8, 1 => 16;
        /// Number of requests after which an entry moves to the next lower queue, unless it is
        /// requested again.
        lifetime: u32 = 10000, 1 => 1000000000;
        /// Maximum weight of the remembered keys, as a multiple of the capacity.
        history: f64 = 4.0, 0.0 => 10.0;
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    slot: Slot,
    frequency: u32,
    links: Links,
    /// Number of the request after which the entry moves to the next lower queue.
    expires: u64,
    queue: u8,
}

chained!(Node: links);

/// The MQ policy.
#[derive(Clone, Debug)]
pub struct Mq {
    nodes: Pool<Node>,
    /// Queues in order of frequency, the lowest first.
    queues: Vec<Chain>,
    /// Frequency of each remembered key.
    history: History<u32>,
    history_capacity: u64,
    /// Number of requests so far.
    now: u64,
    /// Key that was found in the history and is about to be inserted, with its frequency.
    returning: Option<(u64, u32)>,
    config: MqConfig,
}

impl Mq {
    /// Puts a node at the young end of a queue.
    #[inline]
    fn enter(&mut self, index: u32, queue: usize) {
        let node = self.nodes.at_mut(index);
        node.queue = queue as u8;
        node.expires = self.now + u64::from(self.config.lifetime);
        self.queues[queue].push(&mut self.nodes, index);
    }

    #[inline]
    fn leave(&mut self, index: u32) {
        let queue = usize::from(self.nodes.at(index).queue);
        self.queues[queue].unlink(&mut self.nodes, index);
    }

    /// Returns the queue of a frequency: its logarithm.
    #[inline]
    fn queue_of(&self, frequency: u32) -> usize {
        (frequency.max(1).ilog2() as usize).min(self.queues.len() - 1)
    }

    /// Moves the oldest entry of each queue to the next lower one if its lifetime is over: the
    /// source's Adjust.
    #[inline]
    fn adjust(&mut self) {
        self.now += 1;
        for queue in 1..self.queues.len() {
            if let Some(index) = self.queues[queue].oldest()
                && self.nodes.at(index).expires < self.now
            {
                self.leave(index);
                self.enter(index, queue - 1);
            }
        }
    }
}

impl Policy for Mq {
    type Meta = u32;
    type Config = MqConfig;
    const NAME: &'static str = "mq";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &MqConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Mq {
            nodes: Pool::new(),
            queues: vec![Chain::new(); usize::from(config.queues)],
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
        self.returning = found.map(|(_, frequency)| (key_hash, frequency));
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let returning = self.returning.take();
        let returning = returning.filter(|(key_hash, _)| *key_hash == cells.key_hash(slot));
        let frequency = returning.map_or(1, |(_, frequency)| frequency.saturating_add(1));
        let index = self.nodes.add(Node {
            slot,
            frequency,
            links: Links::default(),
            expires: 0,
            queue: 0,
        });
        cells.set(slot, index);
        self.enter(index, self.queue_of(frequency));
        self.adjust();
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let index = cells.get(slot);
        let frequency = self.nodes.at(index).frequency.saturating_add(1);
        self.nodes.at_mut(index).frequency = frequency;
        self.leave(index);
        self.enter(index, self.queue_of(frequency));
        self.adjust();
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.nodes.at_mut(cells.get(new)).slot = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let index = cells.get(slot);
        self.leave(index);
        self.nodes.remove(index);
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        let Some(index) = self.queues.iter().find_map(Chain::oldest) else {
            return Eviction::Empty;
        };
        if !budget.spend() {
            return Eviction::Again;
        }
        let Node {
            slot, frequency, ..
        } = self.nodes.at(index);
        self.leave(index);
        self.nodes.remove(index);
        if self.history_capacity > 0 {
            let (key_hash, weight) = (cells.key_hash(slot), cells.weight(slot));
            self.history.push(key_hash, weight, frequency);
        }
        self.history.bound(self.history_capacity);
        Eviction::Victim(slot)
    }

    fn usage(&self, cells: &impl Cells<u32>, slot: Slot) -> (Option<u64>, Option<u32>) {
        (None, Some(self.nodes.at(cells.get(slot)).frequency))
    }

    fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes()
            + self.history.heap_bytes()
            + self.queues.capacity() * size_of::<Chain>()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        let mut count = 0;
        for (queue, chain) in self.queues.iter().enumerate() {
            for index in chain.members(&self.nodes) {
                let node = self.nodes.at(index);
                assert!(cells.is_live(node.slot));
                assert_eq!(cells.get(node.slot), index);
                assert_eq!(usize::from(node.queue), queue);
                assert!(queue <= self.queue_of(node.frequency));
                count += 1;
            }
        }
        assert_eq!(count, self.nodes.len());
        self.history.check();
    }
}
