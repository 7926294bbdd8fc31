//! DIGEST and DELEX.

use crate::context::Ctx;
use engine::condition::{Comparison, digest_of};
use engine::refusal::{Answer, Refusal};
use session::spec::Access;
use store::Class;
use wire::Args;

/// Returns the use of DELEX's key: without a condition, the value does not matter.
pub fn access(args: Args<'_>) -> Access {
    match args.len() {
        2 => Access::REMOVE,
        _ => Access::DELETE,
    }
}

/// `DIGEST key`
pub fn digest(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match ctx.view.get(&key)? {
        Some(value) => ctx.reply.bulk(&digest_of(value)),
        None => {
            ctx.reply.null();
            ctx.missed(&key);
        }
    }
    Ok(())
}

/// `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`: without a condition it
/// deletes a key of any type. The reply for a missing key is always 0.
pub fn delex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match args.len() {
        2 => {}
        4 => {
            if ctx.view.kind(&key).is_none() {
                ctx.reply.integer(0);
                return Ok(());
            }
            let value = ctx.view.peek(&key).map_err(|_| {
                Refusal::Message("ERR Key should be of string type if conditions are specified")
            })?;
            let relation = Comparison::relation(&args[2]).ok_or(Refusal::Message(
                "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
            ))?;
            let operand = &args[3];
            if !(Comparison { relation, operand }).holds(value)? {
                ctx.reply.integer(0);
                return Ok(());
            }
        }
        _ => return Err(Refusal::Arity("delex")),
    }
    let is_deleted = ctx.view.delete(&key);
    if is_deleted {
        ctx.view.notify(Class::Generic, "del", &key);
    }
    ctx.reply.integer(i64::from(is_deleted));
    Ok(())
}
