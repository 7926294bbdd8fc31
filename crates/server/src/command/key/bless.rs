//! BLESS: protection of keys from eviction.

use super::scan::Visible;
use crate::command::scanning;
use crate::command::subcommand::{help, refuse_subcommand};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::Class;
use wire::{Args, Reply};

/// Number of keys that BLESS SCAN examines without COUNT, as in Redis.
const COUNT_DEFAULT: usize = 1024;
/// Maximum COUNT that is applied, so that a call is short.
const COUNT_MAX: usize = 4096;

const NO_KEY: Refusal = Refusal::Message("ERR no such key");

const HELP: &[&str] = &[
    "CLEAR <key> NO-EVICT",
    "    Make the key a candidate for eviction again.",
    "GET <key>",
    "    Return NO-EVICT if the key is protected from eviction.",
    "SCAN <cursor> NO-EVICT [COUNT <count>]",
    "    Return keys that are protected from eviction.",
    "SET <key> NO-EVICT",
    "    Protect the key from eviction.",
];

/// `BLESS SET | CLEAR key NO-EVICT`, `BLESS GET key`, `BLESS SCAN cursor NO-EVICT [COUNT count]`
pub fn bless(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    match (&args[1].to_ascii_lowercase()[..], args.len()) {
        (b"set", 4) => return change(ctx, args, true),
        (b"clear", 4) => return change(ctx, args, false),
        (b"get", 3) => {
            let key = ctx.key(&args[2]);
            let is_protected = ctx.view.is_protected(&key).ok_or(NO_KEY)?;
            ctx.reply.array(usize::from(is_protected));
            if is_protected {
                ctx.reply.bulk(b"NO-EVICT");
            }
        }
        (b"scan", 4..) => return scan(ctx, args),
        (b"help", 2) => help(ctx, "BLESS", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
    Ok(())
}

/// Replies whether the protection has changed.
fn change(ctx: &mut Ctx<'_, '_>, args: Args<'_>, is_protected: bool) -> Answer {
    if !args.is(3, "no-evict") {
        return Err(Refusal::Syntax);
    }
    let key = ctx.key(&args[2]);
    let is_changed = ctx.view.protect(&key, is_protected).ok_or(NO_KEY)?;
    if is_changed {
        let event = if is_protected { "bless" } else { "unbless" };
        ctx.view.notify(Class::Generic, event, &key);
    }
    ctx.reply.integer(i64::from(is_changed));
    Ok(())
}

fn scan(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let cursor = scanning::cursor(&args[2])?;
    let count = match args.len() {
        4 => COUNT_DEFAULT,
        6 if args.is(4, "count") => scanning::count(&args[5])?.min(COUNT_MAX),
        _ => return Err(Refusal::Syntax),
    };
    if !args.is(3, "no-evict") {
        return Err(Refusal::Syntax);
    }
    let (db, mut listed) = (ctx.session.db, 0);
    let mut found = ctx.reply.part();
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let visible = Visible::of(ctx.server);
    let next = ctx.view.scan_protected(db, cursor, count, &mut |name| {
        if visible.has(name) {
            list.bulk(name);
            listed += 1;
        }
    });
    scanning::reply_page(&mut ctx.reply, next, listed, &found);
    Ok(())
}
