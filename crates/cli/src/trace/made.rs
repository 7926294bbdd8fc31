//! `trace generate`.

use super::arguments;
use super::output::Output;
use ::trace::{Generator, Mix, OBJECTS_DEFAULT, Recipe, Sizes, TtlMix};
use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;

/// How often the bar is told.
const REQUESTS_A_STEP: u64 = 4096;

/// Arguments of `mayfly trace generate`.
#[derive(clap::Args)]
#[command(
    after_help = "Patterns: zipf:ALPHA[:OBJECTS], uniform[:OBJECTS], scan[:LENGTH] (objects that never come again, \
LENGTH in a row), loop:OBJECTS, decay:ALPHA:EVERY[:OBJECTS] (an object is born every EVERY requests; the \
younger, the more popular). Example: zipf:0.9@80+scan:1000@20. Or the whole trace is days[:KNOB=VALUE...], with a rate \
and popularity that follow the clock, objects that fade, one-hit wonders and a daily scan (knobs: swing, alpha, turn, \
fading, half, births, once, scan). Example: days:once=0.2 with --requests 6m --rate 10, about a week"
)]
pub struct Arguments {
    #[command(flatten)]
    output: Output,
    /// How many requests
    #[arg(long, default_value = "1m", value_parser = arguments::count)]
    requests: u64,
    /// How many objects a pattern has that does not say
    #[arg(long, value_name = "COUNT", default_value_t = OBJECTS_DEFAULT, value_parser = arguments::count)]
    objects: u64,
    /// Patterns apart by +, each with @WEIGHT, its share of the requests; or days
    #[arg(long, value_name = "MIX", default_value = "zipf:1")]
    pattern: String,
    /// Sizes of objects: fixed:BYTES, uniform:FIRST:LAST, lognormal:MEDIAN:SIGMA, pareto:SMALLEST:ALPHA, or
    /// CLUSTER:FILE for the means of a table with the columns cluster, key_bytes and value_bytes
    #[arg(long, value_name = "SIZES", default_value = "fixed:1")]
    size: String,
    /// Lifetimes: a built-in mix such as cluster4, CLUSTER:FILE for a table with the columns cluster and ttl_mix, or none
    #[arg(long, value_name = "MIX", default_value = "none")]
    ttl_mix: String,
    /// Requests per second of the trace's clock; of days, on the mean
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// The share of requests that write
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    writes: f64,
    /// What all is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Arguments {
    /// Runs it.
    pub fn run(&self) -> Result<()> {
        let is_rate = self.rate > 0.0 && self.rate.is_finite();
        if !is_rate || !(0.0..=1.0).contains(&self.writes) {
            bail!("--rate is above 0, --writes from 0 to 1");
        }
        if self.objects == 0 {
            bail!("--objects is above 0");
        }
        let recipe = Recipe {
            mix: Mix::parse(&self.pattern, self.objects).map_err(|reason| anyhow!(reason))?,
            sizes: self.sizes()?,
            ttl_mix: self.ttl_mix()?,
            rate: self.rate,
            writes: self.writes,
            seed: self.seed,
        };
        let bar = ProgressBar::new(self.requests);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} [{elapsed} < {eta}]");
        bar.set_style(style.expect("the template is well-formed"));
        let requests = (0..self.requests).zip(Generator::new(recipe));
        let watched = requests.map(|(number, request)| {
            if number % REQUESTS_A_STEP == 0 {
                bar.set_position(number);
            }
            Ok(request)
        });
        self.output.write(watched)?;
        bar.finish_and_clear();
        Ok(())
    }

    fn sizes(&self) -> Result<Sizes> {
        let error = match Sizes::parse(&self.size) {
            Ok(sizes) => return Ok(sizes),
            Err(error) => anyhow!(error),
        };
        match self.size.split_once(':') {
            Some((cluster, path)) if fs::exists(path).unwrap_or(false) => {
                Sizes::from_table(&table(path)?, cluster)
                    .map_err(|reason| anyhow!("{path}: {reason}"))
            }
            _ => Err(error),
        }
    }

    fn ttl_mix(&self) -> Result<Option<TtlMix>> {
        if self.ttl_mix == "none" {
            return Ok(None);
        }
        let mix = match self.ttl_mix.split_once(':') {
            Some((cluster, path)) => TtlMix::from_table(&table(path)?, cluster),
            None => TtlMix::published(&self.ttl_mix),
        };
        Ok(Some(mix?))
    }
}

fn table(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}
