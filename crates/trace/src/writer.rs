//! A trace written down in any of the formats that others read, too.

use crate::compression::Packer;
use crate::csv::Column;
use crate::error::{Error, Place};
use crate::format::{Compression, Format};
use crate::lcs;
use crate::request::{NextAccess, Request};
use crate::summary::Facts;
use crate::table_writer::TableWriter;
use std::io::{self, Write};

/// Bytes gathered before they are packed.
const BLOCK_BYTES: usize = 1 << 16;

/// The columns of csv, unless others are asked for.
const COLUMNS: &str = "time,key,size,key_size,value_size,op,ttl,client";

/// What a name does not tell about a trace to be written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The format, instead of the one that the name's ending tells.
    pub format: Option<Format>,
    /// The columns of csv, apart by commas [default: all but `next`].
    pub columns: Option<String>,
    /// What lcs's header is to tell [default: nothing].
    pub facts: Option<Facts>,
}

/// Writes requests.
pub struct Writer<W: Write + Send> {
    sink: Sink<W>,
    file: String,
    count: u64,
}

enum Sink<W: Write + Send> {
    /// A row or record behind the other, gathered in a block.
    Rows {
        body: Body,
        output: Packer<W>,
        block: Vec<u8>,
    },
    /// Columns.
    Table(Box<TableWriter<W>>),
}

enum Body {
    Csv(Vec<Column>),
    Twitter,
    Ids,
    OracleGeneral,
    Lcs,
}

/// A number that a format has no room for: what it has room for, and the number.
type Misfit = (&'static str, u64);

impl Format {
    /// Whether requests in it tell when their objects are asked for again, which takes
    /// [`crate::Spool::annotate`] to know.
    pub fn tells_next_access(self) -> bool {
        matches!(self, Format::OracleGeneral | Format::Lcs)
    }
}

impl<W: Write + Send> Writer<W> {
    /// Writes the trace called `name`; the name's endings tell format and compression.
    ///
    /// ```
    /// use trace::{Request, WriteOptions, Writer};
    /// let mut writer = Writer::new("t.txt", Vec::new(), &WriteOptions::default()).unwrap();
    /// writer.write(&Request::new(0, 5, 100)).unwrap();
    /// assert_eq!(writer.finish().unwrap(), b"5\n");
    /// ```
    ///
    /// # Errors
    /// A format that is not known or not written here, unknown columns, an unwritable stream.
    pub fn new(name: &str, output: W, options: &WriteOptions) -> Result<Self, Error> {
        let format = options.format.map_or_else(|| Format::of_name(name), Ok)?;
        let unfit = |reason: String| Error::Unfit {
            file: name.into(),
            reason,
        };
        if options.columns.is_some() && format != Format::Csv {
            return Err(unfit(format!(
                "the format {format} has no columns to choose"
            )));
        }
        let (compression, _) = Compression::of_name(name);
        let unwritable = |source| unwritable(name, source);
        let sink = if format == Format::Parquet {
            if compression != Compression::Plain {
                return Err(unfit("Parquet packs its pages itself".into()));
            }
            Sink::Table(Box::new(TableWriter::new(output).map_err(unwritable)?))
        } else {
            let (body, header) = body(format, options).map_err(unfit)?;
            Sink::Rows {
                body,
                output: Packer::new(compression, output).map_err(unwritable)?,
                block: header,
            }
        };
        Ok(Writer {
            sink,
            file: name.into(),
            count: 0,
        })
    }

    /// Writes a request.
    ///
    /// # Errors
    /// A number that the format has no room for, an unwritable stream.
    pub fn write(&mut self, request: &Request) -> Result<(), Error> {
        self.count += 1;
        let written = match &mut self.sink {
            Sink::Table(table) => table.write(request),
            Sink::Rows {
                body,
                output,
                block,
            } => {
                if let Err((expected, number)) = body.encode(request, block) {
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

    /// Writes what is left and the compression's end.
    ///
    /// # Errors
    /// An unwritable stream.
    pub fn finish(self) -> Result<W, Error> {
        let finished = match self.sink {
            Sink::Table(table) => table.finish(),
            Sink::Rows {
                mut output, block, ..
            } => output.write_all(&block).and_then(|()| output.finish()),
        };
        finished.map_err(|source| unwritable(&self.file, source))
    }

    #[cold]
    fn misfit(&self, expected: &'static str, number: u64) -> Error {
        Error::Malformed {
            file: self.file.clone(),
            place: Place::Row(self.count),
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

/// How a format's rows are written, and what stands before them.
fn body(format: Format, options: &WriteOptions) -> Result<(Body, Vec<u8>), String> {
    Ok(match format {
        Format::Csv => {
            let columns = options.columns.as_deref().unwrap_or(COLUMNS);
            let header = format!("{columns}\n").into_bytes();
            (Body::Csv(chosen(columns)?), header)
        }
        Format::Twitter => (Body::Twitter, Vec::new()),
        Format::Ids => (Body::Ids, Vec::new()),
        Format::OracleGeneral => (Body::OracleGeneral, Vec::new()),
        Format::Lcs => (Body::Lcs, lcs::header(options.facts.as_ref())),
        Format::Arc | Format::Lirs | Format::Vscsi | Format::Parquet => {
            let known = "csv, twitter.csv, oracleGeneral, lcs, parquet and txt";
            return Err(format!("{format} is read only; written are {known}"));
        }
    })
}

impl Body {
    fn encode(&self, request: &Request, out: &mut Vec<u8>) -> Result<(), Misfit> {
        match self {
            Body::Csv(columns) => csv_line(request, columns, out),
            Body::Twitter => twitter_line(request, out),
            Body::Ids => {
                decimal(request.key, out);
                out.push(b'\n');
            }
            Body::OracleGeneral => oracle_record(request, out)?,
            Body::Lcs => lcs_record(request, out)?,
        }
        Ok(())
    }
}

fn chosen(names: &str) -> Result<Vec<Column>, String> {
    let columns: Vec<Column> = names
        .split(',')
        .map(|name| Column::of_name(name.as_bytes()))
        .collect();
    match columns.iter().position(|column| *column == Column::Ignored) {
        Some(at) => {
            let name = names.split(',').nth(at).unwrap_or_default();
            Err(format!("no column is called {name:?}"))
        }
        None => crate::csv::check_columns(&columns, false).map(|()| columns),
    }
}

fn csv_line(request: &Request, columns: &[Column], out: &mut Vec<u8>) {
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match column {
            Column::Seconds => seconds(request.time_ms, out),
            Column::Milliseconds => decimal(request.time_ms, out),
            Column::Key => decimal(request.key, out),
            Column::Size => decimal(request.size.into(), out),
            Column::KeySize => decimal(request.key_size.into(), out),
            Column::ValueSize => decimal(request.value_size.into(), out),
            Column::Op => out.extend_from_slice(request.op.name().as_bytes()),
            Column::TtlSeconds => seconds(request.ttl_ms, out),
            Column::TtlMilliseconds => decimal(request.ttl_ms, out),
            Column::Client => decimal(request.client.into(), out),
            Column::Next => match request.next_access {
                NextAccess::Unknown => {}
                NextAccess::Never => out.extend_from_slice(b"-1"),
                NextAccess::At(number) => decimal(number, out),
            },
            Column::Ignored => {}
        }
    }
    out.push(b'\n');
}

fn twitter_line(request: &Request, out: &mut Vec<u8>) {
    for number in [
        request.time_ms / 1000,
        request.key,
        request.key_size.into(),
        request.value_size.into(),
        request.client.into(),
    ] {
        decimal(number, out);
        out.push(b',');
    }
    out.extend_from_slice(request.op.name().as_bytes());
    out.push(b',');
    // A TTL below a second must not become none.
    decimal(request.ttl_ms.div_ceil(1000), out);
    out.push(b'\n');
}

/// Milliseconds as seconds, with no more digits than they need.
fn seconds(ms: u64, out: &mut Vec<u8>) {
    decimal(ms / 1000, out);
    let fraction = ms % 1000;
    if fraction > 0 {
        let digits = [fraction / 100, fraction / 10 % 10, fraction % 10];
        let used = 3 - digits.iter().rev().take_while(|digit| **digit == 0).count();
        out.push(b'.');
        out.extend(digits[..used].iter().map(|digit| b'0' + *digit as u8));
    }
}

fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn time(request: &Request) -> Result<u32, Misfit> {
    let seconds = request.time_ms / 1000;
    u32::try_from(seconds).map_err(|_| ("a time below 2^32 seconds", seconds))
}

fn next(request: &Request) -> i64 {
    match request.next_access {
        NextAccess::Unknown => 0,
        NextAccess::Never => -1,
        NextAccess::At(number) => number as i64 + 1,
    }
}

fn oracle_record(request: &Request, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let time = time(request)?;
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&request.key.to_le_bytes());
    out.extend_from_slice(&request.size.to_le_bytes());
    out.extend_from_slice(&next(request).to_le_bytes());
    Ok(())
}

/// A record of version 3.
fn lcs_record(request: &Request, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let time = time(request)?;
    if request.client >= 1 << 24 {
        return Err(("a client below 2^24", request.client.into()));
    }
    let ttl = request.ttl_ms.div_ceil(1000);
    if ttl > i32::MAX as u64 {
        return Err(("a TTL below 2^31 seconds", ttl));
    }
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&request.key.to_le_bytes());
    out.extend_from_slice(&i64::from(request.size).to_le_bytes());
    let op = u32::from(lcs::op_number(request.op));
    out.extend_from_slice(&(op | request.client << 8).to_le_bytes());
    out.extend_from_slice(&(ttl as u32).to_le_bytes());
    out.extend_from_slice(&next(request).to_le_bytes());
    Ok(())
}
