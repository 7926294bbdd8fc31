//! `bench replay`: replays a trace against servers as look-aside caches.
//!
//! Each request of the trace is a GET. A miss is followed by a SET of a value as large as the
//! trace's (the object's size, if the trace does not distinguish keys and values) with a TTL drawn
//! for its key (`PX`). Without `--rate`, connections send as fast as replies come (closed loop).
//! With it, request i is due at i / rate, and is sent then or as soon as a connection has fewer
//! than the maximum number of requests in flight. Its latency counts from when it was due, so that
//! latencies include the time by which a stalled server delays requests (no coordinated omission).
//!
//! If a trace of hours is replayed in seconds, its TTLs must be scaled by the same factor
//! (`--ttl-scale`).
//!
//! Bytes held beyond their deadline are estimated in the same way for every server. The client
//! counts the keys that it set and that have no deadline or a deadline in the future. All other
//! keys counted by `DBSIZE` are dead. A dead key is assumed to be as large as the average key:
//! `used_memory`, minus that of the empty server, divided by `DBSIZE`. The client does not observe
//! evictions and counts evicted keys as unexpired, so that the estimate is a lower bound. Keys of
//! requests in flight also count as unexpired.

mod cache_aside;
mod sampler;

use crate::contestant::{Contest, Entrant, Server, Settings};
use crate::error::{Error, Result};
use crate::latency::Percentiles;
use crate::load::{Load, Shape};
use ::report::{Column, Table};
use cache_aside::{CacheAside, Pace};
use sampler::{Memory, Sampler};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace::{Requests, TtlMix};

/// Arguments of `bench replay`.
#[derive(clap::Args, Debug)]
pub struct Replay {
    #[command(flatten)]
    contest: Contest,
    /// Trace to replay; the ending of its name selects one of the formats in
    /// docs/reference/traces.md
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Source of TTLs: a built-in mix such as cluster4, CLUSTER:FILE for a table with the columns
    /// cluster and ttl_mix, or none
    #[arg(long, default_value = "cluster4")]
    ttl_mix: String,
    /// Factor on every TTL
    #[arg(long, default_value_t = 1.0)]
    ttl_scale: f64,
    /// Requests per second, sent when they are due [default: as fast as replies come]
    #[arg(long)]
    rate: Option<f64>,
    /// Connections
    #[arg(long, default_value_t = 50)]
    clients: usize,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1)]
    pipeline: usize,
    /// Memory limit of the servers
    #[arg(long, value_parser = units::bytes)]
    maxmemory: Option<u64>,
    /// Our eviction policy at the memory limit (peers use allkeys-lru)
    #[arg(long, default_value = "allkeys-s3fifo")]
    maxmemory_policy: String,
    /// Maximum number of requests
    #[arg(long, value_parser = units::count)]
    limit: Option<u64>,
    /// Random seed that selects the TTL of each key
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Data threads of our server
    #[arg(long)]
    threads: Option<usize>,
}

/// Results of one server.
#[derive(Debug, Serialize)]
struct Row {
    server: String,
    version: String,
    requests: u64,
    hits: u64,
    hit_ratio: f64,
    seconds: f64,
    requests_per_second: f64,
    cpu_us_per_operation: f64,
    expired_keys: f64,
    evicted_keys: f64,
    gets: Percentiles,
    sets: Percentiles,
    memory: Memory,
}

impl Replay {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        self.check()?;
        let mix = self.mix()?;
        // A missing trace is reported before servers are started.
        drop(open(&self.trace, |_| ())?);
        let mut rows = Vec::new();
        for entrant in self.contest.begin()? {
            rows.push(self.measure(&entrant, mix.as_ref())?);
        }
        self.report(&rows)
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Usage(text.into()));
        if !(self.ttl_scale > 0.0 && self.ttl_scale.is_finite()) {
            return wrong("--ttl-scale must be above 0");
        }
        if self.rate.is_some_and(|rate| !(0.1..=1e8).contains(&rate)) {
            return wrong("--rate must be from 0.1 to 100 million requests per second");
        }
        if self.clients == 0 || self.pipeline == 0 {
            return wrong("--clients and --pipeline must be above 0");
        }
        Ok(())
    }

    fn mix(&self) -> Result<Option<TtlMix>> {
        if self.ttl_mix == "none" {
            return Ok(None);
        }
        let Some((cluster, path)) = self.ttl_mix.split_once(':') else {
            return Ok(Some(TtlMix::published(&self.ttl_mix)?));
        };
        let text =
            std::fs::read_to_string(path).map_err(Error::system(format!("cannot read {path}")))?;
        Ok(Some(TtlMix::from_table(&text, cluster)?))
    }

    fn measure(&self, entrant: &Entrant, mix: Option<&TtlMix>) -> Result<Row> {
        let settings = Settings {
            threads: self.threads.filter(|_| entrant.is_ours),
            memory_max: self.maxmemory,
            policy: Some(self.maxmemory_policy.clone()),
            ..Settings::default()
        };
        let server = entrant.start(&settings)?;
        let file_bytes = std::fs::metadata(&self.trace).map_or(0, |file| file.len());
        let progress = crate::progress::steps(self.limit.unwrap_or(file_bytes));
        progress.set_message(entrant.label.clone());
        let bytes_read = progress.clone();
        let counts_bytes = self.limit.is_none();
        let requests = open(&self.trace, move |bytes| {
            if counts_bytes {
                bytes_read.inc(bytes);
            }
        })?;
        let limit = self.limit.unwrap_or(u64::MAX) as usize;
        let requests: Requests = Box::new(requests.take(limit).inspect(|_| {
            if !counts_bytes {
                progress.inc(1);
            }
        }));
        let row = self.drive(&server, requests, mix);
        progress.finish_and_clear();
        row
    }

    fn drive(&self, server: &Server, requests: Requests, mix: Option<&TtlMix>) -> Result<Row> {
        let shape = Shape {
            connections: self.clients,
            pipeline: self.pipeline,
            is_stream: self.rate.is_some(),
        };
        let mut load = Load::connect(&server.label, server.address, shape)?;
        let pace = match self.rate {
            Some(rate) => Pace::Open {
                start: Instant::now(),
                pause_ns: 1e9 / rate,
            },
            None => Pace::Closed,
        };
        let ttl_ms = |key| {
            let ttl_ms = mix?.ttl_ms(key, self.seed) as f64 * self.ttl_scale;
            Some((ttl_ms.round() as u64).max(1))
        };
        let mut sampler = Sampler::start(server)?;
        let mut driver = CacheAside::new(requests, ttl_ms, pace, sampler.living());
        let (cpu_before, start) = (server.cpu_ns()?, Instant::now());
        let result = load.run(&mut driver);
        let (cpu_after, span) = (server.cpu_ns()?, start.elapsed());
        let memory = sampler.finish()?;
        result?;
        let counts = driver.finish(&server.label)?;
        let mut client = server.client()?;
        let requests = counts.hits + counts.misses;
        let operations = (requests + counts.misses).max(1) as f64;
        Ok(Row {
            server: server.label.clone(),
            version: server.version.clone(),
            requests,
            hits: counts.hits,
            hit_ratio: counts.hits as f64 / requests.max(1) as f64,
            seconds: span.as_secs_f64(),
            requests_per_second: requests as f64 / span.as_secs_f64(),
            cpu_us_per_operation: cpu_after.saturating_sub(cpu_before) as f64 / 1e3 / operations,
            expired_keys: client.info_number("stats", "expired_keys")?,
            evicted_keys: client.info_number("stats", "evicted_keys")?,
            gets: counts.gets,
            sets: counts.sets,
            memory,
        })
    }

    fn report(&self, rows: &[Row]) -> Result<()> {
        if self.contest.json {
            return crate::report::json(&rows);
        }
        let pace = match self.rate {
            Some(rate) => format!("open loop at {rate} requests/s"),
            None => "closed loop".into(),
        };
        println!(
            "{}, TTLs {} × {}, {pace}, {} connections, pipeline {}\n",
            self.trace.display(),
            self.ttl_mix,
            self.ttl_scale,
            self.clients,
            self.pipeline
        );
        let table = Table::of(rows)
            .column(Column::text("server"), |row| &row.server)
            .column(Column::text("version"), |row| &row.version)
            .column(Column::count("requests"), |row| row.requests)
            .column(Column::decimals("hit ratio", 4), |row| row.hit_ratio)
            .column(Column::decimals("requests/s", 0), |row| {
                row.requests_per_second
            })
            .column(Column::number("CPU").unit("µs/op"), |row| {
                row.cpu_us_per_operation
            })
            .column(Column::count("expired"), |row| row.expired_keys)
            .column(Column::count("evicted"), |row| row.evicted_keys);
        println!("{}", table.finish().to_text());
        let latencies = rows
            .iter()
            .flat_map(|row| [(row, "GET", &row.gets), (row, "SET", &row.sets)]);
        let table = Table::of(latencies)
            .column(Column::text("server"), |(row, ..)| &row.server)
            .column(Column::text("latency"), |(_, what, _)| what);
        let table = crate::latency::columns(table, |(.., percentiles)| percentiles);
        println!("{}", table.finish().to_text());
        let named = |row: &Row| {
            let all = row.memory.named().into_iter();
            all.map(|(what, series)| (row.server.clone(), what, series))
                .collect::<Vec<_>>()
        };
        let memory: Vec<_> = rows.iter().flat_map(named).collect();
        let table = Table::of(&memory)
            .column(Column::text("server"), |(server, ..)| server)
            .column(Column::text("memory"), |(_, what, _)| *what)
            .column(Column::mebibytes("mean"), |(.., series)| series.mean)
            .column(Column::mebibytes("peak"), |(.., series)| series.peak)
            .column(Column::mebibytes("at the end"), |(.., series)| series.last);
        print!("{}", table.finish().to_text());
        Ok(())
    }
}

/// Opens a trace. `on_read` is called with the number of bytes read from the file.
fn open<'a>(path: &Path, on_read: impl FnMut(u64) + 'a) -> Result<Requests<'a>> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(Error::system(format!("cannot read {name}")))?;
    let requests = trace::read(&name, Watched { file, on_read })?;
    Ok(Box::new(requests))
}

struct Watched<F> {
    file: File,
    on_read: F,
}

impl<F: FnMut(u64)> Read for Watched<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        (self.on_read)(read as u64);
        Ok(read)
    }
}
