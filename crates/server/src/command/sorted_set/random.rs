//! Random members: ZRANDMEMBER.

use super::access::read;
use super::reply::Listing;
use crate::command::scanning;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use settings::random::Random;
use store::{Scene, SortedSet};
use wire::Args;
use wire::number::parse_i64;

/// Maximum number of members in a reply that may repeat members. It bounds the reply's memory.
const REPEATS_MAX: u64 = 1 << 24;

/// `ZRANDMEMBER key [count [WITHSCORES]]`: a positive count selects distinct members, a negative
/// one allows repetitions.
pub fn zrandmember(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let Some(text) = args.get(2) else {
        return one(ctx, args);
    };
    let count = parse_i64(text).ok_or(Refusal::NotInteger)?;
    if count == i64::MIN {
        return Err(Refusal::Message(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let with_scores = args.is(3, "withscores");
    if args.len() > 4 || (args.len() == 4 && !with_scores) {
        return Err(Refusal::Syntax);
    }
    if count < 0 && count.unsigned_abs() > REPEATS_MAX {
        return Err(Refusal::Message("ERR value is out of range"));
    }
    let key = ctx.key(&args[1]);
    let Ctx { view, reply, .. } = ctx;
    let found = view.read_sorted_set(&key, |set, scene| {
        let len = set.len(scene);
        let mut generator = Random::new();
        let Ok(distinct) = usize::try_from(count) else {
            let count = if len == 0 { 0 } else { count.unsigned_abs() };
            let mut listing = Listing::new(reply, count as usize, with_scores);
            return scanning::in_steps(count, |step| {
                for _ in 0..step {
                    listing.write_rank(set, scene, generator.below(len));
                }
                !listing.is_full()
            });
        };
        let ranks = if distinct < len {
            generator.distinct(distinct, len)
        } else {
            (0..len).collect()
        };
        let mut listing = Listing::new(reply, ranks.len(), with_scores);
        for rank in ranks {
            listing.write_rank(set, scene, rank);
        }
    })?;
    if found.is_none() {
        ctx.missed(&key);
        ctx.reply.array(0);
    }
    Ok(())
}

fn one(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let member = read(ctx, &key, |set: &SortedSet, scene: &Scene<'_>| {
        let len = set.len(scene);
        let mut found = None;
        if len > 0 {
            let rank = Random::new().below(len);
            set.each(rank..rank + 1, false, scene, |member, _| {
                found = Some(member.to_vec());
            });
        }
        found
    })?;
    match member.flatten() {
        Some(member) => ctx.reply.bulk(&member),
        None => ctx.reply.null(),
    }
    Ok(())
}
