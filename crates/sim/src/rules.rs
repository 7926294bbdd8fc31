//! How a trace is replayed, and what comes of it.

use policy::admit::any::AdmitSpec;
use policy::expire::any::ExpirySpec;
use serde::Serialize;

/// What a cache counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Each object is 1.
    Objects,
    /// Objects weigh what the trace says.
    Bytes,
}

impl Unit {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Objects => "objects",
            Unit::Bytes => "bytes",
        }
    }
}

/// How a trace is replayed, whatever the policy and the size.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What a cache counts.
    pub unit: Unit,
    /// How many requests at the start count for nothing.
    pub warm_up: usize,
    /// The index that finds what has expired.
    pub expiry: ExpirySpec,
    /// The filter that a miss must pass before the policy hears of it.
    pub admission: Option<AdmitSpec>,
    /// Whether writes count as requests that hit or miss; they insert in any case.
    pub counts_writes: bool,
    /// Whether an entry takes the size that a later request tells; else the one it came with.
    pub follows_sizes: bool,
    /// The share of the cache that an object may take; a larger one is not inserted.
    pub largest_share: f64,
    /// Bytes that each entry of a policy takes beside its object, and that count against the size. The segment
    /// engine counts its own.
    pub overhead: u32,
    /// Whether nothing expires, whatever the trace tells.
    pub ignores_ttls: bool,
    /// Milliseconds from one request to the next, instead of what the trace tells.
    pub gap_ms: Option<f64>,
    /// Whether to tell what explains the miss ratio.
    pub explains: bool,
    /// Features that models do not see, by their places among those of the policy: what is it worth to have them?
    pub hidden_features: Vec<usize>,
    /// Determines every decision by chance.
    pub seed: u64,
    /// Bytes that trace and replays may use: fewer run at once where they would need more.
    pub memory_limit: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            unit: Unit::Objects,
            warm_up: 0,
            expiry: ExpirySpec::default(),
            admission: None,
            counts_writes: true,
            follows_sizes: false,
            largest_share: 1.0,
            overhead: 0,
            ignores_ttls: false,
            gap_ms: None,
            explains: false,
            hidden_features: Vec::new(),
            seed: 1,
            memory_limit: u64::MAX,
        }
    }
}
