//! Commands that move several elements between lists: LMOVEM, BLMOVEM.

use super::arguments::{end, push_event};
use super::pop::pop_event;
use crate::context::Ctx;
use engine::lifetime::timeout_ms;
use engine::refusal::{Answer, Refusal};
use store::{Class, End, Kind};
use wire::Args;
use wire::number::parse_i64;

/// Arguments of LMOVEM and BLMOVEM after the keys.
struct Request {
    from: End,
    to: End,
    /// Number of elements to move.
    count: usize,
    /// Whether nothing is moved if the list has fewer elements.
    is_exact: bool,
    /// Whether the elements keep their order. Otherwise they are moved one by one, which reverses
    /// the order if both ends are the same.
    is_bulk: bool,
}

impl Request {
    /// Parses `LEFT | RIGHT LEFT | RIGHT` at argument 3, and `[COUNT count | EXACTLY count OBO |
    /// BULK]` at argument `at`.
    fn parse(args: Args<'_>, at: usize) -> Result<Request, Refusal> {
        let mut request = Request {
            from: end(&args[3])?,
            to: end(&args[4])?,
            count: 1,
            is_exact: false,
            is_bulk: false,
        };
        if args.len() == at {
            return Ok(request);
        }
        if args.len() != at + 3 {
            return Err(Refusal::Syntax);
        }
        request.is_exact = args.is(at, "exactly");
        if !request.is_exact && !args.is(at, "count") {
            return Err(Refusal::Syntax);
        }
        let count = parse_i64(&args[at + 1]).filter(|count| *count > 0);
        let count = count.ok_or(Refusal::Message("ERR count should be greater than 0"))?;
        request.count = usize::try_from(count).unwrap_or(usize::MAX);
        request.is_bulk = args.is(at + 2, "bulk");
        if !request.is_bulk && !args.is(at + 2, "obo") {
            return Err(Refusal::Syntax);
        }
        Ok(request)
    }

    /// Moves elements between the lists under the first two arguments, and replies with them in
    /// their order in the destination. Returns false if there are not enough.
    fn run(&self, ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Result<bool, Refusal> {
        let (source, destination) = (ctx.key(&args[1]), ctx.key(&args[2]));
        let is_list = |kind| kind == Kind::List;
        if !ctx.view.kind(&destination).is_none_or(is_list) {
            return Err(Refusal::WrongType);
        }
        let elements = ctx.view.read_list(&source, |list, _| {
            let count = self.count.min(list.len());
            let is_enough = !self.is_exact || count == self.count;
            let first = match self.from {
                End::Left => 0,
                End::Right => list.len().saturating_sub(1),
            };
            let elements = list.iter(self.from, first).take(count);
            is_enough.then(|| elements.map(<[u8]>::to_vec).collect::<Vec<_>>())
        })?;
        let Some(mut elements) = elements.flatten() else {
            return Ok(false);
        };
        // From here on the elements are in the order in which they are pushed.
        if self.is_bulk && self.from == self.to {
            elements.reverse();
        }
        let count = elements.len();
        if source.bytes == destination.bytes {
            let edited = ctx.view.edit_list(&source, false, |list, scene| {
                for _ in 0..count {
                    list.pop(self.from, scene, |_| {});
                }
                elements.iter().for_each(|e| list.push(self.to, e, scene));
                Some(())
            })?;
            if let Some(edited) = edited {
                ctx.edited(&source, &edited, Class::List, push_event(self.to));
                ctx.view.notify(Class::List, pop_event(self.from), &source);
            }
        } else {
            // The push precedes the pop, so that an eviction by the push loses nothing.
            let pushed = ctx.view.edit_list(&destination, true, |list, scene| {
                elements.iter().for_each(|e| list.push(self.to, e, scene));
                Some(())
            })?;
            if let Some(pushed) = pushed {
                ctx.edited(&destination, &pushed, Class::List, push_event(self.to));
            }
            let popped = ctx.view.edit_list(&source, false, |list, scene| {
                for _ in 0..count {
                    list.pop(self.from, scene, |_| {});
                }
                Some(())
            })?;
            if let Some(popped) = popped {
                ctx.edited(&source, &popped, Class::List, pop_event(self.from));
            }
        }
        if self.to == End::Left {
            elements.reverse();
        }
        ctx.reply.array(count);
        elements.iter().for_each(|element| ctx.reply.bulk(element));
        Ok(true)
    }
}

/// `LMOVEM source destination LEFT | RIGHT LEFT | RIGHT [COUNT count | EXACTLY count OBO | BULK]`
pub fn lmovem(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if !Request::parse(args, 5)?.run(ctx, args)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BLMOVEM source destination LEFT | RIGHT LEFT | RIGHT timeout [COUNT count | EXACTLY count OBO |
/// BULK]`
pub fn blmovem(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let timeout_ms = timeout_ms(&args[5])?;
    let request = Request::parse(args, 6)?;
    let source = std::iter::once(&args[1]);
    if !request.run(ctx, args)? && !ctx.wait(args, source, Kind::List, timeout_ms) {
        ctx.reply.null_array();
    }
    Ok(())
}
