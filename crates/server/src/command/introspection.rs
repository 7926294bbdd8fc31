//! COMMAND: information about the commands for clients.

use super::subcommand::{help, refuse_subcommand};
use super::syntax;
use super::table::commands;
use crate::context::{Ctx, Run, Spec};
use crate::glob;
use crate::spec::flag::{LOADING, STALE};
use crate::spec::{Keys, flag};
use crate::state::Server;
use wire::{Args, Protocol};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server":
    "command" -1, LOADING | STALE, Keys::None, "2.8.13", Run::any(command),
        "Returns detailed information about all commands.";
};

/// Text of COMMAND HELP.
const HELP: &[&str] = &[
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "LIST [FILTERBY (MODULE <module-name>|ACLCAT <cat>|PATTERN <pattern>)]",
    "    Return a list of all commands in this server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands. If no command names are given,",
    "    documentation details for all commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple commands.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full command.",
];

fn command(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let Some(word) = args.get(1).map(<[u8]>::to_ascii_lowercase) else {
        let specs = served(ctx).into_iter().map(Some).collect();
        return infos(ctx, specs);
    };
    match (&word[..], args.len()) {
        (b"count", 2) => ctx.reply.integer(served(ctx).len() as i64),
        (b"list", 2) => names(ctx, |_| true),
        (b"list", 5) if args.is(2, "filterby") => filtered(ctx, args),
        (b"list", _) => ctx.reply.error("ERR syntax error"),
        (b"info", 2) => {
            let specs = served(ctx).into_iter().map(Some).collect();
            infos(ctx, specs);
        }
        (b"info", _) => {
            let names = args.from(2).iter();
            let specs = names.map(|name| find(ctx, name)).collect();
            infos(ctx, specs);
        }
        (b"docs", 2) => {
            let specs = served(ctx);
            docs(ctx, specs);
        }
        (b"docs", _) => {
            let names = args.from(2).iter();
            let specs = names.filter_map(|name| find(ctx, name)).collect();
            docs(ctx, specs);
        }
        (b"getkeys", 3..) => keys(ctx, args.from(2), false),
        (b"getkeysandflags", 3..) => keys(ctx, args.from(2), true),
        (b"help", 2) => help(ctx, "COMMAND", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

/// Returns the commands that the storage engine serves.
fn served(ctx: &Ctx<'_, '_>) -> Vec<&'static Spec> {
    let all = ctx.table.iter();
    all.filter(|spec| serves(ctx.server, spec))
        .copied()
        .collect()
}

fn serves(server: &Server, spec: &Spec) -> bool {
    server.segments.is_none() || spec.run.is_on_segment()
}

fn find(ctx: &Ctx<'_, '_>, name: &[u8]) -> Option<&'static Spec> {
    // A subcommand is looked up as its container command.
    let end = name.iter().position(|byte| *byte == b'|');
    let index = ctx.table.lookup(&name[..end.unwrap_or(name.len())])?;
    let spec = ctx.table[index as usize];
    serves(ctx.server, spec).then_some(spec)
}

fn names(ctx: &mut Ctx<'_, '_>, is_wanted: impl Fn(&Spec) -> bool) {
    let found: Vec<_> = served(ctx)
        .into_iter()
        .filter(|spec| is_wanted(spec))
        .collect();
    ctx.reply.array(found.len());
    for spec in found {
        ctx.reply.bulk(spec.name.as_bytes());
    }
}

fn filtered(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let wanted = &args[4];
    match &args[3].to_ascii_lowercase()[..] {
        b"module" => names(ctx, |_| false),
        b"pattern" => names(ctx, |spec| {
            glob::matches(wanted, spec.name.as_bytes(), true)
        }),
        b"aclcat" => {
            let wanted = String::from_utf8_lossy(wanted).to_ascii_lowercase();
            names(ctx, |spec| categories(spec).contains(&wanted.as_str()));
        }
        _ => ctx.reply.error("ERR syntax error"),
    }
}

/// Returns the ACL categories of a command, derived from its flags and group.
pub(super) fn categories(spec: &Spec) -> Vec<&'static str> {
    let mut all = Vec::new();
    for (bits, name) in [
        (flag::WRITE, "write"),
        (flag::READONLY, "read"),
        (flag::ADMIN, "admin"),
        (flag::ADMIN, "dangerous"),
        (flag::PUBSUB, "pubsub"),
        (flag::FAST, "fast"),
        (flag::BLOCKING, "blocking"),
    ] {
        if spec.has(bits) {
            all.push(name);
        }
    }
    if !spec.has(flag::FAST) {
        all.push("slow");
    }
    // These commands read all keys or accept serialized values.
    const DANGEROUS: [&str; 7] = [
        "keys", "flushall", "flushdb", "swapdb", "sort", "sort_ro", "restore",
    ];
    if DANGEROUS.contains(&spec.name) {
        all.push("dangerous");
    }
    match spec.group {
        "generic" if spec.keys == Keys::Sort => all.extend(["list", "set", "sortedset"]),
        "generic" => all.push("keyspace"),
        "server" if spec.keys == Keys::Whole => all.push("keyspace"),
        "sorted-set" => all.push("sortedset"),
        group @ ("string" | "bitmap" | "hyperloglog" | "hash" | "list" | "set" | "geo") => {
            all.push(group)
        }
        "connection" => all.push("connection"),
        "transactions" => all.push("transaction"),
        _ => {}
    }
    all
}

fn infos(ctx: &mut Ctx<'_, '_>, specs: Vec<Option<&Spec>>) {
    ctx.reply.array(specs.len());
    for spec in specs {
        match spec {
            Some(spec) => info(ctx, spec),
            None => ctx.reply.null_array(),
        }
    }
}

/// Returns first key, last key and step as COMMAND reports them.
fn key_range(keys: Keys) -> (i64, i64, i64) {
    match keys {
        Keys::Range(first, last, step) => (i64::from(first), i64::from(last), i64::from(step)),
        Keys::FirstAndCounted(_) | Keys::FirstAndStored(_) | Keys::Sort => (1, 1, 1),
        _ => (0, 0, 0),
    }
}

fn info(ctx: &mut Ctx<'_, '_>, spec: &Spec) {
    let (first, last, step) = key_range(spec.keys);
    let is_movable = matches!(
        spec.keys,
        Keys::Counted(_) | Keys::FirstAndCounted(_) | Keys::CountedStep(..)
    );
    let mut flags: Vec<&str> = Vec::new();
    for (bit, name) in flag::NAMES {
        if spec.has(*bit) || (*bit == flag::MOVABLE_KEYS && is_movable) {
            flags.push(name);
        }
    }
    let reply = &mut ctx.reply;
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(i64::from(spec.arity));
    reply.set(flags.len());
    for name in flags {
        reply.simple(name);
    }
    for number in [first, last, step] {
        reply.integer(number);
    }
    let categories = categories(spec);
    reply.set(categories.len());
    for name in categories {
        reply.simple(&format!("@{name}"));
    }
    // Tips, key specifications, subcommands.
    reply.array(0);
    key_specs(ctx, spec);
    ctx.reply.array(0);
}

fn key_specs(ctx: &mut Ctx<'_, '_>, spec: &Spec) {
    let reply = &mut ctx.reply;
    let Keys::Range(first, last, step) = spec.keys else {
        return reply.array(0);
    };
    reply.array(1);
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    let is_write = spec.has(flag::WRITE);
    reply.simple(if is_write { "RW" } else { "RO" });
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(i64::from(first));
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    // Relative to the first key, or counted from the end.
    reply.integer(i64::from(if last < 0 { last } else { last - first }));
    reply.bulk(b"keystep");
    reply.integer(i64::from(step));
    reply.bulk(b"limit");
    reply.integer(0);
}

fn docs(ctx: &mut Ctx<'_, '_>, specs: Vec<&Spec>) {
    ctx.reply.map(specs.len());
    for spec in specs {
        ctx.reply.bulk(spec.name.as_bytes());
        let has_arguments = syntax::has_arguments(spec.name);
        ctx.reply.map(3 + usize::from(has_arguments));
        for (name, text) in [
            ("summary", spec.summary),
            ("since", spec.since),
            ("group", spec.group),
        ] {
            ctx.reply.bulk(name.as_bytes());
            ctx.reply.bulk(text.as_bytes());
        }
        if has_arguments {
            ctx.reply.bulk(b"arguments");
            syntax::write(&mut ctx.reply, spec.name);
        }
    }
}

fn keys(ctx: &mut Ctx<'_, '_>, args: Args<'_>, with_flags: bool) {
    let Some(spec) = find(ctx, args.name()) else {
        return ctx.reply.error("ERR Invalid command specified");
    };
    if !spec.accepts(args.len()) {
        return ctx
            .reply
            .error("ERR Invalid number of arguments specified for command");
    }
    let mut found = Vec::new();
    spec.keys.each(args, |index| found.push(index));
    if found.is_empty() {
        return ctx.reply.error("ERR The command has no key arguments");
    }
    ctx.reply.array(found.len());
    for index in found {
        if with_flags {
            ctx.reply.array(2);
        }
        ctx.reply.bulk(&args[index]);
        if with_flags {
            let is_write = spec.has(flag::WRITE);
            match ctx.session.protocol {
                Protocol::Resp2 => ctx.reply.array(1),
                Protocol::Resp3 => ctx.reply.set(1),
            }
            ctx.reply.simple(if is_write { "RW" } else { "RO" });
        }
    }
}
