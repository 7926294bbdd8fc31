//! Members with deadlines: SADDEX.

use crate::command::element_ttl::Timed;
use crate::command::element_ttl::family::{
    Outcome, counted_names, instant_of, publish_expiration, stored_deadline,
};
use crate::context::Ctx;
use engine::lifetime::{Base, Lifetime, Unit, is_past};
use engine::refusal::{Answer, Refusal};
use store::{Class, Instants, Set, Tick};
use wire::Args;
use wire::number::parse_i64;

/// Arguments of SADDEX.
struct Request<'a> {
    members: Args<'a>,
    /// Deadline of the members; `None` removes it.
    deadline: Option<Tick>,
    /// Whether the deadline has passed, so that the members expire immediately.
    is_past: bool,
    /// Whether existing members keep their deadlines.
    keeps: bool,
    /// MNX (false): none of the members may exist; MXX (true): all must exist.
    condition: Option<bool>,
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, instants: Instants) -> Result<Request<'a>, Refusal> {
        let is_number = |at| args.get(at).and_then(parse_i64).is_some();
        let is_keyword = |at| {
            [
                "mnx", "mxx", "ex", "px", "exat", "pxat", "keepttl", "members",
            ]
            .iter()
            .any(|word| args.is(at, word))
        };
        if is_keyword(2) && !(args.is(2, "keepttl") && (is_number(3) || !is_keyword(3))) {
            Request::parse_words(args, instants)
        } else {
            Request::parse_seconds(args, instants)
        }
    }

    /// Parses `[KEEPTTL] seconds member [member …]`, as in Dragonfly.
    fn parse_seconds(args: Args<'a>, instants: Instants) -> Result<Request<'a>, Refusal> {
        let keeps = args.is(2, "keepttl");
        let at = if keeps { 3 } else { 2 };
        let members = args.from(at + 1);
        let Some(seconds) = args.get(at).filter(|_| !members.is_empty()) else {
            return Err(Refusal::Arity("saddex"));
        };
        if parse_i64(seconds).ok_or(Refusal::NotInteger)? <= 0 {
            return Err(Refusal::ExpireTime("saddex"));
        }
        let when = instant_of(seconds, Unit::Seconds, Base::Now, instants.now, "saddex")?;
        Ok(Request {
            members,
            deadline: Some(stored_deadline(when, instants.horizon)),
            is_past: false,
            keeps,
            condition: None,
        })
    }

    /// Parses `[MNX | MXX] [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds |
    /// KEEPTTL] MEMBERS n member …` in any order, as in Valkey.
    fn parse_words(args: Args<'a>, instants: Instants) -> Result<Request<'a>, Refusal> {
        let words = Set::WORDS;
        let (mut lifetime, mut condition, mut members) = (Lifetime::default(), None, None);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let taken = lifetime.take(word, args.get(at + 1))?;
            if taken > 0 {
                at += taken;
            } else if members.is_none() && args.is(at, words.counted) {
                let found = counted_names(args.from(at), words.set_none, words.uneven)?;
                at += 2 + found.len();
                members = Some(found);
            } else if condition.is_none() && (args.is(at, "mnx") || args.is(at, "mxx")) {
                condition = Some(args.is(at, "mxx"));
                at += 1;
            } else if members.is_some() && condition.is_none() {
                return Err(Refusal::Message(words.uneven));
            } else {
                return Err(Refusal::Syntax);
            }
        }
        let when = match lifetime {
            Lifetime::Persist => return Err(Refusal::Syntax),
            Lifetime::Until(unit, base, text) => {
                Some(instant_of(text, unit, base, instants.now, "saddex")?)
            }
            Lifetime::Unspecified | Lifetime::Keep => None,
        };
        Ok(Request {
            members: members.ok_or(Refusal::Message(words.missing))?,
            deadline: when.map(|when| stored_deadline(when, instants.horizon)),
            is_past: when.is_some_and(|when| is_past(when, instants.horizon)),
            keeps: lifetime == Lifetime::Keep,
            condition,
        })
    }
}

/// `SADDEX key [KEEPTTL] seconds member [member …]`, or `SADDEX key [MNX | MXX] [EX seconds | PX
/// milliseconds | EXAT seconds | PXAT milliseconds | KEEPTTL] MEMBERS n member …`: replies with the
/// number of new members. Existing members get the deadline too, unless KEEPTTL is given; without a
/// deadline they lose theirs.
pub fn saddex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let request = Request::parse(args, ctx.view.instants())?;
    let key = ctx.key(&args[1]);
    let (mut is_set, mut is_persisted) = (false, false);
    let edited = ctx.view.edit_set(&key, true, |set, scene| {
        let mut members = request.members.iter();
        let holds = |wanted| members.all(|member| set.contains(member, scene) == wanted);
        if !request.condition.is_none_or(holds) {
            return None;
        }
        let mut added = 0;
        for member in request.members.iter() {
            let is_new = set.add(member, scene);
            added += i64::from(is_new);
            let old = set.deadline(member, scene).flatten();
            let may_change = is_new || !request.keeps;
            if may_change && (request.deadline.is_some() || old.is_some()) {
                set.set_deadline(member, request.deadline, scene);
                is_set |= request.deadline.is_some();
                is_persisted |= request.deadline.is_none();
            }
        }
        (added > 0 || is_set || is_persisted).then_some(added)
    })?;
    if let Some(edited) = &edited {
        if edited.result > 0 {
            ctx.edited(&key, edited, Class::Set, "sadd");
        }
        if is_persisted {
            ctx.view.notify(Set::CLASS, Set::WORDS.persist, &key);
        }
        let outcome = Outcome {
            is_set,
            is_past: request.is_past,
        };
        publish_expiration::<Set>(ctx, &key, outcome);
    }
    ctx.reply.integer(edited.map_or(0, |edited| edited.result));
    Ok(())
}
