//! Statements about TTLs: their cost in misses, the memory that they save, and whether they are
//! well chosen.

use super::search::Evaluator;
use super::statements::{certainty, figure, size};
use super::{Ratio, Recommendation, Statement};
use crate::analyze::{Analysis, Quantiles, Ttls};
use crate::curve::{Curve, Named, Point, spread};
use crate::{Error, Rules};
use units::show::{count, percent, span};

/// Number of sizes on the curves without TTLs.
const POINTS: usize = 24;
const SMALLEST_SHARE: f64 = 0.001;
/// A cache is large enough if its miss ratio exceeds that of an unlimited cache by at most this.
const ENOUGH: f64 = 0.001;

/// Adds the statements about TTLs and the curves without them, or the reason why there are none.
pub(super) fn add(
    evaluator: &Evaluator<'_>,
    found: &Recommendation,
    statements: &mut Vec<Statement>,
    left_out: &mut Vec<String>,
    curves: &mut Vec<Named>,
) -> Result<(), Error> {
    let analysis = &evaluator.inputs.analysis;
    if !evaluator.has_ttls() {
        left_out.push("TTLs: nothing in the trace expires.".into());
        return Ok(());
    }
    let policy = evaluator
        .policies
        .iter()
        .position(|(name, _)| *name == found.policy);
    let policy = policy.expect("it was recommended from the list");
    let without_expiry = Rules {
        ignores_ttls: true,
        ..evaluator.rules.clone()
    };
    let sizes = spread(evaluator.footprint(), SMALLEST_SHARE, POINTS);
    let mut own = vec![policy];
    own.extend((policy != evaluator.lru()).then(|| evaluator.lru()));
    let without = evaluator.sampled(&without_expiry, &own, &sizes)?;
    statements.push(cost(evaluator, found, policy, &without_expiry)?);
    // The curve of the recommended policy is the first.
    statements.extend(room(evaluator, &curves[0].curve, &without[0]));
    for (at, curve) in own.into_iter().zip(without) {
        curves.push(Named {
            policy: evaluator.policies[at].0.clone(),
            has_ttls: false,
            curve,
        });
    }
    match (&analysis.ttls, analysis.span_ms) {
        (Some(ttls), Some(span_ms)) => {
            statements.extend(unread(ttls, analysis));
            statements.extend(longer(ttls, analysis, span_ms, left_out));
            statements.push(deadline_burst(ttls));
        }
        _ => left_out.push(
            "Expiration times: the trace has no timestamps. The curves assume a request rate, which \
             --request-rate changes."
                .into(),
        ),
    }
    Ok(())
}

/// Returns the statement about misses that happen because an object had expired.
fn cost(
    evaluator: &Evaluator<'_>,
    found: &Recommendation,
    policy: usize,
    without_expiry: &Rules,
) -> Result<Statement, Error> {
    let sizes = [found.cache_size];
    let point = evaluator.curves(without_expiry, &[policy], &sizes)?[0].points[0];
    let (with, without) = (found.ratio.miss_ratio, point.miss_ratio);
    let text = match with > without {
        true => format!(
            "TTLs cause misses of {} of the requests: the same cache would miss {} if nothing expired.",
            percent(with - without),
            percent(without)
        ),
        false => format!(
            "TTLs cause no misses: the same cache would miss {} if nothing expired.",
            percent(without)
        ),
    };
    Ok(Statement {
        topic: "ttl-cost",
        text,
        certainty: certainty(evaluator.is_exact(), Ratio::of(&point)),
        figures: vec![
            figure("miss ratio with TTLs", with),
            figure("miss ratio without TTLs", without),
        ],
    })
}

/// Returns the statement about the memory that is sufficient with and without TTLs.
fn room(evaluator: &Evaluator<'_>, with: &Curve, without: &Curve) -> Option<Statement> {
    let enough = |curve: &Curve| {
        let least = curve.points.last()?.miss_ratio;
        let is_enough = |point: &&Point| point.miss_ratio <= least + ENOUGH;
        Some(curve.points.iter().find(is_enough)?.capacity)
    };
    let (with, without) = (enough(with)?, enough(without)?);
    let unit = evaluator.rules.unit;
    (with < without).then(|| Statement {
        topic: "ttl-room",
        text: format!(
            "TTLs save memory: {} hold all unexpired objects that are requested again; without expiry that \
             would need {}.",
            size(unit, with),
            size(unit, without)
        ),
        certainty: "from the curves of the sample, rounded up to the next of their sizes".into(),
        figures: vec![
            figure("sufficient size with TTLs", with as f64),
            figure("sufficient size without TTLs", without as f64),
        ],
    })
}

/// Certainty of counts of objects.
fn counted(analysis: &Analysis) -> String {
    match analysis.sampling.one_in {
        1 => "counted over the whole trace".into(),
        one_in => format!(
            "counted over one key in {one_in}, with a relative error of ± {}",
            percent(2.0 * analysis.sampling.error)
        ),
    }
}

fn unread(ttls: &Ttls, analysis: &Analysis) -> Vec<Statement> {
    if ttls.expired_share == 0.0 {
        return vec![Statement {
            topic: "ttl-unread",
            text: "No object expired within the trace.".into(),
            certainty: counted(analysis),
            figures: vec![figure("lifetimes that end at their deadline", 0.0)],
        }];
    }
    vec![
        Statement {
            topic: "ttl-unread",
            text: format!(
                "Of the expired objects, {} were not read between their write and their deadline. Of all \
                 objects that were removed, {} were overwritten or deleted without a read.",
                percent(ttls.unread_share),
                percent(ttls.overwritten_unread_share)
            ),
            certainty: counted(analysis),
            figures: vec![
                figure("expired without a read", ttls.unread_share),
                figure("overwritten without a read", ttls.overwritten_unread_share),
                figure("lifetimes that end at their deadline", ttls.expired_share),
            ],
        },
        Statement {
            topic: "ttl-idle",
            text: format!(
                "Of the memory × time of the expired objects, {} came after the last read.",
                percent(ttls.idle_share)
            ),
            certainty: counted(analysis),
            figures: vec![figure("memory × time after the last read", ttls.idle_share)],
        },
    ]
}

/// Returns the share of the values above `value`.
fn share_above(q: &Quantiles, value: u64) -> f64 {
    if value >= q.max {
        return 0.0;
    }
    let below = q.curve.iter().take_while(|(at, _)| *at <= value).last();
    1.0 - below.map_or(0.0, |(_, share)| *share)
}

/// Statement about TTLs longer than the time between two requests for one object.
fn longer(
    ttls: &Ttls,
    analysis: &Analysis,
    span_ms: u64,
    left_out: &mut Vec<String>,
) -> Option<Statement> {
    let Some(ages) = &analysis.reuse.age_ms else {
        left_out.push("TTLs and reuse: no object is requested twice.".into());
        return None;
    };
    let beyond = share_above(&ttls.ttl_ms, span_ms);
    if beyond > 0.0 {
        left_out.push(format!(
            "{} of the TTLs: they are longer than the trace ({}), which cannot show later reads.",
            percent(beyond),
            span(span_ms as f64)
        ));
    }
    let share = share_above(&ttls.ttl_ms, ages.max) - beyond;
    let most = share_above(&ttls.ttl_ms, ages.p99) - beyond;
    Some(Statement {
        topic: "ttl-long",
        text: format!(
            "{} of the TTLs are longer than the longest time between two requests for one object, {}, and \
             could be shortened to it without additional misses. {} are longer than {}, the time within \
             which 99 % of the repeated requests come.",
            percent(share.max(0.0)),
            span(ages.max as f64),
            percent(most.max(0.0)),
            span(ages.p99 as f64)
        ),
        certainty: format!("{}, within 1 %", counted(analysis)),
        figures: vec![
            figure("longest reuse in ms", ages.max as f64),
            figure("TTLs longer than the longest reuse", share.max(0.0)),
            figure("p99 of reuse in ms", ages.p99 as f64),
            figure("TTLs longer than the p99 of reuse", most.max(0.0)),
            figure("TTLs longer than the trace", beyond),
        ],
    })
}

/// Statement about whether many deadlines fall into one second.
fn deadline_burst(ttls: &Ttls) -> Statement {
    let (peak, mean) = (ttls.herd_peak as f64, ttls.herd_mean);
    let at = span(ttls.herd_at_ms as f64);
    let text = match ttls.jitter_would_help {
        true => format!(
            "Jitter would help: {} deadlines fall into one second, {at} after the first request. The mean \
             is {mean:.1} a second, which spreading them over {} would give.",
            count(peak),
            span(peak / mean.max(1e-9) * 1000.0)
        ),
        false => format!(
            "Jitter is not needed: the second with the most deadlines has {}, the mean is {mean:.1}.",
            count(peak)
        ),
    };
    Statement {
        topic: "jitter",
        text,
        certainty:
            "counted by second; jitter helps if one second has ten times the mean and a thousandth of \
             all deadlines"
                .into(),
        figures: vec![
            figure("most deadlines in a second", peak),
            figure("mean deadlines a second", mean),
            figure("time of the most deadlines in ms", ttls.herd_at_ms as f64),
        ],
    }
}
