//! Commands on all keys: their number, their end, and the one database that there is.

use super::command::Ctx;
use crate::command::refusal::{Answer, Refusal};
use wire::Args;
use wire::number::parse_i64;

/// `DBSIZE`: the keys that live.
pub(super) fn dbsize(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) -> Answer {
    let keys = ctx.hand.cache.census(ctx.hand.now).live;
    ctx.reply.integer(keys as i64);
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`, and `FLUSHDB`: everything is over at once, and its memory comes back in steps.
pub(super) fn flush(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let is_known = args.len() == 1 || args.is(1, "async") || args.is(1, "sync");
    if !is_known || args.len() > 2 {
        return Err(Refusal::Syntax);
    }
    ctx.hand.cache.clear();
    ctx.reply.ok();
    Ok(())
}

/// `SELECT 0`
pub(super) fn select(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    match parse_i64(&args[1]).ok_or(Refusal::NotInteger)? {
        0 => ctx.reply.ok(),
        1..16 => return Err(Refusal::Says("ERR the segment engine has database 0 alone")),
        _ => return Err(Refusal::DatabaseRange),
    }
    Ok(())
}
