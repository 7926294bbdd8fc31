//! Nodes in queues by their number of requests: the least frequent is found at once, and a hit
//! changes a few links.
//!
//! The queues are groups in a list by rising frequency; none is empty. Source: K. Shah, A. Mitra,
//! D. Matani, *An O(1) algorithm for implementing the LFU cache eviction scheme*, 2010.

use super::pool::{Chain, Chained, Links, NONE, Pool, chained};
use alloc::vec::Vec;

/// Number of the list that links a node with the others of its group.
pub const BY_FREQUENCY: usize = 1;

/// A node that can be counted.
pub trait Counted: Chained + Chained<BY_FREQUENCY> {
    /// Returns the number of its group.
    fn group(&self) -> u32;
    /// Returns the number of its group, for writing.
    fn group_mut(&mut self) -> &mut u32;
}

/// Implements [`Counted`] for a node. The node has the number of its group in `group`, and its
/// links in `recency` and `frequency`, or, if it is in no other list, in the one field that is
/// given.
macro_rules! counted {
    ($node:ty) => {
        $crate::parts::frequencies::counted!($node: recency, frequency);
    };
    ($node:ty: $links:ident) => {
        $crate::parts::frequencies::counted!($node: $links, $links);
    };
    ($node:ty: $recency:ident, $frequency:ident) => {
        $crate::parts::pool::chained!($node: $recency);
        $crate::parts::pool::chained!($node, $crate::parts::frequencies::BY_FREQUENCY => $frequency);

        impl $crate::parts::frequencies::Counted for $node {
            #[inline]
            fn group(&self) -> u32 {
                self.group
            }
            #[inline]
            fn group_mut(&mut self) -> &mut u32 {
                &mut self.group
            }
        }
    };
}
pub(crate) use counted;

#[derive(Clone, Copy, Debug)]
struct Group {
    frequency: u32,
    /// Links to the groups of the next lower and the next higher frequency.
    links: Links,
    /// Nodes of this frequency, in the order in which they reached it.
    queue: Chain<BY_FREQUENCY>,
}

chained!(Group: links);

/// All groups, which are the queues by frequency.
#[derive(Clone, Debug)]
pub struct Frequencies {
    groups: Pool<Group>,
    /// Groups, the lowest frequency at the old end.
    order: Chain,
}

impl Default for Frequencies {
    fn default() -> Self {
        Frequencies::new()
    }
}

impl Frequencies {
    /// Creates an empty structure; nothing is allocated before the first node.
    pub fn new() -> Self {
        Frequencies {
            groups: Pool::new(),
            order: Chain::new(),
        }
    }

    /// Returns the number of requests for this node.
    #[inline]
    pub fn frequency<T: Counted>(&self, pool: &Pool<T>, node: u32) -> u32 {
        self.groups.at(pool.at(node).group()).frequency
    }

    /// Among the nodes of the least frequency, returns the first that reached it.
    #[inline]
    pub fn oldest_of_least(&self) -> Option<u32> {
        self.groups.at(self.order.oldest()?).queue.oldest()
    }

    /// Among the nodes of the least frequency, returns the last that reached it.
    #[inline]
    pub fn newest_of_least(&self) -> Option<u32> {
        self.groups.at(self.order.oldest()?).queue.newest()
    }

    /// Adds a node as the youngest of a frequency. Searches the groups from the lowest frequency
    /// on, so that frequency 1 is found at once.
    pub fn enter<T: Counted>(&mut self, pool: &mut Pool<T>, node: u32, frequency: u32) {
        debug_assert!(frequency > 0, "an entry was requested at least once");
        let mut above = self.order.oldest();
        while let Some(group) = above
            && self.groups.at(group).frequency < frequency
        {
            above = self.order.newer(&self.groups, group);
        }
        let group = self.group(frequency, above);
        self.file(pool, node, group);
    }

    /// Records a request for this node.
    #[inline]
    pub fn hit<T: Counted>(&mut self, pool: &mut Pool<T>, node: u32) {
        let group = pool.at(node).group();
        let above = self.order.newer(&self.groups, group);
        let Group {
            frequency, queue, ..
        } = self.groups.at(group);
        let higher = frequency.saturating_add(1);
        let is_free = above.is_none_or(|above| self.groups.at(above).frequency > higher);
        if queue.len() == 1 && is_free {
            // The node is the only one of its group and the next frequency has no group, so that
            // the frequency of the group itself is increased.
            self.groups.at_mut(group).frequency = higher;
        } else if higher > frequency {
            let next = self.group(higher, above);
            self.leave(pool, node);
            self.file(pool, node, next);
        }
    }

    /// Removes a node from its group. A group without nodes is removed.
    #[inline]
    pub fn leave<T: Counted>(&mut self, pool: &mut Pool<T>, node: u32) {
        let group = pool.at(node).group();
        let queue = &mut self.groups.at_mut(group).queue;
        queue.unlink(pool, node);
        if queue.is_empty() {
            self.order.unlink(&mut self.groups, group);
            self.groups.remove(group);
        }
    }

    /// Returns the group of this frequency: either `above`, or a new group just below it.
    #[inline]
    fn group(&mut self, frequency: u32, above: Option<u32>) -> u32 {
        if let Some(above) = above
            && self.groups.at(above).frequency == frequency
        {
            return above;
        }
        let group = self.groups.add(Group {
            frequency,
            links: Links::default(),
            queue: Chain::new(),
        });
        self.order
            .insert(&mut self.groups, group, above.unwrap_or(NONE));
        group
    }

    #[inline]
    fn file<T: Counted>(&mut self, pool: &mut Pool<T>, node: u32, group: u32) {
        *pool.at_mut(node).group_mut() = group;
        self.groups.at_mut(group).queue.push(pool, node);
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.groups.heap_bytes()
    }

    /// Panics if the structure is inconsistent. Returns the nodes that it holds.
    pub fn check<T: Counted>(&self, pool: &Pool<T>) -> Vec<u32> {
        let (mut below, mut nodes) = (0, Vec::new());
        let groups = self.order.members(&self.groups);
        assert_eq!(groups.len(), self.groups.len());
        for group in groups {
            let Group {
                frequency, queue, ..
            } = self.groups.at(group);
            assert!(frequency > below, "frequencies rise");
            assert!(!queue.is_empty(), "an empty group stands in the order");
            let members = queue.members(pool);
            assert!(members.iter().all(|&node| pool.at(node).group() == group));
            nodes.extend(members);
            below = frequency;
        }
        nodes
    }
}
