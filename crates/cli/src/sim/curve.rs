//! `sim curve`: miss ratios over sizes.

use super::replaying::{Replaying, read_share_above_0, stem};
use crate::trace::arguments::count;
use crate::trace::input::Input;
use ::sim::curve::{Curve, Point, Sample, Sampler, Sampling, exact, spread};
use ::sim::{Interner, Size, Unit};
use anyhow::{Context, Result, ensure};
use clap::Args;
use policy::any::PolicySpec;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;

/// The smallest size of a curve, as a share of the footprint.
const SMALLEST_SHARE: f64 = 0.001;
/// More points than this are no curve but a slip.
const POINTS_MAX: u64 = 10_000;

/// A trace, policies, and how closely to look.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Policies, knobs behind colons: lru,clock:2,s3fifo:small=0.05
    #[arg(
        long,
        short,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "lru,fifo,clock,sieve,s3fifo"
    )]
    policy: Vec<String>,
    /// How many sizes, evenly spaced in the logarithm from 0.1 % of the footprint to all of it
    #[arg(long, value_name = "COUNT", value_parser = count, default_value_t = 20)]
    points: u64,
    /// These sizes instead: bytes (or objects with --ignore-size), 64mb, or a share, 10%
    #[arg(long, short, value_name = "SIZES", value_delimiter = ',')]
    size: Vec<Size>,
    /// Replay the whole trace: slower, and exact
    #[arg(long, conflicts_with_all = ["sample", "sample_objects"])]
    exact: bool,
    /// Look at this share of the objects at least (SHARDS)
    #[arg(long, value_name = "SHARE", value_parser = read_share_above_0, default_value = "1%")]
    sample: f64,
    /// And at so many of them at least
    #[arg(long, value_name = "COUNT", value_parser = count, default_value_t = 8192)]
    sample_objects: u64,
    #[command(flatten)]
    replaying: Replaying,
    /// Print comma-separated text
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is printed of a curve's point.
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
}

/// Curves with the names that they were asked for by.
struct Curves {
    trace: String,
    unit: Unit,
    policies: Vec<String>,
    curves: Vec<Curve>,
}

impl Arguments {
    /// Runs it.
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
        let policies: Vec<PolicySpec> = self.policy.iter().map(read).collect::<Result<_>>()?;
        let curves = match self.exact {
            true => self.exact(&policies)?,
            false => self.estimated(&policies)?,
        };
        let text = match (self.csv, self.json) {
            (true, _) => curves.csv(),
            (_, true) => serde_json::to_string_pretty(&curves.rows())? + "\n",
            _ => curves.table(),
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    fn exact(&self, policies: &[PolicySpec]) -> Result<Curves> {
        let name = self.input.name();
        let mut interner = Interner::new(stem(&name), self.replaying.interning());
        let mut opened = self.input.open()?;
        for request in opened.requests() {
            interner.push(&request?)?;
        }
        opened.finish();
        let columns = interner.finish()?;
        let rules = self.replaying.rules(&columns)?;
        let footprint = columns.footprint(rules.unit);
        let sizes = self.sizes(rules.unit, footprint, columns.name())?;
        let requests = (columns.len() * sizes.len() * policies.len()) as u64;
        let curves = self.replaying.run(columns.name(), requests, |jobs, done| {
            exact(&columns, &rules, policies, &sizes, jobs, done)
        })?;
        Ok(self.named(columns.name(), rules.unit, curves))
    }

    fn estimated(&self, policies: &[PolicySpec]) -> Result<Curves> {
        let sampling = Sampling {
            rate: self.sample,
            objects: self.sample_objects as usize,
            seed: self.replaying.seed,
        };
        let name = self.input.name();
        let sample = read_sample(&self.input, stem(&name), &self.replaying, sampling)?;
        let columns = sample.columns();
        let rules = self.replaying.rules(columns)?;
        let footprint = sample.footprint(rules.unit);
        let sizes = self.sizes(rules.unit, footprint, columns.name())?;
        let requests = (columns.len() * sizes.len() * policies.len()) as u64;
        let curves = self.replaying.run(columns.name(), requests, |jobs, done| {
            sample.curves(&rules, policies, &sizes, jobs, done)
        })?;
        Ok(self.named(columns.name(), rules.unit, curves))
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

    fn named(&self, trace: &str, unit: Unit, curves: Vec<Curve>) -> Curves {
        Curves {
            trace: trace.into(),
            unit,
            policies: self.policy.clone(),
            curves,
        }
    }
}

/// Reads a trace and keeps a sample of it.
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
    fn points(&self) -> impl Iterator<Item = (&str, &Curve, &Point)> {
        let named = self.policies.iter().zip(&self.curves);
        named.flat_map(|(name, curve)| {
            let points = curve.points.iter();
            points.map(move |point| (name.as_str(), curve, point))
        })
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let row = |(policy, curve, point): (_, &Curve, &Point)| Row {
            trace: &self.trace,
            policy,
            unit: self.unit.name(),
            cache_size: point.capacity,
            miss_ratio: point.miss_ratio,
            low: point.low,
            high: point.high,
            byte_miss_ratio: point.byte_miss_ratio,
            is_exact: curve.is_exact,
            is_trusted: point.is_trusted,
        };
        self.points().map(row).collect()
    }

    fn csv(&self) -> String {
        let mut text = String::from(
            "trace,policy,unit,cache_size,miss_ratio,low,high,byte_miss_ratio,is_exact,is_trusted\n",
        );
        for row in self.rows() {
            let bytes = row.byte_miss_ratio.map(|ratio| format!("{ratio:.6}"));
            let _ = writeln!(
                text,
                "{},{},{},{},{:.6},{:.6},{:.6},{},{},{}",
                ::sim::report::quoted_for_csv(row.trace),
                ::sim::report::quoted_for_csv(row.policy),
                row.unit,
                row.cache_size,
                row.miss_ratio,
                row.low,
                row.high,
                bytes.unwrap_or_default(),
                row.is_exact,
                row.is_trusted,
            );
        }
        text
    }

    /// A row for each size, a column for each policy.
    fn table(&self) -> String {
        let mut text = format!(
            "{}, miss ratios of caches in {}\n\n",
            self.trace,
            self.unit.name()
        );
        let cells: Vec<Vec<String>> = self
            .curves
            .iter()
            .map(|curve| curve.points.iter().map(|p| cell(curve, p)).collect())
            .collect();
        let widths: Vec<usize> = self
            .policies
            .iter()
            .zip(&cells)
            .map(|(name, cells)| {
                let widest = cells.iter().map(|cell| cell.chars().count()).max();
                widest.unwrap_or(0).max(name.len())
            })
            .collect();
        let _ = write!(text, "{:>14}", "cache size");
        for (name, width) in self.policies.iter().zip(&widths) {
            let _ = write!(text, "  {name:>width$}");
        }
        text.push('\n');
        let rows = self.curves.first().map_or(0, |curve| curve.points.len());
        for row in 0..rows {
            let _ = write!(text, "{:>14}", self.curves[0].points[row].capacity);
            for (cells, width) in cells.iter().zip(&widths) {
                let _ = write!(text, "  {:>width$}", cells[row]);
            }
            text.push('\n');
        }
        if self.curves.iter().any(|curve| !curve.is_exact) {
            text += "\n±: within this with a probability of 95 %.";
            if self.points().any(|(_, _, point)| !point.is_trusted) {
                text +=
                    " *: too few objects of the sample fit; raise --sample-objects, or --exact.";
            }
            text.push('\n');
        }
        text
    }
}

fn cell(curve: &Curve, point: &Point) -> String {
    if curve.is_exact {
        return format!("{:.4}", point.miss_ratio);
    }
    let error = (point.high - point.low) / 2.0;
    let mark = if point.is_trusted { ' ' } else { '*' };
    format!("{:.4} ±{error:.4}{mark}", point.miss_ratio)
}
