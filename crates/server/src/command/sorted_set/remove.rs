//! Commands that remove members: ZREM, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use super::access::change;
use super::interval;
use super::range::ranks_of;
use crate::context::{Ctx, Probe};
use engine::refusal::{Answer, Refusal};
use std::ops::Range;
use store::{Scene, SortedSet};
use wire::Args;
use wire::number::parse_i64;

/// `ZREM key member [member …]`
pub fn zrem(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let members = args.from(2);
    edit(ctx, args, "zrem", |set, scene| {
        let removed = members.iter().filter(|member| set.remove(member, scene));
        removed.count()
    })
}

/// Estimates the work of ZREMRANGEBYRANK, ZREMRANGEBYSCORE and ZREMRANGEBYLEX.
pub fn work(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let (start, end) = (&args[2], &args[3]);
    let command = probe.name;
    let ranks = |set: &SortedSet, scene: &Scene<'_>| match command {
        "zremrangebyrank" => {
            let ends = parse_i64(start).zip(parse_i64(end));
            ends.map(|(start, end)| ranks_of(start, end, set.len(scene)))
        }
        "zremrangebyscore" => {
            let interval = interval::scores(start, end);
            interval.ok().map(|interval| set.ranks(&interval, scene))
        }
        _ => {
            let interval = interval::members(start, end);
            interval.ok().map(|interval| set.ranks(&interval, scene))
        }
    };
    let key = probe.key(&args[1]);
    match probe.view.peek_large_sorted_set(&key, ranks) {
        Some(ranks) => ranks.map_or(0, |ranks| ranks.len() as u64),
        None => probe.size(&args[1]),
    }
}

/// `ZREMRANGEBYRANK key start stop`
pub fn zremrangebyrank(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let start = parse_i64(&args[2]).ok_or(Refusal::NotInteger)?;
    let end = parse_i64(&args[3]).ok_or(Refusal::NotInteger)?;
    remove(ctx, args, "zremrangebyrank", |set, scene| {
        ranks_of(start, end, set.len(scene))
    })
}

/// `ZREMRANGEBYSCORE key min max`
pub fn zremrangebyscore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let interval = interval::scores(&args[2], &args[3])?;
    remove(ctx, args, "zremrangebyscore", |set, scene| {
        set.ranks(&interval, scene)
    })
}

/// `ZREMRANGEBYLEX key min max`
pub fn zremrangebylex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let interval = interval::members(&args[2], &args[3])?;
    remove(ctx, args, "zremrangebylex", |set, scene| {
        set.ranks(&interval, scene)
    })
}

fn remove(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    event: &'static str,
    ranks: impl FnOnce(&SortedSet, &Scene<'_>) -> Range<usize>,
) -> Answer {
    edit(ctx, args, event, |set, scene| {
        let ranks = ranks(set, scene);
        set.remove_ranks(ranks, scene)
    })
}

/// Runs an edit that removes members, publishes its event, and replies with their number.
fn edit(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    event: &'static str,
    work: impl FnOnce(&mut SortedSet, &Scene<'_>) -> usize,
) -> Answer {
    let key = ctx.key(&args[1]);
    let removed = change(ctx, &key, event, |set, scene| {
        let removed = work(set, scene);
        (removed > 0).then_some(removed)
    })?;
    ctx.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}
