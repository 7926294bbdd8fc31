//! A table that becomes Markdown, JSON, or a part of a page.

use crate::report::quoted_for_json;
use report::{Cell, Table};

/// What stands in a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    Nothing,
    Text(String),
    Count(u64),
    /// In percent, shown with one decimal.
    Percent(f64),
}

impl Entry {
    pub(super) fn text(text: &str) -> Entry {
        Entry::Text(text.into())
    }

    fn shown(&self) -> String {
        match self {
            Entry::Nothing => String::new(),
            Entry::Text(text) => text.clone(),
            Entry::Count(count) => count.to_string(),
            Entry::Percent(value) => format!("{value:.1}"),
        }
    }
}

/// A share as a field.
pub(super) fn percent(share: Option<f64>) -> Entry {
    share.map_or(Entry::Nothing, |share| Entry::Percent(share * 100.0))
}

/// A table with a title.
#[derive(Clone, Debug)]
pub struct Sheet {
    title: String,
    header: Vec<String>,
    pub(super) rows: Vec<Vec<Entry>>,
}

impl Sheet {
    pub(super) fn new(title: &str, header: Vec<String>) -> Self {
        Sheet {
            title: title.into(),
            header,
            rows: Vec::new(),
        }
    }

    /// With its title as a heading.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("## {}\n\n", self.title);
        text += &line(self.header.clone());
        let is_number = |column: usize| {
            let mut cells = self.rows.iter().map(|row| &row[column]);
            cells.any(|cell| matches!(cell, Entry::Percent(_) | Entry::Count(_)))
        };
        let rule = (0..self.header.len()).map(|column| match is_number(column) {
            true => "---:".to_owned(),
            false => "---".to_owned(),
        });
        text += &line(rule.collect());
        for row in &self.rows {
            text += &line(row.iter().map(Entry::shown).collect());
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let quoted = |texts: &[String]| {
            let texts: Vec<String> = texts.iter().map(|text| quoted_for_json(text)).collect();
            format!("[{}]", texts.join(","))
        };
        let cell = |cell: &Entry| match cell {
            Entry::Nothing => "null".into(),
            Entry::Text(text) => quoted_for_json(text),
            Entry::Count(count) => count.to_string(),
            Entry::Percent(value) => format!("{value:.4}"),
        };
        let rows = self.rows.iter().map(|row| {
            let cells: Vec<String> = row.iter().map(cell).collect();
            format!("[{}]", cells.join(","))
        });
        format!(
            "{{\"title\":{},\"header\":{},\"rows\":[{}]}}",
            quoted_for_json(&self.title),
            quoted(&self.header),
            rows.collect::<Vec<_>>().join(",\n  ")
        )
    }

    pub(super) fn table(&self) -> Table {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        let mut table = Table::new(&header).with_caption(&self.title);
        for row in &self.rows {
            let cells = row.iter().map(|entry| match entry {
                Entry::Nothing => Cell::Empty,
                Entry::Text(text) => Cell::Text(text.clone()),
                Entry::Count(count) => Cell::Number(*count as f64),
                Entry::Percent(value) => Cell::Shown(*value, entry.shown()),
            });
            table.row(cells.collect());
        }
        table
    }
}
