//! `mayfly sim`: traces against policies and sizes.

use crate::trace::arguments::ttl_mix;
use ::sim::report::{self, Row};
use ::sim::{
    Columns, Configuration, Interner, Interning, Rules, Size, Unit, replay_count, scaled, sweep,
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use policy::admit::any::AdmitSpec;
use policy::any::PolicySpec;
use policy::expire::any::ExpirySpec;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use trace::{Sample, TtlMix};

/// How often the progress bar is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
/// Requests between two looks at the bar while a trace is read.
const READ_STRIDE: u64 = 1 << 16;
/// The share of the memory available that is used when no limit is given, in percent.
const MEMORY_PERCENT: u64 = 80;
/// The limit where the system does not tell what is available.
const MEMORY_UNKNOWN: u64 = 4 << 30;

/// Traces, policies, sizes, and how to run and to tell.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Traces; the format is told by the ending, also behind .zst, .gz and .xz
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    /// The format, where the name does not tell it
    #[arg(long, value_name = "FORMAT")]
    format: Option<trace::Format>,
    /// The columns' names, apart by commas, of a csv without a header
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// Pass over malformed lines and records, and tell how many there were
    #[arg(long)]
    skip_bad: bool,
    /// Policies, knobs behind colons: lru,clock:2,s3fifo:small=0.05
    #[arg(
        long,
        short,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "fifo,lru,clock,sieve,s3fifo"
    )]
    policy: Vec<String>,
    /// Cache sizes: bytes (or objects with --ignore-size), 64mb, or a share of the footprint, 10%
    #[arg(
        long,
        short,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "0.1%,1%,10%"
    )]
    size: Vec<Size>,
    /// Count objects instead of bytes (so it is for traces without sizes)
    #[arg(long)]
    ignore_size: bool,
    /// What an entry does when a later request tells another size: keep its own, or follow
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    size_changes: SizeChanges,
    /// A filter that a miss must pass to be kept: size:4096, probability:0.1, bloom, tinylfu, adaptsize
    #[arg(long, value_name = "FILTER")]
    admission: Option<AdmitSpec>,
    /// The index that finds what has expired
    #[arg(long, value_name = "INDEX", default_value = "wheel")]
    expiry: ExpirySpec,
    /// Lifetimes by key instead of the trace's: a published mix (cluster4), or '60s:0.4 1h:0.6'
    #[arg(long, value_name = "MIX", value_parser = ttl_mix)]
    ttl_mix: Option<TtlMix>,
    /// Let nothing expire, whatever the trace says
    #[arg(long, conflicts_with = "ttl_mix")]
    ignore_ttl: bool,
    /// Look at this share of the objects only (SHARDS): faster, less memory, sizes are scaled
    #[arg(long, value_name = "SHARE", value_parser = read_share)]
    sample: Option<f64>,
    /// Requests a second, instead of the times of the trace [default, where it has none: 1000]
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// The share of requests at the start that count for nothing
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = read_share)]
    warm_up: f64,
    /// Count reads only; writes insert all the same
    #[arg(long)]
    reads_only: bool,
    /// Tell what explains each ratio: demotion, hits at eviction, space spent on unpopular objects, time
    #[arg(long)]
    explain: bool,
    /// Determines every decision by chance
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Replays at a time [default: one for each processor]
    #[arg(long, short, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
    /// Memory that traces and replays may use, such as 8gb [default: 80 % of what is available]
    #[arg(long, value_name = "BYTES", value_parser = read_bytes)]
    memory_limit: Option<u64>,
    /// Print comma-separated text
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a Parquet file, too
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SizeChanges {
    /// The size that it came with
    Keep,
    /// The size of the latest request
    Follow,
}

fn read_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent: f64 = number.parse().map_err(|_| "expected a share such as 20%")?;
    if (0.0..100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("expected a share from 0% to below 100%".into())
    }
}

fn read_bytes(text: &str) -> Result<u64, String> {
    let bytes = server::config::value::bytes(text).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "expected bytes such as 8gb".into())
}

/// Simulates and prints.
pub fn run(arguments: &Arguments) -> Result<()> {
    let policies = arguments.policies()?;
    let mut rows = Vec::new();
    for trace in &arguments.traces {
        let columns = arguments.read(trace)?;
        rows.extend(arguments.replay(&columns, &policies)?);
    }
    if let Some(path) = &arguments.parquet {
        let told = || format!("cannot write {}", path.display());
        let file = File::create(path).with_context(told)?;
        report::parquet(&rows, file).with_context(told)?;
    }
    let text = match (arguments.csv, arguments.json) {
        (true, _) => report::csv(&rows),
        (_, true) => report::json(&rows),
        _ => report::table(&rows),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

impl Arguments {
    fn policies(&self) -> Result<Vec<PolicySpec>> {
        let read = |text: &String| text.parse().with_context(|| format!("--policy {text}"));
        self.policy.iter().map(read).collect()
    }

    fn memory_limit(&self) -> u64 {
        self.memory_limit.unwrap_or_else(|| {
            let available = available_memory().unwrap_or(MEMORY_UNKNOWN);
            available / 100 * MEMORY_PERCENT
        })
    }

    fn read(&self, path: &str) -> Result<Columns> {
        let file = File::open(path).with_context(|| format!("cannot open {path}"))?;
        let how = Interning {
            ttl_mix: self.ttl_mix.clone().map(|mix| (mix, self.seed)),
            ignores_ttls: self.ignore_ttl,
            sample: self.sample.map(|share| Sample::of_share(share, self.seed)),
            memory_limit: self.memory_limit(),
        };
        let mut interner = Interner::new(&self.name_of(path), how);
        let bar = ProgressBar::no_length().with_style(style("{spinner} {msg} [{elapsed}]"));
        let mut count = 0u64;
        let options = trace::Options {
            format: self.format,
            columns: self.columns.clone(),
            skip_bad: self.skip_bad,
            ..trace::Options::default()
        };
        let mut reader = trace::open_file(path, file, &options)?;
        for request in &mut reader {
            interner.push(&request?)?;
            count += 1;
            if count.is_multiple_of(READ_STRIDE) {
                bar.set_message(format!("{path}: {count} requests read"));
                bar.tick();
            }
        }
        bar.finish_and_clear();
        if let Some(first) = reader.first_skipped() {
            let count = reader.skipped();
            eprintln!("mayfly: {path}: passed over {count} malformed; the first: {first}");
        }
        Ok(interner.finish()?)
    }

    /// What the trace is called in the report: its file's name without endings, where that tells it
    /// from the others.
    fn name_of(&self, path: &str) -> String {
        let name = stem(path);
        let is_shared = self
            .traces
            .iter()
            .filter(|other| stem(other) == name)
            .count()
            > 1;
        if is_shared { path } else { name }.to_owned()
    }

    fn replay(&self, columns: &Columns, policies: &[PolicySpec]) -> Result<Vec<Row>> {
        let unit = if self.ignore_size || !columns.has_sizes() {
            Unit::Objects
        } else {
            Unit::Bytes
        };
        let sizes: Result<Vec<u64>, _> = self
            .size
            .iter()
            .map(|size| size.resolve(columns, unit))
            .collect();
        let sizes = sizes?;
        let mut configurations = Vec::new();
        for policy in policies {
            configurations.extend(sizes.iter().map(|&size| Configuration {
                policy: policy.clone(),
                capacity: scaled(size, columns),
            }));
        }
        let rules = self.rules(columns, unit)?;
        let found = self.sweep(columns, &rules, &configurations)?;
        let texts = self.policy.iter();
        let given = texts.flat_map(|text| sizes.iter().map(move |&size| (text, size)));
        let row = |((text, cache_size), found): ((&String, u64), _)| Row {
            trace: columns.name().into(),
            policy: text.clone(),
            unit,
            cache_size,
            found,
        };
        Ok(given.zip(found).map(row).collect())
    }

    fn rules(&self, columns: &Columns, unit: Unit) -> Result<Rules> {
        if let Some(rate) = self.rate {
            ensure!(
                rate > 0.0 && rate.is_finite(),
                "--rate {rate}: expected more than 0 requests a second"
            );
        }
        let rate = match self.rate {
            None if !columns.has_time() => Some(1000.0),
            rate => rate,
        };
        Ok(Rules {
            unit,
            warm_up: (columns.len() as f64 * self.warm_up) as usize,
            expiry: self.expiry.clone(),
            admission: self.admission.clone(),
            counts_writes: !self.reads_only,
            follows_sizes: self.size_changes == SizeChanges::Follow,
            gap_ms: rate.map(|rate| 1000.0 / rate),
            explains: self.explain,
            seed: self.seed,
            memory_limit: self.memory_limit().max(columns.heap_bytes()),
        })
    }

    /// Runs the replays behind a progress bar.
    fn sweep(
        &self,
        columns: &Columns,
        rules: &Rules,
        configurations: &[Configuration],
    ) -> Result<Vec<::sim::Found>> {
        let jobs = self.jobs.map(NonZeroUsize::get);
        let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let total = columns.len() as u64 * replay_count(rules, configurations) as u64;
        let bar = ProgressBar::new(total)
            .with_style(style("{msg} {bar:30} {percent} % [{elapsed} < {eta}]"));
        bar.set_message(columns.name().to_owned());
        let done = AtomicU64::new(0);
        let found = thread::scope(|scope| {
            let drawer = scope.spawn(|| {
                while !bar.is_finished() {
                    bar.set_position(done.load(Ordering::Relaxed));
                    thread::park_timeout(DRAWN_EVERY);
                }
            });
            let found = sweep(columns, rules, configurations, jobs, &done);
            bar.finish_and_clear();
            drawer.thread().unpark();
            found
        });
        Ok(found?)
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well-formed")
}

/// A file's name without the endings that tell its format.
fn stem(path: &str) -> &str {
    let (_, name) = trace::Compression::of_name(path.rsplit('/').next().unwrap_or(path));
    let name = name.strip_suffix(".bin").unwrap_or(name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// What the system says could be had without swapping, in bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
