//! Keys evicted recently: a table of fingerprints with their time, under 5 bytes per ghost.
//!
//! Time is virtual: the weight filed so far. Ghosts leave first in, first out, without being
//! touched: those filed before a *horizon* are dead. The horizon advances when the weight filed
//! since, less the weight found again since, exceeds the capacity.
//!
//! ```text
//! a ghost:  bit 31      20 19           0
//!           [    time    ][ fingerprint ]     the word 0: vacant
//! ```
//!
//! The hash cuts the table into *segments*, each of a few buckets of 16 ghosts (one cache line).
//! The fingerprint chooses the bucket, so that a segment can be rebuilt at another size from its
//! content. A ghost that finds no room in its bucket goes to the next one. The number of segments
//! is chosen at the first ghost, when the content of the full cache shows how many to expect; each
//! segment grows and shrinks on its own in steps of an eighth to a quarter. So the table follows
//! its content without ever doubling at once, and one call rebuilds at most one segment (about 200
//! ghosts).
//!
//! Inexact by design: full buckets lose their oldest ghosts early (1 in 50 at the usual load); an
//! unknown key is mistaken for a ghost once in about 5,000 misses (200 ghosts in a segment, 20
//! bits); time is counted in 1/128 of the capacity.
//!
//! Source: chapter 8.3.2 of J. Yang, *Designing Efficient and Scalable Key-value Cache Management
//! Systems*, CMU 2024, which has one bucketed table of fixed size with 4-byte fingerprints, and
//! keeps counting a ghost that was found again as if it were still there.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Ghosts per bucket: one cache line.
const BUCKET: usize = 16;
/// Target number of ghosts per segment: 16 buckets, 88 % full.
const SEGMENT_AIMED: u64 = 224;
/// Maximum number of buckets per segment. More would be needed only if the expected number of
/// ghosts were wrong by a factor of 16.
const BUCKETS_MAX: usize = 256;
/// Number of bits of the fingerprint, which are the lower bits of a ghost's word. The upper ones
/// are the time.
const PRINT_BITS: u32 = 20;
const PRINT_MASK: u32 = (1 << PRINT_BITS) - 1;
/// Mask of the time.
const TIME_MASK: u32 = (1 << (32 - PRINT_BITS)) - 1;
/// Number of quanta of time during which ghosts of the whole capacity are filed. It is smaller if
/// fewer ghosts are expected.
const QUANTA_AIMED: u64 = 128;
/// Maximum distance of the horizon, in multiples of [`QUANTA_AIMED`]. The more ghosts are found
/// again, the longer the others are kept.
const HORIZON_MAX: u64 = 8;
/// Maximum number of segments swept by one call.
const SWEEP_MAX: u32 = 4;

// Every segment is swept once while the horizon advances, before a dead ghost's time is reused.
const _: () = assert!(2 * HORIZON_MAX * QUANTA_AIMED < TIME_MASK as u64);

type Bucket = [u32; BUCKET];

#[derive(Clone, Debug, Default)]
struct Segment {
    /// Empty before the first ghost is filed.
    buckets: Box<[Bucket]>,
    /// Number of ghosts filed since the segment was last measured.
    filed: u32,
}

/// Ghosts of one queue.
#[derive(Clone, Debug)]
pub struct Ghost {
    segments: Vec<Segment>,
    capacity: u64,
    /// Capacity when the table was created, from which the quantum is computed.
    capacity_first: u64,
    /// Weight of the ghosts that are filed in one quantum of time.
    quantum: u64,
    /// Weight of the ghosts filed since the table was created.
    filed_weight: u64,
    /// Quantum before which all filed ghosts are dead.
    horizon: u64,
    /// Weight of the ghosts that were found again, by the quantum in which they were filed, for the
    /// quanta since the horizon. The array is a ring whose length is a power of two and divides the
    /// range of times.
    met: Box<[u32]>,
    /// Sum of `met`.
    met_weight: u64,
    /// Work that the sweep has still to do, in segments × quanta.
    sweep_owed: u64,
    sweep_next: usize,
    bucket_count: usize,
}

impl Ghost {
    /// Creates an empty queue of ghosts that holds ghosts of a total weight of `capacity`. Nothing
    /// is allocated before the first ghost.
    pub fn new(capacity: u64) -> Self {
        Ghost {
            segments: Vec::new(),
            capacity,
            capacity_first: capacity,
            quantum: 1,
            filed_weight: 0,
            horizon: 0,
            met: Box::default(),
            met_weight: 0,
            sweep_owed: 0,
            sweep_next: 0,
            bucket_count: 0,
        }
    }

    /// Sets the capacity. Ghosts are dropped if it differs too much from the one for which the
    /// table was created.
    pub fn resize(&mut self, capacity: u64) {
        let is_near = capacity / 2 <= self.capacity_first && self.capacity_first / 8 <= capacity;
        if is_near && capacity > 0 {
            self.capacity = capacity;
            self.move_horizon();
        } else {
            *self = Ghost::new(capacity);
        }
    }

    /// Returns whether this key of weight `weight` was evicted recently, and drops its ghost.
    #[inline]
    pub fn take(&mut self, key_hash: u64, weight: u32) -> bool {
        self.take_aged(key_hash, weight).is_some()
    }

    /// Drops the ghost of this key of weight `weight`, and returns the weight filed since it was,
    /// to the precision of one quantum; `None` if the key is no ghost.
    #[inline]
    pub fn take_aged(&mut self, key_hash: u64, weight: u32) -> Option<u64> {
        if self.segments.is_empty() {
            return None;
        }
        let (now, life) = (self.time(), self.life());
        let (index, print) = self.locate(key_hash);
        let (home, next) = self.segments[index].home(print)?;
        for at in [home, next] {
            let bucket = &mut self.segments[index].buckets[at];
            let live = |word: u32| (word & PRINT_MASK == print) & (age(word, now) <= life);
            let found = matching(bucket, live);
            if found != 0 {
                let word = core::mem::take(&mut bucket[found.trailing_zeros() as usize]);
                let met = (word >> PRINT_BITS) as usize & (self.met.len() - 1);
                // The sum does not include weight that exceeds the range of the counter of one
                // quantum.
                let counted = weight.min(u32::MAX - self.met[met]);
                self.met[met] += counted;
                self.met_weight += u64::from(counted);
                return Some(u64::from(age(word, now)) * self.quantum);
            }
        }
        None
    }

    /// Files a key that was just evicted. `expected` returns how many ghosts the capacity is likely
    /// to hold; it is called when the first one is filed.
    #[inline]
    pub fn file(&mut self, key_hash: u64, weight: u32, expected: impl FnOnce() -> u64) {
        if self.segments.is_empty() {
            if self.capacity == 0 {
                return;
            }
            self.start(expected());
        }
        let (now, life) = (self.time(), self.life());
        let (index, print) = self.locate(key_hash);
        let word = now << PRINT_BITS | print;
        self.segments[index].filed += 1;
        if !self.segments[index].place(word, now, life) {
            self.place_in_full(index, word, now);
        }
        let before = self.filed_weight / self.quantum;
        self.filed_weight += u64::from(weight);
        let passed = self.filed_weight / self.quantum - before;
        if passed > 0 {
            self.pass_time(passed);
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bucket_count * size_of::<Bucket>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.met.len() * size_of::<u32>()
    }

    /// Number of live ghosts. Reads the whole table: for tests.
    pub fn count(&self) -> usize {
        let (now, life) = (self.time(), self.life());
        self.segments
            .iter()
            .map(|segment| segment.count(now, life))
            .sum()
    }

    /// Panics if the structure contradicts itself.
    pub fn check(&self) {
        let buckets: usize = self
            .segments
            .iter()
            .map(|segment| segment.buckets.len())
            .sum();
        assert_eq!(self.bucket_count, buckets);
        assert!(self.horizon <= self.filed_weight / self.quantum);
        assert!(self.life() as usize <= self.met.len());
        let met: u64 = self.met.iter().map(|&met| u64::from(met)).sum();
        assert_eq!(self.met_weight, met);
    }

    /// Creates the table for this number of ghosts.
    #[cold]
    fn start(&mut self, expected: u64) {
        let quanta = expected
            .clamp(BUCKET as u64, QUANTA_AIMED)
            .next_power_of_two();
        let quantum = self.capacity.div_ceil(quanta).max(1);
        let count = expected.div_ceil(SEGMENT_AIMED).max(1) as usize;
        *self = Ghost {
            segments: vec![Segment::default(); count],
            quantum,
            met: vec![0; (quanta * HORIZON_MAX) as usize].into_boxed_slice(),
            ..Ghost::new(self.capacity)
        };
    }

    #[inline]
    fn time(&self) -> u32 {
        (self.filed_weight / self.quantum) as u32 & TIME_MASK
    }

    /// Returns the age of the oldest live ghosts, in quanta.
    #[inline]
    fn life(&self) -> u32 {
        (self.filed_weight / self.quantum - self.horizon) as u32
    }

    /// Returns the segment and the fingerprint of a key.
    #[inline]
    fn locate(&self, key_hash: u64) -> (usize, u32) {
        let index = ((key_hash >> 32) * self.segments.len() as u64) >> 32;
        (index as usize, (key_hash as u32 & PRINT_MASK).max(1))
    }

    /// Files a ghost whose bucket is full of live ghosts: the segment grows, or the oldest of the
    /// bucket is dropped.
    #[cold]
    fn place_in_full(&mut self, index: usize, word: u32, now: u32) {
        let segment = &self.segments[index];
        if segment.filed as usize > segment.buckets.len() * BUCKET / 8 {
            self.fit(index, now);
        }
        let life = self.life();
        if let Some(segment) = self.segments.get_mut(index)
            && !segment.place(word, now, life)
        {
            segment.force(word, now);
        }
    }

    /// Resizes a segment to what its live ghosts need, and removes the dead ghosts.
    fn fit(&mut self, index: usize, now: u32) {
        let life = self.life();
        let segment = &mut self.segments[index];
        segment.filed = 0;
        let live = segment.count(now, life);
        let old = segment.buckets.len();
        let is_crowded = live * 32 >= old * BUCKET * 31;
        let is_sparse = live * 20 < smaller(old) * BUCKET * 17;
        let wanted = match (is_crowded, is_sparse) {
            (true, _) => larger(old),
            (false, true) => smaller(old),
            (false, false) => old,
        };
        if wanted > BUCKETS_MAX {
            self.start(self.segments.len() as u64 * SEGMENT_AIMED * 16);
            return;
        }
        segment.rebuild(wanted, now, life);
        self.bucket_count = self.bucket_count + wanted - old;
    }

    /// Advances the horizon until the live ghosts fit in the capacity.
    #[inline]
    fn move_horizon(&mut self) {
        if self.met.is_empty() {
            return;
        }
        let now = self.filed_weight / self.quantum;
        loop {
            let since = self.filed_weight - (self.horizon * self.quantum).min(self.filed_weight);
            let live = since.saturating_sub(self.met_weight);
            let is_far = now - self.horizon >= self.met.len() as u64;
            if live <= self.capacity + self.quantum / 2 && !is_far || self.horizon == now {
                return;
            }
            let met = &mut self.met[self.horizon as usize & (self.met.len() - 1)];
            self.met_weight -= u64::from(core::mem::take(met));
            self.horizon += 1;
        }
    }

    /// Removes dead ghosts before their time is reused.
    #[cold]
    fn pass_time(&mut self, passed: u64) {
        if passed >= self.met.len() as u64 {
            *self = Ghost::new(self.capacity);
            return;
        }
        self.move_horizon();
        self.sweep_owed += passed * self.segments.len() as u64;
        let now = self.time();
        for _ in 0..SWEEP_MAX {
            if self.sweep_owed < self.met.len() as u64 || self.segments.is_empty() {
                return;
            }
            self.sweep_owed -= self.met.len() as u64;
            self.sweep_next = (self.sweep_next + 1) % self.segments.len();
            self.fit(self.sweep_next, now);
        }
    }
}

impl Segment {
    /// Returns the bucket of a fingerprint, and the one for ghosts for which that has no room.
    #[inline]
    fn home(&self, print: u32) -> Option<(usize, usize)> {
        let count = self.buckets.len();
        let home = (print as usize * count) >> PRINT_BITS;
        let next = if home + 1 < count { home + 1 } else { 0 };
        (count > 0).then_some((home, next))
    }

    /// Stores a ghost in a word that is vacant or has a dead ghost. Returns false if there is none.
    #[inline]
    fn place(&mut self, word: u32, now: u32, life: u32) -> bool {
        let Some((home, next)) = self.home(word & PRINT_MASK) else {
            return false;
        };
        for at in [home, next] {
            let bucket = &mut self.buckets[at];
            let free = matching(bucket, |old| (old == 0) | (age(old, now) > life));
            if free != 0 {
                bucket[free.trailing_zeros() as usize] = word;
                return true;
            }
        }
        false
    }

    /// Stores a ghost in the word of the oldest ghost.
    #[cold]
    fn force(&mut self, word: u32, now: u32) {
        let Some((home, next)) = self.home(word & PRINT_MASK) else {
            return;
        };
        let places = [home, next]
            .into_iter()
            .flat_map(|at| (0..BUCKET).map(move |word| (at, word)));
        let oldest = places.max_by_key(|&(at, word)| age(self.buckets[at][word], now));
        let (at, oldest) = oldest.expect("a bucket has words");
        self.buckets[at][oldest] = word;
    }

    fn count(&self, now: u32, life: u32) -> usize {
        let words = self.buckets.as_flattened().iter();
        words
            .filter(|&&word| (word != 0) & (age(word, now) <= life))
            .count()
    }

    fn rebuild(&mut self, buckets: usize, now: u32, life: u32) {
        if buckets == self.buckets.len() {
            for word in self.buckets.as_flattened_mut() {
                *word = if age(*word, now) <= life { *word } else { 0 };
            }
            return;
        }
        let fresh = vec![[0; BUCKET]; buckets].into_boxed_slice();
        let old = core::mem::replace(&mut self.buckets, fresh);
        for &word in old.as_flattened() {
            if word != 0 && age(word, now) <= life && !self.place(word, now, life) {
                self.force(word, now);
            }
        }
    }
}

/// Returns a bit set of the words for which `is` returns true, without a branch.
#[inline]
fn matching(bucket: &Bucket, is: impl Fn(u32) -> bool) -> u32 {
    let mut mask = 0;
    for (position, &word) in bucket.iter().enumerate() {
        mask |= u32::from(is(word)) << position;
    }
    mask
}

#[inline]
fn age(word: u32, now: u32) -> u32 {
    now.wrapping_sub(word >> PRINT_BITS) & TIME_MASK
}

/// Returns the next larger number of buckets. There are four sizes per doubling, which are the
/// allocators' size classes.
fn larger(buckets: usize) -> usize {
    let octave = (buckets + 1).next_power_of_two() / 2;
    buckets + (octave / 4).max(1)
}

/// Returns the next smaller number of buckets; 0 below 1.
fn smaller(buckets: usize) -> usize {
    let octave = buckets.next_power_of_two() / 2;
    buckets - (octave / 4).max(1).min(buckets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::chance::scramble;

    #[test]
    fn sizes_step_by_an_eighth_to_a_quarter() {
        let mut size = 0;
        for expected in [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40] {
            assert_eq!(larger(size), expected);
            assert_eq!(smaller(expected), size);
            size = expected;
        }
    }

    #[test]
    fn ghosts_leave_first_in_first_out() {
        let mut ghost = Ghost::new(100);
        for key in 0..1000 {
            ghost.file(scramble(key), 1, || 100);
            ghost.check();
        }
        let live = (0..1000).filter(|&key| ghost.clone().take(scramble(key), 1));
        let live: Vec<u64> = live.collect();
        assert!(live.iter().all(|&key| key >= 900));
        assert!(live.len() >= 95, "{}", live.len());
    }

    #[test]
    fn the_sum_stays_correct_when_a_quantum_overflows() {
        // The two weights together exceed 32 bits, and the sum once ignored that one of them was
        // cut.
        let mut ghost = Ghost::new(1 << 50);
        ghost.file(scramble(1), 938, || 100);
        ghost.file(scramble(2), u32::MAX, || 100);
        assert!(ghost.take(scramble(1), 938));
        assert!(ghost.take(scramble(2), u32::MAX));
        ghost.check();
    }

    #[test]
    fn a_ghost_found_again_makes_room_for_another() {
        let mut ghost = Ghost::new(16);
        (0..16).for_each(|key| ghost.file(scramble(key), 1, || 16));
        assert!(ghost.take(scramble(8), 1));
        assert!(!ghost.take(scramble(8), 1));
        ghost.file(scramble(100), 1, || 16);
        assert!(ghost.clone().take(scramble(0), 1));
        ghost.file(scramble(101), 1, || 16);
        assert!(!ghost.take(scramble(0), 1));
    }

    #[test]
    fn a_full_table_costs_under_five_bytes_a_ghost_and_adapts_to_a_wrong_guess() {
        for (expected, filed) in [
            (100_000u64, 100_000u64),
            (50_000, 100_000),
            (300_000, 100_000),
        ] {
            let mut ghost = Ghost::new(filed * 50);
            for key in 0..filed * 5 {
                ghost.file(scramble(key), 50, || expected);
            }
            ghost.check();
            let count = ghost.count();
            assert!(count as u64 >= filed * 94 / 100, "{count} of {filed} kept");
            assert!(count as u64 <= filed * 101 / 100, "{count} of {filed} kept");
            let bytes = ghost.heap_bytes() as f64 / count as f64;
            assert!(bytes <= 6.0, "{bytes} bytes a ghost, {expected} expected");
            assert!(expected != filed || bytes <= 5.0, "{bytes} bytes a ghost");
            let strangers = (0..100_000).filter(|&key| ghost.take(scramble(1 << 40 | key), 50));
            let strangers = strangers.count();
            assert!(
                strangers <= 80,
                "{strangers} of 100,000 strangers taken for ghosts"
            );
        }
    }
}
