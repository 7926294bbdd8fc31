//! What SCAN and its kin have in common: the cursor, the options, the page that is replied.

use super::refusal::Refusal;
use crate::glob;
use wire::number::{Text, parse_i64, parse_u64};
use wire::{Args, Reply};

/// Elements that one call looks at when COUNT does not say.
pub const COUNT_DEFAULT: usize = 10;
/// More than anything holds: a larger COUNT asks for no more.
const COUNT_MAX: i64 = u32::MAX as i64;
/// The refusal of an option that asks hashes for less.
pub const NOT_A_HASH: Refusal = Refusal::Says("ERR NOVALUES option can only be used in HSCAN");

/// Reads a cursor.
pub fn cursor(text: &[u8]) -> Result<u64, Refusal> {
    parse_u64(text).ok_or(Refusal::Says("ERR invalid cursor"))
}

/// Reads what COUNT is given.
pub fn count(text: &[u8]) -> Result<usize, Refusal> {
    let count = parse_i64(text).ok_or(Refusal::NotInteger)?;
    if count < 1 {
        return Err(Refusal::Syntax);
    }
    Ok(count.min(COUNT_MAX) as usize)
}

/// A pattern, unless it is the one that everything matches.
pub fn selective(pattern: &[u8]) -> Option<&[u8]> {
    (pattern != b"*").then_some(pattern)
}

/// The options of HSCAN, SSCAN and ZSCAN.
pub struct Options<'a> {
    pattern: Option<&'a [u8]>,
    /// About how many elements to look at.
    pub count: usize,
    /// NOVALUES was not given.
    pub with_values: bool,
}

impl<'a> Options<'a> {
    /// Reads `[MATCH pattern] [COUNT count] [NOVALUES]`, the last for hashes only.
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

    /// Whether an element of this name is asked for.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// Replies with the next cursor and what was found: so many replies, encoded.
pub fn reply_page(reply: &mut Reply<'_>, next: u64, count: usize, found: &[u8]) {
    reply.array(2);
    reply.bulk(Text::unsigned(next).as_bytes());
    reply.array(count);
    reply.raw(found);
}
