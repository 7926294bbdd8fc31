//! CLOCK with counters of 1 to 3 bits; with 1 bit it is FIFO-Reinsertion, also called Second
//! Chance.
//!
//! # Idea
//! First in, first out, but an entry that was hit is inserted again instead of being evicted, and
//! its counter falls by one each time: promotion is done lazily, at eviction. A hit counts only up
//! to the counter's maximum, so hits on popular entries write nothing.
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
//! hit 0 or one write of the entry's byte · insert, remove O(1) · evict: one step per entry passed;
//! with k bits an entry can be passed 2^k − 1 times, and the budget can end the round anywhere.
//!
//! # Knobs
//! `bits` (1; 1 to 3): bits of the counter. `clock:2` is the 2-bit CLOCK.
//!
//! # Departures
//! The hand is a queue: an entry that is spared moves to the young end. An entry whose slot was
//! vacated and reused within one epoch may be evicted early, and a relocated one late, by at most
//! one epoch: 1/24 of the cache's weight, or 128 entries if these weigh more and 1/24 is at least
//! 128 units.
//!
//! # Avoid when
//! Scans and one-hit wonders dominate, because each crosses the whole queue. Prefer `s3fifo` or
//! `sieve`.

use crate::knobs::Knobs;
use crate::marker::Count;
use crate::parts::epochs::{TAG_BITS, TAG_MASK};
use crate::parts::queue::Queue;
use crate::{Budget, Cells, Eviction, Marker, OnHit, Policy, Slot};

/// One hit in an entry's byte: the counter is above the tag.
const ONE_HIT: u8 = 1 << TAG_BITS;

crate::knobs! {
    /// Knobs of [`Clock`].
    pub struct ClockConfig {
        /// Number of bits of the counter.
        bits: u8 = 1, 1 => 3;
    }
}

/// CLOCK with counters of a few bits, which are above the queue's tag in the entry's byte.
#[derive(Clone, Debug)]
pub struct Clock {
    queue: Queue,
    /// Value of the counter's bits in the byte when the counter is full.
    count_max: u8,
}

impl Policy for Clock {
    type Meta = u8;
    type Config = ClockConfig;
    const NAME: &'static str = "clock";
    const ALIASES: &'static [&'static str] = &["fifo-reinsertion", "second-chance", "lp-fifo"];
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, config: &ClockConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Clock {
            queue: Queue::new(0, capacity),
            count_max: ((1 << config.bits) - 1) << TAG_BITS,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.queue.resize(capacity);
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.queue.push(cells, slot);
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count {
            mask: u64::from(!TAG_MASK),
            max: u64::from(self.count_max),
            one: u64::from(ONE_HIT),
        })
    }
    mark_by_marker!(u8);

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        self.queue.moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.queue.remove(cells, slot);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        loop {
            let oldest = match self.queue.next(cells, budget) {
                Ok(oldest) => oldest,
                Err(none) => return none,
            };
            let count = cells.get(oldest) & !TAG_MASK;
            if count == 0 {
                cells.set(oldest, 0);
                return Eviction::Victim(oldest);
            }
            self.queue.push_with(cells, oldest, count - ONE_HIT);
        }
    }

    fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.queue.check(cells);
    }
}
