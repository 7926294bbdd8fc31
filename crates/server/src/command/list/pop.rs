//! Taking from the ends of lists: LPOP, RPOP, LMPOP, LMOVE, RPOPLPUSH.

use super::arguments::{end, push_event};
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use store::{Class, End, Key, Kind};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// What is told of a pop at an end.
fn pop_event(end: End) -> &'static str {
    match end {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

/// Pops up to so many elements into the reply, behind what `head` writes when it is told how many come.
/// False when there is no list.
pub(super) fn pop_into(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    end: End,
    count: usize,
    head: impl FnOnce(&mut Reply<'_>, usize),
) -> Result<bool, Refusal> {
    let reply = &mut ctx.reply;
    let edited = ctx.view.edit_list(key, false, |list, scene| {
        let count = count.min(list.len());
        head(reply, count);
        for _ in 0..count {
            list.pop(end, scene, |element| reply.bulk(element));
        }
        Some(())
    })?;
    if let Some(edited) = &edited {
        ctx.edited(key, edited, Class::List, pop_event(end));
    }
    Ok(edited.is_some())
}

/// `LPOP key [count]`
pub fn lpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop(ctx, args, End::Left)
}

/// `RPOP key [count]`
pub fn rpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    pop(ctx, args, End::Right)
}

fn pop(ctx: &mut Ctx<'_, '_>, args: Args<'_>, end: End) -> Answer {
    let key = ctx.key(&args[1]);
    if args.len() > 3 {
        return Err(Refusal::Arity(pop_event(end)));
    }
    let Some(count) = args.get(2) else {
        if !pop_into(ctx, &key, end, 1, |_, _| {})? {
            ctx.reply.null();
        }
        return Ok(());
    };
    let count = parse_i64(count)
        .and_then(|count| usize::try_from(count).ok())
        .ok_or(Refusal::Says("ERR value is out of range, must be positive"))?;
    match ctx.view.kind(&key) {
        None => ctx.reply.null_array(),
        Some(Kind::List) if count == 0 => ctx.reply.array(0),
        Some(_) => {
            pop_into(ctx, &key, end, count, |reply, count| reply.array(count))?;
        }
    }
    Ok(())
}

/// Which lists LMPOP and BLMPOP mean, and what they take.
pub(super) struct Demand<'a> {
    keys: Args<'a>,
    key_count: usize,
    end: End,
    count: usize,
}

impl<'a> Demand<'a> {
    /// Reads `numkeys key [key …] LEFT | RIGHT [COUNT count]` from an argument on.
    pub fn read(args: Args<'a>, at: usize) -> Result<Demand<'a>, Refusal> {
        let key_count = parse_i64(&args[at])
            .filter(|count| *count > 0)
            .ok_or(Refusal::Says("ERR numkeys should be greater than 0"))?;
        let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
        let end_at = (at + 1).saturating_add(key_count);
        let end = end(args.get(end_at).ok_or(Refusal::Syntax)?)?;
        let count = match args.get(end_at + 1) {
            None => 1,
            Some(word) if word.eq_ignore_ascii_case(b"COUNT") && args.len() > end_at + 2 => {
                parse_i64(&args[end_at + 2])
                    .filter(|count| *count > 0)
                    .ok_or(Refusal::Says("ERR count should be greater than 0"))?
            }
            Some(_) => return Err(Refusal::Syntax),
        };
        // A number that is none is told before what is too much.
        if args.len() > end_at + 3 {
            return Err(Refusal::Syntax);
        }
        Ok(Demand {
            keys: args.from(at + 1),
            key_count,
            end,
            count: usize::try_from(count).unwrap_or(usize::MAX),
        })
    }

    /// The lists, the first first.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.keys.iter().take(self.key_count)
    }

    /// Takes from the first list that has any; false when none has.
    pub fn meet(&self, ctx: &mut Ctx<'_, '_>) -> Result<bool, Refusal> {
        for name in self.keys() {
            let key = ctx.key(name);
            let is_met = pop_into(ctx, &key, self.end, self.count, |reply, count| {
                reply.array(2);
                reply.bulk(name);
                reply.array(count);
            })?;
            if is_met {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `LMPOP numkeys key [key …] LEFT | RIGHT [COUNT count]`
pub fn lmpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if !Demand::read(args, 1)?.meet(ctx)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub fn lmove(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (from, to) = (end(&args[3])?, end(&args[4])?);
    shift_or_null(ctx, args, from, to)
}

/// `RPOPLPUSH source destination`
pub fn rpoplpush(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    shift_or_null(ctx, args, End::Right, End::Left)
}

fn shift_or_null(ctx: &mut Ctx<'_, '_>, args: Args<'_>, from: End, to: End) -> Answer {
    if !shift(ctx, args, from, to)? {
        ctx.reply.null();
    }
    Ok(())
}

/// Moves an element from an end of the list under the first argument to one of that under the second,
/// and replies with it. False when there is none.
pub(super) fn shift(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    from: End,
    to: End,
) -> Result<bool, Refusal> {
    let (source, destination) = (ctx.key(&args[1]), ctx.key(&args[2]));
    match ctx.view.kind(&source) {
        None => return Ok(false),
        Some(Kind::List) => {}
        Some(_) => return Err(Refusal::WrongType),
    }
    if ctx
        .view
        .kind(&destination)
        .is_some_and(|kind| kind != Kind::List)
    {
        return Err(Refusal::WrongType);
    }
    if source.bytes == destination.bytes {
        turn(ctx, &source, from, to)?;
        return Ok(true);
    }
    // It is pushed first, and told of in that order, as by Redis. Should room for it be made by
    // evicting the source, nothing is lost either.
    let element = ctx.view.read_list(&source, |list, _| {
        let index = match from {
            End::Left => 0,
            End::Right => list.len() - 1,
        };
        list.get(index).map(<[u8]>::to_vec)
    })?;
    let element = element.flatten().expect("no list is empty");
    let pushed = ctx.view.edit_list(&destination, true, |list, scene| {
        list.push(to, &element, scene);
        Some(())
    })?;
    let pushed = pushed.expect("it was changed");
    ctx.edited(&destination, &pushed, Class::List, push_event(to));
    let popped = ctx.view.edit_list(&source, false, |list, scene| {
        list.pop(from, scene, |_| {}).then_some(())
    })?;
    if let Some(popped) = popped {
        ctx.edited(&source, &popped, Class::List, pop_event(from));
    }
    ctx.reply.bulk(&element);
    Ok(true)
}

/// Moves an element of a list from one of its ends to one of its ends.
fn turn(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, from: End, to: End) -> Answer {
    let reply = &mut ctx.reply;
    let edited = ctx.view.edit_list(key, false, |list, scene| {
        let mut element = Vec::new();
        list.pop(from, scene, |popped| element.extend_from_slice(popped));
        list.push(to, &element, scene);
        reply.bulk(&element);
        Some(())
    })?;
    let edited = edited.expect("no list is empty");
    ctx.edited(key, &edited, Class::List, push_event(to));
    ctx.view.notify(Class::List, pop_event(from), key);
    Ok(())
}
