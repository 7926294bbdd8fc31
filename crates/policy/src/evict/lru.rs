//! Least recently used.
//!
//! # Idea
//! The entry whose last request is the longest ago is evicted. Every hit moves its entry to the
//! young end of a list.
//!
//! # Source
//! R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, *Evaluation techniques for storage
//! hierarchies*, IBM Systems Journal 9(2), 1970, <https://doi.org/10.1147/sj.92.0078>. Compared
//! with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bytes (two links of 31 bits). Besides: nothing.
//!
//! # Cost
//! hit, insert, remove, evict O(1); a hit writes to up to four entries.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! None.
//!
//! # Avoid when
//! Memory per entry or hits on several threads matter (`clock`, `sieve`), or scans do (`s3fifo`).

use crate::parts::list::{List, Node};
use crate::{Budget, Cells, Eviction, OnHit, Policy, Slot};

/// The least-recently-used policy.
#[derive(Clone, Debug)]
pub struct Lru {
    list: List,
}

impl Policy for Lru {
    type Meta = Node;
    type Config = ();
    const NAME: &'static str = "lru";
    const ALIASES: &'static [&'static str] = &["exact-lru"];
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(_capacity: u64, _config: &(), _seed: u64) -> Self {
        Lru { list: List::new(0) }
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.list.push(cells, slot);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.list.promote(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<Node>, _old: Slot, new: Slot) {
        self.list.moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.list.unlink(cells, slot);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<Node>, budget: &mut Budget) -> Eviction {
        if self.list.is_empty() {
            return Eviction::Empty;
        }
        if !budget.spend() {
            return Eviction::Again;
        }
        let victim = self
            .list
            .pop(cells)
            .expect("the list was just seen not to be empty");
        Eviction::Victim(victim)
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self, cells: &impl Cells<Node>) {
        self.list.check(cells);
    }
}
