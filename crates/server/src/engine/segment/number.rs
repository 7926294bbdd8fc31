//! Strings that hold numbers: INCR and its kin.
//!
//! The engine counts numbers of 64 bits from 0 on in place. What is below 0 stands as digits, and is written
//! anew when it changes.

use super::command::{Ctx, refusal};
use super::{Edit, Life, Put};
use crate::command::refusal::{Answer, Refusal};
use crate::command::string::number::{negated, sum};
use segment::{Refused, Unchanged};
use wire::Args;
use wire::number::{Text, parse_i64};

/// `INCR key`
pub(super) fn incr(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    add(ctx, &args[1], 1)
}

/// `DECR key`
pub(super) fn decr(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    add(ctx, &args[1], -1)
}

/// `INCRBY key increment`
pub(super) fn incrby(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let increment = parse_i64(&args[2]).ok_or(Refusal::NotInteger)?;
    add(ctx, &args[1], increment)
}

/// `DECRBY key decrement`
pub(super) fn decrby(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    add(ctx, &args[1], negated(&args[2])?)
}

/// A number that can be counted in place.
fn counted(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn add(ctx: &mut Ctx<'_, '_>, name: &[u8], increment: i64) -> Answer {
    let key = ctx.key(name);
    let change = |old: u64| counted(i64::try_from(old).ok()?.checked_add(increment)?);
    let number_of = |digits: &[u8]| counted(parse_i64(digits)?);
    loop {
        match ctx.hand.update_number(&key, number_of, change) {
            Ok((number, _)) => ctx.reply.integer(number as i64),
            Err(Unchanged::Absent) => {
                let begun = match counted(increment) {
                    Some(number) => ctx.hand.put_number(&key, number, None),
                    None => return add_digits(ctx, name, increment),
                };
                match begun {
                    Ok(_) => ctx.reply.integer(increment),
                    Err(Refused::IsPresent) => continue,
                    Err(why) => return Err(refusal(name, why)),
                }
            }
            Err(Unchanged::NoNumber | Unchanged::Declined) => {
                return add_digits(ctx, name, increment);
            }
            Err(Unchanged::Refused(Refused::IsChanged)) => continue,
            Err(Unchanged::Refused(why)) => return Err(refusal(name, why)),
        }
        return Ok(());
    }
}

/// What is, or becomes, a number below 0; and what is none.
fn add_digits(ctx: &mut Ctx<'_, '_>, name: &[u8], increment: i64) -> Answer {
    let key = ctx.key(name);
    let edited = ctx.hand.edit(&key, |found, new| {
        let old = match found {
            Some((_, digits)) => match parse_i64(digits) {
                Some(old) => old,
                None => return (Edit::Leave, Err(Refusal::NotInteger)),
            },
            None => 0,
        };
        let number = match sum(old, increment) {
            Ok(number) => number,
            Err(why) => return (Edit::Leave, Err(why)),
        };
        new.extend_from_slice(Text::integer(number).as_bytes());
        (Edit::Put(Put::plain(Life::Keep)), Ok(number))
    });
    let (number, _) = edited.map_err(|why| refusal(name, why))?;
    ctx.reply.integer(number?);
    Ok(())
}
