//! Requests without content, as bytes: which of them are *plain*, so that their answer from the
//! store depends only on the key and the fields that the stored response lists in Vary.
//!
//! A request is plain if it is `GET` or `HEAD` of HTTP/1.1 for a path, has lines that end with CR
//! and LF, and has no field of any [kind](Present). That is the classification by which every
//! request is answered, so a rule that reads one more field must give it a kind and thereby
//! excludes it here. `Connection: keep-alive` is the default of HTTP/1.1, and browsers send it.
//!
//! The parser is httparse with its defaults, which is how hyper parses requests. Plain requests are
//! a subset of what it accepts, and their targets a subset of what the crate `http` accepts without
//! a change. Anything not recognised here is left to hyper.

use super::fields::Lines;
use super::present::Present;
use hyper::header::{CONNECTION, HeaderName};
use std::mem::MaybeUninit;

/// Maximum number of fields of a request that is read here.
pub const FIELDS_MAX: usize = 64;

/// Memory for the fields of a request.
pub type Room<'b> = [MaybeUninit<httparse::Header<'b>>; FIELDS_MAX];

/// Classification of the first bytes of a connection.
#[derive(Debug)]
pub enum Begin<'h, 'b> {
    /// The head is incomplete.
    Partial,
    /// A plain request, and the length of its head.
    Plain(Plain<'h, 'b>, usize),
    /// Another request without content, and the length of its head.
    Single(usize),
    /// Anything else: a request with content, a malformed request, or another protocol.
    Other,
}

/// Parsed plain request.
#[derive(Debug)]
pub struct Plain<'h, 'b> {
    /// Whether the method is HEAD.
    pub is_head: bool,
    /// Path and query.
    pub path: &'b str,
    fields: &'h [httparse::Header<'b>],
}

impl Plain<'_, '_> {
    /// Returns the number of fields.
    pub fn field_count(&self) -> usize {
        self.fields.len()
    }
}

impl Lines for Plain<'_, '_> {
    fn lines(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        // A field of a single connection cannot select a response.
        let is_hidden = *name == CONNECTION;
        let is_wanted = move |field: &&httparse::Header<'_>| {
            !is_hidden && field.name.eq_ignore_ascii_case(name.as_str())
        };
        self.fields
            .iter()
            .filter(is_wanted)
            .map(|field| field.value)
    }
}

/// Classifies the first request in the bytes of a connection.
pub fn begin<'h, 'b>(bytes: &'b [u8], room: &'h mut Room<'b>) -> Begin<'h, 'b> {
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, room) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Begin::Partial,
        Err(_) => return Begin::Other,
    };
    let (Some(method), Some(path)) = (request.method, request.path) else {
        return Begin::Other;
    };
    let fields: &[httparse::Header<'_>] = request.headers;
    // The parser skips empty lines before a request, and accepts LF without CR, but plain requests
    // must have neither.
    if !bytes.starts_with(method.as_bytes()) || !has_usual_ends(&bytes[..length]) {
        return Begin::Other;
    }
    let named = fields.iter().filter(|field| !is_usual_connection(field));
    let present = Present::of_names(named.map(|field| field.name));
    let is_head = method == "HEAD";
    let is_plain = (is_head || method == "GET")
        && request.version == Some(1)
        && present == Present::default()
        && path.starts_with('/')
        && path.bytes().all(|byte| PATH[usize::from(byte)]);
    if is_plain {
        let plain = Plain {
            is_head,
            path,
            fields,
        };
        return Begin::Plain(plain, length);
    }
    let mut names = fields.iter().map(|field| field.name);
    let may_go_on = present.has(Present::FRAMING)
        || present.has(Present::EXPECT)
        || names.any(|name| name.eq_ignore_ascii_case("upgrade"))
        || method == "CONNECT";
    match may_go_on {
        true => Begin::Other,
        false => Begin::Single(length),
    }
}

/// Returns true if each line ends with CR and LF.
fn has_usual_ends(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().all(|&byte| {
        let is_usual = byte != b'\n' || before == b'\r';
        before = byte;
        is_usual
    })
}

fn is_usual_connection(field: &httparse::Header<'_>) -> bool {
    field.name.eq_ignore_ascii_case("connection") && field.value.eq_ignore_ascii_case(b"keep-alive")
}

/// Bytes of a path and a query (RFC 3986, sections 3.3 and 3.4).
const PATH: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"-._~!$&'()*+,;=:@/?%";
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests;
