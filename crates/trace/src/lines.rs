//! Lines of text of bounded length, read without copying each line.

use crate::buffer::{BUFFER_BYTES, Buffer};
use crate::error::{Fault, Position};
use std::borrow::Cow;
use std::io::Read;

/// Maximum length of a line in bytes. A longer line is refused, so that a file without line ends
/// cannot take all memory.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 16;
const _: () = assert!(LINE_BYTES_MAX < BUFFER_BYTES);

const EXPECTED_LINE: &str = "a line of at most 65,536 bytes";

/// A line without its end.
#[derive(Clone, Copy)]
pub(crate) struct Line<'l> {
    /// Number of the line, counted from 1.
    pub(crate) number: u64,
    pub(crate) text: &'l [u8],
}

impl Line<'_> {
    /// Returns the error of this line.
    #[cold]
    pub(crate) fn fault(self, expected: impl Into<Cow<'static, str>>) -> Fault {
        Fault::line(self.number, self.text, expected)
    }
}

/// A stream, cut into lines.
pub(crate) struct Lines<R> {
    buffer: Buffer<R>,
    /// Number of lines returned or refused.
    number: u64,
    /// Whether the rest of a refused line must still be skipped.
    is_in_refused_line: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Lines {
            buffer: Buffer::new(input),
            number: 0,
            is_in_refused_line: false,
        }
    }

    /// Returns the next line without its end (`\n` or `\r\n`), or `None` at the end of the stream.
    /// The last line may lack its end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Fault> {
        if self.is_in_refused_line {
            self.skip_line()?;
        }
        let mut searched = 0;
        let (length, taken) = loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer.unread()[searched..]) {
                break (searched + at, searched + at + 1);
            }
            searched = self.buffer.unread().len();
            if searched > LINE_BYTES_MAX {
                return Err(self.refuse());
            }
            if !self.buffer.is_at_end() {
                self.fill()?;
            } else if searched == 0 {
                return Ok(None);
            } else {
                break (searched, searched);
            }
        };
        if length > LINE_BYTES_MAX {
            return Err(self.refuse());
        }
        self.number += 1;
        let line = &self.buffer.take(taken)[..length];
        Ok(Some(Line {
            number: self.number,
            text: line.strip_suffix(b"\r").unwrap_or(line),
        }))
    }

    #[cold]
    fn refuse(&mut self) -> Fault {
        self.number += 1;
        self.is_in_refused_line = true;
        Fault::line(self.number, self.buffer.unread(), EXPECTED_LINE)
    }

    /// Skips the rest of the line.
    fn skip_line(&mut self) -> Result<(), Fault> {
        loop {
            let unread = self.buffer.unread();
            let end = memchr::memchr(b'\n', unread);
            let length = unread.len();
            self.buffer.take(end.map_or(length, |at| at + 1));
            if end.is_some() || self.buffer.is_at_end() {
                break;
            }
            self.fill()?;
        }
        self.is_in_refused_line = false;
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Fault> {
        self.buffer.fill().map_err(|source| Fault::Unreadable {
            position: Position::Line(self.number),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<Result<Vec<u8>, String>> {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        loop {
            match lines.next() {
                Ok(Some(line)) => all.push(Ok(line.text.to_vec())),
                Ok(None) => return all,
                Err(fault) => all.push(Err(fault.named("t").to_string())),
            }
        }
    }

    #[test]
    fn lines_end_in_either_way_and_the_last_may_lack_its_end() {
        let wanted: Vec<_> = [&b"a"[..], b"", b"b", b"c\rd"]
            .map(|l| Ok(l.to_vec()))
            .into();
        assert_eq!(all(b"a\n\nb\r\nc\rd"), wanted);
        assert_eq!(all(b"a\n\nb\r\nc\rd\n"), wanted);
        assert_eq!(all(b""), []);
    }

    #[test]
    fn a_line_too_long_is_refused_once_and_the_next_is_read() {
        for long in [LINE_BYTES_MAX + 1, BUFFER_BYTES, 3 * BUFFER_BYTES + 17] {
            let text = [b"a\n", &vec![b'x'; long][..], b"\nb"].concat();
            let all = all(&text);
            assert_eq!(all.len(), 3);
            assert_eq!((&all[0], &all[2]), (&Ok(b"a".to_vec()), &Ok(b"b".to_vec())));
            let message = all[1].as_ref().expect_err("it is too long");
            assert!(message.starts_with("t:2: expected a line of at most 65,536 bytes"));
        }
        let longest = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(all(&longest), [Ok(longest)]);
    }
}
