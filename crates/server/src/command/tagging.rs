//! Tags of keys: TAG, UNTAG, TAGS, TAGKEYS, INVALIDATE.

use super::key::scan::Visible;
use super::table::{commands, on_slab};
use crate::context::{Ctx, Spec};
use engine::refusal::{Answer, Refusal};
use session::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use session::spec::{Access, Form, Keys};
use store::{TAG_BYTES_MAX, TAGS_MAX, Tick};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "generic" [keyspace]:
    "invalidate" -3 [dangerous], WRITE => Form::Invalidated, Keys::Whole, "mayfly", on_slab!(invalidate),
        "numtags:integer tag... [SOFT milliseconds | SOFTAT unix-time-milliseconds]",
        "Removes all keys that have any of the given tags, at one instant, or makes them stale.";
    "tag" -3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(tag),
        "key tag...", "Adds tags to a key, by which INVALIDATE removes it.";
    "tagkeys" -2 [dangerous], READONLY, Keys::Whole, "mayfly", on_slab!(tagkeys),
        "tag [COUNT count]", "Returns the number of keys that have a tag, and some of them.";
    "tags" 2, READONLY | FAST, Keys::ONE => Access::READ, "mayfly", on_slab!(tags),
        "key", "Returns the tags of a key.";
    "untag" -2, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "mayfly", on_slab!(untag),
        "key [tag]...", "Removes tags from a key, or all of them.";
};

/// Number of keys that TAGKEYS returns without COUNT.
const COUNT_DEFAULT: usize = 100;
/// Maximum number of keys that TAGKEYS returns, about a millisecond.
const COUNT_MAX: i64 = 10_000;
/// Maximum number of tags of one INVALIDATE.
const INVALIDATED_MAX: usize = 10_000;

const NUMTAGS: Refusal = Refusal::Message("ERR numtags must be the number of tags that follow it");
const WRONG_TAG: Refusal = Refusal::Message("ERR a tag must have 1 to 1024 bytes");
const TOO_MANY: Refusal = Refusal::Message("ERR a key can have at most 14 tags");
const WRONG_SOFT: Refusal =
    Refusal::Message("ERR SOFT must be a positive number of milliseconds, SOFTAT an instant");

const _: () = assert!(TAG_BYTES_MAX == 1024);
const _: () = assert!(TAGS_MAX == 14);

/// Returns the tags after their number, which is the first argument.
pub fn counted(args: Args<'_>) -> Result<Args<'_>, Refusal> {
    let count = args.get(0).and_then(parse_i64);
    let count = count.and_then(|count| usize::try_from(count).ok());
    let tags = args.from(1);
    match count {
        Some(count) if (1..=tags.len()).contains(&count) => Ok(tags.first(count)),
        _ => Err(NUMTAGS),
    }
}

/// Checks the length of a tag.
fn check(tag: &[u8]) -> Answer {
    match (1..=TAG_BYTES_MAX).contains(&tag.len()) {
        true => Ok(()),
        false => Err(WRONG_TAG),
    }
}

/// Adds a tag to those of a key, unless it is there. Returns whether it was added.
fn add<'t>(tags: &mut Vec<&'t [u8]>, tag: &'t [u8]) -> Result<bool, Refusal> {
    check(tag)?;
    if tags.contains(&tag) {
        return Ok(false);
    }
    if tags.len() == TAGS_MAX {
        return Err(TOO_MANY);
    }
    tags.push(tag);
    Ok(true)
}

/// Returns tags without repetitions.
pub fn distinct(args: Args<'_>) -> Result<Vec<&[u8]>, Refusal> {
    let mut tags = Vec::new();
    for tag in args.iter() {
        add(&mut tags, tag)?;
    }
    Ok(tags)
}

/// `TAG key tag [tag …]`: replies with the number of tags that were added.
fn tag(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let wanted = distinct(args.from(2))?;
    let key = ctx.key(&args[1]);
    let old = ctx.view.tags(&key);
    let mut tags: Vec<&[u8]> = old.iter().flatten().map(Vec::as_slice).collect();
    let mut added = 0;
    for tag in wanted {
        added += i64::from(add(&mut tags, tag)?);
    }
    if old.is_none() {
        added = 0;
    } else if added > 0 {
        ctx.view.set_tags(&key, &tags);
    }
    ctx.reply.integer(added);
    Ok(())
}

/// `UNTAG key [tag …]`: replies with the number of tags that were removed.
fn untag(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let mut tags = ctx.view.tags(&key).unwrap_or_default();
    let before = tags.len();
    let unwanted = args.from(2);
    tags.retain(|tag| !unwanted.is_empty() && unwanted.iter().all(|one| one != tag.as_slice()));
    if tags.len() < before {
        ctx.view.set_tags(&key, &tags);
    }
    ctx.reply.integer((before - tags.len()) as i64);
    Ok(())
}

/// `TAGS key`: replies with the tags in the order in which they were added.
fn tags(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let tags = ctx.view.tags(&key).unwrap_or_default();
    ctx.reply.array(tags.len());
    tags.iter().for_each(|tag| ctx.reply.bulk(tag));
    Ok(())
}

/// `TAGKEYS tag [COUNT count]`: replies with the number of keys, and with at most COUNT of them.
fn tagkeys(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let count = match args.len() {
        2 => COUNT_DEFAULT,
        4 if args.is(2, "count") => {
            let count = parse_i64(&args[3]).filter(|count| (0..=COUNT_MAX).contains(count));
            count.ok_or(Refusal::Message("ERR COUNT must be from 0 to 10000"))? as usize
        }
        _ => return Err(Refusal::Syntax),
    };
    check(&args[1])?;
    let (db, mut listed) = (ctx.session.db, 0);
    let total = ctx.view.tagged_len(db, &args[1]);
    let mut found = ctx.reply.part();
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let visible = Visible::of(ctx.server);
    ctx.view.each_tagged(db, &args[1], count, &mut |name| {
        if visible.has(name) {
            list.bulk(name);
            listed += 1;
        }
    });
    ctx.reply.array(2);
    ctx.reply.integer(total as i64);
    ctx.reply.array(listed);
    ctx.reply.append(&found);
    Ok(())
}

/// Parses the time after SOFT, or the instant after SOFTAT. Returns the last instant at which keys
/// are stale.
fn soft_until(text: &[u8], is_instant: bool, now: Tick) -> Result<Tick, Refusal> {
    let number = parse_i64(text).filter(|number| *number > 0);
    let number = number.ok_or(WRONG_SOFT)? as u64;
    let until = if is_instant {
        number
    } else {
        now.0.saturating_add(number)
    };
    Ok(Tick(until).min(Tick::MAX))
}

/// `INVALIDATE numtags tag [tag …] [SOFT milliseconds | SOFTAT instant]`: replies with the number
/// of keys that had the tags. A key that had two of them counts twice.
fn invalidate(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let tags = counted(args.from(1))?;
    let options = args.from(2 + tags.len());
    let now = ctx.view.now();
    let soft_until = match options.len() {
        0 => None,
        2 if options.is(0, "soft") => Some(soft_until(&options[1], false, now)?),
        2 if options.is(0, "softat") => Some(soft_until(&options[1], true, now)?),
        _ => return Err(Refusal::Syntax),
    };
    if tags.len() > INVALIDATED_MAX {
        return Err(Refusal::Message(
            "ERR at most 10000 tags can be invalidated at once",
        ));
    }
    tags.iter().try_for_each(check)?;
    let tags: Vec<&[u8]> = tags.iter().collect();
    let keys = ctx.view.invalidate(ctx.session.db, &tags, soft_until);
    ctx.reply.integer(keys as i64);
    Ok(())
}
