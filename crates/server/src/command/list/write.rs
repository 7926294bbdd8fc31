//! Commands that change lists other than by taking from their ends: LPUSH, RPUSH, LPUSHX, RPUSHX,
//! LINSERT, LSET, LREM, LTRIM.

use super::arguments::{integer, place, push_event, range};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{AnyCollection, Class, End, Kind};
use wire::Args;

/// `LPUSH key element [element …]`
pub fn lpush(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    push(ctx, args, End::Left, true)
}

/// `RPUSH key element [element …]`
pub fn rpush(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    push(ctx, args, End::Right, true)
}

/// `LPUSHX key element [element …]`
pub fn lpushx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    push(ctx, args, End::Left, false)
}

/// `RPUSHX key element [element …]`
pub fn rpushx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    push(ctx, args, End::Right, false)
}

fn push(ctx: &mut Ctx<'_, '_>, args: Args<'_>, end: End, may_create: bool) -> Answer {
    let key = ctx.key(&args[1]);
    let edited = ctx.view.edit_list(&key, may_create, |list, scene| {
        for value in args.from(2).iter() {
            list.push(end, value, scene);
        }
        Some(list.len())
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::List, push_event(end));
    }
    let len = edited.map_or(0, |edited| edited.result);
    ctx.reply.integer(len as i64);
    Ok(())
}

/// `LINSERT key BEFORE | AFTER pivot element`: replies with the new length, 0 without a list, −1
/// without the pivot.
pub fn linsert(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (key, pivot) = (ctx.key(&args[1]), &args[3]);
    let after = match (args.is(2, "before"), args.is(2, "after")) {
        (true, _) => 0,
        (_, true) => 1,
        _ => return Err(Refusal::Syntax),
    };
    let mut len = 0;
    let edited = ctx.view.edit_list(&key, false, |list, scene| {
        let found = list.iter(End::Left, 0).position(|element| element == pivot);
        len = -1;
        list.insert(found? + after, &args[4], scene);
        len = list.len() as i64;
        Some(())
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::List, "linsert");
    }
    ctx.reply.integer(len);
    Ok(())
}

/// `LSET key index element`
pub fn lset(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match ctx.view.kind(&key) {
        None => return Err(Refusal::Message("ERR no such key")),
        Some(Kind::List) => {}
        Some(_) => return Err(Refusal::WrongType),
    }
    let index = integer(&args[2])?;
    let edited = ctx.view.edit_list(&key, false, |list, scene| {
        let index = place(index, list.len())?;
        list.set(index, &args[3], scene).then_some(())
    })?;
    let edited = edited.ok_or(Refusal::Message("ERR index out of range"))?;
    ctx.edited(&key, &edited, Class::List, "lset");
    ctx.reply.ok();
    Ok(())
}

/// `LREM key count element`: removes up to `count` elements from the front, from the end if
/// negative, all if 0.
pub fn lrem(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let (end, max) = match integer(&args[2])? {
        0 => (End::Left, usize::MAX),
        count @ 1.. => (End::Left, count as usize),
        count => (End::Right, count.unsigned_abs() as usize),
    };
    let edited = ctx.view.edit_list(&key, false, |list, scene| {
        let removed = list.remove_equal(&args[3], end, max, scene);
        (removed > 0).then_some(removed)
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::List, "lrem");
    }
    let removed = edited.map_or(0, |edited| edited.result);
    ctx.reply.integer(removed as i64);
    Ok(())
}

/// `LTRIM key start stop`
pub fn ltrim(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let (start, stop) = (integer(&args[2])?, integer(&args[3])?);
    let mut is_found = false;
    let edited = ctx.view.edit_list(&key, false, |list, scene| {
        is_found = true;
        let (start, count) = range(start, stop, list.len());
        (count < list.len()).then(|| list.keep(start, count, scene))
    })?;
    if let Some(edited) = edited {
        ctx.edited(&key, &edited, Class::List, "ltrim");
        ctx.view
            .defer_drop(&key, AnyCollection::List(edited.result));
    } else if is_found {
        // As in Redis, also if nothing was removed.
        ctx.view.notify(Class::List, "ltrim", &key);
    }
    ctx.reply.ok();
    Ok(())
}
