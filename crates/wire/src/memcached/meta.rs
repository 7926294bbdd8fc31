//! Replies of the meta protocol: a status and the requested flags in the order of the request.

use super::request::Meta;
use crate::output::Output;

/// Properties of an item that a reply may contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item<'a> {
    /// Key as sent.
    pub key: &'a [u8],
    /// Bytes of the value.
    pub len: usize,
    /// Whether the reply contains the value.
    pub has_value: bool,
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// CAS number.
    pub cas: u64,
    /// Remaining TTL in seconds; `None`: no expiry.
    pub ttl_seconds: Option<u64>,
    /// Seconds since the last access.
    pub idle_seconds: u64,
    /// Whether the item was accessed before.
    pub was_hit: bool,
    /// Whether this client has won the right to recache (`W`).
    pub has_won: bool,
    /// Whether the item is out of date (`X`).
    pub is_stale: bool,
    /// Whether another client has already won (`Z`).
    pub is_taken: bool,
}

/// Appends a status without an item: `EN`, `NF`, `NS`, `EX`, and the `HD` of commands that store or
/// delete. It repeats only what the request contained: opaque and key. For a storage command it
/// adds, if requested, the CAS number, which is 0 if nothing was stored, and the size of the value
/// (`stored`).
pub fn status(
    out: &mut Output,
    status: &str,
    meta: &Meta,
    input: &[u8],
    key: &[u8],
    stored: Option<(u64, usize)>,
) {
    out.extend_from_slice(status.as_bytes());
    for (letter, word) in words(meta, input) {
        match (letter, stored) {
            (b'O', _) => spaced(out, word),
            (b'k', _) => named(out, meta, key),
            (b'c', Some((cas, _))) => counted(out, b'c', cas),
            (b's', Some((_, len))) => counted(out, b's', len as u64),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Properties that `mg` returns.
pub const OF_GET: &[u8] = b"Okcfhlst";
/// Properties that `ma` returns.
pub const OF_ARITHMETIC: &[u8] = b"Okct";

/// Appends those properties of an item that are in `shown`: `VA` if the reply contains the value,
/// which must follow with a line end, and otherwise `HD`.
pub fn item(out: &mut Output, meta: &Meta, input: &[u8], shown: &[u8], item: &Item<'_>) {
    if item.has_value {
        out.extend_from_slice(b"VA ");
        out.push_u64(item.len as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for (letter, word) in words(meta, input).filter(|(letter, _)| shown.contains(letter)) {
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

/// Returns the letters of a request's flags in order.
pub fn letters(meta: &Meta, input: &[u8]) -> impl Iterator<Item = u8> {
    words(meta, input).map(|(letter, _)| letter)
}

/// Returns the flags of a request in order: the letter, and the whole word.
fn words<'i>(meta: &Meta, input: &'i [u8]) -> impl Iterator<Item = (u8, &'i [u8])> {
    input[meta.words.range()]
        .split(|&byte| byte == b' ')
        .filter_map(|word| Some((*word.first()?, word)))
}

fn spaced(out: &mut Output, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

/// Appends the key as sent, and whether it is base64, regardless of that flag's position.
fn named(out: &mut Output, meta: &Meta, key: &[u8]) {
    spaced(out, b"k");
    out.extend_from_slice(key);
    if meta.has(b'b') {
        spaced(out, b"b");
    }
}

fn counted(out: &mut Output, letter: u8, number: u64) {
    spaced(out, &[letter]);
    out.push_u64(number);
}
