//! Results of a study: one row per run, one per failure, and the claims checked against them.

use super::found::RunResult;
use serde::Serialize;

/// Result of one run of a study.
#[derive(Clone, Debug, Serialize)]
pub struct RunRow {
    /// Number of servers.
    pub servers: usize,
    /// Total disk size as given.
    pub size: String,
    /// Total disk size in bytes.
    pub capacity: u64,
    /// Eviction policy of each disk, or the order that replaces it.
    pub policy: String,
    /// Coordination of the servers.
    pub coordination: &'static str,
    /// Measurements of the run.
    #[serde(flatten)]
    pub found: RunResult,
}

/// Effect of a failure, compared with the same run without it.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Redundancy scheme.
    pub scheme: String,
    /// Number of servers that failed at the same time.
    pub down: usize,
    /// Relative increase of misses in each window after the failure, as a mean over runs in which
    /// different servers fail. `None` where nothing is missed without the failure. Empty if the
    /// trace ends before the failure.
    pub rises: Vec<Option<f64>>,
    /// Smallest and largest increase in the first window.
    pub first_range: Option<(f64, f64)>,
    /// Misses in the first window without the failure.
    pub first_missed: u64,
    /// Relative increase of misses in the first window, over all runs, counting only objects of
    /// which the failed servers kept a part.
    pub first_affected_rise: Option<f64>,
    /// Misses of the objects in `first_affected_rise` in the same window of runs without the
    /// failure, over all runs.
    pub affected_misses: u64,
    /// Number of runs, each with other failed servers.
    pub runs: usize,
}

/// Results of a study.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// Name of the trace.
    pub trace: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of objects.
    pub objects: u64,
    /// Bytes of all objects.
    pub footprint_bytes: u64,
    /// Bytes of the largest object.
    pub largest_bytes: u64,
    /// Name of the base size, which all runs except the sweep and the co-residency runs use.
    pub base: String,
    /// Length of a window in milliseconds.
    pub window_ms: u64,
    /// Runs by scheme, size and number of servers.
    pub sweep: Vec<RunRow>,
    /// Failures by scheme and number of failed servers.
    pub failures: Vec<Failure>,
    /// Runs by scheme, under the given outages.
    pub outages: Vec<RunRow>,
    /// Runs by policy, size and placement, with hits sent to all chunks, because theorem 1 of the
    /// thesis assumes that.
    pub co_residency: Vec<RunRow>,
    /// Runs by policy and coordination.
    pub coordination: Vec<RunRow>,
    /// Claims of the thesis, checked.
    pub claims: Vec<Claim>,
    /// Requests per second of CPU time, over all runs.
    pub requests_per_second: f64,
}

/// A claim and whether it holds.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The claim as a sentence.
    pub claim: String,
    /// The value found.
    pub found: f64,
    /// The value found, as text.
    pub shown: String,
    /// Whether the value is within the limit of the claim.
    pub holds: bool,
}
