//! The simulator that some experiments ask. It stands beside this crate, and whoever calls the bench brings it along.

use policy::Lessons;
use serde::Serialize;
use std::time::Duration;
use trace::Request;

/// A simulator of caches over traces.
pub trait Simulator {
    /// The miss ratio of each cache at each size, or `None` where no such cache can be had in so little memory.
    /// Sizes are bytes: of a policy those of its objects, of the segment engine all that it takes.
    ///
    /// # Errors
    /// A cache that is not known, a trace that cannot be replayed: in words.
    fn miss_ratios(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        caches: &[String],
        sizes: &[u64],
    ) -> Result<Vec<Vec<Option<f64>>>, String>;

    /// Whether there is such a cache.
    ///
    /// # Errors
    /// A name or a knob that is not known: in words.
    fn check(&self, cache: &str) -> Result<(), String>;

    /// What models that learn about groups are told of each, in the order of a row.
    fn features(&self) -> Vec<&'static str>;

    /// Takes a trace in, to be replayed as often as is asked; `seed` determines every decision by chance.
    ///
    /// # Errors
    /// A request that cannot be read, a trace too large: in words.
    fn take_in(
        &self,
        name: &str,
        requests: &mut dyn Iterator<Item = Result<Request, trace::Error>>,
        seed: u64,
    ) -> Result<Box<dyn TakenIn>, String>;
}

/// A trace that a simulator holds.
pub trait TakenIn: Sync {
    /// How long it is.
    fn extent(&self) -> Extent;

    /// Replays it once, in this thread; `None` where no such cache can be had in so little memory, or counts what
    /// the order counts. Nothing expires.
    ///
    /// # Errors
    /// What cannot be replayed: in words.
    fn replay(&self, order: &Order) -> Result<Option<Outcome>, String>;
}

/// How long a trace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// Its requests.
    pub requests: u64,
    /// Objects asked for.
    pub objects: u64,
    /// What they weigh, where the trace tells.
    pub bytes: Option<u64>,
    /// Milliseconds by its clock, or at a thousand requests a second where it has none.
    pub span_ms: u64,
}

/// What a cache counts.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Each object is 1
    Objects,
    /// Objects weigh what the trace tells
    Bytes,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Objects => "objects",
            Unit::Bytes => "bytes",
        }
    }
}

/// A replay that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// As the simulator is told: a policy with its knobs, or the segment engine.
    pub cache: String,
    /// What it counts.
    pub unit: Unit,
    /// Its size in that.
    pub capacity: u64,
    /// Requests at the start that count for nothing.
    pub warm_up: u64,
    /// Places of the features that models do not see.
    pub hidden: Vec<usize>,
    /// Whether an entry of a policy takes what it does in a server, as one of the segment engine always does.
    pub has_overhead: bool,
}

/// What a replay found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Requests that count, and how many of them missed.
    pub requests: u64,
    /// See above.
    pub misses: u64,
    /// What their objects weigh in the cache's unit, and those of the misses.
    pub requested_weight: u64,
    /// See above.
    pub missed_weight: u64,
    /// All requests, the warm-up's too, and the CPU time that they took.
    pub replayed: u64,
    /// See above.
    pub cpu_time: Duration,
    /// Entries held at the end, and what the algorithms take beside them.
    pub held: u64,
    /// See above.
    pub metadata_bytes: u64,
    /// Where it learns.
    pub learned: Option<Learning>,
}

/// What was learned in a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Learning {
    /// What it did.
    pub lessons: Lessons,
    /// Whether it trained often enough that the result tells of learning.
    pub is_trained: bool,
    /// CPU time of training and of predictions, which are parts of the replay's.
    pub training_time: Duration,
    /// See above.
    pub inference_time: Duration,
    /// Requests since the last model was learned, at the end.
    pub model_age: Option<u64>,
    /// Bytes for each entry held that are there to learn and to predict alone.
    pub bytes_per_entry: f64,
    /// Rank correlation of what models predicted of rows that they had not seen and what came.
    pub correlation: Option<f64>,
    /// What was predicted and what came in each fifth of these rows, by rising predictions, ÷ the mean of what came.
    pub fifths: Vec<(f64, f64)>,
}
