//! `bench expiry-lag`: delay of `expired` events and of freeing memory.
//!
//! Among other keys with TTLs, the experiment sets probes: keys whose deadlines (`PXAT`) are evenly
//! spaced from 1.5 to 4.5 s ahead. A subscriber to `__keyevent@0__:expired` records the wall-clock
//! time when each event arrives. Its lateness is arrival minus deadline. A key is dead once the
//! clock has passed its deadline, so the smallest possible lateness is between 0 and 1 ms, plus the
//! latency of the connection. Events that do not arrive in time count as later than all others.
//!
//! Memory: the experiment sends `DBSIZE` every 2 ms to count the reclaimed keys. The time when k
//! keys are reclaimed is compared with the k-th deadline.
//!
//! The last columns show the delay of the machine itself: how late threads on the same CPUs woke
//! while sleeping for a millisecond at a time during the measurement.

mod cell;
pub(crate) mod lateness;
pub(crate) mod probes;

use crate::contestant::{Contest, Settings};
use crate::error::{Error, Result};
use crate::latency::Percentiles;
use crate::noise::Noise;
use ::report::{Column, Table};
use cell::Cell;
use lateness::Lateness;
use serde::Serialize;
use std::time::Duration;

/// Arguments of `bench expiry-lag`.
#[derive(clap::Args, Debug)]
pub struct ExpiryLag {
    #[command(flatten)]
    contest: Contest,
    /// Numbers of other keys with TTLs
    #[arg(long, value_delimiter = ',', default_value = "0,10k,100k,1m", value_parser = units::count)]
    others: Vec<u64>,
    /// Deadlines of the other keys
    #[arg(long, value_delimiter = ',', default_value = "hour")]
    shape: Vec<Shape>,
    /// Data threads of our server
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Number of keys whose events are measured
    #[arg(long, default_value_t = 1000)]
    probes: u64,
    /// Maximum time to wait for events after the last deadline
    #[arg(long, default_value = "60s", value_parser = units::span)]
    patience: Duration,
}

/// Deadlines of the other keys.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The other keys are due in an hour
    Hour,
    /// The other keys are due at random times in the next ten minutes
    NextTenMinutes,
    /// Up to 100,000 other keys are due within one second while probes are due; the rest in an hour
    SameSecond,
    /// The other keys are due in an hour, and EXPIRE renews all of them while probes are due
    Refreshed,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Hour => "hour",
            Shape::NextTenMinutes => "next-ten-minutes",
            Shape::SameSecond => "same-second",
            Shape::Refreshed => "refreshed",
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    server: String,
    version: String,
    threads: Option<usize>,
    shape: Shape,
    others: u64,
    events: Lateness,
    memory: Lateness,
    /// Delays with which threads sleeping for a millisecond at a time woke during the measurement.
    machine: Percentiles,
}

impl ExpiryLag {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        if !(1..=1_000_000).contains(&self.probes) {
            return Err(Error::Usage("--probes must be from 1 to 1m".into()));
        }
        let mut plan = Vec::new();
        for entrant in self.contest.begin()? {
            let has_choice = entrant.is_ours && !self.threads.is_empty();
            let threads = if has_choice {
                self.threads.iter().copied().map(Some).collect()
            } else {
                vec![None]
            };
            for threads in threads {
                plan.push((entrant.clone(), threads));
            }
        }
        let cells = self.shape.len() * self.others.len() * plan.len();
        let progress = crate::progress::steps(cells as u64);
        let mut rows = Vec::new();
        for &shape in &self.shape {
            for &others in &self.others {
                for (entrant, threads) in &plan {
                    progress.set_message(format!("{} {} {others}", entrant.label, shape.name()));
                    let settings = Settings {
                        threads: *threads,
                        events: Some("Ex"),
                        ..Settings::default()
                    };
                    let server = entrant.start(&settings)?;
                    let cell = Cell {
                        shape,
                        others,
                        probes: self.probes,
                        patience: self.patience,
                    };
                    let noise = Noise::start(&server.cpus);
                    let measured = cell.measure(&server);
                    let machine = noise.finish();
                    let (events, memory) = measured?;
                    rows.push(Row {
                        server: server.label.clone(),
                        version: server.version.clone(),
                        threads: *threads,
                        shape,
                        others,
                        events,
                        memory,
                        machine,
                    });
                    progress.inc(1);
                }
            }
        }
        progress.finish_and_clear();
        self.report(&rows)
    }

    fn report(&self, rows: &[Row]) -> Result<()> {
        if self.contest.json {
            return crate::report::json(&rows);
        }
        let late = |value| lateness::cell(value, self.patience);
        let table = Table::of(rows)
            .column(Column::text("server"), |row| {
                format!("{} ({})", row.server, row.version)
            })
            .column(Column::text("shape"), |row| row.shape.name())
            .column(Column::count("threads"), |row| row.threads)
            .column(Column::count("others"), |row| row.others)
            .column(Column::text("events"), |row| {
                format!("{}/{}", row.events.arrived, row.events.expected)
            })
            .column(Column::span("event p50"), |row| late(row.events.p50_us))
            .column(Column::span("event p99"), |row| late(row.events.p99_us))
            .column(Column::span("event max"), |row| late(row.events.max_us))
            .column(Column::span("memory p50"), |row| late(row.memory.p50_us))
            .column(Column::span("memory p99"), |row| late(row.memory.p99_us))
            .column(Column::span("memory max"), |row| late(row.memory.max_us))
            .column(Column::span("machine p99"), |row| row.machine.p99_ms)
            .column(Column::span("machine max"), |row| row.machine.max_ms)
            .finish();
        println!(
            "Lateness of `expired` events and of memory: {} probes due 1.5 to 4.5 s ahead, waited for {} s after the last deadline\n",
            self.probes,
            self.patience.as_secs_f64()
        );
        print!("{}", table.to_text());
        Ok(())
    }
}
