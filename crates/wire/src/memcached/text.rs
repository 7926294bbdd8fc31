//! Replies of the text protocol.

use crate::output::Output;

/// Appends `VALUE key flags bytes [cas]`; the value of `len` bytes and a line end must follow.
#[inline]
pub fn value_head(out: &mut Output, key: &[u8], client_flags: u32, len: usize, cas: Option<u64>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    for number in [u64::from(client_flags), len as u64].into_iter().chain(cas) {
        out.push(b' ');
        out.push_u64(number);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the result of `incr` or `decr`.
pub fn number(out: &mut Output, number: u64) {
    out.push_u64(number);
    out.extend_from_slice(b"\r\n");
}

/// Appends a line such as `STORED`.
pub fn line(out: &mut Output, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends `STAT name value`.
pub fn stat(out: &mut Output, name: &str, value: &str) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name.as_bytes());
    out.push(b' ');
    line(out, value);
}
