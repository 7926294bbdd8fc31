//! The text of numbers: which text is a number, and how a number is written.

/// Maximum length of the text of an `i64`: a sign and 19 digits.
const INTEGER_TEXT_MAX: usize = 20;
/// Capacity for the longest text of an `f64`, 25 bytes: a sign, 17 digits and seven zeros.
const DOUBLE_TEXT_MAX: usize = 32;

/// Parses an integer as strictly as Redis: an optional `-`, no `+`, no blanks, no leading zeros, no
/// `-0`; in the range of `i64`.
///
/// ```
/// use wire::number::parse_i64;
/// assert_eq!(parse_i64(b"-42"), Some(-42));
/// for bad in ["", "-", "+1", " 1", "1 ", "01", "-0", "9223372036854775808"] {
///     assert_eq!(parse_i64(bad.as_bytes()), None);
/// }
/// ```
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    let (&first, rest) = digits.split_first()?;
    if first == b'0' && rest.is_empty() && !is_negative {
        return Some(0);
    }
    if !first.is_ascii_digit() || first == b'0' || digits.len() > INTEGER_TEXT_MAX - 1 {
        return None;
    }
    // Nineteen digits fit in a u64.
    let mut magnitude: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if is_negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Parses an unsigned integer by the same rules, up to `u64::MAX` (cursors of SCAN).
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    if first == b'0' {
        return rest.is_empty().then_some(0);
    }
    let mut number: u64 = 0;
    for &byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number
            .checked_mul(10)?
            .checked_add(u64::from(byte - b'0'))?;
    }
    Some(number)
}

/// Parses a double: decimal notation with an optional sign, fraction and exponent, or `inf`,
/// `infinity` in upper or lower case; no blanks, no `nan`. As in Redis, a number too large for a
/// double, or so small that it would round to zero, is refused. Departure: Redis accepts
/// hexadecimal floats, too, because the C library does.
///
/// ```
/// use wire::number::parse_f64;
/// assert_eq!(parse_f64(b"5.0e3"), Some(5000.0));
/// assert_eq!(parse_f64(b"-inf"), Some(f64::NEG_INFINITY));
/// for bad in ["", "nan", " 1", "1 ", "1e400", "1e-400", "0x10"] {
///     assert_eq!(parse_f64(bad.as_bytes()), None);
/// }
/// ```
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let is_spelled_infinite = || text.iter().any(|byte| matches!(byte, b'i' | b'I'));
    let is_spelled_zero = || {
        text.iter()
            .take_while(|byte| !matches!(byte, b'e' | b'E'))
            .all(|byte| !matches!(byte, b'1'..=b'9'))
    };
    if number.is_nan()
        || (number.is_infinite() && !is_spelled_infinite())
        || (number == 0.0 && !is_spelled_zero())
    {
        return None;
    }
    Some(number)
}

/// The text of a number, stored on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    bytes: [u8; DOUBLE_TEXT_MAX],
    start: u8,
    end: u8,
}

const DIGIT_PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[number * 2] = b'0' + (number / 10) as u8;
        pairs[number * 2 + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

impl Text {
    /// Writes an integer in decimal.
    #[inline]
    pub fn integer(number: i64) -> Text {
        let mut text = Text::unsigned(number.unsigned_abs());
        if number < 0 {
            text.push_front(b'-');
        }
        text
    }
    /// Writes an unsigned integer in decimal.
    #[inline]
    pub fn unsigned(mut number: u64) -> Text {
        let mut text = Text {
            bytes: [0; DOUBLE_TEXT_MAX],
            start: DOUBLE_TEXT_MAX as u8,
            end: DOUBLE_TEXT_MAX as u8,
        };
        while number >= 100 {
            let pair = (number % 100) as usize * 2;
            number /= 100;
            text.push_front(DIGIT_PAIRS[pair + 1]);
            text.push_front(DIGIT_PAIRS[pair]);
        }
        if number >= 10 {
            let pair = number as usize * 2;
            text.push_front(DIGIT_PAIRS[pair + 1]);
            text.push_front(DIGIT_PAIRS[pair]);
        } else {
            text.push_front(b'0' + number as u8);
        }
        text
    }
    /// Writes a double as Redis does: a whole number up to 2^62 as an integer, others as the
    /// shortest digits that read back the same. Short texts have no exponent, longer ones do.
    /// Special values are `inf`, `-inf` and `nan`.
    ///
    /// ```
    /// use wire::number::Text;
    /// let cases = [(3.0, "3"), (10.6, "10.6"), (1e20, "1e+20"), (-2.5e-9, "-2.5e-9")];
    /// for (number, text) in cases {
    ///     assert_eq!(Text::double(number).as_bytes(), text.as_bytes());
    /// }
    /// ```
    pub fn double(number: f64) -> Text {
        let mut text = Text {
            bytes: [0; DOUBLE_TEXT_MAX],
            start: 0,
            end: 0,
        };
        if number.is_nan() {
            text.push(b"nan");
            return text;
        }
        if number.is_sign_negative() {
            text.push(b"-");
        }
        if number.is_infinite() {
            text.push(b"inf");
            return text;
        }
        let number = number.abs();
        if number <= WHOLE_AS_INTEGER_MAX && number.trunc() == number {
            text.push(Text::unsigned(number as u64).as_bytes());
        } else {
            Scientific::of(number).write(&mut text);
        }
        text
    }
    /// Returns the text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..usize::from(self.end)]
    }
    #[inline]
    pub(crate) fn push_front(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[usize::from(self.start)] = byte;
    }
    fn push(&mut self, bytes: &[u8]) {
        let end = usize::from(self.end);
        self.bytes[end..end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len() as u8;
    }
    fn push_zeros(&mut self, count: usize) {
        for _ in 0..count {
            self.push(b"0");
        }
    }
}

/// Largest whole double that Redis writes as an integer with all digits: half of the range of
/// `i64`.
const WHOLE_AS_INTEGER_MAX: f64 = (i64::MAX / 2) as f64;

/// The shortest digits `d…` of a finite number that is not negative, which equals `d… × 10^scale`.
struct Scientific {
    digits: [u8; 17],
    len: usize,
    scale: i32,
}

impl Scientific {
    fn of(number: f64) -> Scientific {
        use std::io::Write;
        // The standard library finds the shortest digits: `d.ddde-ddd`, 24 bytes at most.
        let mut buffer = [0u8; 32];
        let mut rest = &mut buffer[..];
        write!(rest, "{number:e}").expect("a double's text is shorter than the buffer");
        let unused = rest.len();
        let written = &buffer[..buffer.len() - unused];
        let mut scientific = Scientific {
            digits: [0; 17],
            len: 0,
            scale: 0,
        };
        let mut parts = written.split(|&byte| byte == b'e');
        let mantissa = parts.next().unwrap_or(&[]);
        for &byte in mantissa.iter().filter(|&&byte| byte != b'.') {
            scientific.digits[scientific.len] = byte;
            scientific.len += 1;
        }
        let exponent = parts.next().and_then(parse_i64).unwrap_or(0) as i32;
        scientific.scale = exponent - (scientific.len as i32 - 1);
        scientific
    }

    /// Writes the form of the printer that Redis uses since 7.2 (`fpconv`): no exponent while at
    /// most seven zeros follow the digits, or while at most about six decimals are needed.
    fn write(&self, text: &mut Text) {
        let digits = &self.digits[..self.len];
        let exponent = self.scale + self.len as i32 - 1;
        let is_plain_integer = self.scale >= 0 && exponent < self.len as i32 + 7;
        let is_plain_fraction = self.scale < 0 && (self.scale > -7 || exponent.abs() < 4);
        if is_plain_integer {
            text.push(digits);
            text.push_zeros(self.scale as usize);
        } else if is_plain_fraction && exponent < 0 {
            text.push(b"0.");
            text.push_zeros(-exponent as usize - 1);
            text.push(digits);
        } else if is_plain_fraction {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            text.push(whole);
            text.push(b".");
            text.push(fraction);
        } else {
            text.push(&digits[..1]);
            if self.len > 1 {
                text.push(b".");
                text.push(&digits[1..]);
            }
            text.push(if exponent < 0 { b"e-" } else { b"e+" });
            text.push(Text::unsigned(u64::from(exponent.unsigned_abs())).as_bytes());
        }
    }
}

/// Appends an integer in decimal.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(Text::integer(number).as_bytes());
}

/// Appends an unsigned integer in decimal.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, number: u64) {
    // Most numbers in replies are small and need no buffer for the reversal of digits.
    match number {
        0..10 => out.push(b'0' + number as u8),
        10..100 => {
            let pair = number as usize * 2;
            out.extend_from_slice(&[DIGIT_PAIRS[pair], DIGIT_PAIRS[pair + 1]]);
        }
        _ => out.extend_from_slice(Text::unsigned(number).as_bytes()),
    }
}

#[cfg(test)]
mod tests;
