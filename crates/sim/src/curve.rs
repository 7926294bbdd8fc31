//! Miss ratio curves: the miss ratio of a policy over cache sizes.
//!
//! Exact curves ([`exact`]): LRU at every size from stack distances in one pass, other policies by
//! replaying the whole trace for each size. Estimated curves ([`Sample::curves`]): policies replay
//! a spatial sample of the trace in a cache that is scaled down accordingly (Waldspurger, Park,
//! Garthwaite, Ahmad, "Efficient MRC construction with SHARDS", FAST 2015; Waldspurger,
//! Saemundsson, Ahmad, Park, "Cache modeling and optimization using miniature simulations", ATC
//! 2017). Each point has error bounds.

mod estimate;
mod page;
mod sample;
mod stack;

pub(crate) use page::add_sections;
pub use page::{Named, page, table, text};
pub use sample::{Sample, Sampler, Sampling};

use crate::contestant::{apart, joined};
use crate::segments::{self, SegmentsSpec};
use crate::sweep::sweep;
use crate::{Columns, Configuration, Contestant, Error, ReplayResult, Rules, Unit};
use learn::any::Spec;
use serde::Serialize;
use std::sync::atomic::AtomicU64;

/// Point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Size of the cache in its unit.
    pub capacity: u64,
    /// Share of requests that miss.
    pub miss_ratio: f64,
    /// Lower bound of the miss ratio. The ratio is within the bounds with a probability of 95 %;
    /// they are equal to it if it is exact.
    pub low: f64,
    /// Upper bound of the miss ratio.
    pub high: f64,
    /// Share of requested bytes that miss; `None` if objects are counted.
    pub byte_miss_ratio: Option<f64>,
    /// False if the scaled cache held too few objects for value and bounds to be meaningful.
    pub is_trusted: bool,
}

/// Miss ratios of a policy over cache sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Points by ascending size.
    pub points: Vec<Point>,
    /// Whether the points come from the whole trace.
    pub is_exact: bool,
}

/// Returns `count` sizes, evenly spaced in the logarithm, from `smallest_share` of the footprint to
/// all of it.
pub fn spread(footprint: u64, smallest_share: f64, count: usize) -> Vec<u64> {
    let whole = footprint.max(1) as f64;
    let last = count.max(2) - 1;
    let size = |n: usize| {
        let share = smallest_share.powf(1.0 - n as f64 / last as f64);
        ((whole * share).round() as u64).max(1)
    };
    let mut sizes: Vec<u64> = (0..=last).map(size).collect();
    sizes.dedup();
    sizes
}

/// Computes curves over the whole trace, at ascending sizes. `done` counts requests. At a size
/// below the minimum of an engine, everything misses.
///
/// # Errors
/// A policy that needs future requests which the trace does not have; too little memory; an engine
/// where objects are counted.
pub fn exact(
    columns: &Columns,
    rules: &Rules,
    contestants: &[impl Into<Contestant> + Clone],
    capacities: &[u64],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<Curve>, Error> {
    let contestants: Vec<Contestant> = contestants.iter().cloned().map(Into::into).collect();
    let (policies, engines) = apart(&contestants);
    let of_policies = exact_policies(columns, rules, &policies, capacities, jobs, done)?;
    let of_engines = exact_engines(columns, rules, &engines, capacities, jobs, done)?;
    Ok(joined(&contestants, of_policies, of_engines))
}

fn exact_engines(
    columns: &Columns,
    rules: &Rules,
    engines: &[SegmentsSpec],
    capacities: &[u64],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<Curve>, Error> {
    if engines.is_empty() {
        return Ok(Vec::new());
    }
    let fitting = configurations_that_fit(engines, capacities, |capacity| capacity);
    let found = segments::sweep(columns, rules, &fitting, jobs, done)?;
    let mut found = found.iter();
    let curve = |spec: &SegmentsSpec| {
        let point = |&capacity: &u64| match spec.fits(capacity) {
            true => found
                .next()
                .map(|found| exact_point(capacity, counts(found), rules.unit)),
            false => Some(exact_point(capacity, (1, 1, 1, 1), rules.unit)),
        };
        Curve {
            points: capacities.iter().filter_map(point).collect(),
            is_exact: true,
        }
    };
    Ok(engines.iter().map(curve).collect())
}

/// Returns a configuration for each engine at each size that is large enough for it.
fn configurations_that_fit(
    engines: &[SegmentsSpec],
    capacities: &[u64],
    scaled: impl Fn(u64) -> u64,
) -> Vec<(SegmentsSpec, u64)> {
    let mut all = Vec::new();
    for &spec in engines {
        let sizes = capacities.iter().map(|&capacity| scaled(capacity));
        all.extend(
            sizes
                .filter(|&size| spec.fits(size))
                .map(|size| (spec, size)),
        );
    }
    all
}

/// Returns the number of misses and of requests, and the weights of both.
fn counts(found: &ReplayResult) -> (u64, u64, u64, u64) {
    let c = found.counts;
    (c.misses, c.requests, c.missed_weight, c.requested_weight)
}

fn exact_policies(
    columns: &Columns,
    rules: &Rules,
    policies: &[Spec],
    capacities: &[u64],
    jobs: usize,
    done: &AtomicU64,
) -> Result<Vec<Curve>, Error> {
    assert!(capacities.is_sorted());
    let weight = heaviest(columns, rules);
    // A cache smaller than an object rejects it, which stack distances do not model.
    let refused = capacities.partition_point(|capacity| *capacity < weight);
    let by_stack = |policy: &Spec| {
        policy.to_string() == "lru"
            && columns.is_plain(rules)
            && rules.largest_share == 1.0
            && refused < capacities.len()
    };
    let mut configurations = Vec::new();
    for policy in policies {
        let sizes = match by_stack(policy) {
            true => &capacities[..refused],
            false => capacities,
        };
        configurations.extend(sizes.iter().map(|&capacity| Configuration {
            policy: policy.clone(),
            capacity,
        }));
    }
    let mut found = sweep(columns, rules, &configurations, jobs, done)?.into_iter();
    let mut curves = Vec::new();
    for policy in policies {
        let simulated = match by_stack(policy) {
            true => refused,
            false => capacities.len(),
        };
        let of_policy = found.by_ref().take(simulated);
        let mut counts: Vec<_> = of_policy.map(|found| counts(&found)).collect();
        if by_stack(policy) {
            counts.extend(stack_counts(columns, rules, &capacities[refused..]));
        }
        let points = capacities.iter().zip(counts);
        let points = points.map(|(&capacity, counts)| exact_point(capacity, counts, rules.unit));
        curves.push(Curve {
            points: points.collect(),
            is_exact: true,
        });
    }
    Ok(curves)
}

fn exact_point(capacity: u64, counts: (u64, u64, u64, u64), unit: Unit) -> Point {
    let (misses, requests, missed_weight, requested_weight) = counts;
    let miss_ratio = misses as f64 / requests.max(1) as f64;
    let bytes = missed_weight as f64 / requested_weight.max(1) as f64;
    Point {
        capacity,
        miss_ratio,
        low: miss_ratio,
        high: miss_ratio,
        byte_miss_ratio: (unit == Unit::Bytes).then_some(bytes),
        is_trusted: true,
    }
}

/// Returns the number of misses and of requests under LRU, and the weights of both, at each
/// capacity.
fn stack_counts(columns: &Columns, rules: &Rules, capacities: &[u64]) -> Vec<(u64, u64, u64, u64)> {
    let requests = columns.len().saturating_sub(rules.warm_up) as u64;
    let (requested_weight, misses) = match rules.unit {
        Unit::Objects => {
            let misses = stack::lru_misses(columns, |_| 1, capacities, rules.warm_up);
            (requests, misses)
        }
        Unit::Bytes => {
            let weight = |id: u32| u64::from(columns.sizes[id as usize]);
            let misses = stack::lru_misses(columns, weight, capacities, rules.warm_up);
            (columns.bytes_from(rules.warm_up), misses)
        }
    };
    let counts = misses.iter();
    counts
        .map(|m| (m.requests, requests, m.weight, requested_weight))
        .collect()
}

/// Weight of the largest object.
fn heaviest(columns: &Columns, rules: &Rules) -> u64 {
    match rules.unit {
        Unit::Objects => 1,
        Unit::Bytes => columns.sizes.iter().copied().max().unwrap_or(1).into(),
    }
}
