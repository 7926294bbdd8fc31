//! Items: strings as memcached clients store them, with a head before the value.
//!
//! ```text
//! item   bits 1 │ cas 8 │ client flags 0|4 │ value
//! bits   has flags 1 │ is stale 1 │ has a winner 1 │ is fetched 1
//! ```
//!
//! Commands of Redis read the value and ignore the head; they write plain strings. A plain string
//! is an item without flags for memcached clients. Its CAS number is the hash of its bytes, so that
//! any change of them is detected. It counts as fetched, because it has no room for that mark.

use crate::object::Object;
use crate::tags::{TAG_ITEM, TAG_STRING};
use cache::Value;

/// Error: the key holds a type other than the command requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

const HAS_FLAGS: u8 = 1;
const IS_STALE: u8 = 1 << 1;
const HAS_WINNER: u8 = 1 << 2;
const IS_FETCHED: u8 = 1 << 3;
/// Length of a head without client flags.
const SHORT_BYTES: usize = 1 + 8;
/// Length of a head with client flags.
const LONG_BYTES: usize = SHORT_BYTES + 4;

/// Attributes of an item in memcached's protocol other than its value and deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHead {
    /// 32-bit flags that the client chooses and gets back.
    pub client_flags: u32,
    /// Number that changes with every write.
    pub cas: u64,
    /// Whether the item is out of date. Such an item is still returned, marked as stale.
    pub is_stale: bool,
    /// Whether a client has been chosen to store the item again.
    pub has_winner: bool,
    /// Whether the item has been read since it was stored.
    pub is_fetched: bool,
}

impl ItemHead {
    /// Decodes a head encoded by [`ItemHead::encode`]; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<ItemHead> {
        const BITS: u8 = HAS_FLAGS | IS_STALE | HAS_WINNER | IS_FETCHED;
        let bits = *bytes.first()?;
        let len = match bits & HAS_FLAGS {
            0 => SHORT_BYTES,
            _ => LONG_BYTES,
        };
        (bits & !BITS == 0 && bytes.len() == len).then(|| ItemHead::read(bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> ItemHead {
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

    /// Returns the encoded head and its length.
    pub fn encode(&self) -> ([u8; LONG_BYTES], usize) {
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

/// Returns the value of an item.
#[inline]
pub(crate) fn value_of(item: &[u8]) -> &[u8] {
    match item[0] & HAS_FLAGS {
        0 => &item[SHORT_BYTES..],
        _ => &item[LONG_BYTES..],
    }
}

/// Returns the bytes of an item, head and value; `None` for a value that is not an item.
pub(crate) fn item_of<'a>(value: &Value<'a, Object>) -> Option<&'a [u8]> {
    match value {
        Value::Inline(TAG_ITEM, item) => Some(item),
        Value::Outside(Object::Item(item)) => Some(item),
        _ => None,
    }
}

/// Returns the bytes of a string or the value of an item.
pub(crate) fn string_of<'a>(value: Value<'a, Object>) -> Result<&'a [u8], WrongType> {
    match value {
        Value::Inline(TAG_STRING, bytes) => Ok(bytes),
        Value::Outside(Object::String(bytes)) => Ok(bytes),
        other => item_of(&other).map(value_of).ok_or(WrongType),
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
            assert_eq!(ItemHead::decode(&bytes[..len]), Some(head));
            for wrong in [&[][..], &bytes[..len - 1], &[0; 14]] {
                assert_eq!(ItemHead::decode(wrong), None);
            }
            let bytes = [&bytes[..len], b"value"].concat();
            assert_eq!(ItemHead::read(&bytes), head);
            assert_eq!(value_of(&bytes), b"value");
            assert_eq!(ItemHead::decode(&bytes[..len]), Some(head));
            assert_eq!(ItemHead::decode(&bytes), None);
            assert_eq!(ItemHead::decode(&bytes[..len - 1]), None);
        }
    }
}
