//! What can be wrong with a trace.

use std::fmt;
use std::io;

/// Why a trace could not be read.
#[derive(Debug)]
pub enum Error {
    /// A line is not what the format asks for.
    BadLine {
        /// The trace's name.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// What should have been there.
        expected: &'static str,
        /// What was there, shortened.
        found: String,
    },
    /// The stream could not be read or decompressed.
    Unreadable {
        /// The trace's name.
        file: String,
        /// The line reached so far.
        line: u64,
        /// What the reader below said.
        source: io::Error,
    },
    /// The name's ending names no known format.
    UnknownFormat {
        /// The trace's name.
        file: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadLine {
                file,
                line,
                expected,
                found,
            } => {
                write!(f, "{file}:{line}: expected {expected}, found {found:?}")
            }
            Error::Unreadable { file, line, source } => {
                write!(f, "{file}: cannot be read after line {line}: {source}")
            }
            Error::UnknownFormat { file } => write!(
                f,
                "{file}: the name must end in .csv, plain or followed by .zst or .gz"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Unreadable { source, .. } => Some(source),
            Error::BadLine { .. } | Error::UnknownFormat { .. } => None,
        }
    }
}
