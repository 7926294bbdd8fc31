//! Fields in the order of their deadlines: HRANGEBYTTL.

use crate::command::Ctx;
use crate::command::refusal::{Answer, Refusal};
use std::collections::BinaryHeap;
use store::{Hash, Scene};
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

    /// The fields in the range with their remaining time, in order. Of many, no more are kept at once
    /// than can be in the reply.
    fn pick<'h>(&self, hash: &'h Hash, scene: &Scene<'_>) -> Vec<(u64, &'h [u8])> {
        let most = self.offset.saturating_add(self.count);
        let mut nearest = BinaryHeap::new();
        if most > 0 && self.offset < usize::MAX {
            hash.each(scene, |field, _, deadline| {
                let Some(deadline) = deadline else { return };
                let ttl = deadline.0 - scene.now.0;
                if (self.min_ms..=self.max_ms).contains(&ttl) {
                    nearest.push((ttl, field));
                    if nearest.len() > most {
                        nearest.pop();
                    }
                }
            });
        }
        let mut fields = nearest.into_sorted_vec();
        fields.drain(..self.offset.min(fields.len()));
        fields
    }
}

/// `HRANGEBYTTL key min-ms max-ms [LIMIT offset count] [WITHTTL]`: the fields whose remaining time lies
/// between the bounds, both included, the shortest first and by name where it is the same; fields
/// without a deadline are none of them. With TTL, pairs of field and milliseconds in RESP3.
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
