//! Replays of one trace under many configurations, several in parallel.

use crate::foresight::Oracle;
use crate::learned;
use crate::replay::{BytesPerObject, Job, STOPPED};
use crate::result::ReplayResult;
use crate::rules::Rules;
use crate::{Columns, Error, Unit};
use learn::any::Spec;
use policy::Policy;
use policy::any::{PolicySpec, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// A policy and its cache size.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The policy.
    pub policy: Spec,
    /// Size in the unit of the rules.
    pub capacity: u64,
}

/// Returns LRU configurations for the sizes that have none. Their ages at eviction are the
/// reference for the other replays.
fn baselines(rules: &Rules, configurations: &[Configuration]) -> Vec<Configuration> {
    if !rules.explains {
        return Vec::new();
    }
    let is_lru = |other: &&Configuration| other.policy == PolicySpec::Lru(()).into();
    let has: BTreeSet<u64> = configurations
        .iter()
        .filter(is_lru)
        .map(|c| c.capacity)
        .collect();
    let all: BTreeSet<u64> = configurations.iter().map(|c| c.capacity).collect();
    let missing = all.difference(&has).map(|&capacity| Configuration {
        policy: PolicySpec::Lru(()).into(),
        capacity,
    });
    missing.collect()
}

/// Number of replays that a sweep makes, with the LRU replays that explain the others.
pub fn replay_count(rules: &Rules, configurations: &[Configuration]) -> usize {
    configurations.len() + baselines(rules, configurations).len()
}

/// Replays the trace for each configuration, `jobs` at a time; `done` counts requests. Results are
/// in the order of the configurations and do not depend on `jobs`, except for CPU times.
///
/// # Errors
/// A policy that needs future requests which the trace does not have, and too little memory for one
/// replay.
pub fn sweep(
    columns: &Columns,
    rules: &Rules,
    configurations: &[Configuration],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<ReplayResult>, Error> {
    let mut all = configurations.to_vec();
    all.extend(baselines(rules, configurations));
    let found = run(columns, rules, &all, jobs, done, false)?;
    let mut found: Vec<ReplayResult> = found.into_iter().map(|(found, _)| found).collect();
    let ages: BTreeMap<u64, f64> = all
        .iter()
        .zip(&found)
        .filter(|(configuration, _)| configuration.policy == PolicySpec::Lru(()).into())
        .filter_map(|(configuration, found)| {
            let age = found.explained.as_ref()?.idle_age?;
            Some((configuration.capacity, age))
        })
        .collect();
    found.truncate(configurations.len());
    for (configuration, found) in configurations.iter().zip(&mut found) {
        if let Some(explained) = &mut found.explained
            && let Some(age) = explained.demotion_age
            && let Some(lru_age) = ages.get(&configuration.capacity)
        {
            explained.demotion_speed = Some(lru_age / age.max(1.0));
        }
    }
    Ok(found)
}

/// Same as [`sweep`], but also returns each object's misses after the warm-up, and no explanations.
pub(crate) fn sweep_objects(
    columns: &Columns,
    rules: &Rules,
    configurations: &[Configuration],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<(ReplayResult, Vec<u32>)>, Error> {
    run(columns, rules, configurations, jobs, done, true)
}

fn run(
    columns: &Columns,
    rules: &Rules,
    configurations: &[Configuration],
    jobs: usize,
    done: &AtomicU64,
    counts_objects: bool,
) -> Result<Vec<(ReplayResult, Vec<u32>)>, Error> {
    let needs_future = |configuration: &Configuration| configuration.policy.needs_future();
    let future: &[u32] = if configurations.iter().any(needs_future) {
        columns.future()?
    } else {
        &[]
    };
    let oracle = Oracle::new(columns, rules)?;
    let jobs = affordable_jobs(columns, rules, configurations, jobs, oracle.as_ref())?;
    let requested_weight = requested_weight(columns, rules);
    let found = run_parallel(configurations.len(), jobs, |index| {
        let configuration = &configurations[index];
        learned::begin(&rules.hidden_features);
        let policy = configuration.policy.with_maker(learned::maker());
        policy.visit(Job {
            columns,
            rules,
            capacity: configuration.capacity,
            future,
            oracle: oracle.as_ref(),
            requested_weight,
            done,
            counts_objects,
        })
    });
    complete(found, done)
}

/// Replays the trace through a policy of any crate at each size, one after the other. The host, its
/// rules and its counters are those of [`sweep`]. `done` counts requests.
///
/// ```
/// use policy::evict::lru::Lru;
/// use sim::{Interner, Interning, Rules, replay_policy};
/// use std::sync::atomic::AtomicU64;
///
/// let keys = [1, 2, 1, 3, 1, 2];
/// let requests = keys.map(|key| Ok(trace::Request::new(0, key, 1)));
/// let columns = Interner::all("tiny", Interning::default(), requests)?;
/// let found = replay_policy::<Lru>(&columns, &Rules::default(), &(), &[2], &AtomicU64::new(0))?;
/// assert_eq!(found[0].counts.misses, 4);
/// # Ok::<(), sim::Error>(())
/// ```
///
/// # Errors
/// Returns the errors of [`sweep`].
pub fn replay_policy<P: Policy + 'static>(
    columns: &Columns,
    rules: &Rules,
    config: &P::Config,
    capacities: &[u64],
    done: &AtomicU64,
) -> Result<Vec<ReplayResult>, Error> {
    let future: &[u32] = if P::NEEDS_FUTURE {
        columns.future()?
    } else {
        &[]
    };
    let oracle = Oracle::new(columns, rules)?;
    let bytes_per_object = BytesPerObject(rules).visit::<P>(config) + POLICY_BYTES_PER_OBJECT;
    jobs_within(columns, rules, bytes_per_object, oracle.as_ref())?;
    let found = capacities.iter().map(|&capacity| {
        let job = Job {
            columns,
            rules,
            capacity,
            future,
            oracle: oracle.as_ref(),
            requested_weight: requested_weight(columns, rules),
            done,
            counts_objects: false,
        };
        job.visit::<P>(config).0
    });
    complete(found.collect(), done)
}

/// Returns the results, unless the sweep was stopped and they cover only part of the trace.
pub(crate) fn complete<T>(found: Vec<T>, done: &AtomicU64) -> Result<Vec<T>, Error> {
    match done.load(Ordering::Relaxed) & STOPPED {
        0 => Ok(found),
        _ => Err(Error::Stopped),
    }
}

/// Total weight of the requests after the warm-up.
fn requested_weight(columns: &Columns, rules: &Rules) -> u64 {
    match rules.unit {
        Unit::Objects => columns.len().saturating_sub(rules.warm_up) as u64,
        Unit::Bytes => columns.bytes_from(rules.warm_up),
    }
}

/// Runs `count` pieces of work, `jobs` in parallel, and returns their results in order.
pub(crate) fn run_parallel<T: Send>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let empty: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let found = Mutex::new(empty);
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let result = work(index);
            let mut found = found.lock().expect("no code panics while the lock is held");
            found[index] = Some(result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(count) {
            scope.spawn(worker);
        }
        worker();
    });
    let found = found.into_inner().expect("no replay panicked");
    let found: Option<Vec<_>> = found.into_iter().collect();
    found.expect("every piece was run")
}

/// Estimated maximum bytes of a policy's queues and ghosts for each object.
const POLICY_BYTES_PER_OBJECT: u64 = 32;

/// Number of parallel jobs, limited by the request, the number of configurations and the memory
/// allowed.
fn affordable_jobs(
    columns: &Columns,
    rules: &Rules,
    configurations: &[Configuration],
    wanted: usize,
    oracle: Option<&Oracle<'_>>,
) -> Result<usize, Error> {
    let costs = configurations
        .iter()
        .map(|configuration| configuration.policy.visit(BytesPerObject(rules)));
    let bytes_per_object = costs.max().unwrap_or(0) + POLICY_BYTES_PER_OBJECT;
    let jobs = jobs_within(columns, rules, bytes_per_object, oracle)?;
    Ok(wanted.clamp(1, configurations.len().max(1)).min(jobs))
}

/// Number of replays that the memory allowed suffices for.
fn jobs_within(
    columns: &Columns,
    rules: &Rules,
    bytes_per_object: u64,
    oracle: Option<&Oracle<'_>>,
) -> Result<usize, Error> {
    let job_bytes = bytes_per_object * columns.objects() as u64;
    let shared = columns.heap_bytes() + oracle.map_or(0, Oracle::heap_bytes);
    let left = rules.memory_limit.saturating_sub(shared);
    match left / job_bytes.max(1) {
        0 => Err(Error::TooLarge {
            trace: columns.name().into(),
            requests: columns.len() as u64,
            objects: columns.objects() as u64,
            needed: shared + job_bytes,
            limit: rules.memory_limit,
        }),
        jobs => Ok(jobs.try_into().unwrap_or(usize::MAX)),
    }
}
