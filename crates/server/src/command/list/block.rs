//! Commands that take elements from lists and block while there are none: BLPOP, BRPOP, BLMPOP,
//! BLMOVE, BRPOPLPUSH.

use super::arguments::end;
use super::pop::{PopRequest, move_element, pop_into};
use crate::context::Ctx;
use engine::lifetime::timeout_ms;
use engine::refusal::Answer;
use store::{End, Kind};
use wire::Args;

/// `BLPOP key [key …] timeout`
pub fn blpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop_any(ctx, args, End::Left)
}

/// `BRPOP key [key …] timeout`
pub fn brpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop_any(ctx, args, End::Right)
}

fn pop_any(ctx: &mut Ctx<'_, '_>, args: Args<'_>, end: End) -> Answer {
    let last = args.len() - 1;
    let timeout_ms = timeout_ms(&args[last])?;
    let names = || args.iter().take(last).skip(1);
    for name in names() {
        let key = ctx.key(name);
        let is_done = pop_into(ctx, &key, end, 1, |reply, _| {
            reply.array(2);
            reply.bulk(name);
        })?;
        if is_done {
            return Ok(());
        }
    }
    if !ctx.wait(args, names(), Kind::List, timeout_ms) {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BLMPOP timeout numkeys key [key …] LEFT | RIGHT [COUNT count]`
pub fn blmpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let request = PopRequest::parse(args, 2)?;
    let timeout_ms = timeout_ms(&args[1])?;
    if !request.pop(ctx)? && !ctx.wait(args, request.keys(), Kind::List, timeout_ms) {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
pub fn blmove(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (from, to) = (end(&args[3])?, end(&args[4])?);
    move_or_wait(ctx, args, from, to, timeout_ms(&args[5])?)
}

/// `BRPOPLPUSH source destination timeout`
pub fn brpoplpush(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let timeout_ms = timeout_ms(&args[3])?;
    move_or_wait(ctx, args, End::Right, End::Left, timeout_ms)
}

fn move_or_wait(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    from: End,
    to: End,
    timeout_ms: u64,
) -> Answer {
    let source = std::iter::once(&args[1]);
    if !move_element(ctx, args, from, to)? && !ctx.wait(args, source, Kind::List, timeout_ms) {
        ctx.reply.null();
    }
    Ok(())
}
