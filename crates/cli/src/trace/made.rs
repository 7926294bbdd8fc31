//! `mayfly trace generate`: generates a synthetic trace.

use super::output::Output;
use ::trace::{Generator, GeneratorOptions, OBJECTS_DEFAULT, PatternMix, Sizes, TtlMix};
use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;

/// Number of requests between two updates of the progress bar.
const REQUESTS_A_STEP: u64 = 4096;

/// Arguments of `mayfly trace generate`.
#[derive(clap::Args)]
#[command(
    after_help = "Patterns: zipf:ALPHA[:OBJECTS], uniform[:OBJECTS], scan[:LENGTH] (objects that are requested once, \
LENGTH in a row), loop:OBJECTS, decay:ALPHA:EVERY[:OBJECTS] (a new object every EVERY requests; newer \
objects are more popular). Example: zipf:0.9@80+scan:1000@20. Or the pattern of the whole trace is days[:PARAMETER=VALUE...]: request rate \
and popularity follow the time of day, objects lose popularity, with one-hit wonders and a daily scan (parameters: swing, alpha, turn, \
fading, half, births, once, scan). Example: days:once=0.2 with --requests 6m --request-rate 10, about a week"
)]
pub struct Arguments {
    #[command(flatten)]
    output: Output,
    /// Number of requests
    #[arg(long, default_value = "1m", value_parser = units::count)]
    requests: u64,
    /// Number of objects of each pattern that does not specify one
    #[arg(long, value_name = "COUNT", default_value_t = OBJECTS_DEFAULT, value_parser = units::count)]
    objects: u64,
    /// Patterns joined by +, each with @WEIGHT, its share of the requests; or days
    #[arg(long, value_name = "MIX", default_value = "zipf:1")]
    pattern: String,
    /// Object sizes: fixed:BYTES, uniform:MIN:MAX, lognormal:MEDIAN:SIGMA, pareto:MIN:ALPHA, or
    /// CLUSTER:FILE for the means in a table with the columns cluster, key_bytes and value_bytes
    #[arg(long, value_name = "SIZES", default_value = "fixed:1")]
    size: String,
    /// TTLs: a built-in mix such as cluster4, CLUSTER:FILE for a table with the columns cluster and
    /// ttl_mix, or none
    #[arg(long, value_name = "MIX", default_value = "none")]
    ttl_mix: String,
    /// Requests per second in the trace's time; the mean rate for days
    #[arg(long, default_value_t = 1000.0)]
    request_rate: f64,
    /// Fraction of the requests that are writes, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    write_share: f64,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Arguments {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let is_rate = self.request_rate > 0.0 && self.request_rate.is_finite();
        if !is_rate || !(0.0..=1.0).contains(&self.write_share) {
            bail!("expected a --request-rate above 0 and a --write-share from 0 to 1");
        }
        if self.objects == 0 {
            bail!("--objects: expected more than 0");
        }
        let recipe = GeneratorOptions {
            mix: PatternMix::parse(&self.pattern, self.objects)
                .map_err(|reason| anyhow!(reason))?,
            sizes: self.sizes()?,
            ttl_mix: self.ttl_mix()?,
            rate: self.request_rate,
            writes: self.write_share,
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
