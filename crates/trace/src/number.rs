//! Numbers in text.

use crate::text_key::key_of_text;

/// Parses a whole number of decimal digits; `None` for anything else.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    // 19 digits always fit, so that no overflow check is needed.
    if text.is_empty() || text.len() > 19 {
        return whole_checked(text);
    }
    let mut number = 0u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

#[cold]
fn whole_checked(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Parses a whole number below 2^32.
#[inline]
pub(crate) fn small(text: &[u8]) -> Option<u32> {
    u32::try_from(whole(text)?).ok()
}

/// Parses a decimal number and multiplies it by 1,000: seconds to milliseconds. Digits after the
/// third decimal are dropped.
#[inline]
pub(crate) fn thousandths(text: &[u8]) -> Option<u64> {
    match memchr::memchr(b'.', text) {
        None => whole(text)?.checked_mul(1000),
        Some(at) => {
            let digits = &text[at + 1..];
            if !digits.iter().all(u8::is_ascii_digit) {
                return None;
            }
            let mut digits = digits.iter().map(|digit| u64::from(digit - b'0'));
            let mut fraction = 0;
            for _ in 0..3 {
                fraction = fraction * 10 + digits.next().unwrap_or(0);
            }
            whole(&text[..at])?.checked_mul(1000)?.checked_add(fraction)
        }
    }
}

/// Returns the key of a text: the number, if it is one below 2^64 in its shortest form, and
/// otherwise the hash of the text.
#[inline]
pub fn key(text: &[u8]) -> u64 {
    let is_shortest = text[..] == *b"0" || text.first() != Some(&b'0');
    match whole(text) {
        Some(number) if is_shortest => number,
        _ => key_of_text(text),
    }
}

/// Parses a decimal number of digits and at most one point, without sign and exponent.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { text.parse().ok() } else { None }
}

/// Appends a number in decimal.
pub(crate) fn push_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_digits_within_range() {
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole(b"00000000000000000000017"), Some(17));
        for text in [
            "",
            "18446744073709551616",
            "-1",
            "+1",
            "1 ",
            "0x1",
            "1e3",
            "١",
        ] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
        assert_eq!(small(b"4294967295"), Some(u32::MAX));
        assert_eq!(small(b"4294967296"), None);
    }

    #[test]
    fn seconds_become_milliseconds() {
        for (text, ms) in [
            ("0", 0),
            ("7", 7_000),
            ("7.", 7_000),
            ("1.5", 1_500),
            ("1.0629", 1_062),
        ] {
            assert_eq!(thousandths(text.as_bytes()), Some(ms), "{text}");
        }
        for text in ["", ".", ".5", "1.x", "1.5.5", "-1", "18446744073709552"] {
            assert_eq!(thousandths(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn only_the_shortest_form_of_a_number_is_the_number() {
        assert_eq!(key(b"0"), 0);
        assert_eq!(key(b"70"), 70);
        for text in [&b"007"[..], b"00", b"-7", b"7a", b"18446744073709551616"] {
            assert_eq!(key(text), key_of_text(text));
        }
    }

    proptest! {
        #[test]
        fn a_written_number_is_read_back(number in any::<u64>()) {
            prop_assert_eq!(whole(number.to_string().as_bytes()), Some(number));
            prop_assert_eq!(key(number.to_string().as_bytes()), number);
        }
    }
}
