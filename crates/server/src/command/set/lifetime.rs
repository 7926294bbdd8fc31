//! Members with deadlines: SADDEX.

use crate::command::element_ttl::Timed;
use crate::command::lifetime::{Base, Unit, deadline, instant};
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use store::{Class, Set};
use wire::Args;

/// `SADDEX key [KEEPTTL] seconds member [member …]`, as in Dragonfly: replies with the number of
/// new members. Existing members get the deadline too, unless KEEPTTL is given.
pub fn saddex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let keeps = args.is(2, "keepttl");
    let at = if keeps { 3 } else { 2 };
    let members = args.from(at + 1);
    let Some(seconds) = args.get(at).filter(|_| !members.is_empty()) else {
        return Err(Refusal::Arity("saddex"));
    };
    let now = ctx.view.now();
    let when = instant(seconds, Unit::Seconds, Base::Now, now, "saddex")?;
    if when <= now.0 as i64 {
        return Err(Refusal::ExpireTime("saddex"));
    }
    let key = ctx.key(&args[1]);
    let edited = ctx.view.edit_set(&key, true, |set, scene| {
        let (mut added, mut is_set) = (0, false);
        for member in members.iter() {
            let is_new = set.add(member, scene);
            added += i64::from(is_new);
            if is_new || !keeps {
                set.set_deadline(member, Some(deadline(when)), scene);
                is_set = true;
            }
        }
        is_set.then_some(added)
    })?;
    let added = edited.map_or(0, |edited| edited.result);
    if let Some(edited) = &edited {
        if added > 0 {
            ctx.edited(&key, edited, Class::Set, "sadd");
        }
        ctx.view.notify(Set::CLASS, Set::WORDS.expire, &key);
    }
    ctx.reply.integer(added);
    Ok(())
}
