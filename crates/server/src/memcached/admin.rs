//! Administration of memcached: lists of all items, the memory limit, and commands that tune
//! features not present here.

use super::turn::{DATABASE, Progress, Turn};
use crate::command::config;
use std::fmt::Write as _;
use wire::memcached::KEY_BYTES_MAX;
use wire::memcached::text::line;

/// Least memory limit in megabytes that `cache_memlimit` accepts, as in memcached.
const MEGABYTES_MIN: u64 = 8;
/// Number of items per lock of the keyspace while items are listed.
const ITEMS_PER_LOCK: usize = 500;
/// Bytes of a list after which the rest waits until the client has taken them.
const PART_BYTES: usize = 64 << 10;
/// Maximum bytes of the list of `stats cachedump`, as in memcached.
const CACHEDUMP_BYTES_MAX: usize = 2 << 20;

/// Executes an administrative command.
pub(super) fn run(turn: &mut Turn<'_, ()>) -> Progress {
    let position = turn.out.len();
    let words: Vec<&[u8]> = (0..turn.keys.len().min(5))
        .map(|at| turn.sent_key(at))
        .collect();
    // The crawler's commands do not accept `noreply`; the number of words is wrong then.
    let count = turn.keys.len();
    let answer = match (words[0], &words[1..]) {
        (b"lru_crawler", [b"metadump", classes]) if count == 3 => match is_class(classes) {
            true => return dump(turn, Dump::Facts),
            false => "BADCLASS invalid class id",
        },
        (b"lru_crawler", [b"mgdump", classes]) if count == 3 => match is_class(classes) {
            true => return dump(turn, Dump::Keys),
            false => "BADCLASS invalid class id",
        },
        (b"lru_crawler", arguments) => crawler(arguments),
        (b"cache_memlimit", [megabytes, ..]) if count <= 3 => &limit_memory(turn, megabytes),
        (b"shutdown", _) => "ERROR: shutdown not enabled",
        (b"lru", [b"tune" | b"mode" | b"temp_ttl", _, ..]) => "OK",
        (b"slabs", [b"automove", b"0" | b"1" | b"2"]) => "OK",
        (b"slabs", [b"automove", level]) => match is_number(level) {
            true => "ERROR",
            false => "CLIENT_ERROR bad command line format",
        },
        (b"slabs", [b"reassign", _, _]) => "NOSPARE source class has no spare pages",
        _ => "ERROR",
    };
    line(turn.out, answer);
    if turn.request.is_noreply {
        turn.out.truncate(position);
    }
    Progress::Done
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// Whether a word selects classes of items. All items are in class 1, so that any selection that
/// memcached accepts selects all.
fn is_class(word: &[u8]) -> bool {
    word == b"all" || word == b"hash" || word.split(|&byte| byte == b',').all(is_number)
}

/// Replies to commands of memcached's crawler, which removes expired items. Here, expired items are
/// removed on time, so there is nothing to start.
fn crawler(arguments: &[&[u8]]) -> &'static str {
    match arguments {
        [b"enable" | b"disable"] => "OK",
        [b"crawl", classes] if is_class(classes) => "OK",
        [b"crawl", _] => "BADCLASS invalid class id",
        [b"sleep" | b"tocrawl", number] if is_number(number) => "OK",
        [b"sleep" | b"tocrawl", _] => "CLIENT_ERROR bad command line format",
        _ => "ERROR",
    }
}

/// Sets `maxmemory` to a number of megabytes.
fn limit_memory(turn: &Turn<'_, ()>, megabytes: &[u8]) -> String {
    let number = std::str::from_utf8(megabytes)
        .ok()
        .and_then(|text| text.parse::<u64>().ok());
    match number {
        None => "ERROR".to_owned(),
        Some(megabytes) if megabytes < MEGABYTES_MIN => {
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m".to_owned()
        }
        Some(megabytes) => {
            let size = format!("{megabytes}mb");
            match config::change(turn.server, b"maxmemory", size.as_bytes()) {
                Ok(()) => "OK".to_owned(),
                Err(error) => format!("SERVER_ERROR {error}"),
            }
        }
    }
}

/// Form of a list of all items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dump {
    /// `lru_crawler metadump`: a line of facts per item.
    Facts,
    /// `lru_crawler mgdump`: a line with a request for each item.
    Keys,
    /// `stats cachedump`: at most this number of items.
    Items(u64),
}

/// Lists items. Each call writes part of the list; the position of the next part is like SCAN's,
/// except that a list with a limit is written in one call.
pub(super) fn dump(turn: &mut Turn<'_, ()>, form: Dump) -> Progress {
    if turn.server.data.segments.is_some() {
        line(
            turn.out,
            "SERVER_ERROR the segment engine cannot list its keys",
        );
        return Progress::Done;
    }
    let mut left = match form {
        Dump::Items(limit) => limit,
        Dump::Facts | Dump::Keys => u64::MAX,
    };
    let (begin, mut cursor) = (turn.out.len(), turn.request.number);
    while left > 0 && !turn.out.is_cut_off() {
        cursor = list_some(turn, form, cursor, &mut left);
        if cursor == 0 {
            break;
        }
        let len = turn.out.len().saturating_sub(begin);
        match form {
            Dump::Items(_) if len > CACHEDUMP_BYTES_MAX => break,
            Dump::Facts | Dump::Keys if len > PART_BYTES => return Progress::Partial(cursor),
            _ => {}
        }
    }
    line(turn.out, if form == Dump::Keys { "EN" } else { "END" });
    Progress::Done
}

/// Writes the next items from a position on. Returns the position after them; 0 at the end.
fn list_some(turn: &mut Turn<'_, ()>, form: Dump, cursor: u64, left: &mut u64) -> u64 {
    let now = turn.server.clock.now();
    let mut view = turn.server.data.keyspace.lock_all(now);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let next = view.scan(DATABASE, cursor, ITEMS_PER_LOCK, &mut |key, _| {
        keys.push(key.to_vec())
    });
    for bytes in keys {
        let key = turn.server.data.keyspace.key(DATABASE, &bytes);
        let Some(facts) = view.facts(&key) else {
            continue;
        };
        let Ok(Some((head, value))) = view.peek_item(&key) else {
            continue;
        };
        if *left == 0 {
            break;
        }
        if matches!(form, Dump::Items(_)) && !is_word(&bytes) {
            continue;
        }
        *left -= 1;
        let ends_s = facts.deadline.map(|deadline| deadline.0.div_ceil(1000));
        let out = &mut *turn.out;
        match form {
            Dump::Items(_) => {
                out.extend_from_slice(b"ITEM ");
                out.extend_from_slice(&bytes);
                let ends_s = ends_s.unwrap_or(0);
                line(out, &format!(" [{} b; {ends_s} s]", value.len()));
            }
            Dump::Keys => {
                let encoded = encode(&bytes);
                line(out, &format!("mg {encoded}"));
            }
            Dump::Facts => {
                let mut text = format!("key={} exp=", encode(&bytes));
                let ends = ends_s.map_or_else(|| "-1".to_owned(), |ends_s| ends_s.to_string());
                let accessed_s = (now.0 - facts.idle_ms.unwrap_or(0).min(now.0)) / 1000;
                let fetched = if head.is_fetched { "yes" } else { "no" };
                // Writing to a string cannot fail.
                let _written = writeln!(
                    text,
                    "{ends} la={accessed_s} cas={} fetch={fetched} cls=1 size={}",
                    head.cas, facts.bytes
                );
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
    next
}

/// Whether a key, or part of one, can be written in a line unchanged. Keys of other protocols and
/// of binary requests may contain blanks and line breaks.
pub(super) fn is_word(key: &[u8]) -> bool {
    key.len() <= KEY_BYTES_MAX && !key.iter().any(u8::is_ascii_whitespace)
}

/// Encodes a key as in a URI: letters, digits, `-`, `.`, `_` and `~` stay.
fn encode(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _written = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_as_in_a_uri() {
        assert_eq!(encode(b"a-b.c_d~9"), "a-b.c_d~9");
        assert_eq!(encode(b"a%b/\x01\xff:"), "a%25b%2F%01%FF%3A");
    }

    #[test]
    fn classes_are_numbers_or_names_of_all() {
        for (word, is_one) in [
            ("all", true),
            ("hash", true),
            ("1,2", true),
            ("x", false),
            ("1,", false),
            ("", false),
        ] {
            assert_eq!(is_class(word.as_bytes()), is_one, "{word}");
        }
    }
}
