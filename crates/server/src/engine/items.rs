//! memcached's verbs on an engine, and the decisions that are the same on both.
//!
//! Requests that take two verbs (`gat`, and T of `mg` and `ma`, which read or count and then touch) are
//! one step on the slab engine alone; if the new deadline finds no room, the old one stays. Functions of
//! the stored item decide what happens ([`judge`], [`counted`], [`Removing::judge`]), so that an engine
//! may call them again when another client was faster.

use super::Strings;
use crate::command::lifetime::Fate;
use store::{ItemHead, Key, Tick, WrongType};
use wire::memcached::Mode;

/// What holds the items.
pub(crate) trait Items: Strings {
    /// Reads an item, which counts as a use. `tell` appends what stands before the value, and tells the head
    /// as it shall be from now on; it may be asked more than once, and what it appended before is taken back.
    ///
    /// # Errors
    /// The key holds another type.
    fn read(
        &mut self,
        key: &Key<'_>,
        asks: Asks,
        out: &mut Vec<u8>,
        tell: impl FnMut(&mut Vec<u8>, &Seen) -> ItemHead,
    ) -> Result<bool, WrongType>;

    /// Stores under a condition.
    fn store(&mut self, key: &Key<'_>, what: &Storing<'_>) -> Stored;

    /// Counts up or down from the number that a key holds. Up, it wraps at 2^64; down, it stops at 0.
    /// (memcached counts in place and may leave blanks behind a number that became shorter.)
    ///
    /// # Errors
    /// What stands in the way.
    fn count(&mut self, key: &Key<'_>, how: &Counting) -> Result<(u64, Seen), NoCount>;

    /// Deletes under a condition, or makes out of date.
    fn remove_if(&mut self, key: &Key<'_>, how: &Removing) -> Removed;

    /// Gives a live key another lifetime.
    fn touch(&mut self, key: &Key<'_>, fate: Fate) -> Touched;

    /// Marks an item as asked for.
    fn mark_fetched(&mut self, key: &Key<'_>);

    /// What is known of an item, for people: and how many bytes it takes.
    fn describe(&mut self, key: &Key<'_>) -> Option<(Seen, usize)>;
}

/// What a reader wants besides an item's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asks {
    pub value: bool,
    pub deadline: bool,
    pub idle: bool,
}

/// An item that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub head: ItemHead,
    /// Bytes of the value.
    pub len: usize,
    /// When it is dead, where that was asked for.
    pub deadline: Option<Tick>,
    /// Since when it was not asked for, where that was asked for and is kept.
    pub idle_ms: Option<u64>,
}

impl Seen {
    /// Seconds that it has left, the begun one included; `None`: it stays.
    pub fn seconds_left(&self, now: Tick) -> Option<u64> {
        seconds_until(self.deadline, now)
    }
}

/// Seconds until a deadline, the begun one included; `None`: it stays.
pub(crate) fn seconds_until(deadline: Option<Tick>, now: Tick) -> Option<u64> {
    Some(deadline?.0.saturating_sub(now.0).div_ceil(1000))
}

/// What to store, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storing<'a> {
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
    /// It is made for a miss, and its asker wins the right to fetch it.
    pub has_winner: bool,
}

impl Storing<'_> {
    /// Whether it replaces whatever is there.
    pub fn is_plain(&self) -> bool {
        self.mode == Mode::Plain && self.cas.is_none()
    }

    pub fn is_joining(&self) -> bool {
        matches!(self.mode, Mode::Append | Mode::Prepend)
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is there, under this cas number, and until then.
    Yes(u64, Option<Tick>),
    /// The condition did not hold.
    No,
    /// Another cas number is there.
    Exists,
    /// Nothing is there that the cas number could be compared with.
    NotFound,
    /// There is no room.
    Full,
    /// There never is so much room in one piece.
    TooLarge,
    /// What is there has another type.
    WrongType,
}

/// What a storage command does, by what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Refuse(Stored),
    /// The value replaces what is there.
    Write,
    /// The same, but it is out of date already; what was there is this.
    WriteStale(ItemHead),
    /// The value joins what is there, whose flags and deadline stay.
    Join(ItemHead),
}

/// What a storage command does with this item there.
pub(crate) fn judge(what: &Storing<'_>, old: Option<ItemHead>) -> Verdict {
    // An add does not look at the number; with nothing there, only a set or a replace misses it.
    match (old, what.cas) {
        _ if what.mode == Mode::Add => {}
        (None, Some(_)) if !what.is_joining() => return Verdict::Refuse(Stored::NotFound),
        (Some(old), Some(cas)) if cas != old.cas => {
            if what.is_joining() || !what.may_be_stale || cas > old.cas {
                return Verdict::Refuse(Stored::Exists);
            }
            return Verdict::WriteStale(old);
        }
        _ => {}
    }
    match (what.mode, old) {
        (Mode::Add, Some(_)) | (Mode::Replace, None) => Verdict::Refuse(Stored::No),
        (Mode::Append | Mode::Prepend, None) if !what.vivifies => Verdict::Refuse(Stored::No),
        (Mode::Append | Mode::Prepend, Some(old)) => Verdict::Join(old),
        _ => Verdict::Write,
    }
}

/// How to count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    pub delta: u64,
    pub is_down: bool,
    /// As in [`Storing`].
    pub cas: Option<u64>,
    /// As in [`Storing`].
    pub new_cas: Option<u64>,
    /// The deadline is to be told.
    pub asks_deadline: bool,
}

impl Counting {
    /// The number that follows another.
    pub fn after(&self, number: u64) -> u64 {
        match self.is_down {
            true => number.saturating_sub(self.delta),
            false => number.wrapping_add(self.delta),
        }
    }
}

/// What stands in the way of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCount {
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

/// The number that comes of this item.
pub(crate) fn counted(
    how: &Counting,
    found: Option<(ItemHead, &[u8])>,
) -> Result<(u64, ItemHead), NoCount> {
    let (head, old) = found.ok_or(NoCount::NotFound)?;
    if old.is_empty() {
        return Err(NoCount::NoNumber);
    }
    if how.cas.is_some_and(|cas| cas != head.cas) {
        return Err(NoCount::Exists);
    }
    let number = number_of(old).ok_or(NoCount::NoNumber)?;
    Ok((how.after(number), head))
}

/// The number at the front of a value: blanks, a plus, and digits up to its end or to a blank.
pub(crate) fn number_of(text: &[u8]) -> Option<u64> {
    // As C counts them: with the vertical tab.
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let begin = text.iter().position(|byte| !is_blank(byte))?;
    let text = &text[begin..];
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let len = text.iter().take_while(|byte| is_digit(byte)).count();
    if text.get(len).is_some_and(|byte| !is_blank(byte)) {
        return None;
    }
    std::str::from_utf8(&text[..len]).ok()?.parse().ok()
}

/// How to delete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removing {
    /// The cas number that has to be there.
    pub cas: Option<u64>,
    /// It stays, as out of date.
    pub makes_stale: bool,
    /// It stays, without its value and flags.
    pub drops_value: bool,
    /// As in [`Storing`], where it stays.
    pub new_cas: Option<u64>,
    /// Its lifetime, where it stays and that changes.
    pub fate: Option<Fate>,
}

impl Removing {
    /// Whether the item stays in some form.
    pub fn keeps(&self) -> bool {
        self.makes_stale || self.drops_value
    }

    /// The head of what stays, but for its cas number.
    pub fn left(&self, head: ItemHead) -> ItemHead {
        ItemHead {
            client_flags: if self.drops_value {
                0
            } else {
                head.client_flags
            },
            is_stale: head.is_stale || self.makes_stale,
            // The next to ask wins.
            has_winner: head.has_winner && !self.makes_stale,
            ..head
        }
    }

    /// Why it is not removed, if it is not.
    pub fn judge(&self, old: Option<ItemHead>) -> Option<Removed> {
        match old {
            None => Some(Removed::NotFound),
            Some(old) if self.cas.is_some_and(|cas| cas != old.cas) => Some(Removed::Exists),
            Some(_) => None,
        }
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Yes,
    /// Nothing is there.
    NotFound,
    /// Another cas number is there.
    Exists,
    /// There is no room for what would stay.
    Full,
    /// What is there has another type.
    WrongType,
}

/// What became of a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// It lives until then, which may be earlier than was asked for.
    Yes(Option<Tick>),
    /// Nothing is there.
    NotFound,
    /// There is no room for it where such lifetimes are.
    Full,
}
