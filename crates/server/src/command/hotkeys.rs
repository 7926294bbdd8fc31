//! HOTKEYS: the keys that cost the most.

use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::context::{Ctx, Run, Spec, settle};
use engine::refusal::{Answer, Refusal};
use session::hotkeys::{Options, REPORTED_MAX, Weighted};
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, LOADING, NOSCRIPT, STALE};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "hotkeys" -2, ADMIN | NOSCRIPT | CONTAINER, Keys::None, "8.6.0",
        Run::any(|ctx, args| settle(ctx, args, hotkeys)),
        "subcommand [argument]...", "A container for commands that find the keys that cost the most."
    {
        "get" 2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
            "", "Returns the keys that cost the most.";
        "help" 2, LOADING | STALE, Keys::None, "8.6.1",
            "", "Returns help about the subcommands.";
        "reset" 2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
            "", "Deletes what was recorded.";
        "start" -2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
            "(METRICS count [CPU] [NET]) [COUNT k:integer] [DURATION seconds] [SAMPLE ratio:integer]",
            "Starts the recording of keys and what their commands cost.";
        "stop" 2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
            "", "Stops the recording.";
    };
};

/// Text of HOTKEYS HELP.
const HELP: &[&str] = &[
    "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
    "    Record the time (CPU) or the bytes (NET) of commands by key. COUNT is the number of keys",
    "    that GET returns, DURATION the time after which recording stops, and SAMPLE the number",
    "    of commands of which one is recorded.",
    "STOP",
    "    Stop recording.",
    "GET",
    "    Return the keys with the greatest sums.",
    "RESET",
    "    Forget the results.",
];

/// Maximum duration of a session in seconds.
const SECONDS_MAX: i64 = 1_000_000;

fn hotkeys(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let word = args[1].to_ascii_lowercase();
    let (hotkeys, now) = (&ctx.server.observability.hotkeys, ctx.view.now());
    match (&word[..], args.len()) {
        (b"start", _) => {
            let options = parse(args)?;
            if !hotkeys.start(options, now) {
                let text = "ERR hotkey tracking session already in progress";
                return Err(Refusal::Message(text));
            }
            ctx.reply.ok();
        }
        (b"stop", 2) if hotkeys.stop(now) => ctx.reply.ok(),
        (b"stop", 2) => ctx.reply.null(),
        (b"get", 2) => get(ctx),
        (b"reset", 2) if hotkeys.reset(now) => ctx.reply.ok(),
        (b"reset", 2) => {
            let text = "ERR hotkey tracking session in progress, stop tracking first";
            return Err(Refusal::Message(text));
        }
        (b"help", 2) => help(ctx, "HOTKEYS", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
    Ok(())
}

/// Parses a number within bounds.
fn number(text: Option<&[u8]>, low: i64, high: i64, error: &'static str) -> Result<i64, Refusal> {
    let number = text.and_then(parse_i64);
    let number = number.filter(|number| (low..=high).contains(number));
    number.ok_or(Refusal::Message(error))
}

fn parse(args: Args<'_>) -> Result<Options, Refusal> {
    if args.len() < 4 || !args.is(2, "metrics") {
        return Err(Refusal::Message("ERR METRICS parameter is required"));
    }
    let error = "ERR METRICS count must be > 0 and <= 2";
    let metrics = number(args.get(3), 1, 2, error)? as usize;
    let mut options = Options {
        records_time: false,
        records_bytes: false,
        count: 10,
        duration_ms: None,
        sample_ratio: 1,
    };
    for index in 4..4 + metrics {
        let (recorded, error) = if index >= args.len() {
            let text = "ERR METRICS count does not match number of metric types provided";
            return Err(Refusal::Message(text));
        } else if args.is(index, "cpu") {
            let error = "ERR METRICS CPU defined more than once!";
            (&mut options.records_time, error)
        } else if args.is(index, "net") {
            let error = "ERR METRICS NET defined more than once!";
            (&mut options.records_bytes, error)
        } else {
            continue;
        };
        if std::mem::replace(recorded, true) {
            return Err(Refusal::Message(error));
        }
    }
    if !options.records_time && !options.records_bytes {
        let text = "ERR METRICS no valid metrics passed. Supported: CPU|NET";
        return Err(Refusal::Message(text));
    }
    let mut index = 4 + metrics;
    while index < args.len() {
        let value = args.get(index + 1);
        if value.is_none() {
            return Err(Refusal::Syntax);
        } else if args.is(index, "count") {
            let error = "ERR COUNT must be between 1 and 64";
            options.count = number(value, 1, REPORTED_MAX as i64, error)? as usize;
        } else if args.is(index, "duration") {
            let error = "ERR DURATION must be between 1 and 1000000";
            let seconds = number(value, 1, SECONDS_MAX, error)?;
            options.duration_ms = Some(seconds as u64 * 1000);
        } else if args.is(index, "sample") {
            let error = "ERR SAMPLE ratio must be positive";
            options.sample_ratio = number(value, 1, i64::from(i32::MAX), error)? as u64;
        } else if args.is(index, "slots") {
            let text = "ERR SLOTS parameter cannot be used in non-cluster mode";
            return Err(Refusal::Message(text));
        } else {
            return Err(Refusal::Syntax);
        }
        index += 2;
    }
    Ok(options)
}

/// Replies with the results, in an array of one element as Redis does.
fn get(ctx: &mut Ctx<'_, '_>) {
    let Some(results) = ctx.server.observability.hotkeys.results(ctx.view.now()) else {
        return ctx.reply.null();
    };
    let options = results.options;
    let (has_time, has_bytes) = (options.records_time, options.records_bytes);
    let reply = &mut ctx.reply;
    reply.array(1);
    reply.map(7 + if has_time { 3 } else { 0 } + if has_bytes { 2 } else { 0 });
    pair(reply, "tracking-active", u64::from(results.is_active));
    pair(reply, "sample-ratio", options.sample_ratio);
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(16383);
    pair(reply, "all-commands-all-slots-us", results.micros);
    pair(reply, "net-bytes-all-commands-all-slots", results.bytes);
    pair(reply, "collection-start-time-unix-ms", results.started.0);
    pair(reply, "collection-duration-ms", results.duration_ms);
    if has_time {
        pair(reply, "total-cpu-time-user-ms", results.cpu_ms.0);
        pair(reply, "total-cpu-time-sys-ms", results.cpu_ms.1);
    }
    if has_bytes {
        pair(reply, "total-net-bytes", results.recorded_bytes);
    }
    if has_time {
        reply.bulk(b"by-cpu-time-us");
        list(reply, &results.by_micros);
    }
    if has_bytes {
        reply.bulk(b"by-net-bytes");
        list(reply, &results.by_bytes);
    }
}

fn pair(reply: &mut Reply<'_>, name: &str, number: u64) {
    reply.bulk(name.as_bytes());
    reply.integer(number as i64);
}

fn list(reply: &mut Reply<'_>, keys: &[Weighted]) {
    reply.array(keys.len() * 2);
    for one in keys {
        reply.bulk(&one.key);
        reply.integer(one.weight as i64);
    }
}
