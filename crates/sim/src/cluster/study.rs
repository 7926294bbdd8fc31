//! Many runs that belong together: everything that chapter 5 shows, and what lies beyond it.
//!
//! | runs | over | show |
//! |---|---|---|
//! | sweep | schemes × sizes × numbers of servers | tables 5.2 and 5.3, figures 5.8, 5.9b, 5.10, 5.12 |
//! | failures | schemes × one or two servers that go | figures 5.9a and 5.11 |
//! | outages | schemes, under the outages given | miss ratios over time |
//! | together | policies × sizes × parity placed by load or not | theorem 1 |
//! | coordination | policies × what servers tell each other | whether chunks leave together, and its price |
//!
//! All but the sweep are of the first number of servers and of one size, the base.

use super::claims::claims;
use super::coordination::{Coordination, Order, Telling};
use super::findings::{Failure, Findings, Row};
use super::found::{Found, Window, ratio};
use super::run::{Clock, Rules, Setup, bytes_needed, check, run};
use super::scheme::Scheme;
use crate::Error;
use crate::columns::Columns;
use crate::sweep::in_turn;
use edge::placement::Placement;
use policy::any::PolicySpec;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use trace::Outage;

/// A failure comes so many windows after the warm-up, and is watched for so many.
const FAILS_AFTER: u64 = 2;
const WATCHED: u64 = 24;
/// In how many runs servers fail, at most: up to so many, each server fails in one of them, as who fails matters.
const TRIALS_MAX: usize = 20;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Study {
    /// What holds for all runs.
    pub rules: Rules,
    /// The schemes of sweep, failures and outages.
    pub schemes: Vec<Scheme>,
    /// By number of servers: how large they are, in proportion to each other.
    pub clusters: Vec<Vec<u32>>,
    /// Bytes of all disks of a cluster together, and what they are called.
    pub sizes: Vec<(String, u64)>,
    /// The index of the size of failures, outages and coordination.
    pub base: usize,
    /// Each disk's policy, in sweep, failures and outages.
    pub policy: PolicySpec,
    /// The share of its disk that a server has as memory, there.
    pub memory_share: f64,
    /// The policies of the other runs; none: these are left out.
    pub policies: Vec<PolicySpec>,
    /// The code of these.
    pub code: (usize, usize),
    /// Whether servers fail.
    pub has_failures: bool,
    /// How servers work together in sweep, failures and outages.
    pub coordination: Coordination,
    /// Outages under which schemes are run, counted from the end of the warm-up.
    pub outages: Vec<Outage>,
}

/// A part of a study, and the failing servers of the runs that have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Sweep,
    Undisturbed,
    Failure(usize),
    Outages,
    Together,
    Coordination,
}

struct Planned {
    part: Part,
    size: usize,
    setup: Setup,
}

impl Study {
    /// Runs all of it, `jobs` at a time; `done` counts requests. The same whatever `jobs` is, but for
    /// the speed.
    ///
    /// # Errors
    /// A run that cannot be: see [`check`].
    pub fn run(&self, columns: &Columns, jobs: usize, done: &AtomicU64) -> Result<Findings, Error> {
        let planned = self.plan(columns);
        for run in &planned {
            check(columns, &self.rules, &run.setup)?;
        }
        let most = planned
            .iter()
            .map(|run| bytes_needed(columns, &run.setup))
            .max();
        let affordable = self.rules.memory_limit / most.unwrap_or(1).max(1);
        let jobs = jobs.clamp(1, usize::try_from(affordable).unwrap_or(usize::MAX).max(1));
        let results = in_turn(planned.len(), jobs, |index| {
            run(columns, &self.rules, &planned[index].setup, done)
        });
        let found: Vec<Found> = results.into_iter().collect::<Result<_, Error>>()?;
        let cpu: f64 = found.iter().map(|found| found.cpu_time.as_secs_f64()).sum();
        let replayed: u64 = found.iter().map(|found| found.replayed).sum();
        let rows = |part: Part| -> Vec<Row> {
            let both = planned.iter().zip(&found);
            both.filter(|(run, _)| run.part == part)
                .map(|(run, found)| self.row(run, found))
                .collect()
        };
        let mut findings = Findings {
            trace: columns.name().into(),
            requests: columns.len() as u64,
            objects: columns.objects() as u64,
            footprint_bytes: columns.footprint_bytes(),
            largest_bytes: columns.sizes.iter().copied().max().unwrap_or(0).into(),
            base: self.sizes[self.base].0.clone(),
            window_ms: self.rules.window_ms,
            sweep: rows(Part::Sweep),
            failures: self.failures(&planned, &found),
            outages: rows(Part::Outages),
            together: rows(Part::Together),
            coordination: rows(Part::Coordination),
            claims: Vec::new(),
            requests_per_second: replayed as f64 / cpu.max(1e-9),
        };
        findings.claims = claims(&findings, self.clusters[0].len());
        Ok(findings)
    }

    /// The requests that all runs together replay.
    pub fn request_count(&self, columns: &Columns) -> u64 {
        let planned = self.plan(columns);
        let until = planned
            .iter()
            .map(|run| run.setup.until.min(columns.len()) as u64);
        until.sum()
    }

    fn row(&self, run: &Planned, found: &Found) -> Row {
        Row {
            servers: run.setup.weights.len(),
            size: self.sizes[run.size].0.clone(),
            capacity: run.setup.capacity,
            policy: match run.setup.coordination.order {
                Order::SharedHash
                    if run.part == Part::Coordination && !run.setup.scheme.is_balanced() =>
                {
                    "by hash, one hand, parity on the ring".into()
                }
                Order::Policy => run.setup.policy.to_string(),
                Order::Hash => "by hash".into(),
                Order::SharedHash => "by hash, one hand".into(),
            },
            told: run.setup.coordination.name(),
            found: found.clone(),
        }
    }

    fn plan(&self, columns: &Columns) -> Vec<Planned> {
        let mut planned = Vec::new();
        let mut add = |part, size, setup| planned.push(Planned { part, size, setup });
        for (at, weights) in self.clusters.iter().enumerate() {
            for &scheme in &self.schemes {
                for size in 0..self.sizes.len() {
                    let setup = Setup {
                        weights: weights.clone(),
                        is_timed: at == 0 && size == self.base,
                        ..self.setup(scheme, size)
                    };
                    add(Part::Sweep, size, setup);
                }
            }
        }
        if self.has_failures {
            self.plan_failures(columns, &mut add);
        }
        if !self.outages.is_empty() {
            let outages = self.counted_outages(columns);
            for &scheme in &self.schemes {
                let setup = Setup {
                    outages: Arc::clone(&outages),
                    ..self.setup(scheme, self.base)
                };
                add(Part::Outages, self.base, setup);
            }
        }
        self.plan_policies(&mut add);
        planned
    }

    fn setup(&self, scheme: Scheme, size: usize) -> Setup {
        Setup {
            scheme,
            policy: self.policy.clone(),
            weights: self.clusters[0].clone(),
            capacity: self.sizes[size].1,
            memory_share: self.memory_share,
            coordination: self.coordination,
            watched: 0..0,
            outages: Arc::new([]),
            until: usize::MAX,
            is_timed: false,
        }
    }

    /// For each scheme a run in which nobody fails, those in which one server does, and those in which two do;
    /// none longer than it is watched.
    fn plan_failures(&self, columns: &Columns, add: &mut impl FnMut(Part, usize, Setup)) {
        let (from_ms, until) = self.failure(columns);
        let servers = self.clusters[0].len();
        for &scheme in &self.schemes {
            let setup = Setup {
                until,
                watched: from_ms..from_ms.saturating_add(self.rules.window_ms),
                ..self.setup(scheme, self.base)
            };
            add(Part::Undisturbed, self.base, setup.clone());
            for down in [1, 2] {
                for group in groups(servers, down) {
                    let outage = |server: u32| Outage {
                        from_ms,
                        until_ms: u64::MAX,
                        server,
                    };
                    let setup = Setup {
                        outages: group.into_iter().map(outage).collect(),
                        ..setup.clone()
                    };
                    add(Part::Failure(down), self.base, setup);
                }
            }
        }
    }

    /// The outages given, by the trace's clock: what comes within the warm-up would count for nothing.
    fn counted_outages(&self, columns: &Columns) -> Arc<[Outage]> {
        let start_ms = self.counted_from(columns);
        let moved = self.outages.iter().map(|outage| Outage {
            from_ms: outage.from_ms.saturating_add(start_ms),
            until_ms: outage.until_ms.saturating_add(start_ms),
            server: outage.server,
        });
        moved.collect()
    }

    /// When the warm-up ends; never, where all of the trace is warm-up.
    fn counted_from(&self, columns: &Columns) -> u64 {
        let mut clock = Clock::new(columns, &self.rules);
        let mut times = (0..columns.len()).map(|index| clock.at(index));
        times.nth(self.rules.warm_up).unwrap_or(u64::MAX)
    }

    /// When servers fail, and how many requests have come when nobody looks any more.
    fn failure(&self, columns: &Columns) -> (u64, usize) {
        let mut clock = Clock::new(columns, &self.rules);
        let mut from_ms = u64::MAX;
        for index in 0..columns.len() {
            let now_ms = clock.at(index);
            if index == self.rules.warm_up {
                from_ms = now_ms.saturating_add(FAILS_AFTER * self.rules.window_ms);
            }
            if now_ms >= from_ms.saturating_add(WATCHED * self.rules.window_ms) {
                return (from_ms, index);
            }
        }
        (from_ms, columns.len())
    }

    fn failures(&self, planned: &[Planned], found: &[Found]) -> Vec<Failure> {
        let runs = |part: Part, scheme: Scheme| {
            let both = planned.iter().zip(found);
            both.filter(move |(run, _)| run.part == part && run.setup.scheme == scheme)
        };
        let mut failures = Vec::new();
        for &scheme in &self.schemes {
            let Some((_, undisturbed)) = runs(Part::Undisturbed, scheme).next() else {
                continue;
            };
            let base = watched(&undisturbed.windows);
            for down in [1, 2] {
                let own = runs(Part::Failure(down), scheme);
                let own: Vec<&[Window]> = own.map(|(_, found)| watched(&found.windows)).collect();
                let of_own = runs(Part::Failure(down), scheme).map(|(run, found)| {
                    let gone = run.setup.outages.iter();
                    let gone: Vec<u16> = gone.map(|outage| outage.server as u16).collect();
                    (found.missed_of(&gone), undisturbed.missed_of(&gone))
                });
                let (with, without) =
                    of_own.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
                failures.push(Failure {
                    first_of_own: (without > 0).then(|| ratio(with, without) - 1.0),
                    own_missed: without,
                    ..failure_of(scheme, down, &own, base)
                });
            }
        }
        failures
    }

    /// Without memory before the disks: what it answers, they would not hear of.
    fn plan_policies(&self, add: &mut impl FnMut(Part, usize, Setup)) {
        let (data, parity) = self.code;
        let setup = |policy: &PolicySpec, placement, size, coordination| Setup {
            policy: policy.clone(),
            memory_share: 0.0,
            coordination,
            ..self.setup(Scheme::coded(data, parity, placement), size)
        };
        let hits = Coordination {
            telling: Telling::Hits,
            ..Coordination::default()
        };
        for policy in &self.policies {
            for size in 0..self.sizes.len() {
                for placement in [Placement::Greedy, Placement::Ring] {
                    add(Part::Together, size, setup(policy, placement, size, hits));
                }
            }
        }
        for (policy, coordination) in self.coordinations() {
            let setup = setup(policy, Placement::Greedy, self.base, coordination);
            add(Part::Coordination, self.base, setup);
        }
        // What one hand leaves empty where servers are not written to evenly.
        let one_hand = Coordination {
            order: Order::SharedHash,
            ..hits
        };
        for policy in self.policies.iter().take(1) {
            let setup = setup(policy, Placement::Ring, self.base, one_hand);
            add(Part::Coordination, self.base, setup);
        }
    }

    /// Each policy under all that can be told; then, whatever the policy, the order of a hash.
    fn coordinations(&self) -> Vec<(&PolicySpec, Coordination)> {
        let told = |telling| Coordination {
            telling,
            ..Coordination::default()
        };
        let in_turn = Coordination {
            reads_in_turn: true,
            ..Coordination::default()
        };
        let all = [
            told(Telling::Nothing),
            told(Telling::Hits),
            told(Telling::Evictions),
            told(Telling::Both),
            in_turn,
        ];
        let own = |policy| all.map(|coordination| (policy, coordination));
        let mut runs: Vec<_> = self.policies.iter().flat_map(own).collect();
        for order in [Order::Hash, Order::SharedHash] {
            for coordination in [told(Telling::Nothing), told(Telling::Hits), in_turn] {
                let first = self.policies.first();
                runs.extend(first.map(|policy| {
                    (
                        policy,
                        Coordination {
                            order,
                            ..coordination
                        },
                    )
                }));
            }
        }
        runs
    }
}

/// The windows from the failure on.
fn watched(windows: &[Window]) -> &[Window] {
    windows.get(FAILS_AFTER as usize..).unwrap_or_default()
}

/// Servers that fail together, so many in each run; no neighbours by number.
fn groups(servers: usize, down: usize) -> Vec<Vec<u32>> {
    let all = servers.div_ceil(down);
    let runs = all.min(TRIALS_MAX);
    let group = |run: usize| {
        let members = (0..down).map(|at| (run * all / runs + at * all) % servers);
        members.map(|server| server as u32).collect()
    };
    (0..runs).map(group).collect()
}

/// What runs in which `down` servers went tell against one in which none did, from the failure on.
fn failure_of(scheme: Scheme, down: usize, runs: &[&[Window]], base: &[Window]) -> Failure {
    let rise = |run: &[Window], at: usize| -> Option<f64> {
        let base = base[at].misses;
        (base > 0).then(|| Some(ratio(run.get(at)?.misses, base) - 1.0))?
    };
    let all = |at: usize| -> Option<Vec<f64>> {
        (at < base.len()).then_some(())?;
        runs.iter().map(|run| rise(run, at)).collect()
    };
    let mean = |at: usize| {
        let rises = all(at).filter(|rises| !rises.is_empty())?;
        Some(rises.iter().sum::<f64>() / rises.len() as f64)
    };
    let first = all(0).unwrap_or_default();
    let first_range = first.iter().fold(None, |range, &rise| match range {
        None => Some((rise, rise)),
        Some((least, most)) => Some((rise.min(least), rise.max(most))),
    });
    Failure {
        scheme: scheme.to_string(),
        down,
        rises: (0..base.len()).map(mean).collect(),
        first_range,
        first_missed: base.first().map_or(0, |window| window.misses),
        first_of_own: None,
        own_missed: 0,
        runs: runs.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(misses: &[u64]) -> Vec<Window> {
        let window = |&misses: &u64| Window {
            misses,
            ..Window::default()
        };
        misses.iter().map(window).collect()
    }

    #[test]
    fn a_rise_is_told_of_what_was_missed_without_the_failure() {
        let (one, other) = (missed(&[12, 7, 0]), missed(&[18, 7, 0]));
        let base = missed(&[10, 0, 5]);
        let failure = failure_of(Scheme::Popular, 1, &[&one, &other], &base);
        assert_eq!(failure.rises, [Some(0.5), None, Some(-1.0)]);
        let (least, most) = failure.first_range.expect("something was missed");
        assert!((least - 0.2).abs() < 1e-9 && (most - 0.8).abs() < 1e-9);
    }

    #[test]
    fn every_server_fails_and_of_many_some_that_lie_apart() {
        assert_eq!(groups(3, 1), [[0], [1], [2]]);
        assert_eq!(groups(4, 2), [[0, 2], [1, 3]]);
        assert_eq!(groups(5, 2), [[0, 3], [1, 4], [2, 0]]);
        let many = groups(100, 2);
        assert_eq!(many.len(), TRIALS_MAX);
        assert_eq!((&many[0], &many[19]), (&vec![0, 50], &vec![47, 97]));
    }

    #[test]
    fn a_failure_beyond_the_trace_tells_nothing() {
        let before = missed(&[9, 9]);
        assert!(watched(&before).is_empty() && watched(&[]).is_empty());
        let failure = failure_of(Scheme::Popular, 2, &[watched(&before)], watched(&before));
        assert_eq!((failure.rises.len(), failure.first_range), (0, None));
    }
}
