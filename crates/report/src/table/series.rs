//! Selections and pivots of tables, and plots of their columns.

use super::{Cell, Column, Outputs, Table};
use crate::plot::{Axis, Bars, Boxed, Line, Plot};

/// Returns the distinct items in the order in which they first appear.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// Returns the median of a sample: for an even number the mean of the two middle values, and 0 for
/// an empty sample.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

impl Table {
    /// Returns the texts of some columns of a row, joined by commas.
    fn key(&self, row: &[Cell], names: &[&str]) -> String {
        let texts = names.iter().map(|name| {
            let place = self.place(name);
            self.columns[place].show(&row[place])
        });
        let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        texts.join(", ")
    }

    fn keys(&self, names: &[&str]) -> Vec<String> {
        distinct(self.rows.iter().map(|row| self.key(row, names)))
    }

    /// Returns the number of a row in a column, in the unit that plots use.
    fn scaled(&self, row: &[Cell], name: &str) -> Option<f64> {
        let place = self.place(name);
        Some(row[place].number()? * self.columns[place].scale().0)
    }

    /// Returns the rows with this text in a column.
    #[must_use]
    pub fn only(&self, name: &str, text: &str) -> Table {
        self.filtered(|row| self.key(row, &[name]) == text)
    }

    /// Returns the rows without this text in a column.
    #[must_use]
    pub fn without(&self, name: &str, text: &str) -> Table {
        self.filtered(|row| self.key(row, &[name]) != text)
    }

    /// Returns the rows with a number in a column.
    #[must_use]
    pub fn with_number(&self, name: &str) -> Table {
        self.filtered(|row| self.scaled(row, name).is_some())
    }

    fn filtered(&self, is_kept: impl Fn(&[Cell]) -> bool) -> Table {
        let rows = self.rows.iter().filter(|row| is_kept(row)).cloned();
        Table {
            caption: self.caption.clone(),
            columns: self.columns.clone(),
            rows: rows.collect(),
            has_colours: self.has_colours,
        }
    }

    /// Returns the numbers of a column, without empty cells.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        let place = self.place(name);
        self.rows
            .iter()
            .filter_map(|row| row[place].number())
            .collect()
    }

    /// Returns the formatted text of a cell.
    pub fn text_of(&self, row: usize, name: &str) -> String {
        self.key(&self.rows[row], &[name])
    }

    /// Splits the table by the texts of these columns. Each part is returned with its text.
    pub fn split(&self, names: &[&str]) -> Vec<(String, Table)> {
        let part = |key: String| {
            let part = self.filtered(|row| self.key(row, names) == key);
            (key, part)
        };
        self.keys(names).into_iter().map(part).collect()
    }

    /// Returns the rows of the first `count` parts that [`Table::split`] returns.
    #[must_use]
    pub fn first_parts(&self, names: &[&str], count: usize) -> Table {
        let keys = self.keys(names);
        let kept = &keys[..count.min(keys.len())];
        self.filtered(|row| kept.contains(&self.key(row, names)))
    }

    /// Returns the label of a column for the axis of a plot, with the unit that plots use.
    pub fn axis_label(&self, name: &str) -> String {
        let column = &self.columns[self.place(name)];
        format!("{}{}", column.label, column.scale().1)
    }

    /// Creates a plot of bars for the numbers of a column. Bars are grouped by the text of the
    /// category columns. Each text of the series columns is a series; without series columns, all
    /// rows are one series.
    pub fn bars(&self, title: &str, categories: &[&str], series: &[&str], value: &str) -> Plot {
        let names = self.keys(categories);
        let parts = match series {
            [] => vec![(self.columns[self.place(value)].label.clone(), self.clone())],
            _ => self.split(series),
        };
        let bars = parts.iter().map(|(name, part)| {
            let number = |category: &String| {
                let mut rows = part.rows.iter();
                let row = rows.find(|row| part.key(row, categories) == *category)?;
                part.scaled(row, value)
            };
            Bars::new(name, names.iter().map(number).collect())
        });
        let bars = bars.collect();
        Plot::bars(title, Axis::linear(&self.axis_label(value)), names, bars)
    }

    /// Returns lines through the numbers of two columns, one for each text of the series columns.
    pub fn lines(&self, series: &[&str], x: &str, y: &str) -> Vec<Line> {
        let line = |(name, part): &(String, Table)| {
            let point = |row: &Vec<Cell>| Some((part.scaled(row, x)?, part.scaled(row, y)?));
            Line::new(name, part.rows.iter().filter_map(point).collect())
        };
        self.split(series).iter().map(line).collect()
    }

    /// Creates a plot of boxes over the numbers of a column, one for each text of the category
    /// columns.
    pub fn boxes(&self, title: &str, categories: &[&str], value: &str) -> Plot {
        let parts = self.split(categories);
        let boxes = parts.iter().filter_map(|(name, part)| {
            let numbers = part.rows.iter().filter_map(|row| part.scaled(row, value));
            Boxed::of_sample(name, &numbers.collect::<Vec<_>>())
        });
        let axis = Axis::linear(&self.axis_label(value));
        Plot::boxes(title, axis, boxes.collect())
    }

    /// Returns a table with one row for each text of the key columns and one column for each text
    /// of the `across` column. Its cells come from the value column.
    #[must_use]
    pub fn pivot(&self, keys: &[&str], across: &str, value: &str) -> Table {
        let (across_at, value_at) = (self.place(across), self.place(value));
        let template = &self.columns[value_at];
        let key_columns = keys.iter().map(|key| self.columns[self.place(key)].clone());
        let mut columns: Vec<Column> = key_columns.collect();
        let names = self.keys(&[across]);
        columns.extend(names.iter().map(|name| {
            let mut column = template.clone();
            (column.name, column.label) = (name.clone(), name.clone());
            column.outputs = Outputs::All;
            column
        }));
        let mut table = Table::with_columns(columns).with_caption(&self.caption);
        for (_, part) in self.split(keys) {
            let first = &part.rows[0];
            let key_cells = keys.iter().map(|key| first[self.place(key)].clone());
            let mut cells: Vec<Cell> = key_cells.collect();
            cells.extend(names.iter().map(|name| {
                let is_it =
                    |row: &&Vec<Cell>| part.columns[across_at].show(&row[across_at]) == *name;
                let last = part.rows.iter().rfind(is_it);
                last.map_or(Cell::Empty, |row| row[value_at].clone())
            }));
            table.row(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let rows = [
            ("b", "lru", Some(0.1)),
            ("a", "lru", Some(0.2)),
            ("a", "fifo", Some(0.3)),
            ("b", "lrb", None),
        ];
        Table::of(&rows)
            .column(Column::text("trace"), |row| row.0)
            .column(Column::text("policy"), |row| row.1)
            .column(Column::percent("saved"), |row| row.2)
            .finish()
    }

    #[test]
    fn medians_of_odd_and_even_samples() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn a_pivot_keeps_the_order_of_rows_and_columns_and_shows_missing_cells_as_dashes() {
        let wanted = "| trace | lru | fifo | lrb |\n|---|---:|---:|---:|\n\
                      | b | 10.0 % | – | – |\n| a | 20.0 % | 30.0 % | – |\n";
        let pivot = table().pivot(&["trace"], "policy", "saved");
        assert_eq!(pivot.to_markdown(), wanted);
    }

    #[test]
    fn parts_and_lines_are_grouped_by_text() {
        let parts = table().split(&["trace", "policy"]);
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b, lru", "a, lru", "a, fifo", "b, lrb"]);
        assert_eq!(table().with_number("saved").rows().len(), 3);
        assert_eq!(table().only("policy", "lru").rows().len(), 2);
        assert_eq!(table().lines(&["policy"], "saved", "saved").len(), 3);
        assert_eq!(table().axis_label("saved"), "saved, %");
    }
}
