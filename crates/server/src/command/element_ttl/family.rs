//! The nine commands of each type: xEXPIRE, xPEXPIRE, xEXPIREAT, xPEXPIREAT, xTTL, xPTTL,
//! xEXPIRETIME, xPEXPIRETIME, xPERSIST. Each accepts several elements and replies with a number for
//! each.

use super::Timed;
use crate::context::Ctx;
use engine::lifetime::{Base, Conditions, Unit, When, deadline, instant, is_past};
use engine::refusal::{Answer, Refusal};
use store::{Key, Scene, Tick};
use wire::Args;
use wire::number::parse_i64;

/// There is no such element.
pub const ABSENT: i64 = -2;
/// The element has no deadline.
const NO_DEADLINE: i64 = -1;
/// The condition does not hold.
const CONDITION_UNMET: i64 = 0;
/// The deadline was set or removed.
const DONE: i64 = 1;
/// The deadline was in the past, and the element is deleted.
const DELETED: i64 = 2;

/// Parses an expiration time, which must not be negative.
pub fn instant_of(
    text: &[u8],
    unit: Unit,
    base: Base,
    now: Tick,
    command: &'static str,
) -> Result<When, Refusal> {
    if parse_i64(text).ok_or(Refusal::NotInteger)? < 0 {
        return Err(Refusal::Message("ERR invalid expire time, must be >= 0"));
    }
    Ok(instant(text, unit, base, now, command)?.min(Tick::MAX.0 as i64))
}

/// Parses `WORD number name …`, which must use up all arguments, and returns the names.
pub fn names<'a>(
    args: Args<'a>,
    word: &str,
    missing: &'static str,
    none: &'static str,
    uneven: &'static str,
) -> Result<Args<'a>, Refusal> {
    if !args.is(0, word) {
        return Err(Refusal::Message(missing));
    }
    let names = counted_names(args, none, uneven)?;
    if names.len() != args.len() - 2 {
        return Err(Refusal::Message(uneven));
    }
    Ok(names)
}

/// Parses `WORD number name …` at the beginning of the arguments and returns the names. The caller
/// must have compared the word.
pub fn counted_names<'a>(
    args: Args<'a>,
    none: &'static str,
    uneven: &'static str,
) -> Result<Args<'a>, Refusal> {
    let count = args.get(1).and_then(parse_i64).filter(|&count| count > 0);
    let count = count.ok_or(Refusal::Message(none))?;
    let names = args.from(2);
    match usize::try_from(count) {
        Ok(count) if count <= names.len() => Ok(names.first(count)),
        _ => Err(Refusal::Message(uneven)),
    }
}

/// Replies with a number for each name.
fn reply(ctx: &mut Ctx<'_, '_>, codes: &[i64]) {
    ctx.reply.array(codes.len());
    codes.iter().for_each(|&code| ctx.reply.integer(code));
}

/// Returns the deadline to store. A past one becomes the previous millisecond, so that the element
/// has expired and is removed like any other expired element.
pub fn stored_deadline(when: When, horizon: Tick) -> Tick {
    if is_past(when, horizon) {
        Tick(horizon.0.saturating_sub(1))
    } else {
        deadline(when)
    }
}

/// Effects of a change of deadlines.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    /// Whether an element has a new deadline.
    pub is_set: bool,
    /// Whether an element expired because of its new deadline.
    pub is_past: bool,
}

/// Publishes the event for new deadlines, then removes the elements that have expired.
pub fn publish_expiration<C: Timed>(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, outcome: Outcome) {
    if outcome.is_set {
        ctx.view.notify(C::CLASS, C::WORDS.expire, key);
    }
    if outcome.is_past {
        // Looking up the key removes expired elements.
        ctx.view.kind(key);
    }
}

/// `xEXPIRE key number [NX | XX | GT | LT] MEMBERS n member …`: as in Valkey, several compatible
/// conditions may be combined. The conditions may stand before and after the members.
pub fn expire<C: Timed>(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    command: &'static str,
) -> Answer {
    let (key, now) = (ctx.key(&args[1]), ctx.view.now());
    let request = ExpireRequest::parse::<C>(args, unit, base, now, command);
    let (mut outcome, mut codes) = (Outcome::default(), Vec::new());
    C::edit(ctx.view.view, &key, |elements, scene| {
        let request = request.as_ref().ok()?;
        let is_late = is_past(request.when, scene.horizon);
        codes.reserve(request.names.len());
        for name in request.names.iter() {
            let mut code = ABSENT;
            elements.update_deadline(name, scene, |old| {
                code = match request.conditions.hold(old, request.when) {
                    false => CONDITION_UNMET,
                    true if is_late => DELETED,
                    true => DONE,
                };
                let deadline = stored_deadline(request.when, scene.horizon);
                (code != CONDITION_UNMET).then_some(Some(deadline))
            });
            outcome.is_set |= code == DONE;
            outcome.is_past |= code == DELETED;
            codes.push(code);
        }
        (outcome.is_set || outcome.is_past).then_some(())
    })?;
    codes.resize(request?.names.len(), ABSENT);
    publish_expiration::<C>(ctx, &key, outcome);
    reply(ctx, &codes);
    Ok(())
}

/// Parsed arguments of xEXPIRE.
struct ExpireRequest<'a> {
    when: When,
    conditions: Conditions,
    names: Args<'a>,
}

impl<'a> ExpireRequest<'a> {
    fn parse<C: Timed>(
        args: Args<'a>,
        unit: Unit,
        base: Base,
        now: Tick,
        command: &'static str,
    ) -> Result<ExpireRequest<'a>, Refusal> {
        let when = instant_of(&args[2], unit, base, now, command)?.min(C::DEADLINE_MAX);
        let (mut conditions, mut names, mut at) = (Conditions::default(), None, 3);
        let words = C::WORDS;
        while let Some(word) = args.get(at) {
            if names.is_none() && args.is(at, words.counted) {
                let found = counted_names(args.from(at), words.set_none, words.uneven)?;
                at += 2 + found.len();
                names = Some(found);
            } else if conditions.take(word) {
                at += 1;
            } else if names.is_some() {
                return Err(Refusal::Message(words.uneven));
            } else {
                return Err(Refusal::Message(words.missing));
            }
        }
        conditions.check()?;
        let names = names.ok_or(Refusal::Message(words.missing))?;
        Ok(ExpireRequest {
            when,
            conditions,
            names,
        })
    }
}

/// `xTTL key MEMBERS n member …`: replies with the remaining TTL or the expiration time; seconds
/// are rounded up.
pub fn ttl<C: Timed>(ctx: &mut Ctx<'_, '_>, args: Args<'_>, unit: Unit, base: Base) -> Answer {
    read_codes::<C>(ctx, args, |elements, name, scene| {
        match elements.deadline(name, scene) {
            None => ABSENT,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => {
                let milliseconds = match base {
                    Base::Now => deadline.0.saturating_sub(scene.now.0),
                    Base::Epoch => deadline.0,
                };
                match unit {
                    Unit::Seconds => milliseconds.div_ceil(1000) as i64,
                    Unit::Milliseconds => milliseconds as i64,
                }
            }
        }
    })
}

fn read_codes<C: Timed>(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    code: impl Fn(&C, &[u8], &Scene<'_>) -> i64,
) -> Answer {
    let key = ctx.key(&args[1]);
    let words = C::WORDS;
    let names = names(
        args.from(2),
        words.counted,
        words.missing,
        words.none,
        words.uneven,
    );
    let codes = C::read(
        ctx.view.view,
        &key,
        |elements, scene| -> Result<Vec<i64>, Refusal> {
            let names = names?;
            Ok(names
                .iter()
                .map(|name| code(elements, name, scene))
                .collect())
        },
    )?;
    match codes {
        Some(codes) => reply(ctx, &codes?),
        None => {
            ctx.missed(&key);
            reply(ctx, &vec![ABSENT; names?.len()]);
        }
    }
    Ok(())
}

/// `xPERSIST key MEMBERS n member …`
pub fn persist<C: Timed>(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let words = C::WORDS;
    let names = names(
        args.from(2),
        words.counted,
        words.missing,
        words.none,
        words.uneven,
    );
    let mut codes = Vec::new();
    let edited = C::edit(ctx.view.view, &key, |elements, scene| {
        let mut has_changed = false;
        for name in names.ok()?.iter() {
            let mut code = ABSENT;
            elements.update_deadline(name, scene, |old| {
                code = if old.is_some() { DONE } else { NO_DEADLINE };
                old.is_some().then_some(None)
            });
            has_changed |= code == DONE;
            codes.push(code);
        }
        has_changed.then_some(())
    })?;
    codes.resize(names?.len(), ABSENT);
    if edited.is_some() {
        ctx.view.notify(C::CLASS, words.persist, &key);
    }
    reply(ctx, &codes);
    Ok(())
}
