//! Commands on several sets: SINTER, SUNION, SDIFF, SINTERSTORE, SUNIONSTORE, SDIFFSTORE,
//! SINTERCARD.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{AnyCollection, Class, Key, Kind, Scene, Set};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// A set operation that passes each member of its result to a function.
type Combine = fn(&[Option<&Set>], &Scene<'_>, &mut dyn FnMut(&[u8]));

fn intersection(sets: &[Option<&Set>], scene: &Scene<'_>, each: &mut dyn FnMut(&[u8])) {
    Set::intersect(sets, scene, |member| {
        each(member);
        true
    });
}

fn union(sets: &[Option<&Set>], scene: &Scene<'_>, each: &mut dyn FnMut(&[u8])) {
    match sets {
        [Some(set)] => set.each(scene, each),
        _ => Set::union(sets, scene).each(scene, each),
    }
}

fn difference(sets: &[Option<&Set>], scene: &Scene<'_>, each: &mut dyn FnMut(&[u8])) {
    Set::subtract(sets, scene, each);
}

/// Reads the sets under several keys together and publishes a miss for each missing one.
fn read<'k, R>(
    ctx: &mut Ctx<'_, '_>,
    names: impl Iterator<Item = &'k [u8]>,
    read: impl FnOnce(&[Option<&Set>], &Scene<'_>) -> R,
) -> Result<R, Refusal> {
    let keys: Vec<Key<'_>> = names.map(|name| ctx.key(name)).collect();
    for key in &keys {
        if !ctx.view.touch(key) {
            ctx.missed(key);
        } else if ctx.view.kind(key) != Some(Kind::Set) {
            return Err(Refusal::WrongType);
        }
    }
    Ok(ctx.view.peek_sets(&keys, read)?)
}

fn reply(ctx: &mut Ctx<'_, '_>, args: Args<'_>, combine: Combine) -> Answer {
    let (mut found, mut count) = (ctx.reply.part(), 0);
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    read(ctx, args.from(1).iter(), |sets, scene| {
        combine(sets, scene, &mut |member| {
            list.bulk(member);
            count += 1;
        });
    })?;
    ctx.reply.set(count);
    ctx.reply.append(&found);
    Ok(())
}

fn store(ctx: &mut Ctx<'_, '_>, args: Args<'_>, combine: Combine, event: &'static str) -> Answer {
    let (set, count) = read(ctx, args.from(2).iter(), |sets, scene| {
        let set = Set::collect(scene, |add| combine(sets, scene, add));
        let count = set.len(scene);
        (set, count)
    })?;
    let key = ctx.key(&args[1]);
    if count > 0 {
        let old = ctx.replaced_kind(&key);
        ctx.view.store(&key, AnyCollection::Set(set), None);
        ctx.view.notify_stored(&key, old);
        ctx.view.notify(Class::Set, event, &key);
    } else if ctx.view.delete(&key) {
        ctx.view.notify(Class::Generic, "del", &key);
    }
    ctx.reply.integer(count as i64);
    Ok(())
}

/// `SINTER key [key …]`
pub fn sinter(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    reply(ctx, args, intersection)
}

/// `SUNION key [key …]`
pub fn sunion(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    reply(ctx, args, union)
}

/// `SDIFF key [key …]`
pub fn sdiff(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    reply(ctx, args, difference)
}

/// `SINTERSTORE destination key [key …]`
pub fn sinterstore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store(ctx, args, intersection, "sinterstore")
}

/// `SUNIONSTORE destination key [key …]`
pub fn sunionstore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store(ctx, args, union, "sunionstore")
}

/// `SDIFFSTORE destination key [key …]`
pub fn sdiffstore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store(ctx, args, difference, "sdiffstore")
}

/// Parses `numkeys key [key …] [LIMIT limit]`, and APPROX among the options if `has_approx` is set.
/// Returns the number of keys and the limit; 0 means no limit.
fn parse_card(args: Args<'_>, has_approx: bool) -> Result<(usize, u64), Refusal> {
    let count = parse_i64(&args[1])
        .and_then(|count| usize::try_from(count).ok())
        .filter(|&count| count > 0)
        .ok_or(Refusal::Message("ERR numkeys should be greater than 0"))?;
    if count > args.len() - 2 {
        let text = "ERR Number of keys can't be greater than number of args";
        return Err(Refusal::Message(text));
    }
    let mut limit = 0;
    let mut index = 2 + count;
    while index < args.len() {
        if has_approx && args.is(index, "approx") {
            index += 1;
            continue;
        }
        if !args.is(index, "limit") || index + 1 == args.len() {
            return Err(Refusal::Syntax);
        }
        limit = parse_i64(&args[index + 1])
            .and_then(|limit| u64::try_from(limit).ok())
            .ok_or(Refusal::Message("ERR LIMIT can't be negative"))?;
        index += 2;
    }
    Ok((count, limit))
}

/// `SINTERCARD numkeys key [key …] [LIMIT limit]`: counting ends at the limit; 0 means no limit.
pub fn sintercard(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (count, limit) = parse_card(args, false)?;
    let mut found = 0;
    read(ctx, args.from(2).iter().take(count), |sets, scene| {
        Set::intersect(sets, scene, |_| {
            found += 1;
            found != limit
        });
    })?;
    ctx.reply.integer(found as i64);
    Ok(())
}

/// `SUNIONCARD numkeys key [key …] [APPROX] [LIMIT limit]`: the number is exact with APPROX, too.
pub fn sunioncard(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    card(ctx, args, true, union)
}

/// `SDIFFCARD numkeys key [key …] [LIMIT limit]`
pub fn sdiffcard(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    card(ctx, args, false, difference)
}

fn card(ctx: &mut Ctx<'_, '_>, args: Args<'_>, has_approx: bool, combine: Combine) -> Answer {
    let (count, limit) = parse_card(args, has_approx)?;
    let mut found = 0;
    read(ctx, args.from(2).iter().take(count), |sets, scene| {
        combine(sets, scene, &mut |_| found += 1);
    })?;
    let limit = if limit == 0 { u64::MAX } else { limit };
    ctx.reply.integer(found.min(limit) as i64);
    Ok(())
}
