//! Generators of keys: uniform, and Zipf's law.
//!
//! [`Zipf`] draws rank k of n with probability proportional to k^-α, exactly, in O(1) time and
//! memory, by rejection-inversion: W. Hörmann, G. Derflinger, "Rejection-inversion to generate
//! variates from monotone discrete distributions", ACM TOMACS 6(3), 1996,
//! <https://doi.org/10.1145/235025.235029>. The hat is the integral of x^-α over [k − 1/2, k +
//! 1/2], which is at least k^-α because the function is convex. A point drawn under the hat is
//! accepted if it falls under the bar of height k^-α that ends at k + 1/2.

use crate::random::Random;

/// Stream of keys from 0 to n − 1, all equally likely.
#[derive(Clone, Debug)]
pub struct Uniform {
    key_count: u64,
    random: Random,
}

impl Uniform {
    /// Creates a stream over `key_count` ≥ 1 keys.
    pub fn new(key_count: u64, seed: u64) -> Self {
        assert!(key_count > 0);
        Uniform {
            key_count,
            random: Random::new(seed),
        }
    }
}

impl Iterator for Uniform {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        Some(self.random.below(self.key_count))
    }
}

/// Stream of keys from 0 to n − 1, key k with probability proportional to (k + 1)^-α.
#[derive(Clone, Debug)]
pub struct Zipf {
    key_count: f64,
    alpha: f64,
    /// Integral of the hat up to the left end of the first bar, and up to n + 1/2.
    area_first: f64,
    area_last: f64,
    random: Random,
}

impl Zipf {
    /// Creates a stream over `key_count` ≥ 1 keys (at most 2^52) with exponent `alpha` ≥ 0; 0 is
    /// uniform.
    pub fn new(key_count: u64, alpha: f64, seed: u64) -> Self {
        assert!(key_count > 0);
        assert!(key_count <= 1 << 52);
        assert!(alpha.is_finite() && alpha >= 0.0);
        Zipf {
            key_count: key_count as f64,
            alpha,
            // The first bar is as wide as it is high, so that nothing in front of it needs to be
            // drawn.
            area_first: area(alpha, 1.5) - 1.0,
            area_last: area(alpha, key_count as f64 + 0.5),
            random: Random::new(seed),
        }
    }
}

impl Iterator for Zipf {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        loop {
            let point =
                self.area_last + self.random.fraction() * (self.area_first - self.area_last);
            let rank = area_inverse(self.alpha, point)
                .round()
                .clamp(1.0, self.key_count);
            if point >= area(self.alpha, rank + 0.5) - rank.powf(-self.alpha) {
                return Some(rank as u64 - 1);
            }
        }
    }
}

/// Returns the integral of t^-α over t from 1 to `x`.
fn area(alpha: f64, x: f64) -> f64 {
    let log = x.ln();
    log * expm1_over(log * (1.0 - alpha))
}

/// Returns the `x` up to which the integral is `area`.
fn area_inverse(alpha: f64, area: f64) -> f64 {
    // Rounding may move the argument just below −1, where the logarithm is undefined.
    let scaled = (area * (1.0 - alpha)).max(-1.0);
    (area * log1p_over(scaled)).exp()
}

/// Returns (e^x − 1) / x, also near 0, so that α = 1 needs no separate case.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

/// Returns ln(1 + x) / x, also near 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the chi-square statistic of `draws` draws against Zipf's law, divided by its degrees
    /// of freedom.
    fn misfit(key_count: u64, alpha: f64, draws: u32) -> f64 {
        let weights: Vec<f64> = (1..=key_count).map(|k| (k as f64).powf(-alpha)).collect();
        let total: f64 = weights.iter().sum();
        let mut counts = vec![0u32; key_count as usize];
        for key in Zipf::new(key_count, alpha, 42).take(draws as usize) {
            counts[key as usize] += 1;
        }
        let square = |(count, weight): (&u32, &f64)| {
            let wanted = weight / total * f64::from(draws);
            (f64::from(*count) - wanted).powi(2) / wanted
        };
        counts.iter().zip(&weights).map(square).sum::<f64>() / (key_count - 1) as f64
    }

    #[test]
    fn draws_follow_zipfs_law() {
        for alpha in [0.0, 0.5, 0.99, 1.0, 1.2, 2.0] {
            let misfit = misfit(100, alpha, 200_000);
            // 99 degrees of freedom: 1.53 would be exceeded once in 2,000 seeds.
            assert!(misfit < 1.53, "α {alpha}: {misfit}");
        }
    }

    #[test]
    fn extreme_parameters_stay_in_range() {
        assert!(Zipf::new(1, 1.0, 1).take(1000).all(|key| key == 0));
        assert!(
            Zipf::new(1 << 52, 0.7, 1)
                .take(1000)
                .all(|key| key < 1 << 52)
        );
        assert!(Zipf::new(1_000_000, 30.0, 1).take(1000).all(|key| key == 0));
        assert!(Uniform::new(3, 1).take(1000).all(|key| key < 3));
    }
}
