//! Arithmetic of INCRBYFLOAT: numbers with 64 significant bits, written with 17 decimals.
//!
//! Redis adds in the C type `long double`, which on x86 has a mantissa of 64 bits, and prints with
//! `%.17Lf` without trailing zeros. A `double` gives other digits: 10.5 + 0.1 printed with 17
//! decimals is `10.59999999999999964`. This module computes the same as x86 with integers, on every
//! machine. Text is rounded once to the nearest 64-bit mantissa (ties to even), sums are rounded
//! once, and the decimals are those of the exact binary value. So `10.5 + 0.1` is `10.6` and `3.0 +
//! 1.1` is `4.1`, as in Redis.
//!
//! Departures: a Redis whose `long double` is a `double` or a quadruple returns other digits.
//! Hexadecimal floats of the C library are refused. Numbers below 2^-16382 keep their full
//! precision, which 17 decimals do not show.

use crate::number::Text;
use std::cmp::Ordering;

/// Maximum length of the text of a number in bytes, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Smallest exponent of two that is too large for a finite number.
const BINARY_EXPONENT_END: i32 = 16384;
/// Exponent of the smallest positive number, which is a power of two.
const BINARY_EXPONENT_MIN: i32 = -16445;
/// Limit to which decimal exponents are clamped: far outside of the range, whatever the digits.
const DECIMAL_EXPONENT_MAX: i64 = 100_000;
/// Maximum number of digits before the point of a number in range.
const WHOLE_DIGITS_MAX: i64 = 4933;
/// Maximum number of zeros after the point of a number that is not zero.
const LEADING_DECIMALS_MAX: i64 = 4951;

const TEN_POWER_19: u64 = 10_000_000_000_000_000_000;
const TEN_POWER_17: u64 = 100_000_000_000_000_000;
const DECIMALS: usize = 17;

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
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Zero,
    /// `mantissa × 2^exponent`; the highest bit of the mantissa is set.
    Finite {
        mantissa: u64,
        exponent: i32,
    },
    Infinite,
}

impl LongDouble {
    /// Parses decimal notation with an optional sign, fraction and exponent, or `inf`, `infinity`.
    /// Returns `None` for anything else: blanks, `nan`, numbers out of range, and numbers that
    /// would round to zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let is_infinite =
            text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity");
        let magnitude = if is_infinite {
            Magnitude::Infinite
        } else {
            parse_magnitude(text)?
        };
        Some(LongDouble {
            is_negative,
            magnitude,
        })
    }

    /// Largest finite number.
    pub const MAX: LongDouble = LongDouble {
        is_negative: false,
        magnitude: Magnitude::Finite {
            mantissa: u64::MAX,
            exponent: 16_383 - 63,
        },
    };

    /// Whether the number is infinite.
    pub fn is_infinite(self) -> bool {
        self.magnitude == Magnitude::Infinite
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
        let rank = |number: LongDouble| match number.magnitude {
            Magnitude::Zero => (0, 0, 0),
            Magnitude::Finite { mantissa, exponent } => (1, exponent, mantissa),
            Magnitude::Infinite => (2, 0, 0),
        };
        let (mine, others) = (rank(self), rank(other));
        if mine == others && mine.0 == 0 {
            return Ordering::Equal;
        }
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => mine.cmp(&others),
            (true, true) => others.cmp(&mine),
        }
    }

    /// Returns the sum, rounded to nearest; `None` if it is infinite or not a number.
    pub fn plus(self, other: LongDouble) -> Option<LongDouble> {
        let (mine, others) = match (self.magnitude, other.magnitude) {
            (Magnitude::Infinite, _) | (_, Magnitude::Infinite) => return None,
            (Magnitude::Zero, _) => return Some(other),
            (_, Magnitude::Zero) => return Some(self),
            (
                Magnitude::Finite { mantissa, exponent },
                Magnitude::Finite {
                    mantissa: other_mantissa,
                    exponent: other_exponent,
                },
            ) => (
                (exponent, mantissa, self.is_negative),
                (other_exponent, other_mantissa, other.is_negative),
            ),
        };
        let (large, small) = if (mine.0, mine.1) >= (others.0, others.1) {
            (mine, others)
        } else {
            (others, mine)
        };
        // The larger mantissa is in bits 62 to 125. The bit above is for the carry, and the 62 bits
        // below are for the smaller mantissa. Bits of it that are shifted out set the last bit
        // (sticky). If there are any, the difference keeps its highest bit or the one below, and 60
        // bits remain below the last bit of the result.
        let exponent = large.0 - 62;
        let augend = u128::from(large.1) << 62;
        let addend = shift_right_sticky(u128::from(small.1) << 62, large.0.abs_diff(small.0));
        let sum = if large.2 == small.2 {
            augend + addend
        } else {
            augend - addend
        };
        Some(LongDouble {
            is_negative: large.2,
            magnitude: round_to_mantissa(sum, exponent)?,
        })
    }

    /// Appends the number with 17 decimals without trailing zeros; never `-0`.
    pub fn push_decimal(self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.is_negative {
            out.push(b'-');
        }
        match self.magnitude {
            Magnitude::Infinite => out.extend_from_slice(b"inf"),
            Magnitude::Zero => out.push(b'0'),
            Magnitude::Finite { mantissa, exponent } if exponent >= 0 => {
                let mut whole = Natural::from(mantissa);
                whole.shift_left(exponent as u32);
                whole.push_decimal(out);
            }
            Magnitude::Finite { mantissa, exponent } => {
                push_fraction(scale_decimals(mantissa, exponent.unsigned_abs()), out);
            }
        }
        if &out[start..] == b"-0" {
            out.remove(start);
        }
    }
}

/// Returns `mantissa × 10^17 / 2^shift`, rounded to the nearest integer, ties to even.
fn scale_decimals(mantissa: u64, shift: u32) -> u128 {
    // The product is below 2^121, so that a shift of 122 leaves less than a half.
    let product = u128::from(mantissa) * u128::from(TEN_POWER_17);
    if shift > 121 {
        return 0;
    }
    let quotient = product >> shift;
    let remainder = product - (quotient << shift);
    let half = 1u128 << (shift - 1);
    let is_up = remainder > half || (remainder == half && quotient & 1 == 1);
    quotient + u128::from(is_up)
}

/// Appends a number given in units of 10^-17.
fn push_fraction(scaled: u128, out: &mut Vec<u8>) {
    // The whole part is below 2^63.
    let whole = (scaled / u128::from(TEN_POWER_17)) as u64;
    let mut decimals = (scaled % u128::from(TEN_POWER_17)) as u64;
    out.extend_from_slice(Text::unsigned(whole).as_bytes());
    if decimals == 0 {
        return;
    }
    let mut digits = [0; DECIMALS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (decimals % 10) as u8;
        decimals /= 10;
    }
    let len = digits.iter().rposition(|&digit| digit != b'0');
    out.push(b'.');
    out.extend_from_slice(&digits[..len.map_or(0, |last| last + 1)]);
}

/// Shifts to the right, and sets the last bit if any set bit was shifted out.
fn shift_right_sticky(number: u128, shift: u32) -> u128 {
    let shifted = number.checked_shr(shift).unwrap_or(0);
    let is_exact = shifted.checked_shl(shift).unwrap_or(0) == number;
    shifted | u128::from(!is_exact)
}

/// Returns `number × 2^exponent`, rounded to a mantissa of 64 bits, ties to even; `None` if it is
/// out of range.
fn round_to_mantissa(number: u128, exponent: i32) -> Option<Magnitude> {
    if number == 0 {
        return Some(Magnitude::Zero);
    }
    let leading = number.leading_zeros();
    let aligned = number << leading;
    let (mantissa, below) = ((aligned >> 64) as u64, aligned as u64);
    let order = below.cmp(&(1 << 63));
    finish(mantissa, order, exponent + 64 - leading as i32)
}

/// Rounds a mantissa. `order` compares the dropped part with half of the mantissa's last bit.
fn finish(mantissa: u64, order: Ordering, exponent: i32) -> Option<Magnitude> {
    debug_assert!(mantissa >> 63 == 1);
    let is_up = match order {
        Ordering::Less => false,
        Ordering::Equal => mantissa & 1 == 1,
        Ordering::Greater => true,
    };
    let (mantissa, exponent) = match mantissa.checked_add(u64::from(is_up)) {
        Some(mantissa) => (mantissa, exponent),
        None => (1 << 63, exponent + 1),
    };
    let top = exponent + 63;
    if top >= BINARY_EXPONENT_END {
        None
    } else if top < BINARY_EXPONENT_MIN {
        Some(Magnitude::Zero)
    } else {
        Some(Magnitude::Finite { mantissa, exponent })
    }
}

/// Parses `digits[.digits][e[sign]digits]`.
fn parse_magnitude(text: &[u8]) -> Option<Magnitude> {
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|&byte| byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    let is_number = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    if !is_number || whole.len() + fraction.len() == 0 {
        return None;
    }
    let scale = exponent - fraction.len() as i64;
    let digits: Vec<u8> = whole.iter().chain(fraction).copied().collect();
    let Some(first) = digits.iter().position(|&digit| digit != b'0') else {
        return Some(Magnitude::Zero);
    };
    let last = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .unwrap_or(first);
    let scale = scale + (digits.len() - 1 - last) as i64;
    let digits = &digits[first..=last];
    let whole_digits = digits.len() as i64 + scale;
    if !(-LEADING_DECIMALS_MAX..=WHOLE_DIGITS_MAX).contains(&whole_digits) {
        return None;
    }
    let (mut dividend, mut divisor) = (Natural::from_digits(digits), Natural::from(1));
    let factor = if scale < 0 {
        &mut divisor
    } else {
        &mut dividend
    };
    factor.multiply_power_of_ten(scale.unsigned_abs());
    divide(dividend, divisor).filter(|&magnitude| magnitude != Magnitude::Zero)
}

/// Parses `[sign]digits`, clamped far outside of the range.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let exponent = digits.iter().fold(0i64, |exponent, digit| {
        (exponent * 10 + i64::from(digit - b'0')).min(DECIMAL_EXPONENT_MAX)
    });
    Some(if is_negative { -exponent } else { exponent })
}

/// Returns the quotient of two numbers other than zero, rounded to 64 bits; `None` if it is out of
/// range.
fn divide(mut dividend: Natural, mut divisor: Natural) -> Option<Magnitude> {
    let mut exponent = dividend.bits() as i32 - divisor.bits() as i32;
    if exponent < 0 {
        dividend.shift_left(exponent.unsigned_abs());
    } else {
        divisor.shift_left(exponent.unsigned_abs());
    }
    if dividend.cmp(&divisor) == Ordering::Less {
        dividend.shift_left(1);
        exponent -= 1;
    }
    // Now 1 ≤ dividend / divisor < 2: the loop computes one bit of the quotient at a time.
    let mut mantissa = 0u64;
    for _ in 0..64 {
        mantissa <<= 1;
        if dividend.cmp(&divisor) != Ordering::Less {
            dividend.subtract(&divisor);
            mantissa |= 1;
        }
        dividend.shift_left(1);
    }
    finish(mantissa, dividend.cmp(&divisor), exponent - 63)
}

/// A natural number of any size, the lowest limb first, without zero limbs at the end.
#[derive(Debug)]
struct Natural(Vec<u64>);

impl From<u64> for Natural {
    fn from(number: u64) -> Self {
        Natural(if number == 0 {
            Vec::new()
        } else {
            vec![number]
        })
    }
}

impl Natural {
    fn from_digits(digits: &[u8]) -> Natural {
        let mut number = Natural(Vec::new());
        for chunk in digits.chunks(DECIMALS) {
            let (mut factor, mut addend) = (1, 0);
            for digit in chunk {
                factor *= 10;
                addend = addend * 10 + u64::from(digit - b'0');
            }
            number.multiply_add(factor, addend);
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
        for _ in 0..exponent / 19 {
            self.multiply_add(TEN_POWER_19, 0);
        }
        self.multiply_add(10u64.pow((exponent % 19) as u32), 0);
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
            *limb = (dividend / u128::from(TEN_POWER_19)) as u64;
            remainder = (dividend % u128::from(TEN_POWER_19)) as u64;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder
    }

    fn push_decimal(mut self, out: &mut Vec<u8>) {
        let mut chunks = vec![self.divide_chunk()];
        while !self.0.is_empty() {
            chunks.push(self.divide_chunk());
        }
        let mut chunks = chunks.into_iter().rev();
        let first = chunks.next().unwrap_or(0);
        out.extend_from_slice(Text::unsigned(first).as_bytes());
        for chunk in chunks {
            let text = Text::unsigned(chunk);
            let digits = text.as_bytes();
            out.extend(std::iter::repeat_n(b'0', 19 - digits.len()));
            out.extend_from_slice(digits);
        }
    }
}

#[cfg(test)]
mod tests;
