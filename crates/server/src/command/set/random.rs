//! Members by chance: SPOP, SRANDMEMBER.

use super::member::read;
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use crate::dice::Dice;
use store::{Class, Key};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// How many members one reply may repeat: it must not outgrow the memory.
const REPEATS_MAX: u64 = 1 << 24;

/// `SPOP key [count]`
pub fn spop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len() > 3 {
        return Err(Refusal::Syntax);
    }
    let wanted = match args.get(2) {
        None => None,
        Some(text) => Some(
            parse_i64(text)
                .and_then(|count| usize::try_from(count).ok())
                .ok_or(Refusal::Says("ERR value is out of range, must be positive"))?,
        ),
    };
    let key = ctx.key(&args[1]);
    if let Some(count) = wanted
        && take_all(ctx, &key, count)?
    {
        return Ok(());
    }
    let mut dice = Dice::new();
    let edited = ctx.view.edit_set(&key, false, |set, scene| {
        let mut members = Vec::new();
        let count = wanted.unwrap_or(1);
        set.sample(count, scene, &mut || dice.roll(), &mut |member| {
            members.push(member.to_vec());
        });
        for member in &members {
            set.remove(member, scene);
        }
        (!members.is_empty()).then_some(members)
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Set, "spop");
    }
    let members = edited.map(|edited| edited.result).unwrap_or_default();
    match (wanted, members.first()) {
        (None, Some(member)) => ctx.reply.bulk(member),
        (None, None) => ctx.reply.null(),
        (Some(_), _) => {
            ctx.reply.set(members.len());
            members.iter().for_each(|member| ctx.reply.bulk(member));
        }
    }
    Ok(())
}

/// Where no more than so many members are left, lists all of them and deletes the key as a whole: what a
/// large set held is freed in steps. Whether that was so.
fn take_all(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, count: usize) -> Result<bool, Refusal> {
    let reply = &mut ctx.reply;
    let read = ctx.view.read_set(key, |set, scene| {
        let len = set.len(scene);
        if len == 0 || len > count {
            return false;
        }
        reply.set(len);
        set.each(scene, |member| reply.bulk(member));
        true
    })?;
    let takes_all = read.unwrap_or(false);
    if takes_all {
        ctx.view.delete(key);
        ctx.view.notify(Class::Set, "spop", key);
        ctx.view.notify(Class::Generic, "del", key);
    }
    Ok(takes_all)
}

/// `SRANDMEMBER key [count]`: a positive count asks for different members, a negative one allows the same
/// several times.
pub fn srandmember(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len() > 3 {
        return Err(Refusal::Syntax);
    }
    let count = match args.get(2) {
        None => 1,
        Some(text) => parse_i64(text).ok_or(Refusal::NotInteger)?,
    };
    if count == i64::MIN {
        return Err(Refusal::Says(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    if count < 0 && count.unsigned_abs() > REPEATS_MAX {
        return Err(Refusal::Says("ERR value is out of range"));
    }
    let (mut found, mut told) = (Vec::new(), 0);
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let mut dice = Dice::new();
    read(ctx, &args[1], |set, scene| {
        let each = &mut |member: &[u8]| {
            list.bulk(member);
            told += 1;
        };
        let random = &mut || dice.roll();
        match usize::try_from(count) {
            Ok(count) => set.sample(count, scene, random, each),
            Err(_) => set.sample_with_repeats(count.unsigned_abs() as usize, scene, random, each),
        }
    })?;
    match (args.len(), told) {
        (2, 0) => ctx.reply.null(),
        (2, _) => ctx.reply.raw(&found),
        _ => {
            ctx.reply.array(told);
            ctx.reply.raw(&found);
        }
    }
    Ok(())
}
