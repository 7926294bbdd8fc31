//! Values that are fresh or stale, and leases to compute them: FETCH, UNLEASE, STALE. The options
//! STALE, PSTALE, NEGATIVE and TOKEN of SET are in `string/set.rs`.

use super::table::{commands, on_slab};
use crate::context::{Ctx, Spec};
use engine::lifetime::Unit;
use engine::refusal::{Answer, Refusal};
use session::spec::flag::{BLOCKING, FAST, READONLY, WRITE};
use session::spec::{Access, Form, Keys};
use settings::Id;
use store::{Freshness, Key, Kind, Leased, Soft, Tick, WINDOW_MS_MAX};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "string" [string]:
    "fetch" -2, READONLY | BLOCKING, Keys::ONE => Access::READ, "mayfly",
        on_slab!(fetch).of_replied_strings(),
        "key [LEASE lease-milliseconds] [WAIT wait-milliseconds]",
        "Returns the value of a key and whether it is fresh, and gives one client a lease to compute it.";
    "unlease" 3, READONLY | FAST, Keys::ONE => Access::READ, "mayfly", on_slab!(unlease),
        "key token", "Ends a lease without storing a value.";
    in "generic" [keyspace]:
    "stale" 3, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "mayfly", on_slab!(stale),
        "key (milliseconds | NEGATIVE)",
        "Sets the time before its deadline in which a key is stale, or marks it as negative.";
};

/// Maximum time of a lease or a wait in milliseconds, one hour.
const TIME_MS_MAX: i64 = 3_600_000;
/// Number of digits of a token.
const TOKEN_DIGITS: usize = 16;

const WRONG_LEASE: Refusal = Refusal::Message("ERR LEASE must be from 1 to 3600000 milliseconds");
const WRONG_WAIT: Refusal = Refusal::Message("ERR WAIT must be from 1 to 3600000 milliseconds");
const WRONG_TOKEN: Refusal =
    Refusal::Message("ERR a token has 16 hexadecimal digits, as FETCH returns it");
const WRONG_WINDOW: Refusal =
    Refusal::Message("ERR the stale time must be from 0 to 536870911 seconds");
const ON_REPLICA: Refusal = Refusal::Message("READONLY A replica gives no leases.");

const _: () = assert!(WINDOW_MS_MAX == 536_870_911_000);

/// Parses a token.
pub fn token(text: &[u8]) -> Result<u64, Refusal> {
    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
    let digits = std::str::from_utf8(text).ok();
    let digits =
        digits.filter(|text| text.len() == TOKEN_DIGITS && text.bytes().all(|b| is_digit(&b)));
    let token = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    token.ok_or(WRONG_TOKEN)
}

/// Parses the time in which a value is stale.
pub fn window(text: &[u8], unit: Unit) -> Result<Soft, Refusal> {
    let number = parse_i64(text).ok_or(Refusal::NotInteger)?;
    let ms = match unit {
        Unit::Seconds => number.checked_mul(1000),
        Unit::Milliseconds => Some(number),
    };
    let ms = ms.and_then(|ms| u64::try_from(ms).ok());
    let ms = ms.filter(|ms| *ms <= WINDOW_MS_MAX).ok_or(WRONG_WINDOW)?;
    Ok(Soft::window(ms))
}

/// Options of FETCH.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    lease_ms: Option<u64>,
    wait_ms: Option<u64>,
}

impl Wish {
    fn parse(args: Args<'_>) -> Result<Wish, Refusal> {
        let mut wish = Wish::default();
        let mut index = 2;
        while let Some(option) = args.get(index) {
            let number = args.get(index + 1).ok_or(Refusal::Syntax)?;
            let (ms, wrong) = match option.len() {
                5 if option.eq_ignore_ascii_case(b"LEASE") => (&mut wish.lease_ms, WRONG_LEASE),
                4 if option.eq_ignore_ascii_case(b"WAIT") => (&mut wish.wait_ms, WRONG_WAIT),
                _ => return Err(Refusal::Syntax),
            };
            if ms.is_some() {
                return Err(Refusal::Syntax);
            }
            let number = parse_i64(number).filter(|ms| (1..=TIME_MS_MAX).contains(ms));
            *ms = Some(number.ok_or(wrong)? as u64);
            index += 2;
        }
        Ok(wish)
    }
}

/// Returns the milliseconds until an instant, or -1 if there is none.
fn ms_until(instant: Option<Tick>, now: Tick) -> i64 {
    instant.map_or(-1, |instant| instant.0.saturating_sub(now.0) as i64)
}

/// Writes the reply of FETCH.
#[inline]
fn write(reply: &mut Reply<'_>, value: Option<&[u8]>, state: &str, ms: i64, token: Option<u64>) {
    reply.array(4);
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
    reply.bulk(state.as_bytes());
    reply.integer(ms);
    match token {
        Some(token) => reply.bulk(format!("{token:016x}").as_bytes()),
        None => reply.null(),
    }
}

/// `FETCH key [LEASE milliseconds] [WAIT milliseconds]`: replies with the value, its state,
/// milliseconds, and a token.
///
/// | state | value | milliseconds until |
/// |---|---|---|
/// | fresh | it | it is stale, or is removed if it is never stale |
/// | stale | it | it is removed |
/// | negative | what was stored | it is removed |
/// | missing | null | this client's lease ends; 0 without one |
/// | pending | null | another client's lease ends |
///
/// The token is that of this client's lease, which it gets with LEASE if the value is missing or
/// stale and no other client has one. With WAIT, a client for which the value is pending waits
/// until it is stored, or until the lease ends and the client can have one itself.
fn fetch(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let wish = Wish::parse(args)?;
    let key = ctx.key(&args[1]);
    let now = ctx.view.now();
    let stale = match ctx.view.fetch(&key)? {
        Some((value, Freshness::Fresh(until))) => {
            write(
                &mut ctx.reply,
                Some(value),
                "fresh",
                ms_until(until, now),
                None,
            );
            return Ok(());
        }
        Some((value, Freshness::Negative(until))) => {
            write(
                &mut ctx.reply,
                Some(value),
                "negative",
                ms_until(until, now),
                None,
            );
            return Ok(());
        }
        Some((_, Freshness::Stale(until))) => Some(until),
        None => None,
    };
    compute(ctx, args, &key, wish, stale)
}

/// Replies for a key whose value is stale until an instant, or missing.
fn compute(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    key: &Key<'_>,
    wish: Wish,
    stale: Option<Tick>,
) -> Answer {
    let now = ctx.view.now();
    let mut token = None;
    let mut until = ctx.view.leased_until(key);
    if let Some(lease_ms) = wish.lease_ms {
        let server = ctx.server;
        if server.replication.is_replica() && server.config.is_on(Id::ReplicaReadOnly) {
            return Err(ON_REPLICA);
        }
        match ctx.view.lease(key, lease_ms) {
            Leased::Yes(new) => (token, until) = (Some(new), Some(Tick(now.0 + lease_ms))),
            Leased::Another(end) => until = Some(end),
        }
    }
    if let Some(end) = stale {
        let value = ctx.view.view.peek(key)?;
        write(
            &mut ctx.reply,
            value,
            "stale",
            ms_until(Some(end), now),
            token,
        );
        return Ok(());
    }
    if token.is_none()
        && let (Some(until), Some(wait_ms)) = (until, wish.wait_ms)
        && ctx.wait_until(
            args,
            std::iter::once(&args[1]),
            Kind::String,
            wait_ms,
            Some(until),
        )
    {
        return Ok(());
    }
    ctx.missed(key);
    let state = match token.is_none() && until.is_some() {
        true => "pending",
        false => "missing",
    };
    let ms = until.map_or(0, |until| ms_until(Some(until), now));
    write(&mut ctx.reply, None, state, ms, token);
    Ok(())
}

/// `UNLEASE key token`: replies with 1 if the lease held, so that another client can have one now.
fn unlease(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let token = token(&args[2])?;
    let key = ctx.key(&args[1]);
    let has_ended = ctx.view.end_lease(&key, token);
    ctx.reply.integer(i64::from(has_ended));
    Ok(())
}

/// `STALE key milliseconds | NEGATIVE`: replies with 1 if there is such a key.
fn stale(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let soft = match args.is(2, "negative") {
        true => Soft::negative(),
        false => window(&args[2], Unit::Milliseconds)?,
    };
    let key = ctx.key(&args[1]);
    let old = ctx.view.soft(&key);
    if old.is_some_and(|old| old != soft) {
        ctx.view.view.set_soft(&key, soft);
    }
    ctx.reply.integer(i64::from(old.is_some()));
    Ok(())
}
