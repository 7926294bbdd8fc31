//! An index of the nodes of a [`Pool`] by their key's hash, in about 4 bytes per node.
//!
//! Nodes are chained per bucket; the table grows by linear hashing, one bucket at a time, so no
//! call rehashes more than one chain. (W. Litwin, *Linear hashing: a new tool for file and table
//! addressing*, VLDB 1980.)

use super::chunks::Chunks;
use super::pool::{Chained, NONE, Pool};

/// A node that can be found by its key's hash.
pub trait Keyed: Chained {
    /// Returns the hash.
    fn key_hash(&self) -> u64;
    /// Returns the next node of its bucket.
    fn chain(&self) -> u32;
    /// Returns the next node of its bucket, for writing.
    fn chain_mut(&mut self) -> &mut u32;
}

/// Implements [`Keyed`] for a node with the fields `key_hash` and `chain`.
macro_rules! keyed {
    ($node:ty) => {
        impl $crate::parts::lookup::Keyed for $node {
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
    };
}
pub(crate) use keyed;

/// A hash table of nodes by the hashes of their keys.
#[derive(Clone, Debug)]
pub struct Lookup {
    buckets: Chunks<u32>,
    len: usize,
}

impl Default for Lookup {
    fn default() -> Self {
        Lookup::new()
    }
}

impl Lookup {
    /// Creates an empty table; nothing is allocated before the first node.
    pub fn new() -> Self {
        Lookup {
            buckets: Chunks::new(),
            len: 0,
        }
    }

    /// Number of nodes in the index.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no nodes in the index.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a node, whose key must not be there.
    pub fn add<T: Keyed>(&mut self, pool: &mut Pool<T>, index: u32) {
        if self.buckets.len() <= self.len {
            self.split(pool);
        }
        let bucket = self.bucket(pool.at(index).key_hash());
        let head = core::mem::replace(self.buckets.at_mut(bucket), index);
        *pool.at_mut(index).chain_mut() = head;
        self.len += 1;
    }

    /// Returns the node of this key.
    #[inline]
    pub fn find<T: Keyed>(&self, pool: &Pool<T>, key_hash: u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut index = self.buckets.at(self.bucket(key_hash));
        while index != NONE {
            let node = pool.at(index);
            if node.key_hash() == key_hash {
                return Some(index);
            }
            index = node.chain();
        }
        None
    }

    /// Removes a node, which must be there.
    pub fn remove<T: Keyed>(&mut self, pool: &mut Pool<T>, index: u32) {
        let node = pool.at(index);
        let bucket = self.bucket(node.key_hash());
        let mut at = self.buckets.at(bucket);
        if at == index {
            *self.buckets.at_mut(bucket) = node.chain();
        } else {
            while pool.at(at).chain() != index {
                at = pool.at(at).chain();
            }
            *pool.at_mut(at).chain_mut() = node.chain();
        }
        self.len -= 1;
        if self.len == 0 {
            *self = Lookup::new();
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.buckets.heap_bytes()
    }

    /// Returns the bucket of a hash; those below the split point are addressed by one more bit.
    #[inline]
    fn bucket(&self, key_hash: u64) -> usize {
        let count = self.buckets.len();
        let range = count.next_power_of_two();
        let bucket = key_hash as usize & (range - 1);
        if bucket < count {
            bucket
        } else {
            bucket - range / 2
        }
    }

    /// Adds one bucket, and moves to it those nodes of the bucket being split that belong there.
    fn split<T: Keyed>(&mut self, pool: &mut Pool<T>) {
        let fresh = self.buckets.len();
        self.buckets.push(NONE);
        if fresh == 0 {
            return;
        }
        let split = fresh - (fresh + 1).next_power_of_two() / 2;
        let mut index = core::mem::replace(self.buckets.at_mut(split), NONE);
        while index != NONE {
            let node = pool.at(index);
            let bucket = self.bucket(node.key_hash());
            let head = core::mem::replace(self.buckets.at_mut(bucket), index);
            *pool.at_mut(index).chain_mut() = head;
            index = node.chain();
        }
    }
}
