//! Errors of reading and writing traces.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// Maximum number of characters of the malformed text that an error quotes.
const QUOTED_CHARS: usize = 60;

/// Position in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Line of text, counted from 1.
    Line(u64),
    /// Record of a binary trace.
    Record {
        /// Number of the record, counted from 1; 0 for anything before the first record.
        number: u64,
        /// Offset of the record's first byte in the decompressed stream, counted from 0.
        offset: u64,
    },
    /// Row of a table in columns, counted from 1.
    Row(u64),
}

impl Position {
    /// Position before the first record.
    pub(crate) const START: Position = Position::Record {
        number: 0,
        offset: 0,
    };
}

/// Reason why a trace could not be read or written.
#[derive(Debug)]
pub enum Error {
    /// Something does not match the format.
    Malformed {
        /// Name of the trace.
        file: String,
        /// Position of the malformed line, record or row.
        position: Position,
        /// What the format requires there.
        expected: Cow<'static, str>,
        /// What was found instead, shortened.
        found: String,
    },
    /// The stream could not be read or decompressed.
    Unreadable {
        /// Name of the trace.
        file: String,
        /// Position of the last line or record that was read.
        position: Position,
        /// Error of the underlying reader.
        source: io::Error,
    },
    /// The stream could not be written.
    Unwritable {
        /// Name of the trace.
        file: String,
        /// Error of the underlying writer.
        source: io::Error,
    },
    /// The ending of the name belongs to no known format.
    UnknownFormat {
        /// Name of the trace.
        file: String,
        /// Endings that name a format, as a list in words.
        known: String,
    },
    /// The format does not support the requested operation or option.
    Unfit {
        /// Name of the trace.
        file: String,
        /// Unsupported feature, and what is supported instead.
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
            // The source is printed by the caller that prints the chain of errors.
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

/// Error of a format's reader, which does not have the name of the trace.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The line or record was consumed: the next call continues after it.
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

/// Returns the beginning of a text, quoted and on one line.
pub(crate) fn quoted(text: &[u8]) -> String {
    let shown = &text[..text.len().min(4 * QUOTED_CHARS)];
    let text = String::from_utf8_lossy(shown);
    let start: String = text.chars().take(QUOTED_CHARS).collect();
    format!("{start:?}")
}

/// Returns the first 16 bytes in hexadecimal.
#[cold]
pub(crate) fn hex(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(16).map(|byte| format!("{byte:02x}"));
    match bytes.len() {
        0 => "nothing".into(),
        _ => format!("bytes {}", shown.collect::<Vec<_>>().join(" ")),
    }
}
