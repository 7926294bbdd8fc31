//! Serialized values that are compatible with other servers: DUMP, RESTORE.

use crate::context::Ctx;
use durability::dump::{Restored, payload_of};
use engine::refusal::{Answer, Refusal};
use settings::Id;
use store::{Class, Key, Tick};
use wire::dump::{self, DumpError};
use wire::{Args, number::parse_i64};

/// `DUMP key`
pub fn dump(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match payload(ctx, &key)? {
        Some(payload) => ctx.reply.bulk(&payload),
        None => {
            // Counts the miss.
            ctx.view.touch(&key);
            ctx.missed(&key);
            ctx.reply.null();
        }
    }
    Ok(())
}

/// Returns the serialized value of a key.
pub fn payload(ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> Result<Option<Vec<u8>>, Refusal> {
    let is_valkey = ctx.server.config.number(Id::DumpHashFormat) == 1;
    Ok(payload_of(&mut ctx.view, key, is_valkey)?)
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
///
/// IDLETIME and FREQ are checked and then ignored: the eviction policy treats the key as new.
pub fn restore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let options = Options::parse(args.from(4))?;
    let key = ctx.key(&args[1]);
    let old = ctx.view.kind(&key);
    if old.is_some() && !options.may_replace {
        return Err(Refusal::Message("BUSYKEY Target key name already exists."));
    }
    let ttl = parse_i64(&args[2]).ok_or(Refusal::NotInteger)?;
    let ttl = u64::try_from(ttl).map_err(|_| Refusal::Message(WRONG_TTL))?;
    let now = ctx.view.now();
    let deadline = match ttl {
        0 => None,
        _ if options.is_absolute => Some(Tick(ttl)),
        _ => Some(Tick(now.0.saturating_add(ttl))),
    };
    let mut restored = Restored::new(ctx.view.scene());
    let room = ctx.server.config.number(Id::ProtoMaxBulkLen) as usize;
    dump::read(&args[3], room, &mut restored).map_err(refusal)?;
    if restored.is_empty() || !restored.is_sound() {
        return Err(refusal(DumpError::Body));
    }
    if restored.has_expired() || deadline.is_some_and(|deadline| ctx.view.horizon() > deadline) {
        if ctx.view.delete(&key) {
            ctx.view.notify(Class::Generic, "del", &key);
        }
        ctx.reply.ok();
        return Ok(());
    }
    ctx.view
        .check_growth(key.db, restored.string_len(), args[3].len())?;
    restored.store(ctx.view.view, &key, deadline);
    ctx.view.notify(Class::New, "new", &key);
    ctx.view.notify(Class::Generic, "restore", &key);
    ctx.view.notify_overwritten(&key, old);
    ctx.reply.ok();
    Ok(())
}

const WRONG_TTL: &str = "ERR Invalid TTL value, must be >= 0";
const WRONG_IDLE_TIME: &str = "ERR Invalid IDLETIME value, must be >= 0";
const WRONG_FREQUENCY: &str = "ERR Invalid FREQ value, must be >= 0 and <= 255";

fn refusal(error: DumpError) -> Refusal {
    Refusal::Message(match error {
        DumpError::Footer => "ERR DUMP payload version or checksum are wrong",
        DumpError::Body => "ERR Bad data format",
    })
}

#[derive(Debug, Default)]
struct Options {
    may_replace: bool,
    is_absolute: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Refusal> {
        let mut options = Options::default();
        let (mut has_idle_time, mut has_frequency) = (false, false);
        let mut index = 0;
        while index < args.len() {
            let number = || parse_i64(&args[index + 1]).ok_or(Refusal::NotInteger);
            let has_more = index + 1 < args.len();
            if args.is(index, "replace") {
                options.may_replace = true;
            } else if args.is(index, "absttl") {
                options.is_absolute = true;
            } else if args.is(index, "idletime") && has_more && !has_frequency {
                if number()? < 0 {
                    return Err(Refusal::Message(WRONG_IDLE_TIME));
                }
                has_idle_time = true;
                index += 1;
            } else if args.is(index, "freq") && has_more && !has_idle_time {
                if !(0..=255).contains(&number()?) {
                    return Err(Refusal::Message(WRONG_FREQUENCY));
                }
                has_frequency = true;
                index += 1;
            } else {
                return Err(Refusal::Syntax);
            }
            index += 1;
        }
        Ok(options)
    }
}
