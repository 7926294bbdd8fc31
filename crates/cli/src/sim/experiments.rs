//! `mayfly sim learned` and `mayfly sim segment-knobs`: experiments that consist of many replays.

use super::replaying::{RATE_DEFAULT, behind_bar};
use crate::memory::memory_share;
use crate::pages::Pages;
use crate::trace::input::stem;
use ::sim::experiments::learned::{KNOBS, Options, Report, Round};
use ::sim::experiments::segment_knobs;
use ::sim::{Columns, Interner, Interning, Size, Unit};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use trace::{Generator, GeneratorOptions, Lifetimes, PatternMix, Request, Sizes};

/// Trace that is generated if none is given.
struct Made {
    mix: &'static str,
    requests: u64,
    requests_per_object: u64,
    sizes: Sizes,
    seconds: f64,
}

/// Seven days with scans, new objects, fading objects and a change of popularity.
const WEEK: Made = Made {
    mix: "days",
    requests: 500_000,
    requests_per_object: 60,
    sizes: Sizes::Lognormal {
        median: 2000.0,
        sigma: 1.2,
    },
    seconds: 7.0 * 86_400.0,
};
/// Ten minutes with a popular part, and objects that are requested only a few times.
const TEN_MINUTES: Made = Made {
    mix: "zipf:0.9@9+scan:20@1",
    requests: 1_000_000,
    requests_per_object: 5,
    sizes: Sizes::Lognormal {
        median: 170.0,
        sigma: 0.8,
    },
    seconds: 600.0,
};
/// Maximum size in bytes of an object that all compared servers can store.
const OBJECT_BYTES_MAX: u32 = 1_000_000;

/// Arguments that both experiments share.
#[derive(Args)]
struct Common {
    /// Format of the traces, if their extensions do not show it
    #[arg(long, value_name = "FORMAT")]
    format: Option<trace::Format>,
    /// Read only this many requests of a trace [default: all; 500k or 1m of a generated trace]
    #[arg(long, value_name = "COUNT", value_parser = units::count)]
    limit: Option<u64>,
    /// Seed of all random decisions, and of a generated trace
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the tables as Markdown to this file: between their marks if the file has them,
    /// otherwise in place of its content
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    pages: Pages,
}

impl Common {
    /// Reads the trace, or generates it if none is given.
    fn read(&self, path: Option<&Path>, made: &Made) -> Result<(String, Vec<Request>)> {
        ensure!(self.limit != Some(0), "--limit must be above 0");
        let limit = |default: u64| usize::try_from(self.limit.unwrap_or(default));
        let (name, requests) = match path {
            Some(path) => {
                let full = path.display().to_string();
                let file = File::open(path).with_context(|| format!("cannot read {full}"))?;
                let options = trace::Options {
                    format: self.format,
                    ..trace::Options::default()
                };
                let requests = trace::open_file(&full, file, &options)?;
                let requests: Result<_, _> = requests.take(limit(u64::MAX)?).collect();
                (stem(&full).to_owned(), requests?)
            }
            None => {
                let count = limit(made.requests)?;
                let objects = (count as u64 / made.requests_per_object).max(1);
                let recipe = GeneratorOptions {
                    mix: PatternMix::parse(made.mix, objects).map_err(anyhow::Error::msg)?,
                    sizes: made.sizes.clone(),
                    rate: count as f64 / made.seconds,
                    seed: self.seed,
                    ..GeneratorOptions::default()
                };
                let requests = Generator::new(recipe).take(count).collect();
                (format!("made {}", made.mix), requests)
            }
        };
        let requests: Vec<Request> = requests;
        ensure!(!requests.is_empty(), "{name}: the trace has no requests");
        Ok((name, requests))
    }

    /// Prints the report, and writes the files.
    fn write_report(&self, report: &impl Serialize, mut page: report::Page) -> Result<()> {
        let machine = bench::Machine::here();
        page.fact("machine", &machine.line());
        let page = crate::pages::completed(page);
        self.pages.write(|| page.clone())?;
        if let Some(path) = &self.markdown {
            let before = match std::fs::read_to_string(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                text => text.with_context(|| format!("cannot read {}", path.display()))?,
            };
            let document = report::fill(&before, &page.to_markdown());
            std::fs::write(path, document)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let text = match self.json {
            true => {
                let command = crate::pages::command();
                let all = Complete {
                    command,
                    machine,
                    report,
                };
                serde_json::to_string_pretty(&all)? + "\n"
            }
            false => page.to_text(),
        };
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }
}

/// Report with the command line and the version that produced it.
#[derive(Serialize)]
struct Complete<'a, R> {
    command: String,
    machine: bench::Machine,
    #[serde(flatten)]
    report: &'a R,
}

/// Parses a unit.
fn read_unit(text: &str) -> Result<Unit, String> {
    let mut units = [Unit::Objects, Unit::Bytes].into_iter();
    let found = units.find(|unit| unit.name() == text);
    found.ok_or_else(|| format!("unit '{text}': expected objects or bytes"))
}

fn interned(
    name: &str,
    how: Interning,
    requests: impl Iterator<Item = Request>,
) -> Result<Columns> {
    Ok(Interner::all(name, how, requests.map(Ok))?)
}

/// Arguments of `mayfly sim learned`.
#[derive(Args)]
pub struct Learned {
    /// Traces [default: a generated week]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Groups of figures: ceiling, baselines, table, warm-up, features, engine, knobs
    #[arg(
        long,
        value_name = "ROUNDS",
        value_delimiter = ',',
        default_value = "ceiling,baselines,table,warm-up,features,engine,knobs"
    )]
    round: Vec<Round>,
    /// Policies compared with FIFO, in the rounds baselines, table and warm-up
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "lru,fifo-merge,s3fifo,sieve,w-tinylfu,lhd,lecar,cacheus,lrb,gl-cache:t,gl-cache:e,gl-cache:e:way=model"
    )]
    policy: Vec<String>,
    /// Engines and policies to compare in the round `engine`; a policy has a server's metadata per
    /// entry
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "segcache:eviction=fifo,segcache:eviction=merge,segcache,segcache:eviction=gl-cache,memcached-lru,w-tinylfu,lhd"
    )]
    engine: Vec<String>,
    /// Cache sizes, such as shares of all objects or of all bytes of the trace
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1%,3%,10%"
    )]
    size: Vec<Size>,
    /// Unit of the caches, objects or bytes [default: both, if a trace has sizes]
    #[arg(long, value_name = "UNITS", value_delimiter = ',', value_parser = read_unit)]
    unit: Vec<Unit>,
    /// Objects per group, in the round knobs
    #[arg(long, value_delimiter = ',', default_value = "1,5,20,60,200,600,1600")]
    group: Vec<String>,
    /// Shares of the groups to evict before groups are ranked again
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.005,0.01,0.02,0.05,0.1,0.2,0.5"
    )]
    fraction: Vec<String>,
    /// Number of groups that are merged into one
    #[arg(long, value_delimiter = ',', default_value = "2,3,5,10,20")]
    merged: Vec<String>,
    /// Time between trainings: auto, daily, or requests per cached entry
    #[arg(long, value_delimiter = ',', default_value = "auto,daily,2,4,8,16,32")]
    interval: Vec<String>,
    /// Groups in the training data
    #[arg(long, value_delimiter = ',', default_value = "512,2048,8192,32768")]
    samples: Vec<String>,
    /// Number of trees of a model
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    trees: Vec<String>,
    /// Depth of a model's trees
    #[arg(long, value_delimiter = ',', default_value = "1,3,6,9")]
    depth: Vec<String>,
    /// Repetitions of each measurement of CPU time; the median counts
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    repeats: usize,
    /// Number of replays at a time; parallel replays disturb each other's CPU times
    #[arg(long, short, value_name = "COUNT", default_value = "1")]
    jobs: NonZeroUsize,
    #[command(flatten)]
    common: Common,
}

impl Learned {
    /// Runs the experiment and prints its report.
    pub fn run(&self) -> Result<()> {
        let knob = |name: &str| match name {
            "group" => self.group.clone(),
            "fraction" => self.fraction.clone(),
            "merged" => self.merged.clone(),
            "interval" => self.interval.clone(),
            "samples" => self.samples.clone(),
            "trees" => self.trees.clone(),
            _ => self.depth.clone(),
        };
        let options = Options {
            rounds: self.round.clone(),
            policies: self.policy.clone(),
            engines: self.engine.clone(),
            sizes: self.size.clone(),
            units: self.unit.clone(),
            knobs: KNOBS.map(|(name, _)| knob(name)),
            repeats: self.repeats,
            seed: self.common.seed,
        };
        options.check().map_err(anyhow::Error::msg)?;
        self.common.pages.prepare()?;
        let paths = self.traces.iter().map(|path| Some(path.as_path()));
        let paths: Vec<_> = match self.traces.is_empty() {
            true => vec![None],
            false => paths.collect(),
        };
        let mut report = Report::default();
        for path in paths {
            let (name, requests) = self.common.read(path, &WEEK)?;
            let how = Interning {
                ignores_ttls: true,
                memory_limit: memory_share(),
                ..Interning::default()
            };
            let columns = interned(&name, how, requests.into_iter())?;
            let plan = options.plan(&columns)?;
            behind_bar(Some(self.jobs), &name, plan.requests(), |jobs, done| {
                plan.run(jobs, done, &mut report)
            })?;
        }
        self.common.write_report(&report, report.page())
    }
}

/// Arguments of `mayfly sim segment-knobs`.
#[derive(Args)]
pub struct SegmentKnobs {
    /// The trace [default: ten generated minutes]
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Cache sizes: bytes such as 64mb, or shares of all bytes of the trace
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "25%,50%,100%"
    )]
    size: Vec<Size>,
    /// TTLs of objects: none, own (of the trace), a published mix such as cluster4, or '60s:0.4
    /// 1h:0.6'; @FACTOR multiplies all of them
    #[arg(
        long,
        value_name = "MIXES",
        value_delimiter = ',',
        default_value = "cluster52,cluster26@2"
    )]
    ttl_mix: Vec<Lifetimes>,
    /// Numbers of segments that are merged into one
    #[arg(long, value_delimiter = ',', default_value = "2,3,4,6,8,12")]
    merged: Vec<u32>,
    /// Sizes of segments
    #[arg(long, value_delimiter = ',', default_value = "64kb,128kb,256kb,512kb,1mb,2mb", value_parser = units::bytes)]
    segment_size: Vec<u64>,
    /// Number of replays at a time [default: one for each processor]
    #[arg(long, short, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    common: Common,
}

impl SegmentKnobs {
    /// Runs the experiment and prints its report.
    pub fn run(&self) -> Result<()> {
        self.common.pages.prepare()?;
        let (name, mut requests) = self.common.read(self.trace.as_deref(), &TEN_MINUTES)?;
        requests.retain(|request| request.size <= OBJECT_BYTES_MAX);
        let seed = self.common.seed;
        let mut rows = Vec::new();
        for lifetimes in &self.ttl_mix {
            let with_ttl = requests.iter().map(|request| Request {
                ttl_ms: lifetimes
                    .ttl_ms(request.key, request.ttl_ms, seed)
                    .unwrap_or(0),
                ..*request
            });
            let how = Interning {
                memory_limit: memory_share(),
                ..Interning::default()
            };
            let columns = interned(&name, how, with_ttl)?;
            let resolve = |size: &Size| size.resolve(columns.footprint_bytes(), &name, Unit::Bytes);
            let mut sizes: Vec<u64> = self.size.iter().map(resolve).collect::<Result<_, _>>()?;
            sizes.sort_unstable();
            sizes.dedup();
            let options = segment_knobs::Options {
                sizes,
                merged: self.merged.clone(),
                segment_sizes: self.segment_size.clone(),
                gap_ms: (!columns.has_time()).then_some(1000.0 / RATE_DEFAULT),
                seed,
            };
            let requests = options.requests(&columns);
            rows.extend(behind_bar(self.jobs, &name, requests, |jobs, done| {
                options.run(&columns, &lifetimes.to_string(), jobs, done)
            })?);
        }
        self.common
            .write_report(&json!({ "rows": rows }), segment_knobs::page(&rows))
    }
}
