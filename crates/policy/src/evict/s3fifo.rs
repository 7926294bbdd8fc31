//! S3-FIFO: three static FIFO queues.
//!
//! # Idea
//! Most entries are requested once. New entries pass through a *small* queue of a tenth of the
//! cache. An entry hit at least twice by its end moves to the *main* queue; the others are evicted
//! and remembered in the *ghost* queue. A key that is requested while it is remembered goes to main
//! at once. Main spares an entry once for each hit, up to 3, before evicting it.
//!
//! # Source
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, *FIFO queues are all you need for cache
//! eviction*, SOSP 2023, <https://doi.org/10.1145/3600006.3613147>; algorithms 1–5 in J. Yang,
//! *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU 2024. Compared with
//! libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bits (frequency, queue, epoch tag) and a 4-byte reference in a queue; per ghost
//! under 5 bytes, and about 0.9 ghosts per entry. In all 9.5 bytes per entry with 50,000 entries,
//! 13 with 2,000 (asserted in `promises.rs`).
//!
//! # Cost
//! hit 0 or one write of the entry's byte · miss: a look-up in one cache line of ghosts · insert,
//! remove O(1) · evict: one step per entry passed; all of main may be marked, and the budget can
//! end the round anywhere.
//!
//! # Knobs
//! `small` (0.1; 0.001 to 0.9): the small queue's share of the capacity. `ghost` (0.9; 0 to 10):
//! the weight that the ghost queue remembers, as a share of the capacity. `threshold` (2; 1 to 3):
//! number of hits in the small queue that lead to main.
//!
//! # Departures
//! Until the first eviction, main fills up once small is full (a later addition of the authors' to
//! their simulator); otherwise small would hold the whole cache at first. The victim comes from
//! main if that is above its share, else from small, as in the authors' code; algorithm 3 only
//! tests whether small is above its own. If a move makes main exceed its share, main evicts at the
//! next eviction, not within the move. An entry larger than the small queue is accepted and evicted
//! soon, where the authors' simulator rejects it. Ghosts are fingerprints (see
//! [`ghost`](crate::parts::ghost)). An entry whose slot was vacated and reused within one epoch may
//! be evicted early, and a relocated one late, by at most one epoch: 1/24 of its queue's weight, or
//! 128 entries if these weigh more and 1/24 is at least 128 units.
//!
//! # Avoid when
//! Nearly all keys return exactly once, far apart, so that they pass through small twice; or the
//! cache holds only a few dozen entries, so that the small queue is too short.

use crate::knobs::Knobs;
use crate::marker::Count;
use crate::parts::epochs::TAG_BITS;
use crate::parts::ghost::Ghost;
use crate::parts::queue::{TWO_QUEUES, WeighedQueue, queue_of};
use crate::{Admit, Budget, Cells, Eviction, Facts, Marker, OnHit, Policy, Slot};

const SMALL: usize = 0;
const MAIN: usize = 1;
/// Bits of one hit: the frequency is in the two highest bits of the entry's byte, above the queue's
/// bits.
const ONE_HIT: u8 = 1 << 6;

/// An entry is *small* if the mean weight is more than this many times its own.
const MEAN_PER_SMALL: u64 = 3;
/// An entry is *large* above this many times the mean weight, and *very large* above
/// `VERY_LARGE_PER_MEAN`.
const LARGE_PER_MEAN: u64 = 2;
const VERY_LARGE_PER_MEAN: u64 = 8;

/// Bytes per ghost in a full ghost queue, including the free places of its table.
const BYTES_PER_GHOST: f64 = 5.4;

crate::knobs! {
    /// Knobs of [`S3Fifo`].
    pub struct S3FifoConfig {
        /// Share of the capacity for the small queue.
        small: f64 = 0.1, 0.001 => 0.9;
        /// Weight that the ghost queue remembers, as a share of the capacity.
        ghost: f64 = 0.9, 0.0 => 10.0;
        /// Number of hits in the small queue that lead to main.
        threshold: u8 = 2, 1 => 3;
    }
}

/// The S3-FIFO policy.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    queues: [WeighedQueue; 2],
    capacity: u64,
    small_capacity: u64,
    ghost: Ghost,
    /// Key that was found among the ghosts and is about to be inserted.
    returning: Option<u64>,
    has_evicted: bool,
    /// Queue from which the current eviction takes its victim.
    evicting: Option<usize>,
    /// Whether the number of hits that an entry needs depends on its weight.
    has_sizes: bool,
    config: S3FifoConfig,
}

impl S3Fifo {
    /// Returns the expected number of ghosts if they weigh as much as entries do.
    fn ghosts_expected(capacity: u64, config: &S3FifoConfig, live: usize, weight: u64) -> u64 {
        let window = capacity as f64 * config.ghost;
        (window * live as f64 / weight.max(1) as f64) as u64
    }

    /// Makes a full small queue evict from the start. By default main fills up first.
    pub(super) fn without_fill(mut self) -> Self {
        self.has_evicted = true;
        self
    }

    /// Makes large entries need more hits than others, and small entries fewer.
    pub(super) fn with_sizes(mut self, has_sizes: bool) -> Self {
        self.has_sizes = has_sizes;
        self
    }

    /// Returns the number of hits that an entry of this weight needs instead of `hits`: one fewer
    /// if it is small, one more if it is large, and two more if it is very large.
    #[inline]
    fn hits_needed(&self, hits: u8, weight: u32) -> u8 {
        if !self.has_sizes {
            return hits;
        }
        let [small, main] = &self.queues;
        let all = small.weight() + main.weight();
        // The weight relative to the mean, without a division; both factors are below 2^32.
        let relative = u64::from(weight) * (small.len() + main.len()) as u64;
        let is_small = relative.saturating_mul(MEAN_PER_SMALL) < all;
        let is_large = relative > all.saturating_mul(LARGE_PER_MEAN);
        let is_very_large = relative > all.saturating_mul(VERY_LARGE_PER_MEAN);
        let more = u8::from(is_large) + u8::from(is_very_large);
        // An entry counts up to three hits.
        (hits + more - u8::from(is_small)).min(3)
    }

    /// Maximum weight of small before it gives entries to main or evicts.
    pub(super) fn small_capacity(&self) -> u64 {
        self.small_capacity
    }

    /// Moves the border between small and main.
    pub(super) fn set_small_capacity(&mut self, small_capacity: u64) {
        assert!(small_capacity <= self.capacity);
        self.small_capacity = small_capacity;
        self.queues[SMALL].resize(small_capacity);
    }

    /// Sets the weight of the entries last pushed to small whose hits do not count by
    /// [`S3Fifo::windowed_marker`].
    pub(super) fn set_small_window(&mut self, weight: u64) {
        self.queues[SMALL].set_window(weight);
    }

    /// Like [`S3Fifo::set_small_window`], for main.
    pub(super) fn set_main_window(&mut self, weight: u64) {
        self.queues[MAIN].set_window(weight);
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(WeighedQueue::len).sum()
    }

    /// Returns the rule of marks that counts hits up to `max` and none within the windows.
    #[inline]
    pub(super) fn windowed_marker(&self, max: u8) -> Marker {
        let [small, main] = &self.queues;
        Marker::Windowed {
            count: Count {
                mask: u64::from(3 * ONE_HIT),
                max: u64::from(max * ONE_HIT),
                one: u64::from(ONE_HIT),
            },
            young: u64::from(small.young_tags()) | u64::from(main.young_tags()) << (1 << TAG_BITS),
        }
    }

    /// Like [`Policy::miss`], but if the key is a ghost, returns the weight of small's victims
    /// since this key was one.
    #[inline]
    pub(super) fn miss_aged(&mut self, key_hash: u64, weight: u32) -> Option<u64> {
        let age = self.ghost.take_aged(key_hash, weight);
        self.returning = age.map(|_| key_hash);
        age
    }

    /// Whether a live entry is in main.
    pub(super) fn is_in_main(&self, cells: &impl Cells<u8>, slot: Slot) -> bool {
        queue_of::<TWO_QUEUES>(cells.get(slot)) == MAIN
    }

    /// Makes the key that was just missed enter main, as if it were a ghost.
    pub(super) fn return_to_main(&mut self, key_hash: u64) {
        self.returning = Some(key_hash);
    }

    /// Same as [`Policy::evict`], but also returns whether the victim was in small.
    #[inline]
    pub(super) fn evict_from(
        &mut self,
        cells: &mut impl Cells<u8>,
        budget: &mut Budget,
    ) -> (Eviction, bool) {
        self.has_evicted = true;
        while !self.queues.iter().all(WeighedQueue::is_empty) {
            if !budget.spend() {
                return (Eviction::Again, false);
            }
            let main_is_over = self.queues[MAIN].weight() > self.capacity - self.small_capacity;
            let mut queue = self.evicting.unwrap_or(usize::from(main_is_over));
            if self.queues[queue].is_empty() {
                queue = 1 - queue;
            }
            self.evicting = Some(queue);
            let victim = match queue {
                SMALL => self.step_small(cells),
                _ => self.step_main(cells),
            };
            if let Some(slot) = victim {
                self.evicting = None;
                cells.set(slot, 0);
                return (Eviction::Victim(slot), queue == SMALL);
            }
        }
        (Eviction::Empty, false)
    }

    /// Moves the oldest entry of small to main if it was hit often enough; else returns it as the
    /// victim.
    #[inline]
    fn step_small(&mut self, cells: &mut impl Cells<u8>) -> Option<Slot> {
        let [small, main] = &self.queues;
        let (live, all) = (small.len() + main.len(), small.weight() + main.weight());
        let slot = self.queues[SMALL].pop(cells)?;
        let needed = self.hits_needed(self.config.threshold, cells.weight(slot));
        if cells.get(slot) >> 6 >= needed {
            self.queues[MAIN].push(cells, slot);
            return None;
        }
        let (capacity, config) = (self.capacity, &self.config);
        let expected = || Self::ghosts_expected(capacity, config, live, all);
        self.ghost
            .file(cells.key_hash(slot), cells.weight(slot), expected);
        Some(slot)
    }

    /// Pushes the oldest entry of main again with one hit fewer, or with as many fewer as an entry
    /// of its weight needs. If it does not have enough, returns it as the victim.
    #[inline]
    fn step_main(&mut self, cells: &mut impl Cells<u8>) -> Option<Slot> {
        let slot = self.queues[MAIN].pop(cells)?;
        let frequency = cells.get(slot) & (3 * ONE_HIT);
        let price = self.hits_needed(1, cells.weight(slot)).max(1) * ONE_HIT;
        if frequency < price {
            return Some(slot);
        }
        self.queues[MAIN].push_with(cells, slot, frequency - price);
        None
    }
}

impl Policy for S3Fifo {
    type Meta = u8;
    type Config = S3FifoConfig;
    const NAME: &'static str = "s3fifo";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, config: &S3FifoConfig, _seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let small_capacity = (capacity as f64 * config.small) as u64;
        S3Fifo {
            queues: [
                WeighedQueue::new(SMALL as u8, small_capacity),
                WeighedQueue::new(MAIN as u8, capacity),
            ],
            capacity,
            small_capacity,
            ghost: Ghost::new((capacity as f64 * config.ghost) as u64),
            returning: None,
            has_evicted: false,
            evicting: None,
            has_sizes: false,
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.queues[MAIN].resize(capacity);
        self.set_small_capacity((capacity as f64 * self.config.small) as u64);
        self.ghost
            .resize((capacity as f64 * self.config.ghost) as u64);
    }

    #[inline]
    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.miss_aged(key_hash, weight);
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let returning = self.returning.take();
        let is_small_full = self.queues[SMALL].weight() >= self.small_capacity.max(1);
        let is_filling = !self.has_evicted && is_small_full;
        let is_back = returning.is_some_and(|key_hash| key_hash == cells.key_hash(slot));
        let queue = if is_filling || is_back { MAIN } else { SMALL };
        self.queues[queue].push(cells, slot);
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count {
            mask: u64::from(3 * ONE_HIT),
            max: u64::from(3 * ONE_HIT),
            one: u64::from(ONE_HIT),
        })
    }
    mark_by_marker!(u8);

    fn reweigh(&mut self, cells: &mut impl Cells<u8>, slot: Slot, old_weight: u32) {
        self.queues[queue_of::<TWO_QUEUES>(cells.get(slot))].reweigh(cells, slot, old_weight);
    }

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        self.queues[queue_of::<TWO_QUEUES>(cells.get(new))].moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        self.queues[queue_of::<TWO_QUEUES>(cells.get(slot))].remove(cells, slot);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        self.evict_from(cells, budget).0
    }

    fn usage(&self, cells: &impl Cells<u8>, slot: Slot) -> (Option<u64>, Option<u32>) {
        (None, Some(u32::from(cells.get(slot) >> 6)))
    }

    fn heap_bytes(&self) -> usize {
        let queues: usize = self.queues.iter().map(WeighedQueue::heap_bytes).sum();
        queues + self.ghost.heap_bytes()
    }

    fn heap_bytes_ahead(&self) -> usize {
        let live: usize = self.queues.iter().map(WeighedQueue::len).sum();
        let ghosts = live as f64 * self.config.ghost;
        ((ghosts * BYTES_PER_GHOST) as usize).saturating_sub(self.ghost.heap_bytes())
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.ghost.check();
        self.queues.iter().for_each(|queue| queue.check(cells));
    }
}
