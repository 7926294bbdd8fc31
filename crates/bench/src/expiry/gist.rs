//! `bench expiry gist`: S. Sanfilippo's measurements of a radix tree for the deadlines of keys in
//! Redis ("New keyspace representation and expire algorithm of Redis: preliminary analysis", 2019,
//! <https://gist.github.com/antirez/b2eb293819666ee104c7fcad71986eb7>).
//!
//! It measures memory and load time of 5 M keys with and without TTLs, GET and TTL on them with a
//! pipeline of 32, and a flood of `SET key value EX 1`. Sanfilippo loaded snapshots. Here, keys are
//! sent over the protocol, so that both loads include the cost of parsing, and the ratio between
//! them is smaller than the index alone would give. Deadlines are a few milliseconds apart, as in
//! the source.
//!
//! On a small machine, the load generator limits operations per second, but not the server's CPU
//! time.

use super::{Contestant, contestants};
use crate::contestant::{Contest, Server, Settings};
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use crate::load::{Load, Shape};
use crate::machine::{self, Machine};
use crate::progress::Progress;
use crate::report::Files;
use ::report::{Axis, Bars, Column, Page, Plot, Table, median};
use serde::Serialize;
use std::ops::Range;
use std::time::{Duration, Instant};

/// TTLs in milliseconds, from several hours, spread evenly over the keys. All have eight digits.
const TTL_MS: Range<u64> = 20_000_000..100_000_000;
const TTL_STEP_MS: u64 = 3;
/// 50 connections with 32 requests in flight, like `redis-benchmark -P 32`.
const SHAPE: Shape = Shape {
    connections: 50,
    pipeline: 32,
    is_stream: false,
};
/// Number of keys in the flood per loaded key, as in the source.
const FLOOD_KEYS: u64 = 2;

/// Arguments of `bench expiry gist`.
#[derive(clap::Args, Debug)]
pub(super) struct Gist {
    #[command(flatten)]
    contest: Contest,
    /// Indexes of our server
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "wheel,radix,radix-capped,ebuckets,buckets:120x1000,buckets-auto,sampled,ordered"
    )]
    index: Vec<String>,
    /// Number of keys to load
    #[arg(long, default_value = "5m", value_parser = units::count)]
    keys: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 3)]
    value_size: usize,
    /// Duration of the GETs and of the TTLs
    #[arg(long, default_value = "2s", value_parser = units::span)]
    span: Duration,
    /// Duration of the flood
    #[arg(long, default_value = "5s", value_parser = units::span)]
    flood: Duration,
    /// Loads with and without TTLs, each into a fresh server; the report gives medians
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    #[command(flatten)]
    files: Files,
}

/// Rate and CPU time over one span of requests.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Rate {
    operations_per_second: f64,
    cpu_us_per_operation: f64,
}

/// Results of one load and of the requests to the loaded server.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Loaded {
    seconds: f64,
    cpu_seconds: f64,
    /// Increase of `used_memory` over an empty server.
    used_bytes: f64,
    resident_bytes: f64,
    get: Rate,
    /// Rate of TTL. It is also measured without TTLs, where the reply is −1.
    ttl: Rate,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Flood {
    rate: Rate,
    used_bytes: f64,
    /// Number of keys in memory at the end of the flood.
    keys: u64,
    /// Maximum number of unexpired keys at that time: all keys set within the last second.
    living_max: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    contestant: String,
    version: String,
    plain: Vec<Loaded>,
    expires: Vec<Loaded>,
    /// Median time of a load with TTLs divided by the median without. The fields after it are the
    /// same ratio for CPU time and used memory.
    load_ratio: f64,
    load_cpu_ratio: f64,
    memory_ratio: f64,
    flood: Flood,
}

#[derive(Debug, Serialize)]
struct Report {
    command: String,
    machine: Machine,
    keys: u64,
    rows: Vec<Row>,
}

fn middle(loads: &[Loaded], value: fn(&Loaded) -> f64) -> f64 {
    let values: Vec<f64> = loads.iter().map(value).collect();
    median(&values)
}

impl Gist {
    /// Runs the experiment and prints its report.
    pub(super) fn run(&self) -> Result<()> {
        let keys_max = (TTL_MS.end - TTL_MS.start) / TTL_STEP_MS;
        if self.rounds == 0
            || !(1..=keys_max).contains(&self.keys)
            || self.span.is_zero()
            || self.flood.is_zero()
        {
            let text = format!(
                "--rounds, --span and --flood must be above 0, --keys from 1 to {keys_max}"
            );
            return Err(Error::Usage(text));
        }
        let contestants = contestants(&self.contest, &self.index, |spec| Ok(spec.into()))?;
        let progress = crate::progress::steps((contestants.len() * (2 * self.rounds + 1)) as u64);
        let mut rows = Vec::new();
        for contestant in &contestants {
            progress.set_message(contestant.name.clone());
            rows.push(self.measure(contestant, &progress)?);
        }
        progress.finish_and_clear();
        self.write_report(Report {
            command: machine::command(),
            machine: Machine::here(),
            keys: self.keys,
            rows,
        })
    }

    fn measure(&self, contestant: &Contestant, progress: &Progress) -> Result<Row> {
        let (mut plain, mut expires) = (Vec::new(), Vec::new());
        let mut version = String::new();
        for _ in 0..self.rounds {
            for (has_ttl, loads) in [(false, &mut plain), (true, &mut expires)] {
                let server = contestant.entrant.start(&Settings::default())?;
                version.clone_from(&server.version);
                loads.push(self.load(&server, has_ttl)?);
                progress.inc(1);
            }
        }
        let flood = self.flood(&contestant.entrant.start(&Settings::default())?)?;
        progress.inc(1);
        let ratio = |value: fn(&Loaded) -> f64| {
            middle(&expires, value) / middle(&plain, value).max(f64::MIN_POSITIVE)
        };
        Ok(Row {
            contestant: contestant.name.clone(),
            version,
            load_ratio: ratio(|load| load.seconds),
            load_cpu_ratio: ratio(|load| load.cpu_seconds),
            memory_ratio: ratio(|load| load.used_bytes),
            plain,
            expires,
            flood,
        })
    }

    fn load(&self, server: &Server, has_ttl: bool) -> Result<Loaded> {
        let value = keys::value(self.value_size);
        let template = if has_ttl {
            Template::new(&[b"SET", b"{key}", &value, b"PX", b"00000000"])
        } else {
            Template::new(&[b"SET", b"{key}", &value])
        };
        let mut client = server.client()?;
        let used_empty = client.info_number("memory", "used_memory")?;
        let resident_empty = server.resident_bytes(&mut client)?;
        let (cpu, start) = (server.cpu_ns()?, Instant::now());
        keys::send_each(server, &template, 0..self.keys, ttl_ms)?;
        let seconds = start.elapsed().as_secs_f64();
        let cpu_seconds = server.cpu_ns()?.saturating_sub(cpu) as f64 / 1e9;
        let get = self.rate(
            server,
            &Template::new(&[b"GET", b"{key}"]),
            self.span,
            self.keys,
        )?;
        let ttl = self.rate(
            server,
            &Template::new(&[b"TTL", b"{key}"]),
            self.span,
            self.keys,
        )?;
        let held = client.integer(&["DBSIZE"])?;
        if held != self.keys as i64 {
            let text = format!("it holds {held} keys of {}", self.keys);
            return Err(Error::server(&server.label, text));
        }
        Ok(Loaded {
            seconds,
            cpu_seconds,
            // The server's hash tables have stopped growing.
            used_bytes: client.info_number("memory", "used_memory")? - used_empty,
            resident_bytes: server.resident_bytes(&mut client)? - resident_empty,
            get,
            ttl,
        })
    }

    fn rate(
        &self,
        server: &Server,
        template: &Template,
        span: Duration,
        key_count: u64,
    ) -> Result<Rate> {
        let mut load = Load::connect(&server.label, server.address, SHAPE)?;
        let (cpu, start) = (server.cpu_ns()?, Instant::now());
        let tally =
            keys::send_random(&mut load, &server.label, template, key_count, 0..1, span, 1)?;
        let (cpu_end, seconds) = (server.cpu_ns()?, start.elapsed().as_secs_f64());
        let count = tally.replies as f64;
        Ok(Rate {
            operations_per_second: count / seconds,
            cpu_us_per_operation: cpu_end.saturating_sub(cpu) as f64 / 1e3 / count.max(1.0),
        })
    }

    fn flood(&self, server: &Server) -> Result<Flood> {
        let value = keys::value(self.value_size);
        let template = Template::new(&[b"SET", b"{key}", &value, b"EX", b"1"]);
        let key_count = self.keys * FLOOD_KEYS;
        let mut client = server.client()?;
        let used_empty = client.info_number("memory", "used_memory")?;
        let rate = self.rate(server, &template, self.flood, key_count)?;
        let keys = client.integer(&["DBSIZE"])?.max(0) as u64;
        let used_bytes = client.info_number("memory", "used_memory")? - used_empty;
        Ok(Flood {
            rate,
            used_bytes,
            keys,
            living_max: distinct(
                rate.operations_per_second * self.flood.as_secs_f64().min(1.0),
                key_count,
            ),
        })
    }

    fn write_report(&self, report: Report) -> Result<()> {
        self.files
            .write_report(&report, page(&report), self.contest.json)
    }
}

/// Returns the TTL of key number `key` in milliseconds.
fn ttl_ms(key: u64) -> u64 {
    TTL_MS.start + key * TTL_STEP_MS
}

/// Returns the expected number of distinct keys in `draws` random draws from `key_count` keys.
fn distinct(draws: f64, key_count: u64) -> u64 {
    let count = key_count as f64;
    (count * -(-draws / count).exp_m1()).round() as u64
}

fn table(report: &Report) -> Table {
    let keys = report.keys as f64;
    let plain = |value: fn(&Loaded) -> f64| move |row: &Row| middle(&row.plain, value);
    let expires = |value: fn(&Loaded) -> f64| move |row: &Row| middle(&row.expires, value);
    let get = |load: &Loaded| load.get.cpu_us_per_operation;
    Table::of(&report.rows)
        .column(Column::text("contestant"), |row| &row.contestant)
        .column(Column::text("version"), |row| &row.version)
        .column(Column::number("load, s"), plain(|load| load.seconds))
        .column(Column::number("with TTLs, s"), expires(|load| load.seconds))
        .column(Column::number("with ÷ without"), |row| row.load_ratio)
        .column(Column::number("CPU, with ÷ without"), |row| row.load_cpu_ratio)
        .column(Column::number("used bytes/key"), |row| middle(&row.plain, |load| load.used_bytes) / keys)
        .column(Column::number("used with TTLs"), |row| middle(&row.expires, |load| load.used_bytes) / keys)
        .column(Column::number("resident bytes/key").detail(), |row| {
            middle(&row.plain, |load| load.resident_bytes) / keys
        })
        .column(Column::number("resident with TTLs").detail(), |row| {
            middle(&row.expires, |load| load.resident_bytes) / keys
        })
        .column(Column::number("GET, µs"), plain(get))
        .column(Column::number("GET with TTLs, µs"), expires(get))
        .column(Column::number("TTL, µs"), expires(|load| load.ttl.cpu_us_per_operation))
        .column(Column::number("flood, kops/s"), |row| row.flood.rate.operations_per_second / 1e3)
        .column(Column::number("flood, µs"), |row| row.flood.rate.cpu_us_per_operation)
        .column(Column::mebibytes("flood, memory"), |row| row.flood.used_bytes)
        .column(Column::count("flood, keys held"), |row| row.flood.keys)
        .column(Column::count("alive at most"), |row| row.flood.living_max)
        .finish()
        .with_caption("Medians of the rounds, above the empty server. Flood: SET key value EX 1 over twice as many keys.")
}

fn page(report: &Report) -> Page {
    let title = format!("{} keys with and without TTLs", report.keys);
    let mut page = machine::page(&title, &report.command, &report.machine);
    let names: Vec<String> = report
        .rows
        .iter()
        .map(|row| row.contestant.clone())
        .collect();
    let bars = |name: &str, value: &dyn Fn(&Row) -> f64| {
        Bars::new(
            name,
            report.rows.iter().map(|row| Some(value(row))).collect(),
        )
    };
    let pair = |value: fn(&Loaded) -> f64, by: f64| {
        vec![
            bars("without TTLs", &|row| middle(&row.plain, value) / by),
            bars("with TTLs", &|row| middle(&row.expires, value) / by),
        ]
    };
    let section = page.section("Figures");
    let mut plot = |title: &str, unit: &str, series: Vec<Bars>| {
        section.plot(Plot::bars(title, Axis::linear(unit), names.clone(), series));
    };
    let cpu = "µs of CPU an operation";
    plot(
        "Memory as the server counts",
        "bytes a key",
        pair(|load| load.used_bytes, report.keys as f64),
    );
    plot(
        "Load through the protocol",
        "seconds",
        pair(|load| load.seconds, 1.0),
    );
    plot(
        "The server's CPU time of the load",
        "seconds",
        pair(|load| load.cpu_seconds, 1.0),
    );
    plot(
        "GET at pipeline 32",
        cpu,
        pair(|load| load.get.cpu_us_per_operation, 1.0),
    );
    plot(
        "TTL at pipeline 32",
        cpu,
        pair(|load| load.ttl.cpu_us_per_operation, 1.0),
    );
    plot(
        "Flood of SET EX 1",
        cpu,
        vec![bars("", &|row| row.flood.rate.cpu_us_per_operation)],
    );
    page.section("All figures")
        .place("gist")
        .table(table(report));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls_have_eight_digits_for_every_number_of_keys() {
        let last = (TTL_MS.end - TTL_MS.start) / TTL_STEP_MS;
        for key in [0, 5_000_000, last - 1] {
            assert_eq!(ttl_ms(key).to_string().len(), 8);
        }
    }

    #[test]
    fn few_draws_hit_as_many_keys_and_many_hit_all() {
        assert_eq!(distinct(10.0, 1_000_000), 10);
        assert_eq!(distinct(1e9, 1_000), 1_000);
        assert_eq!(distinct(1_000.0, 1_000), 632);
    }

    #[test]
    fn page_and_table_have_a_row_for_each_contestant() {
        let loaded = Loaded {
            seconds: 2.0,
            ..Loaded::default()
        };
        let row = |name: &str| Row {
            contestant: name.into(),
            version: "1".into(),
            plain: vec![loaded],
            expires: vec![loaded; 3],
            load_ratio: 1.0,
            load_cpu_ratio: 1.0,
            memory_ratio: 1.0,
            flood: Flood {
                rate: Rate::default(),
                used_bytes: 1.0,
                keys: 1,
                living_max: 1,
            },
        };
        let report = Report {
            command: "mayfly".into(),
            machine: Machine::here(),
            keys: 10,
            rows: vec![row("wheel"), row("<b>")],
        };
        let html = page(&report).to_html();
        assert_eq!(html.matches("<figure>").count(), 6);
        assert!(html.contains("<td>&lt;b&gt;</td>"));
        assert_eq!(table(&report).to_text().lines().count(), 4);
    }
}
