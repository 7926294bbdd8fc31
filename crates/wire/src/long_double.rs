//! Arithmetic of INCRBYFLOAT: numbers with 64 significant bits, written with 17 decimals.
//!
//! Redis adds in the C type `long double`, which on x86 has a mantissa of 64 bits, and prints with
//! `%.17Lf` without trailing zeros. A `double` gives other digits: 10.5 + 0.1 printed with 17
//! decimals is `10.59999999999999964`. This module computes the same results as x86 with integers,
//! on every machine. Text is rounded once to the nearest 64-bit mantissa (ties to even), sums are
//! rounded once, and the decimals are those of the exact binary value. So `10.5 + 0.1` is `10.6`
//! and `3.0 + 1.1` is `4.1`, as in Redis.
//!
//! Departures: a Redis whose `long double` is a `double` or a quadruple returns other digits.
//! Hexadecimal floats of the C library are refused. Numbers below 2^-16382 keep their full
//! precision, which 17 decimals do not show.

use std::cmp::Ordering;
use std::fmt::Write;

/// Maximum length of the text of a number in bytes, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Exponent of infinity, the exponent of 2^16384, the first power of two out of range.
const EXPONENT_INFINITE: i32 = 16_384 - 63;
/// Exponent of 2^-16445, the smallest positive number.
const EXPONENT_MIN: i32 = -16_445 - 63;
/// Exponent of zero, lower than any other number's.
const EXPONENT_ZERO: i32 = -20_000;
/// Maximum number of digits before the point of a number in range.
const WHOLE_DIGITS_MAX: i64 = 4933;
/// Maximum number of zeros after the point of a number that is not zero.
const LEADING_DECIMALS_MAX: i64 = 4951;

/// Number of decimal digits that fit in a limb.
const CHUNK: usize = 19;
const TEN_POWER_CHUNK: u64 = 10u64.pow(CHUNK as u32);
const TEN_POWER_17: u128 = 10u128.pow(17);

/// A number with the range and precision of `long double` on x86.
///
/// ```
/// use wire::LongDouble;
/// let sum = |a: &str, b: &str| {
///     let (a, b) = (LongDouble::parse(a.as_bytes())?, LongDouble::parse(b.as_bytes())?);
///     let mut text = Vec::new();
///     a.plus(b)?.push_decimal(&mut text);
///     String::from_utf8(text).ok()
/// };
/// assert_eq!(sum("10.5", "0.1").as_deref(), Some("10.6"));
/// assert_eq!(sum("5.0e3", "200").as_deref(), Some("5200"));
/// assert_eq!(sum("1", "-inf"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    is_negative: bool,
    /// The number is `mantissa × 2^exponent`. The highest bit of the mantissa is set, except for
    /// zero.
    mantissa: u64,
    exponent: i32,
}

impl LongDouble {
    /// Largest finite number.
    pub const MAX: LongDouble = LongDouble {
        is_negative: false,
        mantissa: u64::MAX,
        exponent: EXPONENT_INFINITE - 1,
    };

    /// Parses decimal notation with an optional sign, fraction and exponent, or `inf`, `infinity`.
    /// Returns `None` for anything else: blanks, `nan`, numbers out of range, and numbers that
    /// would round to zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let text = str::from_utf8(text).ok()?;
        let is_negative = text.starts_with('-');
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        let number = if ["inf", "infinity"]
            .iter()
            .any(|inf| text.eq_ignore_ascii_case(inf))
        {
            LongDouble {
                is_negative: false,
                mantissa: 1 << 63,
                exponent: EXPONENT_INFINITE,
            }
        } else {
            parse_magnitude(text)?
        };
        Some(LongDouble {
            is_negative,
            ..number
        })
    }

    /// Whether the number is infinite.
    pub fn is_infinite(self) -> bool {
        self.exponent == EXPONENT_INFINITE
    }

    /// Returns the number with the opposite sign.
    pub fn negated(self) -> LongDouble {
        LongDouble {
            is_negative: !self.is_negative,
            ..self
        }
    }

    /// Compares two numbers; `-0` equals `0`.
    pub fn compare(self, other: LongDouble) -> Ordering {
        let rank = |number: LongDouble| {
            let exponent = i128::from(number.exponent - EXPONENT_ZERO);
            let magnitude = exponent << 64 | i128::from(number.mantissa);
            if number.is_negative {
                -magnitude
            } else {
                magnitude
            }
        };
        rank(self).cmp(&rank(other))
    }

    /// Returns the sum, rounded to nearest; `None` if it is infinite or not a number.
    pub fn plus(self, other: LongDouble) -> Option<LongDouble> {
        if self.is_infinite() || other.is_infinite() {
            return None;
        }
        let order = |number: &LongDouble| (number.exponent, number.mantissa);
        let (large, small) = if order(&self) >= order(&other) {
            (self, other)
        } else {
            (other, self)
        };
        // The larger mantissa is in bits 62 to 125. The bit above is for the carry, and the 62 bits
        // below are for the smaller mantissa. Bits of it that are shifted out set the last bit
        // (sticky). If there are any, the difference keeps its highest bit or the one below, and 60
        // bits remain below the last bit of the result.
        let augend = u128::from(large.mantissa) << 62;
        let shift = large.exponent.abs_diff(small.exponent);
        let addend = shift_right_sticky(u128::from(small.mantissa) << 62, shift);
        let sum = if large.is_negative == small.is_negative {
            augend + addend
        } else {
            augend - addend
        };
        let sum = rounded(sum, large.exponent - 62)?;
        Some(LongDouble {
            is_negative: large.is_negative,
            ..sum
        })
    }

    /// Appends the number with 17 decimals without trailing zeros; never `-0`.
    pub fn push_decimal(self, out: &mut Vec<u8>) {
        let text = if self.is_infinite() {
            "inf".to_owned()
        } else if self.exponent >= 0 {
            let mut whole = Natural(vec![self.mantissa]);
            whole.shift_left(self.exponent.unsigned_abs());
            whole.into_decimal()
        } else {
            let scaled = scale_decimals(self.mantissa, self.exponent.unsigned_abs());
            let (whole, decimals) = (scaled / TEN_POWER_17, scaled % TEN_POWER_17);
            let text = format!("{whole}.{decimals:017}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        if self.is_negative && text != "0" {
            out.push(b'-');
        }
        out.extend_from_slice(text.as_bytes());
    }
}

/// Returns `mantissa × 10^17 / 2^shift`, rounded to the nearest integer, ties to even.
fn scale_decimals(mantissa: u64, shift: u32) -> u128 {
    // The product is below 2^121, so that a shift of 122 leaves less than a half.
    let product = u128::from(mantissa) * TEN_POWER_17;
    if shift > 121 {
        return 0;
    }
    let quotient = product >> shift;
    let remainder = product - (quotient << shift);
    let half = 1u128 << (shift - 1);
    let is_up = remainder > half || (remainder == half && quotient & 1 == 1);
    quotient + u128::from(is_up)
}

/// Shifts to the right, and sets the last bit if any set bit was shifted out.
fn shift_right_sticky(number: u128, shift: u32) -> u128 {
    let shifted = number.checked_shr(shift).unwrap_or(0);
    let is_exact = shifted.checked_shl(shift).unwrap_or(0) == number;
    shifted | u128::from(!is_exact)
}

/// Returns `number × 2^exponent`, rounded to a mantissa of 64 bits, ties to even; `None` if it is
/// out of range.
fn rounded(number: u128, exponent: i32) -> Option<LongDouble> {
    let zeros = number.leading_zeros();
    let aligned = number.checked_shl(zeros).unwrap_or(0);
    let (high, low, half) = ((aligned >> 64) as u64, aligned as u64, 1 << 63);
    let is_up = low > half || (low == half && high & 1 == 1);
    let exponent = exponent + 64 - zeros as i32;
    let (mantissa, exponent) = match high.checked_add(u64::from(is_up)) {
        Some(0) => (0, EXPONENT_ZERO),
        Some(mantissa) => (mantissa, exponent),
        None => (half, exponent + 1),
    };
    let (mantissa, exponent) = match exponent {
        EXPONENT_INFINITE.. => return None,
        EXPONENT_MIN.. => (mantissa, exponent),
        _ => (0, EXPONENT_ZERO),
    };
    Some(LongDouble {
        is_negative: false,
        mantissa,
        exponent,
    })
}

/// Parses `digits[.digits][e[sign]digits]`.
fn parse_magnitude(text: &str) -> Option<LongDouble> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return rounded(0, 0);
    }
    let scale = exponent - fraction.len() as i64;
    let whole_digits = digits.len() as i64 + scale;
    if !(-LEADING_DECIMALS_MAX..=WHOLE_DIGITS_MAX).contains(&whole_digits) {
        return None;
    }
    let (mut dividend, mut divisor) = (Natural::from_digits(digits), Natural(vec![1]));
    let factor = if scale < 0 {
        &mut divisor
    } else {
        &mut dividend
    };
    factor.multiply_power_of_ten(scale.unsigned_abs());
    let (quotient, exponent) = divide(dividend, divisor);
    rounded(quotient, exponent).filter(|number| number.mantissa != 0)
}

/// Parses `[sign]digits`. Numbers of more than six digits become a million, which is out of range
/// for any mantissa.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let is_short = digits.trim_start_matches('0').len() <= 6;
    let exponent = if is_short {
        digits.parse().ok()?
    } else {
        1_000_000
    };
    Some(if text.starts_with('-') {
        -exponent
    } else {
        exponent
    })
}

/// Returns the quotient of two non-zero numbers as 66 bits and a last bit that is set if any lower
/// bit is, together with its exponent of two.
fn divide(mut dividend: Natural, mut divisor: Natural) -> (u128, i32) {
    let exponent = dividend.bits() as i32 - divisor.bits() as i32;
    let smaller = if exponent < 0 {
        &mut dividend
    } else {
        &mut divisor
    };
    smaller.shift_left(exponent.unsigned_abs());
    // Now 1/2 < dividend / divisor < 2: the loop computes one bit of the quotient at a time.
    let mut quotient = 0;
    for _ in 0..66 {
        quotient <<= 1;
        if dividend.cmp(&divisor) != Ordering::Less {
            dividend.subtract(&divisor);
            quotient |= 1;
        }
        dividend.shift_left(1);
    }
    (
        quotient << 1 | u128::from(!dividend.0.is_empty()),
        exponent - 66,
    )
}

/// A natural number of any size, the lowest limb first, without zero limbs at the end.
#[derive(Debug)]
struct Natural(Vec<u64>);

impl Natural {
    fn from_digits(digits: &str) -> Natural {
        let mut number = Natural(Vec::new());
        for chunk in digits.as_bytes().chunks(CHUNK) {
            let value = |value, digit: &u8| value * 10 + u64::from(digit - b'0');
            number.multiply_add(10u64.pow(chunk.len() as u32), chunk.iter().fold(0, value));
        }
        number
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }

    fn multiply_power_of_ten(&mut self, exponent: u64) {
        for _ in 0..exponent / CHUNK as u64 {
            self.multiply_add(TEN_POWER_CHUNK, 0);
        }
        self.multiply_add(10u64.pow((exponent % CHUNK as u64) as u32), 0);
    }

    fn bits(&self) -> u32 {
        let top = self.0.last().map_or(0, |limb| 64 - limb.leading_zeros());
        (self.0.len() as u32).saturating_sub(1) * 64 + top
    }

    fn shift_left(&mut self, bits: u32) {
        if !bits.is_multiple_of(64) {
            self.multiply_add(1 << (bits % 64), 0);
        }
        if bits >= 64 && !self.0.is_empty() {
            let zeros = (bits / 64) as usize;
            self.0.splice(0..0, std::iter::repeat_n(0, zeros));
        }
    }

    fn cmp(&self, other: &Natural) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Subtracts `other`, which must not be larger.
    fn subtract(&mut self, other: &Natural) {
        let mut has_borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let taken = other.0.get(index).copied().unwrap_or(0);
            let (less, below) = limb.overflowing_sub(taken);
            let (less, further) = less.overflowing_sub(u64::from(has_borrow));
            *limb = less;
            has_borrow = below || further;
        }
        debug_assert!(!has_borrow, "the subtrahend was larger");
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Divides by 10^19 and returns the remainder.
    fn divide_chunk(&mut self) -> u64 {
        let mut remainder = 0u64;
        for limb in self.0.iter_mut().rev() {
            let dividend = u128::from(remainder) << 64 | u128::from(*limb);
            *limb = (dividend / u128::from(TEN_POWER_CHUNK)) as u64;
            remainder = (dividend % u128::from(TEN_POWER_CHUNK)) as u64;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder
    }

    fn into_decimal(mut self) -> String {
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            chunks.push(self.divide_chunk());
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            write!(text, "{chunk:0CHUNK$}").expect("a string takes any text");
        }
        text
    }
}

#[cfg(test)]
mod tests;
