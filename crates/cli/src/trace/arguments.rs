//! Parsers of command line arguments: ranges, delimiters and TTL mixes.

use ::trace::{TtlMix, TtlMixError};
use units::BadQuantity;

/// Range of numbers without its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First number.
    pub start: u64,
    /// End; `None` if the range is open.
    pub end: Option<u64>,
}

impl Span {
    /// Returns the end as a count of requests, or the maximum if the range is open.
    pub fn end_or_max(self) -> usize {
        self.end.unwrap_or(u64::MAX) as usize
    }

    /// Returns true if the range contains a number.
    pub fn has(self, number: u64) -> bool {
        number >= self.start && self.end.is_none_or(|end| number < end)
    }
}

/// Returns a parser of `A..B`. Either end may be missing.
pub fn range(
    one: fn(&str) -> Result<u64, BadQuantity>,
) -> impl Fn(&str) -> Result<Span, String> + Clone + Send + Sync {
    move |text| {
        let wrong = || format!("range {text:?}: expected one such as 10..20, ..20 or 10..");
        let (start, end) = text.split_once("..").ok_or_else(wrong)?;
        let one = |text: &str| one(text).map_err(|error| error.to_string());
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

/// Parses a column delimiter of one byte: `;`, `tab`, `\t`.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() => Ok(byte),
        _ => Err(format!(
            "delimiter {text:?}: expected one ASCII character, or tab"
        )),
    }
}

/// Parses a TTL mix: a published one such as `cluster4`, or a list such as `60s:0.4 1h:0.6`.
pub fn ttl_mix(text: &str) -> Result<TtlMix, TtlMixError> {
    match TtlMix::published(text) {
        Err(TtlMixError::UnknownCluster(_)) if text.contains(':') => TtlMix::parse(text),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_delimiters_are_parsed_and_invalid_ones_refused() {
        let of_counts = range(units::count);
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
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert_eq!(delimiter(";"), Ok(b';'));
        assert!(delimiter("").is_err() && delimiter("::").is_err());
    }
}
