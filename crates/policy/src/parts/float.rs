//! Functions of real numbers for builds without the standard library, which `core` lacks.
//!
//! With the feature `std` nothing here is used, so that the algorithms decide by the platform's
//! functions. Without it, the same method calls use these functions, whose relative error is below
//! 1e-13 over the ranges that the algorithms use.

use core::f64::consts::LN_2;

/// The methods of `f64` that the standard library has and `core` has not.
pub trait Float: Sized {
    /// Largest integer that is not greater.
    fn floor(self) -> Self;
    /// Smallest integer that is not less.
    fn ceil(self) -> Self;
    /// Nearest integer; halves are rounded away from zero.
    fn round(self) -> Self;
    /// Square root; NaN for a negative number.
    fn sqrt(self) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// e to this power, minus 1, exact near 0.
    fn exp_m1(self) -> Self;
    /// 2 to this power.
    fn exp2(self) -> Self;
    /// Logarithm to base 2.
    fn log2(self) -> Self;
    /// Raises this number to a power.
    fn powf(self, power: Self) -> Self;
}

/// Numbers of at least this size are integers.
const INTEGERS: f64 = (1u64 << 52) as f64;

impl Float for f64 {
    fn floor(self) -> f64 {
        if self.is_nan() || self >= INTEGERS || self <= -INTEGERS {
            return self;
        }
        let whole = self as i64 as f64;
        if whole > self { whole - 1.0 } else { whole }
    }
    fn ceil(self) -> f64 {
        -Float::floor(-self)
    }
    fn round(self) -> f64 {
        if self.is_nan() || self >= INTEGERS || self <= -INTEGERS {
            return self;
        }
        // The fraction is exact, while adding a half first may round up to the next integer.
        let whole = self as i64 as f64;
        let fraction = self - whole;
        match fraction {
            f if f >= 0.5 => whole + 1.0,
            f if f <= -0.5 => whole - 1.0,
            _ => whole,
        }
    }
    fn sqrt(self) -> f64 {
        if self == 0.0 || self == f64::INFINITY {
            return self;
        }
        if self.is_nan() || self < 0.0 {
            return f64::NAN;
        }
        // Half the exponent is within 4 % of the root; each step of Newton's method squares the
        // error.
        let mut root = f64::from_bits((self.to_bits() >> 1) + 0x1ff7_a3be_a91d_9b1b);
        for _ in 0..5 {
            root = 0.5 * (root + self / root);
        }
        root
    }
    fn exp(self) -> f64 {
        if self.is_nan() || self == 0.0 {
            return 1.0 + self;
        }
        if self > 709.9 {
            return f64::INFINITY;
        }
        if self < -745.2 {
            return 0.0;
        }
        // e^x = 2^k · e^r with |r| ≤ ln 2 / 2. The low part of ln 2 keeps r exact.
        let k = Float::round(self / LN_2);
        const HIGH: f64 = 6.931_471_803_691_238e-1;
        const LOW: f64 = 1.908_214_929_270_587_7e-10;
        let r = (self - k * HIGH) - k * LOW;
        let mut sum = 1.0;
        for n in (1..=14).rev() {
            sum = 1.0 + sum * r / f64::from(n);
        }
        scale(sum, k as i32)
    }
    fn exp_m1(self) -> f64 {
        // W. Kahan's formula: the errors of e^x and of its logarithm cancel.
        let power = Float::exp(self);
        match power - 1.0 {
            0.0 => self,
            difference if difference == -1.0 || power == f64::INFINITY => difference,
            difference => difference * self / ln(power),
        }
    }
    fn exp2(self) -> f64 {
        let whole = Float::floor(self);
        if !(-1100.0..=1100.0).contains(&whole) {
            return Float::exp(self * LN_2);
        }
        scale(Float::exp((self - whole) * LN_2), whole as i32)
    }
    fn log2(self) -> f64 {
        ln(self) / LN_2
    }
    fn powf(self, power: f64) -> f64 {
        if power == 0.0 || self == 1.0 {
            return 1.0;
        }
        if self == 0.0 {
            return if power > 0.0 { 0.0 } else { f64::INFINITY };
        }
        Float::exp(power * ln(self))
    }
}

/// Returns `x` · 2^`k`, in two steps, because 2^`k` alone may be out of range.
fn scale(x: f64, k: i32) -> f64 {
    let half = k / 2;
    x * power_of_two(half) * power_of_two(k - half)
}

fn power_of_two(k: i32) -> f64 {
    f64::from_bits(((k + 1023).clamp(1, 2046) as u64) << 52)
}

/// Returns the natural logarithm.
fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // Subnormal numbers are scaled up first.
    let (x, shift) = if x < f64::MIN_POSITIVE {
        (x * INTEGERS, -52.0)
    } else {
        (x, 0.0)
    };
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 · artanh((m − 1) / (m + 1)), whose argument is below 0.172.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    for n in (0..=11).rev() {
        sum = sum * square + 1.0 / f64::from(2 * n + 1);
    }
    2.0 * z * sum + (exponent as f64 + shift) * LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, what: &str) {
        let error = (found - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
        assert!(
            error < 1e-13 || found == expected,
            "{what}: {found} instead of {expected}"
        );
    }

    #[test]
    fn functions_agree_with_those_of_the_standard_library() {
        for step in -40_000..40_000 {
            let x = f64::from(step) * 0.013_7;
            close(Float::exp(x), f64::exp(x), "exp");
            close(Float::exp2(x), f64::exp2(x), "exp2");
            close(Float::exp_m1(x / 50.0), f64::exp_m1(x / 50.0), "exp_m1");
            assert_eq!(Float::floor(x), f64::floor(x));
            assert_eq!(Float::ceil(x), f64::ceil(x));
            assert_eq!(Float::round(x), f64::round(x));
            assert_eq!(Float::round(x / 0.027_4), f64::round(x / 0.027_4));
            let positive = f64::exp(x / 3.0);
            close(Float::sqrt(positive), f64::sqrt(positive), "sqrt");
            let error = (Float::log2(positive) - f64::log2(positive)).abs();
            assert!(error < 1e-13 * f64::log2(positive).abs().max(1.0));
            close(
                Float::powf(positive.min(1.0), 0.3),
                positive.min(1.0).powf(0.3),
                "powf",
            );
        }
    }

    #[test]
    fn limits_are_those_of_the_standard_library() {
        assert_eq!(Float::exp(800.0), f64::INFINITY);
        assert_eq!(Float::exp(-800.0), 0.0);
        assert_eq!(Float::exp_m1(0.0), 0.0);
        close(Float::exp_m1(1e-12), f64::exp_m1(1e-12), "exp_m1");
        assert_eq!(Float::exp_m1(-800.0), -1.0);
        assert_eq!(Float::sqrt(0.0), 0.0);
        assert!(Float::sqrt(-1.0).is_nan());
        assert_eq!(Float::powf(0.0, 0.5), 0.0);
        assert_eq!(Float::floor(-0.5), -1.0);
        assert_eq!(Float::round(-2.5), -3.0);
    }
}
