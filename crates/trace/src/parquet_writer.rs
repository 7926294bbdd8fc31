//! Writes requests as a Parquet table: one column for each field, compressed by zstd.

use crate::request::{NextAccess, Request};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of rows in a group. A group stays in memory until it is written, about 50 MB.
const GROUP_ROWS: usize = 1 << 20;

/// Columns in the order in which [`ParquetWriter::flush`] writes them.
const SCHEMA: &str = "message trace {
    required int64 time_ms (INTEGER(64, false));
    required int64 key (INTEGER(64, false));
    required int32 size (INTEGER(32, false));
    required int32 key_size (INTEGER(32, false));
    required int32 value_size (INTEGER(32, false));
    required binary op (STRING);
    required int64 ttl_ms (INTEGER(64, false));
    required int32 client (INTEGER(32, false));
    optional int64 next;
}";

/// Writer of requests, which writes one group of rows at a time.
pub(crate) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Vec<Request>,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(crate) fn new(output: W) -> io::Result<Self> {
        let schema = parse_message_type(SCHEMA)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let file = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))?;
        Ok(ParquetWriter {
            file,
            rows: Vec::new(),
        })
    }

    pub(crate) fn write(&mut self, request: &Request) -> io::Result<()> {
        self.rows.push(*request);
        if self.rows.len() == GROUP_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.file.into_inner()?)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = &self.rows;
        let mut group = self.file.next_row_group()?;
        column::<Int64Type, _>(&mut group, rows, |row| row.time_ms as i64)?;
        column::<Int64Type, _>(&mut group, rows, |row| row.key as i64)?;
        column::<Int32Type, _>(&mut group, rows, |row| row.size as i32)?;
        column::<Int32Type, _>(&mut group, rows, |row| row.key_size as i32)?;
        column::<Int32Type, _>(&mut group, rows, |row| row.value_size as i32)?;
        column::<ByteArrayType, _>(&mut group, rows, |row| ByteArray::from(row.op.name()))?;
        column::<Int64Type, _>(&mut group, rows, |row| row.ttl_ms as i64)?;
        column::<Int32Type, _>(&mut group, rows, |row| row.client as i32)?;
        next_accesses(&mut group, rows)?;
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Request],
    value: impl Fn(&Request) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    write_values::<T, W>(group, &values, None)
}

/// Writes the only column in which values may be missing.
fn next_accesses<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Request],
) -> Result<(), ParquetError> {
    let next = rows.iter().map(|row| match row.next_access {
        NextAccess::Unknown => None,
        NextAccess::Never => Some(-1),
        NextAccess::At(number) => Some(number as i64),
    });
    let next: Vec<Option<i64>> = next.collect();
    let levels: Vec<i16> = next.iter().map(|next| i16::from(next.is_some())).collect();
    let values: Vec<i64> = next.into_iter().flatten().collect();
    write_values::<Int64Type, W>(group, &values, Some(&levels))
}

fn write_values<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.expect("the schema has as many columns as are written");
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
