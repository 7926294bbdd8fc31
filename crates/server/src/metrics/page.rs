//! A page of metrics in Prometheus's text format (version 0.0.4) or in OpenMetrics (1.0.0).
//!
//! Both are lines of `name{labels} value` below lines that describe the family. They differ in the
//! names of counters' families, which have no `_total` in OpenMetrics, in the lines of units, in
//! the types for states, and in the last line.

use std::fmt::{Display, Write as _};

/// Format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format.
    Prometheus,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// Value of the header Content-Type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Type of a family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number that only grows until it is reset.
    Counter,
    /// A number that may go down.
    Gauge,
    /// Cumulative counts by the upper bounds of buckets, which only grow.
    Histogram,
    /// Current numbers of things by the upper bounds of buckets.
    GaugeHistogram,
    /// Texts as labels of a constant 1.
    Info,
}

/// Units that names may end in.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];

/// Label with its value.
pub type Label<'a> = (&'a str, &'a str);

/// One series of a histogram.
pub struct Series<'a> {
    /// Labels in addition to `le`.
    pub labels: &'a [Label<'a>],
    /// Upper bounds with the number of values up to them, ascending. The bound of all values is
    /// added.
    pub buckets: &'a [(f64, u64)],
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: f64,
}

/// A page that is being written.
pub struct Page {
    text: String,
    format: Format,
}

impl Page {
    /// Creates an empty page.
    pub fn new(format: Format) -> Page {
        // A page of a server with many commands has about 100 KiB.
        let text = String::with_capacity(64 << 10);
        Page { text, format }
    }

    /// Writes the lines that describe a family. `name` is without the suffix `_total` or `_info`.
    pub fn family(&mut self, kind: Type, name: &str, help: &str) {
        debug_assert!(help.ends_with('.') && !help.contains(['\n', '\\', '"']));
        let is_open = self.format == Format::OpenMetrics;
        let (suffix, word) = match kind {
            Type::Counter if is_open => ("", "counter"),
            Type::Counter => ("_total", "counter"),
            Type::Gauge => ("", "gauge"),
            Type::GaugeHistogram if is_open => ("", "gaugehistogram"),
            Type::Histogram | Type::GaugeHistogram => ("", "histogram"),
            Type::Info if is_open => ("", "info"),
            Type::Info => ("_info", "gauge"),
        };
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}");
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {word}");
        let unit = UNITS.iter().find(|unit| name.ends_with(*unit));
        if let Some(unit) = unit.filter(|_| is_open) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }

    /// Writes one sample. `suffix` follows the name of the family.
    pub fn sample(&mut self, name: &str, suffix: &str, labels: &[Label<'_>], value: impl Display) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Writes a family with one sample without labels.
    pub fn single(&mut self, kind: Type, name: &str, help: &str, value: impl Display) {
        self.family(kind, name, help);
        let suffix = if kind == Type::Counter { "_total" } else { "" };
        self.sample(name, suffix, &[], value);
    }

    /// Writes a family of histograms.
    pub fn histogram(&mut self, kind: Type, name: &str, help: &str, all: &[Series<'_>]) {
        self.family(kind, name, help);
        let is_state = kind == Type::GaugeHistogram && self.format == Format::OpenMetrics;
        let (count, sum) = if is_state {
            ("_gcount", "_gsum")
        } else {
            ("_count", "_sum")
        };
        for series in all {
            for (bound, below) in series.buckets {
                let bound = number(*bound);
                let labels = [series.labels, &[("le", &bound)]].concat();
                self.sample(name, "_bucket", &labels, below);
            }
            let labels = [series.labels, &[("le", "+Inf")]].concat();
            self.sample(name, "_bucket", &labels, series.count);
            self.sample(name, sum, series.labels, series.sum);
            self.sample(name, count, series.labels, series.count);
        }
    }

    /// Returns the text of the complete page.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Formats a bound with a decimal point, so that it is the same label in both formats.
fn number(bound: f64) -> String {
    let text = bound.to_string();
    if text.contains('.') {
        text
    } else {
        format!("{text}.0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(format: Format) -> String {
        let mut page = Page::new(format);
        page.single(Type::Counter, "a_seconds", "Counts.", 1.5);
        page.family(Type::Gauge, "b", "Level.");
        page.sample("b", "", &[("x", "1\"\\\n"), ("y", "")], -2);
        let series = Series {
            labels: &[("t", "v")],
            buckets: &[(0.004, 1), (1.0, 2)],
            count: 3,
            sum: 9.5,
        };
        page.histogram(Type::GaugeHistogram, "c", "Sizes.", &[series]);
        page.family(Type::Info, "d", "Names.");
        page.sample("d", "_info", &[("n", "é")], 1);
        page.finish()
    }

    #[test]
    fn a_page_in_prometheus_format() {
        let wanted = "# HELP a_seconds_total Counts.\n# TYPE a_seconds_total counter\na_seconds_total 1.5\n\
             # HELP b Level.\n# TYPE b gauge\nb{x=\"1\\\"\\\\\\n\",y=\"\"} -2\n\
             # HELP c Sizes.\n# TYPE c histogram\nc_bucket{t=\"v\",le=\"0.004\"} 1\nc_bucket{t=\"v\",le=\"1.0\"} 2\n\
             c_bucket{t=\"v\",le=\"+Inf\"} 3\nc_sum{t=\"v\"} 9.5\nc_count{t=\"v\"} 3\n\
             # HELP d_info Names.\n# TYPE d_info gauge\nd_info{n=\"é\"} 1\n";
        assert_eq!(write(Format::Prometheus), wanted);
    }

    #[test]
    fn a_page_in_open_metrics() {
        let wanted = "# HELP a_seconds Counts.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total 1.5\n\
             # HELP b Level.\n# TYPE b gauge\nb{x=\"1\\\"\\\\\\n\",y=\"\"} -2\n\
             # HELP c Sizes.\n# TYPE c gaugehistogram\nc_bucket{t=\"v\",le=\"0.004\"} 1\nc_bucket{t=\"v\",le=\"1.0\"} 2\n\
             c_bucket{t=\"v\",le=\"+Inf\"} 3\nc_gsum{t=\"v\"} 9.5\nc_gcount{t=\"v\"} 3\n\
             # HELP d Names.\n# TYPE d info\nd_info{n=\"é\"} 1\n# EOF\n";
        assert_eq!(write(Format::OpenMetrics), wanted);
    }
}
