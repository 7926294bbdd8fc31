//! The bytes of one entry.
//!
//! ```text
//! block  header 4 │ policy word 0|4|8 │ deadline word 0|8 │ link 0|4|8 │ length 0|2 │ marks 0–60 │
//!        key │ value
//!
//! header kind 4 │ has a deadline 1 │ owner 2 │ policy bits 8 │ key length 8 │ value length 9
//!          kind           0: a free block of the arena; 1–14: the caller's tag of an inline value;
//!                         15: the value is an outside object
//!          policy bits    the policy's state if 8 bits are enough; else it is in the policy word
//!          key length     255: the key is outside, together with the value
//!          value length   511: a word follows, length 12 │ number of marks 4
//! deadline word  milliseconds since 1970 (48 bits) │ link of the expiry index (16 bits)
//! marks          32-bit numbers of the entry's groups (`groups.rs`), behind the caller's note,
//!                which has the highest bit, if there is one. The block of an entry with marks has
//!                the word of the length whatever the length is
//! ```
//!
//! Example: a 16-byte key with a 3-byte value needs 4 + 16 + 3 = 23 bytes, a block of 24 bytes.
//! With a deadline it needs 31 bytes, a block of 32.

use crate::arena::{Arena, BLOCK_MAX, GRANULE};
use crate::entries::{OWNERS, Owner};
use policy::Tick;
use std::ops::Range;

/// Kind of an entry whose value is stored outside the block, as an object on the heap.
pub(crate) const OUTSIDE: u32 = 15;
/// Key length that marks a key stored outside the block, next to its value.
pub(crate) const KEY_OUTSIDE: u32 = 255;
pub(crate) const LENGTH_FOLLOWS: usize = 511;
/// Largest tag of an inline value.
pub const TAG_MAX: u8 = 14;
/// Length of the longest key that is stored in a block.
pub const INLINE_KEY_MAX: usize = KEY_OUTSIDE as usize - 1;
/// Maximum length of a value that always fits into a block, even with the longest inline key and
/// the widest words before it.
pub const INLINE_VALUE_MAX: usize =
    BLOCK_MAX * GRANULE - INLINE_KEY_MAX - 4 - 8 - 16 - 2 - MARK_BYTES * MARKS_MAX;
/// Maximum number of groups of an entry. A note takes the place of one.
pub const MARKS_MAX: usize = 15;
/// Bit of a mark that is a note. Numbers of groups are lower.
pub(crate) const NOTE: u32 = 1 << 31;
/// Size of a mark in bytes.
pub(crate) const MARK_BYTES: usize = 4;
/// Number of bits of the length in the word that follows the header.
const LENGTH_BITS: u32 = 12;

const _: () = assert!(INLINE_VALUE_MAX < 1 << LENGTH_BITS);
const _: () = assert!(MARKS_MAX < 1 << (16 - LENGTH_BITS));

/// Deadline and owner of an entry, which determine the layout of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Deadline under which the expiry index holds the entry.
    pub deadline: Option<Tick>,
    /// Policy in charge of evicting the entry.
    pub owner: Owner,
}

/// Offsets and lengths of the parts of a block: words, key and value.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub header: u32,
    pub deadline_at: usize,
    pub key_at: usize,
    pub key_len: usize,
    pub value_len: usize,
}

impl Layout {
    #[inline(always)]
    pub fn value_at(&self) -> usize {
        self.key_at + self.key_len
    }
    #[inline(always)]
    pub fn has_deadline(&self) -> bool {
        self.header >> 4 & 1 == 1
    }
    #[inline(always)]
    pub fn owner(&self) -> Owner {
        (self.header >> 5 & 3) as Owner
    }
    #[inline(always)]
    pub fn kind(&self) -> u32 {
        self.header & 15
    }
    /// Whether a word with the length and the number of marks follows.
    #[inline(always)]
    pub fn has_length_word(&self) -> bool {
        (self.header >> 23) as usize == LENGTH_FOLLOWS
    }
    #[inline(always)]
    pub fn is_key_outside(&self) -> bool {
        self.header >> 15 & 0xff == KEY_OUTSIDE
    }
    #[inline(always)]
    pub fn granules(&self) -> usize {
        Arena::granules(self.value_at() + self.value_len)
    }
}

/// Contents of a block to be written.
pub(crate) struct Parts<'a> {
    pub kind: u32,
    pub policy_bits: u64,
    pub link: u64,
    /// Key length as stored in the header: `KEY_OUTSIDE`, or the length of `key`.
    pub key_len: u32,
    /// Bytes of the marks.
    pub marks: &'a [u8],
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Widths of the policy's and the index's words in this shard. The layout of a block depends on
/// these widths and on the block's header.
#[derive(Clone, Copy, Default)]
pub(crate) struct Widths {
    /// Width of the policy word in bytes, by owner.
    pub policy: [u8; OWNERS],
    /// Width in bytes of the link after the deadline word; 0 when 16 bits are enough.
    pub link: u8,
}

/// Returns the width in bytes of a word with `bits` bits, `free` of which are stored elsewhere.
pub(crate) fn width(bits: u32, free: u32) -> u8 {
    match bits {
        b if b <= free => 0,
        b if b <= 32 => 4,
        _ => 8,
    }
}

#[inline(always)]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline(always)]
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns a value's length and the number of marks.
#[inline(always)]
fn read_length_word(block: &[u8], at: usize) -> (usize, usize) {
    let word = u16::from_le_bytes([block[at], block[at + 1]]) as usize;
    (word & ((1 << LENGTH_BITS) - 1), word >> LENGTH_BITS)
}

/// Encodes a value's length and the number of marks.
pub(crate) fn length_word(value_len: usize, marks: usize) -> [u8; 2] {
    debug_assert!(value_len < 1 << LENGTH_BITS);
    debug_assert!(marks <= MARKS_MAX);
    ((value_len | marks << LENGTH_BITS) as u16).to_le_bytes()
}

/// Writes the low bytes of a word.
#[inline(always)]
fn write_word(bytes: &mut [u8], word: u64) {
    let width = bytes.len();
    bytes.copy_from_slice(&word.to_le_bytes()[..width]);
}

impl Widths {
    #[inline(always)]
    pub fn layout(&self, block: &[u8]) -> Layout {
        let header = read_u32(block, 0);
        let deadline_at = 4 + self.policy[(header >> 5 & 3) as usize] as usize;
        let mut at = deadline_at;
        if header >> 4 & 1 == 1 {
            at += 8 + self.link as usize;
        }
        let mut value_len = (header >> 23) as usize;
        if value_len == LENGTH_FOLLOWS {
            let word = read_length_word(block, at);
            value_len = word.0;
            at += 2 + word.1 * MARK_BYTES;
        }
        let key_len = match header >> 15 & 0xff {
            KEY_OUTSIDE => 0,
            len => len as usize,
        };
        Layout {
            header,
            deadline_at,
            key_at: at,
            key_len,
            value_len,
        }
    }

    /// Returns the position of the bytes of an entry's marks, which are empty in most entries.
    #[inline(always)]
    pub fn marks(&self, block: &[u8]) -> Range<usize> {
        let header = read_u32(block, 0);
        if (header >> 23) as usize != LENGTH_FOLLOWS {
            return 0..0;
        }
        let mut at = 4 + self.policy[(header >> 5 & 3) as usize] as usize;
        if header >> 4 & 1 == 1 {
            at += 8 + self.link as usize;
        }
        let count = read_length_word(block, at).1;
        at + 2..at + 2 + count * MARK_BYTES
    }

    #[inline(always)]
    pub fn deadline(&self, block: &[u8]) -> Option<Tick> {
        let header = read_u32(block, 0);
        if header >> 4 & 1 == 0 {
            return None;
        }
        let at = 4 + self.policy[(header >> 5 & 3) as usize] as usize;
        Some(Tick(read_u64(block, at) >> 16))
    }

    /// Encodes a block in its exact length.
    pub fn write(&self, block: &mut Vec<u8>, parts: &Parts<'_>, shape: Shape) {
        let policy_width = self.policy[shape.owner as usize] as usize;
        let has_length_word = parts.value.len() >= LENGTH_FOLLOWS || !parts.marks.is_empty();
        let length = match has_length_word {
            true => LENGTH_FOLLOWS,
            false => parts.value.len(),
        };
        let mut header = parts.kind
            | u32::from(shape.deadline.is_some()) << 4
            | u32::from(shape.owner) << 5
            | parts.key_len << 15
            | (length as u32) << 23;
        if policy_width == 0 {
            header |= (parts.policy_bits as u32 & 0xff) << 7;
        }
        block.clear();
        block.extend_from_slice(&header.to_le_bytes());
        block.extend_from_slice(&parts.policy_bits.to_le_bytes()[..policy_width]);
        if let Some(deadline) = shape.deadline {
            let link = if self.link == 0 { parts.link } else { 0 };
            block.extend_from_slice(&(deadline.0 << 16 | link).to_le_bytes());
            block.extend_from_slice(&parts.link.to_le_bytes()[..self.link as usize]);
        }
        if has_length_word {
            let marks = parts.marks.len() / MARK_BYTES;
            block.extend_from_slice(&length_word(parts.value.len(), marks));
            block.extend_from_slice(parts.marks);
        }
        block.extend_from_slice(parts.key);
        block.extend_from_slice(parts.value);
    }

    pub fn policy_bits(&self, block: &[u8]) -> u64 {
        let header = read_u32(block, 0);
        match self.policy[(header >> 5 & 3) as usize] {
            0 => u64::from(header >> 7 & 0xff),
            4 => u64::from(read_u32(block, 4)),
            _ => read_u64(block, 4),
        }
    }

    pub fn set_policy_bits(&self, block: &mut [u8], bits: u64) {
        let header = read_u32(block, 0);
        match self.policy[(header >> 5 & 3) as usize] as usize {
            0 => {
                debug_assert!(bits <= 0xff);
                let header = header & !(0xff << 7) | (bits as u32 & 0xff) << 7;
                block[..4].copy_from_slice(&header.to_le_bytes());
            }
            width => write_word(&mut block[4..4 + width], bits),
        }
    }

    /// Returns the state that the expiry index keeps in the block of an entry with a deadline.
    pub fn link_bits(&self, block: &[u8]) -> u64 {
        let at = self.layout(block).deadline_at;
        match self.link {
            0 => read_u64(block, at) & 0xffff,
            4 => u64::from(read_u32(block, at + 8)),
            _ => read_u64(block, at + 8),
        }
    }

    /// Stores the state that the expiry index keeps in the block of an entry with a deadline.
    pub fn set_link_bits(&self, block: &mut [u8], bits: u64) {
        let at = self.layout(block).deadline_at;
        match self.link as usize {
            0 => {
                debug_assert!(bits <= 0xffff);
                write_word(&mut block[at..at + 2], bits);
            }
            width => write_word(&mut block[at + 8..at + 8 + width], bits),
        }
    }
}
