//! Nodes beside the entries, and lists through them: for policies that keep more state per entry
//! than 64 bits, or that keep some of it after the entry has left.
//!
//! A node has a number that stays the same while the entry is relocated: the entry's bits hold that
//! number, the node holds the slot. A node may be in several lists at once, one for each
//! `Chained<LIST>` that its type implements.

use super::chunks::Chunks;
use alloc::vec::Vec;

/// Number that stands for no node, at the end of a list.
pub const NONE: u32 = u32::MAX;

/// Neighbours of a node in one list.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    older: u32,
    newer: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links {
            older: NONE,
            newer: NONE,
        }
    }
}

/// A node that can be in the list number `LIST`.
pub trait Chained<const LIST: usize = 0>: Copy {
    /// Returns the node's neighbours.
    fn links(&self) -> Links;
    /// Returns the node's neighbours, for writing.
    fn links_mut(&mut self) -> &mut Links;
}

/// Implements [`Chained`] for a node type, by the field with the links of a list. The list is the
/// only one or the given one.
macro_rules! chained {
    ($node:ty: $links:ident) => {
        $crate::parts::pool::chained!($node, 0 => $links);
    };
    ($node:ty, $list:expr => $links:ident) => {
        impl $crate::parts::pool::Chained<{ $list }> for $node {
            #[inline]
            fn links(&self) -> $crate::parts::pool::Links {
                self.$links
            }
            #[inline]
            fn links_mut(&mut self) -> &mut $crate::parts::pool::Links {
                &mut self.$links
            }
        }
    };
}
pub(crate) use chained;

/// Nodes that are added and removed one by one. Numbers of removed nodes are reused; these are
/// linked by their links in list 0.
#[derive(Clone, Debug)]
pub struct Pool<T> {
    nodes: Chunks<T>,
    vacant: u32,
    live: usize,
}

impl<T: Chained> Default for Pool<T> {
    fn default() -> Self {
        Pool::new()
    }
}

impl<T: Chained> Pool<T> {
    /// Creates an empty pool; nothing is allocated before the first node.
    pub fn new() -> Self {
        Pool {
            nodes: Chunks::new(),
            vacant: NONE,
            live: 0,
        }
    }

    /// Number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are no nodes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns the node of this number, by value.
    #[inline]
    pub fn at(&self, index: u32) -> T {
        self.nodes.at(index as usize)
    }

    /// Returns the node of this number, for writing.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        self.nodes.at_mut(index as usize)
    }

    /// Adds a node and returns its number.
    #[inline]
    pub fn add(&mut self, node: T) -> u32 {
        self.live += 1;
        if self.vacant == NONE {
            let index = u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes live");
            assert!(index < NONE, "the last number means none");
            self.nodes.push(node);
            return index;
        }
        let index = self.vacant;
        self.vacant = self.at(index).links().newer;
        *self.at_mut(index) = node;
        index
    }

    /// Removes a node. With the last one the memory is freed.
    #[inline]
    pub fn remove(&mut self, index: u32) {
        debug_assert_ne!(index, NONE, "the last number means none");
        debug_assert!(self.live > 0, "a removed node was added");
        self.live -= 1;
        if self.live == 0 {
            *self = Pool::new();
            return;
        }
        let newer = self.vacant;
        *self.at_mut(index).links_mut() = Links { older: NONE, newer };
        self.vacant = index;
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes()
    }
}

/// The ends of a list through nodes.
#[derive(Clone, Copy, Debug)]
pub struct Chain<const LIST: usize = 0> {
    oldest: u32,
    newest: u32,
    len: u32,
}

impl<const LIST: usize> Default for Chain<LIST> {
    fn default() -> Self {
        Chain::new()
    }
}

impl<const LIST: usize> Chain<LIST> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Chain {
            oldest: NONE,
            newest: NONE,
            len: 0,
        }
    }

    /// Number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no nodes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the node at the old end.
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Returns the node at the young end.
    #[inline]
    pub fn newest(&self) -> Option<u32> {
        (self.newest != NONE).then_some(self.newest)
    }

    /// Returns the neighbour towards the young end.
    #[inline]
    pub fn newer<T: Chained<LIST> + Chained>(&self, pool: &Pool<T>, index: u32) -> Option<u32> {
        let newer = Chained::<LIST>::links(&pool.at(index)).newer;
        (newer != NONE).then_some(newer)
    }

    /// Adds a node at the young end.
    #[inline]
    pub fn push<T: Chained<LIST> + Chained>(&mut self, pool: &mut Pool<T>, index: u32) {
        self.insert(pool, index, NONE);
    }

    /// Adds a node just before `at`, on its old side; at the young end if `at` is [`NONE`].
    #[inline]
    pub fn insert<T: Chained<LIST> + Chained>(&mut self, pool: &mut Pool<T>, index: u32, at: u32) {
        debug_assert_ne!(index, at, "a node is not its own neighbour");
        let older = match at {
            NONE => core::mem::replace(&mut self.newest, index),
            at => {
                let links = Chained::<LIST>::links_mut(pool.at_mut(at));
                core::mem::replace(&mut links.older, index)
            }
        };
        match older {
            NONE => self.oldest = index,
            older => Chained::<LIST>::links_mut(pool.at_mut(older)).newer = index,
        }
        *Chained::<LIST>::links_mut(pool.at_mut(index)) = Links { older, newer: at };
        self.len += 1;
    }

    /// Removes a member.
    #[inline]
    pub fn unlink<T: Chained<LIST> + Chained>(&mut self, pool: &mut Pool<T>, index: u32) {
        debug_assert!(self.len > 0, "a list with a member is not empty");
        let Links { older, newer } = Chained::<LIST>::links(&pool.at(index));
        match older {
            NONE => self.oldest = newer,
            older => Chained::<LIST>::links_mut(pool.at_mut(older)).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => Chained::<LIST>::links_mut(pool.at_mut(newer)).older = older,
        }
        self.len -= 1;
    }

    /// Moves a member to the young end.
    #[inline]
    pub fn promote<T: Chained<LIST> + Chained>(&mut self, pool: &mut Pool<T>, index: u32) {
        if self.newest != index {
            self.unlink(pool, index);
            self.push(pool, index);
        }
    }

    /// Returns the members from the oldest to the youngest, for checks. Panics unless links, ends
    /// and length agree.
    pub fn members<T: Chained<LIST> + Chained>(&self, pool: &Pool<T>) -> Vec<u32> {
        let (mut before, mut at, mut members) = (NONE, self.oldest, Vec::new());
        while at != NONE {
            let links = Chained::<LIST>::links(&pool.at(at));
            assert_eq!(links.older, before);
            members.push(at);
            assert!(members.len() <= self.len(), "more than counted, or a loop");
            (before, at) = (at, links.newer);
        }
        assert_eq!((self.newest, self.len()), (before, members.len()));
        members
    }
}
