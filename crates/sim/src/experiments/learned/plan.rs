//! The replays that each figure needs.

use super::row::{Planned, Replay, Row, Study};
use super::{Extent, Options, Report, Round};
use crate::advise::server_overhead;
use crate::{
    Columns, Configuration, Contestant, Error, ReplayResult, Rules, Size, Unit, feature_names,
    segments, sweep,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The policy that all others are compared with.
pub(super) const BASE: &str = "fifo";
/// The learning policy whose features are shown.
pub(super) const LEARNER: &str = "gl-cache:e";
/// The learning policy of the parameter studies. Like the source's, it always evicts by its model,
/// even if that increases misses.
pub(super) const FOLLOWER: &str = "gl-cache:e:way=model";
/// Days of a week-long trace that are not counted, for the source's figures 6.17 and 6.8.
const WARM_UPS: [u64; 2] = [1, 3];
const WEEK: u64 = 7;
/// Milliseconds between the requests of a trace without times.
const GAP_MS: f64 = 1.0;

/// Features available to the models of figure 6.12. Each step adds its features to those of the
/// previous steps.
const FEATURE_STEPS: [(&str, &[&str]); 4] = [
    (
        "frequency",
        &["requests", "requested objects", "own requested objects"],
    ),
    ("+ age", &["age", "own age"]),
    ("+ size", &["mean object size"]),
    (
        "+ state of the cache",
        &["request rate", "write rate", "miss ratio"],
    ),
];

/// Knobs of the learning policy, and the titles of their tables.
pub const KNOBS: [(&str, &str); 7] = [
    ("group", "Objects in a group (figure 6.13)"),
    (
        "fraction",
        "Share of the groups that are evicted before groups are ranked again (figure 6.14)",
    ),
    ("merged", "Groups that are merged (figure 6.15)"),
    ("interval", "When models are trained"),
    ("samples", "Groups in the training data"),
    ("trees", "Trees of a model"),
    ("depth", "Depth of a model's trees"),
];

impl Planned {
    /// Returns the replay that this one is compared with, if any.
    pub(super) fn base(&self) -> Option<Replay> {
        (self.study != Study::Round(Round::Engine)).then(|| Replay {
            cache: BASE.into(),
            hidden: Vec::new(),
            ..self.replay.clone()
        })
    }
}

/// A policy with one knob set.
pub(super) fn with(knob: &str, policy: &str, value: &str) -> String {
    format!("{policy}:{knob}={value}")
}

/// Milliseconds between requests, if the trace has no times.
pub(super) fn gap_ms(columns: &Columns) -> Option<f64> {
    (!columns.has_time()).then_some(GAP_MS)
}

/// The rows of one trace, and the replays that they need.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    options: &'a Options,
    columns: &'a Columns,
    rows: Vec<Planned>,
    replays: Vec<Replay>,
}

impl Options {
    /// Plans the replays of a trace.
    ///
    /// # Errors
    /// A cache size of less than one object or byte.
    pub fn plan<'a>(&'a self, columns: &'a Columns) -> Result<Plan<'a>, Error> {
        let has_unit = |unit: &Unit| self.units.is_empty() || self.units.contains(unit);
        let units = [Unit::Objects, Unit::Bytes].into_iter().filter(has_unit);
        let mut rows = Vec::new();
        for unit in units.filter(|unit| *unit == Unit::Objects || columns.has_sizes()) {
            for (place, size) in self.sizes.iter().enumerate() {
                let at = At {
                    options: self,
                    requests: columns.len() as u64,
                    unit,
                    capacity: size.resolve(columns.footprint(unit), columns.name(), unit)?,
                    size,
                };
                for (round, _) in Round::ALL.into_iter().filter(|(round, _)| self.has(*round)) {
                    match round {
                        Round::Ceiling => at.ceiling(&mut rows),
                        Round::Baselines => at.baselines(&mut rows),
                        Round::Table => at.table(&mut rows),
                        Round::WarmUp => at.warm_up(&mut rows),
                        Round::Features => at.features(&mut rows),
                        Round::Engine if unit == Unit::Bytes => at.engine(&mut rows),
                        // Knobs are compared only in the largest cache, because it has enough
                        // groups of any size.
                        Round::Knobs if place + 1 == self.sizes.len() => at.knobs(&mut rows),
                        Round::Engine | Round::Knobs => {}
                    }
                }
            }
        }
        let replays = rows
            .iter()
            .flat_map(|row| [Some(row.replay.clone()), row.base()]);
        let replays: BTreeSet<Replay> = replays.flatten().collect();
        Ok(Plan {
            options: self,
            columns,
            rows,
            replays: replays.into_iter().collect(),
        })
    }
}

impl Plan<'_> {
    /// Requests of all replays together.
    pub fn requests(&self) -> u64 {
        (self.replays.len() * self.options.repeats * self.columns.len()) as u64
    }

    /// Makes all replays, `jobs` at a time, and adds the rows to the report. `done` counts
    /// requests.
    ///
    /// # Errors
    /// A policy that cannot replay the trace.
    pub fn run(&self, jobs: usize, done: &AtomicU64, report: &mut Report) -> Result<(), Error> {
        let found = self.replay_all(jobs, done)?;
        let extent = Extent::of(self.columns);
        if extent.bytes.is_none() {
            let bytes = self.options.units.contains(&Unit::Bytes).then_some("bytes");
            let engine = self
                .options
                .has(Round::Engine)
                .then_some("the round engine");
            let lines = [bytes, engine].into_iter().flatten();
            let lines = lines.map(|what| format!("{what} on {}", extent.name));
            report.left_out.extend(lines);
        }
        for planned in &self.rows {
            let own = found.get(&planned.replay).and_then(Option::as_ref);
            let base = planned.base().and_then(|base| found.get(&base)?.as_ref());
            let row = Row::of(planned, &extent.name, own, base);
            if own.is_none() {
                let (name, trace, size) = (&row.name, &row.trace, &row.size);
                let line = format!("{name} on {trace} at {size} of the {}", row.unit.name());
                report.left_out.push(line);
            }
            report.rows.push(row);
        }
        report.traces.push(extent);
        Ok(())
    }

    fn replay_all(
        &self,
        jobs: usize,
        done: &AtomicU64,
    ) -> Result<BTreeMap<Replay, Option<ReplayResult>>, Error> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        let work = || {
            while let Some(replay) = self.replays.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.replay(replay, done);
                let mut found = found
                    .lock()
                    .expect("no thread panics while it holds the lock");
                found.push(result.map(|result| (replay.clone(), result)));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..jobs.min(self.replays.len()) {
                scope.spawn(work);
            }
            work();
        });
        let found = found.into_inner().expect("all threads have ended");
        found.into_iter().collect()
    }

    /// Replays once for the counts, and repeats for the median CPU time.
    fn replay(&self, replay: &Replay, done: &AtomicU64) -> Result<Option<ReplayResult>, Error> {
        let mut first = self.replay_once(replay, done)?;
        if let Some(found) = &mut first {
            let mut times = vec![found.cpu_time];
            for _ in 1..self.options.repeats {
                let again = self.replay_once(replay, done)?;
                times.extend(again.map(|again| again.cpu_time));
            }
            found.cpu_time = middle(times);
        }
        Ok(first)
    }

    /// Replays once. `None` if the cache is too small for the engine, or counts objects.
    fn replay_once(
        &self,
        replay: &Replay,
        done: &AtomicU64,
    ) -> Result<Option<ReplayResult>, Error> {
        let rules = Rules {
            unit: replay.unit,
            warm_up: replay.warm_up as usize,
            overhead: match replay.has_overhead {
                true => server_overhead(false),
                false => 0,
            },
            ignores_ttls: true,
            gap_ms: gap_ms(self.columns),
            hidden_features: replay.hidden.clone(),
            seed: self.options.seed,
            ..Rules::default()
        };
        let capacity = replay.capacity;
        let contestant = replay.cache.parse().expect("the names are checked before");
        let found = match contestant {
            Contestant::Policy(policy) => {
                let configuration = Configuration { policy, capacity };
                sweep(self.columns, &rules, &[configuration], 1, done)?
            }
            Contestant::Segments(spec) if rules.unit == Unit::Objects || !spec.fits(capacity) => {
                return Ok(None);
            }
            Contestant::Segments(spec) => {
                segments::sweep(self.columns, &rules, &[(spec, capacity)], 1, done)?
            }
        };
        Ok(found.into_iter().next())
    }
}

/// Returns the median; of two values, the smaller one.
fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) / 2]
}

/// A cache size on a trace, for which rows are planned.
struct At<'a> {
    options: &'a Options,
    requests: u64,
    unit: Unit,
    size: &'a Size,
    capacity: u64,
}

impl At<'_> {
    fn row(&self, round: Round, name: &str, cache: &str) -> Planned {
        Planned {
            study: Study::Round(round),
            name: name.into(),
            value: None,
            size: self.size.to_string(),
            replay: Replay {
                cache: cache.into(),
                unit: self.unit,
                capacity: self.capacity,
                warm_up: 0,
                hidden: Vec::new(),
                has_overhead: false,
            },
        }
    }

    fn ceiling(&self, plan: &mut Vec<Planned>) {
        let all = [
            BASE,
            "fifo-merge",
            "s3fifo",
            "gl-cache:t",
            LEARNER,
            "gl-oracle:t",
            "gl-oracle",
        ];
        plan.extend(all.map(|cache| self.row(Round::Ceiling, cache, cache)));
        let belady = match self.unit {
            Unit::Objects => "belady",
            Unit::Bytes => "belady-size",
        };
        plan.push(self.row(Round::Ceiling, "belady", belady));
    }

    fn baselines(&self, plan: &mut Vec<Planned>) {
        let all = std::iter::once(BASE).chain(self.others());
        plan.extend(all.map(|cache| self.row(Round::Baselines, cache, cache)));
    }

    /// Plans the rows of table 6.4: a policy that learns about objects and one that learns about
    /// groups.
    fn table(&self, plan: &mut Vec<Planned>) {
        let name = |cache: &&str| {
            let name = cache.split(':').next();
            name.is_some_and(|name| ["lrb", "gl-cache"].contains(&name))
        };
        let all = std::iter::once(BASE).chain(self.others().filter(name));
        plan.extend(all.map(|cache| self.row(Round::Table, cache, cache)));
    }

    /// The named policies except FIFO.
    fn others(&self) -> impl Iterator<Item = &str> {
        let all = self.options.policies.iter().map(String::as_str);
        all.filter(|cache| *cache != BASE)
    }

    fn warm_up(&self, plan: &mut Vec<Planned>) {
        for days in WARM_UPS {
            // LRB's replays take longer than all others together.
            for cache in
                std::iter::once(BASE).chain(self.others().filter(|cache| !cache.starts_with("lrb")))
            {
                let mut planned = self.row(Round::WarmUp, cache, cache);
                planned.value = Some(format!("{days}/{WEEK}"));
                planned.replay.warm_up = self.requests * days / WEEK;
                plan.push(planned);
            }
        }
    }

    fn features(&self, plan: &mut Vec<Planned>) {
        let merge = "fifo-merge";
        plan.push(self.row(Round::Features, merge, merge));
        let mut seen: Vec<&str> = Vec::new();
        for (name, more) in FEATURE_STEPS {
            seen.extend(more);
            let mut planned = self.row(Round::Features, name, FOLLOWER);
            let hidden = feature_names().enumerate();
            let hidden = hidden.filter(|(_, feature)| !seen.contains(feature));
            planned.replay.hidden = hidden.map(|(place, _)| place).collect();
            plan.push(planned);
        }
    }

    fn engine(&self, plan: &mut Vec<Planned>) {
        for cache in &self.options.engines {
            let mut planned = self.row(Round::Engine, cache, cache);
            planned.replay.has_overhead = true;
            plan.push(planned);
        }
    }

    fn knobs(&self, plan: &mut Vec<Planned>) {
        for ((knob, _), values) in KNOBS.iter().zip(&self.options.knobs) {
            let caches: &[&str] = match *knob {
                // The oracle shows the best result that groups of a given size allow.
                "group" => &[FOLLOWER, "gl-oracle"],
                _ => &[FOLLOWER],
            };
            for cache in caches {
                for value in values {
                    let mut planned = self.row(Round::Knobs, cache, &with(knob, cache, value));
                    planned.study = Study::Knob(knob);
                    planned.value = Some(value.clone());
                    plan.push(planned);
                }
            }
        }
    }
}
