//! `mayfly trace show`: prints the first requests and a summary of a trace.

use super::input::Input;
use ::trace::{NextAccess, Op, Request, Statistics, Summary};
use anyhow::Result;
use std::io::{self, Write};

/// Arguments of `mayfly trace show`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Number of requests to print
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    head: u64,
    /// Print the first requests only, without reading the rest of the trace
    #[arg(long)]
    no_summary: bool,
}

const HEADER: [&str; 10] = [
    "request",
    "time (s)",
    "key",
    "size",
    "key size",
    "value size",
    "op",
    "TTL (s)",
    "client",
    "next",
];
/// Column widths that fit ordinary traces; a larger number shifts the rest of its line.
const WIDTHS: [usize; 10] = [10, 14, 20, 10, 8, 10, 7, 10, 8, 10];

impl Arguments {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let mut opened = self.input.open()?;
        let mut out = io::BufWriter::new(io::stdout().lock());
        let mut summary = Summary::default();
        if self.head > 0 {
            line(&mut out, &HEADER.map(String::from))?;
        }
        for (number, request) in (0..).zip(opened.requests()) {
            if self.no_summary && number >= self.head {
                break;
            }
            let request = request?;
            if number < self.head {
                line(&mut out, &cells(number, &request))?;
            }
            summary.add(&request);
        }
        opened.finish();
        if !self.no_summary {
            if self.head > 0 {
                writeln!(out)?;
            }
            print_statistics(&mut out, &summary.statistics())?;
        }
        out.flush()?;
        Ok(())
    }
}

fn line(out: &mut impl Write, cells: &[String; 10]) -> io::Result<()> {
    let cells = cells.iter().zip(WIDTHS);
    let padded: Vec<String> = cells
        .map(|(cell, width)| format!("{cell:>width$}"))
        .collect();
    writeln!(out, "{}", padded.join("  "))
}

fn cells(number: u64, request: &Request) -> [String; 10] {
    let seconds = |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000);
    [
        number.to_string(),
        seconds(request.time_ms),
        request.key.to_string(),
        request.size.to_string(),
        request.key_size.to_string(),
        request.value_size.to_string(),
        request.op.name().into(),
        match request.ttl_ms {
            0 => "none".into(),
            ms => seconds(ms),
        },
        request.client.to_string(),
        match request.next_access {
            NextAccess::Unknown => "?".into(),
            NextAccess::Never => "never".into(),
            NextAccess::At(number) => number.to_string(),
        },
    ]
}

fn print_statistics(out: &mut impl Write, statistics: &Statistics) -> io::Result<()> {
    let about = if statistics.is_estimate { "about " } else { "" };
    let mut rows = vec![
        ("requests", statistics.requests.to_string()),
        ("objects", format!("{about}{}", statistics.objects)),
        ("bytes requested", statistics.request_bytes.to_string()),
        (
            "bytes of objects",
            format!("{about}{}", statistics.object_bytes),
        ),
        (
            "sizes",
            format!("{} to {}", statistics.size_min, statistics.size_max),
        ),
        (
            "objects that change size",
            format!("{about}{}", statistics.resized_objects),
        ),
        ("requests of size 0", statistics.empty_requests.to_string()),
        (
            "seconds",
            format!(
                "{:.3}",
                (statistics.last_ms - statistics.first_ms) as f64 / 1e3
            ),
        ),
        (
            "steps back in time",
            statistics.backward_requests.to_string(),
        ),
        ("requests with a TTL", statistics.ttl_requests.to_string()),
    ];
    for (op, count) in Op::ALL.iter().zip(statistics.ops) {
        if count > 0 {
            rows.push((op.name(), count.to_string()));
        }
    }
    for (name, value) in rows {
        writeln!(out, "{name:<25}{value}")?;
    }
    Ok(())
}
