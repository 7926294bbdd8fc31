//! CLASS: classes of keys, with their statistics and rules.

use super::config;
use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::context::{Ctx, Run, Spec};
use crate::info::classes::numbers;
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, LOADING, NOSCRIPT, STALE};
use settings::{Id, classes};
use store::{ClassFacts, ClassSums, SPAN_BINS};
use wire::{Args, Reply};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "class" -2, ADMIN | NOSCRIPT | LOADING | STALE | CONTAINER, Keys::None, "mayfly", Run::any(class),
        "subcommand [argument]...", "A container for commands on classes of keys."
    {
        "del" 3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "mayfly",
            "name", "Removes a class. Its keys stay.";
        "help" 2, LOADING | STALE, Keys::None, "mayfly",
            "", "Returns help about the subcommands.";
        "info" -2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "mayfly",
            "[name]", "Returns the statistics of classes.";
        "list" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "mayfly",
            "", "Returns the definitions of the classes.";
        "match" 3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "mayfly",
            "key:string", "Returns the class to which a key belongs.";
        "set" -5, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "mayfly",
            "name (option value)...", "Defines a class, or replaces its definition.";
    };
};

/// Text of CLASS HELP.
const HELP: &[&str] = &[
    "SET <name> [PREFIX <prefix>] [DB <number>] [TTL-DEFAULT <time>] [TTL-MAX <time>]",
    "    [TTL-JITTER <percentage>] [SLIDING <yes|no>] [MAXMEMORY <bytes>]",
    "    [MINMEMORY <bytes>] [POLICY <policy>]",
    "    Define a class of the keys with a prefix, in a database, or both.",
    "DEL <name>",
    "    Remove a class. Its keys stay.",
    "LIST",
    "    Return the definitions of the classes.",
    "INFO [<name>]",
    "    Return statistics of one class, or of all and of the keys that belong to none.",
    "MATCH <key>",
    "    Return the class to which a key of the selected database belongs.",
];

fn class(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"set", 5..) => set(ctx, args),
        (b"del", 3) => del(ctx, args),
        (b"list", 2) => {
            let classes = defined(ctx);
            ctx.reply.array(classes.rules().len());
            for rule in classes.rules() {
                ctx.reply.bulk(classes::show_rule(rule).as_bytes());
            }
        }
        (b"info", 2..=3) => info(ctx, args),
        (b"match", 3) => {
            let classes = defined(ctx);
            match classes.rules().get(classes.of(ctx.session.db, &args[2])) {
                Some(rule) => ctx.reply.bulk(rule.name.as_bytes()),
                None => ctx.reply.null(),
            }
        }
        (b"help", 2) => help(ctx, "CLASS", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

/// Returns the classes as the setting defines them.
fn defined(ctx: &Ctx<'_, '_>) -> store::Classes {
    classes::parse(&ctx.server.config.text(Id::Classes)).expect("the setting was checked")
}

/// `CLASS SET name option value …`
fn set(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let words: Vec<&[u8]> = args.from(2).iter().collect();
    let Ok(class) = String::from_utf8(words.join(&b' ')) else {
        let error = "ERR the definition is not valid UTF-8: write other bytes of a prefix as \\xHH";
        return ctx.reply.error(error);
    };
    let changed = ctx
        .unlocked(|server| config::edit(server, Id::Classes, |text| classes::with(text, &class)));
    match changed {
        Ok(()) => ctx.reply.ok(),
        Err(error) => ctx.reply.error(&format!("ERR {error}")),
    }
}

/// `CLASS DEL name`: replies with 1, or with 0 if there is no such class.
fn del(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let name = String::from_utf8_lossy(&args[2]);
    let mut is_removed = false;
    let changed = ctx.unlocked(|server| {
        config::edit(server, Id::Classes, |text| {
            let rest = classes::without(text, &name);
            is_removed = rest.is_some();
            Ok(rest.unwrap_or_else(|| text.to_owned()))
        })
    });
    match changed {
        Ok(()) => ctx.reply.integer(i64::from(is_removed)),
        Err(error) => ctx.reply.error(&format!("ERR {error}")),
    }
}

/// `CLASS INFO [name]`: replies with the statistics of a class, or with those of each by name.
fn info(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let sums = ctx.unlocked(|server| server.data.keyspace.class_sums());
    if let Some(name) = args.get(2) {
        let mut all = sums.facts().iter();
        return match all.find(|facts| facts.name.as_bytes() == name) {
            Some(facts) => write_facts(&mut ctx.reply, facts, &sums),
            None => ctx.reply.error("ERR there is no such class"),
        };
    }
    ctx.reply.map(sums.facts().len());
    for facts in sums.facts() {
        ctx.reply.bulk(facts.name.as_bytes());
        write_facts(&mut ctx.reply, facts, &sums);
    }
}

fn write_facts(reply: &mut Reply<'_>, facts: &ClassFacts, sums: &ClassSums) {
    let numbers = numbers(facts);
    reply.map(numbers.len() + 2);
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    reply.bulk(b"counting");
    reply.integer(i64::from(sums.is_counting()));
    // TTLs by the power of two of milliseconds below which they are.
    let bins = facts.counts.ttls.counts.iter().enumerate();
    let bins: Vec<(usize, u64)> = bins
        .filter(|(_, count)| **count > 0)
        .map(|(bin, count)| (bin, *count))
        .collect();
    reply.bulk(b"ttls");
    reply.map(bins.len());
    for (bin, count) in bins {
        let name = match bin + 1 == SPAN_BINS {
            true => "more".to_owned(),
            false => format!("lt_{}ms", 1u64 << bin),
        };
        reply.bulk(name.as_bytes());
        reply.integer(count as i64);
    }
}
