//! Pseudorandom numbers from a seed: equal seeds give equal decisions on every machine.

/// A SplitMix64 generator: 64 well-mixed bits per call from 8 bytes of state.
///
/// Source: G. L. Steele, D. Lea, C. H. Flood, *Fast splittable pseudorandom number generators*,
/// OOPSLA 2014, <https://doi.org/10.1145/2660193.2660195>.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Creates a generator whose output is determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Chance { state: seed }
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scramble(self.state)
    }

    /// Returns a number below `limit`, which must not be 0; uniform except for a bias below `limit
    /// / 2^64`.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        debug_assert!(limit > 0);
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// Mixes the bits of `word`: a one-to-one mapping.
#[inline]
pub fn scramble(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
