//! Commands that read single members and counts: ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZCOUNT,
//! ZLEXCOUNT.

use super::access::read;
use super::interval;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::Interval;
use wire::Args;

/// `ZCARD key`
pub fn zcard(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let len = read(ctx, &key, |set, scene| set.len(scene))?;
    ctx.reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

/// `ZSCORE key member`
pub fn zscore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let score = read(ctx, &key, |set, scene| set.score(&args[2], scene))?;
    match score.flatten() {
        Some(score) => ctx.reply.double(score),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `ZMSCORE key member [member …]`
pub fn zmscore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let members = args.from(2);
    let scores: Option<Vec<_>> = read(ctx, &key, |set, scene| {
        let scores = members.iter().map(|member| set.score(member, scene));
        scores.collect()
    })?;
    let scores = scores.unwrap_or_else(|| vec![None; members.len()]);
    ctx.reply.array(scores.len());
    for score in scores {
        match score {
            Some(score) => ctx.reply.double(score),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// `ZRANK key member [WITHSCORE]`
pub fn zrank(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    rank(ctx, args, false)
}

/// `ZREVRANK key member [WITHSCORE]`
pub fn zrevrank(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    rank(ctx, args, true)
}

fn rank(ctx: &mut Ctx<'_, '_>, args: Args<'_>, is_reverse: bool) -> Answer {
    let has_score = match args.len() {
        3 => false,
        4 if args.is(3, "withscore") => true,
        4 => return Err(Refusal::Syntax),
        _ => {
            return Err(Refusal::Arity(if is_reverse {
                "zrevrank"
            } else {
                "zrank"
            }));
        }
    };
    let key = ctx.key(&args[1]);
    let found = read(ctx, &key, |set, scene| {
        let (rank, score) = set.rank(&args[2], scene)?;
        let rank = if is_reverse {
            set.len(scene) - 1 - rank
        } else {
            rank
        };
        Some((rank, score))
    })?;
    match found.flatten() {
        Some((rank, score)) if has_score => {
            ctx.reply.array(2);
            ctx.reply.integer(rank as i64);
            ctx.reply.double(score);
        }
        Some((rank, _)) => ctx.reply.integer(rank as i64),
        None if has_score => ctx.reply.null_array(),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `ZCOUNT key min max`
pub fn zcount(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    count(ctx, args, interval::scores(&args[2], &args[3])?)
}

/// `ZLEXCOUNT key min max`
pub fn zlexcount(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    count(ctx, args, interval::members(&args[2], &args[3])?)
}

fn count(ctx: &mut Ctx<'_, '_>, args: Args<'_>, interval: Interval<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let count = read(ctx, &key, |set, scene| set.ranks(&interval, scene).len())?;
    ctx.reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}
