//! Positions of members: GEODIST, GEOHASH, GEOPOS.

use super::geohash::Position;
use crate::command::sorted_set::access::read;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use wire::{Args, Reply};

/// Returns the number of metres of a unit.
pub(super) fn metres_of(unit: &[u8]) -> Result<f64, Refusal> {
    match &unit.to_ascii_lowercase()[..] {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(Refusal::Message(
            "ERR unsupported unit provided. please use M, KM, FT, MI",
        )),
    }
}

/// Returns the position of a score.
pub(super) fn position_of(score: f64) -> Position {
    Position::decode(score as u64)
}

/// Writes a distance with four decimals.
pub(super) fn write_distance(reply: &mut Reply<'_>, distance: f64) {
    let scaled = (distance * 10_000.0).round() as i64;
    reply.bulk_fmt(format_args!("{}.{:04}", scaled / 10_000, scaled % 10_000));
}

/// Writes longitude and latitude.
pub(super) fn write_position(reply: &mut Reply<'_>, position: &Position) {
    reply.array(2);
    reply.double(position.longitude);
    reply.double(position.latitude);
}

/// `GEODIST key member1 member2 [M | KM | FT | MI]`
pub fn geodist(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let unit = match args.len() {
        4 => 1.0,
        5 => metres_of(&args[4])?,
        _ => return Err(Refusal::Syntax),
    };
    let key = ctx.key(&args[1]);
    let scores = read(ctx, &key, |set, scene| {
        set.score(&args[2], scene).zip(set.score(&args[3], scene))
    })?;
    match scores.flatten() {
        Some((one, two)) => {
            let distance = position_of(one).distance(&position_of(two));
            write_distance(&mut ctx.reply, distance / unit);
        }
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `GEOHASH key [member …]`
pub fn geohash(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    each(ctx, args, |reply, position| match position {
        Some(position) => reply.bulk(&position.text()),
        None => reply.null(),
    })
}

/// `GEOPOS key [member …]`
pub fn geopos(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    each(ctx, args, |reply, position| match position {
        Some(position) => write_position(reply, &position),
        None => reply.null_array(),
    })
}

/// Writes an array with one reply per member.
fn each(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    mut write: impl FnMut(&mut Reply<'_>, Option<Position>),
) -> Answer {
    let members = args.from(2);
    let key = ctx.key(&args[1]);
    let scores = read(ctx, &key, |set, scene| {
        let scores = members.iter().map(|member| set.score(member, scene));
        scores.collect::<Vec<_>>()
    })?;
    let scores = scores.unwrap_or_else(|| vec![None; members.len()]);
    ctx.reply.array(scores.len());
    for score in scores {
        write(&mut ctx.reply, score.map(position_of));
    }
    Ok(())
}
