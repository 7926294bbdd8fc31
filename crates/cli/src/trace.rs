//! `mayfly trace`: shows, analyzes, converts, cuts, samples and generates traces.

mod analyze;
pub mod arguments;
pub mod input;
mod made;
mod output;
mod show;

use crate::trace::arguments::Span;
use crate::trace::input::{Input, stem};
use crate::trace::output::Output;
use ::trace::{Error, FixedSizeSample, NextAccess, Request, Sample};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// Arguments of `mayfly trace`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the first requests and a summary of the trace.
    Show(show::Arguments),
    /// Describe the workload: rates, TTLs, popularity, sizes, reuse, one-hit wonders, scans.
    Analyze(analyze::Arguments),
    /// Write a trace in another format or compression.
    Convert(Convert),
    /// Convert a trace once to columns of dense ids, from which replays start at once.
    Prepare(Prepare),
    /// Keep the requests of a range of request numbers or of time.
    Cut(Cut),
    /// Keep all requests of a sample of the objects, chosen by the hash of their keys (SHARDS).
    Sample(Sampling),
    /// Generate a synthetic trace.
    Generate(made::Arguments),
}

#[derive(Args)]
struct Convert {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Prepare {
    #[command(flatten)]
    input: Input,
    /// File to write, which ends in .prepared, plain or compressed (.prepared.zst, .gz, .xz); - for
    /// standard output [default: the trace's name with the ending .prepared, in the same folder]
    #[arg(value_name = "OUTPUT")]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct Cut {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    /// Range of request numbers, counted from 0, the end excluded: 1000..2000, ..1m, 5k..
    #[arg(long, value_name = "FIRST..END", value_parser = arguments::range(units::count))]
    requests: Option<Span>,
    /// Range of time since the first request, the end excluded: 10m..1h, ..30s, 1.5s..
    #[arg(long, value_name = "FROM..TO", value_parser = arguments::range(units::span_ms))]
    time: Option<Span>,
}

#[derive(Args)]
struct Sampling {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    /// Share of the objects to keep, as a fraction such as 0.01
    #[arg(long, required_unless_present = "objects", conflicts_with = "objects")]
    share: Option<f64>,
    /// Number of objects to keep; reads the trace twice
    #[arg(long, value_name = "COUNT", value_parser = units::count)]
    objects: Option<u64>,
    /// Random seed that selects the objects
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Show(show) => show.run(),
        Command::Analyze(analyze) => analyze.run(),
        Command::Convert(convert) => convert.run(),
        Command::Prepare(prepare) => prepare.run(),
        Command::Cut(cut) => cut.run(),
        Command::Sample(sampling) => sampling.run(),
        Command::Generate(made) => made.run(),
    }
}

impl Convert {
    fn run(&self) -> Result<()> {
        let mut opened = self.input.open()?;
        self.output.write(opened.requests())?;
        opened.finish();
        Ok(())
    }
}

impl Prepare {
    fn run(&self) -> Result<()> {
        let output = match &self.output {
            Some(output) => output.clone(),
            None if self.input.is_stream() => {
                bail!("expected an output, because the trace comes from standard input")
            }
            None => {
                let name = self.input.name();
                Path::new(&name).with_file_name(format!("{}.prepared", stem(&name)))
            }
        };
        let output = Output::prepared(output)?;
        let mut opened = self.input.open()?;
        output.write(opened.requests())?;
        opened.finish();
        Ok(())
    }
}

/// Returns the request without its next access, because request numbers differ in a part of a
/// trace.
fn partial(request: Request) -> Request {
    Request {
        next_access: NextAccess::Unknown,
        ..request
    }
}

impl Cut {
    fn run(&self) -> Result<()> {
        if self.requests.is_none() && self.time.is_none() {
            bail!("expected --requests FIRST..END or --time FROM..TO");
        }
        let numbers = self.requests.unwrap_or_default();
        let time = self.time.unwrap_or_default();
        let mut opened = self.input.open()?;
        let mut start_ms = None;
        let requests = opened.requests().take(numbers.end_or_max());
        let requests = requests.skip(numbers.start as usize);
        // The time of a trace may go backwards, so every request is checked and none ends the
        // range.
        let kept = requests.filter_map(|request| match request {
            Ok(request) => {
                let start_ms = *start_ms.get_or_insert(request.time_ms);
                let is_inside = time.has(request.time_ms.saturating_sub(start_ms));
                is_inside.then_some(Ok(partial(request)))
            }
            Err(error) => Some(Err(error)),
        });
        self.output.write(kept)?;
        opened.finish();
        Ok(())
    }
}

impl Sampling {
    fn run(&self) -> Result<()> {
        let sample = match (self.share, self.objects) {
            (Some(share), _) if (0.0..=1.0).contains(&share) => Sample::of_share(share, self.seed),
            (_, Some(objects)) if objects > 0 => self.find(objects as usize)?,
            _ => bail!("--share: expected 0 to 1, or --objects above 0"),
        };
        let mut opened = self.input.open()?;
        let kept = opened.requests().filter_map(|request| match request {
            Ok(request) if sample.has(request.key) => Some(Ok(partial(request))),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        });
        self.output.write(kept)?;
        opened.finish();
        Ok(())
    }

    /// Finds the sampling threshold that keeps this number of objects, in a separate pass over the
    /// trace.
    fn find(&self, objects: usize) -> Result<Sample> {
        if self.input.is_stream() {
            bail!(
                "--objects reads the trace twice, which is impossible for standard input: use --share"
            );
        }
        let mut finder = FixedSizeSample::new(objects, self.seed);
        let mut opened = self.input.open()?;
        opened
            .requests()
            .try_for_each(|request: Result<Request, Error>| {
                finder.look(request?.key);
                Ok::<(), Error>(())
            })?;
        Ok(finder.sample())
    }
}
