//! Parsers of arguments that several commands on streams have.

use engine::refusal::Refusal;
use store::stream::{References, StreamId};
use wire::Args;
use wire::number::{parse_i64, parse_u64};

pub(super) const INVALID_ID: Refusal =
    Refusal::Message("ERR Invalid stream ID specified as stream command argument");

/// Parses an integer argument.
pub(super) fn integer(text: &[u8]) -> Result<i64, Refusal> {
    parse_i64(text).ok_or(Refusal::NotInteger)
}

/// Parses the argument of COUNT. A negative number counts as 0.
pub(super) fn count(text: &[u8]) -> Result<usize, Refusal> {
    Ok(usize::try_from(integer(text)?.max(0)).unwrap_or(usize::MAX))
}

/// Parses an ID. The sequence number `seq` is used if the argument has none.
pub(super) fn id(text: &[u8], seq: u64) -> Result<StreamId, Refusal> {
    let mut parts = text.splitn(2, |byte| *byte == b'-');
    let ms = parts.next().and_then(parse_u64).ok_or(INVALID_ID)?;
    let seq = match parts.next() {
        Some(text) => parse_u64(text).ok_or(INVALID_ID)?,
        None => seq,
    };
    Ok(StreamId { ms, seq })
}

/// Parses an ID without sequence number, or with one.
pub(super) fn plain_id(text: &[u8]) -> Result<StreamId, Refusal> {
    id(text, 0)
}

/// Parses IDs.
pub(super) fn ids(args: Args<'_>) -> Result<Vec<StreamId>, Refusal> {
    args.iter().map(plain_id).collect()
}

/// Parses an ID, or `-` or `+` for the smallest or the largest one.
pub(super) fn id_or_end(text: &[u8], seq: u64) -> Result<StreamId, Refusal> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => id(text, seq),
    }
}

/// Parses the start of an interval: an ID, `-`, `+`, or an excluded ID after `(`.
pub(super) fn start(text: &[u8]) -> Result<StreamId, Refusal> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => id(rest, 0)?
            .next()
            .ok_or(Refusal::Message("ERR invalid start ID for the interval")),
        _ => id_or_end(text, 0),
    }
}

/// Parses the end of an interval, like [`start`].
pub(super) fn end(text: &[u8]) -> Result<StreamId, Refusal> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => id(rest, u64::MAX)?
            .previous()
            .ok_or(Refusal::Message("ERR invalid end ID for the interval")),
        _ => id_or_end(text, u64::MAX),
    }
}

/// Parses KEEPREF, DELREF or ACKED.
pub(super) fn references(word: &[u8]) -> Option<References> {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    match word {
        _ if is("KEEPREF") => Some(References::Keep),
        _ if is("DELREF") => Some(References::Delete),
        _ if is("ACKED") => Some(References::Acknowledged),
        _ => None,
    }
}

/// Arguments of XDELEX and XACKDEL: the treatment of references, and IDs.
pub(super) struct CountedIds<'a> {
    pub references: References,
    /// Texts of the IDs, which are parsed when the key is known to exist.
    pub ids: Args<'a>,
    pub count: usize,
}

impl<'a> CountedIds<'a> {
    /// Parses `[KEEPREF | DELREF | ACKED] IDS count id …` in any order.
    pub fn parse(args: Args<'a>) -> Result<CountedIds<'a>, Refusal> {
        let (mut chosen, mut found) = (None, None);
        let mut index = 0;
        while let Some(word) = args.get(index) {
            if let Some(references) = references(word).filter(|_| chosen.is_none()) {
                chosen = Some(references);
                index += 1;
            } else if word.eq_ignore_ascii_case(b"IDS") && index + 1 < args.len() {
                let count = parse_i64(&args[index + 1]).filter(|count| *count > 0);
                let count = count.ok_or(Refusal::Message(
                    "ERR Number of IDs must be a positive integer",
                ))?;
                let left = args.len() - index - 2;
                let count = usize::try_from(count).ok().filter(|count| *count <= left);
                let count = count.ok_or(Refusal::Message(
                    "ERR The `numids` parameter must match the number of arguments",
                ))?;
                found = Some((args.from(index + 2), count));
                index += 2 + count;
            } else {
                return Err(Refusal::Syntax);
            }
        }
        let (ids, count) = found.ok_or(Refusal::Message("ERR IDS option is required"))?;
        Ok(CountedIds {
            references: chosen.unwrap_or_default(),
            ids,
            count,
        })
    }

    /// Parses the IDs.
    pub fn ids(&self) -> Result<Vec<StreamId>, Refusal> {
        self.ids.iter().take(self.count).map(plain_id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_at_the_extremes_are_parsed_and_nonsense_is_refused() {
        let max = b"18446744073709551615-18446744073709551615";
        assert_eq!(plain_id(max), Ok(StreamId::MAX));
        assert_eq!(id(b"5", 7), Ok(StreamId::new(5, 7)));
        assert_eq!(end(b"5"), Ok(StreamId::new(5, u64::MAX)));
        assert_eq!(start(b"(5-7"), Ok(StreamId::new(5, 8)));
        assert!(start(b"(18446744073709551615-18446744073709551615").is_err());
        assert!(end(b"(0-0").is_err());
        for text in [
            "",
            "-",
            "+",
            "x",
            "1-",
            "-1",
            "1-2-3",
            "18446744073709551616",
            " 1",
        ] {
            assert_eq!(plain_id(text.as_bytes()), Err(INVALID_ID), "{text}");
        }
    }
}
