//! The segment engine over a trace: the code that serves, over a heap of sizes.
//!
//! Its capacity is all the memory that it takes: segments with their tails and what is dead in them, the
//! table, headers, directories. What a policy's capacity counts is the objects alone, unless
//! [`Rules::overhead`] says what each takes beside; so a size that both are given is kinder to the policy.

use crate::columns::Columns;
use crate::cpu::thread_cpu_time;
use crate::learned::{self, Learned};
use crate::result::{Counts, Found};
use crate::rules::{Rules, Unit};
use crate::sweep::in_turn;
use crate::{Error, size};
use learn::{Heard, Tutor, Tutoring};
use policy::{Budget, Tick};
use segment::{
    Condition, Config, Eviction, SEGMENT_BYTES, SEGMENT_BYTES_MIN, Segcache, Sizes, Stats, Writer,
};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::Op;

/// Requests between two reports of progress.
const STRIDE: usize = 1 << 16;
/// Segments that a heap is cut into when their size is not given, as long as they have room for objects.
const SEGMENTS_AIMED: u64 = 256;
/// Bytes of metadata that each object has in a segment.
const METADATA: u32 = 5;
/// Requests ahead of which the table's lines are asked for.
const AHEAD: usize = 8;

/// What may be chosen of the engine: `segcache`, and behind colons `merged=4`, `eviction=rent`,
/// `segment=1mb`, `metadata=5`, `expiry=proactive`.
///
/// `metadata` and `expiry=lazy` are there to tell what the engine's own are worth: with the latter all objects
/// share one chain, dead ones take room until they are evicted, and are a miss all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentsSpec {
    eviction: Eviction,
    merged: u8,
    /// None: by the size of the cache.
    segment_bytes: Option<usize>,
    metadata: u32,
    is_lazy: bool,
}

/// Why a specification was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSegments(String);

impl fmt::Display for BadSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSegments {}

impl SegmentsSpec {
    /// The name in `--policy`.
    pub const NAME: &'static str = "segcache";

    /// Whether a text names the engine, with or without knobs.
    pub fn is_named_by(text: &str) -> bool {
        policy::names::is_same(text.split(':').next().unwrap_or_default(), Self::NAME)
    }

    fn set(&mut self, knob: &str) -> Result<(), String> {
        let (name, value) = knob.split_once('=').ok_or_else(|| {
            format!("'{knob}': expected eviction=, merged=, segment=, metadata= or expiry=")
        })?;
        let whole = || format!("'{value}' is no number that {name} can be");
        match name {
            "eviction" => self.eviction = value.parse().map_err(|e| format!("'{value}': {e}"))?,
            "merged" => self.merged = value.parse().map_err(|_| whole())?,
            "metadata" => self.metadata = value.parse().map_err(|_| whole())?,
            "expiry" => {
                self.is_lazy = match value {
                    "proactive" => false,
                    "lazy" => true,
                    _ => return Err(format!("'{value}': expiry is proactive or lazy")),
                }
            }
            "segment" => {
                let bytes = size::bytes(value).ok_or_else(whole)?;
                self.segment_bytes = Some(usize::try_from(bytes).map_err(|_| whole())?);
            }
            _ => return Err(format!("{} has no knob '{name}'", Self::NAME)),
        }
        Ok(())
    }

    /// Whether such an engine can be had in so much memory.
    pub fn fits(&self, capacity: u64) -> bool {
        Segcache::<Sizes>::new(&self.config(capacity, 0)).is_ok()
    }

    fn config(&self, capacity: u64, seed: u64) -> Config {
        let by_size = (capacity / SEGMENTS_AIMED).max(1).ilog2();
        let by_size = (1usize << by_size).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES);
        Config {
            memory_bytes: capacity,
            segment_bytes: self.segment_bytes.unwrap_or(by_size),
            writers: 1,
            eviction: self.eviction,
            merged: self.merged,
            seed,
            hash_key: [seed, 0],
        }
    }
}

impl FromStr for SegmentsSpec {
    type Err = BadSegments;

    /// ```
    /// use sim::segments::SegmentsSpec;
    /// assert!("segcache".parse::<SegmentsSpec>().is_ok());
    /// assert!("segcache:eviction=fifo:segment=64kb".parse::<SegmentsSpec>().is_ok());
    /// assert!("segcache:eviction=lru".parse::<SegmentsSpec>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, BadSegments> {
        let mut spec = SegmentsSpec {
            eviction: Eviction::Rent,
            merged: 0,
            segment_bytes: None,
            metadata: METADATA,
            is_lazy: false,
        };
        let mut parts = text.split(':');
        if !parts.next().is_some_and(Self::is_named_by) {
            return Err(BadSegments(format!("expected {}", Self::NAME)));
        }
        parts
            .try_for_each(|knob| spec.set(knob))
            .map_err(BadSegments)?;
        Ok(spec)
    }
}

/// Replays the trace for each of these, `jobs` at a time; `done` counts requests.
///
/// # Errors
/// A cache that counts objects, and one too small for its segments.
pub fn sweep(
    columns: &Columns,
    rules: &Rules,
    configurations: &[(SegmentsSpec, u64)],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<Found>, Error> {
    let found = sweep_objects(columns, rules, configurations, jobs, done)?;
    Ok(found.into_iter().map(|(found, _)| found).collect())
}

/// The same, with each object's misses after the warm-up.
pub(crate) fn sweep_objects(
    columns: &Columns,
    rules: &Rules,
    configurations: &[(SegmentsSpec, u64)],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<(Found, Vec<u32>)>, Error> {
    let refused = |problem: String| Error::Segments { problem };
    if rules.unit == Unit::Objects {
        return Err(refused(
            "it is a heap of bytes, and here objects are counted".into(),
        ));
    }
    if rules.admission.is_some() || rules.explains {
        return Err(refused(
            "it takes no admission filter and explains nothing".into(),
        ));
    }
    let mut engines = Vec::new();
    for (spec, capacity) in configurations {
        let config = spec.config(*capacity, rules.seed);
        let engine = Segcache::<Sizes>::new(&config);
        drop(engine.map_err(|error| refused(format!("a cache of {capacity} bytes: {error}")))?);
        engines.push((config, *spec));
    }
    Ok(in_turn(engines.len(), jobs, |index| {
        let (config, spec) = &engines[index];
        Replay::new(columns, rules, config, spec).run(done)
    }))
}

/// An engine on its way through a trace.
struct Replay<'a> {
    columns: &'a Columns,
    rules: &'a Rules,
    cache: Segcache<Sizes>,
    writer: Writer,
    /// Bytes of metadata that each object has beyond its own.
    extra: i64,
    /// By object, where the engine does not know.
    deadlines: Option<Vec<Tick>>,
    now: Tick,
    counts: Counts,
    /// By object.
    misses: Vec<u32>,
    /// Learns in the replay's own time, where the eviction heeds it: when a segment was begun, and when a ranking was
    /// used up, so that equal traces teach the same.
    tutor: Option<Tutor>,
    /// Segments begun when it last did.
    begun: u64,
    /// All of them, those that are not counted included.
    asked: u64,
    missed: u64,
}

impl<'a> Replay<'a> {
    fn new(columns: &'a Columns, rules: &'a Rules, config: &Config, spec: &SegmentsSpec) -> Self {
        let cache = Segcache::new(config).expect("it was tried before");
        learned::begin(&rules.hidden_features);
        let tutoring = Tutoring {
            seed: config.seed,
            maker: learned::maker(),
            ..Tutoring::default()
        };
        let learns = config.eviction.learns();
        let writer = cache.writer().expect("the first");
        Replay {
            columns,
            rules,
            cache,
            writer,
            extra: i64::from(spec.metadata) - i64::from(METADATA),
            deadlines: spec.is_lazy.then(|| vec![Tick::MAX; columns.objects()]),
            now: Tick(0),
            counts: Counts::default(),
            misses: vec![0; columns.objects()],
            tutor: learns.then(|| Tutor::new(&tutoring)),
            begun: 0,
            asked: 0,
            missed: 0,
        }
    }

    fn run(mut self, done: &AtomicU64) -> (Found, Vec<u32>) {
        let before = thread_cpu_time();
        let len = self.columns.len();
        let warm_up = self.rules.warm_up.min(len);
        let mut at_start = (Counts::default(), Stats::default());
        let mut from = 0;
        while from < len {
            let end = if from < warm_up { warm_up } else { len };
            let to = end.min(from + STRIDE);
            for index in from..to {
                self.request(index);
            }
            done.fetch_add((to - from) as u64, Ordering::Relaxed);
            if to == warm_up {
                self.misses.fill(0);
                at_start = (self.counts, self.cache.stats());
            }
            from = to;
        }
        let cpu_time = thread_cpu_time().saturating_sub(before + learned::comparing_time());
        if cfg!(debug_assertions) {
            self.cache.check();
        }
        let misses = std::mem::take(&mut self.misses);
        (self.found(at_start, cpu_time), misses)
    }

    fn found(self, (counts, before): (Counts, Stats), cpu_time: std::time::Duration) -> Found {
        let stats = self.cache.stats();
        let mut counts = self.counts.since(&counts);
        counts.evictions = stats.evicted + stats.crowded_out - before.evicted - before.crowded_out;
        counts.kept = stats.kept - before.kept;
        counts.expirations = stats.expired - before.expired;
        let metadata = stats.items as i64 * (i64::from(METADATA) + self.extra);
        let payload = stats.live_bytes as i64 - metadata;
        Found {
            counts,
            promotions: counts.kept,
            metadata_bytes: stats.overhead_bytes(payload.max(0) as u64),
            held: stats.items,
            replay_bytes: self.cache.content_bytes()
                + stats.segments_table * stats.segment_bytes
                + stats.directory_bytes,
            // A life is rounded down: what is over has left before it was.
            expired_held: 0.0,
            replayed: self.columns.len() as u64,
            cpu_time,
            flash_written: None,
            explained: None,
            learned: self.tutor.map(|tutor| {
                let mut lessons = tutor.lessons();
                lessons.groups_evicted = stats.segments_ranked;
                lessons.learning_bytes += self.cache.learning_bytes();
                Box::new(Learned::of(lessons, self.asked, stats.items))
            }),
        }
    }

    fn request(&mut self, index: usize) {
        let (columns, rules) = (self.columns, self.rules);
        if let Some(&ahead) = columns.ids.get(index + AHEAD) {
            self.cache.prefetch(&self.cache.key(ahead));
        }
        match rules.gap_ms {
            Some(gap_ms) => self.now = Tick((index as f64 * gap_ms) as u64),
            None => self.now.0 += columns.gap_ms(index),
        }
        if self.cache.next_due().is_some_and(|due| due <= self.now) {
            let mut budget = Budget(u32::MAX);
            while self.cache.maintain(&mut self.writer, self.now, &mut budget) {
                budget = Budget(u32::MAX);
            }
        }
        let id = columns.ids[index];
        let key = self.cache.key(id);
        let op = columns.op(index);
        if op == Op::Delete {
            let removed = self.cache.delete(&key, Condition::Always, self.now);
            debug_assert!(removed.is_ok());
            return;
        }
        let size = columns.size(index, id);
        let counted = u64::from(op.is_read() || rules.counts_writes);
        self.counts.requests += counted;
        self.counts.requested_weight += counted * u64::from(size);
        let is_dead = |deadlines: &Vec<Tick>| deadlines[id as usize] < self.now;
        let is_known_dead = self.deadlines.as_ref().is_some_and(is_dead);
        let is_hit = self.cache.contains(&key, self.now) && !is_known_dead;
        self.asked += 1;
        self.missed += u64::from(!is_hit);
        if is_hit && op.is_read() {
            return;
        }
        if !is_hit {
            self.counts.misses += counted;
            self.counts.missed_weight += counted * u64::from(size);
            self.misses[id as usize] += counted as u32;
        }
        // What is written over is appended anew, as it is in a server.
        let bytes = u32::try_from((i64::from(size) + self.extra).max(0)).unwrap_or(u32::MAX);
        let largest = rules.largest_share * self.cache.memory_limit() as f64;
        let is_small = rules.largest_share == 1.0 || f64::from(size) <= largest;
        let mut ttl_ms = match rules.ignores_ttls {
            true => None,
            false => columns.ttl_ms(index, id),
        };
        if let Some(deadlines) = &mut self.deadlines {
            let deadline = ttl_ms
                .take()
                .map_or(u64::MAX, |ttl| self.now.0.saturating_add(ttl));
            deadlines[id as usize] = Tick(deadline.min(Tick::MAX.0));
        }
        let stored = is_small.then(|| {
            let always = Condition::Always;
            self.cache
                .store(&mut self.writer, &key, bytes, ttl_ms, always, self.now)
        });
        if !matches!(stored, Some(Ok(_))) {
            self.counts.refusals += 1;
        }
        self.learn();
    }

    fn learn(&mut self) {
        let Some(tutor) = &mut self.tutor else { return };
        let begun = self.cache.segments_begun();
        if begun != self.begun || tutor.wants_ranking(&self.cache) {
            self.begun = begun;
            let heard = Heard {
                now: self.now,
                requests: self.asked,
                misses: self.missed,
            };
            tutor.turn(&self.cache, &heard);
        }
    }
}
