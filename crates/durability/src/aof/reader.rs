//! Reads the commands of an increment or of a base that consists of commands.

use super::annotation;
use crate::replication::EARLIEST;
use std::fmt;
use std::io::{self, Read};
use store::Tick;
use wire::{Args, Limits, Parsed, Parser, Span};

/// Number of bytes per read.
const READ_BYTES: usize = 1 << 20;
/// Maximum length of a line that is not a command.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Reason why a file cannot be read further.
#[derive(Debug)]
pub enum Damage {
    /// The file ends within a command or a transaction that begins at this offset, as after a crash
    /// during a write.
    Truncated(u64),
    /// The bytes at this offset are not a command.
    Malformed(u64, String),
    /// The file cannot be read.
    Unreadable(u64, io::Error),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Truncated(at) => write!(
                f,
                "offset {at}: the file ends within a command or a transaction"
            ),
            Damage::Malformed(at, expected) => {
                write!(f, "offset {at}: {expected}")
            }
            Damage::Unreadable(at, error) => write!(f, "offset {at}: {error}"),
        }
    }
}

/// A command from a file.
pub struct Command<'a> {
    /// The command's arguments.
    pub args: Args<'a>,
    /// Time when the command was executed, if the file contains it.
    executed_at: Option<Tick>,
}

impl Command<'_> {
    /// Returns the instant from which its TTLs count. It is never later than `now`, because the
    /// clock at the time of writing may have been ahead.
    pub fn instant(&self, now: Tick) -> Tick {
        self.executed_at.map_or(now, |at| at.clamp(EARLIEST, now))
    }
}

/// Reader of the commands in a file.
pub struct CommandReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Position of the next command in the buffer.
    at: usize,
    /// File offset of the buffer's first byte.
    base: u64,
    has_ended: bool,
    /// Instant in the last annotation.
    executed_at: Option<Tick>,
    parser: Parser,
    spans: Vec<Span>,
}

impl<R: Read> CommandReader<R> {
    /// Creates a reader. `first` contains bytes that were already read from the source, beginning
    /// at `offset`.
    pub fn new(source: R, first: Vec<u8>, offset: u64) -> Self {
        CommandReader {
            source,
            buffer: first,
            at: 0,
            base: offset,
            has_ended: false,
            executed_at: None,
            parser: Parser::new(Limits::of_feed()),
            spans: Vec::new(),
        }
    }

    /// Returns the offset of the next command.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Returns the first bytes of the file without consuming them: `count` bytes, or fewer if the
    /// file is shorter.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn peek(&mut self, count: usize) -> Result<&[u8], Damage> {
        while self.buffer.len() - self.at < count && !self.has_ended {
            self.fill(READ_BYTES)?;
        }
        let end = self.buffer.len().min(self.at + count);
        Ok(&self.buffer[self.at..end])
    }

    /// Returns the source together with the bytes that were read but not consumed.
    pub fn into_parts(self) -> (R, Vec<u8>) {
        (self.source, self.buffer[self.at..].to_vec())
    }

    fn fill(&mut self, bytes: usize) -> Result<(), Damage> {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.base += self.at as u64;
            self.at = 0;
        }
        let before = self.buffer.len();
        let mut limited = (&mut self.source).take(bytes as u64);
        // The buffer grows with what is there, not with what a command claims.
        match limited.read_to_end(&mut self.buffer) {
            Ok(_) => {
                self.has_ended = self.buffer.len() == before;
                Ok(())
            }
            Err(error) => Err(Damage::Unreadable(self.offset(), error)),
        }
    }

    /// Returns the next command; `None` at the end of the file.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn next_command(&mut self) -> Result<Option<Command<'_>>, Damage> {
        self.spans.clear();
        loop {
            let Some(mark) = self.buffer.get(self.at) else {
                if self.has_ended {
                    return Ok(None);
                }
                self.fill(READ_BYTES)?;
                continue;
            };
            match mark {
                b'*' => {}
                b'#' => {
                    self.read_annotation()?;
                    continue;
                }
                byte => {
                    let found = byte.escape_ascii();
                    let text = format!("expected '*' or '#', found '{found}'");
                    return Err(Damage::Malformed(self.offset(), text));
                }
            }
            let start = self.at;
            match self
                .parser
                .parse(&mut self.buffer[start..], &mut self.spans)
            {
                Ok(Parsed::Command { consumed }) => {
                    self.at += consumed;
                    let input = &self.buffer[start..self.at];
                    return Ok(Some(Command {
                        args: Args::new(input, &self.spans),
                        executed_at: self.executed_at,
                    }));
                }
                Ok(Parsed::Blank { .. }) => {
                    let text = "expected a command with a name".to_owned();
                    return Err(Damage::Malformed(self.offset(), text));
                }
                Ok(Parsed::Incomplete { .. }) if self.has_ended => {
                    return Err(Damage::Truncated(self.offset()));
                }
                Ok(Parsed::Incomplete { .. }) => self.fill(READ_BYTES)?,
                Err(error) => {
                    return Err(Damage::Malformed(self.offset(), error.to_string()));
                }
            }
        }
    }

    fn read_annotation(&mut self) -> Result<(), Damage> {
        loop {
            let line = &self.buffer[self.at..];
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                let executed_at = annotation::parse(&line[..=end]);
                let executed_at = executed_at
                    .map_err(|text| Damage::Malformed(self.offset(), text.to_owned()))?;
                self.executed_at = executed_at.or(self.executed_at);
                self.at += end + 1;
                return Ok(());
            }
            if self.has_ended {
                return Err(Damage::Truncated(self.offset()));
            }
            if line.len() > LINE_BYTES_MAX {
                let text = format!("expected the end of a line within {LINE_BYTES_MAX} bytes");
                return Err(Damage::Malformed(self.offset(), text));
            }
            self.fill(READ_BYTES)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[u8]) -> (Vec<String>, Option<Damage>) {
        let mut reader = CommandReader::new(bytes, Vec::new(), 0);
        let mut found = Vec::new();
        loop {
            match reader.next_command() {
                Ok(Some(command)) => {
                    let words = command.args.iter().map(String::from_utf8_lossy);
                    found.push(words.collect::<Vec<_>>().join(" "));
                }
                Ok(None) => return (found, None),
                Err(damage) => return (found, Some(damage)),
            }
        }
    }

    const FILE: &[u8] =
        b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n#TS:17\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";

    #[test]
    fn commands_and_annotations_are_read() {
        let (found, damage) = names(FILE);
        assert_eq!(found, ["SELECT 0", "SET a \r\n"]);
        assert!(damage.is_none());
    }

    #[test]
    fn every_cut_is_reported_at_the_beginning_of_its_command() {
        let starts = [0, 23, 31];
        for len in 0..FILE.len() {
            let (_, damage) = names(&FILE[..len]);
            match damage {
                None => assert!(starts.contains(&len), "{len}"),
                Some(Damage::Truncated(at)) => assert!(starts.contains(&(at as usize)), "{len}"),
                Some(other) => panic!("{len}: {other}"),
            }
        }
    }

    #[test]
    fn other_bytes_are_refused_with_their_offset() {
        for (tail, expected) in [
            (&b"SET a b\r\n"[..], "expected '*' or '#'"),
            (b"*0\r\n", "expected a command"),
            (b"*1\r\n:5\r\n", "Protocol error: expected '$'"),
            (b"*1\r\n$4\r\nPINGxx", "Protocol error: expected a line end"),
        ] {
            let (found, damage) = names(&[FILE, tail].concat());
            assert_eq!(found.len(), 2);
            match damage {
                Some(Damage::Malformed(at, text)) => {
                    assert_eq!(at, FILE.len() as u64);
                    assert!(text.starts_with(expected), "{text}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
