//! GEOADD.

use super::geohash::{Position, STEP_MAX};
use crate::command::sorted_set::add;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use wire::Args;
use wire::number::parse_f64;

/// Parses a position. Writes the error and returns `None` if it is outside of the map.
pub(super) fn parse_position(
    ctx: &mut Ctx<'_, '_>,
    longitude: &[u8],
    latitude: &[u8],
) -> Result<Option<Position>, Refusal> {
    let position = Position {
        longitude: parse_f64(longitude).ok_or(Refusal::NotFloat)?,
        latitude: parse_f64(latitude).ok_or(Refusal::NotFloat)?,
    };
    if position.is_valid() {
        return Ok(Some(position));
    }
    let Position {
        longitude,
        latitude,
    } = position;
    ctx.reply.error_fmt(format_args!(
        "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
    ));
    Ok(None)
}

/// `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member …]`
pub fn geoadd(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut options = add::Options::default();
    let mut first = 2;
    while let Some(word) = args.get(first) {
        match word {
            _ if word.eq_ignore_ascii_case(b"NX") => options.nx = true,
            _ if word.eq_ignore_ascii_case(b"XX") => options.xx = true,
            _ if word.eq_ignore_ascii_case(b"CH") => options.ch = true,
            _ => break,
        }
        first += 1;
    }
    let count = args.len().saturating_sub(first);
    if count == 0 || !count.is_multiple_of(3) || (options.nx && options.xx) {
        return Err(Refusal::Syntax);
    }
    let mut entries = Vec::with_capacity(count / 3);
    for at in (first..args.len()).step_by(3) {
        let Some(position) = parse_position(ctx, &args[at], &args[at + 1])? else {
            return Ok(());
        };
        entries.push((position.encode(STEP_MAX) as f64, &args[at + 2]));
    }
    add::add(ctx, &args[1], &entries, options)
}
