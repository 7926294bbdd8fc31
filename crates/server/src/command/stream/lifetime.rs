//! Commands on the deadlines of entries: XRETENTION, XEXPIRE and related commands.

use super::add::max_age;
use super::arguments::plain_id;
use crate::command::element_ttl::family;
use crate::context::Ctx;
use engine::lifetime::{Base, Unit};
use engine::refusal::{Answer, Refusal};
use store::{Class, Stream};
use wire::Args;

/// Replies of XRETENTION without a key and without a maximum age, like PTTL's.
const NO_KEY: i64 = -2;
const NO_AGE: i64 = -1;

/// `XRETENTION key [milliseconds | PERSIST]`
pub fn xretention(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    if args.len() > 3 {
        return Err(Refusal::Syntax);
    }
    let Some(word) = args.get(2) else {
        let age = ctx
            .view
            .read_stream(&key, |stream, _| stream.facts().max_age_ms)?;
        ctx.reply.integer(match age {
            None => NO_KEY,
            Some(0) => NO_AGE,
            Some(age) => age as i64,
        });
        return Ok(());
    };
    let age = match word.eq_ignore_ascii_case(b"PERSIST") {
        true => 0,
        false => max_age(word)?,
    };
    let mut has_age = false;
    let edited = ctx.view.edit_stream(&key, false, |stream, scene| {
        let before = stream.facts().max_age_ms;
        has_age = age > 0 || before > 0;
        (age != before).then(|| stream.set_max_age(age, scene))
    })?;
    if edited.is_some() {
        ctx.view.notify(Class::Stream, "xretention", &key);
        // Looking up the key removes expired entries.
        ctx.view.kind(&key);
    }
    ctx.reply.integer(i64::from(has_age));
    Ok(())
}

/// Refuses arguments after IDS that are not IDs.
fn check_ids(args: Args<'_>) -> Answer {
    let at = (2..args.len()).find(|&index| args.is(index, "ids"));
    let ids = at.map(|at| args.from(at + 2));
    ids.into_iter()
        .flat_map(|ids| ids.iter())
        .try_for_each(|text| plain_id(text).map(|_| ()))
}

/// `XEXPIRE key number [NX | XX | GT | LT] IDS n id …`
pub fn expire(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    command: &'static str,
) -> Answer {
    check_ids(args)?;
    family::expire::<Stream>(ctx, args, unit, base, command)
}

/// `XTTL key IDS n id …`
pub fn remaining(ctx: &mut Ctx<'_, '_>, args: Args<'_>, unit: Unit, base: Base) -> Answer {
    check_ids(args)?;
    family::ttl::<Stream>(ctx, args, unit, base)
}

/// `XPERSIST key IDS n id …`
pub fn persist(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    check_ids(args)?;
    family::persist::<Stream>(ctx, args)
}
