//! `bench learned`: the evaluation of GL-Cache (section 6.3 of its source) on our traces, in the simulator.
//!
//! Every figure from 6.6 to 6.17 has its place in a round. Hit ratios and throughput are told relative to
//! FIFO, as there; what the source shows as boxes over a hundred traces is a line a trace here, and boxes on the
//! page from three on. A replay that several figures need is made once.
//!
//! Source: J. Yang, Z. Mao, Y. Yue, K. V. Rashmi, *GL-Cache*, FAST 2023; chapter 6 of J. Yang's thesis, CMU 2024.

mod page;
mod pivot;
mod plan;
mod play;
mod row;
mod tables;
mod traces;

use crate::arguments;
use crate::error::{Error, Result};
use crate::machine::{self, Machine};
use crate::report::Files;
use crate::simulator::{Simulator, Unit};
use plan::{Share, Study};
use play::Player;
use row::Row;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use traces::Told;

/// Arguments of `bench learned`.
#[derive(clap::Args, Debug)]
pub struct Learned {
    /// Traces, in any format that docs/traces.md lists [default: one that is made, of seven days]
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Their format, where the name does not tell it
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    format: Option<trace::Format>,
    /// What to look at
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "ceiling,baselines,table,warm-up,features,engine,knobs"
    )]
    round: Vec<Round>,
    /// Who is compared with FIFO, in the rounds baselines, table and warm-up
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "lru,fifo-merge,s3fifo,sieve,w-tinylfu,lhd,lecar,cacheus,lrb,gl-cache:t,gl-cache:e,gl-cache:e:way=model"
    )]
    cache: Vec<String>,
    /// Engines, and policies with what a server keeps beside each entry, for the round engine
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "segcache:eviction=fifo,segcache:eviction=merge,segcache,segcache:eviction=gl-cache,memcached-lru,w-tinylfu,lhd"
    )]
    engine: Vec<String>,
    /// Sizes of caches, as shares of what all objects take
    #[arg(long, value_delimiter = ',', default_value = "1%,3%,10%")]
    size: Vec<Share>,
    /// What caches count [default: both, where a trace tells sizes]
    #[arg(long, value_delimiter = ',')]
    unit: Vec<Unit>,
    /// Stop after so many requests of a trace [default: never; of the one that is made: 500k]
    #[arg(long, value_parser = arguments::count)]
    limit: Option<u64>,
    /// Objects in a group, for the round knobs
    #[arg(long, value_delimiter = ',', default_value = "1,5,20,60,200,600,1600")]
    group: Vec<u32>,
    /// Shares of the groups that go before they are ranked anew
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.005,0.01,0.02,0.05,0.1,0.2,0.5"
    )]
    fraction: Vec<f32>,
    /// Groups that are merged
    #[arg(long, value_delimiter = ',', default_value = "2,3,5,10,20")]
    merged: Vec<u32>,
    /// When models are trained: auto, daily, or requests for each entry held
    #[arg(long, value_delimiter = ',', default_value = "auto,daily,2,4,8,16,32")]
    interval: Vec<String>,
    /// Groups learned from
    #[arg(long, value_delimiter = ',', default_value = "512,2048,8192,32768")]
    samples: Vec<u32>,
    /// Trees of a model
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    trees: Vec<u32>,
    /// Their depth
    #[arg(long, value_delimiter = ',', default_value = "1,3,6,9")]
    depth: Vec<u32>,
    /// Replays for each CPU time, of which the median counts
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Replays at a time; more than one disturb each other's CPU times
    #[arg(long, default_value = "1")]
    jobs: NonZeroUsize,
    /// Determines every decision by chance, and what is made
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON to stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: Files,
}

/// One question.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Round {
    /// What evicting groups costs when the future is known: figure 6.6
    Ceiling,
    /// Hit ratios, throughput, memory, and what was learned: figures 6.8 to 6.11, table 6.1
    Baselines,
    /// Misses and throughput of LRB and GL-Cache: table 6.4
    Table,
    /// Hit ratios after one and after three sevenths of the trace: figures 6.17 and 6.8
    WarmUp,
    /// Hit ratios of models that see some of the features: figure 6.12
    Features,
    /// The segment engine and others at equal memory: figure 6.7
    Engine,
    /// Sensitivity to each parameter: figures 6.13 to 6.16
    Knobs,
}

impl Round {
    const ALL: [Round; 7] = [
        Round::Ceiling,
        Round::Baselines,
        Round::Table,
        Round::WarmUp,
        Round::Features,
        Round::Engine,
        Round::Knobs,
    ];

    /// The name of its place in a document.
    fn place(self) -> &'static str {
        match self {
            Round::Ceiling => "learned ceiling",
            Round::Baselines => "learned baselines",
            Round::Table => "learned table",
            Round::WarmUp => "learned warm-up",
            Round::Features => "learned features",
            Round::Engine => "learned engine",
            Round::Knobs => "learned knobs",
        }
    }
}

/// Everything that JSON and page tell.
#[derive(Debug, Serialize)]
struct Report {
    command: String,
    machine: Machine,
    traces: Vec<Told>,
    rows: Vec<Row>,
    left_out: Vec<String>,
}

impl Report {
    /// A study's rows, in the order in which they were asked for.
    fn of(&self, study: Study) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.study == study)
    }
}

impl Learned {
    /// Runs it and prints the report.
    pub(crate) fn run(&self, simulator: Option<&dyn Simulator>) -> Result<()> {
        let Some(simulator) = simulator else {
            let text = "learned: it takes a simulator, which this program lacks";
            return Err(Error::Usage(text.into()));
        };
        self.check(simulator)?;
        let mut report = Report {
            command: machine::command(),
            machine: Machine::here(),
            traces: Vec::new(),
            rows: Vec::new(),
            left_out: Vec::new(),
        };
        for place in 0..self.trace.len().max(1) {
            self.of_trace(simulator, place, &mut report)?;
        }
        self.tell(&report)
    }

    /// What is wrong with the arguments is told before a trace is read.
    fn check(&self, simulator: &dyn Simulator) -> Result<()> {
        if self.rounds == 0 || self.limit == Some(0) {
            return Err(Error::Usage("--rounds and --limit must be above 0".into()));
        }
        let named = |option: &str, cache: &str| {
            let told = simulator.check(cache);
            told.map_err(|text| Error::Usage(format!("{option}: {text}")))
        };
        for cache in &self.cache {
            named(&format!("--cache {cache}"), cache)?;
        }
        for cache in &self.engine {
            named(&format!("--engine {cache}"), cache)?;
        }
        for study in Study::KNOBS {
            let name = study.knob().expect("it is one of the knobs");
            for value in self.values(study) {
                named(
                    &format!("--{name} {value}"),
                    &plan::with(study, plan::FOLLOWER, &value),
                )?;
            }
        }
        Ok(())
    }

    /// The values of a knob that are tried.
    fn values(&self, study: Study) -> Vec<String> {
        fn texts<T: ToString>(values: &[T]) -> Vec<String> {
            values.iter().map(T::to_string).collect()
        }
        match study {
            Study::Group => texts(&self.group),
            Study::Fraction => texts(&self.fraction),
            Study::Merged => texts(&self.merged),
            Study::Interval => texts(&self.interval),
            Study::Samples => texts(&self.samples),
            Study::Trees => texts(&self.trees),
            Study::Depth => texts(&self.depth),
            _ => Vec::new(),
        }
    }

    /// All rounds over the trace of this place on the command line.
    fn of_trace(&self, simulator: &dyn Simulator, place: usize, report: &mut Report) -> Result<()> {
        let (told, taken) = traces::take_in(self, simulator, place)?;
        let features = simulator.features();
        let plan = plan::plan(self, &told, &features);
        let mut player = Player::new(&*taken, self.rounds, self.jobs.get());
        player.play(&plan)?;
        if told.extent.bytes.is_none() {
            let is_bytes = self.unit.contains(&Unit::Bytes).then_some("bytes");
            let engine = self.has(Round::Engine).then_some("the round engine");
            let lines = [is_bytes, engine].into_iter().flatten();
            let lines = lines.map(|what| format!("{what} on {}", told.name));
            report.left_out.extend(lines);
        }
        for wanted in &plan {
            let row = row::of(wanted, &told, &player);
            if row.hit_ratio.is_none() {
                let [trace, unit, size] = row.place();
                let line = format!("{} on {trace} at {size} of the {unit}", row.name);
                report.left_out.push(line);
            }
            report.rows.push(row);
        }
        report.traces.push(told);
        Ok(())
    }

    fn has(&self, round: Round) -> bool {
        self.round.contains(&round)
    }

    fn tell(&self, report: &Report) -> Result<()> {
        let heading = machine::heading(&report.machine, &report.command);
        let parts = || {
            let rounds = Round::ALL.into_iter().filter(|round| self.has(*round));
            let part = |round: Round| {
                let text = heading.clone() + &tables::markdown(report, round);
                (round.place().to_owned(), text)
            };
            rounds.map(part).collect()
        };
        self.files.save_parts(|| page::page(report), parts)?;
        if self.json {
            return crate::report::json(report);
        }
        print!("{}", tables::text(report));
        Ok(())
    }
}
