//! `mayfly sim advise`: recommends a policy and a cache size.

use super::replaying::{Replaying, read_share_above_0};
use crate::pages::Pages;
use crate::trace::input::{Input, stem};
use ::sim::advise::{Advice, Collector, Constraints, Inputs, advise, candidates, refine};
use ::sim::curve::Sampling;
use ::sim::{Contestant, Rules, Size, Unit};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::io::Write;

/// Approximate number of sizes at which every policy is replayed on the sample, for scaling the
/// progress bar.
const SURVEYED: usize = 24;

/// Arguments of `mayfly sim advise`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Available memory: 2gb, a share of the footprint such as 10%, or a number of objects where
    /// objects are counted
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Miss ratio to reach, such as 5%
    #[arg(long, value_name = "SHARE", value_parser = read_share_above_0)]
    target_miss_ratio: Option<f64>,
    /// Policies to choose from; segcache is the segment engine. LRU is always compared
    /// [default: all that the server offers]
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',')]
    policy: Vec<String>,
    /// Estimate from a sample, which grows until its bounds are narrow enough, and replay nothing
    /// in full: for traces that would take too long. Chosen automatically if the trace does not fit
    /// in memory
    #[arg(long)]
    sample_only: bool,
    /// Smallest share of the objects in the sample (SHARDS sampling)
    #[arg(long, value_name = "SHARE", value_parser = read_share_above_0, default_value = "1%")]
    sample: f64,
    /// Smallest number of objects in the sample
    #[arg(long, value_name = "COUNT", value_parser = units::count, default_value_t = 16384)]
    sample_objects: u64,
    #[command(flatten)]
    replaying: Replaying,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pages: Pages,
}

impl Arguments {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        ensure!(
            (1..=u64::from(u32::MAX)).contains(&self.sample_objects),
            "--sample-objects {}: expected 1 to {}",
            self.sample_objects,
            u32::MAX
        );
        let read = |text: &String| -> Result<(String, Contestant)> {
            let spec = text.parse().with_context(|| format!("--policy {text}"))?;
            Ok((text.clone(), spec))
        };
        let names: Vec<String> = match self.policy.is_empty() {
            true => candidates().map(str::to_owned).collect(),
            false => self.policy.clone(),
        };
        let policies: Vec<_> = names.iter().map(read).collect::<Result<_>>()?;
        self.pages.prepare()?;
        let objects = self.sample_objects as usize;
        let advice = match self.input.is_stream() {
            // A stream cannot be read twice, so the first sample has to suffice.
            true => self.advise(&policies, objects)?,
            false => refine(objects, |objects| self.advise(&policies, objects))?,
        };
        self.pages.write(|| advice.to_page())?;
        let text = match self.json {
            true => serde_json::to_string_pretty(&advice)? + "\n",
            false => advice.to_text(),
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    fn advise(&self, policies: &[(String, Contestant)], objects: usize) -> Result<Advice> {
        let inputs = self.collect(objects)?;
        let columns = inputs.sample.columns();
        let mut rules = match &inputs.whole {
            Some(whole) => self.replaying.rules(whole)?,
            None => self.replaying.rules(columns)?,
        };
        if policies.iter().any(|(_, one)| one.is_engine()) {
            // The engine's size includes its overhead, so the sizes of policies beside it do, too.
            rules = self.replaying.beside_engine(columns, rules);
        }
        let constraints = self.constraints(&inputs, &rules)?;
        let requests = (columns.len() * SURVEYED * policies.len()) as u64;
        self.replaying.run(columns.name(), requests, |jobs, done| {
            advise(&inputs, &rules, policies, constraints, jobs, done)
        })
    }

    fn collect(&self, objects: usize) -> Result<Inputs> {
        let sampling = Sampling {
            rate: self.sample,
            objects,
            seed: self.replaying.seed,
        };
        let name = self.input.name();
        let how = self.replaying.interning();
        let gap_ms = self.replaying.gap_ms();
        let mut collector = Collector::new(stem(&name), how, sampling, !self.sample_only, gap_ms);
        let mut opened = self.input.open()?;
        for request in opened.requests() {
            collector.push(&request?)?;
        }
        opened.finish();
        let inputs = collector.finish()?;
        if inputs.whole.is_none() && !self.sample_only {
            eprintln!(
                "mayfly: {name} does not fit in memory: the results are estimated from a sample"
            );
        }
        Ok(inputs)
    }

    fn constraints(&self, inputs: &Inputs, rules: &Rules) -> Result<Constraints> {
        let unit: Unit = rules.unit;
        let footprint = inputs.sample.footprint(unit);
        let resolve = |size: &Size| {
            let name = inputs.sample.columns().name();
            size.resolve(footprint, name, unit).context("--memory")
        };
        Ok(Constraints {
            memory: self.memory.as_ref().map(resolve).transpose()?,
            target: self.target_miss_ratio,
        })
    }
}
