//! Commands on deadlines: EXPIRE, TTL, EXPIRETIME and their variants, and PERSIST.

use crate::command::element_ttl::member;
use crate::context::Ctx;
use engine::Strings;
use engine::lifetime::{Base, Conditions, Unit, instant};
use engine::refusal::{Answer, Refusal};
use store::Tick;
use wire::Args;

/// `EXPIRE key seconds [NX | XX | GT | LT]`
///
/// A deadline in the past deletes the key and publishes `expired`, because the key's time has
/// passed. Redis publishes `del`.
pub fn expire<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Seconds, Base::Now, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub fn pexpire<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Milliseconds, Base::Now, "pexpire")
}

/// `EXPIREAT key seconds [NX | XX | GT | LT]`
pub fn expireat<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Seconds, Base::Epoch, "expireat")
}

/// `PEXPIREAT key milliseconds [NX | XX | GT | LT]`
pub fn pexpireat<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Milliseconds, Base::Epoch, "pexpireat")
}

fn set_deadline<E: Strings>(
    ctx: &mut Ctx<'_, '_, E>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    command: &'static str,
) -> Answer {
    let Some(conditions) = Conditions::parse(&mut ctx.reply, args.from(3)) else {
        return Ok(());
    };
    let when = instant(&args[2], unit, base, ctx.view.now(), command)?;
    let key = ctx.key(&args[1]);
    let is_changed = ctx.view.expire(&key, when, &conditions)?;
    ctx.reply.integer(i64::from(is_changed));
    Ok(())
}

/// `TTL key`: replies with the remaining seconds, rounded; −1 without a deadline, −2 without a key.
pub fn ttl<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    reply_deadline(ctx, args, Unit::Seconds, Base::Now, "ttl")
}

/// `PTTL key`
pub fn pttl<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    reply_deadline(ctx, args, Unit::Milliseconds, Base::Now, "pttl")
}

/// `EXPIRETIME key`
pub fn expiretime<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    reply_deadline(ctx, args, Unit::Seconds, Base::Epoch, "expiretime")
}

/// `PEXPIRETIME key`
pub fn pexpiretime<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    reply_deadline(ctx, args, Unit::Milliseconds, Base::Epoch, "pexpiretime")
}

fn reply_deadline<E: Strings>(
    ctx: &mut Ctx<'_, '_, E>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    command: &'static str,
) -> Answer {
    if args.len() > 2 {
        return Err(Refusal::Arity(command));
    }
    let key = ctx.key(&args[1]);
    let time = match ctx.view.deadline(&key) {
        None => {
            ctx.view.missed(&key);
            -2
        }
        Some(None) => -1,
        Some(Some(deadline)) => time_of(deadline, unit, base, ctx.view.now()),
    };
    ctx.reply.integer(time);
    Ok(())
}

/// `TTL key member` and `PTTL key member`, as in KeyDB. Without a member they apply to the key.
pub fn ttl_of_member(ctx: &mut Ctx<'_, '_>, args: Args<'_>, unit: Unit) -> Answer {
    let command = match unit {
        Unit::Seconds => "ttl",
        Unit::Milliseconds => "pttl",
    };
    let Some(member) = args.get(2).filter(|_| args.len() == 3) else {
        return reply_deadline(ctx, args, unit, Base::Now, command);
    };
    let key = ctx.key(&args[1]);
    let time = match member::deadline(ctx, &key, member)? {
        Ok(deadline) => time_of(deadline, unit, Base::Now, ctx.view.now()),
        Err(code) => {
            if code == -2 && ctx.view.kind(&key).is_none() {
                ctx.view.missed(&key);
            }
            code
        }
    };
    ctx.reply.integer(time);
    Ok(())
}

/// Converts a deadline to a unit, relative to `base`. Seconds are rounded.
fn time_of(deadline: Tick, unit: Unit, base: Base, now: Tick) -> i64 {
    let milliseconds = match base {
        Base::Now => deadline.0.saturating_sub(now.0),
        Base::Epoch => deadline.0,
    };
    match unit {
        Unit::Seconds => (milliseconds as i64 + 500) / 1000,
        Unit::Milliseconds => milliseconds as i64,
    }
}

/// `PERSIST key`
pub fn persist<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let had_deadline = ctx.view.persist(&key)?;
    ctx.reply.integer(i64::from(had_deadline));
    Ok(())
}
