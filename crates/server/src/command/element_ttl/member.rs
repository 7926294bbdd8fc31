//! KeyDB's commands on one member of a key of any type whose elements may have deadlines.

use super::Timed;
use super::family::{ABSENT, Outcome, publish_expiration, stored_deadline};
use crate::context::Ctx;
use engine::lifetime::{Base, Unit, instant, is_past};
use engine::refusal::{Answer, Refusal};
use store::{Hash, Key, Kind, Set, SortedSet, Tick};
use wire::Args;

/// `EXPIREMEMBER key member number [s | ms]`: replies whether there is such a member.
pub fn expiremember(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let unit = match args.get(4) {
        None => Unit::Seconds,
        Some(word) if word.eq_ignore_ascii_case(b"s") => Unit::Seconds,
        Some(word) if word.eq_ignore_ascii_case(b"ms") => Unit::Milliseconds,
        Some(_) => return Err(Refusal::Message("ERR Invalid unit arg")),
    };
    if args.len() > 5 {
        return Err(Refusal::Arity("expiremember"));
    }
    expire(ctx, args, unit, Base::Now, "expiremember")
}

/// `EXPIREMEMBERAT key member seconds`
pub fn expirememberat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    expire(ctx, args, Unit::Seconds, Base::Epoch, "expirememberat")
}

/// `PEXPIREMEMBERAT key member milliseconds`
pub fn pexpirememberat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    expire(
        ctx,
        args,
        Unit::Milliseconds,
        Base::Epoch,
        "pexpirememberat",
    )
}

fn expire(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    command: &'static str,
) -> Answer {
    let now = ctx.view.now();
    let when = instant(&args[3], unit, base, now, command)?.min(Tick::MAX.0 as i64);
    let key = ctx.key(&args[1]);
    let is_done = match ctx.view.kind(&key) {
        None => false,
        Some(Kind::Hash) => set_deadline::<Hash>(ctx, &key, &args[2], when)?,
        Some(Kind::Set) => set_deadline::<Set>(ctx, &key, &args[2], when)?,
        Some(Kind::SortedSet) => set_deadline::<SortedSet>(ctx, &key, &args[2], when)?,
        Some(_) => return Err(Refusal::WrongType),
    };
    ctx.reply.integer(i64::from(is_done));
    Ok(())
}

fn set_deadline<C: Timed>(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    member: &[u8],
    when: i64,
) -> Result<bool, Refusal> {
    let (horizon, when) = (ctx.view.horizon(), when.min(C::DEADLINE_MAX));
    let edited = C::edit(ctx.view.view, key, |elements, scene| {
        elements
            .update_deadline(member, scene, |_| {
                Some(Some(stored_deadline(when, horizon)))
            })
            .then_some(())
    })?;
    if edited.is_some() {
        let is_past = is_past(when, horizon);
        let is_set = !is_past;
        publish_expiration::<C>(ctx, key, Outcome { is_set, is_past });
    }
    Ok(edited.is_some())
}

/// Returns the deadline of a member. The error is −1 if it has none, or −2 if there is no such key
/// or member.
pub fn deadline(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    member: &[u8],
) -> Result<Result<Tick, i64>, Refusal> {
    let found = match ctx.view.kind(key) {
        None => None,
        Some(Kind::Hash) => look::<Hash>(ctx, key, member)?,
        Some(Kind::Set) => look::<Set>(ctx, key, member)?,
        Some(Kind::SortedSet) => look::<SortedSet>(ctx, key, member)?,
        Some(_) => return Err(Refusal::WrongType),
    };
    Ok(match found {
        None => Err(ABSENT),
        Some(None) => Err(-1),
        Some(Some(deadline)) => Ok(deadline),
    })
}

fn look<C: Timed>(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    member: &[u8],
) -> Result<Option<Option<Tick>>, Refusal> {
    let found = C::read(ctx.view.view, key, |elements, scene| {
        elements.deadline(member, scene)
    })?;
    Ok(found.flatten())
}
