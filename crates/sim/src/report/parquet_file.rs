//! Rows as a Parquet file: the columns of the CSV with their types, packed by zstd.

use super::{COLUMNS, Column, Kind, Row, Value};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// What stands in a cell that says nothing, and in one that does.
const LEVELS: [i16; 2] = [0, 1];

/// Writes the rows.
///
/// # Errors
/// What the output says.
pub fn parquet(rows: &[Row], output: impl Write + Send) -> Result<()> {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| column.is_in(rows)).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let schema = parse_message_type(&schema(&columns))?;
    let mut file = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in columns {
        let cells: Vec<Value> = rows.iter().map(|row| column.value(row)).collect();
        match column.kind {
            Kind::Text => write::<ByteArrayType, _>(&mut group, &cells, |cell| match cell {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            })?,
            Kind::Count => write::<Int64Type, _>(&mut group, &cells, |cell| match cell {
                Value::Count(count) => Some(*count as i64),
                _ => None,
            })?,
            Kind::Real => write::<DoubleType, _>(&mut group, &cells, |cell| match cell {
                Value::Real(real, _) => Some(*real),
                _ => None,
            })?,
            Kind::Reals => write_lists(&mut group, &cells)?,
        }
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn schema(columns: &[&Column]) -> String {
    let lines = columns.iter().map(|column| {
        let name = column.name;
        match column.kind {
            Kind::Text => format!("optional binary {name} (STRING);\n"),
            Kind::Count => format!("optional int64 {name} (INTEGER(64, false));\n"),
            Kind::Real => format!("optional double {name};\n"),
            Kind::Reals => format!("repeated double {name};\n"),
        }
    });
    format!("message sim {{ {} }}", lines.collect::<String>())
}

fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[Value],
    value: impl Fn(&Value) -> Option<T::T>,
) -> Result<()> {
    let told: Vec<Option<T::T>> = cells.iter().map(value).collect();
    let levels: Vec<i16> = told
        .iter()
        .map(|value| LEVELS[usize::from(value.is_some())])
        .collect();
    let values: Vec<T::T> = told.into_iter().flatten().collect();
    write_column::<T, W>(group, &values, &levels, None)
}

fn write_lists<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[Value],
) -> Result<()> {
    let (mut values, mut levels, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let list: &[f64] = match cell {
            Value::Reals(reals, _) => reals,
            _ => &[],
        };
        values.extend_from_slice(list);
        // A list that is empty is one cell that says nothing; each further number repeats its row.
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
