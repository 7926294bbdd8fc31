//! Copies of popular small responses on nodes that do not own them.
//!
//! A small response is stored by the owner of its URL, to which other nodes forward requests. A
//! node that forwards requests for the same URL a few times a minute requests a copy with the
//! answer and stores it. It then answers requests itself until the copy is no longer fresh.
//!
//! # Idea
//! A count-min sketch of 4-bit counters counts the forwarded requests. Its hand passes all counters
//! once per [`ROUND`] and halves them, so that a URL requested r times a minute has a count of
//! about 2 r. Time is an argument.
//!
//! # Bounds
//! The sketch has 8 bytes for each of [`KEYS`] URLs. With more URLs per round, counts are too high
//! rather than too low. The store bounds the total size of all copies (`COPIES_PART` in
//! `store.rs`), and a response of the coding size or more is never copied.

use policy::parts::sketch::Sketch;
use std::time::Duration;

/// Number of URLs that the sketch distinguishes well.
const KEYS: usize = 16_384;
/// Time in which the hand passes all counters once.
const ROUND: Duration = Duration::from_secs(60);
/// Number of passes that move the hand once around the sketch: 10 per word (see [`Sketch::pass`]).
const PASSES: u64 = 10 * KEYS as u64;
/// Minimum count of a popular URL.
const POPULAR: u64 = 3;

/// Estimate of how often URLs are requested.
#[derive(Debug)]
pub(super) struct Popularity {
    sketch: Sketch,
    /// Number of passes of the hand so far.
    passed: u64,
}

impl Popularity {
    pub fn new() -> Self {
        Popularity {
            sketch: empty(),
            passed: 0,
        }
    }

    /// Counts a request at a time since the start. Returns true if its URL is popular.
    pub fn count(&mut self, key_hash: u64, now: Duration) -> bool {
        let us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let due = us.saturating_mul(PASSES) / ROUND.as_micros() as u64;
        let passes = due.saturating_sub(self.passed);
        self.passed = due.max(self.passed);
        if passes >= 4 * PASSES {
            // After this much time every counter would be halved to 0.
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
        // The earlier popularity is forgotten.
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
