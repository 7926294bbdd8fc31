//! Choices by chance for commands that answer with some of many.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Bits from the operating system's chance, through the standard library's hash keys.
pub fn chance(salt: u64) -> u64 {
    RandomState::new().hash_one(salt)
}

/// A generator of one command's choices, seeded from the operating system's chance.
#[derive(Debug)]
pub struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Dice::new()
    }
}

impl Dice {
    /// Another one each time.
    pub fn new() -> Dice {
        Dice(chance(0))
    }

    /// 64 bits: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// One of the numbers below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0);
        ((u128::from(self.roll()) * end as u128) >> 64) as usize
    }

    /// Up to `count` different numbers below `end`, each set of them as likely as any other (Floyd's
    /// algorithm: Bentley, Floyd: Programming pearls, a sample of brilliance, 1987).
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
    fn every_number_comes_up_and_none_twice() {
        let mut dice = Dice(7);
        let mut counts = [0; 10];
        for _ in 0..2000 {
            let numbers = dice.distinct(3, 10);
            assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 3);
            numbers.iter().for_each(|&number| counts[number] += 1);
        }
        // 600 each are expected; 100 off is five standard deviations, with a fixed seed.
        assert!(counts.iter().all(|count| (500..700).contains(count)));
        assert_eq!(dice.distinct(99, 3).len(), 3);
        assert!(dice.distinct(3, 0).is_empty());
    }
}
