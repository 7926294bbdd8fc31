//! SLOWLOG and LATENCY.

use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::context::{Ctx, Run, Spec};
use crate::doctor;
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, LOADING, NOSCRIPT, STALE};
use wire::Args;
use wire::number::parse_i64;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "slowlog" -2, ADMIN | LOADING | STALE | CONTAINER, Keys::None, "2.2.12", Run::any(slowlog),
        "subcommand [argument]...", "A container for slow log commands."
    {
        "get" -2, ADMIN | LOADING | STALE, Keys::None, "2.2.12",
            "[count]", "Returns the latest slow commands.";
        "help" 2, LOADING | STALE, Keys::None, "6.2.0",
            "", "Returns help about the subcommands.";
        "len" 2, ADMIN | LOADING | STALE, Keys::None, "2.2.12",
            "", "Returns the number of recorded slow commands.";
        "reset" 2, ADMIN | LOADING | STALE, Keys::None, "2.2.12",
            "", "Deletes the recorded slow commands.";
    };
    "latency" -2, ADMIN | NOSCRIPT | LOADING | STALE | CONTAINER, Keys::None, "2.8.13", Run::any(latency),
        "subcommand [argument]...", "A container for latency diagnostics commands."
    {
        "doctor" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.8.13",
            "", "Returns a report about slow events.";
        "graph" 3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.8.13",
            "event", "Returns a graph of the slow events of one kind.";
        "help" 2, LOADING | STALE, Keys::None, "2.8.13",
            "", "Returns help about the subcommands.";
        "histogram" -2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "7.0.0",
            "[command]...", "Returns the distribution of the durations of commands.";
        "history" 3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.8.13",
            "event", "Returns the recent slow events of one kind.";
        "latest" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.8.13",
            "", "Returns the latest slow event of each kind.";
        "reset" -2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.8.13",
            "[event]...", "Deletes recorded slow events.";
    };
};

/// Text of SLOWLOG HELP.
const SLOWLOG_HELP: &[&str] = &[
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
];

/// Text of LATENCY HELP.
const LATENCY_HELP: &[&str] = &[
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of commands in histogram format.",
];

/// Number of entries that SLOWLOG GET returns without a count.
const SLOWLOG_DEFAULT: usize = 10;

fn slowlog(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"get", 2) => tell_slowlog(ctx, SLOWLOG_DEFAULT),
        (b"get", 3) => match parse_i64(&args[2]) {
            Some(-1) => tell_slowlog(ctx, usize::MAX),
            Some(count) if count >= 0 => tell_slowlog(ctx, count as usize),
            Some(_) => ctx
                .reply
                .error("ERR count should be greater than or equal to -1"),
            None => ctx
                .reply
                .error("ERR value is not an integer or out of range"),
        },
        (b"len", 2) => ctx
            .reply
            .integer(ctx.server.observability.slowlog.len() as i64),
        (b"reset", 2) => {
            ctx.server.observability.slowlog.reset();
            ctx.reply.ok();
        }
        (b"help", 2) => help(ctx, "SLOWLOG", SLOWLOG_HELP),
        _ => refuse_subcommand(ctx, args, SLOWLOG_HELP),
    }
}

fn tell_slowlog(ctx: &mut Ctx<'_, '_>, count: usize) {
    let entries = ctx.server.observability.slowlog.newest(count);
    let reply = &mut ctx.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.seconds as i64);
        reply.integer(entry.micros as i64);
        reply.array(entry.args.len());
        for arg in &entry.args {
            reply.bulk(arg);
        }
        reply.bulk(entry.address.as_bytes());
        reply.bulk(entry.name.as_bytes());
    }
}

fn latency(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"latest", 2) => latest(ctx),
        (b"history", 3) => history(ctx, &args[2]),
        (b"reset", _) => {
            let names: Vec<&[u8]> = args.from(2).iter().collect();
            let count = ctx.server.observability.latency.reset(&names);
            ctx.reply.integer(count as i64);
        }
        (b"doctor", 2) => {
            let table = ctx.table;
            let text = ctx.unlocked(|server| doctor::latency(server, table));
            ctx.reply.verbatim("txt", text.as_bytes());
        }
        (b"graph", 3) => match ctx.server.observability.latency.graph(&args[2]) {
            Some(text) => ctx.reply.verbatim("txt", text.as_bytes()),
            None => {
                let name = String::from_utf8_lossy(&args[2]);
                ctx.reply
                    .error(&format!("ERR No samples available for event '{name}'"));
            }
        },
        (b"histogram", _) => histogram(ctx, args),
        (b"help", 2) => help(ctx, "LATENCY", LATENCY_HELP),
        _ => refuse_subcommand(ctx, args, LATENCY_HELP),
    }
}

fn latest(ctx: &mut Ctx<'_, '_>) {
    let events = ctx.server.observability.latency.events();
    ctx.reply.array(events.len());
    for (name, history) in events {
        let last = history.samples.back();
        ctx.reply.array(4);
        ctx.reply.bulk(name.as_bytes());
        ctx.reply
            .integer(last.map_or(0, |last| last.seconds as i64));
        ctx.reply.integer(last.map_or(0, |last| last.ms as i64));
        ctx.reply.integer(history.max_ms as i64);
    }
}

fn history(ctx: &mut Ctx<'_, '_>, name: &[u8]) {
    let events = ctx.server.observability.latency.events();
    let found = events
        .iter()
        .find(|(event, _)| event.as_bytes().eq_ignore_ascii_case(name));
    let Some((_, history)) = found else {
        return ctx.reply.array(0);
    };
    ctx.reply.array(history.samples.len());
    for sample in &history.samples {
        ctx.reply.array(2);
        ctx.reply.integer(sample.seconds as i64);
        ctx.reply.integer(sample.ms as i64);
    }
}

fn histogram(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    // Unknown names are ignored, and the name of a container includes its subcommands, as in Redis.
    let is_wanted = |name: &str| {
        let container = name.split('|').next().unwrap_or(name).as_bytes();
        args.len() == 2
            || args.from(2).iter().any(|wanted| {
                wanted.eq_ignore_ascii_case(name.as_bytes())
                    || wanted.eq_ignore_ascii_case(container)
            })
    };
    let found: Vec<_> = ctx
        .table
        .names()
        .filter(|(_, name)| is_wanted(name))
        .map(|(index, name)| (name, ctx.server.observability.stats.latency(index)))
        .filter(|(_, summary)| summary.total > 0)
        .collect();
    ctx.reply.map(found.len());
    for (name, summary) in found {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.map(2);
        ctx.reply.bulk(b"calls");
        ctx.reply.integer(summary.total as i64);
        ctx.reply.bulk(b"histogram_usec");
        let octaves = summary.octaves();
        ctx.reply.map(octaves.len());
        for (bound, count) in octaves {
            ctx.reply.integer(bound as i64);
            ctx.reply.integer(count as i64);
        }
    }
}
