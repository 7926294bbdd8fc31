//! TTLs of keys when they are written, and ages of keys when they expire or are evicted.
//!
//! Every TTL is counted. Ages are counted for a sample, because an entry does not store the instant
//! at which it was written. A shard follows a few keys at a time: each cell follows one key from a
//! write until its removal, and then the next key written whose hash selects the cell. The followed
//! keys are thus a random sample of the writes, regardless of their ages, and a write or a removal
//! of another key costs one comparison.

use policy::Tick;

/// Number of bins of a histogram of spans.
pub const SPAN_BINS: usize = 44;
/// Number of keys that a shard follows at a time.
const CELLS: usize = 32;
/// One of this many keys may be followed: a power of two.
const ONE_IN: u64 = 64;

/// Histogram of time spans. Bin 0 counts spans of 0 ms, bin `i` those in [2^(i−1), 2^i) ms. The
/// last bin also counts all longer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// Number of spans by bin.
    pub counts: [u64; SPAN_BINS],
    /// Sum of all spans in milliseconds.
    pub sum_ms: u128,
}

impl Default for Spans {
    fn default() -> Self {
        Spans {
            counts: [0; SPAN_BINS],
            sum_ms: 0,
        }
    }
}

impl Spans {
    /// Counts one span.
    #[inline]
    pub fn count(&mut self, ms: u64) {
        let bin = (u64::BITS - ms.leading_zeros()) as usize;
        self.counts[bin.min(SPAN_BINS - 1)] += 1;
        self.sum_ms += u128::from(ms);
    }

    /// Adds the spans of another histogram.
    pub fn add(&mut self, other: &Spans) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.sum_ms += other.sum_ms;
    }

    /// Returns the number of spans.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A key being followed: its hash, its database, and the instant at which it was written.
#[derive(Clone, Copy, Debug)]
struct Followed {
    hash: u64,
    db: u8,
    since: Tick,
}

/// Histograms of one shard, and the keys that it follows.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes {
    /// TTLs of keys at the time when their deadline was set.
    pub written_ttls: Spans,
    /// Ages of followed keys that expired.
    pub expired_ages: Spans,
    /// Ages of followed keys that were evicted.
    pub evicted_ages: Spans,
    /// Allocated with the first key that is followed.
    cells: Option<Box<[Option<Followed>; CELLS]>>,
}

/// Whether a key with this hash may be followed. The bits are not those that select the shard.
#[inline]
fn may_follow(hash: u64) -> bool {
    (hash >> 36).is_multiple_of(ONE_IN)
}

fn cell_of(hash: u64) -> usize {
    (hash >> 42) as usize % CELLS
}

impl Lifetimes {
    /// Counts the TTL of a key whose deadline is set.
    #[inline]
    pub fn deadline_set(&mut self, deadline: Tick, now: Tick) {
        self.written_ttls.count(deadline.0.saturating_sub(now.0));
    }

    /// Notes that a key was written as a whole.
    #[inline]
    pub fn written(&mut self, hash: u64, db: u8, now: Tick) {
        if may_follow(hash) {
            self.follow(hash, db, now);
        }
    }

    #[cold]
    fn follow(&mut self, hash: u64, db: u8, since: Tick) {
        let cells = self.cells.get_or_insert_default();
        let cell = &mut cells[cell_of(hash)];
        if cell.is_none_or(|other| other.hash == hash && other.db == db) {
            *cell = Some(Followed { hash, db, since });
        }
    }

    /// Notes that a key was removed. Returns its age if it was followed.
    #[inline]
    pub fn removed(&mut self, hash: u64, db: u8, now: Tick) -> Option<u64> {
        may_follow(hash).then(|| self.forget(hash, db, now))?
    }

    #[cold]
    fn forget(&mut self, hash: u64, db: u8, now: Tick) -> Option<u64> {
        let cell = &mut self.cells.as_mut()?[cell_of(hash)];
        let followed = cell.take_if(|one| one.hash == hash && one.db == db)?;
        Some(now.0.saturating_sub(followed.since.0))
    }

    /// Stops following all keys, because databases were flushed or exchanged.
    pub fn forget_all(&mut self) {
        self.cells = None;
    }

    /// Sets the histograms to 0. Keys are still followed.
    pub fn reset(&mut self) {
        self.written_ttls = Spans::default();
        self.expired_ages = Spans::default();
        self.evicted_ages = Spans::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_counted_by_powers_of_two() {
        let mut spans = Spans::default();
        for ms in [0, 1, 2, 3, 4, u64::MAX] {
            spans.count(ms);
        }
        assert_eq!(spans.counts[..5], [1, 1, 2, 1, 0]);
        assert_eq!(spans.counts[SPAN_BINS - 1], 1);
        assert_eq!(spans.total(), 6);
        let mut sum = spans;
        sum.add(&spans);
        assert_eq!(sum.sum_ms, 2 * (10 + u128::from(u64::MAX)));
    }

    #[test]
    fn a_cell_follows_one_key_until_its_removal() {
        // The bits of both hashes select the same cell.
        let (first, second) = (1, 2);
        let mut lifetimes = Lifetimes::default();
        lifetimes.written(first, 0, Tick(10));
        lifetimes.written(second, 0, Tick(11));
        assert_eq!(lifetimes.removed(second, 0, Tick(20)), None);
        assert_eq!(lifetimes.removed(first, 1, Tick(20)), None);
        assert_eq!(lifetimes.removed(first, 0, Tick(25)), Some(15));
        assert_eq!(lifetimes.removed(first, 0, Tick(25)), None);
        // A key that is written again is as old as its last value.
        lifetimes.written(second, 0, Tick(30));
        lifetimes.written(second, 0, Tick(40));
        assert_eq!(lifetimes.removed(second, 0, Tick(41)), Some(1));
        lifetimes.written(first, 0, Tick(50));
        lifetimes.forget_all();
        assert_eq!(lifetimes.removed(first, 0, Tick(60)), None);
    }

    #[test]
    fn the_sample_of_ages_is_that_of_all_keys() {
        // Random writes of keys with an age of 10 or of 1,000: half of each, whatever the order.
        let mut lifetimes = Lifetimes::default();
        let (mut state, mut alive) = (1u64, Vec::new());
        let (mut short, mut long) = (0u32, 0u32);
        for now in 1..400_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let hash = state ^ state >> 32;
            let age = if state >> 63 == 0 { 10 } else { 1_000 };
            lifetimes.written(hash, 0, Tick(now));
            alive.push((now + age, hash));
            alive.retain(|(end, hash)| {
                let ends = *end == now;
                match ends
                    .then(|| lifetimes.removed(*hash, 0, Tick(now)))
                    .flatten()
                {
                    Some(10) => short += 1,
                    Some(1_000) => long += 1,
                    Some(other) => panic!("no key is {other} ms old"),
                    None => {}
                }
                !ends
            });
        }
        assert!(short > 1_000 && long > 1_000, "{short} {long}");
        assert!(short.abs_diff(long) < (short + long) / 10, "{short} {long}");
    }
}
