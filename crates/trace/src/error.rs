//! What can be wrong with a trace.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// How much of what was found an error quotes.
const QUOTED_CHARS: usize = 60;

/// Where in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line of text, counted from 1.
    Line(u64),
    /// A record of a binary trace.
    Record {
        /// Counted from 1; 0 is what stands before the first.
        number: u64,
        /// Where it begins: the byte of the expanded stream, counted from 0.
        offset: u64,
    },
    /// A row of a table in columns, counted from 1.
    Row(u64),
}

impl Position {
    /// Before the first record.
    pub(crate) const START: Position = Position::Record {
        number: 0,
        offset: 0,
    };
}

/// Why a trace could not be read or written.
#[derive(Debug)]
pub enum Error {
    /// Something is not what the format asks for.
    Malformed {
        /// The trace's name.
        file: String,
        /// Where.
        position: Position,
        /// What should have been there.
        expected: Cow<'static, str>,
        /// What was there, shortened.
        found: String,
    },
    /// The stream could not be read or decompressed.
    Unreadable {
        /// The trace's name.
        file: String,
        /// What was read last.
        position: Position,
        /// What the reader below said.
        source: io::Error,
    },
    /// The stream could not be written.
    Unwritable {
        /// The trace's name.
        file: String,
        /// What the writer below said.
        source: io::Error,
    },
    /// The name's ending names no known format.
    UnknownFormat {
        /// Name of the trace.
        file: String,
        /// Endings that name a format, as a list in words.
        known: String,
    },
    /// The format cannot do what was asked for.
    Unfit {
        /// The trace's name.
        file: String,
        /// What cannot be, and what can.
        reason: String,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Line(line) => write!(f, "line {line}"),
            Position::Record { number: 0, offset } => write!(f, "byte {offset}"),
            Position::Record { number, offset } => write!(f, "record {number} at byte {offset}"),
            Position::Row(row) => write!(f, "row {row}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed {
                file,
                position,
                expected,
                found,
            } => match position {
                Position::Line(line) => {
                    write!(f, "{file}:{line}: expected {expected}, found {found}")
                }
                _ => write!(f, "{file}: {position}: expected {expected}, found {found}"),
            },
            // The source is told by whoever tells the chain.
            Error::Unreadable { file, position, .. } => {
                write!(f, "{file}: cannot be read after {position}")
            }
            Error::Unwritable { file, .. } => write!(f, "{file}: cannot be written"),
            Error::UnknownFormat { file, known } => write!(
                f,
                "{file}: the name must end in {known}, each plain or followed by .zst, .gz or .xz \
                 (or give the format)"
            ),
            Error::Unfit { file, reason } => write!(f, "{file}: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Unreadable { source, .. } | Error::Unwritable { source, .. } => Some(source),
            Error::Malformed { .. } | Error::UnknownFormat { .. } | Error::Unfit { .. } => None,
        }
    }
}

/// What a format's reader says is wrong; it does not know the trace's name.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The line or record was consumed: the next call goes on behind it.
    Malformed {
        position: Position,
        expected: Cow<'static, str>,
        found: String,
    },
    /// Nothing more can be read.
    Unreadable {
        position: Position,
        source: io::Error,
    },
}

impl Fault {
    #[cold]
    pub(crate) fn line(number: u64, text: &[u8], expected: impl Into<Cow<'static, str>>) -> Fault {
        Fault::Malformed {
            position: Position::Line(number),
            expected: expected.into(),
            found: quoted(text),
        }
    }

    #[cold]
    pub(crate) fn at(
        position: Position,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<String>,
    ) -> Fault {
        Fault::Malformed {
            position,
            expected: expected.into(),
            found: found.into(),
        }
    }

    #[cold]
    pub(crate) fn named(self, file: &str) -> Error {
        let file = file.to_owned();
        match self {
            Fault::Malformed {
                position,
                expected,
                found,
            } => Error::Malformed {
                file,
                position,
                expected,
                found,
            },
            Fault::Unreadable { position, source } => Error::Unreadable {
                file,
                position,
                source,
            },
        }
    }
}

/// The beginning of a text, between quotes and on one line.
pub(crate) fn quoted(text: &[u8]) -> String {
    let shown = &text[..text.len().min(4 * QUOTED_CHARS)];
    let text = String::from_utf8_lossy(shown);
    let start: String = text.chars().take(QUOTED_CHARS).collect();
    format!("{start:?}")
}

/// The first bytes of something binary.
#[cold]
pub(crate) fn hex(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(16).map(|byte| format!("{byte:02x}"));
    match bytes.len() {
        0 => "nothing".into(),
        _ => format!("bytes {}", shown.collect::<Vec<_>>().join(" ")),
    }
}
