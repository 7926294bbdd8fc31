//! Commands on whole databases: FLUSHDB, FLUSHALL, SWAPDB.

use super::generic::database_at;
use crate::context::Ctx;
use crate::saving::work::request_soon;
use engine::Strings;
use engine::refusal::{Answer, Refusal};
use wire::Args;
use wire::number::parse_i64;

/// `FLUSHDB [ASYNC | SYNC]`: deletes the keys immediately and, with either option, frees their
/// memory in steps.
pub fn flushdb<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    check_mode(args)?;
    check_moves(ctx)?;
    ctx.view.flush(ctx.session.db);
    ctx.reply.ok();
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`
pub fn flushall<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    check_mode(args)?;
    check_moves(ctx)?;
    for db in 0..ctx.server.data.engine().databases() {
        ctx.view.flush(db as u8);
    }
    request_soon(ctx.server, "all keys were removed");
    ctx.reply.ok();
    Ok(())
}

fn check_mode(args: Args<'_>) -> Answer {
    if args.len() == 1 || (args.len() == 2 && (args.is(1, "async") || args.is(1, "sync"))) {
        Ok(())
    } else {
        Err(Refusal::Syntax)
    }
}

/// Refuses to empty databases while slots arrive or leave: a part of the keys is not this node's.
fn check_moves<E>(ctx: &Ctx<'_, '_, E>) -> Answer {
    match ctx.server.cluster.moves.is_active() && !ctx.session.is_of_feed() {
        true => Err(Refusal::Message(
            "TRYAGAIN slots are moving to or from this node, whose keys cannot be removed until that ends",
        )),
        false => Ok(()),
    }
}

/// `SWAPDB index1 index2`
pub fn swapdb(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if ctx.server.cluster.is_routed() {
        let text =
            "ERR SWAPDB is not allowed in cluster mode, because it would change one node only";
        return Err(Refusal::Message(text));
    }
    let read = |index: usize| parse_i64(&args[index]).filter(|&db| i32::try_from(db).is_ok());
    let first = read(1).ok_or(Refusal::Message("ERR invalid first DB index"))?;
    let second = read(2).ok_or(Refusal::Message("ERR invalid second DB index"))?;
    let (first, second) = (database_at(ctx, first)?, database_at(ctx, second)?);
    ctx.view.swap(first, second);
    ctx.reply.ok();
    Ok(())
}
