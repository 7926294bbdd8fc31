//! Results as rows: a table for people, CSV, JSON and Parquet for programs, a page with plots. One
//! list of columns serves all.

mod learned;
mod page;
mod parquet_file;

use crate::{Explained, Learned, ReplayResult, Unit};
use Kind::{Count, Real, Reals, Text};
pub use page::page;
pub(crate) use page::size_axis;
pub use parquet_file::parquet;

/// Lines of one plot at most, so that they stay distinguishable.
const LINES_MAX: usize = 8;

/// One configuration's result, with all that says which.
#[derive(Clone, Debug)]
pub struct Row {
    /// The trace's name.
    pub trace: String,
    /// The policy, as given.
    pub policy: String,
    /// What the cache counts.
    pub unit: Unit,
    /// Its capacity in that unit.
    pub cache_size: u64,
    /// The size as it was asked for: 10%, say, which is another number of each trace.
    pub size: String,
    /// What the replay found.
    pub found: ReplayResult,
}

/// What stands in one cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: it was not measured.
    None,
    /// Text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number with this many decimals.
    Real(f64, usize),
    /// Numbers with this many decimals, apart by blanks in CSV.
    Reals(Vec<f64>, usize),
}

/// What a column holds, where it holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Texts.
    Text,
    /// Whole numbers.
    Count,
    /// Numbers.
    Real,
    /// Lists of numbers.
    Reals,
}

/// A column: its name in CSV and JSON, its heading in the table (none: not there), its cells.
pub struct Column {
    /// The name in CSV and JSON.
    pub name: &'static str,
    /// The heading in the table; `None` where the table does without.
    pub heading: Option<&'static str>,
    /// What its cells are, but for those that say nothing.
    pub kind: Kind,
    cell: Cell,
}

/// Where a column's cells come from.
#[derive(Clone, Copy)]
enum Cell {
    /// Every row.
    Of(fn(&Row) -> Value),
    /// What explains a row; the column is left out where no row is explained.
    Explained(fn(&Explained) -> Value),
    /// What a policy learned; the column is left out where none does.
    Learned(fn(&Learned) -> Value),
}

impl Column {
    fn is_in(&self, rows: &[Row]) -> bool {
        match self.cell {
            Cell::Of(_) => true,
            Cell::Explained(_) => rows.iter().any(|row| row.found.explained.is_some()),
            Cell::Learned(_) => rows.iter().any(|row| row.found.learned.is_some()),
        }
    }

    /// The cell of a row.
    pub fn value(&self, row: &Row) -> Value {
        let (explained, learned) = (&row.found.explained, &row.found.learned);
        let value = match self.cell {
            Cell::Of(value) => Some(value(row)),
            Cell::Explained(value) => explained.as_deref().map(value),
            Cell::Learned(value) => learned.as_deref().map(value),
        };
        value.unwrap_or(Value::None)
    }
}

const fn explained(
    name: &'static str,
    heading: Option<&'static str>,
    kind: Kind,
    value: fn(&Explained) -> Value,
) -> Column {
    Column {
        name,
        heading,
        kind,
        cell: Cell::Explained(value),
    }
}

const fn learned(
    name: &'static str,
    heading: Option<&'static str>,
    kind: Kind,
    value: fn(&Learned) -> Value,
) -> Column {
    Column {
        name,
        heading,
        kind,
        cell: Cell::Learned(value),
    }
}

fn maybe(value: Option<f64>, decimals: usize) -> Value {
    value.map_or(Value::None, |value| Value::Real(value, decimals))
}

const fn column(
    name: &'static str,
    heading: Option<&'static str>,
    kind: Kind,
    value: fn(&Row) -> Value,
) -> Column {
    Column {
        name,
        heading,
        kind,
        cell: Cell::Of(value),
    }
}

/// The columns, in their order.
pub const COLUMNS: &[Column] = &[
    column("trace", Some("trace"), Text, |row| {
        Value::Text(row.trace.clone())
    }),
    column("policy", Some("policy"), Text, |row| {
        Value::Text(row.policy.clone())
    }),
    column("unit", Some("unit"), Text, |row| {
        Value::Text(row.unit.name().into())
    }),
    column("cache_size", Some("cache size"), Count, |row| {
        Value::Count(row.cache_size)
    }),
    column("requests", Some("requests"), Count, |row| {
        Value::Count(row.found.counts.requests)
    }),
    column("misses", Some("misses"), Count, |row| {
        Value::Count(row.found.counts.misses)
    }),
    column("miss_ratio", Some("miss ratio"), Real, |row| {
        let counts = &row.found.counts;
        ratio(counts.misses, counts.requests)
    }),
    column("byte_miss_ratio", Some("by bytes"), Real, |row| {
        let counts = &row.found.counts;
        match row.unit {
            Unit::Objects => Value::None,
            Unit::Bytes => ratio(counts.missed_weight, counts.requested_weight),
        }
    }),
    column("throughput", Some("requests/s"), Real, |row| {
        let seconds = row.found.cpu_time.as_secs_f64();
        match seconds {
            0.0 => Value::None,
            _ => Value::Real(row.found.replayed as f64 / seconds, 0),
        }
    }),
    column("evictions", Some("evictions"), Count, |row| {
        Value::Count(row.found.counts.evictions)
    }),
    column("promotions", Some("promotions"), Count, |row| {
        Value::Count(row.found.promotions)
    }),
    column("metadata_bytes", Some("metadata"), Count, |row| {
        Value::Count(row.found.metadata_bytes)
    }),
    column("expired_bytes", Some("expired held"), Real, |row| {
        Value::Real(row.found.expired_held, 1)
    }),
    column("flash_write_bytes", Some("flash writes"), Count, |row| {
        row.found.flash_written.map_or(Value::None, Value::Count)
    }),
    column("expirations", None, Count, |row| {
        Value::Count(row.found.counts.expirations)
    }),
    column("refusals", None, Count, |row| {
        Value::Count(row.found.counts.refusals)
    }),
    column("replay_bytes", None, Count, |row| {
        Value::Count(row.found.replay_bytes)
    }),
    column("cpu_seconds", None, Real, |row| {
        Value::Real(row.found.cpu_time.as_secs_f64(), 4)
    }),
    explained(
        "demotion_speed",
        Some("demotion speed"),
        Real,
        |explained| maybe(explained.demotion_speed, 3),
    ),
    explained("demotion_precision", Some("precision"), Real, |explained| {
        maybe(explained.demotion_precision, 4)
    }),
    explained("demotion_age", None, Real, |explained| {
        maybe(explained.demotion_age, 1)
    }),
    explained(
        "unpopular_resources",
        Some("on unpopular"),
        Real,
        |explained| maybe(explained.unpopular_resources, 4),
    ),
    explained("evictions_by_hits", None, Reals, |explained| {
        let counts = explained.evictions_by_hits.map(|count| count as f64);
        Value::Reals(counts.to_vec(), 0)
    }),
    explained(
        "evicted_without_hit",
        Some("evicted unused"),
        Real,
        |explained| {
            let evictions = explained.evictions_by_hits.iter().sum();
            match ratio(explained.evictions_by_hits[0], evictions) {
                Value::Real(share, _) => Value::Real(share, 4),
                other => other,
            }
        },
    ),
    explained("miss_ratio_over_time", None, Reals, |explained| {
        Value::Reals(explained.over_time.clone(), 6)
    }),
    learned("trainings", Some("trainings"), Count, |learned| {
        Value::Count(learned.lessons.trainings)
    }),
    learned("is_trained", Some("trained"), Text, |learned| {
        Value::Text(["no", "yes"][usize::from(learned.is_trained())].into())
    }),
    learned("training_rows", None, Count, |learned| {
        Value::Count(learned.lessons.training_rows)
    }),
    learned("training_seconds", Some("training s"), Real, |learned| {
        Value::Real(learned.training_time.as_secs_f64(), 4)
    }),
    learned("inferences", None, Count, |learned| {
        Value::Count(learned.lessons.inferences)
    }),
    learned("inference_rows", None, Count, |learned| {
        Value::Count(learned.lessons.inference_rows)
    }),
    learned("inference_seconds", Some("inference s"), Real, |learned| {
        Value::Real(learned.inference_time.as_secs_f64(), 4)
    }),
    learned("model_age", None, Count, |learned| {
        learned.model_age.map_or(Value::None, Value::Count)
    }),
    learned("groups_evicted", None, Count, |learned| {
        Value::Count(learned.lessons.groups_evicted)
    }),
    learned("learning_bytes_per_entry", None, Real, |learned| {
        Value::Real(learned.bytes_per_entry, 2)
    }),
    learned("held_out_correlation", None, Real, |learned| {
        maybe(learned.correlation(), 4)
    }),
    learned("feature_importances", None, Text, |learned| {
        let shares = learned.lessons.importances.iter();
        let shares = shares.map(|(name, share)| format!("{name} {share:.3}"));
        Value::Text(shares.collect::<Vec<_>>().join("; "))
    }),
];

fn ratio(part: u64, whole: u64) -> Value {
    match whole {
        0 => Value::None,
        _ => Value::Real(part as f64 / whole as f64, 8),
    }
}

/// Comma-separated text with a header.
pub fn csv(rows: &[Row]) -> String {
    let columns = || COLUMNS.iter().filter(|column| column.is_in(rows));
    let names: Vec<&str> = columns().map(|column| column.name).collect();
    let mut text = names.join(",") + "\n";
    for row in rows {
        let cells = columns().map(|column| match column.value(row) {
            Value::Text(text) => quoted_for_csv(&text),
            value => plain(&value),
        });
        text += &cells.collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}

/// An array of one object a row. What was not measured is null.
pub fn json(rows: &[Row]) -> String {
    let columns = || COLUMNS.iter().filter(|column| column.is_in(rows));
    let object = |row: &Row| {
        let members = columns().map(|column| {
            let value = match column.value(row) {
                Value::None => "null".into(),
                Value::Text(text) => quoted_for_json(&text),
                Value::Reals(..) => format!("[{}]", plain(&column.value(row)).replace(' ', ",")),
                value => plain(&value),
            };
            format!("\"{}\":{value}", column.name)
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let objects: Vec<String> = rows.iter().map(object).collect();
    format!("[{}]\n", objects.join(",\n "))
}

/// Aligned text, columns of numbers to the right; without columns that say nothing.
pub fn table(rows: &[Row]) -> String {
    let mut columns: Vec<Vec<String>> = Vec::new();
    let mut is_text = Vec::new();
    for column in COLUMNS {
        let Some(heading) = column.heading else {
            continue;
        };
        let values: Vec<Value> = rows.iter().map(|row| column.value(row)).collect();
        let is_told = |value: &Value| !matches!(value, Value::None | Value::Real(0.0, _));
        if !values.iter().any(is_told) {
            continue;
        }
        is_text.push(matches!(values[0], Value::Text(_)));
        let cells = values.iter().map(short);
        columns.push(std::iter::once(heading.to_owned()).chain(cells).collect());
    }
    let width = |cells: &Vec<String>| cells.iter().map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = columns
        .iter()
        .map(|cells| width(cells).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for index in 0..=rows.len() {
        let mut line = String::new();
        for ((cells, &width), is_text) in columns.iter().zip(&widths).zip(&is_text) {
            let cell = &cells[index];
            line += &match is_text {
                true => format!("{cell:<width$}  "),
                false => format!("{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::None => String::new(),
        Value::Text(text) => text.clone(),
        Value::Count(count) => count.to_string(),
        Value::Real(real, decimals) => format!("{real:.decimals$}"),
        Value::Reals(reals, decimals) => {
            let texts = reals.iter().map(|real| format!("{real:.decimals$}"));
            texts.collect::<Vec<_>>().join(" ")
        }
    }
}

/// A cell of the table: ratios with four decimals, large numbers in units.
fn short(value: &Value) -> String {
    match value {
        Value::Real(real, 8) => format!("{real:.4}"),
        Value::Real(real, _) if *real >= 1e6 => format!("{:.1} M", real / 1e6),
        value => plain(value),
    }
}

/// Text as a field of CSV, in quotes where it needs them.
pub fn quoted_for_csv(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

pub(crate) fn quoted_for_json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Returns each value once, in the order of first appearance.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}
