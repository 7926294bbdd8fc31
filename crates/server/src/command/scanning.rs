//! Common parts of SCAN, HSCAN, SSCAN and ZSCAN: the cursor, the options, and the reply.

use engine::refusal::Refusal;
use wire::number::{Text, parse_i64, parse_u64};
use wire::{Args, Output, Reply, glob};

/// Number of elements examined per call without COUNT.
pub const COUNT_DEFAULT: usize = 10;
/// Upper limit of COUNT. No collection has more elements.
const COUNT_MAX: i64 = u32::MAX as i64;
/// Error for NOVALUES with another type.
pub const NOT_A_HASH: Refusal = Refusal::Message("ERR NOVALUES option can only be used in HSCAN");

/// Parses a cursor.
pub fn cursor(text: &[u8]) -> Result<u64, Refusal> {
    parse_u64(text).ok_or(Refusal::Message("ERR invalid cursor"))
}

/// Parses the argument of COUNT.
pub fn count(text: &[u8]) -> Result<usize, Refusal> {
    let count = parse_i64(text).ok_or(Refusal::NotInteger)?;
    if count < 1 {
        return Err(Refusal::Syntax);
    }
    Ok(count.min(COUNT_MAX) as usize)
}

/// Returns the pattern unless it matches everything.
pub fn selective(pattern: &[u8]) -> Option<&[u8]> {
    (pattern != b"*").then_some(pattern)
}

/// Options of HSCAN, SSCAN and ZSCAN.
pub struct Options<'a> {
    pattern: Option<&'a [u8]>,
    /// Approximate number of elements to examine.
    pub count: usize,
    /// Whether values are returned, which NOVALUES prevents.
    pub with_values: bool,
}

impl<'a> Options<'a> {
    /// Parses `[MATCH pattern] [COUNT count] [NOVALUES]`; the last is accepted for hashes only.
    pub fn parse(args: Args<'a>, is_hash: bool) -> Result<Options<'a>, Refusal> {
        let mut options = Options {
            pattern: None,
            count: COUNT_DEFAULT,
            with_values: true,
        };
        let mut index = 0;
        while let Some(option) = args.get(index) {
            match args.get(index + 1) {
                Some(number) if option.eq_ignore_ascii_case(b"COUNT") => {
                    options.count = count(number)?;
                    index += 1;
                }
                Some(pattern) if option.eq_ignore_ascii_case(b"MATCH") => {
                    options.pattern = selective(pattern);
                    index += 1;
                }
                _ if option.eq_ignore_ascii_case(b"NOVALUES") => {
                    if !is_hash {
                        return Err(NOT_A_HASH);
                    }
                    options.with_values = false;
                }
                _ => return Err(Refusal::Syntax),
            }
            index += 1;
        }
        Ok(options)
    }

    /// Whether the pattern selects an element with this name.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// Replies with the next cursor and the found elements: `count` replies encoded in `found`.
pub fn reply_page(reply: &mut Reply<'_>, next: u64, count: usize, found: &Output) {
    reply.array(2);
    reply.bulk(Text::unsigned(next).as_bytes());
    reply.array(count);
    reply.append(found);
}

/// Number of elements that a command which may repeat elements writes before it checks whether its
/// reply was cut off.
const REPEATS_STEP: u64 = 1024;

/// Calls `work` with numbers that add up to `count`, until it returns false.
pub fn in_steps(mut count: u64, mut work: impl FnMut(usize) -> bool) {
    while count > 0 {
        let step = count.min(REPEATS_STEP);
        count -= step;
        if !work(step as usize) {
            return;
        }
    }
}
