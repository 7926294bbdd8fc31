//! Commands on keys of any type: DEL, EXISTS, TYPE, TOUCH, RENAME, COPY, MOVE.

use crate::context::Ctx;
use engine::Strings;
use engine::refusal::{Answer, Refusal, check_memory, refuse_full};
use store::{Class, Full, Kind};
use wire::Args;
use wire::number::parse_i64;

/// Parses the index of a database.
fn database(ctx: &Ctx<'_, '_>, text: &[u8]) -> Result<u8, Refusal> {
    let index = parse_i64(text).ok_or(Refusal::NotInteger)?;
    if i32::try_from(index).is_err() {
        return Err(Refusal::Message(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    database_at(ctx, index)
}

/// Checks the index of a database.
pub(super) fn database_at(ctx: &Ctx<'_, '_>, index: i64) -> Result<u8, Refusal> {
    u8::try_from(index)
        .ok()
        .filter(|&index| usize::from(index) < ctx.server.data.engine().databases())
        .ok_or(Refusal::DatabaseRange)
}

/// `DEL key [key …]` and `UNLINK key [key …]`: both free memory in steps.
pub fn del<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let mut count = 0;
    for name in args.from(1).iter() {
        let key = ctx.key(name);
        count += i64::from(ctx.view.remove(&key));
    }
    ctx.reply.integer(count);
    Ok(())
}

/// `EXISTS key [key …]`: a key that occurs twice counts twice.
pub fn exists<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    count_read(ctx, args)
}

/// `TOUCH key [key …]`
pub fn touch<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    count_read(ctx, args)
}

fn count_read<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let mut count = 0;
    for name in args.from(1).iter() {
        let key = ctx.key(name);
        if ctx.view.contains(&key) {
            count += 1;
        } else {
            ctx.view.missed(&key);
        }
    }
    ctx.reply.integer(count);
    Ok(())
}

/// Returns the name of a type as TYPE and SCAN use it.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::List => "list",
        Kind::Set => "set",
        Kind::SortedSet => "zset",
        Kind::Hash => "hash",
        Kind::Stream => "stream",
    }
}

/// `TYPE key`
pub fn type_of<E: Strings>(ctx: &mut Ctx<'_, '_, E>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match ctx.view.kind(&key) {
        Some(kind) => ctx.reply.simple(kind_name(kind)),
        None => {
            ctx.reply.simple("none");
            ctx.view.missed(&key);
        }
    }
    Ok(())
}

/// `RENAME key newkey`
pub fn rename(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    move_name(ctx, args, true)?;
    ctx.reply.ok();
    Ok(())
}

/// `RENAMENX key newkey`
pub fn renamenx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let is_done = move_name(ctx, args, false)?;
    ctx.reply.integer(i64::from(is_done));
    Ok(())
}

/// Renames a key. Returns whether it did. A rename to the same name changes nothing and publishes
/// no event.
fn move_name(ctx: &mut Ctx<'_, '_>, args: Args<'_>, may_replace: bool) -> Result<bool, Refusal> {
    let (from, to) = (ctx.key(&args[1]), ctx.key(&args[2]));
    if ctx.view.kind(&from).is_none() {
        return Err(Refusal::Message("ERR no such key"));
    }
    if from.bytes == to.bytes {
        return Ok(false);
    }
    // The lookup also expires a destination whose deadline has passed, with its event, before it is
    // replaced.
    let old = ctx.view.kind(&to);
    if old.is_some() && !may_replace {
        return Ok(false);
    }
    ctx.view.rename(&from, &to);
    ctx.view.notify(Class::New, "new", &to);
    ctx.view.notify(Class::Generic, "rename_from", &from);
    ctx.view.notify(Class::Generic, "rename_to", &to);
    ctx.view.notify_overwritten(&to, old);
    Ok(true)
}

/// Returns the number of the database that COPY names.
pub fn copied_to(args: Args<'_>) -> Option<u8> {
    let is_db = |at: &usize| args[*at].eq_ignore_ascii_case(b"DB");
    let at = (3..args.len()).find(is_db)?;
    let number = parse_i64(args.get(at + 1)?)?;
    u8::try_from(number).ok()
}

/// `COPY source destination [DB database] [REPLACE]`
pub fn copy(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut db = ctx.session.db;
    let mut may_replace = false;
    let mut index = 3;
    while let Some(option) = args.get(index) {
        if option.eq_ignore_ascii_case(b"REPLACE") {
            may_replace = true;
        } else if option.eq_ignore_ascii_case(b"DB") && index + 1 < args.len() {
            index += 1;
            db = database(ctx, &args[index])?;
        } else {
            return Err(Refusal::Syntax);
        }
        index += 1;
    }
    let (from, to) = (ctx.key(&args[1]), ctx.key_in(db, &args[2]));
    if from.db == to.db && from.bytes == to.bytes {
        return Err(Refusal::SameObject);
    }
    if !ctx.view.touch(&from) {
        ctx.missed(&from);
        ctx.reply.integer(0);
        return Ok(());
    }
    let old = ctx.view.kind(&to);
    if old.is_some() && !may_replace {
        ctx.reply.integer(0);
        return Ok(());
    }
    let bytes = ctx.view.facts(&from).map_or(0, |facts| facts.bytes);
    check_memory(bytes)?;
    ctx.view.copy(&from, &to);
    ctx.view.notify(Class::New, "new", &to);
    ctx.view.notify(Class::Generic, "copy_to", &to);
    ctx.view.notify_overwritten(&to, old);
    ctx.reply.integer(1);
    Ok(())
}

/// `MOVE key database`
pub fn move_key(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let db = database(ctx, &args[2])?;
    let (from, to) = (ctx.key(&args[1]), ctx.key_in(db, &args[1]));
    if from.db == to.db {
        return Err(Refusal::SameObject);
    }
    let is_done = ctx.view.kind(&from).is_some() && ctx.view.kind(&to).is_none();
    let space = &ctx.server.data.keyspace;
    if is_done && !ctx.session.is_of_feed() && space.is_full_for_good(db) {
        // Any number of keys could be moved.
        ctx.reply.error(&refuse_full(space, db, Full::Database));
        return Ok(());
    }
    if is_done {
        ctx.view.rename(&from, &to);
        ctx.view.notify(Class::New, "new", &to);
        ctx.view.notify(Class::Generic, "move_from", &from);
        ctx.view.notify(Class::Generic, "move_to", &to);
    }
    ctx.reply.integer(i64::from(is_done));
    Ok(())
}
