//! Rules of a replay.

use policy::Tick;
use policy::admit::any::AdmitSpec;
use policy::expire::any::ExpirySpec;
use serde::Serialize;

/// Unit of cache sizes and weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Each object weighs 1.
    Objects,
    /// Each object weighs its size in bytes.
    Bytes,
}

impl Unit {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Objects => "objects",
            Unit::Bytes => "bytes",
        }
    }
}

/// Which entries an oracle removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// Entries whose object is not requested again.
    Unrequested,
    /// Entries whose object is not requested again, or not before their deadline.
    Expiring,
}

/// Rules of a replay, independent of policy and size.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Unit of the cache size.
    pub unit: Unit,
    /// Number of requests at the start that are not counted.
    pub warm_up: usize,
    /// Index that finds expired entries.
    pub expiry: ExpirySpec,
    /// Filter that a missed object must pass before the policy is called.
    pub admission: Option<AdmitSpec>,
    /// Whether writes count as requests that hit or miss. They insert in any case.
    pub counts_writes: bool,
    /// Whether an entry takes the size of a later request. Otherwise it keeps its size at
    /// insertion.
    pub follows_sizes: bool,
    /// Largest share of the cache that an object may take; a larger object is not inserted.
    pub largest_share: f64,
    /// Bytes that each entry of a policy takes in addition to its object, counted against the cache
    /// size. The segment engine counts its own overhead.
    pub overhead: u32,
    /// Whether TTLs are ignored, so that nothing expires.
    pub ignores_ttls: bool,
    /// Milliseconds between two requests, instead of the trace's timestamps.
    pub gap_ms: Option<f64>,
    /// Whether to compute the statistics that explain the miss ratio (see [`crate::Explained`]).
    pub explains: bool,
    /// Features hidden from learned models, by their positions in the policy's feature rows, to
    /// measure what they contribute.
    pub hidden_features: Vec<usize>,
    /// Oracle that removes entries that will not be hit, in replays of policies.
    pub foresight: Option<Foresight>,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Maximum bytes of memory of the trace and the replays. Fewer replays run in parallel if they
    /// would need more.
    pub memory_limit: u64,
}

impl Rules {
    /// Returns the time of request `index`, where `before` is the time of the one before and
    /// `gap_ms` reads the time between them from the trace.
    #[inline(always)]
    pub(crate) fn time_after(
        &self,
        before: Tick,
        index: usize,
        gap_ms: impl FnOnce() -> u64,
    ) -> Tick {
        match self.gap_ms {
            Some(gap_ms) => Tick((index as f64 * gap_ms) as u64),
            None => Tick(before.0 + gap_ms()),
        }
    }
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
            foresight: None,
            seed: 1,
            memory_limit: u64::MAX,
        }
    }
}
