//! Commands that store a string: SET, SETNX, SETEX, PSETEX, GETSET.

use crate::command::{fetching, tagging};
use crate::context::Ctx;
use engine::Strings;
use engine::condition::Condition;
use engine::lifetime::{Base, DeadlineChange, Lifetime, Unit};
use engine::refusal::{Answer, Refusal};
use session::spec::Access;
use store::{NewDeadline, Soft, Tick};
use wire::Args;

/// Change of a deadline that removes it.
pub(super) const FOREVER: DeadlineChange = DeadlineChange::To(NewDeadline::Clear);

/// Returns how SET uses its key. With an option such as IFEQ or GET, it also reads the value.
pub fn access(args: Args<'_>) -> Access {
    let reads = |at: usize| {
        let words = ["get", "ifeq", "ifne", "ifdeq", "ifdne"];
        words.iter().any(|word| args.is(at, word))
    };
    match (3..args.len()).any(reads) {
        true => Access::UPDATE,
        false => Access::OVERWRITE,
    }
}

/// Options of SET.
#[derive(Clone, Copy, Debug, Default)]
struct Wish<'a> {
    lifetime: Lifetime<'a>,
    condition: Condition<'a>,
    /// GET: the reply is the old value.
    is_get: bool,
    /// TAGS: the tags that the key will have.
    tags: Option<Args<'a>>,
    /// STALE, PSTALE or NEGATIVE: the freshness that the key will have.
    soft: Option<Soft>,
    /// TOKEN: the lease that must hold.
    token: Option<u64>,
}

impl<'a> Wish<'a> {
    /// Parses the options after `SET key value`.
    fn parse(args: Args<'a>) -> Result<Wish<'a>, Refusal> {
        let mut wish = Wish::default();
        let mut index = 3;
        while let Some(option) = args.get(index) {
            let next = args.get(index + 1);
            let mut taken = wish.lifetime.take(option, next)?;
            if taken == 0 {
                taken = wish.condition.take(option, next)?;
            }
            if taken == 0 && option.eq_ignore_ascii_case(b"GET") {
                wish.is_get = true;
                taken = 1;
            }
            if taken == 0 && wish.tags.is_none() && option.eq_ignore_ascii_case(b"TAGS") {
                let tags = tagging::counted(args.from(index + 1))?;
                taken = 2 + tags.len();
                wish.tags = Some(tags);
            }
            if taken == 0 {
                taken = wish.take_lease_option(option, next)?;
            }
            if taken == 0 || wish.lifetime == Lifetime::Persist {
                return Err(Refusal::Syntax);
            }
            index += taken;
        }
        wish.check()?;
        Ok(wish)
    }

    /// Parses an option about freshness. Returns the number of its arguments, or 0 if it is none.
    fn take_lease_option(
        &mut self,
        option: &[u8],
        next: Option<&'a [u8]>,
    ) -> Result<usize, Refusal> {
        let number = || next.ok_or(Refusal::Syntax);
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if is("TOKEN") && self.token.is_none() {
            self.token = Some(fetching::token(number()?)?);
            return Ok(2);
        }
        if self.soft.is_some() {
            return Ok(0);
        }
        let (soft, taken) = match option.len() {
            5 if is("STALE") => (fetching::window(number()?, Unit::Seconds)?, 2),
            6 if is("PSTALE") => (fetching::window(number()?, Unit::Milliseconds)?, 2),
            8 if is("NEGATIVE") => (Soft::negative(), 1),
            _ => return Ok(0),
        };
        self.soft = Some(soft);
        Ok(taken)
    }

    /// Refuses options that do not go together. A value is stale after a time, so that it needs
    /// one, and the old value as the reply would not say whether the token was valid.
    fn check(&self) -> Answer {
        let is_stale_later = self.soft.is_some_and(|soft| !soft.is_negative);
        match self.lifetime {
            Lifetime::Until(..) => {}
            _ if is_stale_later => return Err(Refusal::Syntax),
            _ => {}
        }
        match self.token.is_some() && self.is_get {
            true => Err(Refusal::Syntax),
            false => Ok(()),
        }
    }
}

/// `SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
/// [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | KEEPTTL] [TAGS n tag …]`
///
/// `[STALE seconds | PSTALE milliseconds | NEGATIVE] [TOKEN token]`
///
/// Without TAGS, the key has no tags afterwards, or its old ones with KEEPTTL.
///
/// With STALE, the value is fresh until the instant that EX or another option gives, and is kept
/// for that time beyond it.
///
/// With a deadline in the past, the value is stored and expires immediately; the event `expired` is
/// published.
pub fn set<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    if args.len() == 3 {
        ctx.view
            .put(&key, &args[2], FOREVER, &Condition::Always, None)?;
        ctx.reply.ok();
        return Ok(());
    }
    let wish = Wish::parse(args)?;
    let expiration =
        wish.lifetime
            .deadline_change(ctx.view.instants(), "set", NewDeadline::Clear)?;
    let tags = wish.tags.map(tagging::distinct).transpose()?;
    if tags.is_some() {
        ctx.view.check_tags()?;
    }
    if wish.soft.is_some() || wish.token.is_some() {
        ctx.view.check_soft()?;
    }
    if let Some(token) = wish.token
        && !ctx.view.permits(&key, token, tags.as_deref())
    {
        ctx.reply.null();
        return Ok(());
    }
    let fresh_until = match expiration {
        DeadlineChange::To(NewDeadline::At(at)) => Some(at),
        _ => None,
    };
    let expiration = prolonged(expiration, wish.soft);
    let old = wish.is_get.then_some(&mut ctx.reply);
    let is_stored = ctx
        .view
        .put(&key, &args[2], expiration, &wish.condition, old)?;
    if let Some(tags) = tags.filter(|_| is_stored) {
        ctx.view.set_tags(&key, &tags);
    }
    if let Some(mut soft) = wish.soft.filter(|_| is_stored) {
        // The class of the key may have given it an earlier deadline.
        if let (Some(fresh_until), Some(Some(deadline))) = (fresh_until, ctx.view.deadline(&key)) {
            let left_ms = deadline.0.saturating_sub(fresh_until.0);
            soft.window_ms = soft.window_ms.min(left_ms);
        }
        ctx.view.set_soft(&key, soft);
    }
    match (wish.is_get, is_stored) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

/// Adds the time in which a value is stale to its deadline.
fn prolonged(expiration: DeadlineChange, soft: Option<Soft>) -> DeadlineChange {
    match (expiration, soft) {
        (DeadlineChange::To(NewDeadline::At(at)), Some(soft)) => {
            let at = Tick(at.0.saturating_add(soft.window_ms)).min(Tick::MAX);
            DeadlineChange::To(NewDeadline::At(at))
        }
        _ => expiration,
    }
}

/// `SETNX key value`
pub fn setnx<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let is_stored = ctx
        .view
        .put(&key, &args[2], FOREVER, &Condition::Absent, None)?;
    ctx.reply.integer(i64::from(is_stored));
    Ok(())
}

/// `SETEX key seconds value`
pub fn setex<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    store_until(ctx, args, Unit::Seconds, "setex")
}

/// `PSETEX key milliseconds value`
pub fn psetex<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    store_until(ctx, args, Unit::Milliseconds, "psetex")
}

fn store_until<E: Strings>(
    ctx: &mut Ctx<'_, '_, E>,
    args: Args<'_>,
    unit: Unit,
    command: &'static str,
) -> Answer {
    let lifetime = Lifetime::Until(unit, Base::Now, &args[2]);
    let expiration = lifetime.deadline_change(ctx.view.instants(), command, NewDeadline::Clear)?;
    let key = ctx.key(&args[1]);
    ctx.view
        .put(&key, &args[3], expiration, &Condition::Always, None)?;
    ctx.reply.ok();
    Ok(())
}

/// `GETSET key value`
pub fn getset<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let old = Some(&mut ctx.reply);
    ctx.view
        .put(&key, &args[2], FOREVER, &Condition::Always, old)?;
    Ok(())
}
