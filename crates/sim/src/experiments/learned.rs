//! The evaluation of GL-Cache on any trace: hit ratios, throughput, learned features, parameters.
//!
//! Each figure from 6.6 to 6.17 of the source belongs to a [`Round`]. Hit ratios and throughput are
//! relative to FIFO, as in the source. The source shows boxes over a hundred traces. The page shows
//! boxes from three traces on and bars for fewer. [`Options::plan`] lists the replays of one trace,
//! [`Plan::run`] makes each of them once, and [`Report::page`] shows the rows of all traces.
//!
//! Source: J. Yang, Z. Mao, Y. Yue, K. V. Rashmi, *GL-Cache*, FAST 2023; chapter 6 of J. Yang's
//! thesis, CMU 2024.

mod page;
mod plan;
mod row;

use crate::{Columns, Contestant, Size, Unit};
use plan::FOLLOWER;
pub use plan::{KNOBS, Plan};
use row::Study;
pub use row::{Learning, Row};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A group of figures that are made from the same kind of replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Cost of evicting groups when the future is known: figure 6.6.
    Ceiling,
    /// Hit ratios, throughput, memory and learned features: figures 6.8 to 6.11, table 6.1.
    Baselines,
    /// Misses and throughput of LRB and GL-Cache: table 6.4.
    Table,
    /// Hit ratios after one and after three sevenths of the trace: figures 6.17 and 6.8.
    WarmUp,
    /// Hit ratios of models that see some of the features: figure 6.12.
    Features,
    /// The segment engine and policies at equal memory: figure 6.7.
    Engine,
    /// Sensitivity to each parameter: figures 6.13 to 6.16.
    Knobs,
}

impl Round {
    /// All rounds with their names.
    pub const ALL: [(Round, &str); 7] = [
        (Round::Ceiling, "ceiling"),
        (Round::Baselines, "baselines"),
        (Round::Table, "table"),
        (Round::WarmUp, "warm-up"),
        (Round::Features, "features"),
        (Round::Engine, "engine"),
        (Round::Knobs, "knobs"),
    ];
}

impl FromStr for Round {
    type Err = String;

    fn from_str(text: &str) -> Result<Round, String> {
        let found = Round::ALL.iter().find(|(_, name)| *name == text);
        let names = Round::ALL.map(|(_, name)| name).join(", ");
        let found = found.map(|(round, _)| *round);
        found.ok_or_else(|| format!("round '{text}': expected one of {names}"))
    }
}

/// Choice of the replays.
#[derive(Clone, Debug)]
pub struct Options {
    /// Groups of figures.
    pub rounds: Vec<Round>,
    /// Policies compared with FIFO.
    pub policies: Vec<String>,
    /// Engines and policies compared at equal memory.
    pub engines: Vec<String>,
    /// Cache sizes.
    pub sizes: Vec<Size>,
    /// Units of the caches. Empty: both, if the trace has sizes.
    pub units: Vec<Unit>,
    /// Values of each knob, in the order of [`KNOBS`].
    pub knobs: [Vec<String>; KNOBS.len()],
    /// Number of replays over which the median CPU time is taken.
    pub repeats: usize,
    /// Seed of all random decisions.
    pub seed: u64,
}

impl Options {
    /// Checks the names of all policies before a trace is read.
    ///
    /// # Errors
    /// A name or a knob that does not exist, or no repeats.
    pub fn check(&self) -> Result<(), String> {
        if self.repeats == 0 {
            return Err("the number of repeats must be above 0".into());
        }
        let named = |name: &str| match name.parse::<Contestant>() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{name}: {error}")),
        };
        let names = self.policies.iter().chain(&self.engines);
        names.map(String::as_str).try_for_each(named)?;
        for ((knob, _), values) in KNOBS.iter().zip(&self.knobs) {
            for value in values {
                named(&plan::with(knob, FOLLOWER, value))?;
            }
        }
        Ok(())
    }

    fn has(&self, round: Round) -> bool {
        self.rounds.contains(&round)
    }
}

/// Properties of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Extent {
    /// Name of the trace.
    pub name: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of distinct objects.
    pub objects: u64,
    /// Bytes of all objects, if the trace has sizes.
    pub bytes: Option<u64>,
    /// Milliseconds from the first request to the last, at 1,000 requests a second if the trace has
    /// no times.
    pub span_ms: u64,
}

impl Extent {
    fn of(columns: &Columns) -> Extent {
        Extent {
            name: columns.name().into(),
            requests: columns.len() as u64,
            objects: columns.objects() as u64,
            bytes: columns.has_sizes().then(|| columns.footprint_bytes()),
            span_ms: columns.span_ms(plan::gap_ms(columns)),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extent {
            name,
            requests,
            objects,
            bytes,
            span_ms,
        } = self;
        let seconds = *span_ms as f64 / 1e3;
        write!(
            f,
            "{name}: {requests} requests in {seconds:.0} s for {objects} objects"
        )?;
        match bytes {
            Some(bytes) => write!(f, " of {:.1} MiB", *bytes as f64 / f64::from(1 << 20)),
            None => Ok(()),
        }
    }
}

/// Results of all traces.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The traces, in their order.
    pub traces: Vec<Extent>,
    /// One row for each replay of a figure, in the order of the plans.
    pub rows: Vec<Row>,
    /// Replays that could not be made.
    pub left_out: Vec<String>,
}

impl Report {
    /// The rows of a study.
    fn of(&self, study: Study) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.study == study)
    }
}
