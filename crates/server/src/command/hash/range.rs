//! Fields in the order of their deadlines: HRANGEBYTTL.

use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use store::{Hash, Scene, Tick};
use wire::number::parse_i64;
use wire::{Args, Protocol};

const SYNTAX: Refusal = Refusal::Says("ERR min or max is not an integer");

/// What is asked for.
struct Range {
    min_ms: u64,
    max_ms: u64,
    offset: usize,
    /// How many fields.
    count: usize,
    with_ttl: bool,
}

/// A bound in milliseconds: an integer, or infinity.
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
                // As with ZRANGEBYSCORE: nothing from a negative offset on, all with a negative count.
                range.offset = usize::try_from(offset).unwrap_or(usize::MAX);
                range.count = usize::try_from(count).unwrap_or(usize::MAX);
                index += 3;
            } else {
                return Err(Refusal::Syntax);
            }
        }
        Ok(range)
    }

    /// The fields in the range with their remaining time, in order.
    fn pick<'h>(&self, hash: &'h Hash, scene: &Scene<'_>) -> Vec<(u64, &'h [u8])> {
        let mut fields = Vec::new();
        let at = |ttl: u64| Tick(scene.now.0.saturating_add(ttl));
        let times = (at(self.min_ms), at(self.max_ms));
        hash.each_by_deadline(times, (self.offset, self.count), scene, &mut |field, at| {
            fields.push((at.0 - scene.now.0, field));
        });
        fields
    }
}

/// `HRANGEBYTTL key min-ms max-ms [LIMIT offset count] [WITHTTL]`: the fields whose remaining time lies
/// between the bounds, both included, the shortest first; where it is the same, in an order that means
/// nothing but stays while the hash does, so that pages by LIMIT fit together. Fields without a deadline
/// are none of them. With TTL, pairs of field and milliseconds in RESP3.
///
/// It costs what it tells, wherever LIMIT begins: large hashes are in the order of their deadlines. (Under
/// another `element-expiry` than `ranked` it looks at every field.)
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
