//! What is said of policies and memory, and what cannot be said.

use super::search::{Chosen, Judge, Survey};
use super::{Figure, Question, Ratio, Recommendation, Statement};
use crate::analyze::Analysis;
use crate::analyze::findings::{bytes, count, percent};
use crate::{Error, Unit};

/// Savings below this share of LRU's misses are none to speak of.
const WORTH_IT: f64 = 0.005;
/// What an entry takes in this server beside key and value: header 4, table 9, rounding up to 8.
const ENTRY_BYTES: f64 = 17.0;
/// And for its deadline: 8 in the entry, 4.5 in the wheel.
const DEADLINE_BYTES: f64 = 12.5;

/// Bytes that an entry takes in this server beside its object.
pub fn server_overhead(has_ttls: bool) -> u32 {
    let deadline = if has_ttls { DEADLINE_BYTES } else { 0.0 };
    (ENTRY_BYTES + deadline).round() as u32
}

pub(super) fn figure(name: &'static str, value: f64) -> Figure {
    Figure { name, value }
}

/// A size in words.
pub(super) fn size(unit: Unit, size: u64) -> String {
    match unit {
        Unit::Objects if size == 1 => "1 object".into(),
        Unit::Objects => format!("{} objects", count(size as f64)),
        Unit::Bytes => bytes(size as f64),
    }
}

/// How sure a ratio is.
pub(super) fn certainty(is_exact: bool, ratio: Ratio) -> String {
    match is_exact {
        true => "exact for this trace: a full simulation".into(),
        false if !ratio.is_trusted => {
            "a guess: too few objects of the sample fit into such a cache; a larger --sample-objects helps"
                .into()
        }
        false => format!(
            "estimated from a sample: between {} and {} with a probability of 95 %",
            percent(ratio.low),
            percent(ratio.high)
        ),
    }
}

/// What to take, and what it saves.
pub(super) fn of_choice(
    judge: &Judge<'_>,
    survey: &Survey,
    chosen: &Chosen,
    found: &Recommendation,
    question: Question,
) -> Result<Vec<Statement>, Error> {
    let mut all = vec![choice(judge, chosen, found, question)?];
    all.extend(shortfall(judge, survey, chosen, found, question));
    all.push(saving(judge, found));
    all.extend(others(judge, survey, chosen)?);
    if let Some(estimate) = found.estimate {
        all.push(checked(found, estimate));
    }
    Ok(all)
}

fn choice(
    judge: &Judge<'_>,
    chosen: &Chosen,
    found: &Recommendation,
    question: Question,
) -> Result<Statement, Error> {
    let unit = judge.rules.unit;
    let memory = size(unit, found.cache_size);
    let share = percent(found.cache_size as f64 / judge.footprint().max(1) as f64);
    let misses = percent(found.ratio.miss_ratio);
    let policy = &found.policy;
    let text = match (question.memory, question.target, found.reaches_target) {
        (Some(_), Some(target), Some(true)) => format!(
            "Take {policy}: {memory} are enough for a miss ratio of {} or less; it misses {misses} of \
             the requests.",
            percent(target)
        ),
        (Some(_), ..) if found.cache_size > judge.footprint() => format!(
            "Take {policy}: with {memory} it misses {misses} of the requests, the least of the policies \
             compared. All objects together take no more than {}.",
            size(unit, judge.footprint())
        ),
        (Some(_), ..) => format!(
            "Take {policy}: with {memory} it misses {misses} of the requests, the least of the \
             policies compared."
        ),
        (None, Some(target), Some(true)) => format!(
            "Take {policy} with {memory}, {share} of everything: the smallest cache found that misses \
             no more than {}; it misses {misses} of the requests.",
            percent(target)
        ),
        (None, Some(_), _) => format!(
            "Take {policy} with {memory}, {share} of everything: it misses {misses} of the requests, \
             and more memory hardly helps."
        ),
        (None, None, _) if found.ratio.miss_ratio >= 1.0 => format!(
            "No cache of any size has a hit: every request misses, also with {policy} and {memory}, and \
             more memory does not help."
        ),
        (None, None, _) => {
            let unlimited = judge.at(chosen.policy, judge.footprint())?;
            let hits = (1.0 - found.ratio.miss_ratio) / (1.0 - unlimited.miss_ratio);
            let hits = percent(hits.min(1.0));
            format!(
                "Take {policy} with {memory}, {share} of everything: it has {hits} of the hits that it \
                 would have without a bound, and misses {misses} of the requests."
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

/// Why the wanted ratio is not reached.
fn shortfall(
    judge: &Judge<'_>,
    survey: &Survey,
    chosen: &Chosen,
    found: &Recommendation,
    question: Question,
) -> Option<Statement> {
    let target = question
        .target
        .filter(|_| found.reaches_target == Some(false))?;
    let needed = match question.memory {
        Some(_) => judge.reaching(survey, target).ok(),
        None => None,
    };
    let needed = needed.filter(|needed| needed.point.miss_ratio <= target);
    let everything = judge.at(chosen.policy, judge.footprint()).ok();
    let floor = everything.map_or(1.0, |point| point.miss_ratio);
    let floor = floor.min(chosen.point.miss_ratio);
    let wanted = percent(target);
    let (text, is_exact) = match needed {
        Some(needed) => {
            let policy = &judge.policies[needed.policy].0;
            let memory = size(judge.rules.unit, needed.point.capacity);
            let text =
                format!("A miss ratio of {wanted} takes more memory: {policy} needs {memory}.");
            (text, needed.is_exact)
        }
        None => {
            let text = format!(
                "No cache of any size reaches a miss ratio of {wanted} on this trace: {} of the \
                 requests miss however large it is.",
                percent(floor)
            );
            (text, judge.is_exact())
        }
    };
    let size = needed.map(|needed| figure("cache size needed", needed.point.capacity as f64));
    Some(Statement {
        topic: "shortfall",
        text,
        certainty: match is_exact {
            true => "exact for this trace: full simulations".into(),
            false => "estimated from a sample".into(),
        },
        figures: size
            .into_iter()
            .chain([figure("least miss ratio", floor)])
            .collect(),
    })
}

fn saving(judge: &Judge<'_>, found: &Recommendation) -> Statement {
    let (own, lru) = (found.ratio.miss_ratio, found.lru.miss_ratio);
    let saved = if lru > 0.0 { (lru - own) / lru } else { 0.0 };
    let memory = |needed: u64| {
        let more = needed as f64 / found.cache_size.max(1) as f64 - 1.0;
        let needed = size(judge.rules.unit, needed);
        match more >= WORTH_IT {
            true => format!(
                "LRU needs {needed} to miss as little, {} more.",
                percent(more)
            ),
            false => "LRU needs no more memory to miss as little.".into(),
        }
    };
    let text = match (found.policy == "lru", saved >= WORTH_IT) {
        (true, _) => "None of the policies compared does better than LRU.".into(),
        (_, false) => format!("LRU does about as well here: it misses {}.", percent(lru)),
        (_, true) => {
            let first = format!(
                "LRU of the same size misses {}: {} saves {} of its misses.",
                percent(lru),
                found.policy,
                percent(saved)
            );
            match found.lru_cache_size {
                Some(needed) => format!("{first} {}", memory(needed)),
                None => format!("{first} LRU misses more than that at any size."),
            }
        }
    };
    let mut figures = vec![
        figure("LRU's miss ratio", lru),
        figure("misses saved", saved),
    ];
    let needed = found
        .lru_cache_size
        .map(|size| figure("size that LRU needs", size as f64));
    figures.extend(needed);
    Statement {
        topic: "saving",
        text,
        certainty: certainty(found.is_exact, found.lru),
        figures,
    }
}

/// The other policies at the size recommended; a sample tells of the nearest that was surveyed.
fn others(judge: &Judge<'_>, survey: &Survey, chosen: &Chosen) -> Result<Option<Statement>, Error> {
    let all: Vec<usize> = (0..judge.policies.len()).collect();
    let size = match judge.is_exact() {
        true => chosen.point.capacity,
        false => survey.nearest(chosen.point.capacity),
    };
    let curves = judge.curves(judge.rules, &all, &[size])?;
    let named = judge.policies.iter().zip(&curves).enumerate();
    let told = named.filter(|(at, ((name, _), _))| *at != chosen.policy && name != "lru");
    let mut told: Vec<(&str, f64)> = told
        .map(|(_, ((name, _), curve))| (name.as_str(), curve.points[0].miss_ratio))
        .collect();
    told.sort_by(|a, b| a.1.total_cmp(&b.1));
    let names: Vec<String> = told
        .iter()
        .map(|(name, ratio)| format!("{name} {}", percent(*ratio)))
        .collect();
    let point = curves[chosen.policy].points[0];
    let error = (point.high - point.low) / 2.0;
    Ok((!names.is_empty()).then(|| Statement {
        topic: "others",
        text: format!(
            "The others with {}: {}.",
            self::size(judge.rules.unit, size),
            names.join(", ")
        ),
        certainty: match judge.is_exact() {
            true => "exact for this trace: full simulations".into(),
            false => format!("estimated from a sample: about ±{}", percent(error)),
        },
        figures: vec![figure("cache size", size as f64)],
    }))
}

/// How the sample did against the full simulation.
fn checked(found: &Recommendation, estimate: Ratio) -> Statement {
    let off = (estimate.miss_ratio - found.ratio.miss_ratio).abs();
    let is_inside = (estimate.low..=estimate.high).contains(&found.ratio.miss_ratio);
    Statement {
        topic: "sample",
        text: format!(
            "The sample said {} of the same cache and was off by {} of the requests, which is {} its \
             bounds.",
            percent(estimate.miss_ratio),
            percent(off),
            if is_inside { "within" } else { "outside" }
        ),
        certainty: "the sample chose the policies and sizes that were then simulated in full"
            .into(),
        figures: vec![
            figure("estimate", estimate.miss_ratio),
            figure("lower bound", estimate.low),
            figure("upper bound", estimate.high),
        ],
    }
}

/// Half and twice the memory.
pub(super) fn of_other_sizes(
    judge: &Judge<'_>,
    found: &Recommendation,
) -> Result<Option<Statement>, Error> {
    let policy = judge
        .policies
        .iter()
        .position(|(name, _)| *name == found.policy);
    let policy = policy.expect("it was recommended from the list");
    let (half, twice) = (found.cache_size / 2, found.cache_size.saturating_mul(2));
    if half == 0 {
        return Ok(None);
    }
    let (less, more) = (judge.at(policy, half)?, judge.at(policy, twice)?);
    Ok(Some(Statement {
        topic: "memory",
        text: format!(
            "Half the memory would miss {}, twice as much {}.",
            percent(less.miss_ratio),
            percent(more.miss_ratio)
        ),
        certainty: match judge.is_exact() {
            true => "exact for this trace: full simulations".into(),
            false => certainty(false, Ratio::of(&less)),
        },
        figures: vec![
            figure("miss ratio of half the size", less.miss_ratio),
            figure("miss ratio of twice the size", more.miss_ratio),
        ],
    }))
}

/// First requests, and what a server takes beside the objects.
pub(super) fn of_costs(judge: &Judge<'_>, found: &Recommendation) -> Vec<Statement> {
    let analysis = &judge.material.analysis;
    let first = (analysis.objects / analysis.requests.max(1) as f64).min(1.0);
    let mut all = vec![Statement {
        topic: "first-requests",
        text: format!(
            "{} of the requests are the first for their object in this trace and miss in any cache; a \
             cache that has been running has met some of these objects before.",
            percent(first)
        ),
        certainty: match analysis.sampling.one_in {
            1 => "counted over the whole trace".into(),
            _ => format!("± {} of it", percent(2.0 * analysis.sampling.error)),
        },
        figures: vec![figure("first requests", first)],
    }];
    if judge.rules.unit == Unit::Bytes && judge.rules.overhead > 0 {
        all.push(everything_held(judge, found));
    } else if judge.rules.unit == Unit::Bytes {
        let mean = (analysis.footprint_bytes / analysis.objects.max(1.0)).max(1.0);
        let held = found.cache_size.min(judge.footprint()) as f64;
        let entries = held / mean;
        let deadline = if judge.has_ttls() {
            DEADLINE_BYTES
        } else {
            0.0
        };
        let server = held + entries * (ENTRY_BYTES + deadline);
        all.push(Statement {
            topic: "server",
            text: format!(
                "With objects of {} on average it holds {} entries at most; this server takes some {:.0} bytes \
                 more for each: about {} of maxmemory.",
                bytes(mean),
                count(entries),
                ENTRY_BYTES + deadline,
                bytes(server)
            ),
            certainty: "a sum from the mean size; what the policy remembers comes on top".into(),
            figures: vec![
                figure("mean size in bytes", mean),
                figure("entries", entries),
                figure("maxmemory in bytes", server),
            ],
        });
    }
    all
}

/// Sizes that hold more than the objects are what a server is given.
fn everything_held(judge: &Judge<'_>, found: &Recommendation) -> Statement {
    let overhead = judge.rules.overhead;
    let chosen = judge
        .policies
        .iter()
        .find(|(name, _)| *name == found.policy);
    let text = match chosen.is_some_and(|(_, one)| one.is_engine()) {
        true => format!(
            "The size of {} is all the memory that it takes: give it as maxmemory with --engine segment.",
            found.policy
        ),
        false => format!(
            "Sizes hold {overhead} bytes beside each object: this one is a server's maxmemory whose entries take so much."
        ),
    };
    Statement {
        topic: "server",
        text,
        certainty: format!(
            "policies were charged {overhead} bytes an object; what they remember comes on top"
        ),
        figures: vec![
            figure("bytes beside an object", f64::from(overhead)),
            figure("maxmemory in bytes", found.cache_size as f64),
        ],
    }
}

/// What the trace does not tell, and what therefore is not said.
pub(super) fn left_out(analysis: &Analysis) -> Vec<String> {
    let mut all = Vec::new();
    if analysis.sizes.is_none() {
        all.push("Bytes: the trace tells no sizes, so memory is counted in objects.".into());
    }
    if analysis.operations.is_none() {
        all.push("Writes: the trace tells no operations, so each request counts as a read.".into());
    }
    all
}
