//! Workload analysis: one pass over a trace of any length in bounded memory.
//!
//! The measures are those of the Twitter study (Yang, "Designing Efficient and Scalable Key-value
//! Cache Management Systems", CMU 2024, chapter 3 and section 8.2). Sums over requests are exact.
//! Results that need memory per object are exact as long as all objects fit the bound. After that
//! they come from a uniform sample of the keys; [`Analysis::sampling`] reports which, and the
//! error.
//!
//! Start with [`Analyzer`].

mod clock;
mod distribution;
pub mod findings;
mod lifetimes;
mod objects;
mod one_hit;
mod page;
mod patterns;
mod popularity;
mod relations;
mod windows;

pub use clock::TimeFaults;
pub use distribution::Quantiles;
pub use lifetimes::{TtlShare, Ttls};
pub use one_hit::{OneHitPoint, OneHitWonders};
pub use patterns::Patterns;
pub use popularity::{Popularity, TopObject, ZipfFit};
pub use relations::{Correlation, Relations};
pub use windows::{OverTime, Spike, WindowRow, WorkingSet};

use clock::{Clock, Moment};
use distribution::Distribution;
use lifetimes::Lifetimes;
use objects::{Objects, hash_of};
use one_hit::OneHit;
use patterns::PatternFinder;
use popularity::HeavyHitters;
use serde::Serialize;
use trace::{Op, Request};
use windows::Windows;

/// Default number of objects to track, which take about 250 MiB.
pub const OBJECTS_DEFAULT: usize = 1_800_000;
/// Number of requests without a timestamp after which the trace is treated as one without
/// timestamps.
const UNTIMED: usize = 1 << 17;
/// Number of requests whose objects are looked up together.
const BATCH: usize = 64;
/// Share of writes above which the Twitter study calls a trace write-heavy.
const WRITE_HEAVY: f64 = 0.3;

/// Requests of one operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OpShare {
    /// Name of the operation.
    pub op: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Share of all requests.
    pub share: f64,
}

/// Reads and writes of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Operations {
    /// Operations that occur, the most frequent first.
    pub shares: Vec<OpShare>,
    /// Share of writes: set, add, replace, cas, append, prepend, incr, decr.
    pub write_ratio: f64,
    /// Whether the share of writes is above 0.3, which the Twitter study calls write-heavy.
    pub is_write_heavy: bool,
}

/// Distributions of sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Size of the requested object, by request.
    pub by_request: Option<Quantiles>,
    /// Last size of each object.
    pub by_object: Option<Quantiles>,
    /// Size of keys, by request; `None` if the trace does not record it.
    pub keys: Option<Quantiles>,
    /// Size of values, by request; `None` if the trace does not record keys separately.
    pub values: Option<Quantiles>,
    /// Mean value size divided by mean key size.
    pub value_to_key: Option<f64>,
    /// Share of objects whose size changes.
    pub changing_share: f64,
}

/// Distances between requests for the same object.
#[derive(Clone, Debug, Serialize)]
pub struct Reuse {
    /// Requests between two requests for the same object.
    pub gap_requests: Option<Quantiles>,
    /// Milliseconds since the previous request for the same object (reuse age).
    pub age_ms: Option<Quantiles>,
    /// Milliseconds since the object's first request, at each later request (access age).
    pub access_age_ms: Option<Quantiles>,
}

/// Sampling of objects, which limits the accuracy of results.
#[derive(Clone, Debug, Serialize)]
pub struct Sampling {
    /// The sample has one in this number of keys.
    pub one_in: u64,
    /// Number of tracked keys.
    pub followed: usize,
    /// Relative standard error of estimated numbers of objects.
    pub error: f64,
}

/// Result of an analysis.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// Number of requests.
    pub requests: u64,
    /// Number of distinct objects; exact if every object was tracked.
    pub objects: f64,
    /// Total bytes of all distinct objects.
    pub footprint_bytes: f64,
    /// Milliseconds from the first request to the last; `None` if the trace has no timestamps.
    pub span_ms: Option<u64>,
    /// Properties that the trace does not record, each with the results that are missing for this
    /// reason.
    pub missing: Vec<String>,
    /// Irregularities of the timestamps.
    pub time_faults: TimeFaults,
    /// Sampling of objects.
    pub sampling: Sampling,
    /// Reads and writes; `None` if the trace has reads only.
    pub operations: Option<Operations>,
    /// Rates, working sets and sizes over time.
    pub over_time: OverTime,
    /// TTLs and lifetimes.
    pub ttls: Option<Ttls>,
    /// Distribution of requests over objects.
    pub popularity: Popularity,
    /// Sizes; `None` if the trace has none.
    pub sizes: Option<Sizes>,
    /// Correlations of size, popularity and TTL.
    pub relations: Relations,
    /// Distances between requests for the same object.
    pub reuse: Reuse,
    /// One-hit wonders.
    pub one_hit_wonders: OneHitWonders,
    /// Scans and loops.
    pub patterns: Patterns,
}

/// Analyzes requests one by one.
pub struct Analyzer {
    /// Requests that wait for a full batch, or for the first request with a timestamp.
    waiting: Vec<Request>,
    windows: Option<Windows>,
    clock: Clock,
    requests: u64,
    ops: [u64; Op::ALL.len()],
    has_sizes: bool,
    sizes: Distribution,
    key_sizes: Distribution,
    value_sizes: Distribution,
    gaps: Distribution,
    ages: Distribution,
    access_ages: Distribution,
    objects: Objects,
    sample_bytes: f64,
    hot: HeavyHitters,
    lifetimes: Lifetimes,
    one_hit: OneHit,
    patterns: PatternFinder,
}

impl Default for Analyzer {
    fn default() -> Self {
        Analyzer::new(OBJECTS_DEFAULT)
    }
}

impl Analyzer {
    /// Tracks at most `objects` objects, at about 140 bytes each; a sample of the keys if there are
    /// more.
    pub fn new(objects: usize) -> Self {
        Analyzer {
            waiting: Vec::new(),
            windows: None,
            clock: Clock::default(),
            requests: 0,
            ops: [0; Op::ALL.len()],
            has_sizes: false,
            sizes: Distribution::default(),
            key_sizes: Distribution::default(),
            value_sizes: Distribution::default(),
            gaps: Distribution::default(),
            ages: Distribution::default(),
            access_ages: Distribution::default(),
            objects: Objects::new(objects),
            sample_bytes: 0.0,
            hot: HeavyHitters::default(),
            lifetimes: Lifetimes::default(),
            one_hit: OneHit::default(),
            patterns: PatternFinder::default(),
        }
    }

    /// Adds the next request.
    pub fn push(&mut self, request: &Request) {
        self.waiting.push(*request);
        if self.windows.is_some() {
            if self.waiting.len() == BATCH {
                self.take_waiting();
            }
        } else if request.time_ms > 0 || self.waiting.len() == UNTIMED {
            self.decide_time(request.time_ms > 0);
        }
    }

    /// Decides whether the trace has timestamps, and processes the pending requests.
    fn decide_time(&mut self, has_time: bool) {
        self.windows = Some(Windows::new(has_time));
        self.take_waiting();
    }

    /// Processes the pending requests in batches: first all look-ups of a batch, then the work that
    /// depends on them. Most of a look-up is a wait for memory, and independent look-ups wait in
    /// parallel.
    fn take_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for batch in waiting.chunks(BATCH) {
            if self.objects.is_full() {
                self.thin();
            }
            let mut hashes = [0; BATCH];
            for (hash, request) in hashes.iter_mut().zip(batch) {
                *hash = hash_of(request.key);
            }
            self.objects.touch(&hashes[..batch.len()]);
            for (request, hash) in batch.iter().zip(hashes) {
                self.take(request, hash);
            }
        }
        self.waiting = waiting;
        self.waiting.clear();
        self.waiting.shrink_to(BATCH);
    }

    fn take(&mut self, request: &Request, hash: u64) {
        let now = self.clock.advance(request.time_ms);
        self.count_in_window(request, now, hash);
        self.requests += 1;
        self.ops[request.op as usize] += 1;
        self.one_hit.push(hash);
        self.hot.push(request.key);
        if request.size != 1 {
            self.has_sizes = true;
        }
        self.sizes.record(u64::from(request.size), 1);
        if request.key_size > 0 {
            self.key_sizes.record(u64::from(request.key_size), 1);
            self.value_sizes.record(u64::from(request.value_size), 1);
        }
        self.follow(request, now, hash);
    }

    fn count_in_window(&mut self, request: &Request, now: Moment, hash: u64) {
        let Some(windows) = &mut self.windows else {
            return;
        };
        let position = windows.position(now.active_ms, self.requests);
        if windows.is_beyond(position) {
            let state = state(&self.objects, self.sample_bytes, &self.lifetimes, now.ms);
            windows.open(position, state);
        }
        windows.record(hash, request.size, is_write(request.op));
    }

    /// Updates the statistics of the request's object, if it is in the sample.
    fn follow(&mut self, request: &Request, now: Moment, hash: u64) {
        let weight = self.objects.weight();
        let visit = self.objects.visit(request.key, hash);
        let is_first = visit.is_some_and(|(_, is_new)| is_new);
        let list = &mut self.objects.list;
        self.patterns
            .push(request.key, hash, is_first, list, weight);
        self.patterns.last_object = visit.map(|(at, _)| at);
        let Some((at, is_new)) = visit else { return };
        let object = &mut list[at];
        if is_new {
            object.first_ms = now.ms;
            object.size = request.size;
            self.sample_bytes += f64::from(request.size);
        } else {
            self.gaps.record(self.requests - object.last_number, weight);
            self.ages.record(now.ms - object.last_ms, weight);
            self.access_ages.record(now.ms - object.first_ms, weight);
            if request.size != object.size && request.op != Op::Delete {
                object.changed_size = true;
                self.sample_bytes += f64::from(request.size) - f64::from(object.size);
            }
        }
        object.last_ms = now.ms;
        object.last_number = self.requests;
        object.requests = object.requests.saturating_add(1);
        self.lifetimes.push(object, request, now.ms, weight);
    }

    fn thin(&mut self) {
        self.hot.begin(&self.objects);
        let (lifetimes, bytes) = (&mut self.lifetimes, &mut self.sample_bytes);
        self.objects.thin(|object| {
            lifetimes.forget(object);
            *bytes -= f64::from(object.size);
        });
        self.patterns.last_object = None;
    }

    /// Returns the result; `None` for a trace without requests.
    pub fn finish(mut self) -> Option<Analysis> {
        match self.windows.is_some() {
            true => self.take_waiting(),
            false => self.decide_time(false),
        }
        let windows = self.windows.take()?;
        if self.requests == 0 {
            return None;
        }
        let has_time = windows.is_of_time();
        let now_ms = self.clock.now().ms;
        let weight = self.objects.weight();
        let now = state(&self.objects, self.sample_bytes, &self.lifetimes, now_ms);
        let once = self.objects.list.iter().filter(|o| o.requests == 1).count();
        let whole = once as f64 / self.objects.list.len().max(1) as f64;
        let followed = self.objects.list.len();
        let operations = self.operations();
        let ttls = self.lifetimes.finish(&self.objects.list, now_ms, weight);
        let sizes = self.has_sizes.then(|| {
            let sizes = (&self.sizes, &self.key_sizes, &self.value_sizes);
            sizes_of(sizes, &self.objects)
        });
        let timed = |d: &Distribution| d.summary().filter(|_| has_time);
        Some(Analysis {
            requests: self.requests,
            objects: now.total_objects,
            footprint_bytes: now.total_bytes,
            span_ms: has_time.then_some(now_ms),
            missing: missing(
                has_time,
                sizes.as_ref(),
                ttls.is_some(),
                operations.is_some(),
            ),
            time_faults: self.clock.faults,
            sampling: Sampling {
                one_in: weight,
                followed,
                error: match self.objects.is_exact() {
                    true => 0.0,
                    false => 1.0 / (followed.max(1) as f64).sqrt(),
                },
            },
            operations,
            over_time: windows.finish(now, self.has_sizes),
            ttls,
            popularity: popularity::popularity(&self.objects, &self.hot, self.requests),
            relations: relations::relations(&self.objects.list, self.has_sizes),
            sizes,
            reuse: Reuse {
                gap_requests: self.gaps.summary(),
                age_ms: timed(&self.ages),
                access_age_ms: timed(&self.access_ages),
            },
            one_hit_wonders: self.one_hit.finish(now.total_objects, whole),
            patterns: self.patterns.finish(self.objects.is_exact()),
        })
    }

    fn operations(&self) -> Option<Operations> {
        let total = self.requests as f64;
        let mut shares: Vec<OpShare> = Op::ALL
            .into_iter()
            .map(|op| OpShare {
                op: op.name(),
                requests: self.ops[op as usize],
                share: self.ops[op as usize] as f64 / total,
            })
            .filter(|share| share.requests > 0)
            .collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.requests));
        let writes = |op: &Op| is_write(*op).then_some(self.ops[*op as usize]);
        let write_ratio = Op::ALL.iter().filter_map(writes).sum::<u64>() as f64 / total;
        (self.ops[Op::Get as usize] < self.requests).then_some(Operations {
            shares,
            write_ratio,
            is_write_heavy: write_ratio > WRITE_HEAVY,
        })
    }
}

/// Whether the Twitter study counts the operation as a write.
fn is_write(op: Op) -> bool {
    !op.is_read() && op != Op::Delete
}

/// Number and bytes of all objects and of the unexpired ones.
fn state(objects: &Objects, bytes: f64, lifetimes: &Lifetimes, now_ms: u64) -> WorkingSet {
    let weight = objects.weight() as f64;
    let (live_objects, live_bytes) = lifetimes.live_at(now_ms);
    WorkingSet {
        total_objects: objects.list.len() as f64 * weight,
        total_bytes: bytes * weight,
        live_objects: live_objects * weight,
        live_bytes: live_bytes * weight,
    }
}

/// Summarizes sizes. `requests` are the distributions of objects, keys and values by request.
fn sizes_of(requests: (&Distribution, &Distribution, &Distribution), objects: &Objects) -> Sizes {
    let mut by_object = Distribution::default();
    let mut changing = 0;
    for object in &objects.list {
        by_object.record(u64::from(object.size), 1);
        changing += usize::from(object.changed_size);
    }
    let (keys, values) = (requests.1.summary(), requests.2.summary());
    let value_to_key = keys
        .as_ref()
        .zip(values.as_ref())
        .map(|(k, v)| v.mean / k.mean.max(1.0));
    Sizes {
        by_request: requests.0.summary(),
        by_object: by_object.summary(),
        keys,
        values,
        value_to_key,
        changing_share: changing as f64 / objects.list.len().max(1) as f64,
    }
}

/// Describes what the trace does not record.
fn missing(has_time: bool, sizes: Option<&Sizes>, has_ttls: bool, has_ops: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if !has_time {
        missing.push(
            "timestamps: no rates, ages or durations; windows are counted in requests".into(),
        );
    }
    match sizes {
        None => missing.push("sizes: bytes count as objects".into()),
        Some(sizes) if sizes.keys.is_none() => {
            missing.push("key sizes: only sizes of whole objects are reported".into());
        }
        Some(_) => {}
    }
    if !has_ttls {
        missing.push("TTLs: nothing expires, so the working set includes all objects".into());
    }
    if !has_ops {
        missing.push("operations: every request counts as a read".into());
    }
    missing
}
