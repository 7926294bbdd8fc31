//! `bench segment`: the evaluation of Segcache (section 4.3 of its source) on our traces.
//!
//! A trace is replayed against servers as look-aside caches at several sizes, and the CPU time of a
//! get and a set is measured. Reports show the memory limit of each server and the memory that it
//! used, because the limit of memcached covers its items only, and those of Redis and Mayfly cover
//! all memory that they count.
//!
//! Source: J. Yang, Y. Yue, R. Vinayak, *Segcache*, NSDI 2021; chapter 4 of J. Yang's thesis, CMU
//! 2024.

mod cast;
mod curve;
mod look_aside;
mod misses;
mod page;
mod speed;
mod workload;

use crate::contestant::Hosting;
use crate::error::{Error, Result};
use crate::machine::{self, Machine};
use crate::progress::Progress;
use crate::report::Files;
use cast::{Engine, Player, Programs, cast};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use trace::Lifetimes;
use workload::{Size, Workload};

/// The trace to replay.
#[derive(clap::Args, Debug)]
struct Source {
    /// Trace to replay, in a format of docs/reference/traces.md [default: a generated one]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Format of the trace [default: by the file name's ending]
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    format: Option<trace::Format>,
}

/// Arguments of `bench segment`.
#[derive(clap::Args, Debug)]
pub struct Segment {
    #[command(flatten)]
    hosting: Hosting,
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    source: Source,
    /// Rounds to run
    #[arg(long, value_delimiter = ',', default_value = "misses,speed")]
    round: Vec<Round>,
    /// Engines to compare
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "segment,slab,memcached,no-crawler,redis"
    )]
    engine: Vec<Engine>,
    /// Use the whole trace, and more sizes, TTLs, rounds and data threads: an hour on two cores
    #[arg(long)]
    full: bool,
    /// Maximum number of requests [default: 1m; with --full: no maximum, 5m of a generated trace]
    #[arg(long, value_parser = units::count)]
    limit: Option<u64>,
    /// Memory limits of the servers: shares of all objects' bytes, or sizes such as 64mb, rounded
    /// to whole MiB [default: 25%,50%,100%; with --full: 10%,20%,40%,60%,80%,100%]
    #[arg(long, value_delimiter = ',')]
    size: Vec<Size>,
    /// TTLs of objects: none, own (of the trace), a published mix such as cluster4, or '60s:0.4
    /// 1h:0.6'; @FACTOR multiplies all of them [default: cluster52,cluster26@2; with --full:
    /// cluster52,cluster4@6,cluster26@6]
    #[arg(long, value_delimiter = ',')]
    ttl_mix: Vec<Lifetimes>,
    /// Duration of a replay in which objects expire: the trace's time and all TTLs are divided by
    /// one factor [default: 20s; with --full: 120s]
    #[arg(long, value_parser = units::span)]
    span: Option<Duration>,
    /// Give replays without TTLs the duration of --span, too. An engine that counts at most one
    /// request per object and second then counts more of them
    #[arg(long)]
    paced: bool,
    /// Connections of a replay
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Requests in flight on each connection of a replay
    #[arg(long, default_value_t = 16)]
    pipeline: usize,
    /// Number of keys in the speed round
    #[arg(long, default_value = "1m", value_parser = units::count)]
    keys: u64,
    /// Bytes of a value in the speed round
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Connections in the speed round
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Requests in flight on each connection in the speed round
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    depth: Vec<usize>,
    /// Numbers of data threads [default: 1; with --full: 1 and each power of two up to the cores]
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Repetitions of the speed round; the report gives medians [default: 3; with --full: 7]
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of each measurement in the speed round [default: 0.4; with --full: 1]
    #[arg(long)]
    seconds: Option<f64>,
    /// Random seed of the TTLs of keys, and of a generated trace
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON to stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: Files,
}

/// A group of measurements.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Round {
    /// Miss ratios at equal memory, and memory at equal miss ratios
    Misses,
    /// CPU time per get and set, by pipeline and data threads
    Speed,
}

impl Round {
    /// Returns the name under which a Markdown document marks the round's place.
    fn place(self) -> String {
        format!("segment {self:?}").to_lowercase()
    }
}

/// Facts about the trace.
#[derive(Clone, Debug, Default, Serialize)]
struct Reported {
    name: String,
    requests: u64,
    objects: u64,
    footprint_bytes: u64,
    span_seconds: f64,
    /// Number of requests omitted because their object is larger than a million bytes, which some
    /// servers do not store.
    left_out: u64,
}

impl Reported {
    fn line(&self) -> String {
        let mib = self.footprint_bytes as f64 / f64::from(1 << 20);
        format!(
            "{}: {} requests in {:.0} s for {} objects of {mib:.0} MiB",
            self.name, self.requests, self.span_seconds, self.objects
        )
    }
}

/// Results of all rounds.
#[derive(Debug, Serialize)]
struct Report {
    command: String,
    machine: Machine,
    trace: Option<Reported>,
    /// Bytes of a value and number of keys in the speed round.
    value_size: usize,
    keys: u64,
    replayed: Vec<misses::Replayed>,
    misses: Vec<misses::Row>,
    relative: Vec<misses::Relative>,
    speed: Vec<speed::Row>,
    left_out: Vec<String>,
}

impl Segment {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        self.check()?;
        let (players, left_out) = cast(&self.engine, &self.hosting, &self.programs)?;
        let mut report = Report {
            command: machine::command(),
            machine: Machine::here(),
            trace: None,
            value_size: self.value_size,
            keys: self.keys,
            replayed: Vec::new(),
            misses: Vec::new(),
            relative: Vec::new(),
            speed: Vec::new(),
            left_out,
        };
        if self.has(Round::Misses) {
            self.replay(&players, &mut report)?;
        }
        if self.has(Round::Speed) {
            self.race(&players, &mut report)?;
        }
        self.write_report(&report)
    }

    fn has(&self, round: Round) -> bool {
        self.round.contains(&round)
    }

    fn check(&self) -> Result<()> {
        let spans = self.span().as_secs_f64();
        let is_sound = self.clients > 0
            && self.pipeline > 0
            && self.connections > 0
            && self.rounds() > 0
            && self.depth.iter().all(|depth| (1..=1024).contains(depth))
            && self
                .threads()
                .iter()
                .all(|threads| (1..=64).contains(threads))
            && self.limit.is_none_or(|limit| limit > 0)
            && (0.5..=86_400.0).contains(&spans)
            && (0.001..=600.0).contains(&self.seconds().as_secs_f64());
        if !is_sound {
            let text = "--clients, --pipeline, --connections, --rounds and --limit must be above 0, --depth from 1 to 1024, --threads from 1 to 64, --span from 0.5 s to a day, --seconds from 0.001 to 600";
            return Err(Error::Usage(text.into()));
        }
        speed::check(self)
    }

    /// Runs the round that replays a trace.
    fn replay(&self, players: &[Player], report: &mut Report) -> Result<()> {
        let workload = Workload::read(&self.source, self.limit(), self.seed)?;
        report.trace = Some(Reported {
            name: workload.name.clone(),
            requests: workload.requests.len() as u64,
            objects: workload.objects,
            footprint_bytes: workload.footprint,
            span_seconds: workload.span_ms as f64 / 1e3,
            left_out: workload.left_out,
        });
        let sizes = self
            .sizes()
            .into_iter()
            .map(|size| size.resolve(workload.footprint));
        let mut sizes: Vec<u64> = sizes.collect::<Result<_>>()?;
        sizes.sort_unstable();
        sizes.dedup();
        let lifetimes = self.lifetimes()?;
        self.hosting.pin_load()?;
        let progress = self.begin(players.len() * lifetimes.len() * sizes.len());
        for lifetimes in &lifetimes {
            let (replayed, rows) =
                misses::measure(self, players, &workload, lifetimes, &sizes, &progress)?;
            report.replayed.push(replayed);
            report.misses.extend(rows);
        }
        report.relative = misses::relative(&report.misses);
        progress.finish_and_clear();
        Ok(())
    }

    /// Runs the speed round.
    fn race(&self, players: &[Player], report: &mut Report) -> Result<()> {
        self.hosting.pin_load()?;
        let threads = self.threads();
        let tests = 2 * self.pipelines().len() * self.rounds();
        let progress = self.begin(players.len() * threads.len() * tests);
        for threads in threads {
            report
                .speed
                .extend(speed::measure(self, players, threads, &progress)?);
        }
        progress.finish_and_clear();
        Ok(())
    }

    fn begin(&self, steps: usize) -> Progress {
        crate::progress::steps(steps as u64)
    }

    fn limit(&self) -> usize {
        let default = match (self.full, self.source.trace.is_some()) {
            (true, true) => u64::MAX,
            (true, false) => 5_000_000,
            (false, _) => 1_000_000,
        };
        usize::try_from(self.limit.unwrap_or(default)).unwrap_or(usize::MAX)
    }

    fn sizes(&self) -> Vec<Size> {
        let shares: &[f64] = match self.full {
            true => &[0.1, 0.2, 0.4, 0.6, 0.8, 1.0],
            false => &[0.25, 0.5, 1.0],
        };
        match self.size.is_empty() {
            true => shares.iter().map(|share| Size::Share(*share)).collect(),
            false => self.size.clone(),
        }
    }

    fn lifetimes(&self) -> Result<Vec<Lifetimes>> {
        if !self.ttl_mix.is_empty() {
            return Ok(self.ttl_mix.clone());
        }
        let names: &[&str] = match self.full {
            true => &["cluster52", "cluster4@6", "cluster26@6"],
            false => &["cluster52", "cluster26@2"],
        };
        let parsed = names.iter().map(|name| name.parse());
        parsed
            .map(|one: std::result::Result<_, String>| one.map_err(Error::Usage))
            .collect()
    }

    fn span(&self) -> Duration {
        let default = Duration::from_secs(if self.full { 120 } else { 20 });
        self.span.unwrap_or(default)
    }

    fn pipelines(&self) -> Vec<usize> {
        self.depth.clone()
    }

    fn threads(&self) -> Vec<usize> {
        if !self.threads.is_empty() {
            return self.threads.clone();
        }
        let cores = if self.full { Machine::here().cores } else { 1 };
        let powers = std::iter::successors(Some(1), |threads| Some(threads * 2));
        powers.take_while(|threads| *threads <= cores).collect()
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.full { 7 } else { 3 })
    }

    fn seconds(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.full { 1.0 } else { 0.4 });
        Duration::from_secs_f64(seconds.clamp(0.0, 1e6))
    }

    fn write_report(&self, report: &Report) -> Result<()> {
        self.files
            .write_report(report, page::page(report), self.json)
    }
}
