//! Results of a study: one row a run, one a failure, and the claims checked against them.

use super::found::Found;
use serde::Serialize;

/// A run and what it found.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// How many servers.
    pub servers: usize,
    /// The size as given.
    pub size: String,
    /// The same in bytes.
    pub capacity: u64,
    /// Each disk's policy, or in what order it gives up instead.
    pub policy: String,
    /// What servers tell each other.
    pub told: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub found: Found,
}

/// What happened when servers went, against the same run in which none did.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// How objects were kept.
    pub scheme: String,
    /// How many servers went at once.
    pub down: usize,
    /// By window from the failure on: how much more was missed, of what was missed without it; the mean
    /// over runs in which different servers went. None where nothing is missed without; empty where the
    /// trace ends before.
    pub rises: Vec<Option<f64>>,
    /// The least and the most of the first window.
    pub first_range: Option<(f64, f64)>,
    /// How many requests are missed in the first window without the failure.
    pub first_missed: u64,
    /// The rise in the first window of the requests alone for objects of which the servers that went kept a
    /// part; of all runs together.
    pub first_of_own: Option<f64>,
    /// How many of these are missed without the failure; all runs together.
    pub own_missed: u64,
    /// In how many runs servers went, different ones in each.
    pub runs: usize,
}

/// What a study found.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// The trace.
    pub trace: String,
    /// Its requests and objects, and the bytes of these.
    pub requests: u64,
    /// See above.
    pub objects: u64,
    /// See above.
    pub footprint_bytes: u64,
    /// The largest object.
    pub largest_bytes: u64,
    /// The size of the runs that have one only.
    pub base: String,
    /// How long a window is.
    pub window_ms: u64,
    /// By scheme, size and number of servers.
    pub sweep: Vec<Row>,
    /// By scheme and number of failures.
    pub failures: Vec<Failure>,
    /// By scheme, under the outages given.
    pub outages: Vec<Row>,
    /// By policy, size and placement: hits are told to all chunks, as the theorem has it.
    pub together: Vec<Row>,
    /// By policy and coordination.
    pub coordination: Vec<Row>,
    /// Whether what the thesis claims holds here.
    pub claims: Vec<Claim>,
    /// Requests a second of processor time, all runs together.
    pub requests_per_second: f64,
}

/// A claim and whether it holds.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What is claimed, in words.
    pub claim: String,
    /// What was found.
    pub found: f64,
    /// The same in words.
    pub shown: String,
    /// Whether it holds.
    pub holds: bool,
}
