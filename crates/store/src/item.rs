//! Items: strings as memcached's clients store them, with a head before the value.
//!
//! ```text
//! value of an item:  bits 1 │ cas 8 │ client's flags 0|4 │ the value itself
//! bits:              has flags 1 │ is stale 1 │ has a winner 1 │ is fetched 1
//! ```
//!
//! Redis's commands read the value and know nothing of the head; what they write is a plain string again.
//! A plain string has a head for memcached's clients, too: no flags, and for its cas number the hash of
//! its bytes, so that whatever changes them is noticed. It counts as asked for: there is no room to mark that.

use crate::keyspace::{Db, Keyspace};
use crate::object::{Object, TAG_ITEM};
use crate::view::{Key, NewDeadline, View, WrongType, string_of};
use cache::{NewValue, Value};

const HAS_FLAGS: u8 = 1;
const IS_STALE: u8 = 1 << 1;
const HAS_WINNER: u8 = 1 << 2;
const IS_FETCHED: u8 = 1 << 3;
/// Bits and cas number.
const SHORT_BYTES: usize = 1 + 8;
/// With the client's flags.
const LONG_BYTES: usize = SHORT_BYTES + 4;

/// What memcached's protocol knows of an item beside its value and its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHead {
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// Changes with every write.
    pub cas: u64,
    /// It is out of date, and served as such.
    pub is_stale: bool,
    /// A client has been told to fetch it anew.
    pub has_winner: bool,
    /// It has been asked for since it was stored.
    pub is_fetched: bool,
}

impl ItemHead {
    fn read(bytes: &[u8]) -> ItemHead {
        let bits = bytes[0];
        let cas = bytes[1..SHORT_BYTES].try_into().expect("eight bytes");
        let flags = match bits & HAS_FLAGS {
            0 => [0; 4],
            _ => bytes[SHORT_BYTES..LONG_BYTES]
                .try_into()
                .expect("four bytes"),
        };
        ItemHead {
            client_flags: u32::from_le_bytes(flags),
            cas: u64::from_le_bytes(cas),
            is_stale: bits & IS_STALE != 0,
            has_winner: bits & HAS_WINNER != 0,
            is_fetched: bits & IS_FETCHED != 0,
        }
    }

    /// As it is written, and how many of these bytes it takes.
    fn encode(&self) -> ([u8; LONG_BYTES], usize) {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let mut bytes = [0; LONG_BYTES];
        bytes[0] = bit(self.client_flags != 0, HAS_FLAGS)
            | bit(self.is_stale, IS_STALE)
            | bit(self.has_winner, HAS_WINNER)
            | bit(self.is_fetched, IS_FETCHED);
        bytes[1..SHORT_BYTES].copy_from_slice(&self.cas.to_le_bytes());
        bytes[SHORT_BYTES..].copy_from_slice(&self.client_flags.to_le_bytes());
        let has_flags = self.client_flags != 0;
        (bytes, if has_flags { LONG_BYTES } else { SHORT_BYTES })
    }
}

/// The value behind an item's head.
#[inline]
pub(crate) fn value_of(item: &[u8]) -> &[u8] {
    match item[0] & HAS_FLAGS {
        0 => &item[SHORT_BYTES..],
        _ => &item[LONG_BYTES..],
    }
}

/// The bytes of an item, head and value; none for a value of another kind.
pub(crate) fn item_of<'a>(value: &Value<'a, Object>) -> Option<&'a [u8]> {
    match value {
        Value::Inline(TAG_ITEM, item) => Some(item),
        Value::Outside(Object::Item(item)) => Some(item),
        _ => None,
    }
}

/// What memcached's clients see of a value. Errors: another type.
#[inline]
fn read<'v>(
    space: &Keyspace,
    db: u8,
    value: Value<'v, Object>,
) -> Result<(ItemHead, &'v [u8]), WrongType> {
    if let Some(item) = item_of(&value) {
        return Ok((ItemHead::read(item), value_of(item)));
    }
    let bytes = string_of(value)?;
    let head = ItemHead {
        cas: space.key(db, bytes).hash.max(1),
        is_fetched: true,
        ..ItemHead::default()
    };
    Ok((head, bytes))
}

impl View<'_> {
    /// Reads an item or a string: counts a hit or a miss and tells the policy. Errors: another type.
    #[inline]
    pub fn item(&mut self, key: &Key<'_>) -> Result<Option<(ItemHead, &[u8])>, WrongType> {
        let space = self.space;
        let value = self.get_value(key);
        value.map(|value| read(space, key.db, value)).transpose()
    }

    /// Reads an item or a string; neither counts nor tells. Errors: another type.
    pub fn peek_item(&mut self, key: &Key<'_>) -> Result<Option<(ItemHead, &[u8])>, WrongType> {
        let space = self.space;
        let value = self.peek_value(key);
        value.map(|value| read(space, key.db, value)).transpose()
    }

    /// Stores an item over whatever was there, evicting as needed.
    pub fn put_item(
        &mut self,
        key: &Key<'_>,
        head: &ItemHead,
        value: &[u8],
        deadline: NewDeadline,
    ) {
        let (bytes, len) = head.encode();
        let head = &bytes[..len];
        if Db::must_be_outside(key.bytes, len + value.len()) {
            let item = Object::Item([head, value].concat());
            return self.put(key, NewValue::Outside(item), deadline);
        }
        let mut item = self.take_scratch(key);
        item.extend_from_slice(head);
        item.extend_from_slice(value);
        self.put(key, NewValue::Inline(TAG_ITEM, &item), deadline);
        self.parts(key).2.scratch = item;
    }

    /// Marks an item that is there: its value and the client's flags stay, watchers are not told. A plain
    /// string has no room for marks and stays what it is.
    pub fn mark_item(&mut self, key: &Key<'_>, head: &ItemHead) {
        let (bytes, len) = head.encode();
        self.write_head(key, &bytes[..len]);
    }

    /// The number for the next write of a key.
    pub fn next_cas(&mut self, key: &Key<'_>) -> u64 {
        let locked = self.parts(key).2;
        locked.last_cas += 1;
        locked.last_cas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for (client_flags, bits) in [(0, 0), (7, 5), (u32::MAX, 7), (0, 2)] {
            let head = ItemHead {
                client_flags,
                cas: 0x0102_0304_0506_0708,
                is_stale: bits & 1 != 0,
                has_winner: bits & 2 != 0,
                is_fetched: bits & 4 != 0,
            };
            let (bytes, len) = head.encode();
            let bytes = [&bytes[..len], b"value"].concat();
            assert_eq!(ItemHead::read(&bytes), head);
            assert_eq!(value_of(&bytes), b"value");
        }
    }
}
