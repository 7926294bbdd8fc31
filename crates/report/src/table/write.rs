//! Tables as text, Markdown, CSV, JSON and HTML.

use super::{Cell, Column, Format, Outputs, Table};
use crate::escape::html;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::fmt::Write;

/// Share of the colour in the cell with the largest change, in percent: the text stays readable.
const STRONGEST_PERCENT: f64 = 60.0;

impl Table {
    /// Formats the table as aligned text, without its caption. Text is aligned to the left, numbers
    /// to the right.
    pub fn to_text(&self) -> String {
        let places = self.places(Outputs::All);
        let mut lines = vec![self.labels(&places)];
        lines.extend(self.shown(&places));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: Vec<usize> = (0..places.len()).map(|at| width(at).unwrap_or(0)).collect();
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            let cells = places.iter().zip(line).zip(&widths);
            let cells = cells.map(|((place, cell), &width)| match self.is_text(*place) {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
            if index == 0 {
                let width = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
                text += &"─".repeat(width);
                text.push('\n');
            }
        }
        text
    }

    /// Formats the table in Markdown, without its caption.
    pub fn to_markdown(&self) -> String {
        let places = self.places(Outputs::All);
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(self.labels(&places));
        let sides = places.iter().map(|place| match self.is_text(*place) {
            true => "---|",
            false => "---:|",
        });
        let _ = writeln!(text, "|{}", sides.collect::<String>());
        self.shown(&places).for_each(|cells| text += &line(cells));
        text
    }

    /// Formats the table as comma-separated text with a header of names. Numbers are not rounded.
    pub fn to_csv(&self) -> String {
        let names = self.columns.iter().map(|column| quoted(&column.name));
        let mut text = names.collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Text(text) => quoted(text),
                Cell::Count(count) => count.to_string(),
                Cell::List(list) => joined(list),
                cell => cell
                    .number()
                    .map_or(String::new(), |number| number.to_string()),
            });
            text += &cells.collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }

    /// Writes the table as HTML. The page's script makes its columns sortable.
    pub(crate) fn to_html(&self, out: &mut String) {
        let places = self.places(Outputs::Page);
        out.push_str("<div class=\"scroll\"><table>");
        if !self.caption.is_empty() {
            let _ = write!(out, "<caption>{}</caption>", html(&self.caption));
        }
        out.push_str("<thead><tr>");
        for label in self.labels(&places) {
            let _ = write!(out, "<th scope=\"col\">{}</th>", html(&label));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for &place in &places {
                let (column, cell) = (&self.columns[place], &row[place]);
                let text = html(&column.show_grouped(cell));
                // Writing to a string cannot fail.
                let _ = match (cell, cell.number()) {
                    (Cell::Text(_), _) => write!(out, "<td>{text}</td>"),
                    (_, Some(number)) => {
                        let style = self.colour(column, number);
                        write!(
                            out,
                            "<td class=\"n\"{style} data-v=\"{number}\">{text}</td>"
                        )
                    }
                    (_, None) => write!(out, "<td class=\"n\">{text}</td>"),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }

    /// Returns the attribute that colours a cell of a relative change: its share of the largest
    /// change of the table.
    fn colour(&self, column: &Column, number: f64) -> String {
        if !self.has_colours || column.format != Format::Change || number == 0.0 {
            return String::new();
        }
        let places =
            (0..self.columns.len()).filter(|at| self.columns[*at].format == Format::Change);
        let changes =
            places.flat_map(|at| self.rows.iter().filter_map(move |row| row[at].number()));
        let most = changes.fold(0.0_f64, |most, change| most.max(change.abs()));
        let name = if number > 0.0 { "gain" } else { "loss" };
        let strength = number.abs() / most * STRONGEST_PERCENT;
        format!(" style=\"--{name}:{strength:.0}%\"")
    }

    /// Returns the indices of the columns that an output has.
    fn places(&self, output: Outputs) -> Vec<usize> {
        let places = 0..self.columns.len();
        places
            .filter(|place| self.columns[*place].outputs >= output)
            .collect()
    }

    fn labels(&self, places: &[usize]) -> Vec<String> {
        let labels = places
            .iter()
            .map(|place| self.columns[*place].label.clone());
        labels.collect()
    }

    fn shown<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = Vec<String>> + 'a {
        self.rows.iter().map(move |row| {
            let cells = places
                .iter()
                .map(|&place| self.columns[place].show(&row[place]));
            cells.collect()
        })
    }

    /// True if the column is aligned to the left.
    fn is_text(&self, place: usize) -> bool {
        match self.columns[place].format {
            Format::Text => true,
            Format::Auto => {
                let mut cells = self.rows.iter().map(|row| &row[place]);
                let known = cells.find(|cell| **cell != Cell::Empty);
                matches!(known, Some(Cell::Text(_)))
            }
            _ => false,
        }
    }
}

/// Joins numbers with blanks.
pub(super) fn joined(list: &[f64]) -> String {
    let texts = list.iter().map(f64::to_string);
    texts.collect::<Vec<_>>().join(" ")
}

/// Returns a field of CSV, in quotes if necessary.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

/// Serializes an array with an object for each row, with fields in the order of the columns.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.rows.len()))?;
        for row in &self.rows {
            rows.serialize_element(&Record(&self.columns, row))?;
        }
        rows.end()
    }
}

struct Record<'a>(&'a [Column], &'a [Cell]);

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(self.0.len()))?;
        for (column, cell) in self.0.iter().zip(self.1) {
            members.serialize_entry(&column.name, cell)?;
        }
        members.end()
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Count(count) => serializer.serialize_u64(*count),
            Cell::List(list) => list.serialize(serializer),
            cell => cell.number().serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![Column::text("<name>"), Column::span("late").detail()];
        let mut table = Table::with_columns(columns).with_caption("a & b");
        table.row(vec!["<script>|,".into(), 1500.0.into()]);
        table.row(vec![Cell::Empty, f64::NAN.into()]);
        table
    }

    #[test]
    fn html_is_escaped_and_carries_sort_keys() {
        let mut out = String::new();
        table().to_html(&mut out);
        assert!(out.contains("<th scope=\"col\">&lt;name&gt;</th>"), "{out}");
        assert!(
            out.contains("<td>&lt;script&gt;|,</td><td class=\"n\" data-v=\"1500\">1.50 s</td>")
        );
        assert!(out.contains("<td class=\"n\">–</td><td class=\"n\">–</td>"));
        assert!(out.contains("<caption>a &amp; b</caption>"));
    }

    #[test]
    fn markdown_and_text_leave_details_out_and_data_has_them() {
        let wanted = "| <name> |\n|---|\n| <script>\\|, |\n| – |\n";
        assert_eq!(table().to_markdown(), wanted);
        assert_eq!(table().to_text(), "<name>\n──────────\n<script>|,\n–\n");
        assert_eq!(table().to_csv(), "<name>,late\n\"<script>|,\",1500\n,\n");
        let json = serde_json::to_string(&table()).expect("a table has no other keys than texts");
        let wanted = r#"[{"<name>":"<script>|,","late":1500.0},{"<name>":null,"late":null}]"#;
        assert_eq!(json, wanted);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["server", "µs"]);
        table.row(vec!["a".into(), 1.25.into()]);
        assert_eq!(
            table.to_text(),
            "server    µs\n────────────\na       1.25\n"
        );
        assert_eq!(
            table.to_markdown(),
            "| server | µs |\n|---|---:|\n| a | 1.25 |\n"
        );
    }
}
