//! Scans and loops.
//!
//! A *scan* asks for many objects one after the other that were never asked for before, or whose
//! numbers follow each other. A *loop* asks for the same objects in the same order again: what
//! followed an object last time follows it now.

use super::objects::Object;
use serde::Serialize;

/// The shortest run of first requests, or of consecutive numbers, that counts as a scan.
const RUN: u64 = 32;
/// Above this share of the requests a pattern is worth a sentence.
const NOTABLE: f64 = 0.1;
/// Above this share of repeated successors the trace loops; a random order has nearly none, and a few
/// hot objects that take turns have some.
const LOOPING: f64 = 0.5;

/// Runs of requests that have something in common.
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

/// What was found of scans and loops.
#[derive(Clone, Debug, Serialize)]
pub struct Patterns {
    /// The share of requests in runs of 32 or more whose keys are consecutive numbers.
    pub sequential_share: f64,
    /// The longest such run, requests.
    pub sequential_longest: u64,
    /// The share of requests in runs of 32 or more that ask for objects never asked for before; `None`
    /// where objects are sampled.
    pub first_run_share: Option<f64>,
    /// The longest such run, requests.
    pub first_run_longest: Option<u64>,
    /// Of the requests for objects seen before, the share that is followed by the same object as last
    /// time.
    pub successor_share: f64,
    /// What follows from these, in words.
    pub verdict: String,
}

/// Looks for patterns as requests go by.
#[derive(Default)]
pub(crate) struct PatternFinder {
    last_key: Option<u64>,
    /// The index of the object asked for last, where it is in the sample.
    pub last_object: Option<usize>,
    sequential: Runs,
    firsts: Runs,
    followed: u64,
    repeated: u64,
    requests: u64,
}

impl PatternFinder {
    /// Tells of a request, before its object becomes `last_object`.
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

    /// The result.
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
            (true, true) => "scans, and the same orders come again: loops",
            (true, false) => "scans: long runs of objects that are new or neighbours",
            (false, true) => "loops: what followed an object mostly follows it again",
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
