//! LCS: the longest common subsequence of two strings, by dynamic programming.
//!
//! The table of lengths takes four bytes per pair of positions while the command runs. Two values
//! whose table would exceed the maximum size of one value are refused, as in Redis.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use wire::Args;
use wire::number::parse_i64;
use wire::request::BULK_BYTES_MAX;

/// Options of LCS.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    is_len: bool,
    is_idx: bool,
    /// MINMATCHLEN: IDX omits shorter matches.
    match_len_min: i64,
    with_match_len: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Refusal> {
        let mut options = Options::default();
        let mut index = 0;
        while let Some(option) = args.get(index) {
            if option.eq_ignore_ascii_case(b"IDX") {
                options.is_idx = true;
            } else if option.eq_ignore_ascii_case(b"LEN") {
                options.is_len = true;
            } else if option.eq_ignore_ascii_case(b"WITHMATCHLEN") {
                options.with_match_len = true;
            } else if option.eq_ignore_ascii_case(b"MINMATCHLEN") && index + 1 < args.len() {
                index += 1;
                options.match_len_min = parse_i64(&args[index]).ok_or(Refusal::NotInteger)?;
            } else {
                return Err(Refusal::Syntax);
            }
            index += 1;
        }
        if options.is_len && options.is_idx {
            return Err(Refusal::Message(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`
pub fn lcs(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let first = read(ctx, &args[1])?;
    let second = read(ctx, &args[2])?;
    let options = Options::parse(args.from(3))?;
    let table = LengthTable::new(&first, &second)?;
    if options.is_idx {
        reply_matches(ctx, &table, options);
    } else if options.is_len {
        ctx.reply.integer(i64::from(table.len()));
    } else {
        ctx.reply.bulk(&table.subsequence());
    }
    Ok(())
}

/// Returns a copy of a value, because the other key's value is needed at the same time. A missing
/// value is empty.
fn read(ctx: &mut Ctx<'_, '_>, name: &[u8]) -> Result<Vec<u8>, Refusal> {
    let key = ctx.key(name);
    let value = ctx
        .view
        .get(&key)
        .map_err(|_| Refusal::Message("ERR The specified keys must contain string values"))?
        .map(<[u8]>::to_vec);
    if value.is_none() {
        ctx.missed(&key);
    }
    Ok(value.unwrap_or_default())
}

fn reply_matches(ctx: &mut Ctx<'_, '_>, table: &LengthTable<'_>, options: Options) {
    let mut matches = Vec::new();
    table.walk(|found| {
        if i64::from(found.len) >= options.match_len_min {
            matches.push(found);
        }
    });
    let reply = &mut ctx.reply;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for found in matches {
        reply.array(2 + usize::from(options.with_match_len));
        for start in [found.first, found.second] {
            reply.array(2);
            reply.integer(i64::from(start));
            reply.integer(i64::from(start + found.len - 1));
        }
        if options.with_match_len {
            reply.integer(i64::from(found.len));
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(table.len()));
}

/// A contiguous part of both strings that belongs to the subsequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    first: u32,
    second: u32,
    len: u32,
}

/// Length of the longest common subsequence for all pairs of prefixes.
struct LengthTable<'a> {
    first: &'a [u8],
    second: &'a [u8],
    cells: Vec<u32>,
}

impl<'a> LengthTable<'a> {
    fn new(first: &'a [u8], second: &'a [u8]) -> Result<LengthTable<'a>, Refusal> {
        let width = second.len() as u64 + 1;
        let cell_count = (first.len() as u64 + 1) * width;
        if cell_count * 4 > BULK_BYTES_MAX as u64 {
            return Err(Refusal::Message(
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
            ));
        }
        let mut cells: Vec<u32> = Vec::new();
        cells.try_reserve_exact(cell_count as usize).map_err(|_| {
            Refusal::Message("ERR Insufficient memory, failed allocating transient memory for LCS")
        })?;
        cells.resize(cell_count as usize, 0);
        let width = width as usize;
        for (row, byte) in first.iter().enumerate() {
            let (above, current) = cells[row * width..(row + 2) * width].split_at_mut(width);
            for (column, other) in second.iter().enumerate() {
                current[column + 1] = if byte == other {
                    above[column] + 1
                } else {
                    above[column + 1].max(current[column])
                };
            }
        }
        Ok(LengthTable {
            first,
            second,
            cells,
        })
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.cells[row * (self.second.len() + 1) + column]
    }

    fn len(&self) -> u32 {
        self.at(self.first.len(), self.second.len())
    }

    /// Passes the matches of one longest subsequence to `each`, the last one first. Of several
    /// subsequences, it chooses the same as Redis: at a tie, it first steps back in the second
    /// string.
    fn walk(&self, mut each: impl FnMut(Match)) {
        let (mut row, mut column) = (self.first.len(), self.second.len());
        let mut open: Option<Match> = None;
        while row > 0 && column > 0 {
            if self.first[row - 1] == self.second[column - 1] {
                row -= 1;
                column -= 1;
                let (first, second) = (row as u32, column as u32);
                let len = open.map_or(0, |found| found.len) + 1;
                open = Some(Match { first, second, len });
            } else {
                if self.at(row - 1, column) > self.at(row, column - 1) {
                    row -= 1;
                } else {
                    column -= 1;
                }
                if let Some(found) = open.take() {
                    each(found);
                }
            }
        }
        if let Some(found) = open {
            each(found);
        }
    }

    fn subsequence(&self) -> Vec<u8> {
        let mut matches = Vec::new();
        self.walk(|found| matches.push(found));
        let mut text = Vec::with_capacity(self.len() as usize);
        for found in matches.iter().rev() {
            let start = found.first as usize;
            text.extend_from_slice(&self.first[start..start + found.len as usize]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lcs_returns_the_documented_matches() {
        let table = LengthTable::new(b"ohmytext", b"mynewtext").expect("small");
        assert_eq!(table.len(), 6);
        assert_eq!(table.subsequence(), b"mytext");
        let mut matches = Vec::new();
        table.walk(|found| matches.push((found.first, found.second, found.len)));
        assert_eq!(matches, [(4, 5, 4), (2, 0, 2)]);
    }

    #[test]
    fn a_table_beyond_the_bound_is_refused() {
        let long = vec![b'a'; 12_000];
        assert!(LengthTable::new(&long, &long).is_err());
        assert!(LengthTable::new(&long, b"").is_ok());
    }
}
