//! Byte ranges (RFC 9110, section 14).

use hyper::header::{HeaderMap, HeaderValue};

/// Maximum number of ranges in a request. A request with more is answered as one without ranges,
/// which the specification allows.
pub const RANGES_MAX: usize = 16;

/// Range of bytes in a representation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl Range {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Returns the value of Content-Range. `whole` is the length of the whole representation.
    pub fn content_range(&self, whole: u64) -> HeaderValue {
        let text = format!("bytes {}-{}/{whole}", self.start, self.end - 1);
        HeaderValue::from_str(&text).expect("digits are plain ASCII")
    }
}

/// Range in the form in which it was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spec {
    FromTo(u64, u64),
    From(u64),
    Last(u64),
}

/// Ranges of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requested(Vec<Spec>);

/// Answer to a request for ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The given parts, in the requested order, without overlaps.
    Parts(Vec<Range>),
    /// Status 416: no range begins within the representation.
    Unsatisfiable,
}

impl Requested {
    /// Parses the field Range. Returns `None` if it is absent or must be ignored because of its
    /// unit, a malformed list, or too many ranges.
    pub fn of(request: &HeaderMap) -> Option<Self> {
        let mut lines = request.get_all("range").iter();
        let line = lines.next()?;
        if lines.next().is_some() {
            return None;
        }
        Self::parse(line.as_bytes())
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let (unit, list) = line.split_at_checked(6)?;
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return None;
        }
        let mut specs = vec![];
        for text in list.split(|&byte| byte == b',') {
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            if specs.len() == RANGES_MAX {
                return None;
            }
            specs.push(spec(text)?);
        }
        (!specs.is_empty()).then_some(Requested(specs))
    }

    /// Returns true if exactly one range is requested.
    pub fn is_single(&self) -> bool {
        self.0.len() == 1
    }

    /// Returns true if exactly one range is requested and `part` contains it.
    pub fn is_within(&self, part: Range, whole: u64) -> bool {
        match self.answer(whole) {
            Answer::Parts(parts) => match parts[..] {
                [wanted] => part.start <= wanted.start && wanted.end <= part.end,
                _ => false,
            },
            Answer::Unsatisfiable => false,
        }
    }

    /// Returns the requested parts of a representation of `whole` bytes. Overlapping and adjacent
    /// ranges are joined, so that the answer never has more bytes than the representation.
    pub fn answer(&self, whole: u64) -> Answer {
        let mut parts: Vec<Range> = vec![];
        for spec in &self.0 {
            let (start, end) = match *spec {
                Spec::FromTo(first, last) => (first, last.saturating_add(1).min(whole)),
                Spec::From(first) => (first, whole),
                Spec::Last(count) => (whole.saturating_sub(count), whole),
            };
            let mut part = Range { start, end };
            if part.is_empty() {
                continue;
            }
            let mut place = parts.len();
            let mut at = 0;
            while at < parts.len() {
                let other = parts[at];
                if part.start <= other.end && other.start <= part.end {
                    part.start = part.start.min(other.start);
                    part.end = part.end.max(other.end);
                    parts.remove(at);
                    place = place.min(at);
                    // The wider part may now touch earlier ones.
                    at = 0;
                } else {
                    at += 1;
                }
            }
            parts.insert(place.min(parts.len()), part);
        }
        if parts.is_empty() {
            Answer::Unsatisfiable
        } else {
            Answer::Parts(parts)
        }
    }
}

fn spec(text: &[u8]) -> Option<Spec> {
    let dash = text.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&text[..dash], &text[dash + 1..]);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Spec::Last(number(last)?)),
        (false, true) => Some(Spec::From(number(first)?)),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Spec::FromTo(first, last))
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // A number beyond 64 bits is beyond the end of every representation.
    let add = |sum: u64, digit: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    };
    Some(text.iter().fold(0, add))
}

/// Parses Content-Range of a response with a single part. Returns the part and the length of the
/// whole representation; `None` if the field is malformed or the length is unknown.
pub fn content_range(response: &HeaderMap) -> Option<(Range, u64)> {
    let text = response.get("content-range")?.as_bytes();
    let (unit, rest) = text.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes ") {
        return None;
    }
    let slash = rest.iter().position(|&byte| byte == b'/')?;
    let dash = rest.iter().position(|&byte| byte == b'-')?;
    if dash > slash || dash == 0 || dash + 1 == slash || slash + 1 == rest.len() {
        return None;
    }
    let first = number(&rest[..dash])?;
    let last = number(&rest[dash + 1..slash])?;
    let whole = number(&rest[slash + 1..])?;
    let is_valid = first <= last && last < whole;
    is_valid.then_some((
        Range {
            start: first,
            end: last + 1,
        },
        whole,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(line: &str, whole: u64) -> Option<Vec<(u64, u64)>> {
        match Requested::parse(line.as_bytes())?.answer(whole) {
            Answer::Parts(parts) => Some(parts.iter().map(|part| (part.start, part.end)).collect()),
            Answer::Unsatisfiable => Some(vec![]),
        }
    }

    #[test]
    fn the_three_forms_are_resolved() {
        assert_eq!(answer("bytes=0-1", 10), Some(vec![(0, 2)]));
        assert_eq!(answer("bytes=4-", 10), Some(vec![(4, 10)]));
        assert_eq!(answer("bytes=-3", 10), Some(vec![(7, 10)]));
        assert_eq!(answer("bytes=-30", 10), Some(vec![(0, 10)]));
        assert_eq!(
            answer("bytes=8-99999999999999999999999", 10),
            Some(vec![(8, 10)])
        );
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable() {
        assert_eq!(answer("bytes=10-", 10), Some(vec![]));
        assert_eq!(answer("bytes=-0", 10), Some(vec![]));
        assert_eq!(answer("bytes=0-", 0), Some(vec![]));
        assert_eq!(answer("bytes=20-30, 1-2", 10), Some(vec![(1, 3)]));
    }

    #[test]
    fn malformed_ranges_are_ignored() {
        for line in [
            "bytes=",
            "bytes=-",
            "bytes=2-1",
            "bytes=a-b",
            "lines=0-1",
            "bytes",
            "bytes=1",
            "bytes=1-2-3",
        ] {
            assert_eq!(answer(line, 10), None, "{line}");
        }
        let many = vec!["0-0"; RANGES_MAX + 1].join(",");
        assert_eq!(answer(&format!("bytes={many}"), 10), None);
    }

    #[test]
    fn overlapping_ranges_are_joined() {
        assert_eq!(answer("bytes=0-3, 6-7, 2-5", 10), Some(vec![(0, 8)]));
        assert_eq!(answer("bytes=6-7, 0-1", 10), Some(vec![(6, 8), (0, 2)]));
    }

    #[test]
    fn a_content_range_is_read() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(
                "content-range",
                HeaderValue::from_str(text).expect("the input is valid"),
            );
            content_range(&headers).map(|(part, whole)| (part.start, part.end, whole))
        };
        assert_eq!(read("bytes 4-9/10"), Some((4, 10, 10)));
        for text in [
            "bytes */10",
            "bytes 4-9/*",
            "bytes 9-4/10",
            "bytes 4-10/10",
            "bytes 4-/10",
            "4-9/10",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_those_of_a_naive_model(
            specs in proptest::collection::vec((0_u64..40, 0_u64..40, 0..3), 1..RANGES_MAX),
            whole in 0_u64..40,
        ) {
            let mut wanted = vec![false; 100];
            let text: Vec<String> = specs.iter().map(|&(a, b, form)| {
                let (first, last) = (a.min(b), a.max(b));
                let (start, end) = match form {
                    0 => (first, last + 1),
                    1 => (first, whole),
                    _ => (whole.saturating_sub(first), whole),
                };
                for at in start..end.min(whole) { wanted[at as usize] = true; }
                match form {
                    0 => format!("{first}-{last}"),
                    1 => format!("{first}-"),
                    _ => format!("-{first}"),
                }
            }).collect();
            let parts = answer(&format!("bytes={}", text.join(",")), whole).expect("the input is valid");
            let mut seen = vec![false; 100];
            for (start, end) in parts {
                for at in start..end {
                    prop_assert!(!seen[at as usize], "byte {} is twice in the answer", at);
                    seen[at as usize] = true;
                }
            }
            prop_assert_eq!(seen, wanted);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Requested::parse(&line);
        }
    }
}
