//! Aligned text tables: the first column to the left, numbers to the right.

use std::fmt;

/// Rows of text under a header.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// How many columns stand to the left.
    text_columns: usize,
}

impl Table {
    pub(crate) fn new(text_columns: usize, header: &[&str]) -> Table {
        let header = header.iter().map(|name| name.to_string()).collect();
        Table {
            rows: vec![header],
            text_columns,
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells);
    }

    /// Whether there is nothing under the header.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl Table {
    /// The same for a document in Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            text += &format!("| {} |\n", cells.join(" | "));
            if index == 0 {
                let side = |column| {
                    if column < self.text_columns {
                        "---|"
                    } else {
                        "---:|"
                    }
                };
                let sides: String = (0..row.len()).map(side).collect();
                text += &format!("|{sides}\n");
            }
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column_count = self.rows[0].len();
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..column_count).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                let is_text = column < self.text_columns;
                let (before, after) = if is_text {
                    ("", &*padding)
                } else {
                    (&*padding, "")
                };
                line += &format!("{before}{cell}{after}  ");
            }
            writeln!(f, "{}", line.trim_end())?;
            if index == 0 {
                let width = widths.iter().sum::<usize>() + 2 * (column_count - 1);
                writeln!(f, "{}", "─".repeat(width))?;
            }
        }
        Ok(())
    }
}

/// A number with about three digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A span of time given in milliseconds, in the unit that suits it.
pub(crate) fn span(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{} s", number(ms / 1000.0)),
        ms if ms >= 1.0 => format!("{} ms", number(ms)),
        ms => format!("{} µs", number(ms * 1000.0)),
    }
}

/// Bytes in MiB.
pub(crate) fn mib(bytes: f64) -> String {
    format!("{} MiB", number(bytes / 1024.0 / 1024.0))
}

/// The value in the middle; 0 for none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(1, &["server", "µs"]);
        table.row(vec!["a".into(), "1.25".into()]);
        assert_eq!(
            table.to_string(),
            "server    µs\n────────────\na       1.25\n"
        );
        assert_eq!(
            table.to_markdown(),
            "| server | µs |\n|---|---:|\n| a | 1.25 |\n"
        );
    }

    #[test]
    fn medians_and_units() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(span(0.25), "250 µs");
        assert_eq!(span(1500.0), "1.50 s");
        assert_eq!(number(0.5), "0.500");
    }
}
