//! Keys drawn by Zipf's law.

/// A small generator of random numbers (xorshift64; Marsaglia, *Xorshift RNGs*, JSS 2003).
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns `count` ranks from 0 to `keys` - 1, of which rank r has a weight of 1 / (r + 1)^skew.
pub fn zipf(keys: usize, skew: f64, count: usize, seed: u64) -> Vec<u32> {
    let mut sums = Vec::with_capacity(keys);
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += (rank as f64).powf(-skew);
        sums.push(sum);
    }
    let mut random = Random(seed | 1);
    let draw = |_| {
        let at = (random.next() >> 11) as f64 / (1u64 << 53) as f64 * sum;
        sums.partition_point(|&sum| sum < at).min(keys - 1) as u32
    };
    (0..count).map(draw).collect()
}
