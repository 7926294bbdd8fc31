//! Operations of memcached's protocol on an engine, and the decisions that both engines share.
//!
//! Some requests take two operations: `gat`, and `mg` and `ma` with flag T, which read or count and
//! then set the TTL. They are atomic only on the slab engine. If there is no room for the new
//! deadline, the old one stays.
//!
//! What a request does is decided by functions of the stored item (`store_action`, `counted`,
//! `RemoveRequest::refusal`), so that an engine can call them again after another client has
//! changed the item.

use super::Strings;
use crate::lifetime::DeadlineChange;
use store::{ItemHead, Key, NewDeadline, Tick, WrongType};
use wire::Output;
use wire::memcached::Mode;

/// Operations of memcached's protocol.
pub trait Items: Strings {
    /// Reads an item and counts an access. `write_head` appends the part of the reply before the
    /// value and returns the item's new head. It may be called again; the bytes that it appended
    /// before have then been removed.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    fn read(
        &mut self,
        key: &Key<'_>,
        fields: ReadFields,
        out: &mut Output,
        write_head: impl FnMut(&mut Output, &ItemFacts) -> ItemHead,
    ) -> Result<bool, WrongType>;

    /// Stores a value under a condition.
    fn store(&mut self, key: &Key<'_>, request: &StoreRequest<'_>) -> StoreOutcome;

    /// Adds to or subtracts from the number that a key holds. Addition wraps at 2^64; subtraction
    /// stops at 0. Unlike memcached, which counts in place, it leaves no trailing blanks when a
    /// number becomes shorter.
    ///
    /// # Errors
    ///
    /// See [`CountError`].
    fn count(
        &mut self,
        key: &Key<'_>,
        request: &CountRequest,
    ) -> Result<(u64, ItemFacts), CountError>;

    /// Deletes an item or marks it as stale, under a condition.
    fn remove_if(&mut self, key: &Key<'_>, request: &RemoveRequest) -> RemoveOutcome;

    /// Changes the deadline of an item.
    fn touch(&mut self, key: &Key<'_>, expiration: DeadlineChange) -> TouchOutcome;

    /// Marks an item as fetched.
    fn mark_fetched(&mut self, key: &Key<'_>);

    /// Returns the facts of an item and its size in bytes.
    fn describe(&mut self, key: &Key<'_>) -> Option<(ItemFacts, usize)>;
}

/// Fields that the reply to a read needs in addition to the item's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFields {
    /// Whether the value is returned.
    pub value: bool,
    /// Maximum length in bytes of a returned value. A longer one is treated as a value of another
    /// type.
    pub value_bytes_max: usize,
    /// Whether the deadline is returned.
    pub deadline: bool,
    /// Whether the time since the last access is returned.
    pub idle: bool,
    /// Whether the read does not count as an access.
    pub is_peek: bool,
}

/// An existing item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFacts {
    /// Client flags, CAS number and stale mark.
    pub head: ItemHead,
    /// Length of the value in bytes.
    pub len: usize,
    /// New deadline, if one was requested.
    pub deadline: Option<Tick>,
    /// Time since the last access in milliseconds, if it was requested and is known.
    pub idle_ms: Option<u64>,
}

impl ItemFacts {
    /// Remaining TTL in seconds, rounded up; `None` without a deadline.
    pub fn seconds_left(&self, now: Tick) -> Option<u64> {
        seconds_until(self.deadline, now)
    }
}

/// Time until a deadline in seconds, rounded up; `None` without a deadline.
pub fn seconds_until(deadline: Option<Tick>, now: Tick) -> Option<u64> {
    Some(deadline?.0.saturating_sub(now.0).div_ceil(1000))
}

/// Request to store a value.
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest<'a> {
    /// Condition for storing, and how the value combines with an existing one.
    pub mode: Mode,
    /// The value.
    pub value: &'a [u8],
    /// Number that clients store with the item.
    pub client_flags: u32,
    /// The new deadline.
    pub expiration: DeadlineChange,
    /// CAS number that the item must have.
    pub cas: Option<u64>,
    /// CAS number for the item; `None` for the next one.
    pub new_cas: Option<u64>,
    /// Whether a CAS number lower than the item's stores the value as stale (flag I).
    pub may_be_stale: bool,
    /// Maximum length in bytes of the value that `append` and `prepend` may create.
    pub value_bytes_max: usize,
    /// Whether `append` and `prepend` create the item if it is missing (autovivification).
    pub vivifies: bool,
    /// Whether the item is created because of a miss, which gives the requesting client the right
    /// to store the value.
    pub has_winner: bool,
    /// Whether the item counts as read.
    pub is_fetched: bool,
}

impl<'a> StoreRequest<'a> {
    /// Returns the request to store a value unconditionally, without flags or a deadline.
    pub fn plain(value: &'a [u8]) -> Self {
        StoreRequest {
            mode: Mode::Plain,
            value,
            client_flags: 0,
            expiration: DeadlineChange::To(NewDeadline::Clear),
            cas: None,
            new_cas: None,
            may_be_stale: false,
            value_bytes_max: usize::MAX,
            vivifies: false,
            has_winner: false,
            is_fetched: false,
        }
    }

    /// Whether the request stores the value unconditionally and replaces any existing item.
    pub fn is_plain(&self) -> bool {
        self.mode == Mode::Plain && self.cas.is_none()
    }

    /// Whether the value is joined to the existing one.
    pub fn is_joining(&self) -> bool {
        matches!(self.mode, Mode::Append | Mode::Prepend)
    }
}

/// A stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// CAS number of the item.
    pub cas: u64,
    /// Deadline of the item.
    pub deadline: Option<Tick>,
    /// Length of the whole value in bytes.
    pub len: usize,
}

/// Result of a store request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The value was stored.
    Yes(Stored),
    /// The condition did not hold.
    No,
    /// The item has another CAS number.
    Exists,
    /// There is no item to compare the CAS number with.
    NotFound,
    /// There is no room.
    Full,
    /// The value exceeds the maximum size.
    TooLarge,
    /// The key holds another type.
    WrongType,
}

/// Action of a storage command, given the existing item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAction {
    /// Nothing is stored.
    Refuse(StoreOutcome),
    /// The value replaces the item.
    Write,
    /// The value replaces this item and is stale.
    WriteStale(ItemHead),
    /// The value is appended or prepended to this item's value. Flags and deadline stay the same.
    Join(ItemHead),
}

/// Returns the action of a storage command, given the existing item.
pub fn store_action(request: &StoreRequest<'_>, old: Option<ItemHead>) -> StoreAction {
    // `add` ignores the cas number. Without an item, only `set` and `replace` fail because of it.
    match (old, request.cas) {
        _ if request.mode == Mode::Add => {}
        (None, Some(_)) if !request.is_joining() => {
            return StoreAction::Refuse(StoreOutcome::NotFound);
        }
        (Some(old), Some(cas)) if cas != old.cas => {
            if request.is_joining() || !request.may_be_stale || cas > old.cas {
                return StoreAction::Refuse(StoreOutcome::Exists);
            }
            return StoreAction::WriteStale(old);
        }
        _ => {}
    }
    match (request.mode, old) {
        (Mode::Add, Some(_)) | (Mode::Replace, None) => StoreAction::Refuse(StoreOutcome::No),
        (Mode::Append | Mode::Prepend, None) if !request.vivifies => {
            StoreAction::Refuse(StoreOutcome::No)
        }
        (Mode::Append | Mode::Prepend, Some(old)) => StoreAction::Join(old),
        _ => StoreAction::Write,
    }
}

/// Request to add to or subtract from a number.
#[derive(Clone, Copy, Debug)]
pub struct CountRequest {
    /// The number to add or subtract.
    pub delta: u64,
    /// Whether to subtract instead of adding.
    pub is_down: bool,
    /// CAS number that the item must have.
    pub cas: Option<u64>,
    /// CAS number for the item; `None` for the next one.
    pub new_cas: Option<u64>,
    /// Whether the reply needs the deadline.
    pub asks_deadline: bool,
}

impl CountRequest {
    /// Returns the result of applying the request to `number`.
    pub fn after(&self, number: u64) -> u64 {
        match self.is_down {
            true => number.saturating_sub(self.delta),
            false => number.wrapping_add(self.delta),
        }
    }
}

/// Reason why a number was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountError {
    /// There is no item.
    NotFound,
    /// The value is not a number.
    NoNumber,
    /// The item has another CAS number.
    Exists,
    /// There is no room.
    Full,
    /// The key holds another type.
    WrongType,
}

impl From<WrongType> for CountError {
    fn from(_: WrongType) -> CountError {
        CountError::WrongType
    }
}

/// Returns the new number of an item, and the item's head.
pub fn counted(
    request: &CountRequest,
    found: Option<(ItemHead, &[u8])>,
) -> Result<(u64, ItemHead), CountError> {
    let (head, old) = found.ok_or(CountError::NotFound)?;
    if old.is_empty() {
        return Err(CountError::NoNumber);
    }
    if request.cas.is_some_and(|cas| cas != head.cas) {
        return Err(CountError::Exists);
    }
    let number = number_of(old).ok_or(CountError::NoNumber)?;
    Ok((request.after(number), head))
}

/// Parses the number at the front of a value: blanks, a plus sign, and digits up to the end or a
/// blank.
pub fn number_of(text: &[u8]) -> Option<u64> {
    // Blanks as in C, with the vertical tab.
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

/// Request to delete an item.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoveRequest {
    /// CAS number that the item must have.
    pub cas: Option<u64>,
    /// Whether the item is kept but marked as stale.
    pub makes_stale: bool,
    /// Whether the item is kept without its value and flags.
    pub drops_value: bool,
    /// CAS number of an item that is kept; `None` for the next one.
    pub new_cas: Option<u64>,
    /// New deadline of an item that is kept, if it changes.
    pub expiration: Option<DeadlineChange>,
}

impl RemoveRequest {
    /// Whether the request keeps the item, as stale or without its value.
    pub fn keeps(&self) -> bool {
        self.makes_stale || self.drops_value
    }

    /// Returns the head of an item that the request keeps. The caller sets the CAS number.
    pub fn left(&self, head: ItemHead) -> ItemHead {
        ItemHead {
            client_flags: if self.drops_value {
                0
            } else {
                head.client_flags
            },
            is_stale: head.is_stale || self.makes_stale,
            // The next client that reads it wins.
            has_winner: head.has_winner && !self.makes_stale,
            ..head
        }
    }

    /// Returns why the item may not be removed, or `None` if it may.
    pub fn refusal(&self, old: Option<ItemHead>) -> Option<RemoveOutcome> {
        match old {
            None => Some(RemoveOutcome::NotFound),
            Some(old) if self.cas.is_some_and(|cas| cas != old.cas) => Some(RemoveOutcome::Exists),
            Some(_) => None,
        }
    }
}

/// Result of a delete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveOutcome {
    /// The item was removed.
    Yes,
    /// There is no item.
    NotFound,
    /// The item has another CAS number.
    Exists,
    /// There is no room for the item that the request keeps.
    Full,
    /// The key holds another type.
    WrongType,
}

/// Result of a change of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchOutcome {
    /// The item now has this deadline, which may be earlier than requested.
    Yes(Option<Tick>),
    /// There is no item.
    NotFound,
    /// The segments have no room for objects with such deadlines.
    Full,
}
