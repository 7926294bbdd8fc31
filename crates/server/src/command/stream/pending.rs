//! Commands on pending entries: XACK, XPENDING.

use super::arguments::{count, end, ids, integer, start};
use super::reply::{self, no_key_or_group};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::stream::{Expired, Group, Pending, StreamId};
use wire::{Args, Reply};

/// `XACK key group id …`
pub fn xack(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let mut refusal = None;
    let edited = ctx.view.edit_stream(&key, false, |stream, scene| {
        stream.group(&args[2])?;
        let count = match args.len() {
            4 => match super::arguments::plain_id(&args[3]) {
                Ok(id) => stream.acknowledge(&args[2], std::iter::once(id), scene),
                Err(error) => {
                    refusal = Some(error);
                    None
                }
            },
            _ => {
                let ids = ids(args.from(3))
                    .map_err(|error| refusal = Some(error))
                    .ok()?;
                stream.acknowledge(&args[2], ids.into_iter(), scene)
            }
        };
        count.filter(|count| *count > 0)
    })?;
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    ctx.reply
        .integer(edited.map_or(0, |edited| edited.result as i64));
    Ok(())
}

/// Range of XPENDING.
struct Range<'a> {
    idle_ms_min: i64,
    from: StreamId,
    to: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Range<'a> {
    /// Parses `[IDLE milliseconds] start end count [consumer]`.
    fn parse(args: Args<'a>) -> Result<Range<'a>, Refusal> {
        if args.len() < 6 || args.len() > 9 {
            return Err(Refusal::Syntax);
        }
        let (mut at, mut idle_ms_min) = (3, 0);
        if args.is(3, "idle") {
            idle_ms_min = integer(&args[4])?;
            if args.len() < 8 {
                return Err(Refusal::Syntax);
            }
            at = 5;
        }
        Ok(Range {
            idle_ms_min,
            count: count(&args[at + 2])?,
            from: start(&args[at])?,
            to: end(&args[at + 1])?,
            consumer: args.get(at + 3),
        })
    }

    /// Writes the pending entries.
    fn write(&self, reply: &mut Reply<'_>, group: &Group, expired: &Expired, now_ms: u64) {
        if self.from > self.to {
            return reply.array(0);
        }
        let idle = |pending: &Pending| now_ms as i64 - pending.delivered_ms as i64;
        let is_idle =
            |(_, p): &(StreamId, Pending)| self.idle_ms_min == 0 || idle(p) >= self.idle_ms_min;
        reply::array_of(reply, |reply| {
            let mut len = 0;
            let mut write = |(id, pending): (StreamId, Pending)| {
                len += 1;
                reply.array(4);
                reply::id(reply, id);
                reply.bulk(&group.consumer(pending.consumer).name);
                reply.integer(idle(&pending).max(0));
                reply.integer(pending.deliveries.into());
            };
            match self.consumer {
                None => {
                    let all = group.pending(self.from, self.to, expired);
                    all.filter(is_idle).take(self.count).for_each(&mut write);
                }
                Some(name) => {
                    if let Some(index) = group.find(name) {
                        let own = group.pending_of(index, self.from, self.to, expired);
                        own.filter(is_idle).take(self.count).for_each(&mut write);
                    }
                }
            }
            len
        });
    }
}

/// Writes the number of pending entries, the first and the last one, and the number for each
/// consumer.
fn write_summary(reply: &mut Reply<'_>, group: &Group, expired: &Expired) {
    let mut all = group.pending(StreamId::MIN, StreamId::MAX, expired);
    let first = all.next();
    let last = all.next_back().or(first);
    reply.array(4);
    reply.integer(group.pending_count(expired) as i64);
    let (Some((first, _)), Some((last, _))) = (first, last) else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    reply::id(reply, first);
    reply::id(reply, last);
    reply::array_of(reply, |reply| {
        let mut len = 0;
        for (index, consumer) in group.consumers() {
            let count = group.pending_count_of(index, expired);
            if count > 0 {
                len += 1;
                reply.array(2);
                reply.bulk(&consumer.name);
                reply.bulk_integer(count as i64);
            }
        }
        len
    });
}

/// `XPENDING key group [[IDLE milliseconds] start end count [consumer]]`
pub fn xpending(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let range = match args.len() {
        3 => None,
        _ => Some(Range::parse(args)?),
    };
    let key = ctx.key(&args[1]);
    let out = &mut ctx.reply;
    let read = ctx.view.read_stream(&key, |stream, scene| {
        let group = stream.group(&args[2])?;
        let expired = stream.expired(scene);
        match &range {
            None => write_summary(out, group, &expired),
            Some(range) => range.write(out, group, &expired, scene.now.0),
        }
        Some(())
    })?;
    if read.flatten().is_none() {
        return no_key_or_group(ctx, &args[1], &args[2]);
    }
    Ok(())
}
