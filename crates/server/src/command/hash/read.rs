//! Commands that read hashes: HGET, HMGET, HGETALL, HKEYS, HVALS, HLEN, HEXISTS, HSTRLEN.

use crate::context::Ctx;
use engine::refusal::Answer;
use wire::Args;

/// `HGET key field`
pub fn hget(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let reply = &mut ctx.reply;
    let found = ctx
        .view
        .read_hash(&key, |hash, scene| match hash.get(&args[2], scene) {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        })?;
    if found.is_none() {
        ctx.reply.null();
        ctx.missed(&key);
    }
    Ok(())
}

/// `HMGET key field [field …]`
pub fn hmget(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let fields = args.from(2);
    ctx.reply.array(fields.len());
    let reply = &mut ctx.reply;
    let found = ctx.view.read_hash(&key, |hash, scene| {
        for field in fields.iter() {
            match hash.get(field, scene) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            }
        }
    })?;
    if found.is_none() {
        for _ in fields.iter() {
            ctx.reply.null();
        }
        ctx.missed(&key);
    }
    Ok(())
}

/// `HGETALL key`: replies with a map in RESP3.
pub fn hgetall(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let reply = &mut ctx.reply;
    let found = ctx.view.read_hash(&key, |hash, scene| {
        reply.map(hash.len(scene));
        hash.each(scene, |field, value, _| {
            reply.bulk(field);
            reply.bulk(value);
        });
    })?;
    if found.is_none() {
        ctx.reply.map(0);
        ctx.missed(&key);
    }
    Ok(())
}

/// `HKEYS key`
pub fn hkeys(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    list(ctx, args, |field, _| field)
}

/// `HVALS key`
pub fn hvals(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    list(ctx, args, |_, value| value)
}

fn list(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    pick: for<'a> fn(&'a [u8], &'a [u8]) -> &'a [u8],
) -> Answer {
    let key = ctx.key(&args[1]);
    let reply = &mut ctx.reply;
    let found = ctx.view.read_hash(&key, |hash, scene| {
        reply.array(hash.len(scene));
        hash.each(scene, |field, value, _| reply.bulk(pick(field, value)));
    })?;
    if found.is_none() {
        ctx.reply.array(0);
        ctx.missed(&key);
    }
    Ok(())
}

/// `HLEN key`
pub fn hlen(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let found = ctx.view.read_hash(&key, |hash, scene| hash.len(scene))?;
    ctx.reply.integer(found.unwrap_or(0) as i64);
    if found.is_none() {
        ctx.missed(&key);
    }
    Ok(())
}

/// `HEXISTS key field`
pub fn hexists(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let read = ctx
        .view
        .read_hash(&key, |hash, scene| hash.get(&args[2], scene).is_some());
    let found = read?;
    ctx.reply.integer(i64::from(found.unwrap_or(false)));
    if found.is_none() {
        ctx.missed(&key);
    }
    Ok(())
}

/// `HSTRLEN key field`
pub fn hstrlen(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let found = ctx.view.read_hash(&key, |hash, scene| {
        hash.get(&args[2], scene).map_or(0, <[u8]>::len)
    })?;
    ctx.reply.integer(found.unwrap_or(0) as i64);
    if found.is_none() {
        ctx.missed(&key);
    }
    Ok(())
}
