//! Commands that change hashes: HSET, HMSET, HSETNX, HDEL.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::Class;
use wire::Args;

/// `HSET key field value [field value …]`
pub fn hset(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let added = set_pairs(ctx, args, "hset")?;
    ctx.reply.integer(added);
    Ok(())
}

/// `HMSET key field value [field value …]`
pub fn hmset(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    set_pairs(ctx, args, "hmset")?;
    ctx.reply.ok();
    Ok(())
}

fn set_pairs(ctx: &mut Ctx<'_, '_>, args: Args<'_>, command: &'static str) -> Result<i64, Refusal> {
    if !args.len().is_multiple_of(2) {
        return Err(Refusal::Arity(command));
    }
    let key = ctx.key(&args[1]);
    let edited = ctx.view.edit_hash(&key, true, |hash, scene| {
        let mut added = 0;
        for at in (2..args.len()).step_by(2) {
            added += i64::from(hash.set(&args[at], &args[at + 1], scene));
        }
        Some(added)
    })?;
    let edited = edited.expect("it sets at least one field");
    ctx.edited(&key, &edited, Class::Hash, "hset");
    Ok(edited.result)
}

/// `HSETNX key field value`
pub fn hsetnx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let edited = ctx.view.edit_hash(&key, true, |hash, scene| {
        let is_free = hash.get(&args[2], scene).is_none();
        is_free.then(|| hash.set(&args[2], &args[3], scene))
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Hash, "hset");
    }
    ctx.reply.integer(i64::from(edited.is_some()));
    Ok(())
}

/// `HDEL key field [field …]`
pub fn hdel(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let edited = ctx.view.edit_hash(&key, false, |hash, scene| {
        let fields = args.from(2);
        let removed = fields
            .iter()
            .filter(|field| hash.remove(field, scene))
            .count();
        (removed > 0).then_some(removed)
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Hash, "hdel");
    }
    ctx.reply
        .integer(edited.map_or(0, |edited| edited.result as i64));
    Ok(())
}
