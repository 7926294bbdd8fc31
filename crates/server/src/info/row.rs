//! A row of INFO: one field, its value, and its export to Prometheus.

use super::report::Report;
use std::fmt;

/// A field of INFO.
pub struct Row {
    /// Name of the field. A row of several lines appends a suffix to it for each line.
    pub name: &'static str,
    /// Returns the current value.
    pub(super) value: fn(&Report<'_>) -> Value,
    /// Export of the field on the metrics page.
    pub export: Export,
}

/// Value of a field.
#[derive(Debug, PartialEq)]
pub enum Value {
    /// The field is left out.
    Absent,
    /// A whole number.
    Number(i128),
    /// A number with this many decimal places.
    Decimal(f64, usize),
    /// A word for a state, and whether it is the good state. A metric has 1 or 0 for it.
    State(&'static str, bool),
    /// A text.
    Text(String),
    /// Suffixes of the name with their texts, one line each.
    Lines(Vec<(String, String)>),
}

impl Value {
    /// Returns the value of a metric: the number times `factor`. `None` for a text.
    pub fn number(&self, factor: f64) -> Option<String> {
        match *self {
            Value::Number(number) if factor == 1.0 => Some(number.to_string()),
            Value::Number(number) => Some((number as f64 * factor).to_string()),
            Value::Decimal(number, places) => Some(format!("{:.places$}", number * factor)),
            Value::State(_, is_good) => Some(u8::from(is_good).to_string()),
            Value::Absent | Value::Text(_) | Value::Lines(_) => None,
        }
    }

    /// Returns the suffixes and texts of the lines of INFO.
    pub(super) fn lines(self) -> Vec<(String, String)> {
        match self {
            Value::Absent => Vec::new(),
            Value::Lines(lines) => lines,
            one => vec![(String::new(), one.to_string())],
        }
    }
}

/// Writes the text of a field with one line.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Absent | Value::Lines(_) => Ok(()),
            Value::Number(number) => write!(out, "{number}"),
            Value::Decimal(number, places) => write!(out, "{number:.places$}"),
            Value::State(word, _) => out.write_str(word),
            Value::Text(text) => out.write_str(text),
        }
    }
}

macro_rules! from_numbers {
    ($($number:ty)*) => {
        $(impl From<$number> for Value {
            fn from(number: $number) -> Value {
                Value::Number(number as i128)
            }
        })*
    };
}

from_numbers!(bool u16 u32 i32 u64 i64 usize);

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Absent, Into::into)
    }
}

/// Export of a field on the metrics page.
pub enum Export {
    /// A metric.
    Metric(Metric),
    /// A label of `mayfly_instance_info` with this name.
    Label(&'static str),
    /// Nothing, for this reason.
    No(Reason),
}

/// A metric without labels.
pub struct Metric {
    /// Name of the family without the prefix and without `_total`.
    pub name: &'static str,
    /// Whether the metric is a counter. Otherwise it is a gauge.
    pub is_counter: bool,
    /// Factor that converts the field's number to the base unit of the metric.
    pub factor: f64,
    /// Description.
    pub help: &'static str,
    /// Name in redis_exporter.
    pub exporter: Exporter,
}

/// Name of a metric in redis_exporter, without its prefix.
pub enum Exporter {
    /// Same name as in INFO.
    Same,
    /// Another name.
    As(&'static str),
    /// redis_exporter has no such metric.
    Lacks,
}

/// Reason why a field is not exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Prometheus stores numbers only.
    Text,
    /// Another field has the same number, perhaps in another unit.
    Repeats,
    /// The page of metrics has a histogram or labels instead.
    Distribution,
    /// The number does not change while the server runs.
    Constant,
    /// The number describes one recording or one position, so that a graph of it would be
    /// meaningless.
    Momentary,
}

pub(super) const fn row(
    name: &'static str,
    value: fn(&Report<'_>) -> Value,
    export: Export,
) -> Row {
    Row {
        name,
        value,
        export,
    }
}

/// A metric that may go down.
pub(super) const fn gauge(name: &'static str, help: &'static str, exporter: Exporter) -> Export {
    metric(false, name, help, exporter)
}

/// A metric that only grows until it is reset.
pub(super) const fn counter(name: &'static str, help: &'static str, exporter: Exporter) -> Export {
    metric(true, name, help, exporter)
}

const fn metric(
    is_counter: bool,
    name: &'static str,
    help: &'static str,
    exporter: Exporter,
) -> Export {
    Export::Metric(Metric {
        name,
        is_counter,
        factor: 1.0,
        help,
        exporter,
    })
}

impl Export {
    /// Returns the metric of a field that is not in the base unit.
    pub(super) const fn times(self, factor: f64) -> Export {
        match self {
            Export::Metric(metric) => Export::Metric(Metric { factor, ..metric }),
            other => other,
        }
    }
}
