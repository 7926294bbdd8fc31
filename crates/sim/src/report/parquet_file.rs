//! A table as a Parquet file: the columns of the CSV with their types, compressed by zstd.

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use report::{Cell, Column, Format, Table};
use std::io::Write;
use std::sync::Arc;

/// Definition levels of an empty cell and of one with a value.
const LEVELS: [i16; 2] = [0, 1];

/// Writes the table as Parquet.
///
/// # Errors
///
/// The output could not be written.
pub fn parquet(table: &Table, output: impl Write + Send) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let schema = parse_message_type(&schema(table.columns()))?;
    let mut file = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (at, column) in table.columns().iter().enumerate() {
        let cells: Vec<&Cell> = table.rows().iter().map(|row| &row[at]).collect();
        match column.format() {
            Format::Text => write::<ByteArrayType, _>(&mut group, &cells, |cell| match cell {
                Cell::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            })?,
            Format::Count => write::<Int64Type, _>(&mut group, &cells, |cell| match cell {
                Cell::Count(count) => Some(*count as i64),
                _ => None,
            })?,
            Format::Auto => write_lists(&mut group, &cells)?,
            _ => write::<DoubleType, _>(&mut group, &cells, Cell::number)?,
        }
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn schema(columns: &[Column]) -> String {
    let lines = columns.iter().map(|column| {
        let name = column.name();
        match column.format() {
            Format::Text => format!("optional binary {name} (STRING);\n"),
            Format::Count => format!("optional int64 {name} (INTEGER(64, false));\n"),
            Format::Auto => format!("repeated double {name};\n"),
            _ => format!("optional double {name};\n"),
        }
    });
    format!("message sim {{ {} }}", lines.collect::<String>())
}

fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[&Cell],
    value: impl Fn(&Cell) -> Option<T::T>,
) -> Result<()> {
    let values: Vec<Option<T::T>> = cells.iter().map(|cell| value(cell)).collect();
    let levels = values
        .iter()
        .map(|value| LEVELS[usize::from(value.is_some())]);
    let levels: Vec<i16> = levels.collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    write_column::<T, W>(group, &values, &levels, None)
}

fn write_lists<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[&Cell],
) -> Result<()> {
    let (mut values, mut levels, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let list: &[f64] = match cell {
            Cell::List(list) => list,
            _ => &[],
        };
        values.extend_from_slice(list);
        // An empty list is one empty cell. Each number after the first of a list repeats the row.
        levels.resize(
            levels.len() + list.len().max(1),
            LEVELS[usize::from(!list.is_empty())],
        );
        repetitions.push(0);
        repetitions.resize(levels.len(), 1);
    }
    write_column::<DoubleType, W>(group, &values, &levels, Some(&repetitions))
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: &[i16],
    repetitions: Option<&[i16]>,
) -> Result<()> {
    let column = group.next_column()?;
    let mut column = column.expect("the schema has as many columns as are written");
    column
        .typed::<T>()
        .write_batch(values, Some(levels), repetitions)?;
    column.close()
}
