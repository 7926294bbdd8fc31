//! Numbers as C's `printf` and `strtod` treat them.

/// Appends a number as `printf("%.*g")` prints it.
pub fn push_general(out: &mut Vec<u8>, number: f64, precision: usize) {
    if number.is_nan() {
        return out.extend_from_slice(if number.is_sign_negative() {
            b"-nan"
        } else {
            b"nan"
        });
    }
    if number.is_infinite() {
        return out.extend_from_slice(if number < 0.0 { b"-inf" } else { b"inf" });
    }
    let precision = precision.max(1);
    // The exponent after rounding to this precision decides between the two notations.
    let text = format!("{number:.*e}", precision - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(trimmed(digits).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else {
        let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
        out.extend_from_slice(trimmed(&format!("{number:.decimals$}")).as_bytes());
    }
}

/// Removes trailing zeros from a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// Reads a number at the start of `text` like C's `strtod`. Returns it with its length; a length of
/// 0 means there is no number.
pub fn read_double(text: &[u8]) -> (f64, usize) {
    let signed = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let is_negative = text.first() == Some(&b'-');
    let sign = if is_negative { -1.0 } else { 1.0 };
    let rest = &text[signed..];
    let starts = |word: &str| {
        let head = rest.get(..word.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
    };
    for (word, value) in [
        ("infinity", f64::INFINITY),
        ("inf", f64::INFINITY),
        ("nan", f64::NAN),
    ] {
        if starts(word) {
            return (sign * value, signed + word.len());
        }
    }
    if starts("0x") {
        let (value, len) = read_hexadecimal(&rest[2..]);
        if len > 0 {
            return (sign * value, signed + 2 + len);
        }
    }
    let len = decimal_len(rest);
    let number = std::str::from_utf8(&rest[..len]).ok();
    match number.and_then(|number| number.parse::<f64>().ok()) {
        Some(value) if len > 0 => (sign * value, signed + len),
        _ => (0.0, 0),
    }
}

/// Returns the length of the decimal number at the start of `text`.
fn decimal_len(text: &[u8]) -> usize {
    let digits = |at: usize| {
        let tail = text.get(at..).unwrap_or_default();
        tail.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let whole = digits(0);
    let mut len = whole;
    if text.get(len) == Some(&b'.') {
        let fraction = digits(len + 1);
        if whole + fraction == 0 {
            return 0;
        }
        len += 1 + fraction;
    }
    if len == 0 {
        return 0;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let exponent = digits(len + 1 + signed);
        if exponent > 0 {
            len += 1 + signed + exponent;
        }
    }
    len
}

/// Reads hexadecimal digits with an optional fraction and binary exponent.
fn read_hexadecimal(text: &[u8]) -> (f64, usize) {
    let (mut value, mut len, mut count) = (0.0f64, 0, 0);
    let mut scale = 0i32;
    let mut has_point = false;
    for byte in text {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                count += 1;
                scale -= if has_point { 4 } else { 0 };
            }
            None if *byte == b'.' && !has_point => has_point = true,
            None => break,
        }
        len += 1;
    }
    if count == 0 {
        return (0.0, 0);
    }
    if matches!(text.get(len), Some(b'p' | b'P')) {
        let signed = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let tail = text.get(len + 1 + signed..).unwrap_or_default();
        let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            let exponent = std::str::from_utf8(&tail[..digits]).ok();
            let exponent = exponent
                .and_then(|text| text.parse::<i32>().ok())
                .unwrap_or(9999);
            let is_negative = text.get(len + 1) == Some(&b'-');
            let exponent = exponent.min(9999);
            scale += if is_negative { -exponent } else { exponent };
            len += 1 + signed + digits;
        }
    }
    (value * 2f64.powi(scale), len)
}

/// Returns a number as an integer if it is one.
pub fn integral(number: f64) -> Option<i64> {
    // The cast saturates, and 2^63 itself is not an i64.
    let whole = number as i64;
    (whole as f64 == number && number < 9_223_372_036_854_775_808.0).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_by_printf() {
        let text = |number, precision| {
            let mut out = Vec::new();
            push_general(&mut out, number, precision);
            String::from_utf8(out).expect("digits")
        };
        assert_eq!(text(0.1, 14), "0.1");
        assert_eq!(text(100.0, 14), "100");
        assert_eq!(text(1e14, 14), "1e+14");
        assert_eq!(text(123_456_789_012_345.0, 14), "1.2345678901234e+14");
        assert_eq!(text(-0.0, 14), "-0");
        assert_eq!(text(1e-5, 14), "1e-05");
        assert_eq!(text(0.0001, 14), "0.0001");
        assert_eq!(text(1e300, 17), "1.0000000000000001e+300");
        assert_eq!(text(99_999.5, 5), "1e+05");
    }

    #[test]
    fn numbers_are_read_as_by_strtod() {
        for (input, value, len) in [
            ("12x", 12.0, 2),
            ("-1.5e3,", -1500.0, 6),
            ("1e", 1.0, 1),
            ("0x1Fg", 31.0, 4),
            ("0x.8p1", 1.0, 6),
            (".5", 0.5, 2),
            (".", 0.0, 0),
            ("-", 0.0, 0),
            ("5.", 5.0, 2),
            ("1e400", f64::INFINITY, 5),
            ("-Infinity", f64::NEG_INFINITY, 9),
        ] {
            assert_eq!(read_double(input.as_bytes()), (value, len), "{input}");
        }
        assert!(read_double(b"nan").0.is_nan());
    }

    #[test]
    fn whole_numbers_within_64_bits_are_integral() {
        assert_eq!(integral(3.0), Some(3));
        assert_eq!(integral(3.5), None);
        assert_eq!(integral(9_223_372_036_854_775_808.0), None);
        assert_eq!(integral(-9_223_372_036_854_775_808.0), Some(i64::MIN));
        assert_eq!(integral(f64::NAN), None);
    }
}
