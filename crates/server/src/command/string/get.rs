//! Reading strings: GET, MGET, STRLEN, GETRANGE, and the reads that also change something.

use crate::command::lifetime::{Fate, Lifetime};
use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use store::{Class, Key, NewDeadline};
use wire::Args;
use wire::number::parse_i64;

/// `GET key`
pub fn get(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    reply_value(ctx, &key).map(|_| ())
}

/// Replies with the value, or with null; whether there was one.
#[inline]
pub(super) fn reply_value(ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> Result<bool, Refusal> {
    match ctx.view.get(key)? {
        Some(value) => {
            ctx.reply.bulk(value);
            Ok(true)
        }
        None => {
            ctx.reply.null();
            ctx.missed(key);
            Ok(false)
        }
    }
}

/// `MGET key [key …]`: a key of another type reads as null.
pub fn mget(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    ctx.reply.array(args.len() - 1);
    for name in args.from(1).iter() {
        let key = ctx.key(name);
        match ctx.view.get(&key) {
            Ok(Some(value)) => ctx.reply.bulk(value),
            Ok(None) => {
                ctx.reply.null();
                ctx.missed(&key);
            }
            Err(_) => ctx.reply.null(),
        }
    }
    Ok(())
}

/// `STRLEN key`
pub fn strlen(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match ctx.view.get(&key)?.map(<[u8]>::len) {
        Some(len) => ctx.reply.integer(len as i64),
        None => {
            ctx.reply.integer(0);
            ctx.missed(&key);
        }
    }
    Ok(())
}

/// `GETRANGE key start end`, and `SUBSTR`, its old name.
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

/// The bytes from `start` to `end`, both counted in; negative ones count from the end. Both are cut
/// to the value, so that `0 -100` is the first byte; but a pair of negatives the wrong way round is
/// empty however far out it lies.
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
pub fn getdel(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    if reply_value(ctx, &key)? {
        ctx.view.delete(&key);
        ctx.view.notify(Class::Generic, "del", &key);
    }
    Ok(())
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST]`
///
/// A deadline in the past deletes the key and says `expired`.
pub fn getex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let lifetime = Lifetime::of_getex(args.from(2))?;
    let key = ctx.key(&args[1]);
    if !reply_value(ctx, &key)? {
        return Ok(());
    }
    match lifetime.fate(ctx.view.now(), "getex", NewDeadline::Keep)? {
        Fate::IsDead => {
            ctx.view.expire_now(&key);
        }
        Fate::Lives(NewDeadline::Keep) => {}
        Fate::Lives(NewDeadline::Clear) => {
            if ctx.view.deadline(&key).flatten().is_some() {
                ctx.view.set_deadline(&key, None);
                ctx.view.notify(Class::Generic, "persist", &key);
            }
        }
        Fate::Lives(NewDeadline::At(deadline)) => {
            ctx.view.set_deadline(&key, Some(deadline));
            ctx.view.notify(Class::Generic, "expire", &key);
        }
    }
    Ok(())
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
