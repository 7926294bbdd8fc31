//! Commands that take elements from the ends of lists: LPOP, RPOP, LMPOP, LMOVE, RPOPLPUSH.

use super::arguments::{end, push_event};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{Class, End, Key, Kind};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Returns the event of a pop at an end.
pub(super) fn pop_event(end: End) -> &'static str {
    match end {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

/// Pops up to `count` elements into the reply. `head` writes the part before them and receives
/// their number. Returns false if there is no list.
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
        .ok_or(Refusal::Message(
            "ERR value is out of range, must be positive",
        ))?;
    match ctx.view.kind(&key) {
        None => ctx.reply.null_array(),
        Some(Kind::List) if count == 0 => ctx.reply.array(0),
        Some(_) => {
            pop_into(ctx, &key, end, count, |reply, count| reply.array(count))?;
        }
    }
    Ok(())
}

/// Arguments of LMPOP and BLMPOP.
pub(super) struct PopRequest<'a> {
    keys: Args<'a>,
    key_count: usize,
    end: End,
    count: usize,
}

impl<'a> PopRequest<'a> {
    /// Parses `numkeys key [key …] LEFT | RIGHT [COUNT count]` from argument `at` on.
    pub fn parse(args: Args<'a>, at: usize) -> Result<PopRequest<'a>, Refusal> {
        let key_count = parse_i64(&args[at])
            .filter(|count| *count > 0)
            .ok_or(Refusal::Message("ERR numkeys should be greater than 0"))?;
        let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
        let end_at = (at + 1).saturating_add(key_count);
        let end = end(args.get(end_at).ok_or(Refusal::Syntax)?)?;
        let count = match args.get(end_at + 1) {
            None => 1,
            Some(word) if word.eq_ignore_ascii_case(b"COUNT") && args.len() > end_at + 2 => {
                parse_i64(&args[end_at + 2])
                    .filter(|count| *count > 0)
                    .ok_or(Refusal::Message("ERR count should be greater than 0"))?
            }
            Some(_) => return Err(Refusal::Syntax),
        };
        // An invalid number is reported before surplus arguments.
        if args.len() > end_at + 3 {
            return Err(Refusal::Syntax);
        }
        Ok(PopRequest {
            keys: args.from(at + 1),
            key_count,
            end,
            count: usize::try_from(count).unwrap_or(usize::MAX),
        })
    }

    /// Returns the keys in the order of the arguments.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.keys.iter().take(self.key_count)
    }

    /// Pops from the first non-empty list. Returns false if there is none.
    pub fn pop(&self, ctx: &mut Ctx<'_, '_>) -> Result<bool, Refusal> {
        for name in self.keys() {
            let key = ctx.key(name);
            let is_popped = pop_into(ctx, &key, self.end, self.count, |reply, count| {
                reply.array(2);
                reply.bulk(name);
                reply.array(count);
            })?;
            if is_popped {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `LMPOP numkeys key [key …] LEFT | RIGHT [COUNT count]`
pub fn lmpop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if !PopRequest::parse(args, 1)?.pop(ctx)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub fn lmove(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (from, to) = (end(&args[3])?, end(&args[4])?);
    move_or_null(ctx, args, from, to)
}

/// `RPOPLPUSH source destination`
pub fn rpoplpush(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    move_or_null(ctx, args, End::Right, End::Left)
}

fn move_or_null(ctx: &mut Ctx<'_, '_>, args: Args<'_>, from: End, to: End) -> Answer {
    if !move_element(ctx, args, from, to)? {
        ctx.reply.null();
    }
    Ok(())
}

/// Moves an element from an end of the list under the first argument to an end of the list under
/// the second, and replies with it. Returns false if the source has no element.
pub(super) fn move_element(
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
        rotate(ctx, &source, from, to)?;
        return Ok(true);
    }
    // The push precedes the pop, and the events are published in that order, as in Redis. If the
    // push evicts the source to free memory, the element is not lost.
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

/// Moves an element from one end of a list to an end of the same list.
fn rotate(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, from: End, to: End) -> Answer {
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
