//! Commands that read strings: GET, MGET, STRLEN, GETRANGE, and those that also change the key.

use crate::context::Ctx;
use engine::Strings;
use engine::lifetime::Lifetime;
use engine::refusal::{Answer, Refusal};
use settings::Id;
use store::{Key, NewDeadline};
use wire::Args;
use wire::number::parse_i64;

/// Number of keys that MGET prefetches at a time.
const PREFETCH_MAX: usize = 32;

/// `GET key`
pub fn get<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    reply(ctx, &key)
}

/// Replies with the value of a key, or null without one or if the settings hide a stale one.
#[inline]
fn reply<E: Strings>(ctx: &mut Ctx<'_, '_, E>, key: &Key<'_>) -> Answer {
    if !ctx.server.config.is_on(Id::StaleReads) && ctx.view.is_stale(key) {
        ctx.reply.null();
        ctx.view.missed(key);
        return Ok(());
    }
    ctx.view.reply_value(key, &mut ctx.reply)?;
    Ok(())
}

/// `MGET key [key …]`: a key of another type reads as null. On an engine that bounds the bytes of a
/// step, the command stops at a key, and the rest runs in further steps.
pub fn mget<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let start = ctx.reply.position();
    ctx.reply.array(args.len() - 1);
    let names = args.from(1);
    let mut near = [None; PREFETCH_MAX];
    for first in (0..names.len()).step_by(PREFETCH_MAX) {
        // As for a batch of commands, first the table, then the values.
        let some = names.iter().skip(first).take(PREFETCH_MAX);
        let count = some.len();
        for (place, name) in near.iter_mut().zip(some) {
            let key = ctx.key(name);
            ctx.view.prefetch(&key);
            *place = Some(key);
        }
        let keys = near[..count].iter().flatten();
        keys.clone().for_each(|key| ctx.view.prefetch_value(key));
        if ctx.reply.is_full() {
            break;
        }
        for (index, key) in keys.enumerate() {
            if ctx.reply.position().saturating_sub(start) > E::REPLY_STEP_BYTES {
                ctx.session.stopped_at = Some(1 + first + index);
                return Ok(());
            }
            if reply(ctx, key).is_err() {
                ctx.reply.null();
            }
        }
    }
    Ok(())
}

/// `STRLEN key`
pub fn strlen<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let len = ctx.view.value_len(&key)?;
    if len.is_none() {
        ctx.view.missed(&key);
    }
    ctx.reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

/// `GETRANGE key start end`, and `SUBSTR`, its old name
pub fn getrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let start = parse_i64(&args[2]).ok_or(Refusal::NotInteger)?;
    let end = parse_i64(&args[3]).ok_or(Refusal::NotInteger)?;
    let key = ctx.key(&args[1]);
    match ctx.view.get(&key)? {
        Some(value) => ctx.reply.bulk(slice(value, start, end)),
        None => {
            ctx.reply.bulk(b"");
            ctx.missed(&key);
        }
    }
    Ok(())
}

/// Returns the bytes from `start` to `end`, both included. Negative positions count from the end.
/// Both are clamped to the value, so that `0 -100` is the first byte. If both are negative and
/// `start` is after `end`, the result is empty even if both are out of range.
fn slice(value: &[u8], start: i64, end: i64) -> &[u8] {
    if value.is_empty() || (start < 0 && end < 0 && start > end) {
        return &[];
    }
    let len = value.len() as i64;
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(len).max(0)
        } else {
            index
        }
    };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end {
        return &[];
    }
    &value[start as usize..=end as usize]
}

/// `GETDEL key`
pub fn getdel<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    ctx.view.take(&key, &mut ctx.reply)
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST]`
///
/// A deadline in the past deletes the key and publishes `expired`. The number is parsed only if the
/// key exists.
pub fn getex<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let lifetime = Lifetime::of_getex(args.from(2))?;
    let (key, instants) = (ctx.key(&args[1]), ctx.view.instants());
    let expiration = || lifetime.deadline_change(instants, "getex", NewDeadline::Keep);
    ctx.view.reply_and_expire(&key, &mut ctx.reply, expiration)
}

#[cfg(test)]
mod tests {
    use super::slice;

    #[test]
    fn a_range_equals_that_of_the_reference_implementation() {
        for len in 0..5i64 {
            let value: Vec<u8> = (0..len as u8).collect();
            for start in -7..7 {
                for end in -7..7 {
                    let low = if start < 0 {
                        (start + len).max(0)
                    } else {
                        start
                    };
                    let high = if end < 0 { (end + len).max(0) } else { end };
                    let is_backward = start < 0 && end < 0 && start > end;
                    let expected: Vec<u8> = (0..len)
                        .filter(|&index| !is_backward && low <= index && index <= high)
                        .map(|index| index as u8)
                        .collect();
                    assert_eq!(slice(&value, start, end), expected, "{len} {start} {end}");
                }
            }
        }
        assert_eq!(slice(b"abc", i64::MIN, i64::MAX), b"abc");
        assert_eq!(slice(b"abc", i64::MAX, i64::MIN), b"");
    }
}
