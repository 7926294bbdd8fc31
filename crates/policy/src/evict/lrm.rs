//! Least recently modified.
//!
//! # Idea
//! The entry whose last write is the oldest is evicted. Reads do not renew an entry, so that a key
//! that is polled but no longer updated leaves.
//!
//! # Source
//! Redis 8.6, `maxmemory-policy allkeys-lrm`,
//! <https://redis.io/docs/latest/develop/reference/eviction/>.
//!
//! # State
//! Per entry: 8 bytes, as in [`lru`](super::lru). Besides: nothing.
//!
//! # Cost
//! A read 0 · a write, insert, remove, evict O(1).
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The order is exact; Redis samples entries. The server accepts the name `lrm`, too, and serves it
//! by [`sampled_lru`](super::sampled_lru) without reads.
//!
//! # Avoid when
//! The trace does not distinguish writes: every request is a read then, and this is FIFO.

use super::lru::Lru;
use crate::parts::list::Node;
use crate::{Cells, OnHit, Policy};

/// The least-recently-modified policy.
#[derive(Clone, Debug)]
pub struct Lrm(Lru);

impl Policy for Lrm {
    type Meta = Node;
    type Config = ();
    const NAME: &'static str = "lrm";
    const ON_HIT: OnHit = OnHit::Reorder;
    const READS_COUNT: bool = false;

    fn new(capacity: u64, config: &(), seed: u64) -> Self {
        Lrm(Lru::new(capacity, config, seed))
    }

    forward!(0: Node, insert reorder reweigh moved remove evict);

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        self.0.check(cells);
    }
}
