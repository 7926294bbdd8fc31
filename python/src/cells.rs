//! Tables of results as columns of Python lists.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use report::{Cell, Format, Table};

/// Returns the kind of a column: `text`, `count`, `number` or `list`.
fn kind(table: &Table, number: usize) -> &'static str {
    let mut cells = table.rows().iter().map(|row| &row[number]);
    match table.columns()[number].format() {
        Format::Text => "text",
        Format::Count => "count",
        _ if cells.any(|cell| matches!(cell, Cell::List(_))) => "list",
        _ => "number",
    }
}

/// Converts a table: name of each column to its kind and its values.
pub fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (number, column) in table.columns().iter().enumerate() {
        let kind = kind(table, number);
        let values = PyList::empty(py);
        for row in table.rows() {
            match &row[number] {
                Cell::Text(text) => values.append(text)?,
                Cell::Count(count) => values.append(count)?,
                Cell::Number(number) | Cell::Shown(number, _) if number.is_finite() => {
                    values.append(number)?;
                }
                Cell::List(list) => values.append(list.clone())?,
                Cell::Number(_) | Cell::Shown(..) | Cell::Empty => values.append(py.None())?,
            }
        }
        all.set_item(column.name(), (kind, values))?;
    }
    Ok(all)
}
