//! What a workload is like: one pass over a trace of any length, in bounded memory.
//!
//! The measures are those of the Twitter study (Yang, "Designing Efficient and Scalable Key-value Cache
//! Management Systems", CMU 2024, chapter 3 and section 8.2). Sums over requests are exact. What needs
//! memory per object is exact as long as all objects fit the bound, and told of a uniform sample of the
//! keys after that; [`Analysis::sampling`] says which, and how far off it may be.
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
pub use windows::{OverTime, Spike, State, WindowRow};

use clock::{Clock, Moment};
use distribution::Distribution;
use lifetimes::Lifetimes;
use objects::{Objects, hash_of};
use one_hit::OneHit;
use patterns::PatternFinder;
use popularity::Hot;
use serde::Serialize;
use trace::{Op, Request};
use windows::Windows;

/// Objects that are followed by default: about 250 MiB.
pub const OBJECTS_DEFAULT: usize = 1_800_000;
/// Requests that may come before the first one with a time: by then the trace has none.
const UNTIMED: usize = 1 << 17;
/// Requests whose objects are looked up together.
const BATCH: usize = 64;
/// A trace with more writes than this is write-heavy, as the study has it.
const WRITE_HEAVY: f64 = 0.3;

/// One operation's part of the trace.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OpShare {
    /// Its name.
    pub op: &'static str,
    /// Its requests.
    pub requests: u64,
    /// Its share of all requests.
    pub share: f64,
}

/// Reads and writes.
#[derive(Clone, Debug, Serialize)]
pub struct Operations {
    /// The operations that occur, the most frequent first.
    pub shares: Vec<OpShare>,
    /// The share of writes: set, add, replace, cas, append, prepend, incr, decr.
    pub write_ratio: f64,
    /// Whether it is above 0.3, which the study calls write-heavy.
    pub is_write_heavy: bool,
}

/// Sizes, in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Of the object asked for, by request.
    pub by_request: Option<Quantiles>,
    /// Of objects, each once, with its last size.
    pub by_object: Option<Quantiles>,
    /// Of keys, by request; where the trace tells.
    pub keys: Option<Quantiles>,
    /// Of values, by request; where the trace tells them apart from keys.
    pub values: Option<Quantiles>,
    /// Mean value size over mean key size.
    pub value_to_key: Option<f64>,
    /// The share of objects whose size changes.
    pub changing_share: f64,
}

/// When objects are asked for again.
#[derive(Clone, Debug, Serialize)]
pub struct Reuse {
    /// Requests between two for the same object.
    pub gap_requests: Option<Quantiles>,
    /// Milliseconds since the request before for the same object (reuse age).
    pub age_ms: Option<Quantiles>,
    /// Milliseconds since the object's first request, at each later one (access age).
    pub access_age_ms: Option<Quantiles>,
}

/// How far the results may be trusted.
#[derive(Clone, Debug, Serialize)]
pub struct Sampling {
    /// One in so many keys was followed.
    pub one_in: u64,
    /// Keys followed.
    pub followed: usize,
    /// The standard error of counts of objects, relative.
    pub error: f64,
}

/// All that one pass finds.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// Requests.
    pub requests: u64,
    /// Distinct objects; exact when every object was followed.
    pub objects: f64,
    /// Bytes of all distinct objects.
    pub footprint_bytes: f64,
    /// From the first request to the last, milliseconds; `None` where the trace has no time.
    pub span_ms: Option<u64>,
    /// What the trace does not tell, and what is therefore left out.
    pub missing: Vec<String>,
    /// What was odd about its time.
    pub time_faults: TimeFaults,
    /// How far the results may be trusted.
    pub sampling: Sampling,
    /// Reads and writes; `None` where the trace has reads only.
    pub operations: Option<Operations>,
    /// Rates, working sets and sizes over time.
    pub over_time: OverTime,
    /// TTLs and lives.
    pub ttls: Option<Ttls>,
    /// How requests spread over objects.
    pub popularity: Popularity,
    /// Sizes; `None` where the trace has none.
    pub sizes: Option<Sizes>,
    /// How size, popularity and TTL go together.
    pub relations: Relations,
    /// When objects are asked for again.
    pub reuse: Reuse,
    /// One-hit wonders.
    pub one_hit_wonders: OneHitWonders,
    /// Scans and loops.
    pub patterns: Patterns,
}

/// Takes requests one by one.
pub struct Analyzer {
    /// Requests that wait for their batch to be full, or for the first that has a time.
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
    hot: Hot,
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
    /// Follows at most `objects` objects, some 140 bytes each; a sample of the keys when there are more.
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
            hot: Hot::default(),
            lifetimes: Lifetimes::default(),
            one_hit: OneHit::default(),
            patterns: PatternFinder::default(),
        }
    }

    /// Tells of the next request.
    pub fn push(&mut self, request: &Request) {
        self.waiting.push(*request);
        if self.windows.is_some() {
            if self.waiting.len() == BATCH {
                self.take_waiting();
            }
        } else if request.time_ms > 0 || self.waiting.len() == UNTIMED {
            self.settle(request.time_ms > 0);
        }
    }

    /// It is clear whether the trace has time.
    fn settle(&mut self, has_time: bool) {
        self.windows = Some(Windows::new(has_time));
        self.take_waiting();
    }

    /// Takes all requests that wait, a batch at a time: first all look-ups, then all that hangs on
    /// them. What a look-up costs is waiting for memory, and the processor waits for many at once when
    /// nothing depends on the one before.
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

    /// What is told of single objects.
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

    /// The result; `None` for a trace without requests.
    pub fn finish(mut self) -> Option<Analysis> {
        match self.windows.is_some() {
            true => self.take_waiting(),
            false => self.settle(false),
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

/// Whether the study counts it as a write.
fn is_write(op: Op) -> bool {
    !op.is_read() && op != Op::Delete
}

/// How much there is, over all objects.
fn state(objects: &Objects, bytes: f64, lifetimes: &Lifetimes, now_ms: u64) -> State {
    let weight = objects.weight() as f64;
    let (live_objects, live_bytes) = lifetimes.live_at(now_ms);
    State {
        total_objects: objects.list.len() as f64 * weight,
        total_bytes: bytes * weight,
        live_objects: live_objects * weight,
        live_bytes: live_bytes * weight,
    }
}

/// What was learnt of sizes; `told` are those of requests, keys and values.
fn sizes_of(told: (&Distribution, &Distribution, &Distribution), objects: &Objects) -> Sizes {
    let mut by_object = Distribution::default();
    let mut changing = 0;
    for object in &objects.list {
        by_object.record(u64::from(object.size), 1);
        changing += usize::from(object.changed_size);
    }
    let (keys, values) = (told.1.summary(), told.2.summary());
    let value_to_key = keys
        .as_ref()
        .zip(values.as_ref())
        .map(|(k, v)| v.mean / k.mean.max(1.0));
    Sizes {
        by_request: told.0.summary(),
        by_object: by_object.summary(),
        keys,
        values,
        value_to_key,
        changing_share: changing as f64 / objects.list.len().max(1) as f64,
    }
}

/// What the trace does not tell.
fn missing(has_time: bool, sizes: Option<&Sizes>, has_ttls: bool, has_ops: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if !has_time {
        missing.push("time: no rates, ages or spans; windows are counted in requests".into());
    }
    match sizes {
        None => missing.push("sizes: bytes count as objects".into()),
        Some(sizes) if sizes.keys.is_none() => {
            missing.push("key sizes: only whole objects are told".into());
        }
        Some(_) => {}
    }
    if !has_ttls {
        missing.push("TTLs: nothing expires, the effective working set is the whole".into());
    }
    if !has_ops {
        missing.push("operations: every request counts as a read".into());
    }
    missing
}
