//! Scripts: EVAL and its variants, SCRIPT, and functions.
//!
//! A script runs as one command: under the locks of its command, at one instant, with blocking
//! commands replying immediately. `host.rs` runs the commands that it calls.

pub mod functions;
mod host;
mod slots;

use super::inner::at_one_instant;
use super::subcommand::{help, refuse_subcommand};
use super::table::{commands, on_slab};
use crate::context::{Ctx, Held, Spec};
use crate::saving::work::refuses_writes;
use engine::refusal::{Answer, NO_PRIMARY, Refusal, refuse_full};
use host::{Limits, ScriptHost, is_stopping};
use script::{Digest, Engine, Flags, Script};
use session::scripting::Scripting;
use session::spec::flag::{
    CONTAINER, DENYOOM, LOADING, MAY_WRITE, MOVABLE_KEYS, NOSCRIPT, READONLY, STALE, WRITE,
};
use session::spec::{Access, Form, Keys};
use session::waiting::BlockingState;
use settings::Id;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use store::Full;
use wire::Args;
use wire::number::parse_i64;

const RUNS: u32 = NOSCRIPT | STALE | MOVABLE_KEYS;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "scripting" [scripting]:
    "eval" -3, RUNS | MAY_WRITE => Form::Inner, Keys::Script(2) => Access::UPDATE, "2.6.0",
        on_slab!(|ctx, args| eval(ctx, args, By::Body, false)),
        "script numkeys [key]... [arg]...", "Executes a Lua script.";
    "evalsha" -3, RUNS | MAY_WRITE => Form::Inner, Keys::Script(2) => Access::UPDATE, "2.6.0",
        on_slab!(|ctx, args| eval(ctx, args, By::Digest, false)),
        "sha1 numkeys [key]... [arg]...", "Executes a cached Lua script, given by its SHA-1 digest.";
    "eval_ro" -3, RUNS | READONLY, Keys::Script(2) => Access::READ, "7.0.0",
        on_slab!(|ctx, args| eval(ctx, args, By::Body, true)),
        "script numkeys [key]... [arg]...", "Executes a Lua script that does not write.";
    "evalsha_ro" -3, RUNS | READONLY, Keys::Script(2) => Access::READ, "7.0.0",
        on_slab!(|ctx, args| eval(ctx, args, By::Digest, true)),
        "sha1 numkeys [key]... [arg]...",
        "Executes a cached Lua script that does not write, given by its SHA-1 digest.";
    "script" -2, NOSCRIPT | CONTAINER, Keys::None, "2.6.0", on_slab!(script),
        "subcommand [argument]...", "A container for commands on the cache of Lua scripts."
    {
        "debug" 3, NOSCRIPT, Keys::None, "3.2.0",
            "(YES | SYNC | NO)", "Refused, because there is no debugger for scripts.";
        "exists" -3, NOSCRIPT, Keys::None, "2.6.0",
            "sha1...", "Returns whether scripts are in the cache.";
        "flush" -2, NOSCRIPT, Keys::None, "2.6.0",
            "[ASYNC | SYNC]", "Removes all scripts from the cache.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "kill" 2, NOSCRIPT, Keys::None, "2.6.0",
            "", "Ends the running script.";
        "load" 3, NOSCRIPT | STALE, Keys::None, "2.6.0",
            "script", "Adds a script to the cache.";
        "show" 3, NOSCRIPT | STALE, Keys::None, "Valkey",
            "sha1", "Returns the text of a script in the cache.";
    };
    "fcall" -3, RUNS | MAY_WRITE => Form::Inner, Keys::Script(2) => Access::UPDATE, "7.0.0",
        on_slab!(|ctx, args| functions::fcall(ctx, args, false)),
        "function numkeys [key]... [arg]...", "Calls a function of a library.";
    "fcall_ro" -3, RUNS | READONLY, Keys::Script(2) => Access::READ, "7.0.0",
        on_slab!(|ctx, args| functions::fcall(ctx, args, true)),
        "function numkeys [key]... [arg]...", "Calls a function of a library that does not write.";
    "function" -2, NOSCRIPT | CONTAINER, Keys::None, "7.0.0", on_slab!(functions::function),
        "subcommand [argument]...", "A container for commands on function libraries."
    {
        "delete" 3, WRITE | NOSCRIPT => Form::Library, Keys::None, "7.0.0",
            "library-name", "Deletes a library.";
        "dump" 2, NOSCRIPT, Keys::None, "7.0.0",
            "", "Returns all libraries in serialized form.";
        "flush" -2, WRITE | NOSCRIPT => Form::Library, Keys::None, "7.0.0",
            "[ASYNC | SYNC]", "Deletes all libraries.";
        "help" 2, LOADING | STALE, Keys::None, "7.0.0",
            "", "Returns help about the subcommands.";
        "kill" 2, NOSCRIPT, Keys::None, "7.0.0",
            "", "Ends the running function.";
        "list" -2, NOSCRIPT, Keys::None, "7.0.0",
            "[LIBRARYNAME library-name-pattern] [WITHCODE]", "Lists the libraries.";
        "load" -3, WRITE | DENYOOM | NOSCRIPT => Form::Library, Keys::None, "7.0.0",
            "[REPLACE] function-code", "Creates a library.";
        "restore" -3, WRITE | DENYOOM | NOSCRIPT => Form::Library, Keys::None, "7.0.0",
            "serialized-value [FLUSH | APPEND | REPLACE]", "Restores libraries from their serialized form.";
        "stats" 2, NOSCRIPT, Keys::None, "7.0.0",
            "", "Returns information about the running function.";
    };
};

/// Text of SCRIPT HELP.
const HELP: &[&str] = &[
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined",
    "    by the lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
    "SHOW <sha1>",
    "    Return the text of a script in the script cache.",
];

const NO_SCRIPT: Refusal = Refusal::Message("NOSCRIPT No matching script. Please use EVAL.");

/// Way in which a command names its script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Body,
    Digest,
}

/// Parses a digest in hexadecimal digits.
fn digest(text: &[u8]) -> Option<Digest> {
    if text.len() != 40 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut digest = [0; 20];
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(digest)
}

/// Returns the number of keys, which is checked against the number of arguments.
fn key_count(args: Args<'_>) -> Result<usize, Refusal> {
    let count = parse_i64(&args[2]).ok_or(Refusal::NotInteger)?;
    if count > args.len() as i64 - 3 {
        let text = "ERR Number of keys can't be greater than number of args";
        return Err(Refusal::Message(text));
    }
    let negative = Refusal::Message("ERR Number of keys can't be negative");
    usize::try_from(count).map_err(|_| negative)
}

/// Returns the script that a command names. A new one is compiled and added to the cache.
fn find(
    ctx: &Ctx<'_, '_>,
    engine: &mut Engine,
    text: &[u8],
    by: By,
) -> Result<Arc<Script>, String> {
    let cache = &ctx.server.scripting.cache;
    if by == By::Digest {
        let no_script = || "NOSCRIPT No matching script. Please use EVAL.".to_owned();
        let digest = digest(text).ok_or_else(no_script)?;
        let found = engine.find_digest(&digest).or_else(|| cache.get(&digest));
        return found.ok_or_else(no_script);
    }
    if let Some(found) = engine.find_body(text) {
        return Ok(found);
    }
    let script = Script::parse(text)?;
    match cache.get(script.digest()) {
        Some(found) => Ok(found),
        None => {
            engine.check(script.code())?;
            // A primary sends a script once, and then its digest.
            let is_of_feed = ctx.session.is_of_feed();
            match cache.add(script, is_of_feed) {
                Err(_) if is_of_feed => Ok(Arc::new(Script::parse(text)?)),
                added => added.map_err(|why| format!("ERR {why}")),
            }
        }
    }
}

/// Whether a call of a script or function names one that declares that it does not write. An
/// unknown one may write.
pub fn declares_no_writes(scripting: &Scripting, spec: &Spec, args: Args<'_>) -> bool {
    let flags = match (spec.name, args.get(1)) {
        ("eval", Some(text)) => Script::parse(text).ok().map(|script| script.flags()),
        ("evalsha", Some(text)) => digest(text)
            .and_then(|digest| scripting.cache.get(&digest))
            .map(|script| script.flags()),
        ("fcall", Some(name)) => scripting.libraries.flags_of(name),
        _ => None,
    };
    flags.is_some_and(|flags| flags.has(Flags::NO_WRITES))
}

fn eval(ctx: &mut Ctx<'_, '_>, args: Args<'_>, by: By, is_read_only: bool) -> Answer {
    let key_count = key_count(args)?;
    let server = ctx.server;
    let memory_bytes = memory_bytes(ctx);
    let start = ctx.reply.position();
    let result = server.scripting.with_engine(memory_bytes, |engine| {
        let script = find(ctx, engine, &args[1], by)?;
        server.scripting.cache.touch(&script);
        let limits = limits(ctx, script.flags(), is_read_only)?;
        let (finished, mut host) = call_in_script(ctx, |ctx| {
            let declared = args.from(3).first(key_count);
            let mut host = ScriptHost::new(ctx, limits, declared);
            let finished = engine.run(&script, key_count, args.from(3), &mut host);
            (finished, host.into_idle())
        });
        note_run(ctx);
        let written = finished.map(|finished| {
            let name = || script.hex().to_vec();
            engine.write(finished, name, &mut ctx.reply, &mut host)
        });
        ctx.session.is_error_counted = written?;
        Ok(())
    });
    if let Err(text) = result.and_then(|run| run) {
        ctx.reply.truncate(start);
        ctx.reply.error(&text);
    }
    Ok(())
}

/// Returns the permissions of a script with these flags, or the reason why it may not run.
fn limits(ctx: &mut Ctx<'_, '_>, flags: Flags, is_read_only: bool) -> Result<Limits, String> {
    let server = ctx.server;
    let is_compatible = flags.has(Flags::COMPATIBLE);
    let no_writes = flags.has(Flags::NO_WRITES);
    if ctx.session.is_of_feed() {
        return Ok(Limits {
            is_read_only: is_read_only || no_writes,
            needs_room: false,
            full: None,
            is_stale: false,
            crosses_slots: true,
        });
    }
    // A script without a first line is refused when it calls a command that writes.
    let may_not_write = !is_compatible && !no_writes;
    if let Some(error) = refuses_writes(server).filter(|_| may_not_write) {
        return Err(error.into());
    }
    let is_stale = server.replication.is_stale() && !server.config.is_on(Id::ReplicaServeStale);
    if is_stale && !flags.has(Flags::ALLOW_STALE) {
        return Err(NO_PRIMARY.into());
    }
    if is_read_only && !is_compatible && !no_writes {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    let is_read_only = is_read_only || no_writes;
    let may_grow = !is_read_only && !flags.has(Flags::ALLOW_OOM);
    // The error of a script that is held is not sent.
    let db = ctx.session.db;
    let full = match may_grow {
        true => ctx.make_room(db).map_err(|Held| "ERR writes are held")?,
        false => None,
    };
    if let Some(full) = full.filter(|_| !is_compatible) {
        let text = "OOM allow-oom flag is not set on the script, can not run it when used memory > \
                    'maxmemory'";
        return Err(match full {
            Full::Memory => text.to_owned(),
            Full::Database => refuse_full(&server.data.keyspace, db, full).into_owned(),
        });
    }
    Ok(Limits {
        is_read_only,
        needs_room: may_grow,
        full: full.map(|full| (db, full)),
        is_stale,
        crosses_slots: is_compatible || flags.has(Flags::ALLOW_CROSS_SLOT),
    })
}

/// Memory for a script that a primary or an append-only file contains. It ended where it ran first.
const FEED_MEMORY_BYTES: usize = 1 << 40;

/// Returns the number of bytes that a script may allocate.
fn memory_bytes(ctx: &Ctx<'_, '_>) -> usize {
    match ctx.session.is_of_feed() {
        true => FEED_MEMORY_BYTES,
        false => ctx.server.config.number(Id::ScriptMemoryLimit) as usize,
    }
}

/// Records that a command of a feed has run its script to the end, with any result. A script that
/// was aborted because the server is stopping does not count.
fn note_run(ctx: &mut Ctx<'_, '_>) {
    let is_ended = is_stopping(&ctx.server.data, &ctx.server.lifecycle);
    if let Some(feed) = &mut ctx.session.feed {
        feed.has_run_script = !is_ended;
    }
}

/// Runs a script in the state that commands of a script expect, and restores the session.
fn call_in_script<'a, 'v, R>(ctx: &mut Ctx<'a, 'v>, work: impl FnOnce(&mut Ctx<'a, 'v>) -> R) -> R {
    let blocking_state =
        std::mem::replace(&mut ctx.session.blocking_state, BlockingState::MustReply);
    let (db, protocol) = (ctx.session.db, ctx.session.protocol);
    ctx.session.runs_script = true;
    let result = at_one_instant(ctx, work);
    ctx.session.runs_script = false;
    ctx.session.db = db;
    ctx.session.protocol = protocol;
    ctx.session.blocking_state = blocking_state;
    result
}

fn script(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"load", 3) => load(ctx, &args[2]),
        (b"exists", 3..) => {
            ctx.reply.array(args.len() - 2);
            for text in args.from(2).iter() {
                let found = digest(text).and_then(|digest| ctx.server.scripting.cache.get(&digest));
                ctx.reply.integer(i64::from(found.is_some()));
            }
        }
        (b"flush", 2 | 3) => {
            if args.len() == 3 && !args.is(2, "async") && !args.is(2, "sync") {
                let text = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
                return Err(Refusal::Message(text));
            }
            ctx.server.scripting.cache.flush();
            ctx.reply.ok();
        }
        (b"show", 3) => {
            let found = digest(&args[2]).and_then(|digest| ctx.server.scripting.cache.get(&digest));
            let found = found.ok_or(NO_SCRIPT)?;
            ctx.reply.bulk(found.body());
        }
        (b"kill", 2) => return kill(ctx),
        (b"debug", 3) => {
            let text = "ERR SCRIPT DEBUG is not supported: this server has no debugger for scripts";
            return Err(Refusal::Message(text));
        }
        (b"help", 2) => help(ctx, "SCRIPT", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
    Ok(())
}

/// Compiles a script and adds it to the cache.
fn load(ctx: &mut Ctx<'_, '_>, text: &[u8]) {
    let scripting = &ctx.server.scripting;
    let memory_bytes = memory_bytes(ctx);
    let compiled = Script::parse(text).and_then(|script| {
        if scripting.cache.get(script.digest()).is_none() {
            scripting.with_engine(memory_bytes, |engine| engine.check(script.code()))??;
        }
        scripting
            .cache
            .add(script, true)
            .map_err(|why| format!("ERR {why}"))
    });
    match compiled {
        Ok(script) => ctx.reply.bulk(&script.hex()),
        Err(text) => ctx.reply.error(&text),
    }
}

/// Requests the end of the script that has run too long.
fn kill(ctx: &mut Ctx<'_, '_>) -> Answer {
    let scripting = &ctx.server.scripting;
    if !scripting.is_busy.load(Relaxed) {
        return Err(Refusal::Message(
            "NOTBUSY No scripts in execution right now.",
        ));
    }
    if scripting.has_written.load(Relaxed) {
        return Err(Refusal::Message(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You \
             can either wait the script termination or kill the server in a hard way using the \
             SHUTDOWN NOSAVE command.",
        ));
    }
    scripting.is_killed.store(true, Relaxed);
    ctx.reply.ok();
    Ok(())
}
