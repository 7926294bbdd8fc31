//! The client's side, for load generators and tests: encodes requests and decodes replies.
//!
//! [`ReplyScanner`] finds complete replies without building them and without recursion, so that any
//! nesting is safe. [`Value::decode`] builds a reply once it is complete, so that its allocations
//! are bounded by the bytes that arrived. Streamed strings and aggregates of RESP3, which no server
//! sends, are refused.

use crate::args::FRAME_BYTES_MAX;
use crate::number::{self, Text};
use crate::request::{Count, read_count};
use std::fmt;

/// Maximum number of elements of an aggregate.
pub const ITEMS_COUNT_MAX: usize = 1 << 30;
/// Maximum length of a line in bytes: of a simple string, an error or a number.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum depth of aggregates inside aggregates in a [`Value`].
pub const DEPTH_MAX: usize = 64;

/// Appends a command as an array of bulk strings, which can contain any bytes.
///
/// ```
/// let mut out = Vec::new();
/// wire::encode_command(&mut out, &["SET", "k", "v"]);
/// assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
/// ```
pub fn encode_command<A: AsRef<[u8]>>(out: &mut Vec<u8>, arguments: &[A]) {
    let bytes: usize = arguments.iter().map(|a| a.as_ref().len() + 16).sum();
    out.reserve(bytes + 16);
    push_head(out, b'*', arguments.len());
    for argument in arguments {
        push_bulk(out, b'$', argument.as_ref());
    }
}

fn push_head(out: &mut Vec<u8>, sigil: u8, len: usize) {
    push_line(out, sigil, Text::unsigned(len as u64).as_bytes());
}

fn push_bulk(out: &mut Vec<u8>, sigil: u8, bytes: &[u8]) {
    push_head(out, sigil, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn push_line(out: &mut Vec<u8>, sigil: u8, bytes: &[u8]) {
    out.push(sigil);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Reason why bytes are not a reply. The rest of the stream cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// No type of reply begins with this byte.
    UnknownType(u8),
    /// The reply is a streamed string or aggregate (`$?`, `*?` …).
    Streamed,
    /// A length is not a number, negative, or above its limit.
    InvalidLength,
    /// A line is not a number of its type, or neither `t` nor `f`.
    InvalidNumber,
    /// A verbatim string lacks its format of three letters and a colon.
    InvalidFormat,
    /// A line end is missing.
    MissingLineEnd,
    /// A line is longer than [`LINE_BYTES_MAX`].
    TooLong,
    /// Aggregates are nested deeper than [`DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::UnknownType(byte) => {
                return write!(f, "no reply begins with '{}'", byte.escape_ascii());
            }
            ResponseError::Streamed => "streamed replies are not supported",
            ResponseError::InvalidLength => "a length in the reply is invalid",
            ResponseError::InvalidNumber => "a number in the reply is invalid",
            ResponseError::InvalidFormat => "a verbatim string has no format",
            ResponseError::MissingLineEnd => "a line end is missing in the reply",
            ResponseError::TooLong => "a line of the reply is too long",
            ResponseError::TooDeep => "the reply is nested too deeply",
        })
    }
}

impl std::error::Error for ResponseError {}

/// One element of a reply.
enum Item<'a> {
    /// A line, without its first byte.
    Line(&'a [u8]),
    /// Bytes with a length.
    Bulk(&'a [u8]),
    /// A missing bulk string or aggregate.
    Missing,
    /// Number of entries that follow; a map or an attribute has twice as many elements.
    Aggregate(usize),
}

/// Reads the element at `at`. Returns its first byte, its content and the position after it;
/// `None` if it is incomplete.
fn read_item(input: &[u8], at: usize) -> Result<Option<(u8, Item<'_>, usize)>, ResponseError> {
    let Some(&sigil) = input.get(at) else {
        return Ok(None);
    };
    match sigil {
        b'+' | b'-' | b':' | b',' | b'(' | b'#' | b'_' => read_line(input, at + 1),
        b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' | b'|' => read_sized(input, at, sigil),
        b';' | b'.' => Err(ResponseError::Streamed),
        other => Err(ResponseError::UnknownType(other)),
    }
    .map(|found| found.map(|(item, next)| (sigil, item, next)))
}

fn read_line(input: &[u8], start: usize) -> Result<Option<(Item<'_>, usize)>, ResponseError> {
    let rest = &input[start..];
    let window = &rest[..rest.len().min(LINE_BYTES_MAX + 1)];
    match window.iter().position(|&byte| byte == b'\r') {
        None if rest.len() > LINE_BYTES_MAX => Err(ResponseError::TooLong),
        None => Ok(None),
        Some(end) => match rest.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some((Item::Line(&rest[..end]), start + end + 2))),
            Some(_) => Err(ResponseError::MissingLineEnd),
        },
    }
}

fn read_sized(
    input: &[u8],
    at: usize,
    sigil: u8,
) -> Result<Option<(Item<'_>, usize)>, ResponseError> {
    if input.get(at + 1) == Some(&b'?') {
        return Err(ResponseError::Streamed);
    }
    let (count, start) = match read_count(input, at + 1) {
        Count::Number(count, start) => (count, start),
        Count::Incomplete => return Ok(None),
        Count::Invalid | Count::TooLong => return Err(ResponseError::InvalidLength),
    };
    if count == -1 && matches!(sigil, b'$' | b'*') {
        return Ok(Some((Item::Missing, start)));
    }
    let len = usize::try_from(count).map_err(|_| ResponseError::InvalidLength)?;
    if !matches!(sigil, b'$' | b'=' | b'!') {
        return if len > ITEMS_COUNT_MAX {
            Err(ResponseError::InvalidLength)
        } else {
            Ok(Some((Item::Aggregate(len), start)))
        };
    }
    if len > FRAME_BYTES_MAX {
        return Err(ResponseError::InvalidLength);
    }
    let end = start + len;
    match input.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Item::Bulk(&input[start..end]), end + 2))),
        Some(_) => Err(ResponseError::MissingLineEnd),
    }
}

/// Finds the ends of replies. It stores its position in an incomplete reply, so that a long array
/// in small reads is scanned once. It checks lengths and line ends, not the content of lines.
///
/// ```
/// use wire::ReplyScanner;
/// let mut scanner = ReplyScanner::default();
/// assert_eq!(scanner.scan(b"*2\r\n:1\r\n$3\r\nab"), Ok(None));
/// assert_eq!(scanner.scan(b"*2\r\n:1\r\n$3\r\nabc\r\n+OK\r\n"), Ok(Some(17)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyScanner {
    /// Position of the next element, from the reply's start.
    next: usize,
    /// Number of elements that the reply needs after that one.
    further: u64,
}

impl ReplyScanner {
    /// Returns the length of the reply at the start of `input`; `None` if it is incomplete: the
    /// next call must get the same bytes with more after them. An attribute belongs to the reply
    /// after it.
    ///
    /// # Errors
    /// See [`ResponseError`].
    pub fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, ResponseError> {
        while let Some((sigil, item, next)) = read_item(input, self.next)? {
            self.next = next;
            if let Item::Aggregate(count) = item {
                // It cannot overflow: it grows by 2^31 at most, for at least four bytes of input
                // each.
                self.further += count as u64 * elements_per_entry(sigil);
            }
            if sigil == b'|' {
                continue;
            }
            if self.further == 0 {
                *self = ReplyScanner::default();
                return Ok(Some(next));
            }
            self.further -= 1;
        }
        Ok(None)
    }
}

fn elements_per_entry(sigil: u8) -> u64 {
    if matches!(sigil, b'%' | b'|') { 2 } else { 1 }
}

/// Returns the length of the reply at the start of `input`; `None` if it is incomplete.
///
/// # Errors
/// See [`ResponseError`].
pub fn skip_reply(input: &[u8]) -> Result<Option<usize>, ResponseError> {
    ReplyScanner::default().scan(input)
}

/// A reply, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// RESP3's null.
    Null,
    /// RESP2's null bulk string, `$-1`.
    NullBulk,
    /// RESP2's null array, `*-1`.
    NullArray,
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A double.
    Double(f64),
    /// An integer of any size, as text.
    BigNumber(String),
    /// A status line.
    Simple(Vec<u8>),
    /// An error line.
    Error(Vec<u8>),
    /// An error with a length.
    BulkError(Vec<u8>),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// Text in a format of three letters.
    Verbatim([u8; 3], Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// A map, as pairs of keys and values.
    Map(Vec<(Value, Value)>),
    /// A set, whose order has no meaning.
    Set(Vec<Value>),
    /// A message that does not answer a request.
    Push(Vec<Value>),
    /// A reply with the attributes before it.
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    /// Decodes the reply at the start of `input`, and returns it with its length; `None` if it is
    /// incomplete.
    ///
    /// # Errors
    /// See [`ResponseError`].
    pub fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, ResponseError> {
        let Some(len) = skip_reply(input)? else {
            return Ok(None);
        };
        let mut next = 0;
        let value = build(&input[..len], &mut next, DEPTH_MAX)?;
        debug_assert_eq!(next, len, "the scanner and the builder agree");
        Ok(Some((value, len)))
    }

    /// Appends the encoded reply.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"_\r\n"),
            Value::NullBulk => out.extend_from_slice(b"$-1\r\n"),
            Value::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Value::Boolean(value) => push_line(out, b'#', if *value { b"t" } else { b"f" }),
            Value::Integer(number) => push_line(out, b':', Text::integer(*number).as_bytes()),
            Value::Double(number) => push_line(out, b',', Text::double(*number).as_bytes()),
            Value::BigNumber(digits) => push_line(out, b'(', digits.as_bytes()),
            Value::Simple(text) => push_line(out, b'+', text),
            Value::Error(text) => push_line(out, b'-', text),
            Value::BulkError(text) => push_bulk(out, b'!', text),
            Value::Bulk(bytes) => push_bulk(out, b'$', bytes),
            Value::Verbatim(format, text) => {
                push_head(out, b'=', text.len() + 4);
                out.extend_from_slice(format);
                push_line(out, b':', text);
            }
            Value::Array(values) => push_list(out, b'*', values),
            Value::Set(values) => push_list(out, b'~', values),
            Value::Push(values) => push_list(out, b'>', values),
            Value::Map(pairs) => push_pairs(out, b'%', pairs),
            Value::Attributed(pairs, value) => {
                push_pairs(out, b'|', pairs);
                value.encode(out);
            }
        }
    }

    /// Whether the reply is a null of RESP2 or RESP3.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::NullBulk | Value::NullArray)
    }
    /// Returns the text of an error.
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Value::Error(text) | Value::BulkError(text) => Some(text),
            _ => None,
        }
    }
    /// Returns the bytes of a string of any type.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim(_, bytes) => Some(bytes),
            _ => None,
        }
    }
    /// Returns the integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }
    /// Returns the elements of an array, a set or a push message.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::Array(values) | Value::Set(values) | Value::Push(values) => Some(values),
            _ => None,
        }
    }
}

fn push_list(out: &mut Vec<u8>, sigil: u8, values: &[Value]) {
    push_head(out, sigil, values.len());
    for value in values {
        value.encode(out);
    }
}

fn push_pairs(out: &mut Vec<u8>, sigil: u8, pairs: &[(Value, Value)]) {
    push_head(out, sigil, pairs.len());
    for (key, value) in pairs {
        key.encode(out);
        value.encode(out);
    }
}

/// Builds the element at `next`, which is complete. `depth` is the remaining number of levels.
fn build(input: &[u8], next: &mut usize, depth: usize) -> Result<Value, ResponseError> {
    let (sigil, item, end) =
        read_item(input, *next)?.expect("the scanner found the reply complete");
    *next = end;
    match item {
        Item::Line(line) => build_line(sigil, line),
        Item::Missing if sigil == b'*' => Ok(Value::NullArray),
        Item::Missing => Ok(Value::NullBulk),
        Item::Bulk(bytes) => build_bulk(sigil, bytes),
        Item::Aggregate(count) => {
            let depth = depth.checked_sub(1).ok_or(ResponseError::TooDeep)?;
            build_aggregate(sigil, count, input, next, depth)
        }
    }
}

fn build_line(sigil: u8, line: &[u8]) -> Result<Value, ResponseError> {
    let value = match (sigil, line) {
        (b'+', text) => Some(Value::Simple(text.to_vec())),
        (b'-', text) => Some(Value::Error(text.to_vec())),
        (b':', [b'+', digits @ ..]) if digits.first() != Some(&b'-') => {
            number::parse_i64(digits).map(Value::Integer)
        }
        (b':', digits) => number::parse_i64(digits).map(Value::Integer),
        (b',', b"nan" | b"-nan") => Some(Value::Double(f64::NAN)),
        (b',', text) => number::parse_f64(text).map(Value::Double),
        (b'(', text) => big_number(text).map(Value::BigNumber),
        (b'#', b"t") => Some(Value::Boolean(true)),
        (b'#', b"f") => Some(Value::Boolean(false)),
        (b'_', b"") => Some(Value::Null),
        _ => None,
    };
    value.ok_or(ResponseError::InvalidNumber)
}

fn big_number(text: &[u8]) -> Option<String> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok()?;
    is_number.then(|| text.to_owned())
}

fn build_bulk(sigil: u8, bytes: &[u8]) -> Result<Value, ResponseError> {
    match (sigil, bytes) {
        (b'!', text) => Ok(Value::BulkError(text.to_vec())),
        (b'=', &[a, b, c, b':', ref text @ ..]) => Ok(Value::Verbatim([a, b, c], text.to_vec())),
        (b'=', _) => Err(ResponseError::InvalidFormat),
        (_, bytes) => Ok(Value::Bulk(bytes.to_vec())),
    }
}

fn build_aggregate(
    sigil: u8,
    count: usize,
    input: &[u8],
    next: &mut usize,
    depth: usize,
) -> Result<Value, ResponseError> {
    if matches!(sigil, b'%' | b'|') {
        let mut pairs = Vec::with_capacity(count);
        for _ in 0..count {
            let key = build(input, next, depth)?;
            pairs.push((key, build(input, next, depth)?));
        }
        return if sigil == b'%' {
            Ok(Value::Map(pairs))
        } else {
            let value = build(input, next, depth)?;
            Ok(Value::Attributed(pairs, Box::new(value)))
        };
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(build(input, next, depth)?);
    }
    Ok(match sigil {
        b'~' => Value::Set(values),
        b'>' => Value::Push(values),
        _ => Value::Array(values),
    })
}

#[cfg(test)]
mod tests;
