//! Members in order: ZRANGE with all its options, the older commands that it replaces, and
//! ZRANGESTORE.

use super::access::read;
use super::reply::Listing;
use super::{interval, result};
use crate::context::{Ctx, Probe};
use engine::refusal::{Answer, Refusal};
use std::ops::Range;
use store::{Interval, Scene, SortedSet};
use wire::Args;
use wire::number::parse_i64;

/// Kind of range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// A range of members.
enum Members<'a> {
    /// Between two ranks, inclusive. Negative ranks count from the end.
    Ranks(i64, i64),
    Within(Interval<'a>),
}

/// Arguments of a command.
struct Request<'a> {
    members: Members<'a>,
    is_reverse: bool,
    with_scores: bool,
    /// Number of members of the range to skip, and maximum number to return; negative means all.
    offset: i64,
    limit: i64,
}

/// Properties that a command's name determines.
#[derive(Clone, Copy, Default)]
struct Variant {
    is_store: bool,
    by: Option<By>,
    is_reverse: Option<bool>,
}

/// The variant ZRANGESTORE.
const STORE: Variant = Variant {
    is_store: true,
    by: None,
    is_reverse: None,
};

impl<'a> Request<'a> {
    /// Parses `min max [option …]`.
    fn parse(args: Args<'a>, variant: Variant) -> Result<Request<'a>, Refusal> {
        let (mut by, mut is_reverse) = (variant.by, variant.is_reverse);
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let is = |name: &str| args.is(at, name);
            match word {
                _ if !variant.is_store && is("withscores") => with_scores = true,
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
            return Err(Refusal::Message(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Member {
            return Err(Refusal::Message(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        // In reverse order the higher end comes first, except for ranks.
        let (first, second) = args.get(0).zip(args.get(1)).ok_or(Refusal::Syntax)?;
        let (min, max) = match by {
            By::Score | By::Member if is_reverse => (second, first),
            _ => (first, second),
        };
        let members = match by {
            By::Score => Members::Within(interval::scores(min, max)?),
            By::Member => Members::Within(interval::members(min, max)?),
            By::Rank => Members::Ranks(
                parse_i64(min).ok_or(Refusal::NotInteger)?,
                parse_i64(max).ok_or(Refusal::NotInteger)?,
            ),
        };
        Ok(Request {
            members,
            is_reverse,
            with_scores,
            offset,
            limit,
        })
    }

    /// Estimates the work of the command.
    fn work(&self, probe: &mut Probe<'_, '_>, name: &[u8]) -> u64 {
        match self.members {
            Members::Ranks(start, end) if start >= 0 && end >= 0 => {
                let count = end.saturating_add(1).saturating_sub(start).max(0);
                if count as u64 <= probe.threshold {
                    return count as u64;
                }
            }
            Members::Within(_) if (0..=probe.threshold as i64).contains(&self.limit) => {
                return self.limit as u64;
            }
            _ => {}
        }
        let key = probe.key(name);
        let ranks = |set: &SortedSet, scene: &Scene<'_>| self.ranks(set, scene).len() as u64;
        match probe.view.peek_large_sorted_set(&key, ranks) {
            Some(count) => count,
            None => probe.size(name),
        }
    }

    /// Returns the selected ranks, counted from the lowest score.
    fn ranks(&self, set: &SortedSet, scene: &Scene<'_>) -> Range<usize> {
        match &self.members {
            Members::Ranks(start, end) => {
                let len = set.len(scene);
                let ranks = ranks_of(*start, *end, len);
                if self.is_reverse {
                    len - ranks.end..len - ranks.start
                } else {
                    ranks
                }
            }
            Members::Within(interval) => {
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

/// Returns the ranks from `start` to `end`, inclusive, of `len` members. Negative ranks count from
/// the end.
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

fn range(ctx: &mut Ctx<'_, '_>, args: Args<'_>, variant: Variant) -> Answer {
    let request = Request::parse(args.from(2), variant)?;
    let key = ctx.key(&args[1]);
    let Ctx { view, reply, .. } = ctx;
    let found = view.read_sorted_set(&key, |set, scene| {
        let ranks = request.ranks(set, scene);
        let mut listing = Listing::new(reply, ranks.len(), request.with_scores);
        set.each(ranks, request.is_reverse, scene, |member, score| {
            listing.write(member, score);
        });
    })?;
    if found.is_none() {
        ctx.missed(&key);
        ctx.reply.array(0);
    }
    Ok(())
}

/// Estimates the work of ZRANGE and the similar commands.
pub fn work(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let (variant, at) = match probe.name {
        "zrange" => (Variant::default(), 1),
        "zrangestore" => (STORE, 2),
        "zrevrange" => (variant_of(By::Rank, true), 1),
        "zrangebyscore" => (variant_of(By::Score, false), 1),
        "zrevrangebyscore" => (variant_of(By::Score, true), 1),
        "zrangebylex" => (variant_of(By::Member, false), 1),
        _ => (variant_of(By::Member, true), 1),
    };
    match Request::parse(args.from(at + 1), variant) {
        Ok(request) => request.work(probe, &args[at]),
        Err(_) => 0,
    }
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub fn zrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, Variant::default())
}

const fn variant_of(by: By, is_reverse: bool) -> Variant {
    Variant {
        is_store: false,
        by: Some(by),
        is_reverse: Some(is_reverse),
    }
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub fn zrevrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, variant_of(By::Rank, true))
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, variant_of(By::Score, false))
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub fn zrevrangebyscore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, variant_of(By::Score, true))
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub fn zrangebylex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, variant_of(By::Member, false))
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub fn zrevrangebylex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, variant_of(By::Member, true))
}

/// `ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub fn zrangestore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let request = Request::parse(args.from(3), STORE)?;
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
