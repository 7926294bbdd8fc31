//! Members in order: ZRANGE with all its options, its older spellings, and ZRANGESTORE.

use super::access::read;
use super::interval;
use super::reply::Listing;
use super::result;
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use std::ops::Range;
use store::{Interval, Scene, SortedSet};
use wire::Args;
use wire::number::parse_i64;

/// What an interval is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// Which part of the set is meant.
enum Part<'a> {
    /// From one rank to another, both of them too; negative: from the end.
    Ranks(i64, i64),
    Within(Interval<'a>),
}

/// What a command asks for.
struct Request<'a> {
    part: Part<'a>,
    is_reverse: bool,
    with_scores: bool,
    /// How many of the interval are passed over, and how many are wanted; negative: all.
    offset: i64,
    limit: i64,
}

/// What a command's name says already.
#[derive(Clone, Copy, Default)]
struct Spelling {
    is_store: bool,
    by: Option<By>,
    is_reverse: Option<bool>,
}

impl<'a> Request<'a> {
    /// Reads `min max [option …]`.
    fn parse(args: Args<'a>, spelling: Spelling) -> Result<Request<'a>, Refusal> {
        let (mut by, mut is_reverse) = (spelling.by, spelling.is_reverse);
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let is = |name: &str| args.is(at, name);
            match word {
                _ if !spelling.is_store && is("withscores") => with_scores = true,
                _ if is("limit") && at + 2 < args.len() => {
                    offset = parse_i64(&args[at + 1]).ok_or(Refusal::NotInteger)?;
                    limit = parse_i64(&args[at + 2]).ok_or(Refusal::NotInteger)?;
                    at += 2;
                }
                _ if is_reverse.is_none() && is("rev") => is_reverse = Some(true),
                _ if by.is_none() && is("bylex") => by = Some(By::Member),
                _ if by.is_none() && is("byscore") => by = Some(By::Score),
                _ => return Err(Refusal::Syntax),
            }
            at += 1;
        }
        let (by, is_reverse) = (by.unwrap_or(By::Rank), is_reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(Refusal::Says(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Member {
            return Err(Refusal::Says(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        // What goes backwards is asked for with the larger end first, but for ranks.
        let (first, second) = args.get(0).zip(args.get(1)).ok_or(Refusal::Syntax)?;
        let (min, max) = match by {
            By::Score | By::Member if is_reverse => (second, first),
            _ => (first, second),
        };
        let part = match by {
            By::Score => Part::Within(interval::scores(min, max)?),
            By::Member => Part::Within(interval::members(min, max)?),
            By::Rank => Part::Ranks(
                parse_i64(min).ok_or(Refusal::NotInteger)?,
                parse_i64(max).ok_or(Refusal::NotInteger)?,
            ),
        };
        Ok(Request {
            part,
            is_reverse,
            with_scores,
            offset,
            limit,
        })
    }

    /// The ranks that it comes to, counted from the lowest.
    fn ranks(&self, set: &SortedSet, scene: &Scene<'_>) -> Range<usize> {
        match &self.part {
            Part::Ranks(start, end) => {
                let len = set.len(scene);
                let ranks = ranks_of(*start, *end, len);
                if self.is_reverse {
                    len - ranks.end..len - ranks.start
                } else {
                    ranks
                }
            }
            Part::Within(interval) => {
                let Range { start, end } = set.ranks(interval, scene);
                let Ok(offset) = usize::try_from(self.offset) else {
                    return 0..0;
                };
                let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
                if self.is_reverse {
                    let end = end.saturating_sub(offset).max(start);
                    end.saturating_sub(limit).max(start)..end
                } else {
                    let start = start.saturating_add(offset).min(end);
                    start..start.saturating_add(limit).min(end)
                }
            }
        }
    }
}

/// The ranks from `start` to `end`, itself too, among so many; negative ones count from the end.
pub fn ranks_of(start: i64, end: i64, len: usize) -> Range<usize> {
    let count = len as i64;
    let from_end = |rank: i64| {
        if rank < 0 {
            rank.saturating_add(count)
        } else {
            rank
        }
    };
    let start = from_end(start).clamp(0, count) as usize;
    let end = from_end(end).clamp(-1, count - 1) + 1;
    start..(end as usize).max(start)
}

fn range(ctx: &mut Ctx<'_, '_>, args: Args<'_>, spelling: Spelling) -> Answer {
    let request = Request::parse(args.from(2), spelling)?;
    let key = ctx.key(&args[1]);
    let Ctx { view, reply, .. } = ctx;
    let told = view.read_sorted_set(&key, |set, scene| {
        let ranks = request.ranks(set, scene);
        let mut listing = Listing::new(reply, ranks.len(), request.with_scores);
        set.each(ranks, request.is_reverse, scene, |member, score| {
            listing.tell(member, score);
        });
    })?;
    if told.is_none() {
        ctx.missed(&key);
        ctx.reply.array(0);
    }
    Ok(())
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub fn zrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, Spelling::default())
}

const fn spelt(by: By, is_reverse: bool) -> Spelling {
    Spelling {
        is_store: false,
        by: Some(by),
        is_reverse: Some(is_reverse),
    }
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub fn zrevrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, spelt(By::Rank, true))
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, spelt(By::Score, false))
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub fn zrevrangebyscore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, spelt(By::Score, true))
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub fn zrangebylex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, spelt(By::Member, false))
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub fn zrevrangebylex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, spelt(By::Member, true))
}

/// `ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub fn zrangestore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let spelling = Spelling {
        is_store: true,
        ..Spelling::default()
    };
    let request = Request::parse(args.from(3), spelling)?;
    let source = ctx.key(&args[2]);
    let mut found = Vec::new();
    read(ctx, &source, |set, scene| {
        let ranks = request.ranks(set, scene);
        set.each(ranks, false, scene, |member, score| {
            found.push((member.to_vec(), score));
        });
    })?;
    result::store(ctx, &args[1], &found, "zrangestore");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_from_both_ends() {
        assert_eq!(ranks_of(0, -1, 5), 0..5);
        assert_eq!(ranks_of(-2, 10, 5), 3..5);
        assert_eq!(ranks_of(-100, 0, 5), 0..1);
        for (start, end) in [(3, 2), (5, 9), (0, -6), (i64::MAX, i64::MIN), (1, 0)] {
            assert!(ranks_of(start, end, 5).is_empty(), "{start} {end}");
        }
        assert!(ranks_of(0, -1, 0).is_empty());
        assert_eq!(ranks_of(i64::MIN, i64::MAX, 5), 0..5);
    }
}
