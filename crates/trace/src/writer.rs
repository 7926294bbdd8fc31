//! Writes a trace in any format that can be written.

use crate::compression::Packer;
use crate::entry::{Columns, EncodeRow, Encoding, TraceInfo};
use crate::error::{Error, Position};
use crate::format::{Compression, Format};
#[cfg(feature = "parquet")]
use crate::parquet_writer::ParquetWriter;
use crate::prepared::{Preparer, ROWS_BETWEEN_CHECKS};
use crate::request::Request;
use crate::summary::Statistics;
use std::io::{self, Write};

/// Number of encoded bytes collected before they are compressed and written.
const BLOCK_BYTES: usize = 1 << 16;

/// Options of a writer, for facts that the trace's name does not imply.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Format of the trace [default: by the ending of its name].
    pub format: Option<Format>,
    /// Columns of csv, separated by commas [default: all but `next`].
    pub columns: Option<String>,
    /// Statistics for the header of lcs [default: an empty header].
    pub statistics: Option<Statistics>,
    /// Maximum bytes of memory of a prepared trace, which is written at the end [default: no
    /// limit].
    pub memory_limit: Option<u64>,
}

/// Writer of requests.
pub struct Writer<W: Write + Send> {
    sink: Sink<W>,
    file: String,
    count: u64,
    memory_limit: u64,
}

enum Sink<W: Write + Send> {
    /// Rows or records, collected in a block.
    Rows {
        encode: EncodeRow,
        output: Packer<W>,
        block: Vec<u8>,
    },
    /// A prepared trace, written at the end.
    Prepared {
        preparer: Box<Preparer>,
        output: Packer<W>,
    },
    /// A table, which compresses its pages itself.
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetWriter<W>>),
}

impl<W: Write + Send> Writer<W> {
    /// Creates a writer of the trace called `name`. The endings of the name determine format and
    /// compression.
    ///
    /// ```
    /// use trace::{Request, WriteOptions, Writer};
    /// let mut writer = Writer::new("t.txt", Vec::new(), &WriteOptions::default()).unwrap();
    /// writer.write(&Request::new(0, 5, 100)).unwrap();
    /// assert_eq!(writer.finish().unwrap(), b"5\n");
    /// ```
    ///
    /// # Errors
    /// The format is unknown or cannot be written, a column is unknown, or the stream cannot be
    /// written.
    pub fn new(name: &str, output: W, options: &WriteOptions) -> Result<Self, Error> {
        let format = options.format.map_or_else(|| Format::of_name(name), Ok)?;
        let unfit = |reason: String| Error::Unfit {
            file: name.into(),
            reason,
        };
        if options.columns.is_some() && format.entry().columns != Columns::Chosen {
            return Err(unfit(format!(
                "the format {format} has no columns to choose"
            )));
        }
        let encode = format.entry().encode.ok_or_else(|| {
            let known = Format::written();
            unfit(format!("{format} is read only; written are {known}"))
        })?;
        let info = TraceInfo {
            columns: options.columns.as_deref(),
            statistics: options.statistics.as_ref(),
        };
        let (compression, _) = Compression::of_name(name);
        let unwritable = |source| unwritable(name, source);
        let sink = match encode(&info).map_err(unfit)? {
            #[cfg(feature = "parquet")]
            Encoding::Parquet if compression != Compression::Plain => {
                let reason =
                    "Parquet compresses its pages itself; choose a name without .zst, .gz, .xz";
                return Err(unfit(reason.into()));
            }
            #[cfg(feature = "parquet")]
            Encoding::Parquet => {
                Sink::Parquet(Box::new(ParquetWriter::new(output).map_err(unwritable)?))
            }
            Encoding::Prepared => Sink::Prepared {
                preparer: Box::new(Preparer::new(true)),
                output: Packer::new(compression, output).map_err(unwritable)?,
            },
            Encoding::Rows { header, encode } => Sink::Rows {
                encode,
                output: Packer::new(compression, output).map_err(unwritable)?,
                block: header,
            },
        };
        Ok(Writer {
            sink,
            file: name.into(),
            count: 0,
            memory_limit: options.memory_limit.unwrap_or(u64::MAX),
        })
    }

    /// Writes a request.
    ///
    /// # Errors
    /// A number exceeds what the format can store, or the stream cannot be written.
    pub fn write(&mut self, request: &Request) -> Result<(), Error> {
        self.count += 1;
        let written = match &mut self.sink {
            #[cfg(feature = "parquet")]
            Sink::Parquet(table) => table.write(request),
            Sink::Prepared { preparer, .. } => {
                if preparer.push(request).is_err() {
                    let expected = "at most 2^32 − 2 requests in a prepared trace";
                    return Err(self.misfit(expected, self.count));
                }
                if self.count.is_multiple_of(ROWS_BETWEEN_CHECKS) {
                    return self.check_memory();
                }
                return Ok(());
            }
            Sink::Rows {
                encode,
                output,
                block,
            } => {
                if let Err((expected, number)) = encode(request, block) {
                    return Err(self.misfit(expected, number));
                }
                if block.len() < BLOCK_BYTES {
                    return Ok(());
                }
                let written = output.write_all(block);
                block.clear();
                written
            }
        };
        written.map_err(|source| unwritable(&self.file, source))
    }

    /// Writes the remaining bytes and the end of the compressed stream, and returns the output.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub fn finish(self) -> Result<W, Error> {
        let finished = match self.sink {
            #[cfg(feature = "parquet")]
            Sink::Parquet(table) => table.finish(),
            Sink::Prepared {
                preparer,
                mut output,
            } => {
                let mut pack = |bytes: &[u8]| output.write_all(bytes);
                let written = preparer.finish().write_to(&mut pack);
                written.and_then(|()| output.finish())
            }
            Sink::Rows {
                mut output, block, ..
            } => output.write_all(&block).and_then(|()| output.finish()),
        };
        finished.map_err(|source| unwritable(&self.file, source))
    }

    /// Refuses a prepared trace that takes more memory than allowed.
    fn check_memory(&self) -> Result<(), Error> {
        let Sink::Prepared { preparer, .. } = &self.sink else {
            return Ok(());
        };
        let needed = (preparer.heap_bytes() + preparer.growth_bytes()) as u64;
        if needed <= self.memory_limit {
            return Ok(());
        }
        let reason = format!(
            "{} requests prepared need {} MiB of memory, but {} MiB are allowed: prepare a part or a \
             sample of the trace",
            self.count,
            needed.div_ceil(1 << 20),
            self.memory_limit >> 20
        );
        Err(Error::Unfit {
            file: self.file.clone(),
            reason,
        })
    }

    #[cold]
    fn misfit(&self, expected: &'static str, number: u64) -> Error {
        Error::Malformed {
            file: self.file.clone(),
            position: Position::Row(self.count),
            expected: expected.into(),
            found: number.to_string(),
        }
    }
}

fn unwritable(file: &str, source: io::Error) -> Error {
    Error::Unwritable {
        file: file.into(),
        source,
    }
}
