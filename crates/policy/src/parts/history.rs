//! Who was evicted lately, exactly: a queue of key hashes that answers who is in it.
//!
//! For policies whose decisions feed back on what they remember (ARC): there the small errors of a
//! [`ghost`](super::ghost) table are amplified. It costs about 30 bytes a key where that costs 5.
//!
//! Nodes lie in chunks of 64 and are chained per bucket; the table grows by linear hashing, one
//! bucket at a time, so no call rehashes more than one chain. (W. Litwin, *Linear hashing: a new tool
//! for file and table addressing*, VLDB 1980.)

/// The end of a chain or list.
const NONE: u32 = u32::MAX;
/// Items in a chunk.
const CHUNK: usize = 64;

/// A growing array that never moves what it holds.
#[derive(Clone, Debug)]
struct Chunks<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
    len: usize,
}

impl<T: Copy> Chunks<T> {
    fn new() -> Self {
        Chunks {
            chunks: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    fn at(&self, index: usize) -> T {
        self.chunks[index / CHUNK][index % CHUNK]
    }

    #[inline]
    fn at_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }

    fn push(&mut self, item: T) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(Box::new([item; CHUNK]));
        }
        *self.at_mut(self.len) = item;
        self.len += 1;
    }

    fn heap_bytes(&self) -> usize {
        self.chunks.len() * size_of::<[T; CHUNK]>()
            + self.chunks.capacity() * size_of::<Box<[T; CHUNK]>>()
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key_hash: u64,
    weight: u32,
    older: u32,
    newer: u32,
    /// The next node of the bucket, or of the vacant ones.
    chain: u32,
}

/// A queue of key hashes, with their weights.
#[derive(Clone, Debug)]
pub struct History {
    nodes: Chunks<Node>,
    buckets: Chunks<u32>,
    vacant: u32,
    oldest: u32,
    newest: u32,
    len: usize,
    weight: u64,
}

impl Default for History {
    fn default() -> Self {
        History::new()
    }
}

impl History {
    /// An empty history; nothing is allocated before the first key.
    pub fn new() -> Self {
        History {
            nodes: Chunks::new(),
            buckets: Chunks::new(),
            vacant: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
            weight: 0,
        }
    }

    /// How many keys it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What they weigh.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Adds a key as the youngest. If it is there already, it is renewed.
    pub fn push(&mut self, key_hash: u64, weight: u32) {
        self.take(key_hash);
        if self.buckets.len <= self.len {
            self.split();
        }
        let bucket = self.bucket(key_hash);
        let chain = self.buckets.at(bucket);
        let node = Node {
            key_hash,
            weight,
            older: self.newest,
            newer: NONE,
            chain,
        };
        let index = self.place(node);
        *self.buckets.at_mut(bucket) = index;
        match self.newest {
            NONE => self.oldest = index,
            newest => self.nodes.at_mut(newest as usize).newer = index,
        }
        self.newest = index;
        self.len += 1;
        self.weight += u64::from(weight);
    }

    /// Removes a key and tells what it weighed; `None` if it is not there.
    pub fn take(&mut self, key_hash: u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let bucket = self.bucket(key_hash);
        let mut before = NONE;
        let mut index = self.buckets.at(bucket);
        while index != NONE {
            let node = self.nodes.at(index as usize);
            if node.key_hash == key_hash {
                match before {
                    NONE => *self.buckets.at_mut(bucket) = node.chain,
                    before => self.nodes.at_mut(before as usize).chain = node.chain,
                }
                self.unlink(index, node);
                return Some(node.weight);
            }
            (before, index) = (index, node.chain);
        }
        None
    }

    /// Removes the oldest key and tells its hash and weight.
    pub fn pop(&mut self) -> Option<(u64, u32)> {
        if self.oldest == NONE {
            return None;
        }
        let key_hash = self.nodes.at(self.oldest as usize).key_hash;
        self.take(key_hash).map(|weight| (key_hash, weight))
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.buckets.heap_bytes()
    }

    /// Panics when the structure contradicts itself.
    pub fn check(&self) {
        let (mut before, mut index, mut count, mut weight) = (NONE, self.oldest, 0, 0u64);
        while index != NONE {
            let node = self.nodes.at(index as usize);
            assert_eq!(node.older, before);
            let mut link = self.buckets.at(self.bucket(node.key_hash));
            while link != index {
                link = self.nodes.at(link as usize).chain;
            }
            (before, index, count) = (index, node.newer, count + 1);
            weight += u64::from(node.weight);
        }
        assert_eq!(
            (self.newest, self.len, self.weight),
            (before, count, weight)
        );
    }

    /// Linear hashing: the buckets below the split point are addressed by one more bit.
    #[inline]
    fn bucket(&self, key_hash: u64) -> usize {
        let count = self.buckets.len;
        let range = count.next_power_of_two();
        let bucket = key_hash as usize & (range - 1);
        if bucket < count {
            bucket
        } else {
            bucket - range / 2
        }
    }

    /// Adds one bucket, which takes its share of the one that it is split from.
    fn split(&mut self) {
        let fresh = self.buckets.len;
        self.buckets.push(NONE);
        if fresh == 0 {
            return;
        }
        let split = fresh - (fresh + 1).next_power_of_two() / 2;
        let mut index = core::mem::replace(self.buckets.at_mut(split), NONE);
        while index != NONE {
            let node = self.nodes.at(index as usize);
            let bucket = self.bucket(node.key_hash);
            let head = core::mem::replace(self.buckets.at_mut(bucket), index);
            self.nodes.at_mut(index as usize).chain = head;
            index = node.chain;
        }
    }

    fn place(&mut self, node: Node) -> u32 {
        match self.vacant {
            NONE => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len - 1).expect("a history holds fewer than 2^32 keys")
            }
            index => {
                self.vacant = self.nodes.at(index as usize).chain;
                *self.nodes.at_mut(index as usize) = node;
                index
            }
        }
    }

    fn unlink(&mut self, index: u32, node: Node) {
        match node.older {
            NONE => self.oldest = node.newer,
            older => self.nodes.at_mut(older as usize).newer = node.newer,
        }
        match node.newer {
            NONE => self.newest = node.older,
            newer => self.nodes.at_mut(newer as usize).older = node.older,
        }
        self.nodes.at_mut(index as usize).chain = self.vacant;
        self.vacant = index;
        self.len -= 1;
        self.weight -= u64::from(node.weight);
        if self.len == 0 {
            *self = History::new();
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
            let mut history = History::new();
            let mut model: VecDeque<(u64, u32)> = VecDeque::new();
            for (kind, key) in steps {
                let hash = scramble(key);
                let found = model.iter().position(|&(other, _)| other == hash);
                match kind {
                    0..=3 => {
                        found.map(|at| model.remove(at));
                        model.push_back((hash, key as u32));
                        history.push(hash, key as u32);
                    }
                    4 | 5 => {
                        let taken = found.and_then(|at| model.remove(at)).map(|(_, weight)| weight);
                        prop_assert_eq!(history.take(hash), taken);
                    }
                    _ => prop_assert_eq!(history.pop(), model.pop_front()),
                }
                history.check();
                prop_assert_eq!(history.len(), model.len());
            }
        }
    }

    #[test]
    fn costs_about_thirty_bytes_a_key() {
        let mut history = History::new();
        (0..100_000).for_each(|key| history.push(scramble(key), 1));
        let bytes = history.heap_bytes() as f64 / 100_000.0;
        assert!(bytes < 30.0, "{bytes} bytes a key");
    }
}
