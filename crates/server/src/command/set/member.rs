//! Commands on single members: SADD, SREM, SMOVE, SISMEMBER, SMISMEMBER, SCARD.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{Class, Kind, Scene, Set};
use wire::Args;

/// Calls `read` with a set. Publishes a miss and returns `None` if there is none.
pub(super) fn read<R>(
    ctx: &mut Ctx<'_, '_>,
    name: &[u8],
    read: impl FnOnce(&Set, &Scene<'_>) -> R,
) -> Result<Option<R>, Refusal> {
    let key = ctx.key(name);
    let found = ctx.view.read_set(&key, read)?;
    if found.is_none() {
        ctx.missed(&key);
    }
    Ok(found)
}

/// `SADD key member [member …]`: an existing member keeps its deadline.
pub fn sadd(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let members = args.from(2);
    let edited = ctx.view.edit_set(&key, true, |set, scene| {
        let added = members
            .iter()
            .filter(|member| set.add(member, scene))
            .count();
        (added > 0).then_some(added)
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Set, "sadd");
    }
    ctx.reply
        .integer(edited.map_or(0, |edited| edited.result as i64));
    Ok(())
}

/// `SREM key member [member …]`
pub fn srem(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let members = args.from(2);
    let edited = ctx.view.edit_set(&key, false, |set, scene| {
        let removed = members
            .iter()
            .filter(|member| set.remove(member, scene))
            .count();
        (removed > 0).then_some(removed)
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Set, "srem");
    }
    ctx.reply
        .integer(edited.map_or(0, |edited| edited.result as i64));
    Ok(())
}

/// `SMOVE source destination member`: replies whether the source had the member. The deadline is
/// not moved.
pub fn smove(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (from, to) = (ctx.key(&args[1]), ctx.key(&args[2]));
    let member = &args[3];
    let is_set = |kind: Option<Kind>| kind.is_none_or(|kind| kind == Kind::Set);
    let source = ctx.view.kind(&from);
    // The lookup also expires a destination whose deadline has passed, with its event, before the
    // move.
    let destination = ctx.view.kind(&to);
    if source.is_none() {
        ctx.reply.integer(0);
        return Ok(());
    }
    if !is_set(source) || !is_set(destination) {
        return Err(Refusal::WrongType);
    }
    if from.bytes == to.bytes {
        let found = ctx
            .view
            .read_set(&from, |set, scene| set.contains(member, scene))?;
        ctx.reply.integer(i64::from(found.unwrap_or(false)));
        return Ok(());
    }
    let removed = ctx.view.edit_set(&from, false, |set, scene| {
        set.remove(member, scene).then_some(())
    })?;
    if let Some(edited) = &removed {
        ctx.edited(&from, edited, Class::Set, "srem");
        let added = ctx
            .view
            .edit_set(&to, true, |set, scene| set.add(member, scene).then_some(()))?;
        if let Some(edited) = &added {
            ctx.edited(&to, edited, Class::Set, "sadd");
        }
    }
    ctx.reply.integer(i64::from(removed.is_some()));
    Ok(())
}

/// `SISMEMBER key member`
pub fn sismember(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let found = read(ctx, &args[1], |set, scene| set.contains(&args[2], scene))?;
    ctx.reply.integer(i64::from(found.unwrap_or(false)));
    Ok(())
}

/// `SMISMEMBER key member [member …]`
pub fn smismember(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let members = args.from(2);
    ctx.reply.array(members.len());
    let reply = &mut ctx.reply;
    let found = ctx.view.read_set(&key, |set, scene| {
        for member in members.iter() {
            reply.integer(i64::from(set.contains(member, scene)));
        }
    })?;
    if found.is_none() {
        for _ in members.iter() {
            ctx.reply.integer(0);
        }
        ctx.missed(&key);
    }
    Ok(())
}

/// `SCARD key`
pub fn scard(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let found = read(ctx, &args[1], |set, scene| set.len(scene))?;
    ctx.reply.integer(found.unwrap_or(0) as i64);
    Ok(())
}
