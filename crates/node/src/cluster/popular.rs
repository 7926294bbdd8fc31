//! Copies of popular small responses on nodes that do not own them.
//!
//! A small response is stored by the owner of its URL, to which other nodes forward requests. A
//! node that forwards requests for the same URL a few times a minute requests a copy with the
//! answer, stores it, and answers further requests itself until the copy is no longer fresh.
//!
//! # Idea
//! A count-min sketch of 4-bit counters counts the forwarded requests. Its hand passes all counters
//! once in [`ROUND`] and halves them, so that a URL that is requested r times a minute is counted
//! about 2 r. Time is an argument.
//!
//! # Bounds
//! The sketch has 8 bytes for each of [`KEYS`] URLs. With more URLs in a round, counts are too high
//! rather than too low. The store bounds the bytes of all copies (`COPIES_PART` in `store.rs`), and
//! a response of the coding size or more is never copied.

use policy::parts::sketch::Sketch;
use std::time::Duration;

/// URLs that the sketch distinguishes well.
const KEYS: usize = 16_384;
/// Time in which the hand passes all counters.
const ROUND: Duration = Duration::from_secs(60);
/// Passes that move the hand once around the sketch: 10 for each word (see [`Sketch::pass`]).
const PASSES: u64 = 10 * KEYS as u64;
/// Count from which on a URL is popular.
const POPULAR: u64 = 3;

/// Estimate of how often URLs are requested.
#[derive(Debug)]
pub(super) struct Popularity {
    sketch: Sketch,
    /// Passes of the hand until now.
    passed: u64,
}

impl Popularity {
    pub fn new() -> Self {
        Popularity {
            sketch: empty(),
            passed: 0,
        }
    }

    /// Counts a request at a time since the start. Returns whether its URL is popular.
    pub fn count(&mut self, key_hash: u64, now: Duration) -> bool {
        let us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let due = us.saturating_mul(PASSES) / ROUND.as_micros() as u64;
        let passes = due.saturating_sub(self.passed);
        self.passed = due.max(self.passed);
        if passes >= 4 * PASSES {
            // Every counter would be halved to nothing.
            self.sketch = empty();
        } else {
            (0..passes).for_each(|_| self.sketch.pass());
        }
        self.sketch.add(key_hash);
        self.sketch.frequency(key_hash) >= POPULAR
    }
}

fn empty() -> Sketch {
    let mut sketch = Sketch::new();
    let mut words = 4;
    while words < KEYS {
        words *= 2;
        sketch.expect(words);
    }
    sketch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_popular_after_a_few_requests_in_a_minute() {
        let mut popularity = Popularity::new();
        let mut at = |hash, seconds| popularity.count(hash, Duration::from_secs(seconds));
        assert_eq!(
            [at(1, 0), at(1, 1), at(1, 2), at(1, 3)],
            [false, false, true, true]
        );
        // Once in two minutes is not enough.
        for minute in 0..100 {
            assert!(!at(2, 10 + 120 * minute));
        }
        // And what was popular is forgotten.
        assert!(!at(1, 20_000));
    }

    #[test]
    fn counts_of_thousands_of_urls_are_apart() {
        let mut popularity = Popularity::new();
        let hash = |number: u64| edge::mix(number);
        let popular = (0..2 * KEYS as u64)
            .filter(|&number| popularity.count(hash(number), Duration::ZERO))
            .count();
        assert!(popular < KEYS / 100, "{popular} of {} seen once", 2 * KEYS);
    }
}
