//! Commands that change a part of a string: APPEND, SETRANGE.

use crate::context::Ctx;
use engine::Strings;
use engine::refusal::{Answer, Refusal};
use store::Class;
use wire::Args;
use wire::number::parse_i64;
use wire::request::BULK_BYTES_MAX;

/// Returns the length of a value with `added` bytes at `offset`, or an error if it is too long.
fn grown(offset: usize, added: usize) -> Result<usize, Refusal> {
    offset
        .checked_add(added)
        .filter(|&len| len <= BULK_BYTES_MAX)
        .ok_or(Refusal::TooLong)
}

/// `APPEND key value`
pub fn append<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let len = ctx.view.append(&key, &args[2])?;
    ctx.reply.integer(len as i64);
    Ok(())
}

/// `SETRANGE key offset value`: a gap is filled with zero bytes.
pub fn setrange(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (key, value) = (ctx.key(&args[1]), &args[3]);
    let offset = parse_i64(&args[2]).ok_or(Refusal::NotInteger)?;
    let offset =
        usize::try_from(offset).map_err(|_| Refusal::Message("ERR offset is out of range"))?;
    let old_len = ctx.view.peek(&key)?.map(<[u8]>::len);
    if value.is_empty() {
        ctx.reply.integer(old_len.unwrap_or(0) as i64);
        return Ok(());
    }
    let end = grown(offset, value.len())?;
    if end > old_len.unwrap_or(0) {
        ctx.view.check_growth(key.db, end, value.len())?;
    }
    let len = ctx.view.edit(&key, |bytes| {
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset..end].copy_from_slice(value);
        bytes.len()
    })?;
    if old_len.is_none() {
        ctx.view.notify(Class::New, "new", &key);
    }
    ctx.view.notify(Class::String, "setrange", &key);
    ctx.reply.integer(len as i64);
    Ok(())
}
