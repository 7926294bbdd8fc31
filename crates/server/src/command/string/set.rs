//! Commands that store a string: SET, SETNX, SETEX, PSETEX, GETSET.

use crate::command::tagging;
use crate::context::Ctx;
use engine::Strings;
use engine::condition::Condition;
use engine::lifetime::{Base, DeadlineChange, Lifetime, Unit};
use engine::refusal::{Answer, Refusal};
use session::spec::Access;
use store::NewDeadline;
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
            if taken == 0 || wish.lifetime == Lifetime::Persist {
                return Err(Refusal::Syntax);
            }
            index += taken;
        }
        Ok(wish)
    }
}

/// `SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
/// [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | KEEPTTL] [TAGS n tag …]`
///
/// Without TAGS, the key has no tags afterwards, or its old ones with KEEPTTL.
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
    let old = wish.is_get.then_some(&mut ctx.reply);
    let is_stored = ctx
        .view
        .put(&key, &args[2], expiration, &wish.condition, old)?;
    if let Some(tags) = tags.filter(|_| is_stored) {
        ctx.view.set_tags(&key, &tags);
    }
    match (wish.is_get, is_stored) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
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
