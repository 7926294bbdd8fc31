//! Replay of a trace through the segment engine: the code that serves, over a heap that stores only
//! sizes.
//!
//! The capacity of the engine is all memory that it takes: segments with their unused tails and
//! expired objects, the table, headers and directories. The capacity of a policy counts only
//! objects, unless
//! [`Rules::overhead`] adds bytes per entry. At equal capacity a policy therefore holds more.

use crate::Error;
use crate::columns::Columns;
use crate::cpu::thread_cpu_time;
use crate::learned::{self, Learned};
use crate::replay::STOPPED;
use crate::result::{Counts, ReplayResult};
use crate::rules::{Rules, Unit};
use crate::sweep::{complete, run_parallel};
use learn::{CacheTotals, GroupLearner, GroupLearnerConfig};
use policy::{Budget, Tick};
use segment::{
    Condition, Config, Eviction, SEGMENT_BYTES, SEGMENT_BYTES_MIN, Segcache, Sizes, Stats, Writer,
};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::Op;

/// Requests between two updates of the progress counter.
const STRIDE: usize = 1 << 16;
/// Number of segments that a heap is divided into by default.
const SEGMENTS_AIMED: u64 = 256;
/// Bytes of metadata of each object in a segment.
const METADATA: u32 = 5;
/// Number of requests by which prefetching of table lines is ahead.
const AHEAD: usize = 8;

/// Specification of the engine: `segcache` and parameters after colons, such as `merged=4`,
/// `eviction=rent`, `segment=1mb`, `metadata=5`, `expiry=proactive`.
///
/// `metadata` and `expiry=lazy` measure the contribution of the engine's own choices. With lazy
/// expiry, all objects share one chain, and expired ones take space until they are evicted, but
/// count as misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentsSpec {
    eviction: Eviction,
    merged: u8,
    /// Bytes of a segment; `None` derives it from the cache size.
    segment_bytes: Option<usize>,
    metadata: u32,
    is_lazy: bool,
}

/// Error for a text that is not a specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSegments(String);

impl fmt::Display for BadSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSegments {}

impl SegmentsSpec {
    /// Name in `--policy`.
    pub const NAME: &'static str = "segcache";

    /// Whether a text names the engine, with or without parameters.
    pub fn is_named_by(text: &str) -> bool {
        policy::names::is_same(text.split(':').next().unwrap_or_default(), Self::NAME)
    }

    fn set(&mut self, parameter: &str) -> Result<(), String> {
        let (name, value) = parameter.split_once('=').ok_or_else(|| {
            format!("'{parameter}': expected eviction=, merged=, segment=, metadata= or expiry=")
        })?;
        let whole = || format!("{name}: '{value}' is not a valid number");
        match name {
            "eviction" => self.eviction = value.parse().map_err(|e| format!("'{value}': {e}"))?,
            "merged" => self.merged = value.parse().map_err(|_| whole())?,
            "metadata" => self.metadata = value.parse().map_err(|_| whole())?,
            "expiry" => {
                self.is_lazy = match value {
                    "proactive" => false,
                    "lazy" => true,
                    _ => return Err(format!("expiry '{value}': expected proactive or lazy")),
                }
            }
            "segment" => {
                let bytes = units::bytes(value).map_err(|error| error.to_string())?;
                self.segment_bytes = Some(usize::try_from(bytes).map_err(|_| whole())?);
            }
            _ => return Err(format!("{} has no parameter '{name}'", Self::NAME)),
        }
        Ok(())
    }

    /// Whether the engine can be created with this capacity.
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
            .try_for_each(|parameter| spec.set(parameter))
            .map_err(BadSegments)?;
        Ok(spec)
    }
}

/// Replays the trace for each specification and size, `jobs` at a time; `done` counts requests.
///
/// # Errors
/// A unit of objects instead of bytes, and a size too small for the segments.
pub fn sweep(
    columns: &Columns,
    rules: &Rules,
    configurations: &[(SegmentsSpec, u64)],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<ReplayResult>, Error> {
    let found = sweep_objects(columns, rules, configurations, jobs, done)?;
    Ok(found.into_iter().map(|(found, _)| found).collect())
}

/// Same as [`sweep`], but also returns each object's misses after the warm-up.
pub(crate) fn sweep_objects(
    columns: &Columns,
    rules: &Rules,
    configurations: &[(SegmentsSpec, u64)],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<(ReplayResult, Vec<u32>)>, Error> {
    let refused = |problem: String| Error::Segments { problem };
    if rules.unit == Unit::Objects {
        return Err(refused(
            "its size is in bytes, but objects are counted: use a trace with sizes".into(),
        ));
    }
    if rules.admission.is_some() || rules.explains || rules.foresight.is_some() {
        return Err(refused(
            "it supports neither an admission filter nor --explain nor --foresight".into(),
        ));
    }
    let mut engines = Vec::new();
    for (spec, capacity) in configurations {
        let config = spec.config(*capacity, rules.seed);
        let engine = Segcache::<Sizes>::new(&config);
        drop(engine.map_err(|error| refused(format!("a cache of {capacity} bytes: {error}")))?);
        engines.push((config, *spec));
    }
    let found = run_parallel(engines.len(), jobs, |index| {
        let (config, spec) = &engines[index];
        SegmentReplay::new(columns, rules, config, spec).run(done)
    });
    complete(found, done)
}

/// State of a replay.
struct SegmentReplay<'a> {
    columns: &'a Columns,
    rules: &'a Rules,
    cache: Segcache<Sizes>,
    writer: Writer,
    /// Specified bytes of metadata per object minus those of the engine.
    extra: i64,
    /// Deadline of each object, for lazy expiry only. The engine itself then stores no deadlines.
    deadlines: Option<Vec<Tick>>,
    now: Tick,
    counts: Counts,
    /// Number of misses of each object.
    misses: Vec<u32>,
    /// The learner of evictions that learn. It runs when a segment was opened or a ranking was used
    /// up, so that equal traces give equal results.
    group_learner: Option<GroupLearner>,
    /// Number of segments opened before the learner's last run.
    begun: u64,
    /// Number of all requests, including those that are not counted.
    requests: u64,
    missed: u64,
}

impl<'a> SegmentReplay<'a> {
    fn new(columns: &'a Columns, rules: &'a Rules, config: &Config, spec: &SegmentsSpec) -> Self {
        let cache = Segcache::new(config).expect("the configuration was checked");
        learned::begin(&rules.hidden_features);
        let tutoring = GroupLearnerConfig {
            seed: config.seed,
            maker: learned::maker(),
            ..GroupLearnerConfig::default()
        };
        let learns = config.eviction.learns();
        let writer = cache.writer().expect("the engine allows one writer");
        SegmentReplay {
            columns,
            rules,
            cache,
            writer,
            extra: i64::from(spec.metadata) - i64::from(METADATA),
            deadlines: spec.is_lazy.then(|| vec![Tick::MAX; columns.objects()]),
            now: Tick(0),
            counts: Counts::default(),
            misses: vec![0; columns.objects()],
            group_learner: learns.then(|| GroupLearner::new(&tutoring)),
            begun: 0,
            requests: 0,
            missed: 0,
        }
    }

    fn run(mut self, done: &AtomicU64) -> (ReplayResult, Vec<u32>) {
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
            if done.fetch_add((to - from) as u64, Ordering::Relaxed) & STOPPED != 0 {
                break;
            }
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

    fn found(
        self,
        (counts, before): (Counts, Stats),
        cpu_time: std::time::Duration,
    ) -> ReplayResult {
        let stats = self.cache.stats();
        let mut counts = self.counts.since(&counts);
        counts.evictions = stats.evicted + stats.crowded_out - before.evicted - before.crowded_out;
        counts.kept = stats.kept - before.kept;
        counts.expirations = stats.expired - before.expired;
        let metadata = stats.items as i64 * (i64::from(METADATA) + self.extra);
        let payload = stats.live_bytes as i64 - metadata;
        ReplayResult {
            counts,
            promotions: counts.kept,
            metadata_bytes: stats.overhead_bytes(payload.max(0) as u64),
            held: stats.items,
            replay_bytes: self.cache.content_bytes()
                + stats.segments_table * stats.segment_bytes
                + stats.directory_bytes,
            // TTLs are rounded down, so an entry is removed before its deadline.
            expired_held: 0.0,
            replayed: self.columns.len() as u64,
            cpu_time,
            flash_written: None,
            explained: None,
            learned: self.group_learner.map(|group_learner| {
                let mut learning_stats = group_learner.learning_stats();
                learning_stats.groups_evicted = stats.segments_ranked;
                learning_stats.learning_bytes += self.cache.learning_bytes();
                Box::new(Learned::of(learning_stats, self.requests, stats.items))
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
        let is_expired = |deadlines: &Vec<Tick>| deadlines[id as usize] < self.now;
        let is_past_deadline = self.deadlines.as_ref().is_some_and(is_expired);
        let is_hit = self.cache.contains(&key, self.now) && !is_past_deadline;
        self.requests += 1;
        self.missed += u64::from(!is_hit);
        if is_hit && op.is_read() {
            return;
        }
        if !is_hit {
            self.counts.misses += counted;
            self.counts.missed_weight += counted * u64::from(size);
            self.misses[id as usize] += counted as u32;
        }
        // An overwrite appends the object again, as in a server.
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
        let Some(group_learner) = &mut self.group_learner else {
            return;
        };
        let begun = self.cache.segments_begun();
        if begun != self.begun || group_learner.wants_ranking(&self.cache) {
            self.begun = begun;
            let heard = CacheTotals {
                now: self.now,
                requests: self.requests,
                misses: self.missed,
            };
            group_learner.do_due_work(&self.cache, &heard);
        }
    }
}
