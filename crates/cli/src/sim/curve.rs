//! `mayfly sim curve`: miss ratios over cache sizes.

use super::replaying::{Replaying, read_share_above_0};
use crate::pages::Pages;
use crate::trace::input::{Input, stem};
use ::sim::curve::{
    Curve, Named, Point, Sample, Sampler, Sampling, exact, page, spread, table, text,
};
use ::sim::{Columns, Contestant, Rules, Size, Unit};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::sync::atomic::AtomicU64;

/// Smallest size of a curve, as a share of the footprint.
const SMALLEST_SHARE: f64 = 0.001;
/// Maximum number of points. A larger number is refused, because it is probably a mistake.
const POINTS_MAX: u64 = 10_000;

/// Arguments of `mayfly sim curve`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Policies to replay, with parameters after colons: lru,clock:2,s3fifo:small=0.05; segcache is
    /// the segment engine, whose size is in bytes
    #[arg(
        long,
        short,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "lru,fifo,clock,sieve,s3fifo"
    )]
    policy: Vec<String>,
    /// Number of sizes, evenly spaced in the logarithm from 0.1 % of the footprint to all of it
    #[arg(long, value_name = "COUNT", value_parser = units::count, default_value_t = 20)]
    points: u64,
    /// Cache sizes, instead of --points: bytes (objects with --ignore-size), 64mb, or a share of
    /// the footprint such as 10%
    #[arg(long, short, value_name = "SIZES", value_delimiter = ',')]
    size: Vec<Size>,
    /// Replay the whole trace: exact, but slower
    #[arg(long, conflicts_with_all = ["sample", "sample_objects"])]
    exact: bool,
    /// Smallest share of the objects in the sample (SHARDS sampling)
    #[arg(long, value_name = "SHARE", value_parser = read_share_above_0, default_value = "1%")]
    sample: f64,
    /// Smallest number of objects in the sample
    #[arg(long, value_name = "COUNT", value_parser = units::count, default_value_t = 8192)]
    sample_objects: u64,
    /// Print each curve twice: with TTLs, and as if nothing expired
    #[arg(long, conflicts_with = "ignore_ttl")]
    compare_ttl: bool,
    #[command(flatten)]
    replaying: Replaying,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pages: Pages,
}

/// One point of a curve, as printed.
#[derive(Serialize)]
struct Row<'a> {
    trace: &'a str,
    policy: &'a str,
    unit: &'static str,
    cache_size: u64,
    miss_ratio: f64,
    low: f64,
    high: f64,
    byte_miss_ratio: Option<f64>,
    is_exact: bool,
    is_trusted: bool,
    has_ttls: bool,
}

/// Curves of one trace.
struct Curves {
    trace: String,
    unit: Unit,
    list: Vec<Named>,
}

impl Arguments {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        ensure!(
            (2..=POINTS_MAX).contains(&self.points),
            "--points {}: expected 2 to {POINTS_MAX}",
            self.points
        );
        ensure!(
            (1..=u64::from(u32::MAX)).contains(&self.sample_objects),
            "--sample-objects {}: expected 1 to {}",
            self.sample_objects,
            u32::MAX
        );
        let read = |text: &String| text.parse().with_context(|| format!("--policy {text}"));
        let policies: Vec<Contestant> = self.policy.iter().map(read).collect::<Result<_>>()?;
        self.pages.prepare()?;
        let curves = match self.exact {
            true => self.exact(&policies)?,
            false => self.estimated(&policies)?,
        };
        let page = || page(&curves.trace, curves.unit, &curves.list);
        self.pages.write(page)?;
        let output = match (self.csv, self.json) {
            (true, _) => table(&curves.trace, curves.unit, &curves.list).to_csv(),
            (_, true) => serde_json::to_string_pretty(&curves.rows())? + "\n",
            _ => text(&curves.trace, curves.unit, &curves.list),
        };
        std::io::stdout().write_all(output.as_bytes())?;
        Ok(())
    }

    fn exact(&self, policies: &[Contestant]) -> Result<Curves> {
        let name = self.input.name();
        let mut opened = self.input.open()?;
        let how = self.replaying.interning();
        let columns = opened.columns(stem(&name), how)?;
        opened.finish();
        let rules = self.rules(&columns, policies)?;
        let footprint = columns.footprint(rules.unit);
        let sizes = self.sizes(rules.unit, footprint, columns.name())?;
        self.curves(&columns, &rules, policies, &sizes, |rules, jobs, done| {
            exact(&columns, rules, policies, &sizes, jobs, done)
        })
    }

    fn estimated(&self, policies: &[Contestant]) -> Result<Curves> {
        let sampling = Sampling {
            rate: self.sample,
            objects: self.sample_objects as usize,
            seed: self.replaying.seed,
        };
        let name = self.input.name();
        let sample = read_sample(&self.input, stem(&name), &self.replaying, sampling)?;
        let columns = sample.columns();
        let rules = self.rules(columns, policies)?;
        let footprint = sample.footprint(rules.unit);
        let sizes = self.sizes(rules.unit, footprint, columns.name())?;
        self.curves(columns, &rules, policies, &sizes, |rules, jobs, done| {
            sample.curves(rules, policies, &sizes, jobs, done)
        })
    }

    /// Returns the rules of the replays. If the segment engine takes part, policies are given its
    /// server's overhead per entry, because the engine's size includes its own.
    fn rules(&self, columns: &Columns, policies: &[Contestant]) -> Result<Rules> {
        let rules = self.replaying.rules(columns)?;
        Ok(match policies.iter().any(Contestant::is_engine) {
            true => self.replaying.beside_engine(columns, rules),
            false => rules,
        })
    }

    fn sizes(&self, unit: Unit, footprint: u64, name: &str) -> Result<Vec<u64>> {
        if self.size.is_empty() {
            return Ok(spread(footprint, SMALLEST_SHARE, self.points as usize));
        }
        let resolve = |size: &Size| size.resolve(footprint, name, unit);
        let mut sizes: Vec<u64> = self.size.iter().map(resolve).collect::<Result<_, _>>()?;
        sizes.sort_unstable();
        sizes.dedup();
        Ok(sizes)
    }

    /// Computes the curves with the trace's TTLs and, with --compare-ttl, also without.
    fn curves(
        &self,
        columns: &Columns,
        rules: &Rules,
        policies: &[Contestant],
        sizes: &[u64],
        curves: impl Fn(&Rules, usize, &AtomicU64) -> Result<Vec<Curve>, ::sim::Error> + Send + Sync,
    ) -> Result<Curves> {
        let mut list = Vec::new();
        ensure!(
            !self.compare_ttl || columns.has_ttls(),
            "--compare-ttl: {}: nothing in it expires: give --ttl-mix",
            columns.name()
        );
        let kinds: &[bool] = if self.compare_ttl {
            &[true, false]
        } else {
            &[true]
        };
        for &has_ttls in kinds {
            let rules = Rules {
                ignores_ttls: !has_ttls,
                ..rules.clone()
            };
            let requests = (columns.len() * sizes.len() * policies.len()) as u64;
            let found = self.replaying.run(columns.name(), requests, |jobs, done| {
                curves(&rules, jobs, done)
            })?;
            let named = |(policy, curve): (&String, Curve)| Named {
                policy: policy.clone(),
                has_ttls: has_ttls && columns.has_ttls(),
                curve,
            };
            list.extend(self.policy.iter().zip(found).map(named));
        }
        Ok(Curves {
            trace: columns.name().into(),
            unit: rules.unit,
            list,
        })
    }
}

/// Reads a trace and keeps a sample of its objects.
pub fn read_sample(
    input: &Input,
    name: &str,
    replaying: &Replaying,
    sampling: Sampling,
) -> Result<Sample> {
    let mut sampler = Sampler::new(name, replaying.interning(), sampling);
    let mut opened = input.open()?;
    for request in opened.requests() {
        sampler.push(&request?)?;
    }
    opened.finish();
    Ok(sampler.finish()?)
}

impl Curves {
    fn points(&self) -> impl Iterator<Item = (&Named, &Point)> {
        self.list.iter().flat_map(|named| {
            let points = named.curve.points.iter();
            points.map(move |point| (named, point))
        })
    }

    fn rows<'a>(&'a self) -> Vec<Row<'a>> {
        let row = |(named, point): (&'a Named, &Point)| Row {
            trace: &self.trace,
            policy: &named.policy,
            unit: self.unit.name(),
            cache_size: point.capacity,
            miss_ratio: point.miss_ratio,
            low: point.low,
            high: point.high,
            byte_miss_ratio: point.byte_miss_ratio,
            is_exact: named.curve.is_exact,
            is_trusted: point.is_trusted,
            has_ttls: named.has_ttls,
        };
        self.points().map(row).collect()
    }
}
