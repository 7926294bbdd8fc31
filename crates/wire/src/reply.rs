//! Replies, encoded directly into the session's output buffer.

use crate::number::Text;
use crate::output::Output;
use std::fmt::{self, Write};

/// Maximum number of bytes of a bulk string's head and line ends.
const BULK_FRAME_BYTES: usize = 32;

/// Version of the protocol that a session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// RESP2, the default before `HELLO 3`.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// Encoder of replies into an output buffer. Types that RESP2 lacks are written as Redis writes
/// them in RESP2.
pub struct Reply<'a> {
    out: &'a mut Output,
    protocol: Protocol,
}

impl<'a> Reply<'a> {
    /// Creates an encoder that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Output, protocol: Protocol) -> Self {
        Reply { out, protocol }
    }
    /// Creates a second encoder that appends to the same buffer, for a reply inside of this one.
    #[inline]
    pub fn nested(&mut self, protocol: Protocol) -> Reply<'_> {
        Reply::new(self.out, protocol)
    }
    /// Returns the version of the protocol.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }
    /// Changes the version of the protocol (HELLO).
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }
    /// Returns the number of bytes in the buffer, to measure or remove a reply.
    #[inline]
    pub fn position(&self) -> usize {
        self.out.len()
    }
    /// Removes everything after `position`.
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }
    /// Whether further bytes are dropped, because the reply is longer than allowed, or too long for
    /// one step. Commands with long loops over reads stop; writes are completed, and their reply is
    /// dropped.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.out.is_full()
    }
    /// Bounds the reply in this step. See [`Output::begin_step`].
    #[inline]
    pub fn begin_step(&mut self, bytes_max: usize) {
        self.out.begin_step(bytes_max);
    }
    /// Ends the bound. Returns whether the reply is incomplete because of it.
    #[inline]
    pub fn end_step(&mut self) -> bool {
        self.out.end_step()
    }
    /// Creates an empty buffer for a part of this reply that is encoded before its head. It may
    /// grow as far as this reply. [`Reply::append`] adds it.
    pub fn part(&self) -> Output {
        self.out.part()
    }
    /// Appends a part. If the part was cut off, so is the reply.
    pub fn append(&mut self, part: &Output) {
        self.out.append(part);
    }
    /// Returns the bytes after `position`.
    pub fn written(&self, position: usize) -> &[u8] {
        self.out.get(position..).unwrap_or(&[])
    }
    /// Appends bytes that are already RESP.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
    /// Writes `+text`; the text has no line breaks.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']));
        self.raw(b"+");
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }
    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }
    /// Writes `-text`. The text starts with its code (`ERR …`); line breaks in it become blanks.
    pub fn error(&mut self, text: &str) {
        self.error_with(|out| out.extend_from_slice(text.as_bytes()));
    }
    /// Writes an error from bytes, because it may quote input from the client.
    pub fn error_bytes(&mut self, text: &[u8]) {
        self.error_with(|out| out.extend_from_slice(text));
    }
    /// Writes an error, formatted in place: `reply.error_fmt(format_args!("ERR {reason}"))`.
    pub fn error_fmt(&mut self, text: fmt::Arguments<'_>) {
        self.error_with(|out| {
            // Writing to a Vec fails only if a Display implementation does; what it wrote is sent.
            let _ = Appender(out).write_fmt(text);
        });
    }
    fn error_with(&mut self, write: impl FnOnce(&mut Output)) {
        self.out.push(b'-');
        let start = self.out.len();
        write(self.out);
        for byte in self.out.from_mut(start) {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.raw(b"\r\n");
    }
    #[inline]
    fn header(&mut self, sigil: u8, number: i64) {
        let mut text = Text::integer(number);
        text.push_front(sigil);
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }
    #[inline]
    fn length(&mut self, sigil: u8, len: usize) {
        match len {
            0..=9 => self.raw(&[sigil, b'0' + len as u8, b'\r', b'\n']),
            10..=99 => {
                let (tens, ones) = (len as u8 / 10, len as u8 % 10);
                self.raw(&[sigil, b'0' + tens, b'0' + ones, b'\r', b'\n']);
            }
            _ => self.header(sigil, len as i64),
        }
    }
    /// Writes `:number`.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        if let Ok(digit @ 0..=9) = u8::try_from(number) {
            self.raw(&[b':', b'0' + digit, b'\r', b'\n']);
        } else {
            self.header(b':', number);
        }
    }
    /// Writes an integer beyond `i64`: a big number in RESP3, a bulk string in RESP2. The text has
    /// digits only, with an optional sign.
    pub fn big_number(&mut self, digits: &str) {
        debug_assert!(digits.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => {
                self.raw(b"(");
                self.raw(digits.as_bytes());
                self.raw(b"\r\n");
            }
        }
    }
    /// Returns the buffer, for callers that append RESP themselves.
    #[inline]
    pub fn buffer(&mut self) -> &mut Output {
        self.out
    }
    /// Writes the head of a bulk string. `len` bytes and a line end must follow.
    #[inline]
    pub fn bulk_head(&mut self, len: usize) {
        self.length(b'$', len);
    }
    /// Writes a bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if self.out.reserve(bytes.len() + BULK_FRAME_BYTES) {
            self.bulk_head(bytes.len());
            self.raw(bytes);
            self.raw(b"\r\n");
        }
    }
    /// Writes a bulk string, formatted in place: `reply.bulk_fmt(format_args!("{count} keys"))`. It
    /// copies the text once more; it is meant for commands that people read.
    pub fn bulk_fmt(&mut self, text: fmt::Arguments<'_>) {
        let mut formatted = self.part();
        let _ = Appender(&mut formatted).write_fmt(text);
        match formatted.cut_off() {
            Some(why) => self.out.cut(why),
            None => self.bulk(&formatted),
        }
    }
    /// Writes the digits of an integer as a bulk string (GET of a counter).
    #[inline]
    pub fn bulk_integer(&mut self, number: i64) {
        self.bulk(Text::integer(number).as_bytes());
    }
    /// Writes a missing value: `_` in RESP3, `$-1` in RESP2.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"$-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }
    /// Writes a missing array: `_` in RESP3, `*-1` in RESP2.
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"*-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }
    /// Writes the head of an array of `len` replies.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }
    /// Writes the head of a map of `pairs` (in RESP2 an array of twice as many).
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', pairs * 2),
            Protocol::Resp3 => self.length(b'%', pairs),
        }
    }
    /// Writes the head of a set (in RESP2 an array).
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len),
            Protocol::Resp3 => self.length(b'~', len),
        }
    }
    /// Writes the head of a push message (in RESP2 an array).
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len),
            Protocol::Resp3 => self.length(b'>', len),
        }
    }
    /// Writes the head of an attribute of `pairs`, which precedes a reply. RESP2 has no attributes:
    /// then this returns false, and the pairs must not be written.
    #[must_use = "in RESP2 the pairs must not be written"]
    pub fn attribute(&mut self, pairs: usize) -> bool {
        match self.protocol {
            Protocol::Resp2 => false,
            Protocol::Resp3 => {
                self.length(b'|', pairs);
                true
            }
        }
    }
    /// Writes a double (in RESP2 a bulk string) as the shortest text that reads back the same, as
    /// Redis does.
    pub fn double(&mut self, number: f64) {
        let text = Text::double(number);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.raw(b",");
                self.raw(text.as_bytes());
                self.raw(b"\r\n");
            }
        }
    }
    /// Writes a boolean (in RESP2 `:1` or `:0`).
    pub fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(i64::from(value)),
            Protocol::Resp3 => self.raw(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }
    /// Writes text for people (in RESP2 a bulk string); `format` has three letters.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        debug_assert_eq!(format.len(), 3);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.length(b'=', text.len() + 4);
                self.raw(format.as_bytes());
                self.raw(b":");
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }
}

/// Formatter into a buffer of bytes.
struct Appender<'a>(&'a mut Output);

impl Write for Appender<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
