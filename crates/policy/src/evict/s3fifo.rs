//! S3-FIFO: three static FIFO queues.
//!
//! # Idea
//! Most entries are asked for once. A *small* queue of a tenth of the cache tries newcomers: who was
//! hit at least twice by its end moves to the *main* queue, the others leave and are remembered in
//! the *ghost* queue. Who comes back while it is remembered goes to main at once. Main spares an
//! entry once for each hit (up to 3) before it goes.
//!
//! # Source
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, *FIFO queues are all you need for cache
//! eviction*, SOSP 2023, <https://doi.org/10.1145/3600006.3613147>; algorithms 1–5 in J. Yang,
//! *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU 2024. Compared with
//! libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bits (frequency, queue, epoch tag) and a 4-byte reference in a queue; per ghost
//! under 5 bytes, and about 0.9 ghosts to an entry: 9.5 bytes an entry in all with 50,000 entries, 13
//! with 2,000 (asserted in `promises.rs`).
//!
//! # Cost
//! hit 0 or one write of the entry's byte · miss: a look into one cache line of ghosts · insert,
//! remove O(1) · evict: one step per entry looked at; all of main may be marked, and the budget cuts
//! the round anywhere.
//!
//! # Knobs
//! `small` (0.1; 0.001 to 0.9): the small queue's share of the capacity. `ghost` (0.9; 0 to 10): the
//! weight that the ghost queue remembers, as a share of the capacity. `threshold` (2; 1 to 3): hits
//! in the small queue that lead to main.
//!
//! # Departures
//! While nothing has been evicted yet, main takes over from a full small queue (a later addition of
//! the authors' to their simulator): else small would hold the whole cache at first. Which queue is
//! shortened: main when it is above its share, else small, as in the authors' code; algorithm 3
//! asks only whether small is above its own. A main that grows past its share by a move gives way at
//! the next eviction, not within the move. An entry larger than the small queue is accepted and goes
//! soon, where the authors' simulator refuses it. Ghosts are fingerprints (see
//! [`ghost`](crate::parts::ghost)). An entry whose slot was vacated and reused within one epoch may
//! come up early, and a relocated one late, by at most one epoch (about 1/24 of its queue).
//!
//! # Avoid when
//! Nearly all entries come back exactly once, far apart (they are tried twice), or the cache holds
//! but a few dozen entries (the small queue is too short to tell).

use crate::knobs::Knobs;
use crate::parts::epochs::{EpochRing, TAG_BITS, TAG_MASK, Tag};
use crate::parts::ghost::Ghost;
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

const SMALL: usize = 0;
const MAIN: usize = 1;
const QUEUE: u8 = 1 << TAG_BITS;
/// One hit: the frequency has the two highest bits.
const ONE_HIT: u8 = 1 << 6;

/// What a ghost comes to in a full ghost queue, with the free places of its table.
const BYTES_PER_GHOST: f64 = 5.4;

crate::knobs! {
    /// The knobs of [`S3Fifo`].
    pub struct S3FifoConfig {
        /// The small queue's share of the capacity.
        small: f64 = 0.1, 0.001 => 0.9;
        /// The weight that the ghost queue remembers, as a share of the capacity.
        ghost: f64 = 0.9, 0.0 => 10.0;
        /// Hits in the small queue that lead to main.
        threshold: u8 = 2, 1 => 3;
    }
}

/// S3-FIFO.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    queues: [EpochRing; 2],
    live: [usize; 2],
    weight: [u64; 2],
    capacity: u64,
    small_capacity: u64,
    ghost: Ghost,
    /// The key that was found among the ghosts and is about to be inserted.
    returning: Option<u64>,
    has_evicted: bool,
    /// The queue that the eviction under way works on.
    evicting: Option<usize>,
    config: S3FifoConfig,
}

/// The entry's byte:
/// ```text
/// bit 7  6       5    4   0
/// [frequency][queue][ tag ]     tag 0: not filed
/// ```
#[inline]
fn is_filed(cells: &impl Cells<u8>, slot: Slot, queue: usize, tag: Tag) -> bool {
    cells.is_live(slot) && cells.get(slot) & (QUEUE | TAG_MASK) == (queue as u8) << TAG_BITS | tag
}

#[inline]
fn queue_of(meta: u8) -> usize {
    usize::from(meta >> TAG_BITS & 1)
}

impl S3Fifo {
    /// Files an entry at the young end of a queue, with the frequency bits `frequency`.
    #[inline]
    fn file(&mut self, cells: &mut impl Cells<u8>, slot: Slot, queue: usize, frequency: u8) {
        let weight = cells.weight(slot);
        let share = [self.small_capacity, self.capacity][queue].max(self.weight[queue]);
        let tag = self.queues[queue].push(slot, weight, share);
        cells.set(slot, frequency | (queue as u8) << TAG_BITS | tag);
        self.live[queue] += 1;
        self.weight[queue] += u64::from(weight);
    }

    #[inline]
    fn forget(&mut self, weight: u32, queue: usize) {
        self.live[queue] -= 1;
        self.weight[queue] -= u64::from(weight);
    }

    #[inline]
    fn compact(&mut self, cells: &impl Cells<u8>) {
        for queue in [SMALL, MAIN] {
            self.queues[queue].compact(self.live[queue], |slot, tag| {
                is_filed(cells, slot, queue, tag)
            });
        }
    }

    /// How many ghosts are to be expected if they weigh what entries weigh.
    fn ghosts_expected(capacity: u64, config: &S3FifoConfig, live: usize, weight: u64) -> u64 {
        let window = capacity as f64 * config.ghost;
        (window * live as f64 / weight.max(1) as f64) as u64
    }

    /// From the start, a full small queue gives way instead of main taking over.
    pub(super) fn without_fill(mut self) -> Self {
        self.has_evicted = true;
        self
    }

    /// What small may weigh before it gives way to main.
    pub(super) fn small_capacity(&self) -> u64 {
        self.small_capacity
    }

    /// Moves the border between small and main.
    pub(super) fn set_small_capacity(&mut self, small_capacity: u64) {
        assert!(small_capacity <= self.capacity);
        self.small_capacity = small_capacity;
    }

    /// Another share of small, and another number of hits that leads to main, from now on.
    pub(super) fn set_border(&mut self, small: f64, threshold: u8) {
        self.config.small = small;
        self.config.threshold = threshold;
        assert!(self.config.is_valid());
        self.small_capacity = (self.capacity as f64 * small) as u64;
    }

    /// [`Policy::evict`], and whether the victim was in small.
    #[inline]
    pub(super) fn evict_from(
        &mut self,
        cells: &mut impl Cells<u8>,
        budget: &mut Budget,
    ) -> (Eviction, bool) {
        self.has_evicted = true;
        while self.live != [0, 0] {
            if !budget.spend() {
                return (Eviction::Again, false);
            }
            let main_is_over = self.weight[MAIN] > self.capacity - self.small_capacity;
            let queue = self.evicting.unwrap_or(usize::from(main_is_over));
            let queue = if self.live[queue] == 0 {
                1 - queue
            } else {
                queue
            };
            self.evicting = Some(queue);
            let victim = if queue == SMALL {
                self.step_small(cells)
            } else {
                self.step_main(cells)
            };
            if let Some(slot) = victim {
                self.evicting = None;
                cells.set(slot, 0);
                return (Eviction::Victim(slot), queue == SMALL);
            }
        }
        (Eviction::Empty, false)
    }

    /// The oldest reference of small: its entry leaves, moves to main, or is long gone.
    #[inline]
    fn step_small(&mut self, cells: &mut impl Cells<u8>) -> Option<Slot> {
        let (slot, tag) = self.queues[SMALL]
            .pop()
            .expect("every entry held has a reference");
        if !is_filed(cells, slot, SMALL, tag) {
            return None;
        }
        let weight = cells.weight(slot);
        let frequency = cells.get(slot) >> 6;
        let (live, all) = (self.live[0] + self.live[1], self.weight[0] + self.weight[1]);
        self.forget(weight, SMALL);
        if frequency >= self.config.threshold {
            self.file(cells, slot, MAIN, 0);
            return None;
        }
        let (capacity, config) = (self.capacity, &self.config);
        self.ghost.file(cells.key_hash(slot), weight, || {
            Self::ghosts_expected(capacity, config, live, all)
        });
        Some(slot)
    }

    /// The oldest reference of main: its entry leaves, is spared, or is long gone.
    #[inline]
    fn step_main(&mut self, cells: &mut impl Cells<u8>) -> Option<Slot> {
        let (slot, tag) = self.queues[MAIN]
            .pop()
            .expect("every entry held has a reference");
        if !is_filed(cells, slot, MAIN, tag) {
            return None;
        }
        self.forget(cells.weight(slot), MAIN);
        let meta = cells.get(slot);
        if meta < ONE_HIT {
            return Some(slot);
        }
        let frequency = meta & (3 * ONE_HIT);
        self.file(cells, slot, MAIN, frequency - ONE_HIT);
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
        S3Fifo {
            queues: [EpochRing::new(), EpochRing::new()],
            live: [0, 0],
            weight: [0, 0],
            capacity,
            small_capacity: (capacity as f64 * config.small) as u64,
            ghost: Ghost::new((capacity as f64 * config.ghost) as u64),
            returning: None,
            has_evicted: false,
            evicting: None,
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.small_capacity = (capacity as f64 * self.config.small) as u64;
        self.ghost
            .resize((capacity as f64 * self.config.ghost) as u64);
    }

    #[inline]
    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.returning = self.ghost.take(key_hash, weight).then_some(key_hash);
        Admit::Yes
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let returning = self.returning.take();
        let is_filling = !self.has_evicted && self.weight[SMALL] >= self.small_capacity.max(1);
        let is_back = returning.is_some_and(|key_hash| key_hash == cells.key_hash(slot));
        let queue = if is_filling || is_back { MAIN } else { SMALL };
        self.file(cells, slot, queue, 0);
        self.compact(cells);
    }

    #[inline]
    fn mark(&self, _facts: &impl Facts, _slot: Slot, meta: u8) -> Option<u8> {
        (meta < 3 * ONE_HIT).then(|| meta + ONE_HIT)
    }

    fn reweigh(&mut self, cells: &mut impl Cells<u8>, slot: Slot, old_weight: u32) {
        let queue = queue_of(cells.get(slot));
        let weight = self.weight[queue] - u64::from(old_weight);
        self.weight[queue] = weight + u64::from(cells.weight(slot));
    }

    fn moved(&mut self, cells: &mut impl Cells<u8>, _old: Slot, new: Slot) {
        let meta = cells.get(new);
        self.queues[queue_of(meta)].push_in(meta & TAG_MASK, new);
        self.compact(cells);
    }

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let meta = cells.get(slot);
        debug_assert_ne!(meta & TAG_MASK, 0, "removed without having been inserted");
        self.forget(cells.weight(slot), queue_of(meta));
        cells.set(slot, 0);
        self.compact(cells);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        self.evict_from(cells, budget).0
    }

    fn usage(&self, cells: &impl Cells<u8>, slot: Slot) -> (Option<u64>, Option<u32>) {
        (None, Some(u32::from(cells.get(slot) >> 6)))
    }

    fn heap_bytes(&self) -> usize {
        let queues: usize = self.queues.iter().map(EpochRing::heap_bytes).sum();
        queues + self.ghost.heap_bytes()
    }

    fn heap_bytes_ahead(&self) -> usize {
        let live = self.live.iter().sum::<usize>();
        let ghosts = live as f64 * self.config.ghost;
        ((ghosts * BYTES_PER_GHOST) as usize).saturating_sub(self.ghost.heap_bytes())
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.ghost.check();
        for queue in [SMALL, MAIN] {
            self.queues[queue].check();
            let filed =
                self.queues[queue].live_slots(|slot, tag| is_filed(cells, slot, queue, tag));
            assert_eq!(
                filed.len(),
                self.live[queue],
                "every entry held has a reference"
            );
            let weight: u64 = filed
                .iter()
                .map(|&slot| u64::from(cells.weight(slot)))
                .sum();
            assert_eq!(weight, self.weight[queue]);
        }
    }
}
