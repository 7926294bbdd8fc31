//! Tags and freshness of keys in the form in which they are saved, and the limits of tags.
//!
//! ```text
//! labels   freshness, if it is not the usual one: 0 2 │ note 4
//!          for each tag: length 2 │ name
//! ```

use crate::shared::Db;
use crate::soft::{Soft, softened};
use policy::Slot;

/// Maximum length of a tag in bytes.
pub const TAG_BYTES_MAX: usize = 1024;
/// Maximum number of tags of a key. Its freshness may take the place of one more.
pub const TAGS_MAX: usize = cache::MARKS_MAX - 1;

/// Tags and freshness of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels<T> {
    /// The tags.
    pub tags: Vec<T>,
    /// The freshness.
    pub soft: Soft,
}

impl<T> Labels<T> {
    /// Whether there are no tags and the freshness is that of a plain key.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.soft == Soft::default()
    }
}

/// Returns the encoded tags and freshness of an entry; nothing if it has none. `is_softened` says
/// that it is stale because a tag was invalidated.
pub(crate) fn encode_labels(data: &Db, slot: Slot, is_softened: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if data.has_groups() {
        let note = match is_softened {
            true => softened(data, slot).note(),
            false => data.note(slot),
        };
        if note != 0 {
            bytes.extend_from_slice(&[0; 2]);
            bytes.extend_from_slice(&note.to_le_bytes());
        }
        data.each_group(slot, &mut |name| {
            debug_assert!(name.len() <= TAG_BYTES_MAX);
            bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
            bytes.extend_from_slice(name);
        });
    }
    bytes
}

/// Decodes [`crate::Record::labels`]. Returns `None` for other bytes, and for tags that are too
/// long, empty, or too many.
pub fn decode_labels(mut bytes: &[u8]) -> Option<Labels<&[u8]>> {
    let (mut tags, mut soft) = (Vec::new(), Soft::default());
    if let Some((&[0, 0], rest)) = bytes.split_first_chunk() {
        let (note, rest) = rest.split_first_chunk()?;
        let note = u32::from_le_bytes(*note);
        if note == 0 || note != Soft::of(note).note() {
            return None;
        }
        (soft, bytes) = (Soft::of(note), rest);
    }
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len));
        let (name, rest) = rest.split_at_checked(len)?;
        if !(1..=TAG_BYTES_MAX).contains(&len) || tags.len() == TAGS_MAX {
            return None;
        }
        tags.push(name);
        bytes = rest;
    }
    let labels = Labels { tags, soft };
    bytes.is_empty().then_some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encoded_labels_are_decoded() {
        let tags = |bytes| decode_labels(bytes).map(|labels| labels.tags);
        assert_eq!(tags(b""), Some(vec![]));
        let two = b"\x01\x00a\x02\x00\x00\xff";
        assert_eq!(tags(two), Some(vec![&b"a"[..], b"\0\xff"]));
        for len in 1..two.len() {
            assert_eq!(decode_labels(&two[..len]).is_some(), len == 3);
        }
        assert_eq!(decode_labels(b"\0\0"), None);
        assert_eq!(decode_labels(&b"\x01\0a".repeat(TAGS_MAX + 1)), None);
        let long = [&[1, 4][..], &[b'x'; 1025]].concat();
        assert_eq!(decode_labels(&long), None);
        let soft = decode_labels(b"\0\0\x07\0\0\0\x01\0a").expect("a window and a tag");
        assert_eq!(soft.soft, Soft::window(7));
        assert_eq!(soft.tags, [b"a"]);
        assert_eq!(decode_labels(b"\0\0\x07\0\0"), None);
        assert_eq!(decode_labels(b"\0\0\0\0\0\0"), None);
        assert_eq!(
            decode_labels(b"\0\0\0\0\0\x80"),
            None,
            "no note has this bit"
        );
        assert_eq!(decode_labels(b"\x01\0a\0\0\x07\0\0\0"), None);
    }
}
