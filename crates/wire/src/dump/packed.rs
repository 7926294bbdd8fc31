//! Entries of the packed encodings: listpacks, ziplists, zipmaps, and sets of integers.
//!
//! ```text
//! listpack  bytes 4 │ entries 2 │ entry … │ 0xFF
//!           entry: head, data, length of both in reverse
//! ziplist   bytes 4 │ last entry 4 │ entries 2 │ entry … │ 0xFF
//!           entry: length of the previous entry, head, data
//! zipmap    pairs 1 │ name, value … │ 0xFF
//!           name: length, bytes       value: length, unused bytes 1, bytes, unused bytes
//! integers  2, 4 or 8 4 │ integers 4 │ integer …, ascending
//! ```
//!
//! The headers and the lengths between entries must match the entries.

use super::input::{Body, Input, Read};
use super::value::DumpError;
use crate::number::{parse_f64, push_i64};

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'b> {
    Text(&'b [u8]),
    Number(i64),
}

impl<'b> Entry<'b> {
    /// Returns the entry as text; a number is written to `scratch`.
    pub fn text<'s>(self, scratch: &'s mut Vec<u8>) -> &'s [u8]
    where
        'b: 's,
    {
        match self {
            Entry::Text(text) => text,
            Entry::Number(number) => {
                scratch.clear();
                push_i64(scratch, number);
                scratch
            }
        }
    }

    /// Returns the entry as a score.
    pub fn score(self) -> Read<f64> {
        match self {
            Entry::Text(text) => parse_f64(text).ok_or(DumpError::Body),
            Entry::Number(number) => Ok(number as f64),
        }
    }
}

/// Byte after the last entry.
const END: u8 = 0xFF;
/// Byte of a zipmap that stands for an unknown number of pairs, or before a length of four bytes.
const ZIPMAP_LONG: u8 = 0xFE;

/// Removes header and end byte and returns the entries. The total length in the header must match.
fn opened<const N: usize>(bytes: &[u8]) -> Read<([u8; N], &[u8])> {
    let (header, rest) = bytes.split_first_chunk().ok_or(DumpError::Body)?;
    let (&end, entries) = rest.split_last().ok_or(DumpError::Body)?;
    let total = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    if end != END || total as usize != bytes.len() {
        return Err(DumpError::Body);
    }
    Ok((*header, entries))
}

/// Opens a packed encoding.
pub(super) type Open = for<'b> fn(&'b [u8]) -> Read<Entries<'b>>;

/// Opens a listpack.
pub(super) fn listpack(bytes: &[u8]) -> Read<Entries<'_>> {
    let (header, entries) = opened::<6>(bytes)?;
    let count = u16::from_le_bytes([header[4], header[5]]);
    Ok(Entries::new(entries, counted(count), None, listpack_entry))
}

/// Opens a ziplist.
pub(super) fn ziplist(bytes: &[u8]) -> Read<Entries<'_>> {
    let (header, entries) = opened::<10>(bytes)?;
    let last = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let count = u16::from_le_bytes([header[8], header[9]]);
    let last = (last as usize).checked_sub(10).ok_or(DumpError::Body)?;
    Ok(Entries::new(
        entries,
        counted(count),
        Some(last),
        ziplist_entry,
    ))
}

/// Opens a zipmap.
pub(super) fn zipmap(bytes: &[u8]) -> Read<Entries<'_>> {
    let (&pairs, rest) = bytes.split_first().ok_or(DumpError::Body)?;
    let (&end, entries) = rest.split_last().ok_or(DumpError::Body)?;
    if end != END {
        return Err(DumpError::Body);
    }
    let count = (pairs < ZIPMAP_LONG).then_some(2 * usize::from(pairs));
    Ok(Entries::new(entries, count, None, zipmap_entry))
}

/// Opens a set of integers. Their order is not checked.
pub(super) fn integers(bytes: &[u8]) -> Read<Entries<'_>> {
    let mut input = Input::new(bytes, 0);
    let width = u32::from_le_bytes(input.array()?);
    let count = u32::from_le_bytes(input.array()?) as usize;
    let take: Take = match width {
        2 => |input, _| number::<2>(input),
        4 => |input, _| number::<4>(input),
        8 => |input, _| number::<8>(input),
        _ => return Err(DumpError::Body),
    };
    let entries = input.slice(input.len())?;
    Ok(Entries::new(entries, Some(count), None, take))
}

/// Returns the number of entries in a header; `None` if it exceeds two bytes.
fn counted(count: u16) -> Option<usize> {
    (count != u16::MAX).then_some(count.into())
}

/// Reads an integer of `N` bytes.
fn number<'b, const N: usize>(input: &mut Input<'b>) -> Read<Entry<'b>> {
    Ok(Entry::Number(integer(&input.array::<N>()?)))
}

/// Converts a little-endian integer of up to eight bytes.
fn integer(bytes: &[u8]) -> i64 {
    let mut word = [0; 8];
    // The shift back fills the upper bytes with the sign.
    word[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(word) >> (64 - 8 * bytes.len() as u32)
}

/// Function that reads one entry.
type Take = for<'b> fn(&mut Input<'b>, Before) -> Read<Entry<'b>>;

/// Entries before the next one.
#[derive(Clone, Copy, Default)]
struct Before {
    /// Length of the previous entry.
    bytes: usize,
    count: usize,
}

/// Iterator over the entries of a packed encoding.
pub(super) struct Entries<'b> {
    entries: &'b [u8],
    /// Position of the next entry.
    at: usize,
    before: Before,
    /// Number of entries in the header.
    count: Option<usize>,
    /// Position of the last entry in the header.
    last: Option<usize>,
    take: Take,
    is_over: bool,
}

impl<'b> Entries<'b> {
    fn new(entries: &'b [u8], count: Option<usize>, last: Option<usize>, take: Take) -> Self {
        Entries {
            entries,
            at: 0,
            before: Before::default(),
            count,
            last,
            take,
            is_over: false,
        }
    }

    fn step(&mut self) -> Read<Entry<'b>> {
        let rest = &self.entries[self.at..];
        let mut input = Input::new(rest, 0);
        let entry = (self.take)(&mut input, self.before)?;
        self.before.bytes = rest.len() - input.len();
        self.before.count += 1;
        self.at += self.before.bytes;
        Ok(entry)
    }

    /// Whether the header matches the entries.
    fn is_sound(&self) -> bool {
        let last = self.at - self.before.bytes;
        self.count.is_none_or(|count| count == self.before.count)
            && self.last.is_none_or(|stated| stated == last)
    }

    /// Returns the next entry, which must exist.
    pub fn more(&mut self) -> Read<Entry<'b>> {
        self.next().ok_or(DumpError::Body)?
    }
}

impl<'b> Iterator for Entries<'b> {
    type Item = Read<Entry<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        if self.at < self.entries.len() {
            let step = self.step();
            self.is_over = step.is_err();
            return Some(step);
        }
        self.is_over = true;
        (!self.is_sound()).then_some(Err(DumpError::Body))
    }
}

fn listpack_entry<'b>(input: &mut Input<'b>, _: Before) -> Read<Entry<'b>> {
    let before = input.len();
    let head = input.byte()?;
    let entry = match head {
        0..0x80 => Entry::Number(head.into()),
        0x80..0xC0 => Entry::Text(input.slice((head & 0x3F).into())?),
        0xC0..0xE0 => {
            // A signed number of thirteen bits.
            let bits = u16::from(head & 0x1F) << 8 | u16::from(input.byte()?);
            Entry::Number(((bits << 3) as i16 >> 3).into())
        }
        0xE0..0xF0 => {
            let count = usize::from(head & 0x0F) << 8 | usize::from(input.byte()?);
            Entry::Text(input.slice(count)?)
        }
        0xF0 => {
            let count = u32::from_le_bytes(input.array()?);
            Entry::Text(input.slice(count as usize)?)
        }
        0xF1 => number::<2>(input)?,
        0xF2 => number::<3>(input)?,
        0xF3 => number::<4>(input)?,
        0xF4 => number::<8>(input)?,
        _ => return Err(DumpError::Body),
    };
    backward_length(input, before - input.len())?;
    Ok(entry)
}

/// Reads the length after an entry: groups of seven bits, the highest first, all but the first
/// with the high bit set.
fn backward_length(input: &mut Input<'_>, bytes: usize) -> Read<()> {
    let mut stated = u64::from(input.byte()?);
    if stated >= 0x80 {
        return Err(DumpError::Body);
    }
    for _ in 1..backward_bytes(bytes) {
        let group = input.byte()?;
        if group < 0x80 {
            return Err(DumpError::Body);
        }
        stated = stated << 7 | u64::from(group & 0x7F);
    }
    (stated == bytes as u64)
        .then_some(())
        .ok_or(DumpError::Body)
}

/// Returns the number of bytes that encode a length. As in Redis, 2^14 − 1, 2^21 − 1 and 2^28 − 1
/// take one byte more than they need.
pub(super) fn backward_bytes(length: usize) -> usize {
    match length {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

fn ziplist_entry<'b>(input: &mut Input<'b>, before: Before) -> Read<Entry<'b>> {
    let stated = match input.byte()? {
        0xFE => u32::from_le_bytes(input.array()?) as usize,
        0xFF => return Err(DumpError::Body),
        few => few.into(),
    };
    if stated != before.bytes {
        return Err(DumpError::Body);
    }
    let head = input.byte()?;
    Ok(match head {
        0..0x40 => Entry::Text(input.slice(head.into())?),
        0x40..0x80 => {
            let count = usize::from(head & 0x3F) << 8 | usize::from(input.byte()?);
            Entry::Text(input.slice(count)?)
        }
        0x80 => {
            let count = u32::from_be_bytes(input.array()?);
            Entry::Text(input.slice(count as usize)?)
        }
        0xC0 => number::<2>(input)?,
        0xD0 => number::<4>(input)?,
        0xE0 => number::<8>(input)?,
        0xF0 => number::<3>(input)?,
        0xFE => number::<1>(input)?,
        0xF1..=0xFD => Entry::Number(i64::from(head) - 0xF1),
        _ => return Err(DumpError::Body),
    })
}

fn zipmap_entry<'b>(input: &mut Input<'b>, before: Before) -> Read<Entry<'b>> {
    let bytes = match input.byte()? {
        ZIPMAP_LONG => {
            let long = u32::from_le_bytes(input.array()?) as usize;
            // As in Redis, a length that fits the byte must not be longer than it.
            if long < usize::from(ZIPMAP_LONG) {
                return Err(DumpError::Body);
            }
            long
        }
        END => return Err(DumpError::Body),
        few => few.into(),
    };
    let is_value = before.count % 2 == 1;
    let unused = if is_value { input.byte()? } else { 0 };
    let entry = Entry::Text(input.slice(bytes)?);
    input.slice(unused.into())?;
    Ok(entry)
}
