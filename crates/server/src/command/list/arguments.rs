//! Parsers of arguments that several commands on lists have.

use engine::refusal::Refusal;
use store::End;
use wire::number::parse_i64;

/// Parses an integer argument.
pub(super) fn integer(text: &[u8]) -> Result<i64, Refusal> {
    parse_i64(text).ok_or(Refusal::NotInteger)
}

/// Parses the argument LEFT or RIGHT.
pub(super) fn end(word: &[u8]) -> Result<End, Refusal> {
    if word.eq_ignore_ascii_case(b"LEFT") {
        Ok(End::Left)
    } else if word.eq_ignore_ascii_case(b"RIGHT") {
        Ok(End::Right)
    } else {
        Err(Refusal::Syntax)
    }
}

/// Resolves an index, which counts from the end if negative, in a list of `len` elements.
pub(super) fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// Resolves an inclusive range in a list of `len` elements to its start and its number of elements.
pub(super) fn range(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_start = |index: i64| {
        if index < 0 {
            (index + len).max(0)
        } else {
            index
        }
    };
    let start = from_start(start);
    let end = if end < 0 { end + len } else { end.min(len - 1) };
    if start > end || start >= len {
        return (0, 0);
    }
    (start as usize, (end - start + 1) as usize)
}

/// Returns the event of a push at an end.
pub(super) fn push_event(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}
