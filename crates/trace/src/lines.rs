//! Lines of text of bounded length, without a copy of each.

use crate::error::{Fault, Place};
use std::borrow::Cow;
use std::io::{ErrorKind, Read};

/// A longer line is refused, so that a file without line ends cannot take all memory.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 16;
const BUFFER_BYTES: usize = 1 << 18;
const _: () = assert!(LINE_BYTES_MAX < BUFFER_BYTES);

const EXPECTED_LINE: &str = "a line of at most 65,536 bytes";

/// A line without its end.
#[derive(Clone, Copy)]
pub(crate) struct Line<'l> {
    /// Counted from 1.
    pub(crate) number: u64,
    pub(crate) text: &'l [u8],
}

impl Line<'_> {
    /// What is wrong with it.
    #[cold]
    pub(crate) fn fault(self, expected: impl Into<Cow<'static, str>>) -> Fault {
        Fault::line(self.number, self.text, expected)
    }
}

/// A stream cut into lines.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    /// What was read and not yet handed out.
    start: usize,
    end: usize,
    /// Lines handed out or refused so far.
    number: u64,
    is_at_end: bool,
    /// The rest of a refused line is still to be thrown away.
    is_in_refused_line: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Lines {
            input,
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            number: 0,
            is_at_end: false,
            is_in_refused_line: false,
        }
    }

    /// The next line without its end (`\n` or `\r\n`); `None` at the end of the stream. The last line
    /// may lack its end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Fault> {
        if self.is_in_refused_line {
            self.throw_away()?;
        }
        let mut searched = 0;
        let (line_end, next_start) = loop {
            let unread = &self.buffer[self.start + searched..self.end];
            if let Some(at) = memchr::memchr(b'\n', unread) {
                let line_end = self.start + searched + at;
                break (line_end, line_end + 1);
            }
            searched = self.end - self.start;
            if searched > LINE_BYTES_MAX {
                return Err(self.refuse());
            }
            if !self.is_at_end {
                self.fill()?;
            } else if searched == 0 {
                return Ok(None);
            } else {
                break (self.end, self.end);
            }
        };
        if line_end - self.start > LINE_BYTES_MAX {
            return Err(self.refuse());
        }
        let line = &self.buffer[self.start..line_end];
        self.start = next_start;
        self.number += 1;
        Ok(Some(Line {
            number: self.number,
            text: line.strip_suffix(b"\r").unwrap_or(line),
        }))
    }

    #[cold]
    fn refuse(&mut self) -> Fault {
        self.number += 1;
        self.is_in_refused_line = true;
        let text = &self.buffer[self.start..self.end];
        Fault::line(self.number, text, EXPECTED_LINE)
    }

    /// Skips to the end of the line.
    fn throw_away(&mut self) -> Result<(), Fault> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', unread) {
                self.start += at + 1;
                break;
            }
            self.start = self.end;
            if self.is_at_end {
                break;
            }
            self.fill()?;
        }
        self.is_in_refused_line = false;
        Ok(())
    }

    /// Reads more behind what is there, which is moved to the front.
    fn fill(&mut self) -> Result<(), Fault> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        assert!(self.end < self.buffer.len());
        let read = loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let read = read.map_err(|source| Fault::Unreadable {
            place: Place::Line(self.number),
            source,
        })?;
        self.is_at_end = read == 0;
        self.end += read;
        Ok(())
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
