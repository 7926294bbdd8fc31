//! Commands that read lists: LLEN, LINDEX, LRANGE, LPOS.

use super::arguments::{integer, place, range};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{End, Key, List};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Calls `write` with a list and the reply. Publishes a miss if there is no list. Returns whether
/// there is one.
fn with_list(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    write: impl FnOnce(&List, &mut Reply<'_>) -> Answer,
) -> Result<bool, Refusal> {
    let reply = &mut ctx.reply;
    let result = ctx.view.read_list(key, |list, _| write(list, reply))?;
    let exists = result.is_some();
    if !exists {
        ctx.missed(key);
    }
    result.unwrap_or(Ok(()))?;
    Ok(exists)
}

/// `LLEN key`
pub fn llen(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let exists = with_list(ctx, &key, |list, reply| {
        reply.integer(list.len() as i64);
        Ok(())
    })?;
    if !exists {
        ctx.reply.integer(0);
    }
    Ok(())
}

/// `LINDEX key index`
pub fn lindex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let exists = with_list(ctx, &key, |list, reply| {
        let index = place(integer(&args[2])?, list.len());
        match index.and_then(|index| list.get(index)) {
            Some(element) => reply.bulk(element),
            None => reply.null(),
        }
        Ok(())
    })?;
    if !exists {
        ctx.reply.null();
    }
    Ok(())
}

/// `LRANGE key start stop`
pub fn lrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let (start, stop) = (integer(&args[2])?, integer(&args[3])?);
    let exists = with_list(ctx, &key, |list, reply| {
        let (start, count) = range(start, stop, list.len());
        reply.array(count);
        for element in list.iter(End::Left, start).take(count) {
            reply.bulk(element);
        }
        Ok(())
    })?;
    if !exists {
        ctx.reply.array(0);
    }
    Ok(())
}

/// Arguments of LPOS.
struct Search {
    /// End from which the search starts.
    from: End,
    /// Number of matches to skip.
    skipped: u64,
    /// Maximum number of matches to return; `None` returns one, not in an array.
    count: Option<usize>,
    /// Maximum number of elements to examine.
    length_max: usize,
}

/// Parses an option's argument, which must not be negative; 0 means no limit.
fn bound(text: &[u8], error: &'static str) -> Result<usize, Refusal> {
    match parse_i64(text) {
        Some(0) => Ok(usize::MAX),
        Some(number @ 1..) => Ok(number as usize),
        _ => Err(Refusal::Message(error)),
    }
}

fn parse_search(args: Args<'_>) -> Result<Search, Refusal> {
    let mut search = Search {
        from: End::Left,
        skipped: 0,
        count: None,
        length_max: usize::MAX,
    };
    let mut at = 3;
    while at < args.len() {
        let value = args.get(at + 1).ok_or(Refusal::Syntax)?;
        if args.is(at, "rank") {
            let rank = integer(value)?;
            if rank == i64::MIN {
                return Err(Refusal::Message(
                    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                ));
            }
            if rank == 0 {
                return Err(Refusal::Message(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                ));
            }
            search.from = if rank < 0 { End::Right } else { End::Left };
            search.skipped = rank.unsigned_abs() - 1;
        } else if args.is(at, "count") {
            search.count = Some(bound(value, "ERR COUNT can't be negative")?);
        } else if args.is(at, "maxlen") {
            search.length_max = bound(value, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(Refusal::Syntax);
        }
        at += 2;
    }
    Ok(search)
}

/// `LPOS key element [RANK rank] [COUNT count] [MAXLEN length]`
pub fn lpos(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let search = parse_search(args)?;
    let mut found = Vec::new();
    with_list(ctx, &key, |list, _| {
        let len = list.len();
        let first = match search.from {
            End::Left => 0,
            End::Right => len.saturating_sub(1),
        };
        let examined = list.iter(search.from, first).take(search.length_max);
        let equal = examined
            .enumerate()
            .filter(|(_, element)| **element == args[2]);
        let skipped = usize::try_from(search.skipped).unwrap_or(usize::MAX);
        for (at, _) in equal.skip(skipped).take(search.count.unwrap_or(1)) {
            found.push(match search.from {
                End::Left => at,
                End::Right => len - 1 - at,
            });
        }
        Ok(())
    })?;
    match (search.count, found.first()) {
        (None, None) => ctx.reply.null(),
        (None, Some(at)) => ctx.reply.integer(*at as i64),
        (Some(_), _) => {
            ctx.reply.array(found.len());
            for at in found {
                ctx.reply.integer(at as i64);
            }
        }
    }
    Ok(())
}
