//! Tables of typed columns, which every output format is written from.
//!
//! A [`Column`] has a name for programs, a label and a unit for people, and a [`Format`]. A
//! [`Table`] has columns and rows of [`Cell`]s. The same table can become aligned text
//! ([`Table::to_text`]), Markdown, CSV, JSON (through [`serde::Serialize`]), a sortable table on a
//! [`crate::Page`], and the series of plots ([`Table::bars`], [`Table::lines`], [`Table::boxes`]).
//!
//! Cells hold plain values: bytes, milliseconds, shares from 0 to 1. The format turns them into
//! text for people. Programs get the values themselves. Three kinds of columns differ in where they
//! appear: all outputs (the default), pages and data only ([`Column::detail`]), data only
//! ([`Column::data`]).
//!
//! ```
//! use report::{Column, Table};
//! struct Replay { policy: &'static str, misses: u64, ratio: Option<f64>, seconds: f64 }
//! let rows = [
//!     Replay { policy: "lru", misses: 250, ratio: Some(0.25), seconds: 1.5 },
//!     Replay { policy: "none", misses: 0, ratio: None, seconds: 0.5 },
//! ];
//! let table = Table::of(&rows)
//!     .column(Column::text("policy"), |row| row.policy)
//!     .column(Column::count("misses"), |row| row.misses)
//!     .column(Column::percent("miss_ratio"), |row| row.ratio)
//!     .column(Column::span("time"), |row| row.seconds * 1e3)
//!     .finish()
//!     .with_caption("Replays");
//! assert_eq!(
//!     table.to_text(),
//!     "policy  misses  miss ratio    time\n\
//!      ──────────────────────────────────\n\
//!      lru        250      25.0 %  1.50 s\n\
//!      none         0           –  500 ms\n"
//! );
//! assert_eq!(table.to_csv(), "policy,misses,miss_ratio,time\nlru,250,0.25,1500\nnone,0,,500\n");
//! let json = serde_json::to_string(&table)?;
//! assert!(json.contains(r#"{"policy":"none","misses":0,"miss_ratio":null,"time":500.0}"#));
//! let plot = table.bars("Misses", &["policy"], &[], "misses");
//! assert_eq!(plot.title(), "Misses");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod series;
mod write;

pub use series::{distinct, median};
use units::show;

/// Value of one cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number. One that is not finite is shown as an empty cell.
    Number(f64),
    /// A number that is shown to people as a given text, such as `≤ 0.5`.
    Shown(f64, String),
    /// Numbers, separated by blanks in CSV.
    List(Vec<f64>),
    /// No value. It is sorted last.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::Text(text.clone())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        Cell::Count(count as u64)
    }
}

impl From<Vec<f64>> for Cell {
    fn from(list: Vec<f64>) -> Cell {
        Cell::List(list)
    }
}

impl From<f32> for Cell {
    fn from(number: f32) -> Cell {
        Cell::Number(number.into())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl Cell {
    /// Returns the cell's number, if it is finite.
    pub fn number(&self) -> Option<f64> {
        let number = match self {
            Cell::Count(count) => *count as f64,
            Cell::Number(number) | Cell::Shown(number, _) => *number,
            Cell::Text(_) | Cell::List(_) | Cell::Empty => return None,
        };
        number.is_finite().then_some(number)
    }
}

/// Format of the cells of a column in outputs for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text is aligned to the left; numbers are aligned to the right, with three significant
    /// digits.
    Auto,
    /// Text, aligned to the left.
    Text,
    /// Whole numbers.
    Count,
    /// Numbers with this many decimals.
    Decimals(usize),
    /// Shares, shown in percent.
    Percent,
    /// Relative changes, shown in percent with a sign.
    Change,
    /// Bytes, shown in MiB.
    Mebibytes,
    /// Milliseconds, shown in a unit that suits the size.
    Span,
}

/// Set of outputs that include a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Outputs {
    Data,
    Page,
    All,
}

/// Name, unit and format of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    name: String,
    label: String,
    absent: &'static str,
    format: Format,
    outputs: Outputs,
}

impl Column {
    /// Creates a column with a format. Its label is its name with blanks instead of underscores.
    pub fn new(name: &str, format: Format) -> Column {
        Column {
            name: name.into(),
            label: name.replace('_', " "),
            absent: "–",
            format,
            outputs: Outputs::All,
        }
    }

    /// Creates a column of text.
    pub fn text(name: &str) -> Column {
        Column::new(name, Format::Text)
    }

    /// Creates a column of whole numbers.
    pub fn count(name: &str) -> Column {
        Column::new(name, Format::Count)
    }

    /// Creates a column of numbers, shown with three significant digits.
    pub fn number(name: &str) -> Column {
        Column::new(name, Format::Auto)
    }

    /// Creates a column of numbers, shown with this many decimals.
    pub fn decimals(name: &str, decimals: usize) -> Column {
        Column::new(name, Format::Decimals(decimals))
    }

    /// Creates a column of shares, shown in percent.
    pub fn percent(name: &str) -> Column {
        Column::new(name, Format::Percent)
    }

    /// Creates a column of relative changes, shown in percent with a sign.
    pub fn change(name: &str) -> Column {
        Column::new(name, Format::Change)
    }

    /// Creates a column of bytes, shown in MiB.
    pub fn mebibytes(name: &str) -> Column {
        Column::new(name, Format::Mebibytes)
    }

    /// Creates a column of milliseconds, shown in a unit that suits the size.
    pub fn span(name: &str) -> Column {
        Column::new(name, Format::Span)
    }

    /// Creates a column of lists of numbers, which only CSV and JSON have.
    pub fn list(name: &str) -> Column {
        Column::new(name, Format::Auto).data()
    }

    /// Sets the label in outputs for people.
    #[must_use]
    pub fn labelled(mut self, label: &str) -> Column {
        self.label = label.into();
        self
    }

    /// Appends a unit to the label.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Column {
        self.label = format!("{}, {unit}", self.label);
        self
    }

    /// Sets the text of empty cells, a dash by default.
    #[must_use]
    pub fn absent(mut self, text: &'static str) -> Column {
        self.absent = text;
        self
    }

    /// Leaves the column out of text and Markdown.
    #[must_use]
    pub fn detail(mut self) -> Column {
        self.outputs = Outputs::Page;
        self
    }

    /// Leaves the column out of text, Markdown and pages: only CSV and JSON have it.
    #[must_use]
    pub fn data(mut self) -> Column {
        self.outputs = Outputs::Data;
        self
    }

    /// Name in CSV and JSON.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Format of the cells.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Formats a cell for people.
    fn show(&self, cell: &Cell) -> String {
        let number = match cell {
            Cell::Text(text) | Cell::Shown(_, text) => return text.clone(),
            Cell::Count(count) if matches!(self.format, Format::Auto | Format::Count) => {
                return count.to_string();
            }
            Cell::List(list) => return write::joined(list),
            Cell::Empty => return self.absent.into(),
            Cell::Count(_) | Cell::Number(_) => match cell.number() {
                Some(number) => number,
                None => return self.absent.into(),
            },
        };
        match self.format {
            Format::Auto | Format::Text => show::short(number),
            Format::Count => format!("{number:.0}"),
            Format::Decimals(decimals) => format!("{number:.decimals$}"),
            Format::Percent => show::percent(number),
            Format::Change => show::change(number),
            Format::Mebibytes => show::mebibytes(number),
            Format::Span => show::span(number),
        }
    }

    /// Formats a cell for pages: as [`Column::show`], with commas between thousands.
    fn show_grouped(&self, cell: &Cell) -> String {
        let is_whole = match (self.format, cell) {
            (Format::Count, Cell::Count(_) | Cell::Number(_)) => true,
            (Format::Auto, Cell::Count(_)) => true,
            (Format::Auto, Cell::Number(number)) => number.abs() >= 1000.0,
            _ => false,
        };
        match cell.number() {
            Some(number) if is_whole => show::count(number),
            _ => self.show(cell),
        }
    }

    /// Returns the factor that converts numbers for plots, and their unit after it.
    fn scale(&self) -> (f64, &'static str) {
        match self.format {
            Format::Percent | Format::Change => (100.0, ", %"),
            Format::Mebibytes => (1.0 / f64::from(1 << 20), ", MiB"),
            Format::Span => (1.0, ", ms"),
            Format::Auto | Format::Text | Format::Count | Format::Decimals(_) => (1.0, ""),
        }
    }
}

/// A table of typed columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// Whether a page colours the cells of relative changes by their values.
    has_colours: bool,
}

/// A table under construction, column by column, from a list of records.
#[derive(Clone, Debug)]
pub struct TableOf<R> {
    records: Vec<R>,
    table: Table,
}

impl<R: Copy> TableOf<R> {
    /// Adds a column. `cell` returns its cell for a record.
    #[must_use]
    pub fn column<C: Into<Cell>>(mut self, column: Column, cell: impl Fn(R) -> C) -> TableOf<R> {
        self.table.columns.push(column);
        for (row, record) in self.table.rows.iter_mut().zip(&self.records) {
            row.push(cell(*record).into());
        }
        self
    }

    /// Returns the finished table.
    #[must_use]
    pub fn finish(self) -> Table {
        self.table
    }
}

impl Table {
    /// Creates a table without rows. Its columns have these labels and show numbers with three
    /// significant digits.
    pub fn new(labels: &[&str]) -> Table {
        let columns = labels.iter().map(|label| Column::number(label));
        Table::with_columns(columns.collect())
    }

    /// Creates a table without rows.
    pub fn with_columns(columns: Vec<Column>) -> Table {
        Table {
            caption: String::new(),
            columns,
            rows: Vec::new(),
            has_colours: false,
        }
    }

    /// Starts a table with one row per record, to which columns can be added. Records are
    /// references, or tuples of them.
    pub fn of<R: Copy>(records: impl IntoIterator<Item = R>) -> TableOf<R> {
        let records: Vec<R> = records.into_iter().collect();
        let mut table = Table::with_columns(Vec::new());
        table.rows.resize(records.len(), Vec::new());
        TableOf { records, table }
    }

    /// Sets the sentence that says what the table shows.
    #[must_use]
    pub fn with_caption(mut self, caption: &str) -> Table {
        self.caption = caption.into();
        self
    }

    /// Colours the cells of relative changes in pages: gains and losses in two colours, which are
    /// stronger where the change is larger.
    #[must_use]
    pub fn coloured(mut self) -> Table {
        self.has_colours = true;
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the row does not have a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Adds the rows of a table with the same columns.
    ///
    /// # Panics
    /// If the columns differ.
    pub fn append(&mut self, other: Table) {
        assert_eq!(self.columns, other.columns);
        self.rows.extend(other.rows);
    }

    /// True if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the sentence that says what the table shows.
    pub fn caption(&self) -> &str {
        &self.caption
    }

    /// Returns the columns in their order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the rows, each with a cell for each column.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Drops columns in outputs for people whose cells are all empty or 0. Columns that appear only
    /// in CSV and JSON remain.
    #[must_use]
    pub fn without_idle_columns(mut self) -> Table {
        let is_idle = |cell: &Cell| matches!(cell, Cell::Empty | Cell::Number(0.0));
        for at in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| is_idle(&row[at])) {
                self.columns.remove(at);
                self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
        self
    }

    /// Returns the index of a column.
    ///
    /// # Panics
    /// The table has no such column.
    fn place(&self, name: &str) -> usize {
        let place = self.columns.iter().position(|column| column.name == name);
        place.unwrap_or_else(|| panic!("the table has a column '{name}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_values_are_dropped() {
        let mut table = Table::new(&["a", "b", "c"]);
        table.row(vec!["x".into(), Cell::Empty, 0.0.into()]);
        table.row(vec!["y".into(), Cell::Empty, 0.0.into()]);
        let table = table.without_idle_columns();
        assert_eq!(table.columns.len(), 1);
        assert_eq!(table.columns[0].name, "a");
    }

    #[test]
    fn pages_group_thousands_and_colour_changes() {
        let mut table = Table::with_columns(vec![Column::count("n"), Column::change("saved")]);
        table.row(vec![1_234_567_u64.into(), 0.2.into()]);
        table.row(vec![12_u64.into(), (-0.1).into()]);
        table.row(vec![0_u64.into(), Cell::Empty]);
        let mut page = String::new();
        table.coloured().to_html(&mut page);
        assert!(page.contains("data-v=\"1234567\">1,234,567</td>"), "{page}");
        assert!(
            page.contains("style=\"--gain:60%\" data-v=\"0.2\""),
            "{page}"
        );
        assert!(
            page.contains("style=\"--loss:30%\" data-v=\"-0.1\""),
            "{page}"
        );
        assert_eq!(page.matches("--").count(), 2);
    }

    #[test]
    fn formats_show_plain_values() {
        let show = |column: Column, number: f64| column.show(&number.into());
        assert_eq!(show(Column::number("x"), 1.256), "1.26");
        assert_eq!(show(Column::count("x"), 12.0), "12");
        assert_eq!(show(Column::decimals("x", 1), 0.25), "0.2");
        assert_eq!(show(Column::percent("x"), 0.25), "25.0 %");
        assert_eq!(show(Column::change("x"), 0.25), "+25.0 %");
        assert_eq!(show(Column::mebibytes("x"), 1_048_576.0), "1.00 MiB");
        assert_eq!(show(Column::span("x"), 250.0), "250 ms");
        assert_eq!(show(Column::number("x").absent("none"), f64::NAN), "none");
    }
}
