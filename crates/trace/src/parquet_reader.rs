//! Parquet: tables in columns, with the names that csv's columns have.
//!
//! The directory of a table is at the end of its file. A table is therefore read only from a file
//! that supports seeking, not from a pipe or a compressed file. Its pages may be compressed by
//! zstd, gzip or Snappy; others are refused. Whole numbers of 32 and 64 bits, floating-point
//! numbers, texts and timestamps are read. Other columns, and columns inside lists and groups, are
//! ignored.
//!
//! Memory holds one page of each wanted column and the rows decoded from it. A page of a damaged
//! file may claim up to 2 GiB, the maximum of the format; no more than that is allocated.

use crate::csv::{Column, check_columns, put};
use crate::entry::{Columns, Encoding, Entry, Input, OpenError, Source, Workload};
use crate::error::{Fault, Position};
use crate::number;
use crate::request::{NextAccess, Op, Request};
use crate::text_key::key_of_text;
use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of rows decoded at a time.
const BATCH_ROWS: usize = 4096;
const EXPECTED_COLUMNS: &str = "columns time, key and size (or key_size and value_size), once each, \
     of whole numbers or texts";

/// Apache Parquet, with the columns that csv has.
pub(crate) static PARQUET: Entry = Entry {
    endings: &["parquet"],
    aliases: &[],
    columns: Columns::None,
    has_next_access: false,
    workload: Workload::Web,
    open: |input, _| match input {
        Input::File(file) => Ok(Box::new(ParquetReader::new(file)?)),
        Input::Stream(_) => {
            let reason = "Parquet is read from an uncompressed file, not from a pipe";
            Err(OpenError::Unfit(reason.into()))
        }
    },
    encode: Some(|_| Ok(Encoding::Parquet)),
};

/// A file shared by the readers of several columns.
struct Shared<R> {
    file: Arc<Mutex<R>>,
    length: u64,
}

/// A reader with its own position in a shared file.
struct At<R> {
    file: Arc<Mutex<R>>,
    position: u64,
}

impl<R: Read + Seek> Read for At<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.position))?;
        let read = file.read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<R> Length for Shared<R> {
    fn len(&self) -> u64 {
        self.length
    }
}

impl<R: Read + Seek + Send> ChunkReader for Shared<R> {
    type T = BufReader<At<R>>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(At {
            file: self.file.clone(),
            position: start,
        }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(
                "a part is behind the end of the file".into(),
            ));
        }
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Decoded values of one column.
enum Values {
    Whole(Vec<i64>),
    Decimal(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// A column that requests are read from.
struct Wanted {
    column: Column,
    /// Index among the columns of the file.
    index: usize,
    is_unsigned: bool,
    is_optional: bool,
    /// Factor and divisor that convert a whole number to milliseconds.
    scale: (u64, u64),
    reader: Option<ColumnReader>,
    /// Definition level of each row, for optional columns only: 1 if the row has a value.
    levels: Vec<i16>,
    values: Values,
    /// Number of values consumed.
    used: usize,
}

/// Reader of the rows of a table.
struct ParquetReader<R: Read + Seek + Send + 'static> {
    file: SerializedFileReader<Shared<R>>,
    columns: Vec<Wanted>,
    next_group: usize,
    rows: usize,
    row: usize,
    /// Number of rows returned or refused.
    count: u64,
    has_size: bool,
    has_value_size: bool,
}

impl<R: Read + Seek + Send> ParquetReader<R> {
    /// Opens a table and finds its columns.
    fn new(mut input: R) -> Result<Self, Fault> {
        let length = input.seek(SeekFrom::End(0));
        let length = length.map_err(|error| unreadable(0, error))?;
        let shared = Shared {
            file: Arc::new(Mutex::new(input)),
            length,
        };
        let file = guarded(0, || SerializedFileReader::new(shared))?;
        let schema = file.metadata().file_metadata().schema_descr();
        let descriptors = schema.columns().iter().enumerate();
        let columns: Vec<Wanted> = descriptors
            .filter_map(|(index, descriptor)| wanted(index, descriptor))
            .collect();
        let names: Vec<Column> = columns.iter().map(|wanted| wanted.column).collect();
        check_columns(&names, true)
            .map_err(|problem| Fault::at(Position::Row(0), EXPECTED_COLUMNS, problem))?;
        Ok(ParquetReader {
            has_size: names.contains(&Column::Size),
            has_value_size: names.contains(&Column::ValueSize),
            file,
            columns,
            next_group: 0,
            rows: 0,
            row: 0,
            count: 0,
        })
    }

    /// Decodes more rows; returns false at the end.
    fn fill(&mut self) -> Result<bool, Fault> {
        let position = self.count;
        self.row = 0;
        loop {
            if self.columns[0].reader.is_some() {
                let mut counts = Vec::with_capacity(self.columns.len());
                for wanted in &mut self.columns {
                    counts.push(guarded(position, || wanted.decode())?);
                }
                self.rows = counts[0];
                if counts.iter().any(|count| *count != self.rows) {
                    let error = io::Error::other("its columns have different numbers of rows");
                    return Err(unreadable(position, error));
                }
                if self.rows > 0 {
                    return Ok(true);
                }
            }
            if self.next_group == self.file.num_row_groups() {
                self.rows = 0;
                return Ok(false);
            }
            for wanted in &mut self.columns {
                let group = || {
                    self.file
                        .get_row_group(self.next_group)?
                        .get_column_reader(wanted.index)
                };
                wanted.reader = Some(guarded(position, group)?);
            }
            self.next_group += 1;
        }
    }
}

impl<R: Read + Seek + Send> Source for ParquetReader<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        if self.row == self.rows && !self.fill()? {
            return Ok(None);
        }
        let row = self.row;
        self.row += 1;
        self.count += 1;
        let mut request = Request::default();
        let mut problem = None;
        // Every column advances by one row, even after a column with an invalid value.
        for wanted in &mut self.columns {
            if !wanted.put(row, &mut request) {
                problem = problem.or(Some(wanted.column));
            }
        }
        if let Some(column) = problem {
            return Err(Fault::at(
                Position::Row(self.count),
                column.expected(),
                "an invalid value",
            ));
        }
        if self.has_size && !self.has_value_size {
            request.value_size = request.size.saturating_sub(request.key_size);
        } else if !self.has_size {
            let size = request.key_size.checked_add(request.value_size);
            let position = Position::Row(self.count);
            let expected = "a sum of key size and value size below 2^32";
            request.size = size.ok_or_else(|| Fault::at(position, expected, "more"))?;
        }
        Ok(Some(request))
    }
}

impl Wanted {
    /// Decodes up to a batch of rows and returns their number.
    fn decode(&mut self) -> Result<usize, ParquetError> {
        self.levels.clear();
        self.used = 0;
        let levels = &mut self.levels;
        let Some(reader) = &mut self.reader else {
            return Ok(0);
        };
        let rows = match (reader, &mut self.values) {
            (ColumnReader::Int64ColumnReader(reader), Values::Whole(values)) => {
                values.clear();
                rows(reader, levels, values)?
            }
            (ColumnReader::Int32ColumnReader(reader), Values::Whole(values)) => {
                let mut small = Vec::new();
                let count = rows(reader, levels, &mut small)?;
                values.clear();
                let is_unsigned = self.is_unsigned;
                let widen = |number: i32| {
                    if is_unsigned {
                        i64::from(number as u32)
                    } else {
                        i64::from(number)
                    }
                };
                values.extend(small.into_iter().map(widen));
                count
            }
            (ColumnReader::DoubleColumnReader(reader), Values::Decimal(values)) => {
                values.clear();
                rows(reader, levels, values)?
            }
            (ColumnReader::FloatColumnReader(reader), Values::Decimal(values)) => {
                let mut small = Vec::new();
                let count = rows(reader, levels, &mut small)?;
                values.clear();
                values.extend(small.into_iter().map(f64::from));
                count
            }
            (ColumnReader::ByteArrayColumnReader(reader), Values::Text(values)) => {
                values.clear();
                rows(reader, levels, values)?
            }
            _ => {
                return Err(ParquetError::General(
                    "a column whose type differs from the schema".into(),
                ));
            }
        };
        Ok(rows)
    }

    /// Stores the column's value of a row in the request. Returns false if the value is invalid for
    /// the column.
    fn put(&mut self, row: usize, request: &mut Request) -> bool {
        if self.is_optional && self.levels.get(row) != Some(&1) {
            // A missing value is valid where the request has a default.
            return matches!(
                self.column,
                Column::Op
                    | Column::TtlSeconds
                    | Column::TtlMilliseconds
                    | Column::Client
                    | Column::Next
            );
        }
        let at = self.used;
        self.used += 1;
        match &self.values {
            Values::Whole(values) => values
                .get(at)
                .is_some_and(|value| self.put_whole(*value, request)),
            Values::Decimal(values) => values
                .get(at)
                .is_some_and(|value| self.put_decimal(*value, request)),
            Values::Text(values) => values
                .get(at)
                .is_some_and(|value| self.put_text(value.data(), request)),
        }
    }

    fn put_whole(&self, value: i64, request: &mut Request) -> bool {
        if self.column == Column::Next {
            request.next_access = match value {
                -1 => NextAccess::Never,
                0.. => NextAccess::At(value as u64),
                _ => return false,
            };
            return true;
        }
        if self.column == Column::Key {
            // A negative number is a text, as in csv.
            let is_number = self.is_unsigned || value >= 0;
            request.key = if is_number {
                value as u64
            } else {
                key_of_text(value.to_string().as_bytes())
            };
            return true;
        }
        if value < 0 && !self.is_unsigned {
            return false;
        }
        let value = value as u64;
        let ms = value
            .checked_mul(self.scale.0)
            .map(|scaled| scaled / self.scale.1);
        let small = u32::try_from(value).ok();
        match self.column {
            Column::Seconds | Column::Milliseconds => put(&mut request.time_ms, ms),
            Column::TtlSeconds | Column::TtlMilliseconds => put(&mut request.ttl_ms, ms),
            Column::Size => put(&mut request.size, small),
            Column::KeySize => put(&mut request.key_size, small),
            Column::ValueSize => put(&mut request.value_size, small),
            Column::Client => put(&mut request.client, small),
            Column::Op | Column::Key | Column::Next | Column::Count | Column::Ignored => false,
        }
    }

    fn put_decimal(&self, value: f64, request: &mut Request) -> bool {
        let ms = value * self.scale.0 as f64;
        let ms = (0.0..1e18).contains(&ms).then_some(ms as u64);
        match self.column {
            Column::Seconds | Column::Milliseconds => put(&mut request.time_ms, ms),
            Column::TtlSeconds | Column::TtlMilliseconds => put(&mut request.ttl_ms, ms),
            _ => false,
        }
    }

    fn put_text(&self, text: &[u8], request: &mut Request) -> bool {
        match self.column {
            Column::Key => put(
                &mut request.key,
                (!text.is_empty()).then(|| number::key(text)),
            ),
            Column::Op => put(&mut request.op, Op::from_name(text)),
            Column::Client => {
                let client = number::small(text).unwrap_or_else(|| key_of_text(text) as u32);
                put(&mut request.client, Some(client))
            }
            _ => false,
        }
    }
}

fn rows<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    levels: &mut Vec<i16>,
    values: &mut Vec<T::T>,
) -> Result<usize, ParquetError> {
    let (rows, _, _) = reader.read_records(BATCH_ROWS, Some(levels), None, values)?;
    Ok(rows)
}

/// Returns how to read a column, or `None` if its name or type is not supported.
fn wanted(index: usize, descriptor: &ColumnDescriptor) -> Option<Wanted> {
    let column = match Column::of_name(descriptor.name().as_bytes()) {
        // A row is one request.
        Column::Count => Column::Ignored,
        column => column,
    };
    let is_flat = descriptor.path().parts().len() == 1
        && descriptor.max_rep_level() == 0
        && descriptor.max_def_level() <= 1;
    if !is_flat || column == Column::Ignored {
        return None;
    }
    let values = match descriptor.physical_type() {
        Physical::INT32 | Physical::INT64 => Values::Whole(Vec::new()),
        Physical::FLOAT | Physical::DOUBLE => Values::Decimal(Vec::new()),
        Physical::BYTE_ARRAY => Values::Text(Vec::new()),
        _ => return None,
    };
    let unit = match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Timestamp(stamp)), _) => Some(&stamp.unit),
        (_, ConvertedType::TIMESTAMP_MILLIS) => Some(&TimeUnit::MILLIS),
        (_, ConvertedType::TIMESTAMP_MICROS) => Some(&TimeUnit::MICROS),
        _ => None,
    };
    let scale = match (unit, column) {
        (Some(TimeUnit::MILLIS), _) => (1, 1),
        (Some(TimeUnit::MICROS), _) => (1, 1_000),
        (Some(TimeUnit::NANOS), _) => (1, 1_000_000),
        (None, Column::Seconds | Column::TtlSeconds) => (1_000, 1),
        (None, _) => (1, 1),
    };
    let is_unsigned = match descriptor.logical_type_ref() {
        Some(LogicalType::Integer(whole)) => !whole.is_signed,
        _ => matches!(
            descriptor.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        ),
    };
    Some(Wanted {
        column,
        index,
        is_unsigned,
        is_optional: descriptor.max_def_level() == 1,
        scale,
        reader: None,
        levels: Vec::new(),
        values,
        used: 0,
    })
}

/// Calls the decoder and converts a panic to an error. The decoder panics on some damaged files,
/// for example on a number that continues for too many bytes (an assertion in `util/bit_util.rs` of
/// parquet 60.1).
fn guarded<T>(row: u64, decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| unreadable(row, io::Error::other(error))),
        Err(_) => Err(unreadable(row, io::Error::other("its pages are damaged"))),
    }
}

fn unreadable(row: u64, source: io::Error) -> Fault {
    Fault::Unreadable {
        position: Position::Row(row),
        source,
    }
}
