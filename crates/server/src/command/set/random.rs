//! Commands that return random members: SPOP, SRANDMEMBER.

use super::member::read;
use crate::command::scanning;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use settings::random::Random;
use store::{Class, Key};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Maximum number of members in a reply that may repeat members. It bounds the reply's memory.
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
                .ok_or(Refusal::Message(
                    "ERR value is out of range, must be positive",
                ))?,
        ),
    };
    let key = ctx.key(&args[1]);
    if let Some(count) = wanted
        && take_all(ctx, &key, count)?
    {
        return Ok(());
    }
    let mut generator = Random::new();
    let edited = ctx.view.edit_set(&key, false, |set, scene| {
        let mut members = Vec::new();
        let count = wanted.unwrap_or(1);
        set.sample(count, scene, &mut || generator.next_u64(), &mut |member| {
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

/// If the set has at most `count` members, replies with all of them and deletes the key, so that
/// the memory of a large set is freed in steps. Returns whether it did.
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

/// `SRANDMEMBER key [count]`: a positive count selects distinct members, a negative one allows
/// repetitions.
pub fn srandmember(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.len() > 3 {
        return Err(Refusal::Syntax);
    }
    let count = match args.get(2) {
        None => 1,
        Some(text) => parse_i64(text).ok_or(Refusal::NotInteger)?,
    };
    if count == i64::MIN {
        return Err(Refusal::Message(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    if count < 0 && count.unsigned_abs() > REPEATS_MAX {
        return Err(Refusal::Message("ERR value is out of range"));
    }
    let (mut found, mut count_found) = (ctx.reply.part(), 0);
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let mut generator = Random::new();
    read(ctx, &args[1], |set, scene| {
        let mut each = |list: &mut Reply<'_>, member: &[u8]| {
            list.bulk(member);
            count_found += 1;
        };
        let random = &mut || generator.next_u64();
        let Ok(distinct) = usize::try_from(count) else {
            return scanning::in_steps(count.unsigned_abs(), |step| {
                let each = &mut |member: &[u8]| each(&mut list, member);
                set.sample_with_repeats(step, scene, random, each);
                !list.is_full()
            });
        };
        set.sample(distinct, scene, random, &mut |member| {
            each(&mut list, member)
        });
    })?;
    match (args.len(), count_found) {
        (2, 0) => ctx.reply.null(),
        (2, _) => ctx.reply.append(&found),
        _ => {
            ctx.reply.array(count_found);
            ctx.reply.append(&found);
        }
    }
    Ok(())
}
