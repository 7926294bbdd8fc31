//! Replies of the meta protocol: a status and the flags that were asked for, in their order.

use super::request::Meta;
use crate::number::push_u64;

/// What a reply may tell of an item.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item<'a> {
    /// The key as it was sent.
    pub key: &'a [u8],
    /// Bytes of the value.
    pub len: usize,
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// The cas number.
    pub cas: u64,
    /// Seconds that are left; `None`: it stays.
    pub ttl_seconds: Option<u64>,
    /// Seconds since it was last asked for.
    pub idle_seconds: u64,
    /// It had been asked for before.
    pub was_hit: bool,
    /// This client has won the right to recache (`W`).
    pub has_won: bool,
    /// It is out of date (`X`).
    pub is_stale: bool,
    /// Another client has won already (`Z`).
    pub is_taken: bool,
}

/// Appends a status with no item behind it: `EN`, `NF`, `NS`, `EX`, and `HD` of what stores and
/// deletes. Only what the request itself said is repeated: opaque and key; and of a storage command a cas
/// number of 0, when that was asked for.
pub fn status(
    out: &mut Vec<u8>,
    status: &str,
    meta: &Meta,
    input: &[u8],
    key: &[u8],
    stores: bool,
) {
    out.extend_from_slice(status.as_bytes());
    for (letter, word) in words(meta, input) {
        match letter {
            b'O' => spaced(out, word),
            b'k' => named(out, meta, key),
            b'c' if stores => counted(out, b'c', 0),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends what is told of an item: `VA` when its value was asked for (`v`), which then follows with a line's
/// end, else `HD`.
pub fn item(out: &mut Vec<u8>, meta: &Meta, input: &[u8], item: &Item<'_>) {
    if meta.has(b'v') {
        out.extend_from_slice(b"VA ");
        push_u64(out, item.len as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for (letter, word) in words(meta, input) {
        match letter {
            b'O' => spaced(out, word),
            b'k' => named(out, meta, item.key),
            b'c' => counted(out, b'c', item.cas),
            b'f' => counted(out, b'f', u64::from(item.client_flags)),
            b'h' => counted(out, b'h', u64::from(item.was_hit)),
            b'l' => counted(out, b'l', item.idle_seconds),
            b's' => counted(out, b's', item.len as u64),
            b't' => match item.ttl_seconds {
                Some(seconds) => counted(out, b't', seconds),
                None => spaced(out, b"t-1"),
            },
            _ => {}
        }
    }
    for (is_set, letter) in [
        (item.is_taken, b"Z"),
        (item.is_stale, b"X"),
        (item.has_won, b"W"),
    ] {
        if is_set {
            spaced(out, letter);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The letters of a request's flags, in their order.
pub fn letters(meta: &Meta, input: &[u8]) -> impl Iterator<Item = u8> {
    words(meta, input).map(|(letter, _)| letter)
}

/// The flags of a request in their order: the letter, and the whole word.
fn words<'i>(meta: &Meta, input: &'i [u8]) -> impl Iterator<Item = (u8, &'i [u8])> {
    let words = meta.words.map_or(&[][..], |span| &input[span.range()]);
    words
        .split(|&byte| byte == b' ')
        .filter_map(|word| Some((*word.first()?, word)))
}

fn spaced(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

/// The key as it was sent, and whether that is base64; wherever the flag that says so stood.
fn named(out: &mut Vec<u8>, meta: &Meta, key: &[u8]) {
    spaced(out, b"k");
    out.extend_from_slice(key);
    if meta.has(b'b') {
        spaced(out, b"b");
    }
}

fn counted(out: &mut Vec<u8>, letter: u8, number: u64) {
    spaced(out, &[letter]);
    push_u64(out, number);
}
