//! Scans and loops.
//!
//! A *scan* requests many objects in a row that are new or whose keys are consecutive numbers. A
//! *loop* requests the same objects in the same order again: each object has the same successor as
//! last time.

use super::objects::Object;
use serde::Serialize;

/// Minimum length of a run of first requests or consecutive keys that counts as a scan.
const RUN: u64 = 32;
/// Share of the requests above which a scan is reported.
const NOTABLE: f64 = 0.1;
/// Share of requests with the same successor as last time above which the trace counts as a loop. A
/// random order has nearly none; a few hot objects that alternate have some.
const LOOPING: f64 = 0.5;

/// Runs of consecutive requests with a common property.
#[derive(Default)]
struct Runs {
    current: u64,
    /// Requests in runs of at least [`RUN`].
    requests: u64,
    longest: u64,
}

impl Runs {
    #[inline]
    fn push(&mut self, goes_on: bool) {
        if goes_on {
            self.current += 1;
            return;
        }
        self.end();
    }

    fn end(&mut self) {
        if self.current >= RUN {
            self.requests += self.current;
        }
        self.longest = self.longest.max(self.current);
        self.current = 0;
    }
}

/// Results about scans and loops.
#[derive(Clone, Debug, Serialize)]
pub struct Patterns {
    /// Share of requests in runs of 32 or more with consecutive keys.
    pub sequential_share: f64,
    /// Requests of the longest such run.
    pub sequential_longest: u64,
    /// Share of requests in runs of 32 or more for new objects; `None` if objects are sampled.
    pub first_run_share: Option<f64>,
    /// Requests of the longest such run; `None` if objects are sampled.
    pub first_run_longest: Option<u64>,
    /// Share of the requests for known objects that are followed by the same object as last time.
    pub successor_share: f64,
    /// Summary sentence.
    pub verdict: String,
}

/// Detects patterns.
#[derive(Default)]
pub(crate) struct PatternFinder {
    last_key: Option<u64>,
    /// Index of the last requested object, if it is in the sample.
    pub last_object: Option<usize>,
    sequential: Runs,
    firsts: Runs,
    followed: u64,
    repeated: u64,
    requests: u64,
}

impl PatternFinder {
    /// Adds a request, before its object becomes `last_object`.
    #[inline]
    pub fn push(
        &mut self,
        key: u64,
        hash: u64,
        is_first: bool,
        objects: &mut [Object],
        weight: u64,
    ) {
        self.requests += 1;
        let follows = self.last_key.and_then(|last| last.checked_add(1)) == Some(key);
        self.sequential.push(follows);
        self.last_key = Some(key);
        self.firsts.push(is_first);
        let Some(last) = self.last_object.and_then(|at| objects.get_mut(at)) else {
            return;
        };
        let successor = (hash >> 32) as u32;
        if last.has_successor {
            self.followed += weight;
            self.repeated += weight * u64::from(last.successor == successor);
        }
        last.successor = successor;
        last.has_successor = true;
    }

    /// Returns the result.
    pub fn finish(mut self, is_exact: bool) -> Patterns {
        self.sequential.end();
        self.firsts.end();
        let requests = self.requests.max(1) as f64;
        let sequential_share = self.sequential.requests as f64 / requests;
        let first_run_share = is_exact.then(|| self.firsts.requests as f64 / requests);
        let successor_share = self.repeated as f64 / self.followed.max(1) as f64;
        let is_scan = sequential_share.max(first_run_share.unwrap_or(0.0)) > NOTABLE;
        let is_loop = successor_share > LOOPING;
        let verdict = match (is_scan, is_loop) {
            (true, true) => "scans, and loops that repeat the same order",
            (true, false) => "scans: long runs of new objects or consecutive keys",
            (false, true) => "loops: most objects have the same successor as before",
            (false, false) => "no notable scans or loops",
        };
        Patterns {
            sequential_share,
            sequential_longest: self.sequential.longest,
            first_run_share,
            first_run_longest: is_exact.then_some(self.firsts.longest),
            successor_share,
            verdict: verdict.into(),
        }
    }
}
