//! CLOCK with counters of 1 to 3 bits; with 1 bit it is FIFO-Reinsertion, also called Second Chance.
//!
//! # Idea
//! First in, first out, but an entry that was hit is filed again instead of being evicted, and its
//! counter falls by one each time: promotion, done lazily, at eviction. A hit only counts up to the
//! counter's maximum, so hits on popular entries write nothing.
//!
//! # Source
//! F. J. Corbató, *A paging experiment with the Multics system*, MIT Project MAC report
//! MAC-M-384, 1968; as *LP-FIFO* and *k-bit CLOCK* in J. Yang, *Designing Efficient and Scalable
//! Key-value Cache Management Systems*, CMU 2024, chapter 7.3. Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 5 + 1…3 bits (epoch tag, counter) and a 4-byte reference in the queue.
//!
//! # Cost
//! hit 0 or one write of the entry's byte · insert, remove O(1) · evict: one step per entry looked
//! at; with k bits an entry can be passed 2^k − 1 times, which the budget cuts anywhere.
//!
//! # Knobs
//! `bits` (1; 1 to 3): bits of the counter. `clock:2` is the 2-bit CLOCK.
//!
//! # Departures
//! The hand is a queue: an entry that is spared moves to the young end. An entry whose slot was
//! vacated and reused within one epoch may come up early, and a relocated one late, by at most one
//! epoch (about 1/24 of the cache's weight).
//!
//! # Avoid when
//! Scans and one-hit wonders dominate: each crosses the whole queue. Prefer `s3fifo` or `sieve`.

use crate::knobs::Knobs;
use crate::parts::epochs::{EpochRing, TAG_BITS, TAG_MASK, Tag};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// One hit in an entry's byte: the counter stands above the tag.
const ONE_HIT: u8 = 1 << TAG_BITS;

crate::knobs! {
    /// The knobs of [`Clock`].
    pub struct ClockConfig {
        /// Bits of the counter.
        bits: u8 = 1, 1 => 3;
    }
}

/// CLOCK with counters of a few bits.
#[derive(Clone, Debug)]
pub struct Clock {
    queue: EpochRing,
    capacity: u64,
    live: usize,
    /// The byte's part above the tag when the counter is full.
    count_max: u8,
}

/// The entry's byte:
/// ```text
/// bit 7   5 4   0
///    [count][tag]     tag 0: not filed
/// ```
#[inline]
fn is_filed(cells: &impl Cells<u8>, slot: Slot, tag: Tag) -> bool {
    cells.is_live(slot) && cells.get(slot) & TAG_MASK == tag
}

impl Policy for Clock {
    type Meta = u8;
    type Config = ClockConfig;
    const NAME: &'static str = "clock";
    const ALIASES: &'static [&'static str] = &["fifo-reinsertion", "second-chance", "lp-fifo"];
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, config: &ClockConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let count_max = ((1 << config.bits) - 1) << TAG_BITS;
        Clock {
            queue: EpochRing::new(),
            capacity,
            live: 0,
            count_max,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    #[inline]
    fn miss(&mut self, _facts: &impl Facts, _key_hash: u64, _weight: u32) -> Admit {
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let tag = self.queue.push(slot, cells.weight(slot), self.capacity);
        cells.set(slot, tag);
        self.live += 1;
        self.queue
            .compact(self.live, |slot, tag| is_filed(cells, slot, tag));
    }

    #[inline]
    fn mark(&self, _facts: &impl Facts, _slot: Slot, meta: u8) -> Option<u8> {
        (meta & !TAG_MASK < self.count_max).then(|| meta + ONE_HIT)
    }

    #[inline]
    fn reweigh(&mut self, _cells: &mut impl Cells<u8>, _slot: Slot, _old_weight: u32) {}

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        self.queue.push_in(cells.get(new) & TAG_MASK, new);
        self.queue
            .compact(self.live, |slot, tag| is_filed(cells, slot, tag));
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        debug_assert_ne!(
            cells.get(slot) & TAG_MASK,
            0,
            "removed without having been inserted"
        );
        cells.set(slot, 0);
        self.live -= 1;
        self.queue
            .compact(self.live, |slot, tag| is_filed(cells, slot, tag));
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        if self.live == 0 {
            return Eviction::Empty;
        }
        while budget.spend() {
            let (slot, tag) = self.queue.pop().expect("every entry held has a reference");
            if !is_filed(cells, slot, tag) {
                continue;
            }
            let count = cells.get(slot) & !TAG_MASK;
            if count == 0 {
                cells.set(slot, 0);
                self.live -= 1;
                return Eviction::Victim(slot);
            }
            let tag = self.queue.push(slot, cells.weight(slot), self.capacity);
            cells.set(slot, (count - ONE_HIT) | tag);
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.queue.check();
        let filed = self
            .queue
            .live_slots(|slot, tag| is_filed(cells, slot, tag));
        assert_eq!(
            filed.len(),
            self.live,
            "every entry held has a reference that stands for it"
        );
    }
}
