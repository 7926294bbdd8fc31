//! Fields in the order of their deadlines: HRANGEBYTTL.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{Hash, Scene, Tick};
use wire::number::parse_i64;
use wire::{Args, Protocol};

const SYNTAX: Refusal = Refusal::Message("ERR min or max is not an integer");

/// Arguments of HRANGEBYTTL.
struct Range {
    min_ms: u64,
    max_ms: u64,
    offset: usize,
    /// Maximum number of fields.
    count: usize,
    with_ttl: bool,
}

/// Parses a bound in milliseconds: an integer or infinity.
fn bound(text: &[u8]) -> Result<u64, Refusal> {
    if text.eq_ignore_ascii_case(b"-inf") {
        return Ok(0);
    }
    if text.eq_ignore_ascii_case(b"+inf") || text.eq_ignore_ascii_case(b"inf") {
        return Ok(u64::MAX);
    }
    let number = parse_i64(text).ok_or(SYNTAX)?;
    u64::try_from(number).map_err(|_| SYNTAX)
}

impl Range {
    fn parse(args: Args<'_>) -> Result<Range, Refusal> {
        let mut range = Range {
            min_ms: bound(&args[2])?,
            max_ms: bound(&args[3])?,
            offset: 0,
            count: usize::MAX,
            with_ttl: false,
        };
        let mut index = 4;
        while index < args.len() {
            if args.is(index, "withttl") {
                range.with_ttl = true;
                index += 1;
            } else if args.is(index, "limit") && index + 2 < args.len() {
                let number = |at: usize| parse_i64(&args[at]).ok_or(Refusal::NotInteger);
                let (offset, count) = (number(index + 1)?, number(index + 2)?);
                // As in ZRANGEBYSCORE, a negative offset selects nothing and a negative count
                // selects all.
                range.offset = usize::try_from(offset).unwrap_or(usize::MAX);
                range.count = usize::try_from(count).unwrap_or(usize::MAX);
                index += 3;
            } else {
                return Err(Refusal::Syntax);
            }
        }
        Ok(range)
    }

    /// Returns the fields in the range with their remaining TTLs, in order.
    fn pick<'h>(&self, hash: &'h Hash, scene: &Scene<'_>) -> Vec<(u64, &'h [u8])> {
        let mut fields = Vec::new();
        let at = |ttl: u64| Tick(scene.now.0.saturating_add(ttl));
        let times = (at(self.min_ms), at(self.max_ms));
        hash.each_by_deadline(times, (self.offset, self.count), scene, &mut |field, at| {
            fields.push((at.0.saturating_sub(scene.now.0), field));
        });
        fields
    }
}

/// `HRANGEBYTTL key min-ms max-ms [LIMIT offset count] [WITHTTL]`: returns the fields whose
/// remaining TTL is between the bounds, inclusive, the shortest first. Fields with equal TTLs are
/// in an arbitrary order that does not change while the hash does not change, so that pages
/// selected by LIMIT are consistent. Fields without a deadline are not returned. With WITHTTL,
/// RESP3 replies contain pairs of field and milliseconds.
///
/// The cost is proportional to the number of returned fields, independent of the offset, because
/// large hashes are ordered by deadline. With an `element-expiry` other than `ranked` the command
/// examines every field.
pub fn hrangebyttl(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let range = Range::parse(args)?;
    let key = ctx.key(&args[1]);
    let reply = &mut ctx.reply;
    let found = ctx.view.read_hash(&key, |hash, scene| {
        let fields = range.pick(hash, scene);
        let is_paired = range.with_ttl && reply.protocol() == Protocol::Resp3;
        let is_flat = range.with_ttl && !is_paired;
        reply.array(fields.len() * if is_flat { 2 } else { 1 });
        for (ttl, field) in fields {
            if is_paired {
                reply.array(2);
            }
            reply.bulk(field);
            if range.with_ttl {
                reply.integer(ttl as i64);
            }
        }
    })?;
    if found.is_none() {
        ctx.reply.array(0);
        ctx.missed(&key);
    }
    Ok(())
}
