//! Deadlines: EXPIRE and its kin, TTL and its kin, PERSIST.

use crate::command::element_ttl::member;
use crate::command::lifetime::{Base, Conditions, Unit, deadline, instant, is_past};
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use store::{Class, Tick};
use wire::Args;

/// `EXPIRE key seconds [NX | XX | GT | LT]`
///
/// A deadline in the past deletes the key and says `expired`, not `del` as Redis does: the key is gone
/// because its time was up.
pub fn expire(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Seconds, Base::Now, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub fn pexpire(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Milliseconds, Base::Now, "pexpire")
}

/// `EXPIREAT key seconds [NX | XX | GT | LT]`
pub fn expireat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Seconds, Base::Epoch, "expireat")
}

/// `PEXPIREAT key milliseconds [NX | XX | GT | LT]`
pub fn pexpireat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_deadline(ctx, args, Unit::Milliseconds, Base::Epoch, "pexpireat")
}

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
    let now = ctx.view.now();
    let when = instant(&args[2], unit, base, now, command)?;
    // What is kept is compared with what would be kept.
    let when = when.min(Tick::MAX.0 as i64);
    let key = ctx.key(&args[1]);
    let may_change = match ctx.view.deadline(&key) {
        Some(old) => conditions.hold(old, when),
        None => false,
    };
    if may_change {
        if is_past(when, now) {
            ctx.view.expire_now(&key);
        } else {
            ctx.view.set_deadline(&key, Some(deadline(when)));
            ctx.view.notify(Class::Generic, "expire", &key);
        }
    }
    ctx.reply.integer(i64::from(may_change));
    Ok(())
}

/// `TTL key [member]`: seconds, rounded; −1 without a deadline, −2 without a key. Of a member, as KeyDB
/// has it.
pub fn ttl(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len() > 3 {
        return Err(Refusal::Arity("ttl"));
    }
    tell_deadline(ctx, args, Unit::Seconds, Base::Now)
}

/// `PTTL key [member]`
pub fn pttl(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len() > 3 {
        return Err(Refusal::Arity("pttl"));
    }
    tell_deadline(ctx, args, Unit::Milliseconds, Base::Now)
}

/// `EXPIRETIME key`
pub fn expiretime(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    tell_deadline(ctx, args, Unit::Seconds, Base::Epoch)
}

/// `PEXPIRETIME key`
pub fn pexpiretime(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    tell_deadline(ctx, args, Unit::Milliseconds, Base::Epoch)
}

fn tell_deadline(ctx: &mut Ctx<'_, '_>, args: Args<'_>, unit: Unit, base: Base) -> Answer {
    let key = ctx.key(&args[1]);
    let found = match args.get(2) {
        Some(member) => member::deadline(ctx, &key, member)?,
        None => match ctx.view.deadline(&key) {
            None => Err(-2),
            Some(None) => Err(-1),
            Some(Some(deadline)) => Ok(deadline),
        },
    };
    if found == Err(-2) && ctx.view.kind(&key).is_none() {
        ctx.missed(&key);
    }
    let number = match found {
        Err(code) => code,
        Ok(deadline) => tell_time(deadline, unit, base, ctx.view.now()),
    };
    ctx.reply.integer(number);
    Ok(())
}

/// A deadline in a unit, from a base; seconds are rounded.
pub fn tell_time(deadline: Tick, unit: Unit, base: Base, now: Tick) -> i64 {
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
pub fn persist(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let had_deadline = ctx.view.deadline(&key).flatten().is_some();
    if had_deadline {
        ctx.view.set_deadline(&key, None);
        ctx.view.notify(Class::Generic, "persist", &key);
    }
    ctx.reply.integer(i64::from(had_deadline));
    Ok(())
}
