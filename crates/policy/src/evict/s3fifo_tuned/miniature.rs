//! Several small S3-FIFO caches over the same sample of keys, which show which border would have
//! been best.
//!
//! Each is what [`s3fifo`](crate::evict::s3fifo) would be with other knobs, at a fraction of the
//! capacity and for an equal fraction of the keys. By the similarity of a hashed sample it has the
//! miss ratio of the whole (C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, *Efficient MRC
//! construction with SHARDS*, FAST 2015; C. A. Waldspurger, T. Saemundson, I. Ahmad, N. Park,
//! *Cache modeling and optimization using miniature simulations*, USENIX ATC 2017). All share one
//! table of keys, in which a key has a byte for each cache; queues hold the numbers of keys.
//!
//! Nothing is deleted here: expiry and deletion are not reported, because all caches would lose the
//! key alike.

use crate::parts::lookup::{Lookup, keyed};
use crate::parts::pool::{Links, NONE, Pool, chained};
use alloc::collections::VecDeque;

/// Number of caches.
pub(super) const COUNT: usize = 8;
/// Maximum number of hits that is counted for a key.
const HITS_MAX: u8 = 3;
/// Weight of the ghosts, as a share of the capacity.
const GHOST: f64 = 0.9;
/// Number of stale references to ghosts below which no sweep is made.
const STALE_MIN: usize = 64;

/// Border of an S3-FIFO cache: the small queue's share of the capacity, and the hits that lead to
/// main.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Border {
    pub(super) small: f64,
    pub(super) threshold: u8,
}

/// State of a key in one cache:
/// ```text
/// bit 7   4 3  2 1    0
/// [ stale ][hits][queue]     stale: references in the ghost queue that are none of the key's ghost
/// ```
/// 0: no state, and no queue names the key.
type State = u8;

const QUEUE: u8 = 3;
const SMALL: u8 = 1;
const MAIN: u8 = 2;
const LEFT: u8 = 3;
const ONE_HIT: u8 = 1 << 2;
const HITS: u8 = 3 << 2;
const ONE_STALE: u8 = 1 << 4;
const STALE: u8 = 15 << 4;

#[derive(Clone, Copy, Debug)]
struct Key {
    key_hash: u64,
    weight: u32,
    /// Next key in the same bucket of the hash table.
    chain: u32,
    /// Links of a vacant node in the list of vacant nodes.
    links: Links,
    states: [State; COUNT],
}

chained!(Key: links);
keyed!(Key);

/// One cache, which uses its own state of each key.
#[derive(Clone, Debug, Default)]
struct Cache {
    /// Keys in small, in main and in the ghost queue, the oldest first.
    queues: [VecDeque<u32>; 3],
    weights: [u64; 3],
    ghosts: usize,
    small_capacity: u64,
    threshold: u8,
    has_evicted: bool,
}

/// All caches.
#[derive(Clone, Debug)]
pub(super) struct Miniatures {
    keys: Pool<Key>,
    lookup: Lookup,
    caches: [Cache; COUNT],
    borders: [Border; COUNT],
    capacity: u64,
}

impl Miniatures {
    /// Creates empty caches of these borders, each of `capacity`.
    pub(super) fn new(borders: [Border; COUNT], capacity: u64) -> Self {
        let mut miniatures = Miniatures {
            keys: Pool::new(),
            lookup: Lookup::new(),
            caches: Default::default(),
            borders,
            capacity,
        };
        miniatures.resize(capacity);
        miniatures
    }

    /// Sets the capacity; keys that no longer fit are evicted by the next requests.
    pub(super) fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        for (cache, border) in self.caches.iter_mut().zip(self.borders) {
            cache.small_capacity = (capacity as f64 * border.small) as u64;
            cache.threshold = border.threshold;
        }
    }

    /// Whether all caches have evicted, so that their misses can be compared.
    pub(super) fn are_full(&self) -> bool {
        self.caches.iter().all(|cache| cache.has_evicted)
    }

    /// Handles a request. Returns which of the caches missed; `None` for an object that none of
    /// them could hold.
    pub(super) fn request(&mut self, key_hash: u64, weight: u32) -> Option<[bool; COUNT]> {
        let index = match self.lookup.find(&self.keys, key_hash) {
            Some(index) => index,
            None if u64::from(weight) > self.capacity => return None,
            None => {
                let index = self.keys.add(Key {
                    key_hash,
                    weight,
                    chain: NONE,
                    links: Links::default(),
                    states: [0; COUNT],
                });
                self.lookup.add(&mut self.keys, index);
                index
            }
        };
        let mut missed = [false; COUNT];
        for (number, missed) in missed.iter_mut().enumerate() {
            let state = self.keys.at_mut(index).states[number];
            *missed = !matches!(state & QUEUE, SMALL | MAIN);
            if !*missed {
                let hit = if state & HITS < HITS_MAX * ONE_HIT {
                    ONE_HIT
                } else {
                    0
                };
                self.keys.at_mut(index).states[number] = state + hit;
                continue;
            }
            let mut table = Table {
                keys: &mut self.keys,
                lookup: &mut self.lookup,
                number,
                current: index,
            };
            self.caches[number].miss(&mut table, self.capacity);
        }
        Some(missed)
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let queues = self.caches.iter().flat_map(|cache| &cache.queues);
        let references: usize = queues.map(VecDeque::capacity).sum();
        references * size_of::<u32>() + self.keys.heap_bytes() + self.lookup.heap_bytes()
    }

    /// Panics if the caches are inconsistent.
    pub(super) fn check(&self) {
        for (number, cache) in self.caches.iter().enumerate() {
            let state = |index: &u32| self.keys.at(*index).states[number];
            for (queue, name) in [SMALL, MAIN].into_iter().enumerate() {
                let members = &cache.queues[queue];
                assert!(members.iter().all(|index| state(index) & QUEUE == name));
                let weights = members
                    .iter()
                    .map(|index| u64::from(self.keys.at(*index).weight));
                assert_eq!(weights.sum::<u64>(), cache.weights[queue]);
            }
            let ghosts = &cache.queues[2];
            assert!(ghosts.len() <= 2 * cache.ghosts + STALE_MIN);
            assert!(ghosts.iter().all(|index| state(index) != 0));
        }
    }
}

/// The table of keys during a request, with access to the state of one cache.
struct Table<'a> {
    keys: &'a mut Pool<Key>,
    lookup: &'a mut Lookup,
    number: usize,
    current: u32,
}

impl Table<'_> {
    fn state(&self, index: u32) -> State {
        self.keys.at(index).states[self.number]
    }

    fn weight(&self, index: u32) -> u64 {
        u64::from(self.keys.at(index).weight)
    }

    /// Stores a key's state. A key that is in no cache any more is removed from the table.
    fn set_state(&mut self, index: u32, state: State) {
        self.keys.at_mut(index).states[self.number] = state;
        if index != self.current && self.keys.at(index).states == [0; COUNT] {
            self.lookup.remove(self.keys, index);
            self.keys.remove(index);
        }
    }
}

impl Cache {
    /// Inserts the requested key, which is neither in small nor in main.
    fn miss(&mut self, table: &mut Table, capacity: u64) {
        let (index, state) = (table.current, table.state(table.current));
        let weight = table.weight(index);
        let is_back = state & QUEUE == LEFT;
        // The key's reference in the ghost queue stays there and is skipped later.
        let mut stale = state & STALE;
        if is_back {
            self.ghosts -= 1;
            self.weights[2] -= weight;
            stale += ONE_STALE;
            table.set_state(index, stale);
        }
        while self.weights[0] + self.weights[1] + weight > capacity && self.evict(table, capacity) {
        }
        let is_filling = !self.has_evicted && self.weights[0] >= self.small_capacity.max(1);
        let (queue, name) = if is_back || is_filling {
            (1, MAIN)
        } else {
            (0, SMALL)
        };
        // An eviction may have skipped some of the stale references.
        stale = table.state(index) & STALE;
        table.set_state(index, stale | name);
        self.queues[queue].push_back(index);
        self.weights[queue] += weight;
        if self.queues[2].len() > 2 * self.ghosts + STALE_MIN {
            self.sweep(table);
        }
    }

    /// Evicts one key. Returns false if there is none. In main each key is kept at most three
    /// times.
    fn evict(&mut self, table: &mut Table, capacity: u64) -> bool {
        self.has_evicted = true;
        let main_is_over = self.weights[1] > capacity.saturating_sub(self.small_capacity);
        let mut queue = usize::from(main_is_over);
        loop {
            if self.queues[queue].is_empty() {
                queue = 1 - queue;
            }
            let Some(index) = self.queues[queue].pop_front() else {
                return false;
            };
            let (state, weight) = (table.state(index), table.weight(index));
            let hits = (state & HITS) / ONE_HIT;
            if queue == 0 && hits >= self.threshold {
                self.weights[0] -= weight;
                self.weights[1] += weight;
                self.queues[1].push_back(index);
                table.set_state(index, state & STALE | MAIN);
                continue;
            }
            if queue == 1 && hits > 0 {
                self.queues[1].push_back(index);
                table.set_state(index, state - ONE_HIT);
                continue;
            }
            self.weights[queue] -= weight;
            if queue == 1 {
                table.set_state(index, state & STALE);
            } else {
                self.remember(table, index, capacity);
            }
            return true;
        }
    }

    /// Makes the key a ghost and drops the oldest ghosts.
    fn remember(&mut self, table: &mut Table, index: u32, capacity: u64) {
        let state = table.state(index);
        if state & STALE == STALE {
            // The key returned fifteen times within one round of ghosts. It is removed, because the
            // count of stale references cannot increase further.
            table.set_state(index, state & STALE);
            return;
        }
        table.set_state(index, state & STALE | LEFT);
        self.queues[2].push_back(index);
        self.weights[2] += table.weight(index);
        self.ghosts += 1;
        while self.weights[2] > (capacity as f64 * GHOST) as u64 {
            self.drop_oldest(table);
        }
    }

    /// Drops the oldest reference of the ghost queue, and the ghost if the reference is not stale.
    fn drop_oldest(&mut self, table: &mut Table) {
        let ghosts = &mut self.queues[2];
        let index = ghosts.pop_front().expect("what has weight has references");
        let state = table.state(index);
        if state & STALE > 0 {
            table.set_state(index, state - ONE_STALE);
            return;
        }
        assert_eq!(
            state & QUEUE,
            LEFT,
            "a reference that is not stale is a ghost's"
        );
        self.ghosts -= 1;
        self.weights[2] -= table.weight(index);
        table.set_state(index, 0);
    }

    /// Drops all stale references. Of the references to a key, these are the oldest.
    fn sweep(&mut self, table: &mut Table) {
        for _ in 0..self.queues[2].len() {
            let index = self.queues[2]
                .pop_front()
                .expect("as many references were counted");
            let state = table.state(index);
            match state & STALE {
                0 => self.queues[2].push_back(index),
                _ => table.set_state(index, state - ONE_STALE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::chance::Chance;

    /// The same cache in a simple implementation, for comparison.
    struct Plain {
        border: Border,
        capacity: u64,
        /// Keys with their hits, the oldest first.
        small: Vec<(u64, u8)>,
        main: Vec<(u64, u8)>,
        ghosts: Vec<u64>,
        has_evicted: bool,
    }

    fn weight_of(key: u64) -> u64 {
        1 + key % 5
    }

    impl Plain {
        fn new(border: Border, capacity: u64) -> Self {
            let (small, main, ghosts) = (Vec::new(), Vec::new(), Vec::new());
            Plain {
                border,
                capacity,
                small,
                main,
                ghosts,
                has_evicted: false,
            }
        }

        fn weight(keys: &[(u64, u8)]) -> u64 {
            keys.iter().map(|(key, _)| weight_of(*key)).sum()
        }

        fn small_capacity(&self) -> u64 {
            (self.capacity as f64 * self.border.small) as u64
        }

        fn misses(&mut self, key: u64) -> bool {
            for (other, hits) in self.small.iter_mut().chain(&mut self.main) {
                if *other == key {
                    *hits = (*hits + 1).min(3);
                    return false;
                }
            }
            let is_back = self.ghosts.contains(&key);
            self.ghosts.retain(|ghost| *ghost != key);
            while Plain::weight(&self.small) + Plain::weight(&self.main) + weight_of(key)
                > self.capacity
            {
                self.evict();
            }
            let is_full = Plain::weight(&self.small) >= self.small_capacity().max(1);
            match is_back || (!self.has_evicted && is_full) {
                true => self.main.push((key, 0)),
                false => self.small.push((key, 0)),
            }
            true
        }

        fn evict(&mut self) {
            self.has_evicted = true;
            let mut is_small = Plain::weight(&self.main) <= self.capacity - self.small_capacity();
            loop {
                is_small = if is_small {
                    !self.small.is_empty()
                } else {
                    self.main.is_empty()
                };
                if is_small {
                    let (key, hits) = self.small.remove(0);
                    if hits < self.border.threshold {
                        self.ghosts.push(key);
                        let weight =
                            |ghosts: &[u64]| ghosts.iter().map(|key| weight_of(*key)).sum::<u64>();
                        while weight(&self.ghosts) > (self.capacity as f64 * GHOST) as u64 {
                            self.ghosts.remove(0);
                        }
                        return;
                    }
                    self.main.push((key, 0));
                } else {
                    let (key, hits) = self.main.remove(0);
                    if hits == 0 {
                        return;
                    }
                    self.main.push((key, hits - 1));
                }
            }
        }
    }

    fn borders() -> [Border; COUNT] {
        let shares = [0.1, 0.1, 0.01, 0.01, 0.03, 0.3, 0.5, 0.8];
        let mut number = 0;
        shares.map(|small| {
            number += 1;
            Border {
                small,
                threshold: 1 + number % 3,
            }
        })
    }

    #[test]
    fn each_miniature_misses_what_a_plain_s3fifo_of_its_border_misses() {
        for (seed, capacity, keys) in [(1, 60, 60.0), (2, 200, 300.0), (3, 12, 20.0)] {
            let mut miniatures = Miniatures::new(borders(), capacity);
            let mut plain = borders().map(|border| Plain::new(border, capacity));
            let mut chance = Chance::new(seed);
            for request in 0..6_000 {
                // Popular keys, and sequences that repeat.
                let key = match request / 500 % 3 {
                    2 => request % 150,
                    _ => (chance.unit() * chance.unit() * keys) as u64,
                };
                let missed = miniatures.request(key.wrapping_mul(77), weight_of(key) as u32);
                let missed = missed.expect("it fits");
                for (number, (missed, plain)) in missed.iter().zip(&mut plain).enumerate() {
                    let wanted = plain.misses(key);
                    assert_eq!(*missed, wanted, "request {request}, cache {number}");
                }
                if request % 16 == 0 {
                    miniatures.check();
                }
            }
            assert!(miniatures.are_full());
        }
    }

    #[test]
    fn keys_in_no_cache_are_dropped_and_memory_is_bounded() {
        let mut miniatures = Miniatures::new(borders(), 100);
        for key in 0..50_000 {
            miniatures.request(key, 1);
            // Each of the eight caches holds 100 keys and remembers 90, and they are mostly the
            // same keys.
            assert!(miniatures.keys.len() < 500);
        }
        miniatures.check();
        assert!(
            miniatures.heap_bytes() < 60_000,
            "{}",
            miniatures.heap_bytes()
        );
        // Two keys that move between cache and ghosts.
        for round in 0..50_000 {
            miniatures.request(round % 191, 1);
        }
        miniatures.check();
    }

    #[test]
    fn a_smaller_capacity_evicts_and_an_object_that_is_too_large_is_ignored() {
        let mut miniatures = Miniatures::new(borders(), 100);
        for key in 0..1_000 {
            miniatures.request(key, 3);
        }
        assert_eq!(miniatures.request(5_000, 101), None);
        miniatures.resize(5);
        for key in 0..1_000 {
            miniatures.request(key, 3);
        }
        miniatures.check();
        assert!(miniatures.keys.len() < 20);
    }
}
