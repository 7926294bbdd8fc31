//! Tables whose columns the reader may sort.

use crate::escape::html;
use crate::scale::tick_text;
use std::fmt::Write;

/// What stands in a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words; to the left.
    Text(String),
    /// A number, shown with about four digits; to the right.
    Number(f64),
    /// A number under a text of its own, such as `3.2 ms`.
    Shown(f64, String),
    /// Nothing known; sorted last.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
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

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Cell {
        number.map_or(Cell::Empty, Cell::Number)
    }
}

/// A header and rows.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
    caption: String,
}

impl Table {
    /// A table without rows.
    pub fn new(header: &[&str]) -> Table {
        Table {
            header: header.iter().map(|name| name.to_string()).collect(),
            rows: Vec::new(),
            caption: String::new(),
        }
    }

    /// What the table shows, in a sentence.
    #[must_use]
    pub fn with_caption(mut self, caption: &str) -> Table {
        self.caption = caption.into();
        self
    }

    /// Adds a row, which must have a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.header.len());
        self.rows.push(cells);
    }

    /// The table as HTML; the page's script makes its header clickable.
    pub(crate) fn to_html(&self, out: &mut String) {
        out.push_str("<div class=\"scroll\"><table>");
        if !self.caption.is_empty() {
            let _ = write!(out, "<caption>{}</caption>", html(&self.caption));
        }
        out.push_str("<thead><tr>");
        for name in &self.header {
            let _ = write!(out, "<th scope=\"col\">{}</th>", html(name));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            row.iter().for_each(|cell| cell.to_html(out));
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }
}

impl Cell {
    fn to_html(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Cell::Text(text) => write!(out, "<td>{}</td>", html(text)),
            Cell::Number(number) if number.is_finite() => {
                let text = tick_text(*number);
                write!(out, "<td class=\"n\" data-v=\"{number}\">{text}</td>")
            }
            Cell::Shown(number, text) if number.is_finite() => {
                let text = html(text);
                write!(out, "<td class=\"n\" data-v=\"{number}\">{text}</td>")
            }
            Cell::Shown(_, text) => write!(out, "<td class=\"n\">{}</td>", html(text)),
            Cell::Number(_) | Cell::Empty => write!(out, "<td class=\"n\">–</td>"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_carry_what_they_are_sorted_by() {
        let mut table = Table::new(&["<name>", "ms"]).with_caption("a & b");
        table.row(vec!["<script>".into(), Cell::Shown(1500.0, "1.5 s".into())]);
        table.row(vec![Cell::Empty, f64::NAN.into()]);
        let mut out = String::new();
        table.to_html(&mut out);
        assert!(out.contains("<th scope=\"col\">&lt;name&gt;</th>"));
        assert!(out.contains("<td>&lt;script&gt;</td><td class=\"n\" data-v=\"1500\">1.5 s</td>"));
        assert!(out.contains("<td class=\"n\">–</td><td class=\"n\">–</td>"));
        assert!(out.contains("<caption>a &amp; b</caption>"));
    }
}
