//! Numbers, spans of time and ranges, as people write them on a command line.

use ::trace::{TtlMix, TtlMixError};

/// From a number up to another, which is not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: u64,
    /// The end; `None` for no end.
    pub end: Option<u64>,
}

impl Span {
    /// The end as a count.
    pub fn end_or_max(self) -> usize {
        self.end.unwrap_or(u64::MAX) as usize
    }

    /// Whether it holds a number.
    pub fn has(self, number: u64) -> bool {
        number >= self.start && self.end.is_none_or(|end| number < end)
    }
}

/// Reads `A..B`, either of which may be missing.
pub fn range(
    one: fn(&str) -> Result<u64, String>,
) -> impl Fn(&str) -> Result<Span, String> + Clone + Send + Sync {
    move |text| {
        let wrong = || format!("{text:?} is no range such as 10..20, ..20 or 10..");
        let (start, end) = text.split_once("..").ok_or_else(wrong)?;
        let start = if start.is_empty() { 0 } else { one(start)? };
        let end = if end.is_empty() {
            None
        } else {
            Some(one(end)?)
        };
        if end.is_some_and(|end| end < start) {
            return Err(wrong());
        }
        Ok(Span { start, end })
    }
}

/// Reads `1000`, `10k`, `1.5m`, `1g`.
pub fn count(text: &str) -> Result<u64, String> {
    let units = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("", 1.0)];
    let number = scaled(&text.to_ascii_lowercase(), &units);
    let number = number.filter(|number| number.fract() == 0.0);
    number
        .ok_or_else(|| format!("{text:?} is no number such as 1000, 10k or 1.5m"))
        .map(|number| number as u64)
}

/// Reads `500ms`, `60s`, `2m`, `1h`, `3d`, or seconds without a unit, as milliseconds.
pub fn span_ms(text: &str) -> Result<u64, String> {
    let units = [
        ("ms", 1.0),
        ("s", 1e3),
        ("m", 60e3),
        ("h", 3_600e3),
        ("d", 86_400e3),
        ("", 1e3),
    ];
    let ms = scaled(text, &units).map(|ms| ms.round() as u64);
    ms.ok_or_else(|| format!("{text:?} is no span of time such as 500ms, 60s, 2m, 1h or 3d"))
}

/// Reads one byte that keeps columns apart: `;`, `tab`, `\t`.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() => Ok(byte),
        _ => Err(format!("{text:?} is not one character, or tab")),
    }
}

/// Reads a published mix of lifetimes, `cluster4`, or one of one's own, `60s:0.4 1h:0.6`.
pub fn ttl_mix(text: &str) -> Result<TtlMix, TtlMixError> {
    match TtlMix::published(text) {
        Err(TtlMixError::UnknownCluster(_)) if text.contains(':') => TtlMix::parse(text),
        told => told,
    }
}

/// A decimal number times the factor of the first unit that it ends in.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let mut found = units.iter();
    let (digits, factor) =
        found.find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let is_plain = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.parse::<f64>().ok().filter(|_| is_plain)? * factor;
    (number <= 1e15).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_spans_and_ranges_are_understood_and_nonsense_is_refused() {
        assert_eq!(count("1.5M"), Ok(1_500_000));
        assert_eq!(span_ms("250ms"), Ok(250));
        assert_eq!(span_ms("1.5"), Ok(1_500));
        assert_eq!(span_ms("2h"), Ok(7_200_000));
        let of_counts = range(count);
        let wanted = Span {
            start: 10,
            end: Some(2_000),
        };
        assert_eq!(of_counts("10..2k"), Ok(wanted));
        assert!(wanted.has(10) && wanted.has(1_999));
        assert!(!wanted.has(9) && !wanted.has(2_000));
        assert_eq!(of_counts("..").map(Span::end_or_max), Ok(usize::MAX));
        for text in ["", "5", "5..x", "9..8", "-1..2"] {
            assert!(of_counts(text).is_err(), "{text}");
        }
        for text in ["", "k", "1.5", "1e3", "nan", "9999999g"] {
            assert!(count(text).is_err(), "{text}");
        }
        for text in ["", "s", "1y", "-1s", "inf"] {
            assert!(span_ms(text).is_err(), "{text}");
        }
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert_eq!(delimiter(";"), Ok(b';'));
        assert!(delimiter("").is_err() && delimiter("::").is_err());
    }
}
