//! Segmented LRU.
//!
//! # Idea
//! A ladder of LRU segments of equal share. A new entry enters the lowest segment. Each hit moves
//! an entry one segment up, and a segment that exceeds its share moves its oldest entry one down.
//! Only the lowest segment evicts. An entry must therefore be hit several times to be kept long,
//! and a scan passes through the lowest segment only.
//!
//! # Source
//! R. Karedla, J. S. Love, B. G. Wherry, *Caching strategies to improve disk system performance*,
//! IEEE Computer 27(3), 1994, <https://doi.org/10.1109/2.268884>; with four segments as in Q. Huang
//! et al., *An analysis of Facebook photo caching*, SOSP 2013,
//! <https://doi.org/10.1145/2517349.2522722>. Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bytes (two links of 31 bits, which segment). Besides: nothing.
//!
//! # Cost
//! hit O(segments) · insert, remove, evict O(1).
//!
//! # Knobs
//! `segments` (4; 2 to 4): number of segments. `slru:2` has one probationary and one protected
//! segment.
//!
//! # Departures
//! While there is room above, a new entry enters the lowest segment that has room, as in the
//! reference. A segment moves at most four entries down per hit. The reference divides the capacity
//! with truncation and evicts on hits what the shares leave over; here no hit evicts.
//!
//! # Avoid when
//! Hits must not take locks, or popularity changes quickly: entries at the top stay for long.

use crate::knobs::Knobs;
use crate::parts::list::{List, Node};
use crate::{Budget, Cells, Eviction, OnHit, Policy, Slot};
use alloc::vec::Vec;

/// Maximum number of entries that one hit moves down from a segment.
const DEMOTIONS_MAX: usize = 4;

crate::knobs! {
    /// Knobs of [`Slru`].
    pub struct SlruConfig {
        /// Number of segments.
        segments: u8 = 4, 2 => 4;
    }
}

/// The segmented LRU policy.
#[derive(Clone, Debug)]
pub struct Slru {
    /// Segments, the lowest first.
    segments: Vec<List>,
    weight: [u64; 4],
    /// Maximum weight of one segment.
    share: u64,
}

impl Slru {
    fn push(&mut self, cells: &mut impl Cells<Node>, slot: Slot, segment: usize) {
        self.segments[segment].push(cells, slot);
        self.weight[segment] += u64::from(cells.weight(slot));
    }

    fn unlink(&mut self, cells: &mut impl Cells<Node>, slot: Slot) -> usize {
        let segment = usize::from(cells.get(slot).list());
        self.segments[segment].unlink(cells, slot);
        self.weight[segment] -= u64::from(cells.weight(slot));
        segment
    }
}

impl Policy for Slru {
    type Meta = Node;
    type Config = SlruConfig;
    const NAME: &'static str = "slru";
    const ALIASES: &'static [&'static str] = &["segmented-lru"];
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &SlruConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let segments: Vec<List> = (0..config.segments).map(List::new).collect();
        Slru {
            share: capacity / segments.len() as u64,
            segments,
            weight: [0; 4],
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.share = capacity / self.segments.len() as u64;
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let weight = u64::from(cells.weight(slot));
        let mut segments = 0..self.segments.len();
        let roomy = segments.find(|&segment| self.weight[segment] + weight <= self.share);
        self.push(cells, slot, roomy.unwrap_or(0));
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let segment = usize::from(cells.get(slot).list());
        if segment + 1 == self.segments.len() {
            self.segments[segment].promote(cells, slot);
            return;
        }
        self.unlink(cells, slot);
        self.push(cells, slot, segment + 1);
        for segment in (1..=segment + 1).rev() {
            for _ in 0..DEMOTIONS_MAX {
                let oldest = self.segments[segment].oldest();
                match oldest.filter(|_| self.weight[segment] > self.share) {
                    Some(oldest) => {
                        self.unlink(cells, oldest);
                        self.push(cells, oldest, segment - 1);
                    }
                    None => break,
                }
            }
        }
    }

    fn reweigh(&mut self, cells: &mut impl Cells<Node>, slot: Slot, old_weight: u32) {
        let segment = usize::from(cells.get(slot).list());
        let weight = self.weight[segment] - u64::from(old_weight);
        self.weight[segment] = weight + u64::from(cells.weight(slot));
    }

    fn moved(&mut self, cells: &mut impl Cells<Node>, _old: Slot, new: Slot) {
        let segment = usize::from(cells.get(new).list());
        self.segments[segment].moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.unlink(cells, slot);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<Node>, budget: &mut Budget) -> Eviction {
        let Some(victim) = self.segments.iter().find_map(List::oldest) else {
            return Eviction::Empty;
        };
        if !budget.spend() {
            return Eviction::Again;
        }
        self.unlink(cells, victim);
        Eviction::Victim(victim)
    }

    fn heap_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<List>()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        for (segment, list) in self.segments.iter().enumerate() {
            assert_eq!(list.check(cells), self.weight[segment]);
        }
    }
}
