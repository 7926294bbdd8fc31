//! Commands that delete entries: XDEL, XDELEX, XACKDEL.

use super::arguments::{CountedIds, ids};
use crate::context::Ctx;
use engine::refusal::Answer;
use store::Class;
use store::stream::{References, Removed};
use wire::Args;

/// `XDEL key id …`
pub fn xdel(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let ids = ids(args.from(2));
    let mut refusal = None;
    let edited = ctx.view.edit_stream(&key, false, |stream, scene| {
        let ids = match &ids {
            Ok(ids) => ids,
            Err(error) => {
                refusal = Some(*error);
                return None;
            }
        };
        let is_done = |id: &&_| stream.remove(**id, References::Keep, scene) == Removed::Done;
        Some(ids.iter().filter(is_done).count()).filter(|count| *count > 0)
    })?;
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let count = edited.map_or(0, |edited| edited.result);
    if count > 0 {
        ctx.view.notify(Class::Stream, "xdel", &key);
    }
    ctx.reply.integer(count as i64);
    Ok(())
}

/// Code of the result of a removal.
fn code(removed: Removed) -> i64 {
    match removed {
        Removed::Missing | Removed::Forgotten => -1,
        Removed::Done => 1,
        Removed::Referenced => 2,
    }
}

/// `XDELEX key [KEEPREF | DELREF | ACKED] IDS count id …`
pub fn xdelex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    remove_counted(ctx, args, None)
}

/// `XACKDEL key group [KEEPREF | DELREF | ACKED] IDS count id …`
pub fn xackdel(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    remove_counted(ctx, args, Some(&args[2]))
}

fn remove_counted(ctx: &mut Ctx<'_, '_>, args: Args<'_>, group: Option<&[u8]>) -> Answer {
    let key = ctx.key(&args[1]);
    // A key of another type is refused first, as in Redis.
    ctx.view.read_stream(&key, |_, _| ())?;
    let request = CountedIds::parse(args.from(2 + usize::from(group.is_some())))?;
    let (mut codes, mut refusal) = (Vec::new(), None);
    let (mut deleted, mut is_changed) = (0, false);
    ctx.view.edit_stream(&key, false, |stream, scene| {
        if group.is_some_and(|group| stream.group(group).is_none()) {
            return None;
        }
        let ids = request.ids().map_err(|error| refusal = Some(error)).ok()?;
        for id in ids {
            let references = request.references;
            let (removed, is_deleted) = match group {
                Some(group) => stream.acknowledge_and_remove(group, id, references, scene),
                None => {
                    let removed = stream.remove(id, references, scene);
                    (removed, removed == Removed::Done)
                }
            };
            deleted += usize::from(is_deleted);
            is_changed |= match removed {
                Removed::Done | Removed::Forgotten => true,
                // The entry was acknowledged.
                Removed::Referenced => group.is_some(),
                Removed::Missing => false,
            };
            codes.push(code(removed));
        }
        is_changed.then_some(())
    })?;
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    codes.resize(request.count, code(Removed::Missing));
    if deleted > 0 {
        ctx.view.notify(Class::Stream, "xdel", &key);
    }
    ctx.reply.array(codes.len());
    codes.iter().for_each(|&code| ctx.reply.integer(code));
    Ok(())
}
