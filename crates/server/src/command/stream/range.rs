//! Commands that read entries of one stream: XLEN, XRANGE, XREVRANGE.

use super::arguments::{count, end, start};
use super::reply;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::stream::Entry;
use wire::{Args, Reply};

/// `XLEN key`
pub fn xlen(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let len = ctx
        .view
        .read_stream(&key, |stream, scene| stream.len(scene))?;
    if len.is_none() {
        ctx.missed(&key);
    }
    ctx.reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

/// `XRANGE key start end [COUNT count]`
pub fn xrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, false)
}

/// `XREVRANGE key end start [COUNT count]`
pub fn xrevrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    range(ctx, args, true)
}

/// Writes entries as an array.
pub(super) fn write_entries<'e>(reply: &mut Reply<'_>, entries: impl Iterator<Item = Entry<'e>>) {
    reply::array_of(reply, |reply| {
        let mut len = 0;
        for entry in entries {
            reply::entry(reply, &entry);
            len += 1;
            if reply.is_full() {
                break;
            }
        }
        len
    });
}

fn range(ctx: &mut Ctx<'_, '_>, args: Args<'_>, is_reverse: bool) -> Answer {
    let (first, last) = if is_reverse { (3, 2) } else { (2, 3) };
    let (from, to) = (start(&args[first])?, end(&args[last])?);
    let mut limit = None;
    let mut index = 4;
    while index < args.len() {
        if !args.is(index, "count") || index + 1 >= args.len() {
            return Err(Refusal::Syntax);
        }
        limit = Some(count(&args[index + 1])?);
        index += 2;
    }
    let key = ctx.key(&args[1]);
    let out = &mut ctx.reply;
    let read = ctx.view.read_stream(&key, |stream, scene| {
        let limit = limit.unwrap_or(usize::MAX);
        match (limit, is_reverse) {
            (0, _) => out.null_array(),
            (_, false) => write_entries(out, stream.range(from, to, scene).take(limit)),
            (_, true) => write_entries(out, stream.range_back(from, to, scene).take(limit)),
        }
    })?;
    if read.is_none() {
        ctx.missed(&key);
        ctx.reply.array(0);
    }
    Ok(())
}
