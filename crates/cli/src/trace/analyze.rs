//! `mayfly trace analyze`: describes the workload of a trace.

use super::arguments;
use super::input::Input;
use crate::pages::Pages;
use ::sim::analyze::{Analysis, Analyzer, OBJECTS_DEFAULT};
use ::trace::TtlMix;
use anyhow::{Result, bail};
use std::io::Write;

/// Arguments of `mayfly trace analyze`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// TTLs drawn per key instead of the trace's own: a published mix (cluster4), or '60s:0.4
    /// 1h:0.6'
    #[arg(long, value_name = "MIX", value_parser = arguments::ttl_mix)]
    ttl_mix: Option<TtlMix>,
    /// Random seed that assigns TTLs to objects
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Maximum number of objects to track, at about 140 bytes each; with more objects, a sample of
    /// the keys is tracked
    #[arg(long, value_name = "COUNT", value_parser = units::count, default_value_t = OBJECTS_DEFAULT as u64)]
    objects: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pages: Pages,
}

impl Arguments {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        self.pages.prepare()?;
        let analysis = self.analyze()?;
        self.pages.write(|| analysis.to_page(&self.input.name()))?;
        let text = match self.json {
            true => serde_json::to_string_pretty(&analysis)? + "\n",
            false => analysis.to_text(),
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    fn analyze(&self) -> Result<Analysis> {
        if !(1..=u64::from(u32::MAX)).contains(&self.objects) {
            bail!("--objects {}: expected 1 to {}", self.objects, u32::MAX);
        }
        let mut opened = self.input.open()?;
        let mut analyzer = Analyzer::new(self.objects as usize);
        for request in opened.requests() {
            let mut request = request?;
            if let Some(mix) = &self.ttl_mix {
                request.ttl_ms = mix.ttl_ms(request.key, self.seed);
            }
            analyzer.push(&request);
        }
        opened.finish();
        match analyzer.finish() {
            Some(analysis) => Ok(analysis),
            None => bail!("{}: the trace has no requests", self.input.name()),
        }
    }
}
