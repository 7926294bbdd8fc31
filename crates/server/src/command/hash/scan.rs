//! Commands that return some fields of a hash: HSCAN, HRANDFIELD.

use crate::command::scanning::{self, Options};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use settings::random::Random;
use wire::number::parse_i64;
use wire::{Args, Protocol, Reply};

/// Maximum number of fields in a reply that may repeat fields. It bounds the reply's memory.
const REPEATS_MAX: u64 = 1 << 24;

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
pub fn hscan(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let cursor = scanning::cursor(&args[2])?;
    let key = ctx.key(&args[1]);
    let (mut found, mut count) = (ctx.reply.part(), 0);
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let read = ctx
        .view
        .read_hash(&key, |hash, scene| -> Result<u64, Refusal> {
            let options = Options::parse(args.from(3), true)?;
            Ok(
                hash.scan(cursor, options.count, scene, &mut |field, value| {
                    if !options.wants(field) {
                        return;
                    }
                    list.bulk(field);
                    count += 1;
                    if options.with_values {
                        list.bulk(value);
                        count += 1;
                    }
                }),
            )
        })?;
    if read.is_none() {
        ctx.missed(&key);
    }
    let next = read.transpose()?.unwrap_or(0);
    scanning::reply_page(&mut ctx.reply, next, count, &found);
    Ok(())
}

/// Parses the count of HRANDFIELD and WITHVALUES.
fn count_of(args: Args<'_>) -> Result<(i64, bool), Refusal> {
    const RANGE: Refusal = Refusal::Message("ERR value is out of range");
    let Some(text) = args.get(2) else {
        return Ok((1, false));
    };
    let count = parse_i64(text).ok_or(Refusal::NotInteger)?;
    if count == i64::MIN {
        return Err(Refusal::Message(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let with_values = args.is(3, "withvalues");
    if args.len() > 4 || (args.len() == 4 && !with_values) {
        return Err(Refusal::Syntax);
    }
    if (with_values && count.unsigned_abs() > i64::MAX as u64 / 2)
        || (count < 0 && count.unsigned_abs() > REPEATS_MAX)
    {
        return Err(RANGE);
    }
    Ok((count, with_values))
}

/// `HRANDFIELD key [count [WITHVALUES]]`: a positive count selects distinct fields, a negative one
/// allows repetitions. With values, RESP3 replies contain pairs.
pub fn hrandfield(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (count, with_values) = count_of(args)?;
    let key = ctx.key(&args[1]);
    let (mut found, mut count_found) = (ctx.reply.part(), 0);
    let protocol = ctx.reply.protocol();
    let mut list = Reply::new(&mut found, protocol);
    let mut generator = Random::new();
    let read = ctx.view.read_hash(&key, |hash, scene| {
        let mut each = |list: &mut Reply<'_>, field: &[u8], value: &[u8]| {
            count_found += 1;
            if with_values && protocol == Protocol::Resp3 {
                list.array(2);
            }
            list.bulk(field);
            if with_values {
                list.bulk(value);
            }
        };
        let random = &mut || generator.next_u64();
        let Ok(distinct) = usize::try_from(count) else {
            return scanning::in_steps(count.unsigned_abs(), |step| {
                let each = &mut |field: &[u8], value: &[u8]| each(&mut list, field, value);
                hash.sample_with_repeats(step, scene, random, each);
                !list.is_full()
            });
        };
        hash.sample(distinct, scene, random, &mut |field, value| {
            each(&mut list, field, value);
        });
    })?;
    if read.is_none() {
        ctx.missed(&key);
    }
    match (args.len(), count_found) {
        (2, 0) => ctx.reply.null(),
        (2, _) => ctx.reply.append(&found),
        _ => {
            let is_flat = with_values && protocol == Protocol::Resp2;
            ctx.reply.array(if is_flat {
                2 * count_found
            } else {
                count_found
            });
            ctx.reply.append(&found);
        }
    }
    Ok(())
}
