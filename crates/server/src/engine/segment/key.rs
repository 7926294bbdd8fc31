//! Commands on any key: whether it is there, its end, and when that comes.
//!
//! A deadline is what the engine keeps: rounded down, so what TTL tells may be less than what EXPIRE was
//! given, and is what counts.

use super::Edit;
use super::command::{Ctx, refusal};
use crate::command::key::expire::tell_time;
use crate::command::lifetime::{Base, Conditions, Unit, deadline, instant, is_past};
use crate::command::refusal::{Answer, Refusal};
use segment::Condition;
use wire::Args;

/// `DEL key [key …]`, and `UNLINK`: each key for itself.
pub(super) fn del(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut deleted = 0;
    for name in args.from(1).iter() {
        let key = ctx.key(name);
        let (cache, now) = (ctx.hand.cache, ctx.hand.now);
        let was_there = cache.delete(&key, Condition::Always, now) == Ok(true);
        deleted += i64::from(was_there);
    }
    ctx.reply.integer(deleted);
    Ok(())
}

/// `EXISTS key [key …]`, and `TOUCH`
pub(super) fn exists(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let is_there = |name: &&[u8]| ctx.hand.contains(&ctx.key(name));
    let count = args.from(1).iter().filter(is_there).count();
    ctx.reply.integer(count as i64);
    Ok(())
}

/// `TYPE key`
pub(super) fn kind(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let found = ctx.hand.look(&ctx.key(&args[1]));
    ctx.reply.simple(found.map_or("none", |_| "string"));
    Ok(())
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub(super) fn expire(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Seconds, Base::Now, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub(super) fn pexpire(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Milliseconds, Base::Now, "pexpire")
}

/// `EXPIREAT key seconds [NX | XX | GT | LT]`
pub(super) fn expireat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Seconds, Base::Epoch, "expireat")
}

/// `PEXPIREAT key milliseconds [NX | XX | GT | LT]`
pub(super) fn pexpireat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Milliseconds, Base::Epoch, "pexpireat")
}

/// The conditions compare deadlines as they are kept: what is asked for with the old one when the key goes, what it
/// would become otherwise.
fn set_deadline(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    command: &'static str,
) -> Answer {
    let Some(conditions) = Conditions::parse(&mut ctx.reply, args.from(3)) else {
        return Ok(());
    };
    let now = ctx.hand.now;
    let when = instant(&args[2], unit, base, now, command)?;
    let key = ctx.key(&args[1]);
    let is_changed = if is_past(when, now) {
        let edited = ctx.hand.edit(&key, |found, _| match found {
            Some((found, _)) if conditions.hold(found.deadline, when) => (Edit::Delete, true),
            _ => (Edit::Leave, false),
        });
        edited.map_err(|why| refusal(&args[1], why))?.0
    } else {
        let ttl_ms = deadline(when).0 - now.0;
        let end = ctx.hand.would_end(ttl_ms).0 as i64;
        let life = |old| conditions.hold(old, end).then_some(Some(ttl_ms));
        let done = ctx.hand.relive(&key, life);
        done.map_err(|why| refusal(&args[1], why))?.is_some()
    };
    ctx.reply.integer(i64::from(is_changed));
    Ok(())
}

/// `PERSIST key`
pub(super) fn persist(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let done = ctx.hand.relive(&ctx.key(&args[1]), |old| old.map(|_| None));
    let had_deadline = done.map_err(|why| refusal(&args[1], why))?.is_some();
    ctx.reply.integer(i64::from(had_deadline));
    Ok(())
}

/// `TTL key`
pub(super) fn ttl(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    tell_deadline(ctx, args, Unit::Seconds, Base::Now, "ttl")
}

/// `PTTL key`
pub(super) fn pttl(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    tell_deadline(ctx, args, Unit::Milliseconds, Base::Now, "pttl")
}

/// `EXPIRETIME key`
pub(super) fn expiretime(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    tell_deadline(ctx, args, Unit::Seconds, Base::Epoch, "expiretime")
}

/// `PEXPIRETIME key`
pub(super) fn pexpiretime(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    tell_deadline(ctx, args, Unit::Milliseconds, Base::Epoch, "pexpiretime")
}

fn tell_deadline(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    command: &'static str,
) -> Answer {
    if args.len() > 2 {
        return Err(Refusal::Arity(command));
    }
    let found = ctx.hand.look(&ctx.key(&args[1]));
    let time = match found.map(|found| found.deadline) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => tell_time(deadline, unit, base, ctx.hand.now),
    };
    ctx.reply.integer(time);
    Ok(())
}
