//! Commands that take members from either end: ZPOPMIN, ZPOPMAX, ZMPOP, and the blocking BZPOPMIN,
//! BZPOPMAX, BZMPOP.

use super::access::change;
use super::reply::Listing;
use super::result::Entries;
use crate::context::Ctx;
use engine::lifetime::timeout_ms;
use engine::refusal::{Answer, Refusal};
use store::{Key, Kind};
use wire::Args;
use wire::number::parse_i64;

/// End of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Members with the lowest scores.
    Min,
    /// Members with the highest scores.
    Max,
}

impl End {
    /// Parses `MIN` or `MAX`.
    pub fn parse(word: &[u8]) -> Result<End, Refusal> {
        match word {
            _ if word.eq_ignore_ascii_case(b"MIN") => Ok(End::Min),
            _ if word.eq_ignore_ascii_case(b"MAX") => Ok(End::Max),
            _ => Err(Refusal::Syntax),
        }
    }
}

/// Removes and returns up to `count` members, the outermost first, and publishes the event. Returns
/// none if the key does not exist.
pub fn pop(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    end: End,
    count: usize,
) -> Result<Entries, Refusal> {
    let event = match end {
        End::Min => "zpopmin",
        End::Max => "zpopmax",
    };
    let popped = change(ctx, key, event, |set, scene| {
        let len = set.len(scene);
        let count = count.min(len);
        let ranks = match end {
            End::Min => 0..count,
            End::Max => len - count..len,
        };
        let mut popped = Entries::with_capacity(count);
        set.each(ranks.clone(), end == End::Max, scene, |member, score| {
            popped.push((member.to_vec(), score));
        });
        set.remove_ranks(ranks, scene);
        (!popped.is_empty()).then_some(popped)
    })?;
    Ok(popped.unwrap_or_default())
}

/// `ZPOPMIN key [count]`
pub fn zpopmin(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop_one_key(ctx, args, End::Min)
}

/// `ZPOPMAX key [count]`
pub fn zpopmax(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop_one_key(ctx, args, End::Max)
}

fn pop_one_key(ctx: &mut Ctx<'_, '_>, args: Args<'_>, end: End) -> Answer {
    if args.len() > 3 {
        return Err(Refusal::Syntax);
    }
    let count = match args.get(2) {
        None => None,
        Some(text) => {
            let count = parse_i64(text).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(Refusal::Message(
                "ERR value is out of range, must be positive",
            ))?)
        }
    };
    let key = ctx.key(&args[1]);
    let popped = pop(ctx, &key, end, count.unwrap_or(1))?;
    let mut listing = match (count, popped.is_empty()) {
        // Without a count the reply is not a list of pairs in RESP3 either.
        (None, false) => Listing::of_one(&mut ctx.reply),
        _ => Listing::new(&mut ctx.reply, popped.len(), true),
    };
    for (member, score) in &popped {
        listing.write(member, *score);
    }
    Ok(())
}

/// Arguments `numkeys key [key …] MIN | MAX [COUNT count]`.
pub struct PopRequest<'a> {
    /// The keys in their order.
    pub keys: Vec<&'a [u8]>,
    /// End to pop from.
    pub end: End,
    /// Maximum number of members.
    pub count: usize,
}

impl<'a> PopRequest<'a> {
    /// Parses the arguments from `numkeys` on.
    pub fn parse(args: Args<'a>) -> Result<PopRequest<'a>, Refusal> {
        let positive = |text: &[u8], error| match parse_i64(text) {
            Some(number) if number > 0 => Ok(number as usize),
            _ => Err(Refusal::Message(error)),
        };
        let key_count = positive(&args[0], "ERR numkeys should be greater than 0")?;
        let end_at = key_count.checked_add(1).ok_or(Refusal::Syntax)?;
        let end = End::parse(args.get(end_at).ok_or(Refusal::Syntax)?)?;
        let mut count = None;
        let mut options = args.from(end_at + 1);
        while !options.is_empty() {
            let number = options.get(1);
            match number {
                Some(number) if count.is_none() && options.is(0, "count") => {
                    count = Some(positive(number, "ERR count should be greater than 0")?);
                }
                _ => return Err(Refusal::Syntax),
            }
            options = options.from(2);
        }
        Ok(PopRequest {
            keys: args.iter().skip(1).take(key_count).collect(),
            end,
            count: count.unwrap_or(1),
        })
    }

    /// Pops from the first key that has members and replies. Returns false if there is none.
    pub fn pop(&self, ctx: &mut Ctx<'_, '_>) -> Result<bool, Refusal> {
        for name in &self.keys {
            let key = ctx.key(name);
            let popped = pop(ctx, &key, self.end, self.count)?;
            if popped.is_empty() {
                continue;
            }
            ctx.reply.array(2);
            ctx.reply.bulk(name);
            let mut listing = Listing::of_pairs(&mut ctx.reply, popped.len());
            for (member, score) in &popped {
                listing.write(member, *score);
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// `ZMPOP numkeys key [key …] MIN | MAX [COUNT count]`
pub fn zmpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if !PopRequest::parse(args.from(1))?.pop(ctx)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BZMPOP timeout numkeys key [key …] MIN | MAX [COUNT count]`
pub fn bzmpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let request = PopRequest::parse(args.from(2))?;
    let timeout_ms = timeout_ms(&args[1])?;
    let keys = request.keys.iter().copied();
    if !request.pop(ctx)? && !ctx.wait(args, keys, Kind::SortedSet, timeout_ms) {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BZPOPMIN key [key …] timeout`
pub fn bzpopmin(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop_any_key(ctx, args, End::Min)
}

/// `BZPOPMAX key [key …] timeout`
pub fn bzpopmax(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop_any_key(ctx, args, End::Max)
}

fn pop_any_key(ctx: &mut Ctx<'_, '_>, args: Args<'_>, end: End) -> Answer {
    let last = args.len() - 1;
    let timeout_ms = timeout_ms(&args[last])?;
    let names = || args.iter().take(last).skip(1);
    for name in names() {
        let key = ctx.key(name);
        if let Some((member, score)) = pop(ctx, &key, end, 1)?.first() {
            ctx.reply.array(3);
            ctx.reply.bulk(name);
            ctx.reply.bulk(member);
            ctx.reply.double(*score);
            return Ok(());
        }
    }
    if !ctx.wait(args, names(), Kind::SortedSet, timeout_ms) {
        ctx.reply.null_array();
    }
    Ok(())
}
