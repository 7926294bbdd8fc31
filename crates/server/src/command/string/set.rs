//! Writing whole strings: SET and its older relatives.

use super::condition::Comparison;
use super::get::reply_value;
use crate::command::lifetime::{Base, Fate, Lifetime, Unit};
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use store::{Class, Key, NewDeadline};
use wire::Args;

/// Stores a value and tells listeners.
#[inline]
pub(super) fn store(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, value: &[u8], deadline: NewDeadline) {
    let is_news = ctx.is_news(key);
    ctx.view.set(key, value, deadline);
    if is_news {
        ctx.view.notify(Class::New, "new", key);
    }
    ctx.view.notify(Class::String, "set", key);
}

/// Stores a value under a lifetime. One in the past stores it and lets it expire at once, so that
/// listeners hear of both.
pub(super) fn store_with(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, value: &[u8], fate: Fate) {
    match fate {
        Fate::Lives(deadline) => {
            store(ctx, key, value, deadline);
            if matches!(deadline, NewDeadline::At(_)) {
                ctx.view.notify(Class::Generic, "expire", key);
            }
        }
        Fate::IsDead => {
            store(ctx, key, value, NewDeadline::Clear);
            ctx.view.notify(Class::Generic, "expire", key);
            ctx.view.expire_now(key);
        }
    }
}

/// When SET may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition<'a> {
    /// In any case.
    #[default]
    Always,
    /// NX: only a new key.
    Absent,
    /// XX: only over a key.
    Present,
    /// IFEQ, IFNE, IFDEQ, IFDNE: by what the key holds.
    Compares(Comparison<'a>),
}

impl<'a> Condition<'a> {
    /// Takes one option: how many arguments it took, 0 when it is none of these. Conditions of
    /// different kinds do not go together.
    fn take(&mut self, option: &[u8], next: Option<&'a [u8]>) -> Result<usize, Refusal> {
        let (wanted, taken) = if option.eq_ignore_ascii_case(b"NX") {
            (Condition::Absent, 1)
        } else if option.eq_ignore_ascii_case(b"XX") {
            (Condition::Present, 1)
        } else if let Some(relation) = Comparison::relation(option) {
            let operand = next.ok_or(Refusal::Syntax)?;
            (Condition::Compares(Comparison { relation, operand }), 2)
        } else {
            return Ok(0);
        };
        let is_same_kind = match (&*self, &wanted) {
            (Condition::Always, _) => true,
            (Condition::Compares(old), Condition::Compares(new)) => old.relation == new.relation,
            (old, new) => *old == *new,
        };
        if !is_same_kind {
            return Err(Refusal::Syntax);
        }
        *self = wanted;
        Ok(taken)
    }

    fn holds(&self, ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> Result<bool, Refusal> {
        Ok(match self {
            Condition::Always => true,
            Condition::Absent => ctx.view.kind(key).is_none(),
            Condition::Present => ctx.view.kind(key).is_some(),
            Condition::Compares(comparison) => comparison.holds(ctx.view.peek(key)?)?,
        })
    }

    /// The same of the string that is there.
    pub fn holds_for(&self, old: Option<&[u8]>) -> Result<bool, Refusal> {
        match self {
            Condition::Always => Ok(true),
            Condition::Absent => Ok(old.is_none()),
            Condition::Present => Ok(old.is_some()),
            Condition::Compares(comparison) => comparison.holds(old),
        }
    }
}

/// What SET's options ask for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish<'a> {
    /// How long it shall live.
    pub lifetime: Lifetime<'a>,
    /// When it may be written.
    pub condition: Condition<'a>,
    /// GET: the old value is told.
    pub is_get: bool,
}

impl<'a> Wish<'a> {
    /// Reads the options behind `SET key value`.
    pub fn parse(args: Args<'a>) -> Result<Wish<'a>, Refusal> {
        let mut wish = Wish::default();
        let mut index = 3;
        while let Some(option) = args.get(index) {
            let next = args.get(index + 1);
            let mut taken = wish.lifetime.take(option, next)?;
            if taken == 0 {
                taken = wish.condition.take(option, next)?;
            }
            if taken == 0 && option.eq_ignore_ascii_case(b"GET") {
                wish.is_get = true;
                taken = 1;
            }
            if taken == 0 || wish.lifetime == Lifetime::Persist {
                return Err(Refusal::Syntax);
            }
            index += taken;
        }
        Ok(wish)
    }
}

/// `SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
/// [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | KEEPTTL]`
///
/// A deadline in the past stores the value and lets it expire at once: the key is gone afterwards and
/// `expired` is said.
pub fn set(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len() == 3 {
        let key = ctx.key(&args[1]);
        store(ctx, &key, &args[2], NewDeadline::Clear);
        ctx.reply.ok();
        return Ok(());
    }
    let Wish {
        lifetime,
        condition,
        is_get,
    } = Wish::parse(args)?;
    let fate = lifetime.fate(ctx.view.now(), "set", NewDeadline::Clear)?;
    let key = ctx.key(&args[1]);
    if is_get {
        reply_value(ctx, &key)?;
    }
    let may_write = condition.holds(ctx, &key)?;
    if may_write {
        store_with(ctx, &key, &args[2], fate);
    }
    match (is_get, may_write) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

/// `SETNX key value`
pub fn setnx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let may_write = ctx.view.kind(&key).is_none();
    if may_write {
        store(ctx, &key, &args[2], NewDeadline::Clear);
    }
    ctx.reply.integer(i64::from(may_write));
    Ok(())
}

/// `SETEX key seconds value`
pub fn setex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store_until(ctx, args, Unit::Seconds, "setex")
}

/// `PSETEX key milliseconds value`
pub fn psetex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store_until(ctx, args, Unit::Milliseconds, "psetex")
}

fn store_until(ctx: &mut Ctx<'_, '_>, args: Args<'_>, unit: Unit, command: &'static str) -> Answer {
    let lifetime = Lifetime::Until(unit, Base::Now, &args[2]);
    let fate = lifetime.fate(ctx.view.now(), command, NewDeadline::Clear)?;
    let key = ctx.key(&args[1]);
    store_with(ctx, &key, &args[3], fate);
    ctx.reply.ok();
    Ok(())
}

/// `GETSET key value`
pub fn getset(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    reply_value(ctx, &key)?;
    store(ctx, &key, &args[2], NewDeadline::Clear);
    Ok(())
}
