//! Random members: ZRANDMEMBER.

use super::access::read;
use super::reply::Listing;
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use crate::random::Random;
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
        let ranks = choose(count, set.len(scene));
        let mut listing = Listing::new(reply, ranks.len(), with_scores);
        for rank in ranks {
            set.each(rank..rank + 1, false, scene, |member, score| {
                listing.write(member, score);
            });
        }
    })?;
    if found.is_none() {
        ctx.missed(&key);
        ctx.reply.array(0);
    }
    Ok(())
}

/// Chooses ranks for a count as in the arguments of ZRANDMEMBER.
fn choose(count: i64, len: usize) -> Vec<usize> {
    let mut generator = Random::new();
    match usize::try_from(count) {
        Ok(count) if count >= len => (0..len).collect(),
        Ok(count) => generator.distinct(count, len),
        Err(_) if len == 0 => Vec::new(),
        Err(_) => (0..count.unsigned_abs())
            .map(|_| generator.below(len))
            .collect(),
    }
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
