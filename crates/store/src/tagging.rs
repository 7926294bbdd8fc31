//! Tags of keys in the form in which they are saved, and their limits.
//!
//! ```text
//! tags   for each: length 2 │ name
//! ```

use crate::shared::Db;
use policy::Slot;

/// Maximum length of a tag in bytes.
pub const TAG_BYTES_MAX: usize = 1024;
/// Maximum number of tags of a key.
pub const TAGS_MAX: usize = cache::MARKS_MAX;

/// Returns the encoded tags of an entry; nothing if it has none.
pub(crate) fn encode_tags(data: &Db, slot: Slot) -> Vec<u8> {
    let mut bytes = Vec::new();
    if data.has_groups() {
        data.each_group(slot, &mut |name| {
            debug_assert!(name.len() <= TAG_BYTES_MAX);
            bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
            bytes.extend_from_slice(name);
        });
    }
    bytes
}

/// Decodes the tags of [`crate::Record::tags`]. Returns `None` for other bytes, and for tags that
/// are too long, empty, or too many.
pub fn decode_tags(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut tags = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len));
        let (name, rest) = rest.split_at_checked(len)?;
        if !(1..=TAG_BYTES_MAX).contains(&len) || tags.len() == TAGS_MAX {
            return None;
        }
        tags.push(name);
        bytes = rest;
    }
    bytes.is_empty().then_some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encoded_tags_are_decoded() {
        assert_eq!(decode_tags(b""), Some(vec![]));
        let two = b"\x01\x00a\x02\x00\x00\xff";
        assert_eq!(decode_tags(two), Some(vec![&b"a"[..], b"\0\xff"]));
        for len in 1..two.len() {
            assert_eq!(decode_tags(&two[..len]).is_some(), len == 3);
        }
        assert_eq!(decode_tags(b"\0\0"), None);
        assert_eq!(decode_tags(&b"\x01\0a".repeat(TAGS_MAX + 1)), None);
        let long = [&[1, 4][..], &[b'x'; 1025]].concat();
        assert_eq!(decode_tags(&long), None);
    }
}
