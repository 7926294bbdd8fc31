//! Keys evicted recently, exactly: a queue of key hashes, each with a value.
//!
//! For policies whose decisions feed back on what they remember (ARC), because they amplify the
//! small errors of a [`ghost`](super::ghost) table. It costs about 30 bytes per key where that
//! table costs 5.

use super::lookup::{Keyed, Lookup};
use super::pool::{Chain, Chained, Links, Pool};

/// Maximum number of keys that one call of [`History::bound`] drops.
const DROPS_MAX: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Node<V> {
    key_hash: u64,
    weight: u32,
    /// Next node in the same bucket of the hash table.
    chain: u32,
    links: Links,
    value: V,
}

impl<V: Copy> Chained for Node<V> {
    #[inline]
    fn links(&self) -> Links {
        self.links
    }
    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<V: Copy> Keyed for Node<V> {
    #[inline]
    fn key_hash(&self) -> u64 {
        self.key_hash
    }
    #[inline]
    fn chain(&self) -> u32 {
        self.chain
    }
    #[inline]
    fn chain_mut(&mut self) -> &mut u32 {
        &mut self.chain
    }
}

/// A queue of key hashes, each with its weight and a value.
#[derive(Clone, Debug)]
pub struct History<V = ()> {
    nodes: Pool<Node<V>>,
    lookup: Lookup,
    queue: Chain,
    weight: u64,
}

impl<V: Copy> Default for History<V> {
    fn default() -> Self {
        History::new()
    }
}

impl<V: Copy> History<V> {
    /// Creates an empty history; nothing is allocated before the first key.
    pub fn new() -> Self {
        History {
            nodes: Pool::new(),
            lookup: Lookup::new(),
            queue: Chain::new(),
            weight: 0,
        }
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no keys.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Sum of the keys' weights.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Adds a key as the youngest. If it is already there, it becomes the youngest and its old
    /// value is returned.
    pub fn push(&mut self, key_hash: u64, weight: u32, value: V) -> Option<V> {
        let before = self.take(key_hash);
        let index = self.nodes.add(Node {
            key_hash,
            weight,
            chain: 0,
            links: Links::default(),
            value,
        });
        self.lookup.add(&mut self.nodes, index);
        self.queue.push(&mut self.nodes, index);
        self.weight += u64::from(weight);
        before.map(|(_, value)| value)
    }

    /// Removes a key and returns its weight and value; `None` if it is not there.
    pub fn take(&mut self, key_hash: u64) -> Option<(u32, V)> {
        let index = self.lookup.find(&self.nodes, key_hash)?;
        let node = self.nodes.at(index);
        self.forget(index);
        Some((node.weight, node.value))
    }

    /// Removes the oldest key and returns its hash, weight and value.
    pub fn pop(&mut self) -> Option<(u64, u32, V)> {
        let index = self.queue.oldest()?;
        let node = self.nodes.at(index);
        self.forget(index);
        Some((node.key_hash, node.weight, node.value))
    }

    /// Drops the oldest keys while the total weight exceeds `weight_max`, a few per call. A call
    /// after each push is enough.
    pub fn bound(&mut self, weight_max: u64) {
        for _ in 0..DROPS_MAX {
            if self.weight <= weight_max {
                return;
            }
            self.pop();
        }
    }

    fn forget(&mut self, index: u32) {
        self.weight -= u64::from(self.nodes.at(index).weight);
        self.lookup.remove(&mut self.nodes, index);
        self.queue.unlink(&mut self.nodes, index);
        self.nodes.remove(index);
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.lookup.heap_bytes()
    }

    /// Panics if the structure is inconsistent.
    pub fn check(&self) {
        let members = self.queue.members(&self.nodes);
        let nodes = members.iter().map(|&index| self.nodes.at(index));
        let weight: u64 = nodes.clone().map(|node| u64::from(node.weight)).sum();
        assert_eq!(weight, self.weight);
        assert_eq!(members.len(), self.nodes.len());
        assert_eq!(members.len(), self.lookup.len());
        for (&index, node) in members.iter().zip(nodes) {
            assert_eq!(self.lookup.find(&self.nodes, node.key_hash), Some(index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::chance::scramble;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_as_a_queue_of_keys(steps in proptest::collection::vec((0u8..8, 0u64..80), 0..600)) {
            let mut history = History::<()>::new();
            let mut model: VecDeque<(u64, u32)> = VecDeque::new();
            for (kind, key) in steps {
                let hash = scramble(key);
                let found = model.iter().position(|&(other, _)| other == hash);
                match kind {
                    0..=3 => {
                        found.map(|at| model.remove(at));
                        model.push_back((hash, key as u32));
                        history.push(hash, key as u32, ());
                    }
                    4 | 5 => {
                        let taken = found.and_then(|at| model.remove(at)).map(|(_, weight)| weight);
                        prop_assert_eq!(history.take(hash).map(|(weight, ())| weight), taken);
                    }
                    _ => prop_assert_eq!(history.pop().map(|(hash, weight, ())| (hash, weight)), model.pop_front()),
                }
                history.check();
                prop_assert_eq!(history.len(), model.len());
            }
        }
    }

    #[test]
    fn costs_about_thirty_bytes_a_key() {
        let mut history = History::<()>::new();
        for key in 0..100_000 {
            history.push(scramble(key), 1, ());
        }
        let bytes = history.heap_bytes() as f64 / 100_000.0;
        assert!(bytes < 30.0, "{bytes} bytes a key");
    }
}
