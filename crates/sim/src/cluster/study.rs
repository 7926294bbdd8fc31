//! Studies: many runs that together reproduce chapter 5 of the thesis and go beyond it.
//!
//! | runs | over | shown in |
//! |---|---|---|
//! | sweep | schemes × sizes × servers | tables 5.2 and 5.3, figures 5.8, 5.9b, 5.10, 5.12 |
//! | failures | schemes × one or two failed servers | figures 5.9a and 5.11 |
//! | outages | schemes, under the given outages | miss ratios over time |
//! | co-residency | policies × sizes × parity placed by load or on the ring | theorem 1 |
//! | coordination | policies × notifications | co-residency of chunks, and its price |
//!
//! All runs but the sweep use the first number of servers, and all but the sweep and the
//! co-residency runs use one size, the base.

use super::claims::claims;
use super::coordination::{Coordination, EvictionOrder, Notifications};
use super::findings::{Failure, Findings, RunRow};
use super::found::{RunResult, Window, ratio};
use super::run::{Clock, ClusterRules, Setup, bytes_needed, check, run};
use super::scheme::Scheme;
use crate::Error;
use crate::columns::Columns;
use crate::sweep::run_parallel;
use edge::placement::Placement;
use policy::any::PolicySpec;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use trace::Outage;

/// Windows between the end of the warm-up and the failure, and windows measured after the failure.
const FAILS_AFTER: u64 = 2;
const WATCHED: u64 = 24;
/// Maximum number of runs per failure. Up to this number, each server fails in one run, because
/// results differ between servers.
const TRIALS_MAX: usize = 20;

/// Parameters of a study.
#[derive(Clone, Debug)]
pub struct Study {
    /// Parameters of all runs.
    pub rules: ClusterRules,
    /// Schemes of the sweep, failures and outages.
    pub schemes: Vec<Scheme>,
    /// Relative disk sizes of the servers, one list per number of servers.
    pub clusters: Vec<Vec<u32>>,
    /// Total disk sizes: names and bytes.
    pub sizes: Vec<(String, u64)>,
    /// Index of the base size, used for failures, outages and coordination.
    pub base: usize,
    /// Eviction policy of the sweep, failures and outages.
    pub policy: PolicySpec,
    /// Memory of a server as a share of its disk, in the sweep, failures and outages.
    pub memory_share: f64,
    /// Eviction policies of the co-residency and coordination runs; empty to leave these out.
    pub policies: Vec<PolicySpec>,
    /// Data and parity chunks of the co-residency and coordination runs.
    pub code: (usize, usize),
    /// Whether failures are simulated.
    pub has_failures: bool,
    /// Coordination of the sweep, failures and outages.
    pub coordination: Coordination,
    /// Outages, with times counted from the end of the warm-up.
    pub outages: Vec<Outage>,
}

/// Part of a study that a run belongs to. Failures have the number of failed servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Sweep,
    Undisturbed,
    Failure(usize),
    Outages,
    CoResidency,
    Coordination,
}

struct Planned {
    part: Part,
    size: usize,
    setup: Setup,
}

impl Study {
    /// Makes all runs, `jobs` at a time; `done` counts requests. Apart from speed, the results do
    /// not depend on `jobs`.
    ///
    /// # Errors
    /// A run that is not possible: see [`check`].
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
        let results = run_parallel(planned.len(), jobs, |index| {
            run(columns, &self.rules, &planned[index].setup, done)
        });
        let found: Vec<RunResult> = results.into_iter().collect::<Result<_, Error>>()?;
        let cpu: f64 = found.iter().map(|found| found.cpu_time.as_secs_f64()).sum();
        let replayed: u64 = found.iter().map(|found| found.replayed).sum();
        let rows = |part: Part| -> Vec<RunRow> {
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
            co_residency: rows(Part::CoResidency),
            coordination: rows(Part::Coordination),
            claims: Vec::new(),
            requests_per_second: replayed as f64 / cpu.max(1e-9),
        };
        findings.claims = claims(&findings, self.clusters[0].len());
        Ok(findings)
    }

    /// Number of requests that all runs replay.
    pub fn request_count(&self, columns: &Columns) -> u64 {
        let planned = self.plan(columns);
        let until = planned
            .iter()
            .map(|run| run.setup.until.min(columns.len()) as u64);
        until.sum()
    }

    fn row(&self, run: &Planned, found: &RunResult) -> RunRow {
        RunRow {
            servers: run.setup.weights.len(),
            size: self.sizes[run.size].0.clone(),
            capacity: run.setup.capacity,
            policy: match run.setup.coordination.order {
                EvictionOrder::SharedHash
                    if run.part == Part::Coordination && !run.setup.scheme.is_balanced() =>
                {
                    "hash order, shared hand, parity on the ring".into()
                }
                EvictionOrder::Policy => run.setup.policy.to_string(),
                EvictionOrder::Hash => "hash order".into(),
                EvictionOrder::SharedHash => "hash order, shared hand".into(),
            },
            coordination: run.setup.coordination.name(),
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

    /// Plans for each scheme a run without failures, runs with one failed server, and runs with
    /// two. None is longer than the measured windows.
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

    /// Outages shifted to the trace's clock, so that none falls into the warm-up.
    fn counted_outages(&self, columns: &Columns) -> Arc<[Outage]> {
        let start_ms = self.counted_from(columns);
        let moved = self.outages.iter().map(|outage| Outage {
            from_ms: outage.from_ms.saturating_add(start_ms),
            until_ms: outage.until_ms.saturating_add(start_ms),
            server: outage.server,
        });
        moved.collect()
    }

    /// Time at which the warm-up ends; `u64::MAX` if it takes the whole trace.
    fn counted_from(&self, columns: &Columns) -> u64 {
        let mut clock = Clock::new(columns, &self.rules);
        let mut times = (0..columns.len()).map(|index| clock.at(index));
        times.nth(self.rules.warm_up).unwrap_or(u64::MAX)
    }

    /// Time of the failure, and the number of requests until the measured windows end.
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

    fn failures(&self, planned: &[Planned], found: &[RunResult]) -> Vec<Failure> {
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
                    let evicted = run.setup.outages.iter();
                    let evicted: Vec<u16> = evicted.map(|outage| outage.server as u16).collect();
                    (found.missed_of(&evicted), undisturbed.missed_of(&evicted))
                });
                let (with, without) =
                    of_own.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
                failures.push(Failure {
                    first_affected_rise: (without > 0).then(|| ratio(with, without) - 1.0),
                    affected_misses: without,
                    ..failure_of(scheme, down, &own, base)
                });
            }
        }
        failures
    }

    /// These runs have no memory in front of the disks, because hits in memory do not reach the
    /// policies of the disks.
    fn plan_policies(&self, add: &mut impl FnMut(Part, usize, Setup)) {
        let (data, parity) = self.code;
        let setup = |policy: &PolicySpec, placement, size, coordination| Setup {
            policy: policy.clone(),
            memory_share: 0.0,
            coordination,
            ..self.setup(Scheme::coded(data, parity, placement), size)
        };
        let hits = Coordination {
            notifications: Notifications::Hits,
            ..Coordination::default()
        };
        for policy in &self.policies {
            for size in 0..self.sizes.len() {
                for placement in [Placement::Greedy, Placement::Ring] {
                    add(
                        Part::CoResidency,
                        size,
                        setup(policy, placement, size, hits),
                    );
                }
            }
        }
        for (policy, coordination) in self.coordinations() {
            let setup = setup(policy, Placement::Greedy, self.base, coordination);
            add(Part::Coordination, self.base, setup);
        }
        // Shows the space that a shared hand leaves unused if servers are not written to evenly.
        let shared_hand = Coordination {
            order: EvictionOrder::SharedHash,
            ..hits
        };
        for policy in self.policies.iter().take(1) {
            let setup = setup(policy, Placement::Ring, self.base, shared_hand);
            add(Part::Coordination, self.base, setup);
        }
    }

    /// Each policy with each kind of notification; then hash order, which replaces the policy.
    fn coordinations(&self) -> Vec<(&PolicySpec, Coordination)> {
        let notifying = |notifications| Coordination {
            notifications,
            ..Coordination::default()
        };
        let rotating = Coordination {
            rotates_reads: true,
            ..Coordination::default()
        };
        let all = [
            notifying(Notifications::None),
            notifying(Notifications::Hits),
            notifying(Notifications::Evictions),
            notifying(Notifications::Both),
            rotating,
        ];
        let own = |policy| all.map(|coordination| (policy, coordination));
        let mut runs: Vec<_> = self.policies.iter().flat_map(own).collect();
        for order in [EvictionOrder::Hash, EvictionOrder::SharedHash] {
            for coordination in [
                notifying(Notifications::None),
                notifying(Notifications::Hits),
                rotating,
            ] {
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

/// Windows from the failure on.
fn watched(windows: &[Window]) -> &[Window] {
    windows.get(FAILS_AFTER as usize..).unwrap_or_default()
}

/// Groups of servers that fail together, one group per run. Members are spread over the numbers, so
/// that neighbours do not fail together.
fn groups(servers: usize, down: usize) -> Vec<Vec<u32>> {
    let all = servers.div_ceil(down);
    let runs = all.min(TRIALS_MAX);
    let group = |run: usize| {
        let members = (0..down).map(|at| (run * all / runs + at * all) % servers);
        members.map(|server| server as u32).collect()
    };
    (0..runs).map(group).collect()
}

/// Compares runs in which `down` servers failed with a run without failures.
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
        first_affected_rise: None,
        affected_misses: 0,
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
    fn a_rise_is_relative_to_the_misses_without_the_failure() {
        let (one, other) = (missed(&[12, 7, 0]), missed(&[18, 7, 0]));
        let base = missed(&[10, 0, 5]);
        let failure = failure_of(Scheme::Popular, 1, &[&one, &other], &base);
        assert_eq!(failure.rises, [Some(0.5), None, Some(-1.0)]);
        let (least, most) = failure
            .first_range
            .expect("the run without a failure has misses");
        assert!((least - 0.2).abs() < 1e-9 && (most - 0.8).abs() < 1e-9);
    }

    #[test]
    fn every_server_fails_and_of_many_servers_some_with_distant_numbers() {
        assert_eq!(groups(3, 1), [[0], [1], [2]]);
        assert_eq!(groups(4, 2), [[0, 2], [1, 3]]);
        assert_eq!(groups(5, 2), [[0, 3], [1, 4], [2, 0]]);
        let many = groups(100, 2);
        assert_eq!(many.len(), TRIALS_MAX);
        assert_eq!((&many[0], &many[19]), (&vec![0, 50], &vec![47, 97]));
    }

    #[test]
    fn a_failure_after_the_end_of_the_trace_has_no_rises() {
        let before = missed(&[9, 9]);
        assert!(watched(&before).is_empty() && watched(&[]).is_empty());
        let failure = failure_of(Scheme::Popular, 2, &[watched(&before)], watched(&before));
        assert_eq!((failure.rises.len(), failure.first_range), (0, None));
    }
}
