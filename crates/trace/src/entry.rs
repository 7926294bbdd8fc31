//! Definition of a format: its names, a reader for its streams and, for some, an encoder for its
//! rows.
//!
//! A format is one file with one [`Entry`], and a line in the list of `format.rs`.

use crate::error::{Error, Fault};
use crate::prepared::Prepared;
use crate::request::Request;
use crate::summary::Statistics;
use std::io::{self, Read, Seek};

/// A format as its file describes it.
pub(crate) struct Entry {
    /// Endings of file names, without the dot. The first one is the format's name in messages.
    pub(crate) endings: &'static [&'static str],
    /// Further names that `--format` accepts.
    pub(crate) aliases: &'static [&'static str],
    /// Whether the columns of the text are fixed or chosen by the caller.
    pub(crate) columns: Columns,
    /// Whether the format's requests include the number of the object's next request.
    pub(crate) has_next_access: bool,
    /// Systems whose traces are published in this format.
    pub(crate) workload: Workload,
    /// Opens a stream.
    pub(crate) open: Open,
    /// Prepares to write the rows of a trace; `None` for a format that is only read. The error says
    /// what does not fit.
    pub(crate) encode: Option<Encode>,
}

/// Opens a stream of a format.
pub(crate) type Open =
    for<'a> fn(Input<'a>, &TextLayout<'_>) -> Result<Box<dyn Source + 'a>, OpenError>;

/// Prepares to write the rows of a trace.
pub(crate) type Encode = fn(&TraceInfo<'_>) -> Result<Encoding, String>;

/// Source of the column names of a format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// The format is not text in columns.
    None,
    /// Text in columns that the format defines.
    Fixed,
    /// Text in columns that a header or the caller names.
    Chosen,
}

/// Kind of system that a trace was recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Blocks of a disk.
    Block,
    /// Objects of a key-value cache or a web cache.
    Web,
}

/// Layout of a trace in text columns, and its bound. Formats without columns ignore the layout.
pub(crate) struct TextLayout<'o> {
    /// Names of the columns, separated by commas; `None` if the first line names them.
    pub(crate) columns: Option<&'o str>,
    /// Delimiter that the caller chose.
    pub(crate) delimiter: Option<u8>,
    /// Lines to skip at the beginning.
    pub(crate) skip_lines: u64,
    /// Maximum bytes of memory of a format that is read as a whole.
    pub(crate) memory_limit: Option<u64>,
}

/// Facts about a trace that are available before its first row is written.
pub(crate) struct TraceInfo<'o> {
    /// Names of the columns, separated by commas; `None` for the format's default.
    pub(crate) columns: Option<&'o str>,
    /// Statistics for a header that has room for them.
    pub(crate) statistics: Option<&'o Statistics>,
}

/// Bytes of a trace, decompressed.
pub(crate) enum Input<'a> {
    /// Bytes that can only be read in order.
    Stream(Box<dyn Read + 'a>),
    /// A file in which any position can be read.
    File(Box<dyn ReadSeek>),
}

/// A file that supports reading at any position.
pub(crate) trait ReadSeek: Read + Seek + Send {}
impl<F: Read + Seek + Send> ReadSeek for F {}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Stream(stream) => stream.read(buffer),
            Input::File(file) => file.read(buffer),
        }
    }
}

/// Reads the requests of one stream.
pub(crate) trait Source {
    /// Returns the next request, or `None` at the end. After [`Fault::Malformed`] the next call
    /// continues after the refused line or record.
    fn next(&mut self) -> Result<Option<Request>, Fault>;

    /// Takes the whole trace if it is a prepared one from which no request was taken. No request is
    /// left then.
    fn take_prepared(&mut self) -> Option<Prepared> {
        None
    }
}

/// Reason why a stream cannot be opened.
pub(crate) enum OpenError {
    /// The beginning of the stream is malformed or unreadable.
    Fault(Fault),
    /// The options or the kind of input do not fit the format.
    Unfit(String),
}

impl OpenError {
    /// Adds the name of the trace.
    pub(crate) fn named(self, file: &str) -> Error {
        match self {
            OpenError::Fault(fault) => fault.named(file),
            OpenError::Unfit(reason) => Error::Unfit {
                file: file.into(),
                reason,
            },
        }
    }
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        OpenError::Fault(fault)
    }
}

/// Encoder of the requests of a trace.
pub(crate) enum Encoding {
    /// A header, and then one row or record for each request.
    Rows { header: Vec<u8>, encode: EncodeRow },
    /// A prepared trace, which is written when all requests are known.
    Prepared,
    /// A Parquet table, which is written a group of rows at a time.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Appends the row of one request.
pub(crate) type EncodeRow = Box<dyn Fn(&Request, &mut Vec<u8>) -> Result<(), Misfit> + Send>;

/// A number that exceeds a field of the format: the description of the field, and the number.
pub(crate) type Misfit = (&'static str, u64);
