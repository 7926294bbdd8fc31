//! An ordered set of 80-bit keys, each with a leaf of 31 bits: a radix tree of bytes.
//!
//! Nodes adapt to the number of their children (4, 16, 48, 256), as in V. Leis, A. Kemper, T.
//! Neumann: The Adaptive Radix Tree: ARTful Indexing for Main-Memory Databases, ICDE 2013,
//! <https://doi.org/10.1109/ICDE.2013.6544812>. Paths are compressed as in a PATRICIA tree: a node
//! stores the depth of the byte by which its children differ and none of the bytes that they share;
//! a search compares with the key of the leaf at which it ends. Keys are not stored either: the
//! caller returns the key of a leaf.
//!
//! ```text
//! reference  leaf:  1 │ the leaf in 31 bits          nothing: all ones
//!            node:  0 │ kind in 2 │ index in 29
//! ```
//!
//! Nodes of a kind are stored densely in pages: the last one takes the place of a removed one, so
//! that pages fall empty.

mod nodes;

use alloc::vec::Vec;
pub(crate) use nodes::Dense;
use nodes::{Direct, INDEX_MASK, KIND_SHIFT, NOTHING, Sorted, View};

/// Bytes of a key.
const KEY_BYTES: u32 = 10;
const LEAF: u32 = 1 << 31;
/// Maximum number of children of each kind.
const ROOMS: [usize; 4] = [4, 16, 48, 256];
/// Number of children at which a node is replaced by one of the next smaller kind.
const SHRINKS_AT: [usize; 4] = [0, 3, 12, 36];

#[inline]
fn byte(key: u128, depth: u8) -> u8 {
    (key >> (8 * (KEY_BYTES - 1 - u32::from(depth)))) as u8
}

/// The tree; see the [module](self).
pub struct RadixTree {
    root: u32,
    len: usize,
    nodes4: Dense<Sorted<4>>,
    nodes16: Dense<Sorted<16>>,
    nodes48: Dense<Sorted<48>>,
    nodes256: Dense<Direct>,
}

impl Default for RadixTree {
    fn default() -> Self {
        RadixTree {
            root: NOTHING,
            len: 0,
            nodes4: Dense::new(),
            nodes16: Dense::new(),
            nodes48: Dense::new(),
            nodes256: Dense::new(),
        }
    }
}

fn is_leaf(reference: u32) -> bool {
    reference & LEAF != 0
}

fn kind_of(node: u32) -> usize {
    (node >> KIND_SHIFT) as usize
}

/// Runs the body with a node, whichever of the four kinds it is.
macro_rules! with_node {
    ($tree:expr, $node:expr, $get:ident, |$it:ident| $body:expr) => {{
        let index = $node & INDEX_MASK;
        match kind_of($node) {
            0 => {
                let $it = $tree.nodes4.$get(index);
                $body
            }
            1 => {
                let $it = $tree.nodes16.$get(index);
                $body
            }
            2 => {
                let $it = $tree.nodes48.$get(index);
                $body
            }
            _ => {
                let $it = $tree.nodes256.$get(index);
                $body
            }
        }
    }};
}

impl RadixTree {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the leaf of the least key.
    pub fn first(&self) -> Option<u32> {
        (self.root != NOTHING).then(|| self.leftmost(self.root))
    }

    /// Returns the leaf of the greatest key.
    pub fn last(&self) -> Option<u32> {
        (self.root != NOTHING).then(|| self.rightmost(self.root))
    }

    /// Adds a key with its leaf. Returns false if it is there already. `key_of` returns the key of
    /// a leaf in the tree.
    pub fn insert(&mut self, key: u128, leaf: u32, key_of: impl Fn(u32) -> u128) -> bool {
        assert!(leaf < LEAF - 1);
        assert!(key >> (8 * KEY_BYTES) == 0);
        if self.root == NOTHING {
            self.root = leaf | LEAF;
            self.len = 1;
            return true;
        }
        let existing = key_of(self.any_near(key));
        if existing == key {
            return false;
        }
        let depth = Self::first_difference(key, existing);
        let (parent, at) = self.descend(key, depth);
        if !is_leaf(at) && self.depth(at) == depth {
            self.add_child(parent, at, key, leaf | LEAF, key_of);
        } else {
            let (old, new) = (byte(existing, depth), byte(key, depth));
            let mut pairs = [(old, at), (new, leaf | LEAF)];
            pairs.sort_unstable();
            let node = self.nodes4.push(Sorted::new(depth, &pairs));
            self.replace_child(parent, key, node);
        }
        self.len += 1;
        true
    }

    /// Removes a key, which is there with this leaf.
    pub fn remove(&mut self, key: u128, leaf: u32, key_of: impl Fn(u32) -> u128) {
        let mut above = None;
        let mut parent = None;
        let mut at = self.root;
        while !is_leaf(at) {
            above = parent;
            parent = Some(at);
            at = self.child(at, byte(key, self.depth(at)));
        }
        assert_eq!(at, leaf | LEAF, "only what is there is removed");
        self.len -= 1;
        let Some(node) = parent else {
            self.root = NOTHING;
            return;
        };
        let removed = byte(key, self.depth(node));
        with_node!(self, node, get_mut, |it| it.remove(removed));
        let count = self.view(node).count();
        if count == 1 {
            let only = self.view(node).first();
            self.replace_child(above, key, only);
            self.free(node, key_of);
        } else if count <= SHRINKS_AT[kind_of(node)] {
            self.convert(above, node, key, kind_of(node) - 1, key_of);
        }
    }

    /// Replaces the leaf of a key that is in the tree.
    pub fn rename(&mut self, key: u128, old: u32, new: u32) {
        assert!(new < LEAF - 1);
        let mut parent = None;
        let mut at = self.root;
        while !is_leaf(at) {
            parent = Some(at);
            at = self.child(at, byte(key, self.depth(at)));
        }
        assert_eq!(at, old | LEAF, "only what is there is renamed");
        self.replace_child(parent, key, new | LEAF);
    }

    /// Returns the leaf of the greatest key that is not greater than this one.
    pub fn floor(&self, key: u128, key_of: impl Fn(u32) -> u128) -> Option<u32> {
        if self.root == NOTHING {
            return None;
        }
        let leaf = self.any_near(key);
        let existing = key_of(leaf);
        if existing == key {
            return Some(leaf);
        }
        let depth = Self::first_difference(key, existing);
        let mut lesser = None;
        let mut at = self.root;
        while !is_leaf(at) && self.depth(at) <= depth {
            let own = byte(key, self.depth(at));
            lesser = self.view(at).below(usize::from(own)).or(lesser);
            if self.depth(at) == depth {
                return lesser.map(|at| self.rightmost(at));
            }
            at = self.child(at, own);
        }
        // All keys below `at` are on one side of the key.
        if existing < key {
            Some(self.rightmost(at))
        } else {
            lesser.map(|at| self.rightmost(at))
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.nodes4.heap_bytes()
            + self.nodes16.heap_bytes()
            + self.nodes48.heap_bytes()
            + self.nodes256.heap_bytes()
    }

    fn view(&self, node: u32) -> View<'_> {
        let index = node & INDEX_MASK;
        match kind_of(node) {
            0 => self.nodes4.get(index).view(),
            1 => self.nodes16.get(index).view(),
            2 => self.nodes48.get(index).view(),
            _ => View::Direct(self.nodes256.get(index)),
        }
    }

    fn depth(&self, node: u32) -> u8 {
        with_node!(self, node, get, |it| it.depth)
    }

    fn child(&self, node: u32, byte: u8) -> u32 {
        let child = self.view(node).child(byte);
        child.expect("the path of a key that is there")
    }

    fn leftmost(&self, mut at: u32) -> u32 {
        while !is_leaf(at) {
            at = self.view(at).first();
        }
        at & !LEAF
    }

    fn rightmost(&self, mut at: u32) -> u32 {
        while !is_leaf(at) {
            at = self.view(at).below(256).expect("a node has children");
        }
        at & !LEAF
    }

    /// Returns a leaf that shares the most leading bytes with the key.
    fn any_near(&self, key: u128) -> u32 {
        let mut at = self.root;
        while !is_leaf(at) {
            let view = self.view(at);
            at = view
                .child(byte(key, self.depth(at)))
                .unwrap_or_else(|| view.first());
        }
        at & !LEAF
    }

    fn first_difference(a: u128, b: u128) -> u8 {
        let unused = 128 - 8 * KEY_BYTES;
        ((((a ^ b) << unused).leading_zeros()) / 8) as u8
    }

    /// Returns the first reference on the key's path that is a leaf or a node of this depth or
    /// more, and its parent node. All nodes above must have the key's bytes.
    fn descend(&self, key: u128, depth: u8) -> (Option<u32>, u32) {
        let mut parent = None;
        let mut at = self.root;
        while !is_leaf(at) && self.depth(at) < depth {
            parent = Some(at);
            at = self.child(at, byte(key, self.depth(at)));
        }
        (parent, at)
    }

    /// Replaces the child of `node` on the key's path; the root if `node` is `None`.
    fn replace_child(&mut self, node: Option<u32>, key: u128, child: u32) {
        let Some(node) = node else {
            self.root = child;
            return;
        };
        let byte = byte(key, self.depth(node));
        let index = node & INDEX_MASK;
        let place = match kind_of(node) {
            0 => self.nodes4.get_mut(index).child_mut(byte),
            1 => self.nodes16.get_mut(index).child_mut(byte),
            2 => self.nodes48.get_mut(index).child_mut(byte),
            _ => &mut self.nodes256.get_mut(index).children[usize::from(byte)],
        };
        *place = child;
    }

    fn add_child(
        &mut self,
        parent: Option<u32>,
        mut node: u32,
        key: u128,
        child: u32,
        key_of: impl Fn(u32) -> u128,
    ) {
        if self.view(node).count() == ROOMS[kind_of(node)] {
            node = self.convert(parent, node, key, kind_of(node) + 1, key_of);
        }
        let byte = byte(key, self.depth(node));
        with_node!(self, node, get_mut, |it| it.add(byte, child));
    }

    /// Converts a node to another kind and returns its new reference.
    fn convert(
        &mut self,
        parent: Option<u32>,
        node: u32,
        key: u128,
        kind: usize,
        key_of: impl Fn(u32) -> u128,
    ) -> u32 {
        let (depth, pairs) = (self.depth(node), self.view(node).pairs());
        let index = match kind {
            0 => self.nodes4.push(Sorted::new(depth, &pairs)),
            1 => self.nodes16.push(Sorted::new(depth, &pairs)),
            2 => self.nodes48.push(Sorted::new(depth, &pairs)),
            _ => self.nodes256.push(Direct::new(depth, &pairs)),
        };
        let converted = (kind as u32) << KIND_SHIFT | index;
        self.replace_child(parent, key, converted);
        // The node that this call moves is of the old kind.
        self.free(node, key_of);
        converted
    }

    /// Frees a node to which no reference is left. Another node of its kind takes its place.
    fn free(&mut self, node: u32, key_of: impl Fn(u32) -> u128) {
        let index = node & INDEX_MASK;
        let last = match kind_of(node) {
            0 => self.nodes4.swap_remove(index),
            1 => self.nodes16.swap_remove(index),
            2 => self.nodes48.swap_remove(index),
            _ => self.nodes256.swap_remove(index),
        };
        let moved = node & !INDEX_MASK | last;
        if moved == node {
            return;
        }
        // The parent is found on the path of any of the node's leaves.
        let key = key_of(self.leftmost(node));
        let mut parent = None;
        let mut at = self.root;
        while at != moved {
            parent = Some(at);
            at = self.child(at, byte(key, self.depth(at)));
        }
        self.replace_child(parent, key, node);
    }

    /// Panics if the tree is inconsistent in itself or with the keys of its leaves; may be slow.
    pub fn check(&self, key_of: impl Fn(u32) -> u128) {
        let mut keys = Vec::new();
        let mut node_counts = [0; 4];
        if self.root != NOTHING {
            self.check_below(self.root, 0, &key_of, &mut keys, &mut node_counts);
        }
        assert!(keys.is_sorted_by(|a, b| a < b), "keys ascend");
        assert_eq!(keys.len(), self.len);
        let pools = [
            self.nodes4.len,
            self.nodes16.len,
            self.nodes48.len,
            self.nodes256.len,
        ];
        assert_eq!(pools, node_counts, "every node is in the tree");
    }

    fn check_below(
        &self,
        at: u32,
        depth_min: u8,
        key_of: &impl Fn(u32) -> u128,
        keys: &mut Vec<u128>,
        node_counts: &mut [usize; 4],
    ) {
        if is_leaf(at) {
            keys.push(key_of(at & !LEAF));
            return;
        }
        node_counts[kind_of(at)] += 1;
        let (depth, pairs) = (self.depth(at), self.view(at).pairs());
        assert!(depth >= depth_min, "depths grow downward");
        assert!(pairs.len() >= 2, "a node with one child is none");
        assert!(pairs.len() > SHRINKS_AT[kind_of(at)]);
        let begin = keys.len();
        for (own, child) in pairs {
            let first = keys.len();
            self.check_below(child, depth + 1, key_of, keys, node_counts);
            assert!(keys[first..].iter().all(|key| byte(*key, depth) == own));
        }
        let shift = 8 * (KEY_BYTES - u32::from(depth));
        let shared = keys[begin] >> shift;
        assert!(keys[begin..].iter().all(|key| key >> shift == shared));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Returns keys that have many leading bytes in common, or few.
    fn key((kind, number): (u8, u64)) -> u128 {
        let number = u128::from(number);
        match kind % 5 {
            0 => number % 300,
            1 => number % 70_000,
            2 => 0x1_9a12 << 32 | (number % 5_000) << 30,
            3 => number << 16,
            _ => ((number % 7) << 72) | ((number % 11) << 40) | (number % 13),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn behaves_as_an_ordered_map(
            steps in proptest::collection::vec((0..10_u8, any::<(u8, u64)>()), 0..800),
        ) {
            let mut tree = RadixTree::default();
            let mut model = BTreeMap::new();
            let mut keys: Vec<u128> = vec![];
            for (index, (kind, seed)) in steps.into_iter().enumerate() {
                let key = key(seed);
                let leaf = keys.len() as u32;
                match kind {
                    0..6 => {
                        let is_new = tree.insert(key, leaf, |leaf| keys[leaf as usize]);
                        prop_assert_eq!(is_new, !model.contains_key(&key));
                        if is_new {
                            model.insert(key, leaf);
                            keys.push(key);
                        }
                    }
                    6..9 => {
                        if let Some((&key, &leaf)) = model.range(key..).next() {
                            model.remove(&key);
                            tree.remove(key, leaf, |leaf| keys[leaf as usize]);
                        }
                    }
                    _ => {
                        if let Some((&key, old)) = model.range_mut(key..).next() {
                            tree.rename(key, *old, leaf);
                            *old = leaf;
                            keys.push(key);
                        }
                    }
                }
                let floor = model.range(..=key).next_back().map(|(_, leaf)| *leaf);
                prop_assert_eq!(tree.floor(key, |leaf| keys[leaf as usize]), floor);
                prop_assert_eq!(tree.first(), model.first_key_value().map(|(_, leaf)| *leaf));
                prop_assert_eq!(tree.last(), model.last_key_value().map(|(_, leaf)| *leaf));
                prop_assert_eq!(tree.len(), model.len());
                if index % 20 == 0 {
                    tree.check(|leaf| keys[leaf as usize]);
                }
            }
            tree.check(|leaf| keys[leaf as usize]);
        }
    }

    #[test]
    fn nodes_grow_through_all_kinds_and_their_memory_is_freed() {
        let mut tree = RadixTree::default();
        let key_of = |leaf: u32| u128::from(leaf.reverse_bits()) << 40 | u128::from(leaf);
        for leaf in 0..100_000 {
            assert!(tree.insert(key_of(leaf), leaf, key_of));
        }
        tree.check(key_of);
        assert!(tree.nodes256.len > 0);
        for leaf in (0..100_000).rev() {
            tree.remove(key_of(leaf), leaf, key_of);
        }
        tree.check(key_of);
        assert!(tree.is_empty());
        assert!(tree.heap_bytes() < 1_000, "{} bytes", tree.heap_bytes());
    }
}
