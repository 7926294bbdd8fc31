//! Lists of ids: one id on each line, the text of the LIRS paper, and the block ranges of the ARC
//! paper. They have neither times nor sizes. Blank lines are refused.

use crate::entry::{Columns, Encoding, Entry, Source, Workload};
use crate::error::Fault;
use crate::lines::Lines;
use crate::number::{key, push_decimal, whole};
use crate::request::Request;
use std::io::Read;

/// Maximum number of blocks on one line: 8 GiB in blocks of 512 bytes. A larger number is treated
/// as damaged, because it would stand for hours of requests.
const RANGE_BLOCKS_MAX: u64 = 1 << 24;

/// One id on each line.
pub(crate) static IDS: Entry = Entry {
    endings: &["txt"],
    aliases: &["ids"],
    columns: Columns::None,
    has_next_access: false,
    workload: Workload::Web,
    open: |input, _| Ok(Box::new(Ids::new(input))),
    encode: Some(|_| {
        let encode = |request: &Request, out: &mut Vec<u8>| {
            push_decimal(request.key, out);
            out.push(b'\n');
            Ok(())
        };
        Ok(Encoding::Rows {
            header: Vec::new(),
            encode: Box::new(encode),
        })
    }),
};

/// The text of the LIRS paper's traces: a block on each line, `*` between phases.
pub(crate) static LIRS: Entry = Entry {
    endings: &["trc"],
    aliases: &["lirs"],
    columns: Columns::None,
    has_next_access: false,
    workload: Workload::Block,
    open: |input, _| Ok(Box::new(LirsBlocks::new(input))),
    encode: None,
};

/// The text of the ARC paper's traces: a first block and a number of blocks on each line.
pub(crate) static ARC: Entry = Entry {
    endings: &["lis"],
    aliases: &["arc"],
    columns: Columns::None,
    has_next_access: false,
    workload: Workload::Block,
    open: |input, _| Ok(Box::new(ArcBlocks::new(input))),
    encode: None,
};

const EXPECTED_ID: &str = "one id, a number or a text";
const EXPECTED_BLOCK: &str = "the number of a block, or * between phases";
const EXPECTED_RANGE: &str =
    "`first-block count ignored request-number`, with a count from 1 to 16,777,216";

/// Reader of one id on each line.
struct Ids<R> {
    lines: Lines<R>,
}

impl<R: Read> Ids<R> {
    fn new(input: R) -> Self {
        Ids {
            lines: Lines::new(input),
        }
    }
}

impl<R: Read> Source for Ids<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        let Some(line) = self.lines.next()? else {
            return Ok(None);
        };
        let id = line.text.trim_ascii();
        if id.is_empty() {
            return Err(line.fault(EXPECTED_ID));
        }
        Ok(Some(Request {
            key: key(id),
            ..Request::default()
        }))
    }
}

/// Reader of one block on each line. A line of `*` separates phases and is not a request.
struct LirsBlocks<R> {
    lines: Lines<R>,
}

impl<R: Read> LirsBlocks<R> {
    fn new(input: R) -> Self {
        LirsBlocks {
            lines: Lines::new(input),
        }
    }
}

impl<R: Read> Source for LirsBlocks<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        while let Some(line) = self.lines.next()? {
            let id = line.text.trim_ascii();
            if id == b"*" {
                continue;
            }
            let key = whole(id).ok_or_else(|| line.fault(EXPECTED_BLOCK))?;
            return Ok(Some(Request {
                key,
                ..Request::default()
            }));
        }
        Ok(None)
    }
}

/// Reader of block ranges. Each line stands for `count` requests, for the blocks from `first-block`
/// on.
struct ArcBlocks<R> {
    lines: Lines<R>,
    next_block: u64,
    blocks_left: u64,
}

impl<R: Read> ArcBlocks<R> {
    fn new(input: R) -> Self {
        ArcBlocks {
            lines: Lines::new(input),
            next_block: 0,
            blocks_left: 0,
        }
    }
}

impl<R: Read> Source for ArcBlocks<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        if self.blocks_left == 0 {
            let Some(line) = self.lines.next()? else {
                return Ok(None);
            };
            let range = range(line.text).ok_or_else(|| line.fault(EXPECTED_RANGE))?;
            (self.next_block, self.blocks_left) = range;
        }
        let key = self.next_block;
        self.blocks_left -= 1;
        // The last block of the range may be the largest number.
        self.next_block = key.wrapping_add(1);
        Ok(Some(Request {
            key,
            ..Request::default()
        }))
    }
}

/// Parses the first block and the count. Of the two numbers after them only the first is required.
fn range(line: &[u8]) -> Option<(u64, u64)> {
    let fields = line.split(|&byte| byte == b' ' || byte == b'\t');
    let mut fields = fields.filter(|field| !field.is_empty()).map(whole);
    let (first, count) = (fields.next()??, fields.next()??);
    fields.next()??;
    if let Some(request_number) = fields.next() {
        request_number?;
    }
    let is_in_range = (1..=RANGE_BLOCKS_MAX).contains(&count);
    let is_whole = fields.next().is_none() && is_in_range;
    (is_whole && first.checked_add(count - 1).is_some()).then_some((first, count))
}

#[cfg(test)]
mod tests {
    use crate::{Error, read};

    fn keys(name: &str, text: &str) -> Result<Vec<u64>, String> {
        let requests = read(name, text.as_bytes()).map_err(|error| error.to_string())?;
        let keys: Result<Vec<u64>, Error> = requests.map(|r| r.map(|r| r.key)).collect();
        keys.map_err(|error| error.to_string())
    }

    #[test]
    fn each_line_is_an_id() {
        assert_eq!(keys("t.txt", "7\n 8 \r\n7"), Ok(vec![7, 8, 7]));
        let texts = keys("t.txt", "a b\n007\n").expect("texts are ids");
        assert_eq!(texts, [b"a b", &b"007"[..]].map(crate::key_of_text));
        assert_eq!(keys("t.txt", ""), Ok(vec![]));
        let error = keys("t.txt", "7\n\n8\n").expect_err("a blank line");
        assert_eq!(
            error,
            "t.txt:2: expected one id, a number or a text, found \"\""
        );
    }

    #[test]
    fn phase_separators_are_skipped() {
        assert_eq!(keys("t.trc", "*\n7\n* \n*\n8\n*"), Ok(vec![7, 8]));
        for text in ["7\nx\n", "7\n**\n", "7\n\n", "7\n-1\n"] {
            let error = keys("t.trc", text).expect_err("it is malformed");
            assert!(
                error.starts_with("t.trc:2: expected the number of a block"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_range_becomes_a_request_for_each_block() {
        assert_eq!(keys("t.lis", "5 3 0 0\n9 1\t0\r\n"), Ok(vec![5, 6, 7, 9]));
        let last = keys("t.lis", "18446744073709551614 2 0 0\n");
        assert_eq!(last, Ok(vec![u64::MAX - 1, u64::MAX]));
        let broken = [
            "",
            "5",
            "5 3",
            "5 3 x",
            "5 3 0 0 0",
            "5 0 0 0",
            "x 3 0 0",
            "5 16777217 0 0",
            "18446744073709551615 2 0 0",
            "5 3 0 x",
        ];
        for line in broken {
            let error = keys("t.lis", &format!("1 1 0 0\n{line}\n")).expect_err(line);
            assert!(
                error.starts_with("t.lis:2: expected `first-block count"),
                "{error}"
            );
        }
    }
}
