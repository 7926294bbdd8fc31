//! The arguments of a command, as positions in the input buffer.

use crate::number::Text;
use std::ops::Range;

/// Maximum length of a whole command in bytes, as Redis's `client-query-buffer-limit`.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;

// Spans are 32 bits wide, which suffices for every frame.
const _: () = assert!(FRAME_BYTES_MAX <= u32::MAX as usize);

/// Position of an argument in the input buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Index of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// Both must be at most [`FRAME_BYTES_MAX`], which the parser checks.
    #[inline]
    pub(crate) fn new(start: usize, len: usize) -> Self {
        debug_assert!(start <= FRAME_BYTES_MAX);
        debug_assert!(len <= FRAME_BYTES_MAX);
        Span {
            start: start as u32,
            len: len as u32,
        }
    }
    /// Returns the range of indexes.
    #[inline]
    pub fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

/// The arguments of a command, its name first, borrowed from the input buffer.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    input: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Creates a view of `input` through `spans`. `input` must start where the input of
    /// [`Parser::parse`](crate::Parser::parse) started.
    #[inline]
    pub fn new(input: &'a [u8], spans: &'a [Span]) -> Self {
        Args { input, spans }
    }
    /// Number of arguments, the name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }
    /// Whether there is no argument, not even a name.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
    /// Returns the argument at `index`, or `None` if there are fewer arguments.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.input[span.range()])
    }
    /// Returns the first eight bytes of the argument at `index`, or `None` if there are fewer
    /// arguments or the argument is shorter.
    #[inline]
    pub fn first_eight(&self, index: usize) -> Option<&'a [u8; 8]> {
        let span = self.spans.get(index).filter(|span| span.len >= 8)?;
        let start = span.start as usize;
        self.input.get(start..start + 8)?.first_chunk()
    }
    /// Returns the number of input bytes from the first argument to the end of the last one.
    #[inline]
    pub fn extent(&self) -> usize {
        let ends = self.spans.first().zip(self.spans.last());
        ends.map_or(0, |(first, last)| {
            last.range().end.saturating_sub(first.range().start)
        })
    }
    /// Returns the input from the end of the name to the end of the last argument's line, provided
    /// that it encodes the arguments after the name as bulk strings, preceded by the name's line
    /// end. This is true of a request's arguments, but not of an inline command's, nor of arguments
    /// collected by a script or a transaction.
    #[inline]
    pub fn encoded_behind_name(&self) -> Option<&'a [u8]> {
        let (name, rest) = self.spans.split_first()?;
        let start = name.range().end;
        let mut end = start;
        for span in rest {
            let head = self.input.get(end..span.start as usize)?;
            if !is_head(head, span.len) {
                return None;
            }
            end = span.range().end;
        }
        let is_ended = self.input.get(end..end + 2)? == b"\r\n";
        is_ended.then(|| &self.input[start..end + 2])
    }
    /// Returns the command's name as sent by the client; empty if there is none.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or(&[])
    }
    /// Whether the argument at `index` equals `word`, regardless of upper and lower case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index)
            .is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    }
    /// Returns the arguments from `first` on.
    #[inline]
    pub fn from(&self, first: usize) -> Args<'a> {
        Args {
            input: self.input,
            spans: self.spans.get(first..).unwrap_or(&[]),
        }
    }
    /// Returns the first `count` arguments, or all if there are fewer.
    #[inline]
    pub fn first(&self, count: usize) -> Args<'a> {
        Args {
            input: self.input,
            spans: self.spans.get(..count).unwrap_or(self.spans),
        }
    }
    /// Returns the arguments in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let input = self.input;
        self.spans.iter().map(move |span| &input[span.range()])
    }
    /// Whether this is a line of an HTTP request (`POST …` or `Host: …`). A web page can make a
    /// browser send one, so the connection must be closed before a later line of it runs as a
    /// command.
    pub fn is_http(&self) -> bool {
        self.is(0, "post") || self.is(0, "host:")
    }
}

/// Whether these bytes are a line end and the line `$len` as an encoder writes it.
#[inline]
fn is_head(bytes: &[u8], len: u32) -> bool {
    let digit = |number: u32| b'0' + (number % 10) as u8;
    match len {
        0..10 => *bytes == [b'\r', b'\n', b'$', digit(len), b'\r', b'\n'],
        10..100 => {
            *bytes
                == [
                    b'\r',
                    b'\n',
                    b'$',
                    digit(len / 10),
                    digit(len),
                    b'\r',
                    b'\n',
                ]
        }
        _ => {
            let digits = bytes.strip_prefix(b"\r\n$");
            let digits = digits.and_then(|rest| rest.strip_suffix(b"\r\n"));
            digits.is_some_and(|digits| digits == Text::unsigned(len.into()).as_bytes())
        }
    }
}

impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.get(index)
            .expect("the caller checked how many arguments there are")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parsed, Parser};

    fn encoded_behind_name(input: &str) -> Option<String> {
        let (mut input, mut spans) = (input.as_bytes().to_vec(), Vec::new());
        let parsed = Parser::default().parse(&mut input, &mut spans);
        assert!(matches!(parsed, Ok(Parsed::Command { .. })));
        let bytes = Args::new(&input, &spans).encoded_behind_name()?;
        Some(String::from_utf8(bytes.to_vec()).expect("text"))
    }

    #[test]
    fn the_encoding_behind_the_name_is_that_of_the_request() {
        for len in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 123_456] {
            let tail = format!("\r\n$1\r\nk\r\n${len}\r\n{}\r\n", "v".repeat(len));
            let found = encoded_behind_name(&format!("*3\r\n$3\r\nSET{tail}PING\r\n"));
            assert_eq!(found, Some(tail));
        }
        let alone = encoded_behind_name("*1\r\n$8\r\nFLUSHALL\r\n");
        assert_eq!(alone.as_deref(), Some("\r\n"));
    }

    #[test]
    fn other_arguments_have_no_encoding_behind_the_name() {
        assert_eq!(encoded_behind_name("SET k v\r\n"), None);
        assert_eq!(encoded_behind_name("SET       k       v\r\n"), None);
        assert_eq!(encoded_behind_name("SET \"\\r\\n$1\\r\\n\" v\r\n"), None);
        let spans = [Span::new(0, 3), Span::new(3, 1), Span::new(4, 1)];
        assert_eq!(Args::new(b"SETkv", &spans).encoded_behind_name(), None);
        let spans = [Span::new(0, 3), Span::new(9, 1), Span::new(0, 3)];
        let input = b"SET\r\n$1\r\nk\r\n";
        assert_eq!(Args::new(input, &spans).encoded_behind_name(), None);
        let cut = Args::new(&input[..11], &spans[..2]);
        assert_eq!(cut.encoded_behind_name(), None);
        let other_length = Args::new(b"SET\r\n$2\r\nk\r\n", &spans[..2]);
        assert_eq!(other_length.encoded_behind_name(), None);
        assert_eq!(Args::new(input, &[]).encoded_behind_name(), None);
    }

    #[test]
    fn the_first_eight_bytes_of_an_argument_are_returned_if_it_has_them() {
        let input = b"get12345678abcdefg";
        let spans = [
            Span::new(0, 3),
            Span::new(3, 8),
            Span::new(2, 9),
            Span::new(11, 7),
            Span::new(11, 8),
        ];
        let args = Args::new(input, &spans);
        assert_eq!(args.first_eight(0), None);
        assert_eq!(args.first_eight(1), Some(b"12345678"));
        assert_eq!(args.first_eight(2), Some(b"t1234567"));
        assert_eq!(args.first_eight(3), None);
        assert_eq!(args.first_eight(4), None, "beyond the input");
        assert_eq!(args.first_eight(5), None);
    }
}
