//! Random numbers for commands that return random elements.

use policy::parts::chance::Chance;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Returns random bits from the operating system, obtained through the standard library's hash
/// keys.
pub fn chance(salt: u64) -> u64 {
    RandomState::new().hash_one(salt)
}

/// Random number generator for one command, seeded by the operating system.
#[derive(Debug)]
pub struct Random(Chance);

impl Default for Random {
    fn default() -> Self {
        Random::new()
    }
}

impl Random {
    /// Creates a generator with a new seed.
    pub fn new() -> Random {
        Random(Chance::new(chance(0)))
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.bits()
    }

    /// Returns a random number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0);
        self.0.below(end as u64) as usize
    }

    /// Returns up to `count` distinct random numbers below `end`. Every set of numbers has the same
    /// probability. Floyd's algorithm (Bentley, Floyd: Programming pearls, a sample of brilliance,
    /// 1987).
    pub fn distinct(&mut self, count: usize, end: usize) -> Vec<usize> {
        let count = count.min(end);
        let (mut chosen, mut numbers) = (HashSet::with_capacity(count), Vec::with_capacity(count));
        for last in end - count..end {
            let number = self.below(last + 1);
            let number = if chosen.insert(number) { number } else { last };
            chosen.insert(number);
            numbers.push(number);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_numbers_are_uniform_and_do_not_repeat() {
        let mut generator = Random(Chance::new(7));
        let mut counts = [0; 10];
        for _ in 0..2000 {
            let numbers = generator.distinct(3, 10);
            assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 3);
            numbers.iter().for_each(|&number| counts[number] += 1);
        }
        // The expected count is 600; a deviation of 100 is five standard deviations. The seed is
        // fixed.
        assert!(counts.iter().all(|count| (500..700).contains(count)));
        assert_eq!(generator.distinct(99, 3).len(), 3);
        assert!(generator.distinct(3, 0).is_empty());
    }
}
