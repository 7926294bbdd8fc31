//! Commands on a range of bits: BITCOUNT, BITPOS, BITRANGEINTARRAY.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use std::ops::Range;
use wire::Args;
use wire::number::parse_i64;

/// The range in a command's arguments.
#[derive(Clone, Copy)]
struct BitRange {
    start: i64,
    /// `None` means the end of the string.
    end: Option<i64>,
    /// Whether both indexes count bits instead of bytes.
    counts_bits: bool,
}

impl BitRange {
    const WHOLE: BitRange = BitRange {
        start: 0,
        end: None,
        counts_bits: false,
    };

    /// `start [end [BIT | BYTE]]`
    fn parse(args: Args<'_>) -> Result<BitRange, Refusal> {
        let number = |index: usize| -> Result<Option<i64>, Refusal> {
            let text = args.get(index);
            text.map(|text| parse_i64(text).ok_or(Refusal::NotInteger))
                .transpose()
        };
        if args.len() > 3 {
            return Err(Refusal::Syntax);
        }
        let start = number(0)?.unwrap_or(0);
        let counts_bits = args.len() == 3 && args.is(2, "bit");
        if args.len() == 3 && !counts_bits && !args.is(2, "byte") {
            return Err(Refusal::Syntax);
        }
        Ok(BitRange {
            start,
            end: number(1)?,
            counts_bits,
        })
    }

    /// Returns the range in bits for a string of `len` bytes. Negative indexes count from the end;
    /// both are limited to the string.
    fn bits(&self, len: usize) -> Range<u64> {
        let unit = if self.counts_bits { 1 } else { 8 };
        let total = (len as u64 * 8 / unit) as i64;
        let from_end = |index: i64| {
            if index < 0 {
                index.saturating_add(total).max(0)
            } else {
                index
            }
        };
        let start = from_end(self.start);
        let end = from_end(self.end.unwrap_or(-1)).min(total - 1);
        if start > end {
            return 0..0;
        }
        start as u64 * unit..(end as u64 + 1) * unit
    }
}

/// Passes the bytes that contain `bits` to `each`, eight at a time as one big-endian word, with the
/// offset of the word's first bit. Bits outside the range are taken from `filler`. Ends when `each`
/// returns false.
fn words(bytes: &[u8], bits: Range<u64>, filler: u64, mut each: impl FnMut(u64, u64) -> bool) {
    let (first, last) = ((bits.start / 8) as usize, bits.end.div_ceil(8) as usize);
    for (index, chunk) in bytes[first..last].chunks(8).enumerate() {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        let offset = (first + index * 8) as u64 * 8;
        let mut inside = u64::MAX;
        if offset < bits.start {
            inside &= u64::MAX >> (bits.start - offset);
        }
        if offset + 64 > bits.end {
            inside &= u64::MAX << (offset + 64 - bits.end);
        }
        let word = u64::from_be_bytes(padded) & inside | filler & !inside;
        if !each(offset, word) {
            return;
        }
    }
}

fn count(bytes: &[u8], bits: Range<u64>) -> u64 {
    let mut sum = 0;
    words(bytes, bits, 0, |_, word| {
        sum += u64::from(word.count_ones());
        true
    });
    sum
}

/// Returns the offset of the first set or clear bit.
fn find(bytes: &[u8], bits: Range<u64>, is_set: bool) -> Option<u64> {
    let mut found = None;
    let flip = if is_set { 0 } else { u64::MAX };
    words(bytes, bits, flip, |offset, word| {
        let wanted = word ^ flip;
        if wanted != 0 {
            found = Some(offset + u64::from(wanted.leading_zeros()));
        }
        wanted == 0
    });
    found
}

/// Returns the offsets of the set or clear bits in ascending order, at most `max`.
fn find_all(bytes: &[u8], bits: Range<u64>, is_set: bool, max: usize) -> Vec<u64> {
    let mut found = Vec::new();
    let flip = if is_set { 0 } else { u64::MAX };
    words(bytes, bits, flip, |offset, word| {
        let mut wanted = word ^ flip;
        while wanted != 0 && found.len() < max {
            let at = wanted.leading_zeros();
            found.push(offset + u64::from(at));
            wanted &= !(1 << 63 >> at);
        }
        found.len() < max
    });
    found
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub fn bitcount(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let range = match args.len() {
        2 => BitRange::WHOLE,
        3 => return Err(Refusal::Syntax),
        _ => BitRange::parse(args.from(2))?,
    };
    let key = ctx.key(&args[1]);
    let counted = ctx.view.get(&key)?.map(|bytes| match range {
        // A start after the end is empty, even if both indexes are limited to the first byte.
        BitRange {
            start,
            end: Some(end),
            ..
        } if start < 0 && end < 0 && start > end => 0,
        _ => count(bytes, range.bits(bytes.len())),
    });
    if counted.is_none() {
        ctx.missed(&key);
    }
    ctx.reply.integer(counted.unwrap_or(0) as i64);
    Ok(())
}

/// `BITPOS key 0|1 [start [end [BYTE | BIT]]]`: replies −1 if there is no such bit. Without an end,
/// the string counts as followed by clear bits.
pub fn bitpos(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let is_set = match parse_i64(&args[2]).ok_or(Refusal::NotInteger)? {
        0 => false,
        1 => true,
        _ => return Err(Refusal::Message("ERR The bit argument must be 1 or 0.")),
    };
    let range = match args.len() {
        3 => BitRange::WHOLE,
        _ => BitRange::parse(args.from(3))?,
    };
    let key = ctx.key(&args[1]);
    let found = match ctx.view.get(&key)? {
        Some(bytes) => {
            let bits = range.bits(bytes.len());
            let after = (!is_set && range.end.is_none() && !bits.is_empty()).then_some(bits.end);
            find(bytes, bits, is_set).or(after)
        }
        None => {
            ctx.missed(&key);
            (!is_set).then_some(0)
        }
    };
    ctx.reply.integer(found.map_or(-1, |offset| offset as i64));
    Ok(())
}

/// `BITRANGEINTARRAY key start end [BYTE | BIT] [LIMIT count] [ZEROS]`: replies with the offsets of
/// the set bits, or of the clear ones, in ascending order.
pub fn bitrangeintarray(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let integer = |index: usize| parse_i64(&args[index]).ok_or(Refusal::NotInteger);
    let mut range = BitRange {
        start: integer(2)?,
        end: Some(integer(3)?),
        counts_bits: false,
    };
    let (mut max, mut is_set) = (usize::MAX, true);
    let mut index = 4;
    if args.is(index, "bit") || args.is(index, "byte") {
        range.counts_bits = args.is(index, "bit");
        index += 1;
    }
    if args.is(index, "limit") {
        let count = parse_i64(args.get(index + 1).ok_or(Refusal::Syntax)?);
        let count = count.filter(|count| *count > 0);
        let count = count.ok_or(Refusal::Message("ERR LIMIT must be a positive integer"))?;
        max = usize::try_from(count).unwrap_or(usize::MAX);
        index += 2;
    }
    if args.is(index, "zeros") {
        is_set = false;
        index += 1;
    }
    if index != args.len() {
        return Err(Refusal::Syntax);
    }
    let key = ctx.key(&args[1]);
    let offsets = ctx.view.get(&key)?.map(|bytes| {
        let bits = range.bits(bytes.len());
        find_all(bytes, bits, is_set, max)
    });
    if offsets.is_none() {
        ctx.missed(&key);
    }
    let offsets = offsets.unwrap_or_default();
    ctx.reply.array(offsets.len());
    for offset in offsets {
        ctx.reply.integer(offset as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_and_searching_agree_with_a_bit_by_bit_scan() {
        let bytes: Vec<u8> = (0..23u32).map(|i| (i * i * 37 + 11) as u8).collect();
        let bit = |at: u64| bytes[(at / 8) as usize] & (0x80 >> (at % 8)) != 0;
        for start in 0..=184u64 {
            for end in start..=184 {
                let ones = (start..end).filter(|&at| bit(at)).count() as u64;
                assert_eq!(count(&bytes, start..end), ones);
                for is_set in [false, true] {
                    let first = (start..end).find(|&at| bit(at) == is_set);
                    assert_eq!(find(&bytes, start..end, is_set), first, "{start} {end}");
                    let all: Vec<_> = (start..end).filter(|&at| bit(at) == is_set).collect();
                    assert_eq!(find_all(&bytes, start..end, is_set, usize::MAX), all);
                    let some = &all[..all.len().min(5)];
                    assert_eq!(find_all(&bytes, start..end, is_set, 5), some);
                }
            }
        }
    }
}
