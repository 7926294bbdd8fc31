//! Commands that store several strings: MSET, MSETNX, MSETEX.

use super::set::FOREVER;
use crate::context::Ctx;
use engine::Strings;
use engine::condition::Condition;
use engine::lifetime::Lifetime;
use engine::refusal::{Answer, Refusal};
use store::NewDeadline;
use wire::Args;
use wire::number::parse_i64;

/// Returns the pairs of key and value from `first` on.
fn pairs<'a>(args: Args<'a>, first: usize) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let names = args.from(first).iter().step_by(2);
    let values = args.from(first + 1).iter().step_by(2);
    names.zip(values)
}

/// `MSET key value [key value …]`
///
/// On the segment engine, each key is stored separately, after the sizes of all values have been
/// checked.
pub fn mset<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    if args.len().is_multiple_of(2) {
        return Err(Refusal::Arity("mset"));
    }
    for (name, value) in pairs(args, 1) {
        ctx.view.check_size(name, value)?;
    }
    for (name, value) in pairs(args, 1) {
        let key = ctx.key(name);
        ctx.view
            .put(&key, value, FOREVER, &Condition::Always, None)?;
    }
    ctx.reply.ok();
    Ok(())
}

/// `MSETNX key value [key value …]`
///
/// Stores all values, or none if any of the keys exists.
pub fn msetnx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len().is_multiple_of(2) {
        return Err(Refusal::Arity("msetnx"));
    }
    let may_write = pairs(args, 1).all(|(name, _)| {
        let key = ctx.key(name);
        ctx.view.kind(&key).is_none()
    });
    if may_write {
        for (name, value) in pairs(args, 1) {
            let key = ctx.key(name);
            ctx.view
                .put(&key, value, FOREVER, &Condition::Always, None)?;
        }
    }
    ctx.reply.integer(i64::from(may_write));
    Ok(())
}

/// `MSETEX numkeys key value [key value …] [NX | XX] [EX seconds | PX milliseconds | EXAT seconds |
/// PXAT milliseconds | KEEPTTL]`
///
/// Stores all values, or none if any of the keys exists (NX) or is missing (XX).
pub fn msetex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let count = parse_i64(&args[1])
        .filter(|count| (1..=i64::from(i32::MAX)).contains(count))
        .ok_or(Refusal::Message("ERR invalid numkeys value"))?;
    let first_option = 2 + 2 * count as usize;
    if first_option > args.len() {
        return Err(Refusal::Message("ERR wrong number of key-value pairs"));
    }
    let mut lifetime = Lifetime::default();
    let mut wants_present = None;
    let mut index = first_option;
    while let Some(option) = args.get(index) {
        let mut taken = lifetime.take(option, args.get(index + 1))?;
        if taken == 0 {
            let wanted = if option.eq_ignore_ascii_case(b"XX") {
                true
            } else if option.eq_ignore_ascii_case(b"NX") {
                false
            } else {
                return Err(Refusal::Syntax);
            };
            if wants_present.is_some_and(|present| present != wanted) {
                return Err(Refusal::Syntax);
            }
            wants_present = Some(wanted);
            taken = 1;
        }
        if lifetime == Lifetime::Persist {
            return Err(Refusal::Syntax);
        }
        index += taken;
    }
    let expiration = lifetime.deadline_change(ctx.view.instants(), "msetex", NewDeadline::Clear)?;
    let chosen = || pairs(args, 2).take(count as usize);
    let may_write = wants_present.is_none_or(|present| {
        chosen().all(|(name, _)| {
            let key = ctx.key(name);
            ctx.view.kind(&key).is_some() == present
        })
    });
    if may_write {
        for (name, value) in chosen() {
            let key = ctx.key(name);
            ctx.view.store_of_msetex(&key, value, expiration);
        }
    }
    ctx.reply.integer(i64::from(may_write));
    Ok(())
}
