//! Commands about the server: INFO, TIME, MEMORY, and commands for features that do not exist here.

use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::context::{Ctx, Run, Spec};
use crate::{doctor, info};
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, FAST, LOADING, NOSCRIPT, STALE};
use settings::process;
use std::sync::atomic::Ordering::Relaxed;
use wire::Args;

const ALWAYS: u32 = LOADING | STALE;
const ADMIN_ALWAYS: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "info" -1 [dangerous], ALWAYS, Keys::None, "1.0.0", Run::any(info),
        "[section]...", "Returns information and statistics about the server.";
    "time" 1, ALWAYS | FAST, Keys::None, "2.6.0", Run::any(time),
        "", "Returns the server time.";
    "lolwut" -1 [read], ALWAYS | FAST, Keys::None, "5.0.0", Run::any(lolwut),
        "[VERSION version:integer]", "Displays the server's version and a piece of art.";
    "module" -2, ADMIN_ALWAYS | CONTAINER, Keys::None, "4.0.0", Run::any(module),
        "subcommand [argument]...", "A container for module commands."
    {
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "list" 2, ADMIN | NOSCRIPT, Keys::None, "4.0.0",
            "", "Lists the loaded modules, of which there are none.";
        "load" -3, ADMIN | NOSCRIPT, Keys::None, "4.0.0",
            "path [arg]...", "Refused, because modules are not supported.";
        "loadex" -3, ADMIN | NOSCRIPT, Keys::None, "7.0.0",
            "path [CONFIG name value]... [ARGS arg...]", "Refused, because modules are not supported.";
        "unload" 3, ADMIN | NOSCRIPT, Keys::None, "4.0.0",
            "name", "Refused, because modules are not supported.";
    };
};

fn info(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let wanted: Vec<&[u8]> = args.from(1).iter().collect();
    let table = ctx.table;
    let text = ctx.unlocked(|server| info::report(server, table, &wanted));
    ctx.reply.verbatim("txt", text.as_bytes());
}

fn time(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    let instant = ctx.session.instant_us;
    let now_us = instant.unwrap_or_else(|| ctx.server.clock.now_us());
    ctx.reply.array(2);
    ctx.reply.bulk((now_us / 1_000_000).to_string().as_bytes());
    ctx.reply.bulk((now_us % 1_000_000).to_string().as_bytes());
}

fn lolwut(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    let text = format!(
        "   \\ | /\n --=(o)=--   one day is enough\n   / | \\\n     |\n     '\n\nMayfly ver. {} (redis ver. {})\n",
        settings::version::VERSION,
        settings::version::REDIS_VERSION
    );
    ctx.reply.verbatim("txt", text.as_bytes());
}

/// Text of MODULE HELP.
const MODULE_HELP: &[&str] = &[
    "LIST",
    "    Return a list of loaded modules, of which there are none.",
];

fn module(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    match &args[1].to_ascii_lowercase()[..] {
        b"list" if args.len() == 2 => ctx.reply.array(0),
        b"help" if args.len() == 2 => help(ctx, "MODULE", MODULE_HELP),
        b"load" | b"loadex" | b"unload" => ctx.reply.error("ERR modules are not supported"),
        _ => refuse_subcommand(ctx, args, &["LIST", "LOAD", "UNLOAD"]),
    }
}

/// Runs the subcommands of MEMORY that concern the server. Returns false for any other.
pub fn memory(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> bool {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"purge", 2) => ctx.reply.ok(),
        (b"malloc-stats", 2) => ctx
            .reply
            .verbatim("txt", b"The allocator's statistics are not available.\n"),
        (b"doctor", 2) => {
            let table = ctx.table;
            let text = ctx.unlocked(|server| doctor::memory(server, table));
            ctx.reply.verbatim("txt", text.as_bytes());
        }
        (b"stats", 2) => memory_stats(ctx),
        _ => return false,
    }
    true
}

fn memory_stats(ctx: &mut Ctx<'_, '_>) {
    let (facts, used, buffers, keys) = ctx.unlocked(|server| {
        let now = server.clock.now();
        let keys = server.data.key_count(now);
        let buffers = server.data.client_bytes();
        (
            server.data.engine().memory_facts(),
            server.used_bytes(),
            buffers,
            keys,
        )
    });
    let peak = ctx.server.observability.stats.peak_bytes.load(Relaxed);
    let overhead = used.saturating_sub(facts.entry_bytes);
    let numbers = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", buffers),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("overhead.total", overhead),
        ("overhead.table", facts.table_bytes),
        ("overhead.policy", facts.policy_bytes),
        ("overhead.expiry", facts.expiry_bytes),
        ("overhead.tags", facts.tag_bytes),
        ("overhead.classes", facts.class_bytes),
        ("keys.count", keys),
        ("keys.bytes-per-key", used / keys.max(1)),
        ("dataset.bytes", facts.entry_bytes),
        ("arena.free", facts.arena_free_bytes),
        ("process.resident", process::resident_bytes()),
    ];
    ctx.reply.map(numbers.len());
    for (name, number) in numbers {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.integer(number as i64);
    }
}
