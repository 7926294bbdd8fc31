//! Strings as a whole: GET, SET and their relatives.

use super::command::{Ctx, refusal};
use super::{Edit, Found, Life, Put};
use crate::command::lifetime::{Base, Fate, Lifetime, Unit};
use crate::command::refusal::{Answer, Refusal};
use crate::command::string::set::{Condition as When, Wish};
use segment::{Condition, Key, Refused};
use store::{NewDeadline, Tick};
use wire::{Args, Reply};

/// `GET key`
pub(super) fn get(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    reply_value(ctx, &key);
    Ok(())
}

/// Replies with the value, which is copied once; or with null.
#[inline]
fn reply_value(ctx: &mut Ctx<'_, '_>, key: &Key<&[u8]>) {
    let protocol = ctx.reply.protocol();
    let frame = |out: &mut Vec<u8>, found: &Found| Reply::new(out, protocol).bulk_head(found.len);
    match ctx.hand.get(key, ctx.reply.buffer(), frame) {
        Some(_) => ctx.reply.raw(b"\r\n"),
        None => ctx.reply.null(),
    }
}

/// `MGET key [key …]`: each key for itself.
pub(super) fn mget(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    ctx.reply.array(args.len() - 1);
    let mut near = [None; NEAR_MAX];
    let names = args.from(1);
    let mut first = 0;
    while first < names.len() {
        // As for a batch of commands: the lines of the table first, then the objects.
        let some = names.iter().skip(first).take(NEAR_MAX);
        for (place, name) in near.iter_mut().zip(some) {
            let key = ctx.key(name);
            ctx.hand.cache.prefetch(&key);
            *place = Some(key);
        }
        let count = NEAR_MAX.min(names.len() - first);
        let keys = near[..count].iter().flatten();
        keys.clone()
            .for_each(|key| ctx.hand.cache.prefetch_object(key));
        for key in keys {
            reply_value(ctx, key);
        }
        first += count;
    }
    Ok(())
}

/// Keys that MGET has brought near at once.
const NEAR_MAX: usize = 32;

/// `STRLEN key`
pub(super) fn strlen(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let found = ctx.hand.look(&ctx.key(&args[1]));
    ctx.reply.integer(found.map_or(0, |found| found.len as i64));
    Ok(())
}

/// What a lifetime means for an object.
fn life(fate: Fate, now: Tick) -> Life {
    match fate {
        Fate::IsDead => Life::Over,
        Fate::Lives(deadline) => Life::of(deadline, now),
    }
}

/// `SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
/// [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | KEEPTTL]`
pub(super) fn set(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let name = &args[1];
    let key = ctx.key(name);
    if args.len() == 3 {
        return store(ctx, &key, name, &args[2], Life::Endless);
    }
    let wish = Wish::parse(args)?;
    let fate = wish
        .lifetime
        .fate(ctx.hand.now, "set", NewDeadline::Clear)?;
    let put = Put::plain(life(fate, ctx.hand.now));
    let condition = match wish.condition {
        When::Always => Condition::Always,
        When::Absent => Condition::Absent,
        When::Present => Condition::Present,
        When::Compares(_) => return set_by_value(ctx, args, &wish, &put),
    };
    if wish.is_get || put.life == Life::Keep {
        return set_by_value(ctx, args, &wish, &put);
    }
    match ctx.hand.put(&key, &args[2], &put, condition) {
        Ok(_) => ctx.reply.ok(),
        Err(Refused::IsPresent | Refused::IsAbsent) => ctx.reply.null(),
        Err(why) => return Err(refusal(name, why)),
    }
    Ok(())
}

/// The same by what is there: its value, its deadline.
fn set_by_value(ctx: &mut Ctx<'_, '_>, args: Args<'_>, wish: &Wish<'_>, put: &Put) -> Answer {
    let key = ctx.key(&args[1]);
    let Ctx { hand, reply, .. } = ctx;
    let begin = reply.position();
    let edited = hand.edit(&key, |found, new| {
        reply.truncate(begin);
        let old = found.map(|(_, old)| old);
        if wish.is_get {
            match old {
                Some(old) => reply.bulk(old),
                None => reply.null(),
            }
        }
        match wish.condition.holds_for(old) {
            Ok(true) => {
                new.extend_from_slice(&args[2]);
                (Edit::Put(*put), Ok(true))
            }
            Ok(false) => (Edit::Leave, Ok(false)),
            Err(why) => (Edit::Leave, Err(why)),
        }
    });
    let is_stored = edited.map_err(|why| refusal(&args[1], why))?.0?;
    match (wish.is_get, is_stored) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

/// Stores a plain string over whatever was there.
#[inline]
fn store(ctx: &mut Ctx<'_, '_>, key: &Key<&[u8]>, name: &[u8], value: &[u8], life: Life) -> Answer {
    let put = Put::plain(life);
    let stored = ctx.hand.put(key, value, &put, Condition::Always);
    stored.map_err(|why| refusal(name, why))?;
    ctx.reply.ok();
    Ok(())
}

/// `SETNX key value`
pub(super) fn setnx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let put = Put::plain(Life::Endless);
    match ctx.hand.put(&key, &args[2], &put, Condition::Absent) {
        Ok(_) => ctx.reply.integer(1),
        Err(Refused::IsPresent) => ctx.reply.integer(0),
        Err(why) => return Err(refusal(&args[1], why)),
    }
    Ok(())
}

/// `SETEX key seconds value`
pub(super) fn setex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store_until(ctx, args, Unit::Seconds, "setex")
}

/// `PSETEX key milliseconds value`
pub(super) fn psetex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store_until(ctx, args, Unit::Milliseconds, "psetex")
}

fn store_until(ctx: &mut Ctx<'_, '_>, args: Args<'_>, unit: Unit, command: &'static str) -> Answer {
    let lifetime = Lifetime::Until(unit, Base::Now, &args[2]);
    let fate = lifetime.fate(ctx.hand.now, command, NewDeadline::Clear)?;
    let key = ctx.key(&args[1]);
    let life = life(fate, ctx.hand.now);
    store(ctx, &key, &args[1], &args[3], life)
}

/// `MSET key value [key value …]`: each key for itself, one after the other. What is too large for any segment is
/// refused before the first is stored.
pub(super) fn mset(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len().is_multiple_of(2) {
        return Err(Refusal::Arity("mset"));
    }
    let pairs = || {
        let names = args.from(1).iter().step_by(2);
        names.zip(args.from(2).iter().step_by(2))
    };
    for (name, value) in pairs() {
        if name.len() > segment::KEY_MAX || value.len() > ctx.hand.cache.value_max(name.len()) {
            return Err(refusal(name, Refused::TooLarge));
        }
    }
    let put = Put::plain(Life::Endless);
    for (name, value) in pairs() {
        let key = ctx.key(name);
        let stored = ctx.hand.put(&key, value, &put, Condition::Always);
        stored.map_err(|why| refusal(name, why))?;
    }
    ctx.reply.ok();
    Ok(())
}

/// `APPEND key value`
pub(super) fn append(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let edited = ctx.hand.edit(&key, |found, new| {
        new.extend_from_slice(found.map_or(&[], |(_, old)| old));
        new.extend_from_slice(&args[2]);
        (Edit::Put(Put::plain(Life::Keep)), new.len())
    });
    let (len, _) = edited.map_err(|why| refusal(&args[1], why))?;
    ctx.reply.integer(len as i64);
    Ok(())
}

/// Replies with what is there, and does with it what `change` says.
fn reply_and(
    ctx: &mut Ctx<'_, '_>,
    name: &[u8],
    change: impl Fn(&Found, &[u8], &mut Vec<u8>) -> Edit,
) -> Answer {
    let key = ctx.key(name);
    let Ctx { hand, reply, .. } = ctx;
    let begin = reply.position();
    let edited = hand.edit(&key, |found, new| {
        reply.truncate(begin);
        let Some((found, old)) = found else {
            reply.null();
            return (Edit::Leave, false);
        };
        reply.bulk(old);
        (change(found, old, new), true)
    });
    let (is_hit, _) = edited.map_err(|why| refusal(name, why))?;
    hand.count(is_hit);
    Ok(())
}

/// `GETDEL key`
pub(super) fn getdel(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    reply_and(ctx, &args[1], |_, _, _| Edit::Delete)
}

/// `GETSET key value`
pub(super) fn getset(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let wish = Wish {
        is_get: true,
        ..Wish::default()
    };
    set_by_value(ctx, args, &wish, &Put::plain(Life::Endless))
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST]`
pub(super) fn getex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let lifetime = Lifetime::of_getex(args.from(2))?;
    // Without the key, no number is looked at.
    if ctx.hand.look(&ctx.key(&args[1])).is_none() {
        ctx.hand.count(false);
        ctx.reply.null();
        return Ok(());
    }
    let fate = lifetime.fate(ctx.hand.now, "getex", NewDeadline::Keep)?;
    let life = life(fate, ctx.hand.now);
    reply_and(ctx, &args[1], |found, old, new| match life {
        Life::Keep => Edit::Leave,
        Life::Endless if found.deadline.is_none() => Edit::Leave,
        Life::Over => Edit::Delete,
        life => {
            new.extend_from_slice(old);
            let (client_flags, marks) = (found.client_flags, found.marks);
            Edit::Put(Put {
                life,
                client_flags,
                marks,
                cas: None,
            })
        }
    })
}
