//! Approximate recent frequency of keys: a count-min sketch of 4-bit counters that ages.
//!
//! Each key has 4 counters; its frequency is the least of them, and only the least are incremented.
//! A hand moves through the table and halves the counters it passes, one round per `AGING` × its
//! width in additions: no call ages more than one word. The table doubles when more keys are
//! expected, by repeating itself, which keeps every estimate an upper bound.
//!
//! Sources: G. Cormode, S. Muthukrishnan, *An improved data stream summary: the count-min sketch*,
//! J. Algorithms 55, 2005; G. Einziger, R. Friedman, B. Manes, *TinyLFU*, ACM ToS 13(4), 2017,
//! <https://doi.org/10.1145/3149371>, which halves the whole table at once.

use super::chance::scramble;
use alloc::vec;
use alloc::vec::Vec;

/// Counters per key.
const ROWS: u64 = 4;
/// Counters per word.
const PER_WORD: u64 = 16;
/// Keys for each word of 16 counters.
const KEYS_PER_WORD: usize = 1;
/// Additions per key of the width in one round of the hand.
const AGING: u64 = 10;
/// Mask of the low three bits of each counter.
const HALF_MASK: u64 = 0x7777_7777_7777_7777;

/// A count-min sketch of the recent requests for each key.
#[derive(Clone, Debug)]
pub struct Sketch {
    words: Vec<u64>,
    hand: usize,
    /// Additions and passes since the hand last moved.
    added: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch::new()
    }
}

impl Sketch {
    /// Creates a sketch for a few keys.
    pub fn new() -> Self {
        Sketch {
            words: vec![0; 4],
            hand: 0,
            added: 0,
        }
    }

    /// Doubles the table if it is too small for this number of keys.
    #[inline]
    pub fn expect(&mut self, keys: usize) {
        if keys > self.words.len() * KEYS_PER_WORD {
            self.words.extend_from_within(..);
        }
    }

    /// Counts one request for the key, and ages the counts.
    #[inline]
    pub fn add(&mut self, key_hash: u64) {
        let least = self.frequency(key_hash);
        if least < 15 {
            for row in 0..ROWS {
                let (word, shift) = self.place(key_hash, row);
                if self.words[word] >> shift & 15 == least {
                    self.words[word] += 1 << shift;
                }
            }
        }
        self.pass();
    }

    /// Ages the counts as much as an addition does, without an addition.
    #[inline]
    pub fn pass(&mut self) {
        self.added += 1;
        if self.added >= AGING * KEYS_PER_WORD as u64 {
            self.added = 0;
            self.words[self.hand] = self.words[self.hand] >> 1 & HALF_MASK;
            self.hand = (self.hand + 1) & (self.words.len() - 1);
        }
    }

    /// Returns how often the key was requested recently: 0 to 15. The estimate is more often too
    /// high than too low.
    #[inline]
    pub fn frequency(&self, key_hash: u64) -> u64 {
        let count = |row| {
            let (word, shift) = self.place(key_hash, row);
            self.words[word] >> shift & 15
        };
        let least = (0..ROWS).map(count).min().expect("there are rows");
        debug_assert!(least < 16, "a counter has 4 bits");
        least
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    #[inline]
    fn place(&self, key_hash: u64, row: u64) -> (usize, u64) {
        let bits = scramble(key_hash.wrapping_add(row << 32 | row));
        let word = bits as usize & (self.words.len() - 1);
        // Each row has four of a word's counters.
        (word, ((bits >> 62) + row * ROWS) * (64 / PER_WORD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_keeps_counts_and_aging_halves_them() {
        let mut sketch = Sketch::new();
        (0..9).for_each(|_| sketch.add(scramble(1)));
        assert_eq!(sketch.frequency(scramble(1)), 9);
        sketch.expect(5);
        assert_eq!(sketch.frequency(scramble(1)), 9);
        for key in 0..80 {
            sketch.add(scramble(1000 + key));
        }
        assert!((4..9).contains(&sketch.frequency(scramble(1))));
    }

    #[test]
    fn strangers_look_rare() {
        let mut sketch = Sketch::new();
        (0..10).for_each(|_| sketch.expect(1000));
        (0..1000).for_each(|key| sketch.add(scramble(key)));
        let strangers = (5000..15_000).filter(|&key| sketch.frequency(scramble(key)) > 0);
        assert!(strangers.count() < 100);
    }
}
