//! Arguments that the commands of lists have in common.

use crate::command::refusal::Refusal;
use store::End;
use wire::number::parse_i64;

/// An integer among the arguments.
pub(super) fn integer(text: &[u8]) -> Result<i64, Refusal> {
    parse_i64(text).ok_or(Refusal::NotInteger)
}

/// An end among the arguments.
pub(super) fn end(word: &[u8]) -> Result<End, Refusal> {
    if word.eq_ignore_ascii_case(b"LEFT") {
        Ok(End::Left)
    } else if word.eq_ignore_ascii_case(b"RIGHT") {
        Ok(End::Right)
    } else {
        Err(Refusal::Syntax)
    }
}

/// An index that may count from the end, in a list of so many elements.
pub(super) fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// A range as arguments give it, both ends included, in a list of so many elements: its start and how
/// many it has.
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

/// What is told of a push at an end.
pub(super) fn push_event(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}
