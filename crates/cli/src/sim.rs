//! `mayfly sim`: traces against policies and sizes.

mod advise;
mod curve;
mod flash;
mod headlines;
pub mod replaying;

use crate::pages::Pages;
use ::sim::report::{self, Row};
use ::sim::segments::{self, SegmentsSpec};
use ::sim::{
    Columns, Configuration, Contestant, Found, Interner, Interning, Rules, Size, Spec, Unit,
    replay_count, scaled, sweep,
};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use policy::admit::any::AdmitSpec;
use replaying::{Replaying, read_share, read_share_above_0, stem, style};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use trace::Sample;

/// Requests between two looks at the bar while a trace is read.
const READ_STRIDE: u64 = 1 << 16;

/// Traces, policies, sizes, and how to run and to tell.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Traces; the format is told by the ending, also behind .zst, .gz and .xz; - for standard input
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// The format, where the name does not tell it
    #[arg(long, value_name = "FORMAT")]
    format: Option<trace::Format>,
    /// The columns' names, apart by commas, of a csv without a header
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// Pass over malformed lines and records, and tell how many there were
    #[arg(long)]
    skip_bad: bool,
    /// Policies, knobs behind colons: lru,clock:2,s3fifo:small=0.05; gl-cache learns; segcache for the
    /// segment engine, by bytes
    #[arg(
        long,
        short,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "fifo,lru,clock,sieve,s3fifo",
        default_value_if("headlines", "true", "claims")
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
    /// What an entry does when a later request tells another size: keep its own, or follow
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    size_changes: SizeChanges,
    /// The share of the cache that an object may take; a larger one is not inserted [default: all of it]
    #[arg(long, value_name = "SHARE", value_parser = read_share)]
    largest: Option<f64>,
    /// A filter that a miss must pass to be kept: size:4096, probability:0.1, bloom, tinylfu, adaptsize
    #[arg(long, value_name = "FILTER")]
    admission: Option<AdmitSpec>,
    /// Look at this share of the objects only (SHARDS): faster, less memory, sizes are scaled
    #[arg(long, value_name = "SHARE", value_parser = read_share_above_0)]
    sample: Option<f64>,
    /// The share of requests at the start that count for nothing
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = read_share)]
    warm_up: f64,
    /// Tell what explains each ratio: demotion, hits at eviction, space spent on unpopular objects, time
    #[arg(long)]
    explain: bool,
    /// Check the papers' claims: reductions against FIFO, the best by trace, verdicts, in Markdown; by
    /// bytes too, where the trace has sizes
    #[arg(long, conflicts_with_all = ["csv", "explain", "parquet"])]
    headlines: bool,
    /// Put a cache in DRAM of these shares of the size before one on flash, and count what is written
    /// there: everything, one in five, what a model expects, what a small FIFO lets pass
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        value_parser = read_share,
        conflicts_with_all = ["headlines", "explain", "admission", "warm_up", "reads_only", "largest",
            "size_changes"]
    )]
    flash: Vec<f64>,
    #[command(flatten)]
    replaying: Replaying,
    /// Print comma-separated text
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a Parquet file, too
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    pages: Pages,
}

#[derive(Subcommand)]
enum Command {
    /// Tell the miss ratios of policies over sizes, exactly or from a sample with bounds.
    Curve(curve::Arguments),
    /// Tell which policy and how much memory to take, and what lifetimes do, in sentences.
    Advise(advise::Arguments),
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SizeChanges {
    /// The size that it came with
    Keep,
    /// The size of the latest request
    Follow,
}

/// Simulates and prints. What was found of the traces before one that fails is told, too.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Some(Command::Curve(curve)) => return curve.run(),
        Some(Command::Advise(advise)) => return advise.run(),
        None if arguments.headlines => return headlines::run(arguments),
        None => {}
    }
    let contestants = arguments.contestants()?;
    // A path that cannot be written is told before hours of replays, not after them.
    let table = arguments.parquet.as_deref().map(open_table).transpose()?;
    let mut rows = Vec::new();
    arguments.pages.prepare()?;
    let mut replay = |trace: &PathBuf| -> Result<()> {
        let columns = arguments.read(trace)?;
        rows.extend(match arguments.flash.as_slice() {
            [] => arguments.replay(&columns, &contestants)?,
            _ => flash::replay(arguments, &columns)?,
        });
        Ok(())
    };
    let result = arguments.traces.iter().try_for_each(&mut replay);
    if rows.is_empty() {
        return result;
    }
    if let Some((path, file)) = table {
        write_table(&rows, file).with_context(|| format!("cannot write {}", path.display()))?;
    }
    arguments.pages.write(|| report::page(&rows))?;
    let text = match (arguments.csv, arguments.json) {
        (true, _) => report::csv(&rows),
        (_, true) => report::json(&rows),
        _ => report::table(&rows),
    };
    io::stdout().write_all(text.as_bytes())?;
    result
}

/// What an older file holds stays until there is something to write.
fn open_table(path: &Path) -> Result<(&Path, File)> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok((path, file))
}

fn write_table(rows: &[Row], file: File) -> Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(report::parquet(rows, file)?)
}

impl Arguments {
    fn contestants(&self) -> Result<Vec<Contestant>> {
        let read = |text: &String| text.parse().with_context(|| format!("--policy {text}"));
        self.policy.iter().map(read).collect()
    }

    fn read(&self, path: &Path) -> Result<Columns> {
        let name = path.to_string_lossy();
        let seed = self.replaying.seed;
        let how = Interning {
            sample: self.sample.map(|share| Sample::of_share(share, seed)),
            ..self.replaying.interning()
        };
        let mut interner = Interner::new(&self.name_of(&name), how);
        let bar = ProgressBar::no_length().with_style(style("{spinner} {msg} [{elapsed}]"));
        let mut count = 0u64;
        let options = trace::Options {
            format: self.format,
            columns: self.columns.clone(),
            skip_bad: self.skip_bad,
            ..trace::Options::default()
        };
        let mut reader = match &*name {
            "-" => trace::open(&name, io::stdin().lock(), &options)?,
            _ => {
                let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
                trace::open_file(&name, file, &options)?
            }
        };
        for request in &mut reader {
            interner.push(&request?)?;
            count += 1;
            if count.is_multiple_of(READ_STRIDE) {
                bar.set_message(format!("{name}: {count} requests read"));
                bar.tick();
            }
        }
        bar.finish_and_clear();
        if let Some(first) = reader.first_skipped() {
            let count = reader.skipped();
            eprintln!("mayfly: {name}: passed over {count} malformed; the first: {first}");
        }
        Ok(interner.finish()?)
    }

    /// What the trace is called in the report: its file's name without endings, where that tells it
    /// from the others.
    fn name_of(&self, path: &str) -> String {
        let name = stem(path);
        let others = self.traces.iter();
        let is_shared = others
            .filter(|other| stem(&other.to_string_lossy()) == name)
            .count()
            > 1;
        if is_shared { path } else { name }.to_owned()
    }

    /// Everybody at every size, in the order given.
    fn replay(&self, columns: &Columns, contestants: &[Contestant]) -> Result<Vec<Row>> {
        let unit = self.replaying.unit(columns);
        let resolved = |size: &Size| Ok((size.to_string(), resolve(size, columns, unit)?));
        let sizes: Vec<_> = self.size.iter().map(resolved).collect::<Result<_>>()?;
        let names = || self.policy.iter().map(String::as_str);
        let policies = names()
            .zip(contestants)
            .filter_map(|(name, one)| match one {
                Contestant::Policy(policy) => Some((name, policy)),
                Contestant::Segments(_) => None,
            });
        let policies: Vec<_> = policies.collect();
        let engines = names()
            .zip(contestants)
            .filter_map(|(name, one)| match one {
                Contestant::Segments(spec) => Some((name, *spec)),
                Contestant::Policy(_) => None,
            });
        let engines: Vec<_> = engines.collect();
        let mut of_policies = match policies.is_empty() {
            true => Vec::new(),
            false => self.replay_sizes(columns, &policies, unit, &sizes)?,
        }
        .into_iter();
        let mut of_engines = match engines.is_empty() {
            true => Vec::new(),
            false => self.replay_engines(columns, &engines, unit, &sizes)?,
        }
        .into_iter();
        let mut rows = Vec::new();
        for contestant in contestants {
            match contestant {
                Contestant::Policy(_) => rows.extend(of_policies.by_ref().take(sizes.len())),
                Contestant::Segments(_) => rows.extend(of_engines.by_ref().take(sizes.len())),
            }
        }
        Ok(rows)
    }

    /// The segment engine, with its knobs, at every size.
    fn replay_engines(
        &self,
        columns: &Columns,
        engines: &[(&str, SegmentsSpec)],
        unit: Unit,
        sizes: &[(String, u64)],
    ) -> Result<Vec<Row>> {
        let mut configurations = Vec::new();
        for (_, spec) in engines {
            let scaled = sizes
                .iter()
                .map(|(_, size)| (*spec, scaled(*size, columns)));
            configurations.extend(scaled);
        }
        let rules = Rules {
            unit,
            ..self.rules(columns)?
        };
        let requests = (columns.len() * configurations.len()) as u64;
        let found = self.replaying.run(columns.name(), requests, |jobs, done| {
            segments::sweep(columns, &rules, &configurations, jobs, done)
        })?;
        let names: Vec<&str> = engines.iter().map(|(name, _)| *name).collect();
        Ok(rows_of(columns, &names, unit, sizes, found))
    }

    /// Policies, each with the name that its rows bear, at every size, each as given and in units.
    fn replay_sizes(
        &self,
        columns: &Columns,
        policies: &[(&str, &Spec)],
        unit: Unit,
        sizes: &[(String, u64)],
    ) -> Result<Vec<Row>> {
        let mut configurations = Vec::new();
        for (_, policy) in policies {
            configurations.extend(sizes.iter().map(|(_, size)| Configuration {
                policy: (*policy).clone(),
                capacity: scaled(*size, columns),
            }));
        }
        let rules = Rules {
            unit,
            ..self.rules(columns)?
        };
        let requests = columns.len() as u64 * replay_count(&rules, &configurations) as u64;
        let found = self.replaying.run(columns.name(), requests, |jobs, done| {
            sweep(columns, &rules, &configurations, jobs, done)
        })?;
        let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
        Ok(rows_of(columns, &names, unit, sizes, found))
    }

    fn rules(&self, columns: &Columns) -> Result<Rules> {
        Ok(Rules {
            warm_up: (columns.len() as f64 * self.warm_up) as usize,
            admission: self.admission.clone(),
            follows_sizes: self.size_changes == SizeChanges::Follow,
            largest_share: self.largest.unwrap_or(1.0),
            explains: self.explain,
            ..self.replaying.rules(columns)?
        })
    }
}

/// What was found, by name and then by size, as rows.
fn rows_of(
    columns: &Columns,
    names: &[&str],
    unit: Unit,
    sizes: &[(String, u64)],
    found: Vec<Found>,
) -> Vec<Row> {
    let given = names
        .iter()
        .flat_map(|name| sizes.iter().map(move |size| (name, size)));
    let row = |((name, (size, cache_size)), found): ((&&str, &(String, u64)), _)| Row {
        trace: columns.name().into(),
        policy: (*name).into(),
        unit,
        cache_size: *cache_size,
        size: size.clone(),
        found,
    };
    given.zip(found).map(row).collect()
}

/// The size in units of this trace's cache.
fn resolve(size: &Size, columns: &Columns, unit: Unit) -> Result<u64> {
    Ok(size.resolve(columns.footprint(unit), columns.name(), unit)?)
}
