//! Advice on a workload: which policy, how much memory, what lifetimes do, and how sure all that is.
//!
//! [`Gatherer`] reads a trace once, into a sample, an analysis and, where the memory does, the whole trace.
//! [`advise`] compares policies over sizes on the sample, and replays in full what it then recommends.
//! Where only the sample is there, each ratio comes with its bounds, and [`Advice::is_settled`] says
//! whether they are narrow enough or a larger sample should be taken.
//!
//! Deliberately absent: what entries cost a particular server beyond a stated average; prices.

mod gather;
mod page;
mod search;
mod text;
mod ttl;
mod words;

pub use gather::{Gatherer, Material};
pub use words::server_overhead;

use crate::curve::{Named, Point};
use crate::{Contestant, Error, Rules, Unit};
use policy::any::PolicySpec;
use search::{Chosen, Judge};
use serde::Serialize;
use std::sync::atomic::AtomicU64;

/// Bounds on a recommended ratio that are wider than this ask for a larger sample.
pub const BOUND_MAX: f64 = 0.02;
/// No sample grows beyond so many objects.
const SAMPLE_MAX: usize = 1 << 24;
/// By how much a sample grows that is too coarse.
const GROWTH: usize = 4;
/// Without a target, memory is recommended that brings this share of the hits of an unlimited cache.
const HITS_ENOUGH: f64 = 0.95;

/// What is asked. With neither, the memory is told that brings most of the hits that can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Question {
    /// The memory that there is, in the unit of the rules.
    pub memory: Option<u64>,
    /// The miss ratio that is wanted.
    pub target: Option<f64>,
}

/// A figure behind a sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

/// One sentence, what it rests on, and how sure it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// What it is about, in one word.
    pub topic: &'static str,
    /// The sentence.
    pub text: String,
    /// How sure it is.
    pub certainty: String,
    /// The figures behind it.
    pub figures: Vec<Figure>,
}

/// A ratio with its bounds; equal where it comes from a full simulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The share of requests that miss.
    pub miss_ratio: f64,
    /// It is not lower, with a probability of 95 %.
    pub low: f64,
    /// Nor higher.
    pub high: f64,
    /// Whether enough objects of the sample fit into the cache for all this to mean something.
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

/// What is recommended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The policy, as given.
    pub policy: String,
    /// The size of the cache in its unit.
    pub cache_size: u64,
    /// What it will miss.
    #[serde(flatten)]
    pub ratio: Ratio,
    /// The same by bytes, where these are counted.
    pub byte_miss_ratio: Option<f64>,
    /// Whether the ratio comes from a full simulation.
    pub is_exact: bool,
    /// What the sample said of the same cache, where the full simulation came after it.
    pub estimate: Option<Ratio>,
    /// Whether the wanted ratio is reached; `None` where none was wanted.
    pub reaches_target: Option<bool>,
    /// What LRU misses in a cache of the same size.
    pub lru: Ratio,
    /// The memory that LRU needs to miss as little; `None` where no size does.
    pub lru_cache_size: Option<u64>,
}

/// All that is said of one trace.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The trace's name.
    pub trace: String,
    /// What a cache counts: objects or bytes.
    pub unit: &'static str,
    /// Requests of the trace.
    pub requests: u64,
    /// All objects, or their bytes together.
    pub footprint: u64,
    /// The memory given.
    pub memory: Option<u64>,
    /// The miss ratio wanted.
    pub target_miss: Option<f64>,
    /// The policy and the size to take.
    pub recommendation: Recommendation,
    /// Sentences, the most important first.
    pub statements: Vec<Statement>,
    /// What cannot be said of this trace, and why.
    pub left_out: Vec<String>,
    /// Miss ratios over sizes, from the sample: of each policy, and without lifetimes of two.
    pub curves: Vec<Named>,
    #[serde(skip)]
    counts: Option<Unit>,
}

impl Advice {
    /// Whether the recommended ratio is known as closely as is promised.
    pub fn is_settled(&self) -> bool {
        let ratio = self.recommendation.ratio;
        let error = (ratio.high - ratio.miss_ratio).max(ratio.miss_ratio - ratio.low);
        error <= BOUND_MAX
    }

    fn unit(&self) -> Unit {
        self.counts.unwrap_or(Unit::Objects)
    }
}

/// Advice on a trace. `policies` are compared with LRU, which joins them if it is missing; each has the
/// name that it was given by. `done` counts replayed requests.
///
/// # Errors
/// A policy that knows the future, memory that does not do for one replay.
pub fn advise(
    material: &Material,
    rules: &Rules,
    policies: &[(String, impl Into<Contestant> + Clone)],
    question: Question,
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
    let judge = Judge {
        material,
        rules,
        policies: &policies,
        jobs,
        done,
    };
    let survey = judge.survey(question.memory)?;
    let target = question.target;
    let wanted = target.unwrap_or_else(|| survey.enough(HITS_ENOUGH));
    let chosen = match question.memory {
        Some(memory) => judge.within(&survey, memory, target)?,
        None => judge.reaching(&survey, wanted)?,
    };
    let recommendation = recommendation(&judge, &survey, &chosen, target)?;
    let mut curves = survey.named(&judge);
    let mut statements = words::of_choice(&judge, &survey, &chosen, &recommendation, question)?;
    let mut left_out = words::left_out(&material.analysis);
    statements.extend(words::of_other_sizes(&judge, &recommendation)?);
    statements.extend(words::of_costs(&judge, &recommendation));
    ttl::tell(
        &judge,
        &recommendation,
        &mut statements,
        &mut left_out,
        &mut curves,
    )?;
    Ok(Advice {
        trace: material.sample.columns().name().into(),
        unit: rules.unit.name(),
        requests: material.sample.requests(),
        footprint: judge.footprint(),
        memory: question.memory,
        target_miss: question.target,
        recommendation,
        statements,
        left_out,
        curves,
        counts: Some(rules.unit),
    })
}

/// Advice from samples of at least so many objects, which grow until the recommended ratio is known closely
/// enough or they are the whole trace.
///
/// # Errors
/// The first of `from`, which gives advice on a sample of a number of objects.
pub fn settle<E>(
    objects: usize,
    mut from: impl FnMut(usize) -> Result<Advice, E>,
) -> Result<Advice, E> {
    let mut objects = objects;
    loop {
        let advice = from(objects)?;
        if advice.is_settled() || advice.recommendation.is_exact || objects >= SAMPLE_MAX {
            return Ok(advice);
        }
        objects *= GROWTH;
    }
}

fn recommendation(
    judge: &Judge<'_>,
    survey: &search::Survey,
    chosen: &Chosen,
    target: Option<f64>,
) -> Result<Recommendation, Error> {
    let lru = judge.lru();
    let size = chosen.point.capacity;
    let lru_here = match chosen.policy == lru {
        true => chosen.point,
        false => judge.at(lru, size)?,
    };
    let lru_size = match chosen.policy == lru {
        true => Some(size),
        false => judge
            .least(survey, lru, chosen.point.miss_ratio)?
            .map(|point| point.capacity),
    };
    let estimate = match chosen.is_exact && !judge.material.sample.is_whole() {
        true => Some(Ratio::of(&judge.estimated(chosen.policy, size)?)),
        false => None,
    };
    Ok(Recommendation {
        policy: judge.policies[chosen.policy].0.clone(),
        cache_size: size,
        ratio: Ratio::of(&chosen.point),
        byte_miss_ratio: chosen.point.byte_miss_ratio,
        is_exact: chosen.is_exact,
        estimate,
        reaches_target: target.map(|target| chosen.point.miss_ratio <= target),
        lru: Ratio::of(&lru_here),
        lru_cache_size: lru_size,
    })
}
