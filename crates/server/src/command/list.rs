//! Lists: each command's place in the table, and what their arguments have in common. The code is in
//! the files below, by what it does.

mod block;
mod pop;
mod read;
mod write;

use super::refusal::{Refusal, settle};
use super::{Keys, Spec, flag};
use store::End;
use wire::number::parse_i64;

/// An integer among the arguments.
fn integer(text: &[u8]) -> Result<i64, Refusal> {
    parse_i64(text).ok_or(Refusal::NotInteger)
}

/// An end among the arguments.
fn end(word: &[u8]) -> Result<End, Refusal> {
    if word.eq_ignore_ascii_case(b"LEFT") {
        Ok(End::Left)
    } else if word.eq_ignore_ascii_case(b"RIGHT") {
        Ok(End::Right)
    } else {
        Err(Refusal::Syntax)
    }
}

/// An index that may count from the end, in a list of so many elements.
fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// A range as arguments give it, both ends included, in a list of so many elements: its start and how
/// many it has.
fn range(start: i64, end: i64, len: usize) -> (usize, usize) {
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
fn push_event(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}

/// This family's commands.
pub const TABLE: &[Spec] = &[
    Spec {
        name: "blmove",
        arity: 6,
        flags: flag::WRITE | flag::DENYOOM | flag::NOSCRIPT | flag::BLOCKING,
        keys: Keys::Range(1, 2, 1),
        group: "list",
        since: "6.2.0",
        summary: "Moves an element from an end of one list to an end of another. Blocks until there is one.",
        run: |ctx, args| settle(ctx, args, block::blmove),
    },
    Spec {
        name: "blmpop",
        arity: -5,
        flags: flag::WRITE | flag::BLOCKING | flag::MOVABLE_KEYS,
        keys: Keys::Counted(2),
        group: "list",
        since: "7.0.0",
        summary: "Removes and returns elements from the first non-empty list. Blocks until there is one.",
        run: |ctx, args| settle(ctx, args, block::blmpop),
    },
    Spec {
        name: "blpop",
        arity: -3,
        flags: flag::WRITE | flag::NOSCRIPT | flag::BLOCKING,
        keys: Keys::Range(1, -2, 1),
        group: "list",
        since: "2.0.0",
        summary: "Removes and returns the first element of the first non-empty list. Blocks until there is one.",
        run: |ctx, args| settle(ctx, args, block::blpop),
    },
    Spec {
        name: "brpop",
        arity: -3,
        flags: flag::WRITE | flag::NOSCRIPT | flag::BLOCKING,
        keys: Keys::Range(1, -2, 1),
        group: "list",
        since: "2.0.0",
        summary: "Removes and returns the last element of the first non-empty list. Blocks until there is one.",
        run: |ctx, args| settle(ctx, args, block::brpop),
    },
    Spec {
        name: "brpoplpush",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::NOSCRIPT | flag::BLOCKING,
        keys: Keys::Range(1, 2, 1),
        group: "list",
        since: "2.2.0",
        summary: "Moves the last element of a list to the front of another. Blocks until there is one.",
        run: |ctx, args| settle(ctx, args, block::brpoplpush),
    },
    Spec {
        name: "lindex",
        arity: 3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Returns an element by its index.",
        run: |ctx, args| settle(ctx, args, read::lindex),
    },
    Spec {
        name: "linsert",
        arity: 5,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "2.2.0",
        summary: "Inserts an element before or after the first element equal to a given one.",
        run: |ctx, args| settle(ctx, args, write::linsert),
    },
    Spec {
        name: "llen",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Returns the number of elements of a list.",
        run: |ctx, args| settle(ctx, args, read::llen),
    },
    Spec {
        name: "lmove",
        arity: 5,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, 2, 1),
        group: "list",
        since: "6.2.0",
        summary: "Moves an element from an end of one list to an end of another and returns it.",
        run: |ctx, args| settle(ctx, args, pop::lmove),
    },
    Spec {
        name: "lmpop",
        arity: -4,
        flags: flag::WRITE | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "list",
        since: "7.0.0",
        summary: "Removes and returns elements from the first non-empty list.",
        run: |ctx, args| settle(ctx, args, pop::lmpop),
    },
    Spec {
        name: "lpop",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Removes and returns the first elements of a list. Deletes the key when no element remains.",
        run: |ctx, args| settle(ctx, args, pop::lpop),
    },
    Spec {
        name: "lpos",
        arity: -3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "6.0.6",
        summary: "Returns the indexes of elements equal to a value.",
        run: |ctx, args| settle(ctx, args, read::lpos),
    },
    Spec {
        name: "lpush",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Inserts elements at the front of a list. Creates the list if needed.",
        run: |ctx, args| settle(ctx, args, write::lpush),
    },
    Spec {
        name: "lpushx",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "2.2.0",
        summary: "Inserts elements at the front of a list only if the list exists.",
        run: |ctx, args| settle(ctx, args, write::lpushx),
    },
    Spec {
        name: "lrange",
        arity: 4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Returns a range of elements.",
        run: |ctx, args| settle(ctx, args, read::lrange),
    },
    Spec {
        name: "lrem",
        arity: 4,
        flags: flag::WRITE,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Removes elements equal to a value.",
        run: |ctx, args| settle(ctx, args, write::lrem),
    },
    Spec {
        name: "lset",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Replaces an element by its index.",
        run: |ctx, args| settle(ctx, args, write::lset),
    },
    Spec {
        name: "ltrim",
        arity: 4,
        flags: flag::WRITE,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Removes all elements outside a range.",
        run: |ctx, args| settle(ctx, args, write::ltrim),
    },
    Spec {
        name: "rpop",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Removes and returns the last elements of a list. Deletes the key when no element remains.",
        run: |ctx, args| settle(ctx, args, pop::rpop),
    },
    Spec {
        name: "rpoplpush",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, 2, 1),
        group: "list",
        since: "1.2.0",
        summary: "Moves the last element of a list to the front of another and returns it.",
        run: |ctx, args| settle(ctx, args, pop::rpoplpush),
    },
    Spec {
        name: "rpush",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "1.0.0",
        summary: "Appends elements to a list. Creates the list if needed.",
        run: |ctx, args| settle(ctx, args, write::rpush),
    },
    Spec {
        name: "rpushx",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "list",
        since: "2.2.0",
        summary: "Appends elements to a list only if the list exists.",
        run: |ctx, args| settle(ctx, args, write::rpushx),
    },
];
