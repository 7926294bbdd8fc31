//! `mayfly sim`: replays traces through caches of given policies and sizes.

mod advise;
mod curve;
mod experiments;
mod flash;
mod headlines;
pub mod replaying;

use crate::pages::Pages;
use crate::trace::input::stem;
use ::sim::report::{self, Row};
use ::sim::segments::{self, SegmentsSpec};
use ::sim::{
    Columns, Configuration, Contestant, Interning, ReplayResult, Rules, Size, Spec, Unit,
    replay_count, scaled, sweep,
};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use policy::admit::any::AdmitSpec;
use replaying::{Replaying, read_share, read_share_above_0, style};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use trace::Sample;

/// Arguments of `mayfly sim`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Traces to replay; the extension, before .zst, .gz or .xz, selects the format; - reads
    /// standard input
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Format of the traces [default: by file extension]
    #[arg(long, value_name = "FORMAT")]
    format: Option<trace::Format>,
    /// Column names, separated by commas, of a CSV file without a header
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// Skip malformed lines and records, and report how many were skipped
    #[arg(long)]
    skip_bad: bool,
    /// Policies to replay, with parameters after colons: lru,clock:2,s3fifo:small=0.05. gl-cache is
    /// a policy that learns; segcache is the segment engine, whose size is in bytes
    #[arg(
        long,
        short,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "fifo,lru,clock,sieve,s3fifo",
        default_value_if("headlines", "true", "claims")
    )]
    policy: Vec<String>,
    /// Cache sizes: bytes (objects with --ignore-size), 64mb, or a share of the footprint such as
    /// 10%
    #[arg(
        long,
        short,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "0.1%,1%,10%"
    )]
    size: Vec<Size>,
    /// Size of an entry after a later request reports a different object size
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    size_changes: SizeChanges,
    /// Largest share of the cache that one object may take; a larger object is not inserted
    /// [default: the whole cache]
    #[arg(long, value_name = "SHARE", value_parser = read_share)]
    max_object_share: Option<f64>,
    /// Admission filter that a missed object must pass to be inserted: size:4096, probability:0.1,
    /// bloom, tinylfu, adaptsize
    #[arg(long, value_name = "FILTER")]
    admission: Option<AdmitSpec>,
    /// Share of the objects to replay (SHARDS sampling): faster, with less memory; cache sizes are
    /// scaled
    #[arg(long, value_name = "SHARE", value_parser = read_share_above_0)]
    sample: Option<f64>,
    /// Share of the requests, at the start of the trace, that is replayed but not counted
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = read_share)]
    warmup_share: f64,
    /// Report what explains each miss ratio: demotion, hits before eviction, space spent on
    /// unpopular objects, changes over time
    #[arg(long)]
    explain: bool,
    /// Oracle that removes entries that will not be hit, which bounds what a policy could save with
    /// such knowledge
    #[arg(long, value_name = "WHICH", conflicts_with = "headlines")]
    foresight: Option<Foresight>,
    /// Check the claims of papers: miss reductions against FIFO, the best policy of each trace and
    /// a verdict per claim, as Markdown; also by bytes if the trace has sizes
    #[arg(long, conflicts_with_all = ["csv", "explain", "parquet"])]
    headlines: bool,
    /// Simulate a DRAM cache in front of a flash cache, with these shares of the size as DRAM, and
    /// count the bytes written to flash under four admission policies: all objects, one in five,
    /// those that a model predicts to be reused, and those that a small FIFO queue lets pass
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        value_parser = read_share,
        conflicts_with_all = ["headlines", "explain", "admission", "foresight", "warmup_share", "reads_only",
            "max_object_share", "size_changes"]
    )]
    flash_dram_shares: Vec<f64>,
    #[command(flatten)]
    replaying: Replaying,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write a Parquet file (in builds with the feature parquet)
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    pages: Pages,
}

#[derive(Subcommand)]
enum Command {
    /// Print miss ratios over cache sizes, exact or estimated from a sample with error bounds.
    Curve(curve::Arguments),
    /// Recommend a policy and a cache size, and report what TTLs cost.
    Advise(advise::Arguments),
    /// Compare eviction that learns with other policies: hit ratios, throughput, parameters
    Learned(Box<experiments::Learned>),
    /// Compare the parts and parameters of the segment engine
    SegmentKnobs(experiments::SegmentKnobs),
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Foresight {
    /// Entries whose object is not requested again
    Unrequested,
    /// Entries whose object is not requested again, or not before their deadline
    Expiring,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SizeChanges {
    /// Keep the size at insertion
    Keep,
    /// Take the size of the latest request
    Follow,
}

/// Replays the traces and prints the results. If a trace fails, the results of the earlier traces
/// are still printed.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Some(Command::Curve(curve)) => return curve.run(),
        Some(Command::Advise(advise)) => return advise.run(),
        Some(Command::Learned(learned)) => return learned.run(),
        Some(Command::SegmentKnobs(knobs)) => return knobs.run(),
        None if arguments.headlines => return headlines::run(arguments),
        None => {}
    }
    let contestants = arguments.contestants()?;
    // The file is opened before the replays, so that a path that cannot be written fails at once
    // and not after hours.
    let table = arguments.parquet.as_deref().map(open_table).transpose()?;
    let mut rows = Vec::new();
    arguments.pages.prepare()?;
    let mut replay = |trace: &PathBuf| -> Result<()> {
        let columns = arguments.read(trace)?;
        rows.extend(match arguments.flash_dram_shares.as_slice() {
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
        (true, _) => report::table(&rows).to_csv(),
        (_, true) => serde_json::to_string_pretty(&report::table(&rows))? + "\n",
        _ => report::table(&rows).without_idle_columns().to_text(),
    };
    io::stdout().write_all(text.as_bytes())?;
    result
}

/// Opens the Parquet file without truncating it. An existing file keeps its contents until there
/// are results.
fn open_table(path: &Path) -> Result<(&Path, File)> {
    anyhow::ensure!(
        cfg!(feature = "parquet"),
        "--parquet: this program was built without Parquet; build it with `--features parquet`"
    );
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok((path, file))
}

fn write_table(rows: &[Row], file: File) -> Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    to_parquet(&report::table(rows), file)
}

#[cfg(feature = "parquet")]
fn to_parquet(table: &::report::Table, file: File) -> Result<()> {
    Ok(report::parquet(table, file)?)
}

#[cfg(not(feature = "parquet"))]
fn to_parquet(_table: &::report::Table, _file: File) -> Result<()> {
    unreachable!("open_table refuses the option")
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
        let memory_limit = Some(how.memory_limit);
        let bar = ProgressBar::no_length().with_style(style("{spinner} {msg} [{elapsed}]"));
        let options = trace::Options {
            format: self.format,
            columns: self.columns.clone(),
            skip_bad: self.skip_bad,
            memory_limit,
            ..trace::Options::default()
        };
        let mut reader = match &*name {
            "-" => trace::open(&name, io::stdin().lock(), &options)?,
            _ => {
                let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
                trace::open_file(&name, file, &options)?
            }
        };
        let columns = ::sim::read(&self.name_of(&name), how, &mut reader, |count| {
            bar.set_message(format!("{name}: {count} requests read"));
            bar.tick();
        })?;
        bar.finish_and_clear();
        if let Some(first) = reader.first_skipped() {
            let count = reader.skipped();
            eprintln!("mayfly: {name}: skipped {count} malformed records; the first: {first}");
        }
        Ok(columns)
    }

    /// Returns the name of the trace in reports: the file name without endings, or the path if
    /// another trace has the same file name.
    fn name_of(&self, path: &str) -> String {
        let name = stem(path);
        let others = self.traces.iter();
        let is_shared = others
            .filter(|other| stem(&other.to_string_lossy()) == name)
            .count()
            > 1;
        if is_shared { path } else { name }.to_owned()
    }

    /// Replays every policy and engine at every size, in the order given.
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

    /// Replays the segment engine, with each specification, at every size.
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

    /// Replays the policies at every size. Each policy comes with its name in the rows, each size
    /// as given and in units.
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
            warm_up: (columns.len() as f64 * self.warmup_share) as usize,
            admission: self.admission.clone(),
            follows_sizes: self.size_changes == SizeChanges::Follow,
            largest_share: self.max_object_share.unwrap_or(1.0),
            explains: self.explain,
            foresight: self.foresight.map(|foresight| match foresight {
                Foresight::Unrequested => ::sim::Foresight::Unrequested,
                Foresight::Expiring => ::sim::Foresight::Expiring,
            }),
            ..self.replaying.rules(columns)?
        })
    }
}

/// Creates rows from results ordered by name and then by size.
fn rows_of(
    columns: &Columns,
    names: &[&str],
    unit: Unit,
    sizes: &[(String, u64)],
    found: Vec<ReplayResult>,
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

/// Converts a cache size to the unit of this trace's cache.
fn resolve(size: &Size, columns: &Columns, unit: Unit) -> Result<u64> {
    Ok(size.resolve(columns.footprint(unit), columns.name(), unit)?)
}
