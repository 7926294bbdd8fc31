//! Statements about policies and memory.

use super::robust::{MARGIN, PREFERRED};
use super::search::{Choice, Evaluator, Survey};
use super::{Constraints, Figure, Ratio, Recommendation, Statement};
use crate::analyze::Analysis;
use crate::{Contestant, Error, Spec, Unit};
use policy::any::PolicySpec;
use units::show::{bytes, count, percent};

/// Minimum saving worth mentioning, as a share of LRU's misses.
const WORTH_IT: f64 = 0.005;
/// Maximum number of other policies in one sentence.
const OTHERS_MAX: usize = 8;
/// Bytes of an entry in this server in addition to key and value: header 4, table 9, rounding up to
/// 8.
const ENTRY_BYTES: f64 = 17.0;
/// Bytes of an entry's deadline: 8 in the entry, 4.5 in the wheel.
const DEADLINE_BYTES: f64 = 12.5;

/// Bytes of an entry in this server in addition to its object.
pub fn server_overhead(has_ttls: bool) -> u32 {
    let deadline = if has_ttls { DEADLINE_BYTES } else { 0.0 };
    (ENTRY_BYTES + deadline).round() as u32
}

pub(super) fn figure(name: &'static str, value: f64) -> Figure {
    Figure { name, value }
}

/// Formats a size.
pub(super) fn size(unit: Unit, size: u64) -> String {
    match unit {
        Unit::Objects if size == 1 => "1 object".into(),
        Unit::Objects => format!("{} objects", count(size as f64)),
        Unit::Bytes => bytes(size as f64),
    }
}

/// Certainty of a ratio.
pub(super) fn certainty(is_exact: bool, ratio: Ratio) -> String {
    match is_exact {
        true => "exact for this trace: from a full simulation".into(),
        false if !ratio.is_trusted => {
            "not reliable: too few objects of the sample fit into such a cache; use a larger --sample-objects"
                .into()
        }
        false => format!(
            "estimated from a sample: between {} and {} with a probability of 95 %",
            percent(ratio.low),
            percent(ratio.high)
        ),
    }
}

/// Returns statements about the choice and its savings.
pub(super) fn of_choice(
    evaluator: &Evaluator<'_>,
    survey: &Survey,
    chosen: &Choice,
    found: &Recommendation,
    constraints: Constraints,
) -> Result<Vec<Statement>, Error> {
    let mut all = vec![choice(evaluator, chosen, found, constraints)?];
    all.extend(robust(evaluator, chosen));
    all.push(setting(&evaluator.policies[chosen.policy].1));
    all.extend(shortfall(evaluator, survey, chosen, found, constraints));
    all.push(saving(evaluator, found));
    all.extend(others(evaluator, survey, chosen)?);
    if let Some(estimate) = found.estimate {
        all.push(checked(found, estimate));
    }
    Ok(all)
}

fn choice(
    evaluator: &Evaluator<'_>,
    chosen: &Choice,
    found: &Recommendation,
    constraints: Constraints,
) -> Result<Statement, Error> {
    let unit = evaluator.rules.unit;
    let memory = size(unit, found.cache_size);
    let share = percent(found.cache_size as f64 / evaluator.footprint().max(1) as f64);
    let misses = percent(found.ratio.miss_ratio);
    let policy = &found.policy;
    let text = match (constraints.memory, constraints.target, found.reaches_target) {
        (Some(_), Some(target), Some(true)) => format!(
            "Use {policy} with {memory}, which is enough for a miss ratio of at most {}: it misses \
             {misses} of the requests.",
            percent(target)
        ),
        (Some(_), ..) if chosen.instead_of.is_some() => {
            format!("Use {policy}: with {memory} it misses {misses} of the requests.")
        }
        (Some(_), ..) if found.cache_size > evaluator.footprint() => format!(
            "Use {policy}: with {memory} it misses {misses} of the requests, the fewest of the policies \
             compared. All objects together take at most {}.",
            size(unit, evaluator.footprint())
        ),
        (Some(_), ..) => format!(
            "Use {policy}: with {memory} it misses {misses} of the requests, the fewest of the \
             policies compared."
        ),
        (None, Some(target), Some(true)) => format!(
            "Use {policy} with {memory}, {share} of the footprint: the smallest cache found with a miss \
             ratio of at most {}. It misses {misses} of the requests.",
            percent(target)
        ),
        (None, Some(_), _) => format!(
            "Use {policy} with {memory}, {share} of the footprint: it misses {misses} of the requests, \
             and more memory saves few misses."
        ),
        (None, None, _) if found.ratio.miss_ratio >= 1.0 => {
            format!("A cache of any size misses every request, also with {policy} and {memory}.")
        }
        (None, None, _) => {
            let unlimited = evaluator.at(chosen.policy, evaluator.footprint())?;
            let hits = (1.0 - found.ratio.miss_ratio) / (1.0 - unlimited.miss_ratio);
            let hits = percent(hits.min(1.0));
            format!(
                "Use {policy} with {memory}, {share} of the footprint: it has {hits} of the hits of an \
                 unlimited cache and misses {misses} of the requests."
            )
        }
    };
    let mut figures = vec![
        figure("cache size", found.cache_size as f64),
        figure("miss ratio", found.ratio.miss_ratio),
        figure("lower bound", found.ratio.low),
        figure("upper bound", found.ratio.high),
    ];
    figures.extend(
        found
            .byte_miss_ratio
            .map(|ratio| figure("miss ratio by bytes", ratio)),
    );
    Ok(Statement {
        topic: "choice",
        text,
        certainty: certainty(found.is_exact, found.ratio),
        figures,
    })
}

/// Statement about a policy that misses less on this trace and is not recommended.
fn robust(evaluator: &Evaluator<'_>, chosen: &Choice) -> Option<Statement> {
    let (policy, point) = chosen.instead_of?;
    let name = &evaluator.policies[policy].0;
    let own = &evaluator.policies[chosen.policy].0;
    let reason = match own == PREFERRED {
        true => "its mean of misses over many traces is the lowest",
        false => "over all sizes it stays closest to the best policy of each",
    };
    Some(Statement {
        topic: "robust",
        text: format!(
            "{name} misses {} with {}. The difference is within {} of the misses or the bounds of the \
             sample, which the next trace of the same workload may reverse, so {own} is recommended: \
             {reason}.",
            percent(point.miss_ratio),
            size(evaluator.rules.unit, point.capacity),
            percent(MARGIN),
        ),
        certainty: certainty(chosen.is_exact, Ratio::of(&point)),
        figures: vec![
            figure("fewest misses", point.miss_ratio),
            figure("its cache size", point.capacity as f64),
        ],
    })
}

/// Statement with the setting that selects the policy in the server.
fn setting(chosen: &Contestant) -> Statement {
    let text = match chosen {
        Contestant::Segments(_) => "In the server: --engine segment.".into(),
        Contestant::Policy(spec) => match server_policy(spec) {
            Some(name) => format!("In the server: maxmemory-policy allkeys-{name}"),
            None => format!("The server does not offer {spec}: it is for simulation only."),
        },
    };
    Statement {
        topic: "setting",
        text,
        certainty: "the same algorithm as simulated".into(),
        figures: Vec::new(),
    }
}

/// Name after `allkeys-` that selects the same algorithm in the server, where `lru` and `lfu` are
/// the sampled algorithms of Redis.
fn server_policy(spec: &Spec) -> Option<String> {
    match spec {
        Spec::Plain(spec) if spec.needs_future() => None,
        Spec::Plain(PolicySpec::Lru(())) => Some("exact-lru".into()),
        Spec::Plain(spec) if spec.to_string() == "lfu" => Some("exact-lfu".into()),
        Spec::Plain(spec) => Some(spec.to_string()),
        Spec::Learned(_) => None,
    }
}

/// Formats a number of entries.
fn entry_count(entries: f64) -> String {
    match entries.round() as u64 {
        1 => "1 entry".into(),
        _ => format!("{} entries", count(entries)),
    }
}

/// Returns the statement about why the target is not reached.
fn shortfall(
    evaluator: &Evaluator<'_>,
    survey: &Survey,
    chosen: &Choice,
    found: &Recommendation,
    constraints: Constraints,
) -> Option<Statement> {
    let target = constraints
        .target
        .filter(|_| found.reaches_target == Some(false))?;
    let needed = match constraints.memory {
        Some(_) => evaluator.reaching(survey, target).ok(),
        None => None,
    };
    let needed = needed.filter(|needed| needed.point.miss_ratio <= target);
    let everything = evaluator.at(chosen.policy, evaluator.footprint()).ok();
    let floor = everything.map_or(1.0, |point| point.miss_ratio);
    let floor = floor.min(chosen.point.miss_ratio);
    let wanted = percent(target);
    let (text, is_exact) = match needed {
        Some(needed) => {
            let policy = &evaluator.policies[needed.policy].0;
            let memory = size(evaluator.rules.unit, needed.point.capacity);
            let text =
                format!("A miss ratio of {wanted} needs more memory: {memory} with {policy}.");
            (text, needed.is_exact)
        }
        None => {
            let text = format!(
                "No cache size reaches a miss ratio of {wanted} on this trace: even an unlimited cache \
                 misses {} of the requests.",
                percent(floor)
            );
            (text, evaluator.is_exact())
        }
    };
    let size = needed.map(|needed| figure("cache size needed", needed.point.capacity as f64));
    Some(Statement {
        topic: "shortfall",
        text,
        certainty: match is_exact {
            true => "exact for this trace: from full simulations".into(),
            false => "estimated from a sample".into(),
        },
        figures: size
            .into_iter()
            .chain([figure("least miss ratio", floor)])
            .collect(),
    })
}

fn saving(evaluator: &Evaluator<'_>, found: &Recommendation) -> Statement {
    let (own, lru) = (found.ratio.miss_ratio, found.lru.miss_ratio);
    let saved = if lru > 0.0 { (lru - own) / lru } else { 0.0 };
    let memory = |needed: u64| {
        let more = needed as f64 / found.cache_size.max(1) as f64 - 1.0;
        let needed = size(evaluator.rules.unit, needed);
        match more >= WORTH_IT {
            true => format!(
                "LRU needs {needed} for the same miss ratio, {} more.",
                percent(more)
            ),
            false => "LRU needs no more memory for the same miss ratio.".into(),
        }
    };
    let text = match (found.policy == "lru", saved >= WORTH_IT) {
        (true, _) => "No policy compared misses less than LRU.".into(),
        (_, false) => format!(
            "LRU of the same size misses about as much: {}.",
            percent(lru)
        ),
        (_, true) => {
            let first = format!(
                "LRU of the same size misses {}: {} saves {} of its misses.",
                percent(lru),
                found.policy,
                percent(saved)
            );
            match found.lru_cache_size {
                Some(needed) => format!("{first} {}", memory(needed)),
                None => format!("{first} LRU misses more at any size."),
            }
        }
    };
    let mut figures = vec![
        figure("LRU's miss ratio", lru),
        figure("misses saved", saved),
    ];
    let needed = found
        .lru_cache_size
        .map(|size| figure("size needed by LRU", size as f64));
    figures.extend(needed);
    Statement {
        topic: "saving",
        text,
        certainty: certainty(found.is_exact, found.lru),
        figures,
    }
}

/// Statement about the other policies at the recommended size, or with a sample at the nearest
/// surveyed size.
fn others(
    evaluator: &Evaluator<'_>,
    survey: &Survey,
    chosen: &Choice,
) -> Result<Option<Statement>, Error> {
    let size = match evaluator.is_exact() {
        true => chosen.point.capacity,
        false => survey.nearest(chosen.point.capacity),
    };
    // Only the best of the survey are replayed at the size.
    let near = survey.nearest(size);
    let surveyed = |policy: usize| {
        survey
            .at(policy, near)
            .map_or(1.0, |point| point.miss_ratio)
    };
    let is_other = |policy: &usize| *policy != chosen.policy && *policy != evaluator.lru();
    let mut all: Vec<usize> = (0..evaluator.policies.len()).filter(is_other).collect();
    all.sort_by(|a, b| surveyed(*a).total_cmp(&surveyed(*b)));
    let which = match all.len() > OTHERS_MAX {
        true => format!("best {OTHERS_MAX} of the {} other", all.len()),
        false => "other".into(),
    };
    all.truncate(OTHERS_MAX);
    all.push(chosen.policy);
    let curves = evaluator.curves(evaluator.rules, &all, &[size])?;
    let ratio = |at: usize| curves[at].points[0].miss_ratio;
    let last = all.len() - 1;
    let mut others: Vec<(&str, f64)> = (0..last)
        .map(|at| (evaluator.policies[all[at]].0.as_str(), ratio(at)))
        .collect();
    others.sort_by(|a, b| a.1.total_cmp(&b.1));
    let names: Vec<String> = others
        .iter()
        .map(|(name, ratio)| format!("{name} {}", percent(*ratio)))
        .collect();
    let point = curves[last].points[0];
    let error = (point.high - point.low) / 2.0;
    Ok((!names.is_empty()).then(|| Statement {
        topic: "others",
        text: format!(
            "Miss ratios of the {which} policies with {}: {}.",
            self::size(evaluator.rules.unit, size),
            names.join(", ")
        ),
        certainty: match evaluator.is_exact() {
            true => "exact for this trace: from full simulations".into(),
            false => format!("estimated from a sample: about ±{}", percent(error)),
        },
        figures: vec![figure("cache size", size as f64)],
    }))
}

/// Statement about the accuracy of the sample, measured by the full simulation.
fn checked(found: &Recommendation, estimate: Ratio) -> Statement {
    let off = (estimate.miss_ratio - found.ratio.miss_ratio).abs();
    let is_inside = (estimate.low..=estimate.high).contains(&found.ratio.miss_ratio);
    Statement {
        topic: "sample",
        text: format!(
            "The sample's estimate for the same cache was {}, an error of {} of the requests, which is \
             {} its bounds.",
            percent(estimate.miss_ratio),
            percent(off),
            if is_inside { "within" } else { "outside" }
        ),
        certainty: "policies and sizes were selected on the sample and then simulated in full"
            .into(),
        figures: vec![
            figure("estimate", estimate.miss_ratio),
            figure("lower bound", estimate.low),
            figure("upper bound", estimate.high),
        ],
    }
}

/// Statement about half and twice the memory.
pub(super) fn of_other_sizes(
    evaluator: &Evaluator<'_>,
    found: &Recommendation,
) -> Result<Option<Statement>, Error> {
    let policy = evaluator
        .policies
        .iter()
        .position(|(name, _)| *name == found.policy);
    let policy = policy.expect("the recommendation is from the list");
    let (half, twice) = (found.cache_size / 2, found.cache_size.saturating_mul(2));
    if half == 0 {
        return Ok(None);
    }
    let (less, more) = (evaluator.at(policy, half)?, evaluator.at(policy, twice)?);
    Ok(Some(Statement {
        topic: "memory",
        text: format!(
            "With half the memory it would miss {} of the requests, with twice the memory {}.",
            percent(less.miss_ratio),
            percent(more.miss_ratio)
        ),
        certainty: match evaluator.is_exact() {
            true => "exact for this trace: from full simulations".into(),
            false => certainty(false, Ratio::of(&less)),
        },
        figures: vec![
            figure("miss ratio of half the size", less.miss_ratio),
            figure("miss ratio of twice the size", more.miss_ratio),
        ],
    }))
}

/// Statements about first requests and about the server's overhead.
pub(super) fn of_costs(evaluator: &Evaluator<'_>, found: &Recommendation) -> Vec<Statement> {
    let analysis = &evaluator.inputs.analysis;
    let first = (analysis.objects / analysis.requests.max(1) as f64).min(1.0);
    let mut all = vec![Statement {
        topic: "first-requests",
        text: format!(
            "{} of the requests are the first for their object in this trace and miss in any cache that \
             starts empty.",
            percent(first)
        ),
        certainty: match analysis.sampling.one_in {
            1 => "counted over the whole trace".into(),
            _ => format!("± {} of it", percent(2.0 * analysis.sampling.error)),
        },
        figures: vec![figure("first requests", first)],
    }];
    if evaluator.rules.unit == Unit::Bytes && evaluator.rules.overhead > 0 {
        all.push(everything_held(evaluator, found));
    } else if evaluator.rules.unit == Unit::Bytes {
        let mean = (analysis.footprint_bytes / analysis.objects.max(1.0)).max(1.0);
        let held = found.cache_size.min(evaluator.footprint()) as f64;
        let entries = held / mean;
        let deadline = if evaluator.has_ttls() {
            DEADLINE_BYTES
        } else {
            0.0
        };
        let server = held + entries * (ENTRY_BYTES + deadline);
        all.push(Statement {
            topic: "server",
            text: format!(
                "With objects of {} on average it holds at most {}. This server needs about {:.0} more bytes \
                 per entry: set maxmemory to about {}.",
                bytes(mean),
                entry_count(entries),
                ENTRY_BYTES + deadline,
                bytes(server)
            ),
            certainty: "computed from the mean size, without the memory of the policy itself".into(),
            figures: vec![
                figure("mean size in bytes", mean),
                figure("entries", entries),
                figure("maxmemory in bytes", server),
            ],
        });
    }
    all
}

/// Returns the statement that the sizes include the overhead of entries.
fn everything_held(evaluator: &Evaluator<'_>, found: &Recommendation) -> Statement {
    let overhead = evaluator.rules.overhead;
    let chosen = evaluator
        .policies
        .iter()
        .find(|(name, _)| *name == found.policy);
    let text = match chosen.is_some_and(|(_, one)| one.is_engine()) {
        true => format!(
            "The size of {} includes all its memory: set maxmemory to it and use --engine segment.",
            found.policy
        ),
        false => format!(
            "Sizes include {overhead} bytes per entry in addition to its object: set maxmemory to the size."
        ),
    };
    Statement {
        topic: "server",
        text,
        certainty: format!(
            "computed with {overhead} bytes per entry, without the memory of the policy itself"
        ),
        figures: vec![
            figure("overhead per entry in bytes", f64::from(overhead)),
            figure("maxmemory in bytes", found.cache_size as f64),
        ],
    }
}

/// Returns the statements that cannot be made for this trace, with the reasons.
pub(super) fn left_out(analysis: &Analysis) -> Vec<String> {
    let mut all = Vec::new();
    if analysis.sizes.is_none() {
        all.push("Bytes: the trace has no sizes, so memory is counted in objects.".into());
    }
    if analysis.operations.is_none() {
        all.push("Writes: the trace has no operations, so each request counts as a read.".into());
    }
    all
}
