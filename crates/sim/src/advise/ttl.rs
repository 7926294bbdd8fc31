//! What lifetimes cost and give, and whether they are well chosen.

use super::search::Judge;
use super::words::{certainty, figure, size};
use super::{Ratio, Recommendation, Statement};
use crate::analyze::findings::{count, percent, span};
use crate::analyze::{Analysis, Quantiles, Ttls};
use crate::curve::{Curve, Named, Point, spread};
use crate::{Error, Rules};

/// Sizes of the curves without lifetimes.
const POINTS: usize = 24;
const SMALLEST_SHARE: f64 = 0.001;
/// A cache is large enough when an unlimited one would miss so much less at most.
const ENOUGH: f64 = 0.001;

/// Adds what can be told of lifetimes, and the curves without them; or why there is nothing.
pub(super) fn tell(
    judge: &Judge<'_>,
    found: &Recommendation,
    statements: &mut Vec<Statement>,
    left_out: &mut Vec<String>,
    curves: &mut Vec<Named>,
) -> Result<(), Error> {
    let analysis = &judge.material.analysis;
    if !judge.has_ttls() {
        left_out.push("Lifetimes: nothing in the trace expires.".into());
        return Ok(());
    }
    let policy = judge
        .policies
        .iter()
        .position(|(name, _)| *name == found.policy);
    let policy = policy.expect("it was recommended from the list");
    let eternal = Rules {
        ignores_ttls: true,
        ..judge.rules.clone()
    };
    let sizes = spread(judge.footprint(), SMALLEST_SHARE, POINTS);
    let mut own = vec![policy];
    own.extend((policy != judge.lru()).then(|| judge.lru()));
    let without = judge.sampled(&eternal, &own, &sizes)?;
    statements.push(cost(judge, found, policy, &eternal)?);
    statements.extend(room(judge, &curves[policy].curve, &without[0]));
    for (at, curve) in own.into_iter().zip(without) {
        curves.push(Named {
            policy: judge.policies[at].0.clone(),
            has_ttls: false,
            curve,
        });
    }
    match (&analysis.ttls, analysis.span_ms) {
        (Some(ttls), Some(span_ms)) => {
            statements.extend(unread(ttls, analysis));
            statements.extend(longer(ttls, analysis, span_ms, left_out));
            statements.push(herd(ttls));
        }
        _ => left_out.push(
            "When lifetimes end: the trace tells no time, and one was made up for the curves; --request-rate \
             gives it another."
                .into(),
        ),
    }
    Ok(())
}

/// Misses because something had expired.
fn cost(
    judge: &Judge<'_>,
    found: &Recommendation,
    policy: usize,
    eternal: &Rules,
) -> Result<Statement, Error> {
    let sizes = [found.cache_size];
    let point = judge.curves(eternal, &[policy], &sizes)?[0].points[0];
    let (with, without) = (found.ratio.miss_ratio, point.miss_ratio);
    let text = match with > without {
        true => format!(
            "Lifetimes cost {} of the requests: the same cache would miss {} if nothing expired.",
            percent(with - without),
            percent(without)
        ),
        false => format!(
            "Lifetimes cost no misses: the same cache would miss {} if nothing expired.",
            percent(without)
        ),
    };
    Ok(Statement {
        topic: "ttl-cost",
        text,
        certainty: certainty(judge.is_exact(), Ratio::of(&point)),
        figures: vec![
            figure("miss ratio with lifetimes", with),
            figure("miss ratio without", without),
        ],
    })
}

/// The memory that suffices with lifetimes, against without.
fn room(judge: &Judge<'_>, with: &Curve, without: &Curve) -> Option<Statement> {
    let enough = |curve: &Curve| {
        let least = curve.points.last()?.miss_ratio;
        let is_enough = |point: &&Point| point.miss_ratio <= least + ENOUGH;
        Some(curve.points.iter().find(is_enough)?.capacity)
    };
    let (with, without) = (enough(with)?, enough(without)?);
    let unit = judge.rules.unit;
    (with < without).then(|| Statement {
        topic: "ttl-room",
        text: format!(
            "Lifetimes give room: {} hold all that lives and is asked for again; if nothing expired that \
             took {}.",
            size(unit, with),
            size(unit, without)
        ),
        certainty: "from the sample's curves, to the next size of theirs".into(),
        figures: vec![
            figure("size enough with lifetimes", with as f64),
            figure("size enough without", without as f64),
        ],
    })
}

/// How sure what was counted of objects is.
fn counted(analysis: &Analysis) -> String {
    match analysis.sampling.one_in {
        1 => "counted over the whole trace".into(),
        one_in => format!(
            "counted over one key in {one_in}: ± {} of it",
            percent(2.0 * analysis.sampling.error)
        ),
    }
}

fn unread(ttls: &Ttls, analysis: &Analysis) -> Vec<Statement> {
    if ttls.expired_share == 0.0 {
        return vec![Statement {
            topic: "ttl-unread",
            text: "No life ended by its TTL within the trace.".into(),
            certainty: counted(analysis),
            figures: vec![figure("lives that end by their TTL", 0.0)],
        }];
    }
    vec![
        Statement {
            topic: "ttl-unread",
            text: format!(
                "Of the objects that died of age, {} were never read after they were written; {} of all \
                 that ended were overwritten or deleted unread.",
                percent(ttls.unread_share),
                percent(ttls.overwritten_unread_share)
            ),
            certainty: counted(analysis),
            figures: vec![
                figure("unread of those that expired", ttls.unread_share),
                figure("overwritten unread", ttls.overwritten_unread_share),
                figure("lives that end by their TTL", ttls.expired_share),
            ],
        },
        Statement {
            topic: "ttl-idle",
            text: format!(
                "Of the memory and time that these took, {} lay behind the last read.",
                percent(ttls.idle_share)
            ),
            certainty: counted(analysis),
            figures: vec![figure(
                "memory × time behind the last read",
                ttls.idle_share,
            )],
        },
    ]
}

/// The share of values above one.
fn share_above(q: &Quantiles, value: u64) -> f64 {
    if value >= q.max {
        return 0.0;
    }
    let below = q.curve.iter().take_while(|(at, _)| *at <= value).last();
    1.0 - below.map_or(0.0, |(_, share)| *share)
}

/// TTLs longer than any time between two requests for one object.
fn longer(
    ttls: &Ttls,
    analysis: &Analysis,
    span_ms: u64,
    left_out: &mut Vec<String>,
) -> Option<Statement> {
    let Some(ages) = &analysis.reuse.age_ms else {
        left_out.push("TTLs against reuse: no object is asked for twice.".into());
        return None;
    };
    let beyond = share_above(&ttls.ttl_ms, span_ms);
    if beyond > 0.0 {
        left_out.push(format!(
            "{} of the TTLs: they are longer than the trace ({}), which cannot show whether anything \
             would be read later.",
            percent(beyond),
            span(span_ms as f64)
        ));
    }
    let share = share_above(&ttls.ttl_ms, ages.max) - beyond;
    let most = share_above(&ttls.ttl_ms, ages.p99) - beyond;
    Some(Statement {
        topic: "ttl-long",
        text: format!(
            "{} of the TTLs are longer than the longest time between two requests for one object, {}: \
             they could end there without a miss more. {} are longer than {}, within which 99 % of the \
             requests for an object come again.",
            percent(share.max(0.0)),
            span(ages.max as f64),
            percent(most.max(0.0)),
            span(ages.p99 as f64)
        ),
        certainty: format!("{}, within 1 %", counted(analysis)),
        figures: vec![
            figure("longest reuse in ms", ages.max as f64),
            figure("TTLs longer than that", share.max(0.0)),
            figure("99 % of reuse within, in ms", ages.p99 as f64),
            figure("TTLs longer than that of 99 %", most.max(0.0)),
            figure("TTLs longer than the trace", beyond),
        ],
    })
}

/// Whether many deadlines fall into one second.
fn herd(ttls: &Ttls) -> Statement {
    let (peak, mean) = (ttls.herd_peak as f64, ttls.herd_mean);
    let at = span(ttls.herd_at_ms as f64);
    let text = match ttls.jitter_would_help {
        true => format!(
            "Jitter would help: {} deadlines fall into one second, {at} after the first request, where a \
             second has {mean:.1} on average; spread over {} they would come at that rate.",
            count(peak),
            span(peak / mean.max(1e-9) * 1000.0)
        ),
        false => format!(
            "Jitter is not needed: the fullest second has {} of the deadlines, where the average is \
             {mean:.1}.",
            count(peak)
        ),
    };
    Statement {
        topic: "jitter",
        text,
        certainty:
            "counted by second; said to help from ten times the average and a thousandth of all \
                    deadlines on"
                .into(),
        figures: vec![
            figure("deadlines in the fullest second", peak),
            figure("mean of a second", mean),
            figure("its place in ms", ttls.herd_at_ms as f64),
        ],
    }
}
