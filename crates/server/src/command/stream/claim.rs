//! Commands that transfer pending entries to another consumer: XCLAIM, XAUTOCLAIM.

use super::arguments::{plain_id, start};
use super::read::consumer_of;
use super::reply::{self, no_key_or_group};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::Key;
use store::stream::{Claim, Claimed, ConsumerIndex, StreamId};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Maximum COUNT of XAUTOCLAIM, as in Redis.
const COUNT_MAX: i64 = i64::MAX / 16;
/// Number of entries that XAUTOCLAIM claims without COUNT.
const COUNT_DEFAULT: usize = 100;

/// Returns whether a key holds a stream with a group.
fn has_group(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, group: &[u8]) -> Result<bool, Refusal> {
    let found = ctx
        .view
        .read_stream(key, |stream, _| stream.group(group).is_some())?;
    Ok(found == Some(true))
}

fn number(text: &[u8], error: &'static str) -> Result<i64, Refusal> {
    parse_i64(text).ok_or(Refusal::Message(error))
}

/// Options of XCLAIM.
struct ClaimRequest {
    ids: Vec<StreamId>,
    idle_ms_min: u64,
    delivered_ms: Option<i64>,
    deliveries: Option<u32>,
    may_create: bool,
    is_id_only: bool,
    last_id: Option<StreamId>,
}

impl ClaimRequest {
    /// Parses the arguments from the minimum idle time on. An unknown option is returned.
    fn parse<'a>(args: Args<'a>, now_ms: u64) -> Result<Result<ClaimRequest, &'a [u8]>, Refusal> {
        let idle = number(&args[4], "ERR Invalid min-idle-time argument for XCLAIM")?;
        let ids: Vec<_> = args
            .from(5)
            .iter()
            .map_while(|text| plain_id(text).ok())
            .collect();
        let mut index = 5 + ids.len();
        let mut request = ClaimRequest {
            ids,
            idle_ms_min: idle.max(0) as u64,
            delivered_ms: None,
            deliveries: None,
            may_create: false,
            is_id_only: false,
            last_id: None,
        };
        while let Some(word) = args.get(index) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            index += match args.get(index + 1) {
                _ if is("FORCE") => {
                    request.may_create = true;
                    1
                }
                _ if is("JUSTID") => {
                    request.is_id_only = true;
                    1
                }
                Some(text) if is("IDLE") => {
                    let idle = number(text, "ERR Invalid IDLE option argument for XCLAIM")?;
                    request.delivered_ms = Some((now_ms as i64).saturating_sub(idle));
                    2
                }
                Some(text) if is("TIME") => {
                    let time = number(text, "ERR Invalid TIME option argument for XCLAIM")?;
                    request.delivered_ms = Some(time);
                    2
                }
                Some(text) if is("RETRYCOUNT") => {
                    let count = number(text, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                    let count = u64::try_from(count).ok();
                    let count = count.map(|count| count.min(u32::MAX.into()) as u32);
                    request.deliveries = count;
                    2
                }
                Some(text) if is("LASTID") => {
                    request.last_id = Some(plain_id(text)?);
                    2
                }
                _ => return Ok(Err(word)),
            };
        }
        Ok(Ok(request))
    }

    fn claim(&self, consumer: ConsumerIndex, latest_ms: u64, now_ms: u64) -> Claim {
        let delivered = self.delivered_ms.and_then(|ms| u64::try_from(ms).ok());
        Claim {
            consumer,
            idle_ms_min: self.idle_ms_min,
            delivered_ms: delivered.filter(|ms| *ms <= latest_ms).unwrap_or(now_ms),
            deliveries: self.deliveries,
            keeps_deliveries: self.is_id_only,
            may_create: self.may_create,
        }
    }
}

/// `XCLAIM key group consumer min-idle-time id … [IDLE milliseconds] [TIME timestamp] [RETRYCOUNT
/// count] [FORCE] [JUSTID] [LASTID id]`
pub fn xclaim(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (key, group) = (ctx.key(&args[1]), &args[2]);
    if !has_group(ctx, &key, group)? {
        return no_key_or_group(ctx, &args[1], group);
    }
    let now_ms = ctx.view.now().0;
    let request = match ClaimRequest::parse(args, now_ms)? {
        Ok(request) => request,
        Err(word) => {
            let text = [b"ERR Unrecognized XCLAIM option '", word, b"'"].concat();
            ctx.reply.error_bytes(&text);
            return Ok(());
        }
    };
    let consumer = consumer_of(ctx, &key, group, &args[3])?.expect("the group exists");
    // The times of a log's annotations are whole seconds.
    let latest_ms = now_ms.max(ctx.server.clock.now().0);
    let claim = request.claim(consumer, latest_ms, now_ms);
    let out = &mut ctx.reply;
    ctx.view.edit_stream(&key, false, |stream, scene| {
        let (last, read) = {
            let group = stream.group(group)?;
            (group.last_delivered, group.entries_read)
        };
        let mut is_changed = match request.last_id {
            Some(id) if id > last => stream.set_group(group, id, read),
            _ => false,
        };
        reply::array_of(out, |out| {
            let mut len = 0;
            for id in &request.ids {
                let claimed = stream.claim(group, *id, &claim, scene);
                is_changed |= claimed != Claimed::Refused;
                if claimed != Claimed::Done {
                    continue;
                }
                len += 1;
                match stream.get(*id, scene) {
                    Some(entry) if !request.is_id_only => reply::entry(out, &entry),
                    _ => reply::id(out, *id),
                }
            }
            len
        });
        is_changed.then_some(())
    })?;
    Ok(())
}

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
pub fn xautoclaim(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let idle = number(
        &args[4],
        "ERR Invalid min-idle-time argument for XAUTOCLAIM",
    )?;
    let from = start(&args[5])?;
    let (mut count, mut is_id_only, mut index) = (COUNT_DEFAULT, false, 6);
    while index < args.len() {
        if args.is(index, "count") && index + 1 < args.len() {
            let given = parse_i64(&args[index + 1]).filter(|n| (1..=COUNT_MAX).contains(n));
            count = given.ok_or(Refusal::Message("ERR COUNT must be > 0"))? as usize;
            index += 2;
        } else if args.is(index, "justid") {
            is_id_only = true;
            index += 1;
        } else {
            return Err(Refusal::Syntax);
        }
    }
    let (key, group) = (ctx.key(&args[1]), &args[2]);
    if !has_group(ctx, &key, group)? {
        return no_key_or_group(ctx, &args[1], group);
    }
    let consumer = consumer_of(ctx, &key, group, &args[3])?.expect("the group exists");
    let claim = Claim {
        consumer,
        idle_ms_min: idle.max(0) as u64,
        delivered_ms: ctx.view.now().0,
        deliveries: None,
        keeps_deliveries: is_id_only,
        may_create: false,
    };
    let begin = ctx.reply.position();
    let out = &mut ctx.reply;
    ctx.view.edit_stream(&key, false, |stream, scene| {
        let claimed =
            stream.auto_claim(
                group,
                (from, count),
                &claim,
                scene,
                &mut |entry| match is_id_only {
                    true => reply::id(out, entry.id),
                    false => reply::entry(out, entry),
                },
            );
        let mut head = out.part();
        let mut writer = Reply::new(&mut head, out.protocol());
        writer.array(3);
        reply::id(&mut writer, claimed.next);
        writer.array(claimed.count);
        out.buffer().insert(begin, &head);
        out.array(claimed.missing.len());
        claimed.missing.iter().for_each(|id| reply::id(out, *id));
        (claimed.count > 0 || !claimed.missing.is_empty()).then_some(())
    })?;
    Ok(())
}
