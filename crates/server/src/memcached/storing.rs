//! What both languages do to items: store under a condition, count, delete, touch.

use super::{Fate, Turn};
use store::{Class, ItemHead, Key, NewDeadline, WrongType};
use wire::memcached::Mode;

/// What to store, and when.
pub(super) struct Storing<'a> {
    pub mode: Mode,
    pub value: &'a [u8],
    pub client_flags: u32,
    pub fate: Fate,
    /// The cas number that has to be there.
    pub cas: Option<u64>,
    /// The cas number that shall be there; else the next one.
    pub new_cas: Option<u64>,
    /// A cas number older than what is there stores, too, but as out of date (`I`).
    pub may_be_stale: bool,
    /// `append` and `prepend` make what is not there.
    pub vivifies: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is there, under this cas number.
    Yes(u64),
    /// The condition did not hold.
    No,
    /// Another cas number is there.
    Exists,
    /// Nothing is there that the cas number could be compared with.
    NotFound,
    /// There is no room.
    Full,
    /// What is there has another type.
    WrongType,
}

/// What stands in the way of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCount {
    /// Nothing is there.
    NotFound,
    /// It is no number.
    NoNumber,
    /// Another cas number is there.
    Exists,
    /// There is no room.
    Full,
    /// What is there has another type.
    WrongType,
}

impl From<WrongType> for NoCount {
    fn from(_: WrongType) -> NoCount {
        NoCount::WrongType
    }
}

/// What the line for another type says, in both languages.
pub(super) const WRONG_TYPE: &str = "SERVER_ERROR the key holds another type than a string";
/// What the line for a full memory says.
pub(super) const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";

/// Stores under a condition.
pub(super) fn store(turn: &mut Turn<'_, '_>, key: &Key<'_>, what: &Storing<'_>) -> Stored {
    if turn.is_full() {
        // What could not be replaced is out of date.
        if what.mode == Mode::Plain && turn.view.delete(key) {
            turn.view.notify(Class::Generic, "del", key);
        }
        return Stored::Full;
    }
    if what.mode == Mode::Plain && what.cas.is_none() {
        // Whatever is there, it is replaced.
        return write(turn, key, what, None, None);
    }
    let is_joining = matches!(what.mode, Mode::Append | Mode::Prepend);
    let Ok(found) = turn.view.peek_item(key) else {
        return match what.mode {
            Mode::Add => Stored::No,
            _ => Stored::WrongType,
        };
    };
    let (old, joined) = match found {
        Some((head, old)) => {
            let joined = match what.mode {
                Mode::Append => Some([old, what.value].concat()),
                Mode::Prepend => Some([what.value, old].concat()),
                _ => None,
            };
            (Some(head), joined)
        }
        None => (None, None),
    };
    // An add does not look at the number; with nothing there, only a set or a replace misses it.
    match (old, what.cas) {
        _ if what.mode == Mode::Add => {}
        (None, Some(_)) if !is_joining => return Stored::NotFound,
        (Some(old), Some(cas)) if cas != old.cas => {
            if is_joining || !what.may_be_stale || cas > old.cas {
                return Stored::Exists;
            }
            return write(turn, key, what, None, Some(old));
        }
        _ => {}
    }
    match (what.mode, old) {
        (Mode::Add, Some(_)) => {
            // It counts as used, as in memcached.
            let _ = turn.view.item(key);
            Stored::No
        }
        (Mode::Replace, None) => Stored::No,
        (Mode::Append | Mode::Prepend, None) if !what.vivifies => Stored::No,
        (_, Some(old)) if is_joining => {
            let what = Storing {
                client_flags: old.client_flags,
                fate: Fate::Lives(NewDeadline::Keep),
                ..*what
            };
            write(turn, key, &what, joined, None)
        }
        _ => write(turn, key, what, None, None),
    }
}

/// Stores; `stale` is what was there if the new value is out of date already.
fn write(
    turn: &mut Turn<'_, '_>,
    key: &Key<'_>,
    what: &Storing<'_>,
    joined: Option<Vec<u8>>,
    stale: Option<ItemHead>,
) -> Stored {
    let cas = match what.new_cas {
        Some(cas) => cas,
        None => turn.view.next_cas(key),
    };
    let head = ItemHead {
        client_flags: what.client_flags,
        cas,
        is_stale: stale.is_some(),
        has_winner: stale.is_some_and(|old| old.has_winner),
        is_fetched: false,
    };
    let fate = if stale.is_some() {
        Fate::Lives(NewDeadline::Keep)
    } else {
        what.fate
    };
    put(
        turn,
        key,
        &head,
        joined.as_deref().unwrap_or(what.value),
        fate,
    );
    Stored::Yes(cas)
}

/// Writes an item and tells listeners; one whose time is past expires at once.
pub(super) fn put(
    turn: &mut Turn<'_, '_>,
    key: &Key<'_>,
    head: &ItemHead,
    value: &[u8],
    fate: Fate,
) {
    match fate {
        Fate::Lives(deadline) => {
            turn.view.put_item(key, head, value, deadline);
            turn.view.notify(Class::String, "set", key);
            if matches!(deadline, NewDeadline::At(_)) {
                turn.view.notify(Class::Generic, "expire", key);
            }
        }
        Fate::IsOver => {
            turn.view.put_item(key, head, value, NewDeadline::Clear);
            turn.view.notify(Class::String, "set", key);
            turn.view.notify(Class::Generic, "expire", key);
            turn.view.expire_now(key);
        }
    }
}

/// Gives a live key another lifetime; false when there is none.
pub(super) fn touch(turn: &mut Turn<'_, '_>, key: &Key<'_>, fate: Fate) -> bool {
    let is_there = match fate {
        Fate::Lives(deadline) => {
            let deadline = match deadline {
                NewDeadline::At(at) => Some(at),
                _ => None,
            };
            turn.view.set_deadline(key, deadline)
        }
        Fate::IsOver => turn.view.expire_now(key),
    };
    if is_there && !matches!(fate, Fate::IsOver) {
        turn.view.notify(Class::Generic, "expire", key);
    }
    is_there
}

/// Counts up or down from the number that a key holds. Up, it wraps at 2^64; down, it stops at 0.
/// (memcached counts in place and may leave blanks behind a number that became shorter.)
pub(super) fn count(
    turn: &mut Turn<'_, '_>,
    key: &Key<'_>,
    delta: u64,
    is_down: bool,
    cas: Option<u64>,
    new_cas: Option<u64>,
) -> Result<(u64, ItemHead), NoCount> {
    let found = turn.view.peek_item(key)?;
    let (head, old) = found.ok_or(NoCount::NotFound)?;
    if old.is_empty() {
        return Err(NoCount::NoNumber);
    }
    if cas.is_some_and(|cas| cas != head.cas) {
        return Err(NoCount::Exists);
    }
    let number = number_of(old).ok_or(NoCount::NoNumber)?;
    let number = match is_down {
        true => number.saturating_sub(delta),
        false => number.wrapping_add(delta),
    };
    if turn.is_full() {
        return Err(NoCount::Full);
    }
    let cas = match new_cas {
        Some(cas) => cas,
        None => turn.view.next_cas(key),
    };
    let head = ItemHead { cas, ..head };
    let text = number.to_string();
    turn.view
        .put_item(key, &head, text.as_bytes(), NewDeadline::Keep);
    let event = if is_down { "decrby" } else { "incrby" };
    turn.view.notify(Class::String, event, key);
    Ok((number, head))
}

/// The number at the front of a value: digits up to its end or to a blank.
fn number_of(text: &[u8]) -> Option<u64> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let len = text.iter().take_while(|byte| is_digit(byte)).count();
    if text
        .get(len)
        .is_some_and(|byte| !byte.is_ascii_whitespace())
    {
        return None;
    }
    std::str::from_utf8(&text[..len]).ok()?.parse().ok()
}
