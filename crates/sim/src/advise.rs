//! Advice on a workload: which policy, how much memory, what TTLs cost, and how certain that is.
//!
//! [`Collector`] reads a trace once, into a sample, an analysis and, if memory suffices, the whole
//! trace. [`advise`] compares policies over sizes on the sample, and replays its recommendation in
//! full. If only the sample is available, each ratio has bounds, and [`Advice::is_precise`] returns
//! whether they are narrow enough or a larger sample is needed.
//!
//! Deliberately absent: the memory overhead of a particular server beyond a stated average; prices.

mod gather;
mod page;
mod robust;
mod search;
mod statements;
mod text;
mod ttl;

pub use gather::{Collector, Inputs};
pub use statements::server_overhead;

use crate::curve::{Named, Point};
use crate::{Contestant, Error, Rules, Unit};
use policy::any::{POLICIES, PolicySpec};
use search::{Choice, Evaluator};
use serde::Serialize;
use std::sync::atomic::AtomicU64;

/// Width of the bounds on a recommended ratio above which a larger sample is taken.
pub const BOUND_MAX: f64 = 0.02;
/// Maximum number of objects of a sample.
const SAMPLE_MAX: usize = 1 << 24;
/// Factor by which a sample that is too small grows.
const GROWTH: usize = 4;
/// Without a target, the recommended size achieves this share of the hits of an unlimited cache.
const HITS_ENOUGH: f64 = 0.95;

/// Constraints of the advice. Without any, a size is recommended that achieves most of the possible
/// hits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Constraints {
    /// Available memory, in the unit of the rules.
    pub memory: Option<u64>,
    /// Miss ratio to reach.
    pub target: Option<f64>,
}

/// A number behind a statement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name with its unit.
    pub name: &'static str,
    /// Value.
    pub value: f64,
}

/// One statement of the advice, with its certainty and the numbers behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// Topic in one word.
    pub topic: &'static str,
    /// The statement as text.
    pub text: String,
    /// Certainty of the statement.
    pub certainty: String,
    /// Numbers behind the statement.
    pub figures: Vec<Figure>,
}

/// A miss ratio with bounds, which are equal to it if it comes from a full simulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Share of requests that miss.
    pub miss_ratio: f64,
    /// Lower bound, with a probability of 95 %.
    pub low: f64,
    /// Upper bound, with a probability of 95 %.
    pub high: f64,
    /// Whether enough objects of the sample fit into the cache for the ratio to be meaningful.
    pub is_trusted: bool,
}

impl Ratio {
    fn of(point: &Point) -> Ratio {
        Ratio {
            miss_ratio: point.miss_ratio,
            low: point.low,
            high: point.high,
            is_trusted: point.is_trusted,
        }
    }
}

/// Recommended policy and size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// Name of the policy as given.
    pub policy: String,
    /// Size of the cache in its unit.
    pub cache_size: u64,
    /// Expected miss ratio.
    #[serde(flatten)]
    pub ratio: Ratio,
    /// Expected byte miss ratio, if bytes are counted.
    pub byte_miss_ratio: Option<f64>,
    /// Whether the ratio comes from a full simulation.
    pub is_exact: bool,
    /// Policy with the fewest misses on this trace, if a more robust one is recommended instead.
    pub fewest_misses: Option<String>,
    /// Estimate of the sample, if the ratio comes from a full simulation.
    pub estimate: Option<Ratio>,
    /// Whether the target is reached; `None` without a target.
    pub reaches_target: Option<bool>,
    /// Miss ratio of LRU at the same size.
    pub lru: Ratio,
    /// Size at which LRU has as few misses; `None` if there is no such size.
    pub lru_cache_size: Option<u64>,
}

/// Advice on one trace.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Name of the trace.
    pub trace: String,
    /// Unit of sizes: objects or bytes.
    pub unit: &'static str,
    /// Number of requests of the trace.
    pub requests: u64,
    /// Number of all objects, or their total bytes.
    pub footprint: u64,
    /// Available memory, if given.
    pub memory: Option<u64>,
    /// Miss ratio to reach, if given.
    pub target_miss: Option<f64>,
    /// Recommended policy and size.
    pub recommendation: Recommendation,
    /// Statements, the most important first.
    pub statements: Vec<Statement>,
    /// Statements that the trace does not allow, with the reasons.
    pub left_out: Vec<String>,
    /// Miss ratios over sizes from the sample: of each policy, the recommended one and LRU first,
    /// and of two policies without TTLs.
    pub curves: Vec<Named>,
    #[serde(skip)]
    counts: Option<Unit>,
}

impl Advice {
    /// Whether the recommended ratio is known within [`BOUND_MAX`].
    pub fn is_precise(&self) -> bool {
        let ratio = self.recommendation.ratio;
        let error = (ratio.high - ratio.miss_ratio).max(ratio.miss_ratio - ratio.low);
        error <= BOUND_MAX
    }

    fn unit(&self) -> Unit {
        self.counts.unwrap_or(Unit::Objects)
    }
}

/// Names of the policies compared by default: all policies that the server offers and that choose
/// by the requests alone. Policies that draw victims at random, and policies that keep memory in
/// slabs of one size class, are left out, because another policy with the same state misses less.
pub fn candidates() -> impl Iterator<Item = &'static str> {
    const LEFT_OUT: [&str; 4] = ["random", "sampled", "sampled-ttl", "memcached-lru"];
    let served = POLICIES.iter().filter(|about| about.meta_bits.is_some());
    let names = served.map(|about| about.name);
    names.filter(|name| !LEFT_OUT.contains(name) && !name.starts_with("slab-"))
}

/// Computes advice on a trace. `policies` are compared with LRU, which is added if it is missing;
/// each has its name as given. `done` counts replayed requests.
///
/// # Errors
/// A policy that needs future requests; too little memory for one replay.
pub fn advise(
    inputs: &Inputs,
    rules: &Rules,
    policies: &[(String, impl Into<Contestant> + Clone)],
    constraints: Constraints,
    jobs: usize,
    done: &AtomicU64,
) -> Result<Advice, Error> {
    let policies = policies.iter().cloned();
    let mut policies: Vec<(String, Contestant)> =
        policies.map(|(name, spec)| (name, spec.into())).collect();
    let lru = Contestant::from(PolicySpec::Lru(()));
    if !policies.iter().any(|(_, one)| *one == lru) {
        policies.push(("lru".into(), lru));
    }
    let evaluator = Evaluator {
        inputs,
        rules,
        policies: &policies,
        jobs,
        done,
    };
    let survey = evaluator.survey(constraints.memory)?;
    let target = constraints.target;
    let wanted = target.unwrap_or_else(|| survey.enough(HITS_ENOUGH));
    let chosen = match constraints.memory {
        Some(memory) => evaluator.within(&survey, memory, target)?,
        None => evaluator.reaching(&survey, wanted)?,
    };
    let recommendation = recommendation(&evaluator, &survey, &chosen, target)?;
    let mut curves = survey.named(&evaluator, &chosen);
    let mut statements =
        statements::of_choice(&evaluator, &survey, &chosen, &recommendation, constraints)?;
    let mut left_out = statements::left_out(&inputs.analysis);
    statements.extend(statements::of_other_sizes(&evaluator, &recommendation)?);
    statements.extend(statements::of_costs(&evaluator, &recommendation));
    ttl::add(
        &evaluator,
        &recommendation,
        &mut statements,
        &mut left_out,
        &mut curves,
    )?;
    Ok(Advice {
        trace: inputs.sample.columns().name().into(),
        unit: rules.unit.name(),
        requests: inputs.sample.requests(),
        footprint: evaluator.footprint(),
        memory: constraints.memory,
        target_miss: constraints.target,
        recommendation,
        statements,
        left_out,
        curves,
        counts: Some(rules.unit),
    })
}

/// Computes advice from samples that start with `objects` objects and grow until the recommended
/// ratio is precise enough or the sample is the whole trace.
///
/// # Errors
/// Returns the first error of `from`, which computes advice from a sample of a number of objects.
pub fn refine<E>(
    objects: usize,
    mut from: impl FnMut(usize) -> Result<Advice, E>,
) -> Result<Advice, E> {
    let mut objects = objects;
    loop {
        let advice = from(objects)?;
        if advice.is_precise() || advice.recommendation.is_exact || objects >= SAMPLE_MAX {
            return Ok(advice);
        }
        objects *= GROWTH;
    }
}

fn recommendation(
    evaluator: &Evaluator<'_>,
    survey: &search::Survey,
    chosen: &Choice,
    target: Option<f64>,
) -> Result<Recommendation, Error> {
    let lru = evaluator.lru();
    let size = chosen.point.capacity;
    let lru_here = match chosen.policy == lru {
        true => chosen.point,
        false => evaluator.at(lru, size)?,
    };
    let lru_size = match chosen.policy == lru {
        true => Some(size),
        false => evaluator
            .least(survey, lru, chosen.point.miss_ratio)?
            .map(|point| point.capacity),
    };
    let estimate = match chosen.is_exact && !evaluator.inputs.sample.is_whole() {
        true => Some(Ratio::of(&evaluator.estimated(chosen.policy, size)?)),
        false => None,
    };
    Ok(Recommendation {
        policy: evaluator.policies[chosen.policy].0.clone(),
        cache_size: size,
        ratio: Ratio::of(&chosen.point),
        byte_miss_ratio: chosen.point.byte_miss_ratio,
        is_exact: chosen.is_exact,
        fewest_misses: chosen
            .instead_of
            .map(|(policy, _)| evaluator.policies[policy].0.clone()),
        estimate,
        reaches_target: target.map(|target| chosen.point.miss_ratio <= target),
        lru: Ratio::of(&lru_here),
        lru_cache_size: lru_size,
    })
}
