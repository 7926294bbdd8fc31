//! Parsers of bytes, counts, spans of time and fractions.

use std::fmt;
use std::time::Duration;

/// Exclusive upper bound on numbers with decimals: below it every whole number has an exact `f64`.
const LIMIT: f64 = (1u64 << 53) as f64;

const BYTES: [(&str, f64); 14] = [
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
    ("kb", 1024.0),
    ("mb", 1_048_576.0),
    ("gb", 1_073_741_824.0),
    ("tb", 1_099_511_627_776.0),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
    ("t", 1e12),
    ("b", 1.0),
    ("", 1.0),
];
const COUNTS: [(&str, f64); 4] = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("", 1.0)];
const SPANS: [(&str, f64); 6] = [
    ("ms", 1.0),
    ("s", 1e3),
    ("m", 60e3),
    ("h", 3_600e3),
    ("d", 86_400e3),
    ("", 1e3),
];
const FRACTIONS: [(&str, f64); 2] = [("%", 0.01), ("", 1.0)];

/// A text that is not a quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadQuantity {
    what: &'static str,
    given: String,
    expected: &'static str,
}

impl fmt::Display for BadQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadQuantity {
            what,
            given,
            expected,
        } = self;
        write!(f, "{what} '{given}': expected {expected}")
    }
}

impl std::error::Error for BadQuantity {}

/// Parses a number of bytes: `65536`, `64k` (64,000), `64kb` (65,536), `1.5gib`.
///
/// # Errors
/// Anything else, and a fraction of a byte.
pub fn bytes(text: &str) -> Result<u64, BadQuantity> {
    let expected = "a number of bytes such as 64mb";
    whole(text, &BYTES).ok_or_else(|| bad("size", text, expected))
}

/// Parses a count: `1000`, `10k`, `1.5m`.
///
/// # Errors
/// Anything else, and a number that is not whole.
pub fn count(text: &str) -> Result<u64, BadQuantity> {
    let expected = "a whole number such as 1000, 10k or 1.5m";
    whole(text, &COUNTS).ok_or_else(|| bad("count", text, expected))
}

/// Parses a span of time in milliseconds, rounded: `500ms`, `60s`, `2m`, `1h`, `3d`; seconds
/// without a unit.
///
/// # Errors
/// Anything else.
pub fn span_ms(text: &str) -> Result<u64, BadQuantity> {
    let expected = "a span of time such as 500ms, 60s, 2m, 1h or 3d";
    let ms = scaled(text, &SPANS).ok_or_else(|| bad("time", text, expected))?;
    Ok(ms.round() as u64)
}

/// Parses a span of time as [`span_ms`] does.
///
/// # Errors
/// See [`span_ms`].
pub fn span(text: &str) -> Result<Duration, BadQuantity> {
    span_ms(text).map(Duration::from_millis)
}

/// Parses a fraction: `0.1` or `10%`; `150%` is allowed.
///
/// # Errors
/// Anything else.
pub fn fraction(text: &str) -> Result<f64, BadQuantity> {
    let expected = "a fraction such as 0.1 or 10%";
    scaled(text, &FRACTIONS).ok_or_else(|| bad("fraction", text, expected))
}

fn bad(what: &'static str, given: &str, expected: &'static str) -> BadQuantity {
    BadQuantity {
        what,
        given: given.into(),
        expected,
    }
}

/// Parses a whole number. It is exact up to `u64::MAX` if it has no decimals.
fn whole(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let (digits, factor) = split(text, units)?;
    if let Ok(number) = digits.parse::<u64>() {
        return number.checked_mul(factor as u64);
    }
    let number = scaled(text, units).filter(|number| number.fract() == 0.0);
    number.map(|number| number as u64)
}

/// Parses a decimal number and multiplies it by the factor of its unit.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (digits, factor) = split(text, units)?;
    let number = digits.parse::<f64>().ok()? * factor;
    (number < LIMIT).then_some(number)
}

/// Splits a number into its digits and the factor of the first unit in `units` that it ends in.
fn split(text: &str, units: &[(&str, f64)]) -> Option<(String, f64)> {
    let text = text.to_ascii_lowercase();
    let mut units = units.iter();
    let (digits, factor) =
        units.find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let mut bytes = digits.bytes();
    let is_plain = bytes.all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain.then(|| (digits.to_owned(), factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_decimal_and_binary_units() {
        for (text, expected) in [
            ("0", 0),
            ("100", 100),
            ("5b", 5),
            ("1k", 1_000),
            ("1Kb", 1_024),
            ("1KiB", 1_024),
            ("1.5kb", 1_536),
            ("100mb", 104_857_600),
            ("1gb", 1 << 30),
            ("1g", 1_000_000_000),
            ("2t", 2_000_000_000_000),
            ("2tib", 2 << 40),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "kb",
            "-1",
            "1x",
            "0.5",
            "1e3",
            "nan",
            "99999999999gb",
            "1 kb",
        ] {
            assert!(bytes(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn counts_and_spans_have_their_own_units() {
        assert_eq!(count("10K"), Ok(10_000));
        assert_eq!(count("1.5m"), Ok(1_500_000));
        assert_eq!(span_ms("250ms"), Ok(250));
        assert_eq!(span_ms("1.5"), Ok(1_500));
        assert_eq!(span_ms("2h"), Ok(7_200_000));
        assert_eq!(span("3d"), Ok(Duration::from_secs(259_200)));
        for text in ["", "k", "-1", "1.5", "1e3", "nan", "99999999999g", "1kb"] {
            assert!(count(text).is_err(), "{text:?}");
        }
        for text in ["", "s", "-1s", "1y", "1e3s", "inf"] {
            assert!(span_ms(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn fractions_are_not_bounded() {
        assert_eq!(fraction("10%"), Ok(0.1));
        assert_eq!(fraction("150%"), Ok(1.5));
        assert!(fraction("-1%").is_err());
    }

    #[test]
    fn errors_name_the_kind_the_text_and_an_example() {
        let errors = [
            bytes("12q").map(|_| ()),
            count("many").map(|_| ()),
            span("5y").map(|_| ()),
        ];
        let texts = errors.map(|error| error.map_err(|error| error.to_string()).err());
        let wanted = [
            "size '12q': expected a number of bytes such as 64mb",
            "count 'many': expected a whole number such as 1000, 10k or 1.5m",
            "time '5y': expected a span of time such as 500ms, 60s, 2m, 1h or 3d",
        ];
        assert_eq!(texts, wanted.map(|text| Some(text.to_owned())));
    }
}
