//! Functions: FCALL, FCALL_RO and FUNCTION.

use super::host::{IdleHost, Origin, ScriptHost};
use super::{call_in_script, key_count, kill, limits, memory_bytes, note_run};
use crate::command::subcommand::{help, refuse_subcommand};
use crate::context::Ctx;
use crate::state::Server;
use engine::refusal::{Answer, Refusal};
use script::{Library, LibraryMap};
use settings::Id;
use std::sync::Arc;
use wire::dump::{read_libraries, write_libraries};
use wire::{Args, glob};

/// Text of FUNCTION HELP.
const HELP: &[&str] = &[
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
];

/// Replies with an error whose text is not constant.
fn settled(ctx: &mut Ctx<'_, '_>, start: usize, result: Result<(), String>) -> Answer {
    if let Err(text) = result {
        ctx.reply.truncate(start);
        ctx.reply.error(&text);
    }
    Ok(())
}

/// Calls a function.
pub fn fcall(ctx: &mut Ctx<'_, '_>, args: Args<'_>, is_read_only: bool) -> Answer {
    let key_count = match key_count(args) {
        Err(Refusal::NotInteger) => {
            return Err(Refusal::Message("ERR Bad number of keys provided"));
        }
        other => other?,
    };
    let (server, name) = (ctx.server, &args[1]);
    let memory_bytes = memory_bytes(ctx);
    let start = ctx.reply.position();
    let result = server.scripting.with_functions(memory_bytes, |engine| {
        let libraries = &server.scripting.libraries;
        let found = engine.find_function(libraries, name, || {
            IdleHost::loading(server, Origin::Registry)
        })?;
        let flags = found.ok_or_else(|| "ERR Function not found".to_owned())?;
        let limits = limits(ctx, flags, is_read_only)?;
        let (finished, mut host) = call_in_script(ctx, |ctx| {
            let declared = args.from(3).first(key_count);
            let mut host = ScriptHost::new(ctx, limits, declared);
            let finished = engine.call_function(name, key_count, args.from(3), &mut host);
            (finished, host.into_idle())
        });
        note_run(ctx);
        let written = finished
            .map(|finished| engine.write(finished, || name.to_vec(), &mut ctx.reply, &mut host));
        ctx.session.is_error_counted = written?;
        Ok(())
    });
    settled(ctx, start, result.and_then(|run| run))
}

/// Runs FUNCTION, and frees the libraries that it has removed. Other threads do so within a second.
pub fn function(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let answer = run(ctx, args);
    ctx.server.scripting.free_removed();
    answer
}

fn run(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let word = args[1].to_ascii_lowercase();
    let start = ctx.reply.position();
    match (&word[..], args.len()) {
        (b"load", 3..) => {
            let code = args.len() - 1;
            let mut options = 2..code;
            if let Some(at) = options.find(|at| !args.is(*at, "replace")) {
                let option = String::from_utf8_lossy(&args[at]).into_owned();
                ctx.reply
                    .error_fmt(format_args!("ERR Unknown option given: {option}"));
                return Ok(());
            }
            let result = load(ctx, &args[code], code > 2);
            return settled(ctx, start, result);
        }
        (b"delete", 3) => {
            let removed = ctx.server.scripting.libraries.change(|map| {
                let removed = map.remove(&args[2]);
                removed
                    .map(|_| ())
                    .ok_or_else(|| "ERR Library not found".into())
            });
            if removed.is_ok() {
                ctx.reply.ok();
            }
            return settled(ctx, start, removed);
        }
        (b"flush", 2 | 3) => {
            if args.len() == 3 && !args.is(2, "async") && !args.is(2, "sync") {
                let text = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
                return Err(Refusal::Message(text));
            }
            let flushed = ctx.server.scripting.libraries.change(|map| {
                map.clear();
                Ok(())
            });
            ctx.reply.ok();
            return settled(ctx, start, flushed);
        }
        (b"dump", 2) => {
            let all = ctx.server.scripting.libraries.all();
            ctx.reply.bulk(&write_libraries(
                all.values().map(|library| &library.code[..]),
            ));
        }
        (b"restore", 3 | 4) => {
            let result = restore(ctx, args);
            return settled(ctx, start, result);
        }
        (b"list", _) => return list(ctx, args.from(2)),
        (b"stats", 2) => stats(ctx),
        (b"kill", 2) => return kill(ctx),
        (b"help", 2) => help(ctx, "FUNCTION", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
    Ok(())
}

/// Runs the code of a library on this thread to find its functions.
fn try_library(server: &Server, code: &[u8], origin: Origin) -> Result<Library, String> {
    let memory_bytes = server.config.number(Id::ScriptMemoryLimit) as usize;
    let mut library = Library::parse(code)?;
    server.scripting.with_functions(memory_bytes, |engine| {
        engine.try_library(&mut library, &mut IdleHost::loading(server, origin))
    })??;
    Ok(library)
}

/// Adds a library, or replaces one if that is allowed.
fn insert(map: &mut LibraryMap, library: Library, replaces: bool) -> Result<(), String> {
    if !replaces && map.contains_key(&library.name) {
        let name = String::from_utf8_lossy(&library.name).into_owned();
        return Err(format!("ERR Library '{name}' already exists"));
    }
    map.insert(library.name.clone(), Arc::new(library));
    Ok(())
}

/// Returns the origin of a library that a session sends.
fn origin(ctx: &Ctx<'_, '_>) -> Origin {
    match ctx.session.is_of_feed() {
        true => Origin::Server,
        false => Origin::Client,
    }
}

/// Adds the library of a snapshot file, or replaces one of the same name.
///
/// # Errors
/// The code is not a library's, or a function has the same name as another library's function.
pub fn load_library(server: &Server, code: &[u8]) -> Result<(), String> {
    let library = try_library(server, code, Origin::Server)?;
    let libraries = &server.scripting.libraries;
    libraries.change(|map| insert(map, library, true))
}

fn load(ctx: &mut Ctx<'_, '_>, code: &[u8], replaces: bool) -> Result<(), String> {
    let library = try_library(ctx.server, code, origin(ctx))?;
    ctx.reply.bulk(&library.name);
    let libraries = &ctx.server.scripting.libraries;
    libraries.change(|map| insert(map, library, replaces))
}

/// Restores libraries from the payload of FUNCTION DUMP, all or none of them.
fn restore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Result<(), String> {
    let policy = args.get(3).unwrap_or(b"append").to_ascii_lowercase();
    if !matches!(&policy[..], b"flush" | b"append" | b"replace") {
        let text =
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
        return Err(text.into());
    }
    let codes = read_libraries(&args[2])
        .map_err(|_| "ERR DUMP payload version or checksum are wrong".to_owned())?;
    let origin = origin(ctx);
    let try_code = |code: &Vec<u8>| try_library(ctx.server, code, origin);
    let restored: Result<Vec<Library>, String> = codes.iter().map(try_code).collect();
    let restored = restored?;
    ctx.server.scripting.libraries.change(|map| {
        if policy == b"flush" {
            map.clear();
        }
        for library in restored {
            insert(map, library, policy == b"replace")?;
        }
        Ok(())
    })?;
    ctx.reply.ok();
    Ok(())
}

fn list(ctx: &mut Ctx<'_, '_>, options: Args<'_>) -> Answer {
    let (mut pattern, mut has_code, mut at) = (None, false, 0);
    while at < options.len() {
        if options.is(at, "withcode") && !has_code {
            has_code = true;
        } else if options.is(at, "libraryname") && pattern.is_none() {
            at += 1;
            let missing = Refusal::Message("ERR library name argument was not given");
            pattern = Some(options.get(at).ok_or(missing)?);
        } else {
            let option = String::from_utf8_lossy(&options[at]).into_owned();
            ctx.reply
                .error_fmt(format_args!("ERR Unknown argument {option}"));
            return Ok(());
        }
        at += 1;
    }
    let all = ctx.server.scripting.libraries.all();
    let is_wanted = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| glob::matches(pattern, &library.name, false))
    };
    let wanted: Vec<&Arc<Library>> = all.values().filter(is_wanted).collect();
    let reply = &mut ctx.reply;
    reply.array(wanted.len());
    for library in wanted {
        reply.map(if has_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(&library.name);
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&function.name);
            reply.bulk(b"description");
            match &function.description {
                Some(text) => reply.bulk(text),
                None => reply.null(),
            }
            reply.bulk(b"flags");
            reply.set(function.flags.names().count());
            for name in function.flags.names() {
                reply.simple(name);
            }
        }
        if has_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn stats(ctx: &mut Ctx<'_, '_>) {
    let all = ctx.server.scripting.libraries.all();
    let functions: usize = all.values().map(|library| library.functions.len()).sum();
    let reply = &mut ctx.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    reply.null();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(all.len() as i64);
    reply.bulk(b"functions_count");
    reply.integer(functions as i64);
}
