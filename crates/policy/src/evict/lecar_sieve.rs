//! LeCaR-SIEVE: LeCaR with SIEVE in place of LRU.
//!
//! # Idea
//! The experts are SIEVE and LFU. SIEVE names better victims than LRU; the expert with less regret
//! still decides more often.
//!
//! # Source
//! Section 9.5.2 in J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*,
//! CMU 2024; Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, *SIEVE is Simpler than LRU*,
//! NSDI 2024, <https://www.usenix.org/conference/nsdi24/presentation/zhang-yazhuo>; LeCaR: see
//! [`lecar`](super::lecar).
//!
//! # State
//! Per entry: 4 bytes (the number of its node) and a node of 28; one ghost for each at about 40
//! bytes.
//!
//! # Cost
//! hit, insert, remove O(1) · miss: a look-up in two hash tables · evict: one step per entry that
//! the hand passes; all may be visited, and the budget can end the round anywhere.
//!
//! # Knobs
//! `learn` (0.45; 0 to 1): the learning rate.
//!
//! # Departures
//! The same as in [`lecar`](super::lecar). The source does not say what the hand does when LFU
//! decides; here it stays before the entry that SIEVE named.
//!
//! # Avoid when
//! Scans are frequent, or memory per entry matters: `sieve` needs a sixth of it.

use super::lecar::{Lecar, Node, Recency};
use crate::Budget;
use crate::parts::pool::{Chain, Pool};
use alloc::vec::Vec;

/// The LeCaR-SIEVE policy.
pub type LecarSieve = Lecar<Hand>;

/// The SIEVE expert: entries in order of insertion, and a hand among them.
#[derive(Clone, Debug, Default)]
pub struct Hand {
    queue: Chain,
    /// Entry that the hand reads next; `None` is the oldest.
    next: Option<u32>,
}

impl Recency for Hand {
    const NAME: &'static str = "lecar-sieve";

    #[inline]
    fn insert(&mut self, pool: &mut Pool<Node>, node: u32) {
        self.queue.push(pool, node);
    }
    #[inline]
    fn hit(&mut self, pool: &mut Pool<Node>, node: u32) {
        pool.at_mut(node).is_visited = true;
    }
    #[inline]
    fn leave(&mut self, pool: &mut Pool<Node>, node: u32) {
        if self.next == Some(node) {
            self.next = self.queue.newer(pool, node);
        }
        self.queue.unlink(pool, node);
    }
    fn candidate(&mut self, pool: &mut Pool<Node>, budget: &mut Budget) -> Option<u32> {
        while budget.spend() {
            let node = self.next.or(self.queue.oldest())?;
            if !core::mem::take(&mut pool.at_mut(node).is_visited) {
                self.next = Some(node);
                return Some(node);
            }
            self.next = self.queue.newer(pool, node);
        }
        None
    }
    fn members(&self, pool: &Pool<Node>) -> Vec<u32> {
        let members = self.queue.members(pool);
        assert!(self.next.is_none_or(|next| members.contains(&next)));
        members
    }
}
