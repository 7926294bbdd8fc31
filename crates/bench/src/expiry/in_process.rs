//! `bench expiry in-process`: each index alone, without a server, on a simulated clock.
//!
//! It measures bytes, CPU time per operation, visited entries per dead one, the longest call and
//! the lag, for TTL shapes that occur in caches. Each index is called through the same enum as in
//! the server. The module [`trial`] describes a trial, and [`shape`] the shapes.

mod host;
mod shape;
mod trial;
mod verdict;

use crate::error::{Error, Result};
use crate::machine::{self, Machine};
use crate::report::Files;
use ::report::{Axis, Bars, Column, Page, Plot, Section, Table};
use policy::expire::any::ExpirySpec;
use serde::Serialize;
use shape::{SHAPES, Shape};
use trial::{ENTRY_BYTES, Figures};
use verdict::Win;

/// Numbers of entries for `--full`.
const FULL_KEYS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Units of memory, lag, CPU time, and CPU time among prompt indexes.
const UNITS: [&str; 4] = ["B", "ms", "ns", "ns"];

/// Arguments of `bench expiry in-process`.
#[derive(clap::Args, Debug)]
pub(super) struct InProcess {
    /// Indexes, with parameters as in --expiry [default: all]
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "wheel,sampled,sampled:release=5,buckets:120x1000,buckets-auto,radix,radix-capped,ebuckets,crawler,crawler:1,ordered,lazy"
    )]
    index: Vec<String>,
    /// Numbers of entries
    #[arg(long, value_delimiter = ',', default_value = "1k,10k,100k,1m", value_parser = units::count)]
    keys: Vec<u64>,
    /// Run 1 k to 10 M entries
    #[arg(long, conflicts_with = "keys")]
    full: bool,
    /// Names of TTL shapes [default: all]
    #[arg(long, value_delimiter = ',')]
    shape: Vec<String>,
    /// Runs of each trial; each timed step counts with its shortest time
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: Files,
}

#[derive(Debug, Serialize)]
struct Row {
    index: String,
    #[serde(flatten)]
    figures: Figures,
}

/// Results of all indexes for one shape and one number of entries.
#[derive(Debug, Serialize)]
struct Group {
    shape: &'static str,
    about: &'static str,
    keys: u64,
    rows: Vec<Row>,
    /// Best indexes by each measure; empty if only `lazy` ran.
    wins: Vec<Win>,
}

#[derive(Debug, Serialize)]
struct Report {
    command: String,
    machine: Machine,
    runs: usize,
    groups: Vec<Group>,
}

impl InProcess {
    /// Runs the experiment and prints its report.
    pub(super) fn run(&self) -> Result<()> {
        let shapes = self.shapes()?;
        let specs = self.specs()?;
        let keys = if self.full {
            &FULL_KEYS[..]
        } else {
            &self.keys
        };
        if let Some(count) = keys.iter().find(|count| !(1..1 << 31).contains(*count)) {
            return Err(Error::Usage(format!("{count} entries: expected 1 to 2^31")));
        }
        if self.runs == 0 {
            return Err(Error::Usage("--runs must be at least 1".into()));
        }
        let steps = shapes.len() * keys.len() * specs.len();
        let progress = crate::progress::steps(steps as u64);
        let mut groups = Vec::new();
        for shape in &shapes {
            for &count in keys {
                let mut rows = Vec::new();
                for (name, spec) in &specs {
                    progress.set_message(format!("{} {count} {name}", shape.name));
                    rows.push(Row {
                        index: name.clone(),
                        figures: trial::measure(spec, shape, count as usize, self.runs),
                    });
                    progress.inc(1);
                }
                let wins = verdict::wins(rows.iter().map(|row| (&*row.index, &row.figures)));
                groups.push(Group {
                    shape: shape.name,
                    about: shape.about,
                    keys: count,
                    rows,
                    wins,
                });
            }
        }
        progress.finish_and_clear();
        let report = Report {
            command: machine::command(),
            machine: Machine::here(),
            runs: self.runs,
            groups,
        };
        self.files.write_report(&report, page(&report), self.json)
    }

    fn shapes(&self) -> Result<Vec<Shape>> {
        if self.shape.is_empty() {
            return Ok(SHAPES.to_vec());
        }
        let find = |name: &String| {
            let found = SHAPES.iter().find(|shape| shape.name == *name);
            found.copied().ok_or_else(|| {
                let known = SHAPES.map(|shape| shape.name).join(", ");
                Error::Usage(format!(
                    "no shape is named {name:?}; the shapes are {known}"
                ))
            })
        };
        self.shape.iter().map(find).collect()
    }

    fn specs(&self) -> Result<Vec<(String, ExpirySpec)>> {
        let read = |name: &String| match name.parse() {
            Ok(spec) => Ok((name.clone(), spec)),
            Err(error) => Err(Error::Usage(format!("index {name:?}: {error}"))),
        };
        self.index.iter().map(read).collect()
    }
}

impl Group {
    /// Returns one sentence per measure that names the best index.
    fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let wins = self.wins.iter().zip(UNITS);
        wins.map(|(win, unit)| win.line(unit))
    }
}

const SUMMARY: &str = "Winners; in parentheses, by how much the wheel exceeds the best. The aim: the wheel best in \
two of memory, lag and CPU and within 25 % in the third; against all, and against those that were never later \
than a second.";

fn summary(report: &Report) -> Table {
    let groups = report
        .groups
        .iter()
        .filter(|group| group.wins.len() == UNITS.len());
    let winner = |place: usize| {
        move |group: &Group| {
            let win = &group.wins[place];
            let excess = win.excess().filter(|excess| *excess > 0.0);
            let excess = excess.map(|excess| format!(" (+{:.0} %)", 100.0 * excess));
            win.by.join(", ") + &excess.unwrap_or_default()
        }
    };
    let aim = |place: usize| {
        move |group: &Group| {
            let wins = &group.wins;
            let is_met = verdict::is_aim_met(&wins[0], &wins[1], &wins[place]);
            is_met.map(|is_met| if is_met { "met" } else { "missed" })
        }
    };
    Table::of(groups)
        .column(Column::text("shape"), |group| group.shape)
        .column(Column::count("entries"), |group| group.keys)
        .column(Column::text("memory"), winner(0))
        .column(Column::text("lag"), winner(1))
        .column(Column::text("CPU"), winner(2))
        .column(Column::text("aim"), aim(2))
        .column(Column::text("CPU of the prompt"), winner(3))
        .column(Column::text("aim of the prompt"), aim(3))
        .finish()
}

fn table(group: &Group) -> Table {
    let figures = |value: fn(&Figures) -> f64| move |row: &Row| value(&row.figures);
    let maybe = |value: fn(&Figures) -> Option<f64>| move |row: &Row| value(&row.figures);
    Table::of(&group.rows)
        .column(Column::text("index"), |row| &row.index)
        .column(Column::number("B/item"), figures(|it| it.bytes_per_item))
        .column(Column::number("filled"), figures(|it| it.bytes_filled))
        .column(
            Column::number("with dead"),
            figures(|it| it.memory_per_item),
        )
        .column(Column::percent("dead"), figures(|it| it.dead_share))
        .column(Column::number("insert ns"), figures(|it| it.insert_ns))
        .column(Column::number("update"), figures(|it| it.update_ns))
        .column(Column::number("remove"), figures(|it| it.remove_ns))
        .column(Column::number("pop"), maybe(|it| it.pop_ns))
        .column(Column::number("CPU"), figures(|it| it.cpu_ns))
        .column(
            Column::number("scanned"),
            maybe(|it| it.scanned_per_expired),
        )
        .column(Column::number("pause µs"), figures(|it| it.pause_us_max))
        .column(Column::span("lag mean"), figures(|it| it.lag_ms_mean))
        .column(Column::span("lag max"), figures(|it| it.lag_ms_max))
        .finish()
        .with_caption(&format!("{} entries", group.keys))
}

fn page(report: &Report) -> Page {
    let mut page = machine::page(
        "Expiry indexes in process",
        &report.command,
        &report.machine,
    );
    page.fact("runs", &report.runs.to_string());
    page.section("Method").text(&format!(
        "A fixed number of entries on a simulated clock of milliseconds. Expired entries are replaced. Bytes are \
         those beyond the 8 bytes of the deadline. \"With dead\" adds {ENTRY_BYTES} bytes for each expired entry in memory, \
         on average. CPU is the time of all operations ÷ entries that expired. A pause is the longest call of the \
         usual budget."
    ));
    let section = page.section("Best indexes").place("in-process");
    section.text(SUMMARY).table(summary(report));
    for groups in report.groups.chunk_by(|a, b| a.shape == b.shape) {
        let Some((largest, smaller)) = groups.split_last() else {
            continue;
        };
        let title = format!("{}: {}", largest.shape, largest.about);
        if !smaller.is_empty() {
            let section = page.section(&format!("{title}, fewer entries"));
            for group in smaller {
                section.table(table(group)).list(group.lines().collect());
            }
        }
        // Documents show the largest number of entries of each shape.
        let section = page.section(&title).place("in-process");
        section.text(&title);
        section
            .table(table(largest))
            .list(largest.lines().collect());
        plots(section, largest);
    }
    page
}

/// Adds three bar plots over the indexes.
fn plots(section: &mut Section, group: &Group) {
    let names: Vec<String> = group.rows.iter().map(|row| row.index.clone()).collect();
    type Value = fn(&Figures) -> f64;
    let memory: Value = |it| it.memory_per_item;
    let lag: Value = |it| it.lag_ms_mean;
    let cpu: Value = |it| it.cpu_ns;
    let three = [
        ("Memory an entry, with dead ones", "bytes", memory),
        ("Mean lag", "ms", lag),
        ("CPU a verb", "ns", cpu),
    ];
    for (title, unit, value) in three {
        let axis = Axis::linear(unit).from_zero();
        let values = group.rows.iter().map(|row| Some(value(&row.figures)));
        let bars = Bars::new(title, values.collect());
        let title = format!("{title}: {}, {} entries", group.shape, group.keys);
        section.plot(Plot::bars(&title, axis, names.clone(), vec![bars]));
    }
}
