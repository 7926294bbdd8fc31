//! Requests: arrays of bulk strings, and inline commands.
//!
//! [`Parser`] is incremental. It stores how far a partial frame was parsed, so that a value of half
//! a gigabyte that arrives in small reads is not scanned again at each read. It does not own the
//! input: the session passes its buffer, beginning at the first byte that is not yet consumed.

use crate::args::{FRAME_BYTES_MAX, Span};
use crate::inline::split_words;
use std::fmt;

/// Default maximum length of an argument in bytes, as Redis's `proto-max-bulk-len`.
pub const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Maximum number of arguments of a command.
pub const ARGS_COUNT_MAX: usize = 1024 * 1024;
/// Maximum length of an inline command's line in bytes.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of arguments of a command before authentication.
pub const UNAUTHENTICATED_ARGS_COUNT_MAX: usize = 10;
/// Maximum length of an argument in bytes before authentication.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of digits of a count before its line end. It exceeds all valid counts, and is
/// small enough that scanning the digits again with every byte costs nothing.
const COUNT_DIGITS_MAX: usize = 32;
/// Number of spans of partial frames for which a parser keeps memory between frames.
const PENDING_KEPT_MAX: usize = 1024;

const _: () = assert!(INLINE_BYTES_MAX < FRAME_BYTES_MAX);

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of an argument (`proto-max-bulk-len`); [`FRAME_BYTES_MAX`] is a further limit.
    pub bulk_bytes_max: usize,
    /// Maximum arguments of a command.
    pub args_count_max: usize,
    /// Maximum bytes of an inline command before its line feed.
    pub inline_bytes_max: usize,
    /// Whether the client has authenticated or need not. Until then, stricter limits apply.
    pub is_authenticated: bool,
}

impl Limits {
    /// Limits for a feed: an append-only file or the stream of a primary. They do not refuse what
    /// was accepted before, as Redis has larger limits.
    pub fn of_feed() -> Limits {
        Limits {
            bulk_bytes_max: FRAME_BYTES_MAX,
            args_count_max: i32::MAX as usize,
            ..Limits::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bulk_bytes_max: BULK_BYTES_MAX,
            args_count_max: ARGS_COUNT_MAX,
            inline_bytes_max: INLINE_BYTES_MAX,
            is_authenticated: true,
        }
    }
}

/// Reason why a request cannot be parsed. The connection must be closed after the reply, because
/// the start of the next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count after `*` is not a number, or above the limit.
    InvalidMultibulkLength,
    /// The count after `$` is not a number, negative, or above the limit.
    InvalidBulkLength,
    /// An argument begins with this byte instead of `$`.
    ExpectedDollar(u8),
    /// An argument is not followed by a line end (Redis does not check this).
    MissingLineEnd,
    /// The count after `*` has too many digits.
    TooBigMultibulkCount,
    /// The count after `$` has too many digits.
    TooBigBulkCount,
    /// An inline command is longer than the limit.
    TooBigInline,
    /// A quote of an inline command is not closed, or not followed by a blank.
    UnbalancedQuotes,
    /// There are too many arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// An argument is too long before authentication.
    UnauthenticatedBulkLength,
    /// The whole command would exceed [`FRAME_BYTES_MAX`].
    TooBigRequest,
}

impl fmt::Display for ProtocolError {
    /// Writes Redis's text, `Protocol error: …`; the reply has `ERR ` before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::ExpectedDollar(byte) => {
                return write!(f, "expected '$', got '{}'", byte.escape_ascii());
            }
            ProtocolError::MissingLineEnd => "expected a line end after a bulk",
            ProtocolError::TooBigMultibulkCount => "too big mbulk count string",
            ProtocolError::TooBigBulkCount => "too big bulk count string",
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::TooBigRequest => "too big request",
        })
    }
}

impl std::error::Error for ProtocolError {}

/// Result of parsing the start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A command of at least one argument. Its spans were appended, and it took the first
    /// `consumed` bytes.
    Command {
        /// Number of bytes from the start of the input.
        consumed: usize,
    },
    /// A frame without a command, which gets no reply (`*0`, `*-1`, an empty line).
    Blank {
        /// Number of bytes from the start of the input.
        consumed: usize,
    },
    /// The frame is incomplete. The next call must get the same bytes with more after them.
    Incomplete {
        /// Minimum number of missing bytes. The client determines it, so the caller must limit what
        /// it reserves.
        need: usize,
    },
}

/// Progress within a partial frame; positions count from the frame's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Between two frames.
    Fresh,
    /// The first `scanned` bytes contain no line feed.
    Inline { scanned: usize },
    /// The next of `left` arguments starts at `next`.
    Array { next: usize, left: usize },
}

/// Parser of the commands in a session's input; one per session.
///
/// ```
/// use wire::{Args, Parsed, Parser};
/// let mut input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n".to_vec();
/// let (mut parser, mut spans, mut at) = (Parser::default(), Vec::new(), 0);
/// let mut names = Vec::new();
/// while let Ok(Parsed::Command { consumed }) = parser.parse(&mut input[at..], &mut spans) {
///     names.push(Args::new(&input[at..], &spans).name().to_vec());
///     spans.clear();
///     at += consumed;
/// }
/// assert_eq!(names, [b"GET".to_vec(), b"PING".to_vec()]);
/// ```
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    progress: Progress,
    /// Arguments of a partial frame so far; empty between frames.
    pending: Vec<Span>,
    /// The last line with quotes, as it was before its words were unescaped; empty if it was taken.
    quoted: Vec<u8>,
}

impl Default for Parser {
    fn default() -> Self {
        Parser::new(Limits::default())
    }
}

impl Parser {
    /// Creates a parser at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Parser {
            limits,
            progress: Progress::Fresh,
            pending: Vec::new(),
            quoted: Vec::new(),
        }
    }
    /// Returns the line of the last inline command, as it was before its quoted words were
    /// unescaped in place; `None` if it has none or was taken. A caller that parses input a second
    /// time must put the line back first.
    #[inline]
    pub fn take_quoted(&mut self) -> Option<Vec<u8>> {
        (!self.quoted.is_empty()).then(|| std::mem::take(&mut self.quoted))
    }
    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    /// Changes the limits, from the next count on. A session that is not authenticated runs each
    /// command before it parses the next one, because the new limits may apply to that one.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }
    /// Whether the last call ended inside a frame.
    pub fn is_partial(&self) -> bool {
        self.progress != Progress::Fresh
    }
    /// Returns the bytes allocated on the heap, for memory accounting.
    pub fn heap_bytes(&self) -> usize {
        self.pending.capacity() * size_of::<Span>() + self.quoted.capacity()
    }

    /// Parses one command at the start of `input`, and appends the spans of its arguments, counted
    /// from there, to `spans`.
    ///
    /// After [`Parsed::Incomplete`], the next call must get the same bytes, possibly moved,
    /// followed by more. The input is modified in one case only: quoted words of an inline command
    /// are unescaped in place (see [`Parser::take_quoted`]). Total work is linear in the bytes of
    /// the stream, regardless of the sizes of the reads.
    ///
    /// # Errors
    /// See [`ProtocolError`]; spans appended by this call are removed.
    #[inline]
    pub fn parse(
        &mut self,
        input: &mut [u8],
        spans: &mut Vec<Span>,
    ) -> Result<Parsed, ProtocolError> {
        if self.progress != Progress::Fresh {
            return self.resume(input, spans);
        }
        match input {
            [] => Ok(Parsed::Incomplete { need: 1 }),
            [b'*', ..] => self.start_array(input, spans),
            _ => self.parse_inline(input, 0, spans),
        }
    }

    fn resume(&mut self, input: &mut [u8], spans: &mut Vec<Span>) -> Result<Parsed, ProtocolError> {
        match std::mem::replace(&mut self.progress, Progress::Fresh) {
            Progress::Fresh => unreachable!("the caller looked"),
            Progress::Inline { scanned } => self.parse_inline(input, scanned, spans),
            Progress::Array { mut next, mut left } => {
                debug_assert!(
                    next <= input.len(),
                    "the input lost bytes of a partial frame"
                );
                match read_bulks(&self.limits, input, &mut next, &mut left, &mut self.pending) {
                    Ok(0) => {
                        if spans.is_empty() && self.pending.len() > PENDING_KEPT_MAX {
                            // The positions of a million arguments take 8 MB.
                            *spans = std::mem::take(&mut self.pending);
                        } else {
                            spans.append(&mut self.pending);
                            self.pending.shrink_to(PENDING_KEPT_MAX);
                        }
                        Ok(Parsed::Command { consumed: next })
                    }
                    Ok(need) => {
                        self.progress = Progress::Array { next, left };
                        Ok(Parsed::Incomplete { need })
                    }
                    Err(error) => {
                        self.pending = Vec::new();
                        Err(error)
                    }
                }
            }
        }
    }

    #[inline]
    fn start_array(
        &mut self,
        input: &[u8],
        spans: &mut Vec<Span>,
    ) -> Result<Parsed, ProtocolError> {
        let (count, mut next) = match read_count(input, 1) {
            Count::Number(count, next) => (count, next),
            Count::Incomplete => return Ok(Parsed::Incomplete { need: 1 }),
            Count::Invalid => return Err(ProtocolError::InvalidMultibulkLength),
            Count::TooLong => return Err(ProtocolError::TooBigMultibulkCount),
        };
        if count <= 0 {
            return Ok(Parsed::Blank { consumed: next });
        }
        let mut left = count as usize;
        if left > UNAUTHENTICATED_ARGS_COUNT_MAX.min(self.limits.args_count_max) {
            self.check_args_count(left)?;
        }
        let base = spans.len();
        match read_bulks(&self.limits, input, &mut next, &mut left, spans) {
            Ok(0) => Ok(Parsed::Command { consumed: next }),
            Ok(need) => {
                self.pending.extend(spans.drain(base..));
                self.progress = Progress::Array { next, left };
                Ok(Parsed::Incomplete { need })
            }
            Err(error) => {
                spans.truncate(base);
                Err(error)
            }
        }
    }

    fn check_args_count(&self, count: usize) -> Result<(), ProtocolError> {
        if count > self.limits.args_count_max {
            Err(ProtocolError::InvalidMultibulkLength)
        } else if self.limits.is_authenticated {
            Ok(())
        } else {
            Err(ProtocolError::UnauthenticatedMultibulkLength)
        }
    }

    fn parse_inline(
        &mut self,
        input: &mut [u8],
        scanned: usize,
        spans: &mut Vec<Span>,
    ) -> Result<Parsed, ProtocolError> {
        // The line feed may be at the limit and not after it, so that the sizes of the reads make
        // no difference.
        let bound = self.limits.inline_bytes_max;
        let window = input.len().min(bound.saturating_add(1));
        let fresh = input.get(scanned..window).unwrap_or(&[]);
        let Some(found) = fresh.iter().position(|&byte| byte == b'\n') else {
            if input.len() > bound {
                return Err(ProtocolError::TooBigInline);
            }
            self.progress = Progress::Inline { scanned: window };
            return Ok(Parsed::Incomplete { need: 1 });
        };
        let consumed = scanned + found + 1;
        let line = match &mut input[..consumed - 1] {
            [line @ .., b'\r'] => line,
            line => line,
        };
        self.quoted.clear();
        if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
            self.quoted.extend_from_slice(line);
        }
        let base = spans.len();
        if split_words(line, spans).is_err() {
            spans.truncate(base);
            return Err(ProtocolError::UnbalancedQuotes);
        }
        if spans.len() == base {
            Ok(Parsed::Blank { consumed })
        } else {
            Ok(Parsed::Command { consumed })
        }
    }
}

/// Reads the `left` arguments that start at `next`, as far as the input goes, and advances both.
/// Returns the minimum number of missing bytes; 0 if the frame is complete.
#[inline]
fn read_bulks(
    limits: &Limits,
    input: &[u8],
    next: &mut usize,
    left: &mut usize,
    spans: &mut Vec<Span>,
) -> Result<usize, ProtocolError> {
    let unchecked_max = UNAUTHENTICATED_BULK_BYTES_MAX.min(limits.bulk_bytes_max) as u64;
    while *left > 0 {
        match input.get(*next) {
            Some(b'$') => {}
            Some(&other) => return Err(ProtocolError::ExpectedDollar(other)),
            None => return Ok(1),
        }
        let (count, start) = match read_count(input, *next + 1) {
            Count::Number(count, start) => (count, start),
            Count::Incomplete => return Ok(1),
            Count::Invalid => return Err(ProtocolError::InvalidBulkLength),
            Count::TooLong => return Err(ProtocolError::TooBigBulkCount),
        };
        // A negative count becomes a large one here.
        if count as u64 > unchecked_max {
            check_bulk_bytes(limits, count)?;
        }
        let len = count as usize;
        let end = start + len;
        if end + 2 > FRAME_BYTES_MAX {
            return Err(ProtocolError::TooBigRequest);
        }
        match input.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(ProtocolError::MissingLineEnd),
            None => return Ok(end + 2 - input.len()),
        }
        spans.push(Span::new(start, len));
        *next = end + 2;
        *left -= 1;
    }
    Ok(0)
}

#[cold]
fn check_bulk_bytes(limits: &Limits, count: i64) -> Result<(), ProtocolError> {
    let bound = limits.bulk_bytes_max.min(FRAME_BYTES_MAX);
    if count < 0 || count as u64 > bound as u64 {
        Err(ProtocolError::InvalidBulkLength)
    } else if limits.is_authenticated {
        Ok(())
    } else {
        Err(ProtocolError::UnauthenticatedBulkLength)
    }
}

/// Result of reading the count after `*` or `$`.
pub(crate) enum Count {
    /// The number, and the position after its line end.
    Number(i64, usize),
    /// The input ends before the line does.
    Incomplete,
    /// The text is not a number in Redis's strict form, or does not fit in 64 bits.
    Invalid,
    /// There are too many digits.
    TooLong,
}

/// Reads the number at `start` and its line end. Most have one or two digits.
#[inline]
pub(crate) fn read_count(input: &[u8], start: usize) -> Count {
    match input.get(start..).unwrap_or(&[]) {
        [ones @ b'0'..=b'9', b'\r', b'\n', ..] => Count::Number(i64::from(ones - b'0'), start + 3),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => Count::Number(
            i64::from(tens - b'0') * 10 + i64::from(ones - b'0'),
            start + 4,
        ),
        line => read_long_count(line, start),
    }
}

fn read_long_count(line: &[u8], start: usize) -> Count {
    let is_sign = |index: usize, byte: u8| index == 0 && byte == b'-';
    let digits = line
        .iter()
        .enumerate()
        .take(COUNT_DIGITS_MAX + 1)
        .take_while(|&(index, &byte)| byte.is_ascii_digit() || is_sign(index, byte))
        .count();
    match &line[digits..] {
        _ if digits > COUNT_DIGITS_MAX => Count::TooLong,
        [] | [b'\r'] => Count::Incomplete,
        [b'\r', b'\n', ..] => match crate::number::parse_i64(&line[..digits]) {
            Some(number) => Count::Number(number, start + digits + 2),
            None => Count::Invalid,
        },
        _ => Count::Invalid,
    }
}

#[cfg(test)]
mod tests;
