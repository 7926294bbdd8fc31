//! The binary protocol: requests and replies of one header, extras, a key and a value.
//!
//! ```text
//! header  magic 1 │ opcode 1 │ key bytes 2 │ extras bytes 1 │ data type 1 │ vbucket or status 2 │
//!         body bytes 4 │ opaque 4 │ cas 8; the body is extras, key and value, without separators
//! ```
//!
//! Numbers are big-endian. A request becomes the [`Request`] of the same text command, so that
//! both run through the same code. The parser buffers a body only if its length is within the
//! limits; a longer one is refused as soon as its key has arrived, and skipped.

pub use super::request::Header;
use super::request::{KEY_BYTES_MAX, Request, Verb};
use crate::args::Span;
use crate::output::Output;

/// First byte of a request.
pub const MAGIC: u8 = 0x80;
/// First byte of a reply.
pub const REPLY_MAGIC: u8 = 0x81;
/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 24;
/// Maximum length in bytes of the data of an authentication.
const AUTH_BYTES_MAX: usize = 1024;

/// Status of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// There is no item.
    NotFound = 0x01,
    /// The item exists, or has another CAS number.
    Exists = 0x02,
    /// The value exceeds the largest size.
    TooLarge = 0x03,
    /// A length in the header does not fit the operation.
    Invalid = 0x04,
    /// The condition of `append` or `prepend` did not hold.
    NotStored = 0x05,
    /// The value is not a number.
    NoNumber = 0x06,
    /// The client is not authenticated, or its password is wrong.
    AuthFailed = 0x20,
    /// The operation code is unknown.
    UnknownCommand = 0x81,
    /// There is no room.
    NoMemory = 0x82,
    /// The key holds a type other than a string.
    WrongType = 0x84,
    /// The server cannot answer yet.
    TemporaryFailure = 0x86,
}

impl Status {
    /// Returns the text that is the body of an error reply.
    fn text(self) -> &'static str {
        match self {
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NoNumber => "Non-numeric server-side value for incr or decr",
            Status::AuthFailed => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::NoMemory => "Out of memory",
            Status::WrongType => "The key holds a type other than a string",
            Status::TemporaryFailure => "Temporary failure",
        }
    }
}

/// Appends a successful reply. A value of `value_bytes` must follow.
#[inline]
pub fn reply(
    out: &mut Output,
    header: Header,
    extras: &[u8],
    key: &[u8],
    value_bytes: usize,
    cas: u64,
) {
    head(out, header, 0, [extras.len(), key.len(), value_bytes], cas);
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
}

/// Appends an error reply.
pub fn refuse(out: &mut Output, header: Header, status: Status) {
    let text = status.text();
    head(out, header, status as u16, [0, 0, text.len()], 0);
    out.extend_from_slice(text.as_bytes());
}

/// Appends the reply to a read that returns the key, for a missing item.
pub fn miss(out: &mut Output, header: Header, key: &[u8]) {
    head(out, header, Status::NotFound as u16, [0, key.len(), 0], 0);
    out.extend_from_slice(key);
}

/// Appends one row of statistics. An empty name and value end the rows.
pub fn stat(out: &mut Output, header: Header, name: &[u8], value: &[u8]) {
    reply(out, header, &[], name, value.len(), 0);
    out.extend_from_slice(value);
}

/// Appends a header. `parts` are the lengths of extras, key and value.
#[inline]
fn head(out: &mut Output, header: Header, status: u16, parts: [usize; 3], cas: u64) {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0] = REPLY_MAGIC;
    bytes[1] = header.opcode;
    bytes[2..4].copy_from_slice(&(parts[1] as u16).to_be_bytes());
    bytes[4] = parts[0] as u8;
    bytes[6..8].copy_from_slice(&status.to_be_bytes());
    let body = parts[0] + parts[1] + parts[2];
    bytes[8..12].copy_from_slice(&(body as u32).to_be_bytes());
    bytes[12..16].copy_from_slice(&header.opaque.to_be_bytes());
    bytes[16..].copy_from_slice(&cas.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Whether a part of a body is present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Never,
    Maybe,
    Always,
}

impl Part {
    fn fits(self, len: usize) -> bool {
        match self {
            Part::Never => len == 0,
            Part::Maybe => true,
            Part::Always => len > 0,
        }
    }
}

/// Form of the requests with one operation code.
struct Shape {
    verb: Verb,
    /// Permitted lengths of the extras in bytes.
    extras: &'static [usize],
    key: Part,
    value: Part,
}

/// Returns the form of an operation and whether it is quiet; `None` for an unknown code.
fn shape(opcode: u8) -> Option<(Shape, bool)> {
    use Part::{Always, Maybe, Never};
    let (loud, is_quiet) = match opcode {
        0x09 | 0x0d | 0x1e | 0x24 => (opcode, true),
        0x11..=0x18 => (opcode - 0x10, true),
        0x19 | 0x1a => (opcode - 0x0b, true),
        _ => (opcode, false),
    };
    let (verb, extras, key, value): (_, &'static [usize], _, _) = match loud {
        0x00 | 0x09 | 0x0c | 0x0d => (Verb::Get, &[0], Always, Never),
        0x01 => (Verb::Set, &[8], Always, Maybe),
        0x02 => (Verb::Add, &[8], Always, Maybe),
        0x03 => (Verb::Replace, &[8], Always, Maybe),
        0x04 => (Verb::Delete, &[0], Always, Never),
        0x05 => (Verb::Incr, &[20], Always, Never),
        0x06 => (Verb::Decr, &[20], Always, Never),
        0x07 => (Verb::Quit, &[0], Never, Never),
        0x08 => (Verb::FlushAll, &[0, 4], Never, Never),
        0x0a => (Verb::Noop, &[0], Never, Never),
        0x0b => (Verb::Version, &[0], Never, Never),
        0x0e => (Verb::Append, &[0], Always, Maybe),
        0x0f => (Verb::Prepend, &[0], Always, Maybe),
        0x10 => (Verb::Stats, &[0], Maybe, Never),
        0x1b => (Verb::Verbosity, &[4], Never, Never),
        0x1c => (Verb::Touch, &[4], Always, Never),
        0x1d | 0x1e | 0x23 | 0x24 => (Verb::Gat, &[4], Always, Never),
        0x20 => (Verb::SaslList, &[0], Never, Never),
        0x21 | 0x22 => (Verb::SaslAuth, &[0], Always, Maybe),
        _ => return None,
    };
    let shape = Shape {
        verb,
        extras,
        key,
        value,
    };
    Some((shape, is_quiet))
}

/// Result of parsing the start of the input.
pub(super) enum Found {
    /// A given number of bytes must be available.
    Needs(usize),
    Request(usize, Request),
    Refused(Refused),
}

/// A request that is refused.
pub(super) struct Refused {
    pub header: Header,
    pub status: Status,
    /// Number of its bytes that are available, and how many of these to skip.
    pub consumed: usize,
    pub skip: u64,
    pub is_fatal: bool,
    pub stale: Option<Span>,
}

/// Returns the big-endian number in four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// Returns the big-endian number in eight bytes.
fn long(bytes: &[u8]) -> u64 {
    u64::from(number(&bytes[..4])) << 32 | u64::from(number(&bytes[4..]))
}

/// Parses the request at the start of `input`, which begins with [`MAGIC`]. A longer value than
/// `value_bytes_max` is refused.
pub(super) fn parse(input: &[u8], value_bytes_max: usize, spans: &mut Vec<Span>) -> Found {
    let Some(head) = input.get(..HEADER_BYTES) else {
        return Found::Needs(HEADER_BYTES);
    };
    let header = Header {
        opcode: head[1],
        opaque: number(&head[12..16]),
    };
    let (key_bytes, extras_bytes) = (number(&head[2..4]) as usize, usize::from(head[4]));
    let body_bytes = number(&head[8..12]) as usize;
    let refused = |status, is_fatal| {
        Found::Refused(Refused {
            header,
            status,
            consumed: HEADER_BYTES,
            skip: body_bytes as u64,
            is_fatal,
            stale: None,
        })
    };
    // Without a sum of lengths that fits, the start of the next request is unknown.
    let Some(value_bytes) = body_bytes.checked_sub(key_bytes + extras_bytes) else {
        return refused(Status::UnknownCommand, true);
    };
    if key_bytes > KEY_BYTES_MAX {
        return refused(Status::Invalid, true);
    }
    let Some((shape, is_quiet)) = shape(header.opcode) else {
        return refused(Status::UnknownCommand, false);
    };
    let is_fine = shape.extras.contains(&extras_bytes)
        && shape.key.fits(key_bytes)
        && shape.value.fits(value_bytes);
    if !is_fine || shape.verb == Verb::SaslAuth && value_bytes > AUTH_BYTES_MAX {
        return refused(Status::Invalid, true);
    }
    let key = Span::new(HEADER_BYTES + extras_bytes, key_bytes);
    let begin = key.range().end;
    if value_bytes > value_bytes_max && shape.verb != Verb::SaslAuth {
        if input.len() < begin {
            return Found::Needs(begin);
        }
        return Found::Refused(Refused {
            header,
            status: Status::TooLarge,
            consumed: begin,
            skip: value_bytes as u64,
            is_fatal: false,
            stale: (shape.verb == Verb::Set).then_some(key),
        });
    }
    let consumed = begin + value_bytes;
    if input.len() < consumed {
        return Found::Needs(consumed);
    }
    let mut request = Request::of(shape.verb, spans);
    request.binary = Some(header);
    request.is_noreply = is_quiet;
    request.value = Span::new(begin, value_bytes);
    request.meta.cas = long(&head[16..]);
    with_extras(&mut request, &input[HEADER_BYTES..key.range().start]);
    if key_bytes > 0 {
        spans.push(key);
        request.key_count = 1;
    }
    Found::Request(consumed, request)
}

/// Returns the time in four bytes. It is unsigned, as in memcached, except that the largest number
/// means -1, because clients send -1 for an item that expires immediately.
fn exptime(bytes: &[u8]) -> i64 {
    match number(bytes) {
        u32::MAX => -1,
        seconds => i64::from(seconds),
    }
}

/// Reads the extras, whose length fits the operation.
fn with_extras(request: &mut Request, extras: &[u8]) {
    match (request.verb, extras.len()) {
        (Verb::Set | Verb::Add | Verb::Replace, 8) => {
            request.client_flags = number(&extras[..4]);
            request.exptime = exptime(&extras[4..]);
        }
        (Verb::Incr | Verb::Decr, 20) => {
            request.number = long(&extras[..8]);
            request.meta.initial = long(&extras[8..16]);
            request.exptime = exptime(&extras[16..]);
        }
        (_, 4) => request.exptime = exptime(extras),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Complaint, Limits, Parsed, Parser, Refusal};
    use super::*;

    const LIMITS: Limits = Limits {
        value_bytes_max: 100,
    };

    fn sent(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
        let header = Header { opcode, opaque: 7 };
        let mut bytes = Output::default();
        reply(&mut bytes, header, extras, key, value.len(), cas);
        bytes.extend_from_slice(value);
        let mut bytes = bytes.to_vec();
        bytes[0] = MAGIC;
        bytes
    }

    /// Parses the whole input in pieces of a size.
    fn parse_all(input: &[u8], piece: usize) -> Vec<Parsed> {
        let (mut parser, mut parsed, mut at, mut end) = (Parser::new(LIMITS), vec![], 0, 0);
        while end < input.len() {
            end = input.len().min(end + piece);
            loop {
                match parser.parse(&input[at..end], &mut Vec::new()) {
                    Parsed::Incomplete => break,
                    Parsed::Skipped { consumed } => at += consumed,
                    found @ (Parsed::Request { consumed, .. }
                    | Parsed::Refused { consumed, .. }) => {
                        at += consumed;
                        parsed.push(found);
                        if matches!(found, Parsed::Refused { refusal, .. } if refusal.is_fatal) {
                            return parsed;
                        }
                    }
                }
            }
        }
        parsed
    }

    fn refusal(parsed: &Parsed) -> &Refusal {
        match parsed {
            Parsed::Refused { refusal, .. } => refusal,
            other => panic!("{other:?}"),
        }
    }

    fn statuses(input: &[u8]) -> Vec<Option<(Status, bool)>> {
        let status = |parsed: &Parsed| match parsed {
            Parsed::Refused { refusal, .. } => match refusal.complaint {
                Complaint::Binary(header, status) => {
                    assert_eq!(header.opaque, 7);
                    Some((status, refusal.is_fatal))
                }
                other => panic!("{other:?}"),
            },
            _ => None,
        };
        let whole: Vec<_> = parse_all(input, input.len()).iter().map(status).collect();
        let pieces: Vec<_> = parse_all(input, 3).iter().map(status).collect();
        assert_eq!(whole, pieces);
        whole
    }

    #[test]
    fn a_request_is_read_to_its_parts() {
        let extras = [[0, 0, 0, 9], 0xffff_ffff_u32.to_be_bytes()].concat();
        let input = sent(0x11, &extras, b"key", b"value", 77);
        for piece in [1, 5, 24, 100] {
            let [Parsed::Request { consumed, request }] = parse_all(&input, piece)[..] else {
                panic!("one request in pieces of {piece}");
            };
            assert_eq!((consumed, request.verb), (input.len(), Verb::Set));
            assert!(request.is_noreply);
            assert_eq!((request.client_flags, request.exptime), (9, -1));
            assert_eq!(request.meta.cas, 77);
            assert_eq!(&input[request.value.range()], b"value");
            let header = Header {
                opcode: 0x11,
                opaque: 7,
            };
            assert_eq!((request.binary, request.key_count), (Some(header), 1));
        }
        for (time, wanted) in [(u32::MAX, -1), (u32::MAX - 1, 4_294_967_294), (60, 60)] {
            let touch = sent(0x1c, &time.to_be_bytes(), b"k", b"", 0);
            let [Parsed::Request { request, .. }] = parse_all(&touch, 9)[..] else {
                panic!("one request");
            };
            assert_eq!(request.exptime, wanted);
        }
        let extras = [&5u64.to_be_bytes()[..], &1u64.to_be_bytes(), &[0, 0, 0, 60]].concat();
        let counting = sent(0x06, &extras, b"n", b"", 0);
        let [Parsed::Request { request, .. }] = parse_all(&counting, 9)[..] else {
            panic!("one request");
        };
        assert_eq!((request.verb, request.number), (Verb::Decr, 5));
        assert_eq!((request.meta.initial, request.exptime), (1, 60));
    }

    #[test]
    fn every_operation_accepts_only_its_own_parts() {
        for opcode in 0..=u8::MAX {
            let Some((shape, _)) = shape(opcode) else {
                assert_eq!(
                    statuses(
                        &[
                            sent(opcode, b"", b"k", b"abc", 0),
                            sent(0x0a, b"", b"", b"", 0)
                        ]
                        .concat()
                    ),
                    [Some((Status::UnknownCommand, false)), None],
                    "{opcode:#x}"
                );
                continue;
            };
            for extras in 0..=21 {
                for (key, value) in [("", ""), ("k", ""), ("", "v"), ("k", "v")] {
                    let is_fine = shape.extras.contains(&extras)
                        && shape.key.fits(key.len())
                        && shape.value.fits(value.len());
                    let input = sent(
                        opcode,
                        &[0; 21][..extras],
                        key.as_bytes(),
                        value.as_bytes(),
                        0,
                    );
                    let wanted = if is_fine {
                        None
                    } else {
                        Some((Status::Invalid, true))
                    };
                    assert_eq!(
                        statuses(&input),
                        [wanted],
                        "{opcode:#x} {extras} {key} {value}"
                    );
                }
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused_without_waiting_for_the_body() {
        // A key of 251 bytes, and a body of 4 GiB.
        let mut long_key = sent(0x00, b"", &[b'k'; 251], b"", 0);
        long_key.truncate(HEADER_BYTES);
        assert_eq!(statuses(&long_key), [Some((Status::Invalid, true))]);
        let mut huge = sent(0x01, &[0; 8], b"k", b"", 0);
        huge[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        let [parsed] = parse_all(&huge, huge.len())[..] else {
            panic!("one refusal");
        };
        assert_eq!(refusal(&parsed).stale.map(|key| key.range()), Some(32..33));
        assert_eq!(statuses(&huge), [Some((Status::TooLarge, false))]);
        // The key and the extras together are longer than the body.
        let mut short = sent(0x01, &[0; 8], b"k", b"", 0);
        short[8..12].copy_from_slice(&8u32.to_be_bytes());
        assert_eq!(statuses(&short), [Some((Status::UnknownCommand, true))]);
        let authentication = sent(0x21, b"", b"PLAIN", &[0; AUTH_BYTES_MAX + 1], 0);
        assert_eq!(statuses(&authentication), [Some((Status::Invalid, true))]);
    }

    #[test]
    fn a_value_that_is_too_long_is_skipped() {
        let long = sent(0x01, &[0; 8], b"k", &[b'x'; 101], 0);
        let input = [long, sent(0x0a, b"", b"", b"", 0)].concat();
        assert_eq!(statuses(&input), [Some((Status::TooLarge, false)), None]);
    }

    #[test]
    fn a_binary_stream_contains_nothing_else() {
        let input = [&sent(0x0a, b"", b"", b"", 0)[..], b"get k\r\n"].concat();
        for piece in [1, 30] {
            let parsed = parse_all(&input, piece);
            assert_eq!(refusal(&parsed[1]).complaint, Complaint::Magic);
        }
        // A stream that began with text stays text.
        let input = [b"version\r\n", &sent(0x0a, b"", b"", b"", 0)[..], b"\r\n"].concat();
        let parsed = parse_all(&input, 4);
        assert_eq!(refusal(&parsed[1]).complaint, Complaint::Line("ERROR"));
    }
}
