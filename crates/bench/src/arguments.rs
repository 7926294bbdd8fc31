//! Numbers with suffixes and spans of time, as people write them on a command line.

use std::time::Duration;

/// `1000`, `10k`, `1m`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = match lower.as_bytes().last() {
        Some(b'k') => (&lower[..lower.len() - 1], 1e3),
        Some(b'm') => (&lower[..lower.len() - 1], 1e6),
        Some(b'g') => (&lower[..lower.len() - 1], 1e9),
        _ => (&lower[..], 1.0),
    };
    let wrong = || format!("{text:?} is not a number such as 1000, 10k or 1.5m");
    let number = decimal(digits).ok_or_else(wrong)? * factor;
    if number.fract() != 0.0 || number > 1e12 {
        Err(wrong())
    } else {
        Ok(number as u64)
    }
}

/// `1000`, `100kb`, `64mb`, `1gb`: binary units.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let units = [
        ("kb", 10),
        ("mb", 20),
        ("gb", 30),
        ("k", 10),
        ("m", 20),
        ("g", 30),
        ("b", 0),
    ];
    let found = units
        .iter()
        .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, *shift)));
    let (digits, shift) = found.unwrap_or((&lower, 0));
    let wrong = || format!("{text:?} is not a size such as 100mb or 1gb");
    let number = decimal(digits).ok_or_else(wrong)? * f64::from(1u32 << shift);
    if number > 1e15 {
        Err(wrong())
    } else {
        Ok(number as u64)
    }
}

/// `500ms`, `60s`, `2m`, or seconds without a unit.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let found = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1.0));
    let wrong = || format!("{text:?} is not a span of time such as 500ms, 60s or 2m");
    let seconds = decimal(digits).ok_or_else(wrong)? * factor;
    if seconds > 1e6 {
        Err(wrong())
    } else {
        Ok(Duration::from_secs_f64(seconds))
    }
}

fn decimal(text: &str) -> Option<f64> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_understood_and_nonsense_is_refused() {
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("1.5m"), Ok(1_500_000));
        assert_eq!(count("0"), Ok(0));
        assert_eq!(bytes("64mb"), Ok(64 << 20));
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(span("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "k", "-1", "1.5", "1e3", "nan", "9999999m"] {
            assert!(count(text).is_err(), "{text:?}");
        }
        for text in ["", "s", "-1s", "1y", "1e3s"] {
            assert!(span(text).is_err(), "{text:?}");
            assert!(bytes(text).is_err(), "{text:?}");
        }
    }
}
