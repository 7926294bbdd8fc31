//! `mayfly trace`: looks at traces, converts, cuts, samples and makes them.

mod analyze;
pub mod arguments;
pub mod input;
mod made;
mod output;
mod show;

use crate::trace::arguments::Span;
use crate::trace::input::Input;
use crate::trace::output::Output;
use ::trace::{Error, FixedSize, NextAccess, Request, Sample};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};

/// Arguments of `mayfly trace`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the first requests and what the trace is made of.
    Show(show::Arguments),
    /// Tell what the workload is like: rates, TTLs, popularity, sizes, reuse, one-hit wonders, scans.
    Analyze(analyze::Arguments),
    /// Write a trace in another format or compression.
    Convert(Convert),
    /// Keep the requests of a range of numbers or of time.
    Cut(Cut),
    /// Keep all requests of some objects, chosen by the hash of their keys (SHARDS).
    Sample(Sampling),
    /// Make a trace up.
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
struct Cut {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    /// Numbers of requests, counted from 0, the last one not included: 1000..2000, ..1m, 5k..
    #[arg(long, value_name = "FIRST..END", value_parser = arguments::range(arguments::count))]
    requests: Option<Span>,
    /// Time since the first request, the end not included: 10m..1h, ..30s, 1.5s..
    #[arg(long, value_name = "FROM..TO", value_parser = arguments::range(arguments::span_ms))]
    time: Option<Span>,
}

#[derive(Args)]
struct Sampling {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    /// The share of all objects, such as 0.01
    #[arg(long, required_unless_present = "objects", conflicts_with = "objects")]
    share: Option<f64>,
    /// The number of objects; the trace is read twice
    #[arg(long, value_name = "COUNT", value_parser = arguments::count)]
    objects: Option<u64>,
    /// Which objects
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs a subcommand.
pub fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Show(show) => show.run(),
        Command::Analyze(analyze) => analyze.run(),
        Command::Convert(convert) => convert.run(),
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

/// The request as a part of a trace: the numbers of requests are others there.
fn partial(request: Request) -> Request {
    Request {
        next_access: NextAccess::Unknown,
        ..request
    }
}

impl Cut {
    fn run(&self) -> Result<()> {
        if self.requests.is_none() && self.time.is_none() {
            bail!("cut takes --requests FIRST..END or --time FROM..TO");
        }
        let numbers = self.requests.unwrap_or_default();
        let time = self.time.unwrap_or_default();
        let mut opened = self.input.open()?;
        let mut start_ms = None;
        let requests = opened.requests().take(numbers.end_or_max());
        let requests = requests.skip(numbers.start as usize);
        // The clock of a trace may go backwards: each request is asked, and none ends the cut.
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
            _ => bail!("--share is a number from 0 to 1, --objects one above 0"),
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

    /// The sample of so many objects, which takes a pass of its own.
    fn find(&self, objects: usize) -> Result<Sample> {
        if self.input.is_stream() {
            bail!(
                "--objects reads the trace twice, which standard input does not allow; use --share"
            );
        }
        let mut finder = FixedSize::new(objects, self.seed);
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
