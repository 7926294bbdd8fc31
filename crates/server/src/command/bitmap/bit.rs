//! Commands on single bits: GETBIT, SETBIT.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::Class;
use wire::Args;
use wire::number::parse_i64;
use wire::request::BULK_BYTES_MAX;

const BAD_OFFSET: Refusal = Refusal::Message("ERR bit offset is not an integer or out of range");

/// Parses a bit offset in units of `width` bits. Offsets beyond the longest possible string are
/// refused.
pub(super) fn offset(text: &[u8], width: u64) -> Result<u64, Refusal> {
    parse_i64(text)
        .and_then(|number| u64::try_from(number).ok())
        .and_then(|number| number.checked_mul(width))
        .filter(|&offset| offset / 8 < BULK_BYTES_MAX as u64)
        .ok_or(BAD_OFFSET)
}

/// Returns the bit at this offset; bits beyond the end are clear.
fn bit_at(bytes: &[u8], offset: u64) -> bool {
    let byte = bytes.get((offset / 8) as usize).copied().unwrap_or(0);
    byte & mask(offset) != 0
}

/// Returns the bit's mask within its byte.
fn mask(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

/// `GETBIT key offset`
pub fn getbit(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let offset = offset(&args[2], 1)?;
    let key = ctx.key(&args[1]);
    let bit = ctx.view.get(&key)?.map(|bytes| bit_at(bytes, offset));
    if bit.is_none() {
        ctx.missed(&key);
    }
    ctx.reply.integer(i64::from(bit.unwrap_or(false)));
    Ok(())
}

/// `SETBIT key offset 0|1`: replies with the old bit. Publishes no event when nothing changes.
pub fn setbit(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let offset = offset(&args[2], 1)?;
    let is_set = match parse_i64(&args[3]) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => {
            return Err(Refusal::Message(
                "ERR bit is not an integer or out of range",
            ));
        }
    };
    let key = ctx.key(&args[1]);
    let (at, mask) = ((offset / 8) as usize, mask(offset));
    let (old_len, was_set) = match ctx.view.peek(&key)? {
        Some(bytes) => (Some(bytes.len()), bit_at(bytes, offset)),
        None => (None, false),
    };
    if was_set != is_set || old_len.is_none_or(|len| len <= at) {
        if old_len.is_none_or(|len| len <= at) {
            ctx.view.check_growth(key.db, at + 1, 0)?;
        }
        ctx.view.edit(&key, |bytes| {
            if bytes.len() <= at {
                bytes.resize(at + 1, 0);
            }
            if was_set != is_set {
                bytes[at] ^= mask;
            }
        })?;
        if old_len.is_none() {
            ctx.view.notify(Class::New, "new", &key);
        }
        ctx.view.notify(Class::String, "setbit", &key);
    }
    ctx.reply.integer(i64::from(was_set));
    Ok(())
}
