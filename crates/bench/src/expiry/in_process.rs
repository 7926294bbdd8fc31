//! `bench expiry in-process`: every index by itself, without a server, on a simulated clock.
//!
//! Bytes, processor time a verb, entries looked at per dead one, the longest call and the lag, for
//! shapes of TTLs that caches see. Each index runs behind the same enum as in the server. How a
//! trial goes stands in [`trial`], the shapes in [`shape`].

mod host;
mod shape;
mod trial;
mod verdict;

use crate::arguments;
use crate::error::{Error, Result};
use crate::machine::{self, Machine};
use crate::report::Files;
use crate::table::{Table, number, span};
use ::report::{Axis, Bars, Cell, Page, Plot, Section};
use policy::expire::any::ExpirySpec;
use serde::Serialize;
use shape::{SHAPES, Shape};
use trial::{ENTRY_BYTES, Figures};
use verdict::Win;

/// With `--full`.
const FULL_KEYS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Of memory, lag, CPU, and CPU of the prompt.
const UNITS: [&str; 4] = ["B", "ms", "ns", "ns"];

/// Arguments of `bench expiry in-process`.
#[derive(clap::Args, Debug)]
pub(super) struct InProcess {
    /// Indexes, with knobs as of --expiry; all, if none is named
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "wheel,sampled,sampled:release=5,buckets:120x1000,buckets-auto,radix,radix-capped,ebuckets,crawler,crawler:1,ordered,lazy"
    )]
    index: Vec<String>,
    /// How many entries
    #[arg(long, value_delimiter = ',', default_value = "1k,10k,100k,1m", value_parser = arguments::count)]
    keys: Vec<u64>,
    /// 1 k to 10 M entries
    #[arg(long, conflicts_with = "keys")]
    full: bool,
    /// Shapes of TTLs, by name; all, if none is named
    #[arg(long, value_delimiter = ',')]
    shape: Vec<String>,
    /// Runs of each trial; every piece of work counts with its least time
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

/// All indexes under one shape with one number of entries.
#[derive(Debug, Serialize)]
struct Group {
    shape: &'static str,
    about: &'static str,
    keys: u64,
    rows: Vec<Row>,
    /// None where only the floor ran.
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
    /// Runs it and prints the report.
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
        self.files
            .save("in-process", || page(&report), || markdown(&report))?;
        if self.json {
            return crate::report::json(&report);
        }
        print(&report);
        Ok(())
    }

    fn shapes(&self) -> Result<Vec<Shape>> {
        if self.shape.is_empty() {
            return Ok(SHAPES.to_vec());
        }
        let find = |name: &String| {
            let found = SHAPES.iter().find(|shape| shape.name == *name);
            found.copied().ok_or_else(|| {
                let known = SHAPES.map(|shape| shape.name).join(", ");
                Error::Usage(format!("no shape is called {name:?}; there are {known}"))
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

const HEADER: [&str; 14] = [
    "index",
    "B/item",
    "filled",
    "with dead",
    "dead %",
    "insert ns",
    "update",
    "remove",
    "pop",
    "CPU",
    "scanned",
    "pause µs",
    "lag mean",
    "lag max",
];

fn print(report: &Report) {
    for group in &report.groups {
        println!("{}\n\n{}", group.heading(), table(group));
        for line in group.lines() {
            println!("{line}");
        }
        println!();
    }
    println!("{SUMMARY}\n\n{}", summary(report));
}

/// The summary, and of each shape the table of the most entries.
fn markdown(report: &Report) -> String {
    let mut text = machine::heading(&report.machine, &report.command);
    text += &format!("\n{SUMMARY}\n\n{}", summary(report).to_markdown());
    let shapes = report.groups.chunk_by(|a, b| a.shape == b.shape);
    for group in shapes.filter_map(<[Group]>::last) {
        text += &format!(
            "\n#### {}\n\n{}\n",
            group.heading(),
            table(group).to_markdown()
        );
        for line in group.lines() {
            text += &format!("- {line}\n");
        }
    }
    text
}

impl Group {
    fn heading(&self) -> String {
        format!("{} ({}), {} entries", self.shape, self.about, self.keys)
    }

    /// Who wins what, in words.
    fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let wins = self.wins.iter().zip(UNITS);
        wins.map(|(win, unit)| win.line(unit))
    }
}

const SUMMARY: &str = "Who wins what; in brackets by how much the wheel exceeds the best. The aim: the wheel best in \
two of memory, lag and CPU and within 25 % in the third; against all, and against those that were never later \
than a second.";

fn summary(report: &Report) -> Table {
    let header = [
        "shape",
        "entries",
        "memory",
        "lag",
        "CPU",
        "aim",
        "CPU of the prompt",
        "aim",
    ];
    let mut table = Table::new(1, &header);
    for group in &report.groups {
        let [memory, lag, cpu, prompt] = &group.wins[..] else {
            continue;
        };
        let winner = |win: &Win| {
            let excess = win.excess().filter(|excess| *excess > 0.0);
            let excess = excess.map(|excess| format!(" (+{:.0} %)", 100.0 * excess));
            win.by.join(", ") + &excess.unwrap_or_default()
        };
        let aim = |cpu| match verdict::is_aim_met(memory, lag, cpu) {
            Some(true) => "met".to_owned(),
            Some(false) => "missed".to_owned(),
            None => "–".to_owned(),
        };
        table.row(vec![
            group.shape.to_owned(),
            group.keys.to_string(),
            winner(memory),
            winner(lag),
            winner(cpu),
            aim(cpu),
            winner(prompt),
            aim(prompt),
        ]);
    }
    table
}

fn table(group: &Group) -> Table {
    let mut table = Table::new(1, &HEADER);
    for row in &group.rows {
        let it = &row.figures;
        let or_dash = |value: Option<f64>| value.map_or("–".into(), number);
        table.row(vec![
            row.index.clone(),
            number(it.bytes_per_item),
            number(it.bytes_filled),
            number(it.memory_per_item),
            number(it.dead_share * 100.0),
            number(it.insert_ns),
            number(it.update_ns),
            number(it.remove_ns),
            or_dash(it.pop_ns),
            number(it.cpu_ns),
            or_dash(it.scanned_per_expired),
            number(it.pause_us_max),
            span(it.lag_ms_mean),
            span(it.lag_ms_max),
        ]);
    }
    table
}

fn page(report: &Report) -> Page {
    let mut page = Page::new("Expiry indexes in process");
    page.command(&report.command)
        .fact("machine", &report.machine.line())
        .fact("runs", &report.runs.to_string());
    page.section("How it is measured").text(&format!(
        "A fixed number of entries on a simulated clock of milliseconds; what comes out is replaced. Bytes are \
         beyond the deadline's word of 8. \"With dead\" adds {ENTRY_BYTES} bytes for each dead entry held, \
         on average. CPU is all time by all verbs and entries handed out; a pause is the longest call of the \
         usual budget."
    ));
    let mut who = ::report::Table::new(&[
        "shape",
        "entries",
        "memory",
        "lag",
        "CPU",
        "CPU of the prompt",
    ]);
    for group in &report.groups {
        if let [memory, lag, cpu, prompt] = &group.wins[..] {
            let mut cells = vec![group.shape.into(), Cell::Number(group.keys as f64)];
            cells.extend([memory, lag, cpu, prompt].map(|win| win.by.join(", ").into()));
            who.row(cells);
        }
    }
    page.section("Who wins what").text(SUMMARY).table(who);
    for groups in report.groups.chunk_by(|a, b| a.shape == b.shape) {
        let section = page.section(&format!("{}: {}", groups[0].shape, groups[0].about));
        for group in groups {
            section.table(html_table(group));
            section.list(group.lines().collect());
        }
        if let Some(largest) = groups.last() {
            plots(section, largest);
        }
    }
    page
}

fn html_table(group: &Group) -> ::report::Table {
    let caption = format!("{} entries", group.keys);
    let mut table = ::report::Table::new(&HEADER).with_caption(&caption);
    for row in &group.rows {
        let it = &row.figures;
        let lag = |ms: f64| Cell::Shown(ms, span(ms));
        table.row(vec![
            row.index.clone().into(),
            it.bytes_per_item.into(),
            it.bytes_filled.into(),
            it.memory_per_item.into(),
            (it.dead_share * 100.0).into(),
            it.insert_ns.into(),
            it.update_ns.into(),
            it.remove_ns.into(),
            it.pop_ns.into(),
            it.cpu_ns.into(),
            it.scanned_per_expired.into(),
            it.pause_us_max.into(),
            lag(it.lag_ms_mean),
            lag(it.lag_ms_max),
        ]);
    }
    table
}

/// Three plots of bars over the indexes.
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
