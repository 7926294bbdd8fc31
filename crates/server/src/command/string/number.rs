//! Commands on strings that hold numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT.

use crate::context::Ctx;
use engine::Strings;
use engine::refusal::{Answer, Refusal};
use store::{Class, Key, NewDeadline};
use wire::number::parse_i64;
use wire::{Args, LongDouble};

/// `INCR key`
pub fn incr<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    add(ctx, &args[1], 1)
}

/// `DECR key`
pub fn decr<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    add(ctx, &args[1], -1)
}

/// `INCRBY key increment`
pub fn incrby<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let increment = parse_i64(&args[2]).ok_or(Refusal::NotInteger)?;
    add(ctx, &args[1], increment)
}

/// `DECRBY key decrement`
pub fn decrby<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    add(ctx, &args[1], negated(&args[2])?)
}

/// Parses a decrement and returns it as an increment.
fn negated(decrement: &[u8]) -> Result<i64, Refusal> {
    let decrement = parse_i64(decrement).ok_or(Refusal::NotInteger)?;
    let overflow = Refusal::Message("ERR decrement would overflow");
    decrement.checked_neg().ok_or(overflow)
}

/// Returns the sum, or an error on overflow.
pub fn sum(number: i64, increment: i64) -> Result<i64, Refusal> {
    number.checked_add(increment).ok_or(Refusal::Overflow)
}

fn add<E: Strings>(ctx: &mut Ctx<'_, '_, E>, name: &[u8], increment: i64) -> Answer {
    let key = ctx.key(name);
    let sum = ctx.view.add(&key, increment)?;
    ctx.reply.integer(sum);
    Ok(())
}

/// Replaces the number. The deadline stays.
fn write(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, is_new: bool, text: &[u8], event: &'static str) {
    ctx.view.set(key, text, NewDeadline::Keep);
    if is_new {
        ctx.view.notify(Class::New, "new", key);
    }
    ctx.view.notify(Class::String, event, key);
}

/// `INCRBYFLOAT key increment`: the sum of two 80-bit floating-point numbers with at most 17
/// decimals, as in Redis on x86-64.
pub fn incrbyfloat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let old = match ctx.view.peek(&key)? {
        Some(value) => Some(LongDouble::parse(value).ok_or(Refusal::NotFloat)?),
        None => None,
    };
    let increment = LongDouble::parse(&args[2]).ok_or(Refusal::NotFloat)?;
    let zero = LongDouble::parse(b"0").ok_or(Refusal::NotFloat)?;
    let new = old.unwrap_or(zero).plus(increment).ok_or(Refusal::Message(
        "ERR increment would produce NaN or Infinity",
    ))?;
    let mut text = Vec::new();
    new.push_decimal(&mut text);
    write(ctx, &key, old.is_none(), &text, "incrbyfloat");
    ctx.reply.bulk(&text);
    Ok(())
}
