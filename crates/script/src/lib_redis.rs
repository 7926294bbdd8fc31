//! The library `redis`.

use crate::direct::{KEPT_BYTES_MAX, command_function};
use crate::failure::{error_table, number_of, raise_table};
use crate::header::Flags;
use crate::lend;
use crate::library::Registered;
use crate::number::integral;
use crate::reply::to_lua;
use crate::sha1::{hex, sha1};
use crate::state::{Purpose, State};
use mlua::{Function, Lua, MultiValue, Table, Value};
use std::rc::Rc;
use wire::number::Text;
use wire::{Args, Output, Protocol, Span};

/// Maximum number of functions in a library.
const FUNCTIONS_MAX: usize = 10_000;
/// Maximum total size in bytes of the names and descriptions of a library's functions.
const REGISTERED_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a log line in bytes.
const LOG_BYTES_MAX: usize = 1024;
/// Error if a command called by a script itself calls a command.
const RUNS_ALREADY: &str = "ERR a command of the script is already running";

/// Creates the library. `version` is the reported version of Redis.
pub fn create(
    lua: &Lua,
    state: &Rc<State>,
    version: &str,
    purpose: Purpose,
) -> mlua::Result<Table> {
    let library = basis(lua, version)?;
    for (name, value) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        library.raw_set(name, value)?;
    }
    let shared = Rc::clone(state);
    let call = lua.create_function(move |lua, args| command(lua, &shared, &args, true))?;
    library.raw_set("call", command_function(lua, state, call)?)?;
    let shared = Rc::clone(state);
    let pcall = lua.create_function(move |lua, args| command(lua, &shared, &args, false))?;
    library.raw_set("pcall", command_function(lua, state, pcall)?)?;
    let shared = Rc::clone(state);
    let acl = lua.create_function(move |lua, args| may_call(lua, &shared, &args))?;
    library.raw_set("acl_check_cmd", acl)?;
    let shared = Rc::clone(state);
    let setresp = lua.create_function(move |_, args| set_protocol(&shared, &args))?;
    library.raw_set("setresp", setresp)?;
    library.raw_set("error_reply", lua.create_function(error_reply)?)?;
    library.raw_set("status_reply", lua.create_function(status_reply)?)?;
    let shared = Rc::clone(state);
    let digest = lua.create_function(move |_, args| sha1hex(&shared, &args))?;
    library.raw_set("sha1hex", digest)?;
    library.raw_set("set_repl", lua.create_function(set_replication)?)?;
    if purpose == Purpose::Functions {
        return Ok(library);
    }
    // A script always replicates its effects, and there is no debugger.
    library.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    library.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    library.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    Ok(library)
}

/// Creates the library as seen by a function library's code while it is being loaded.
pub fn create_for_loading(lua: &Lua, state: &Rc<State>, version: &str) -> mlua::Result<Table> {
    let library = basis(lua, version)?;
    let shared = Rc::clone(state);
    let register = lua.create_function(move |_, args| register(&shared, &args))?;
    library.raw_set("register_function", register)?;
    Ok(library)
}

/// Creates the functions and constants that both variants of the library have.
fn basis(lua: &Lua, version: &str) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REDIS_VERSION_NUM", version_number(version)),
    ] {
        library.raw_set(name, value)?;
    }
    library.raw_set("REDIS_VERSION", version)?;
    library.raw_set("log", lua.create_function(log)?)?;
    Ok(library)
}

/// Returns the version as one number, with a byte for each part.
fn version_number(version: &str) -> u32 {
    let parts = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    parts.fold(0, |number, part| number << 8 | part & 255)
}

/// Appends an argument of a command. Returns false if it is neither a string nor a number.
fn push_argument(value: &Value, input: &mut Vec<u8>) -> bool {
    match value {
        Value::String(text) => input.extend_from_slice(&text.as_bytes()),
        Value::Integer(number) => input.extend_from_slice(Text::integer(*number).as_bytes()),
        Value::Number(number) => match integral(*number) {
            Some(whole) => input.extend_from_slice(Text::integer(whole).as_bytes()),
            None => input.extend_from_slice(Text::double(*number).as_bytes()),
        },
        _ => return false,
    }
    true
}

/// Copies the arguments into one buffer.
fn gather(
    args: &MultiValue,
    input: &mut Vec<u8>,
    spans: &mut Vec<Span>,
    bytes_max: usize,
) -> Result<(), &'static str> {
    input.clear();
    spans.clear();
    let len = |value: &Value| value.as_string().map_or(0, |text| text.as_bytes().len());
    if args.iter().map(len).sum::<usize>() > bytes_max {
        return Err("ERR the arguments of the command exceed script-memory-limit");
    }
    if args.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    for value in args.iter() {
        let start = input.len();
        if !push_argument(value, input) {
            return Err("ERR Lua redis lib command arguments must be strings or integers");
        }
        // Positions have 32 bits.
        if u32::try_from(input.len()).is_err() {
            return Err("ERR the arguments of the command exceed 4 GiB");
        }
        let len = (input.len() - start) as u32;
        spans.push(Span {
            start: start as u32,
            len,
        });
    }
    Ok(())
}

/// Runs `redis.call`, which raises errors, or `redis.pcall`, which returns them. If the command has
/// already run, only its reply is converted.
fn command(lua: &Lua, state: &State, args: &MultiValue, raises: bool) -> mlua::Result<Value> {
    state.check_killed()?;
    if !state.has_reply.take()
        && let Err(text) = perform(state, args)?
    {
        return fail(lua, text.as_bytes(), raises);
    }
    let Ok(mut output) = state.output.try_borrow_mut() else {
        return fail(lua, RUNS_ALREADY.as_bytes(), raises);
    };
    if output.is_cut_off() {
        *output = Output::default();
        return fail(
            lua,
            b"ERR the reply of the command exceeds script-memory-limit",
            raises,
        );
    }
    let converted = match output.strip_prefix(b"-") {
        Some(text) => {
            let text = text.strip_suffix(b"\r\n").unwrap_or(text);
            if raises {
                return Err(raise_table(text, true));
            }
            error_table(lua, text, true).map(Value::Table)
        }
        None => {
            let bytes: &[u8] = &output;
            let convert = || to_lua(lua, bytes, 0).map(|found| found.0);
            state.unlimited(lua, bytes.len(), convert)
        }
    };
    if output.capacity() > KEPT_BYTES_MAX {
        *output = Output::default();
    }
    converted
}

/// Runs a command and leaves its reply in the buffer. The inner error is the text with which the
/// command was refused.
fn perform(state: &State, args: &MultiValue) -> mlua::Result<Result<(), &'static str>> {
    let (Ok(mut input), Ok(mut spans), Ok(mut output)) = (
        state.input.try_borrow_mut(),
        state.spans.try_borrow_mut(),
        state.output.try_borrow_mut(),
    ) else {
        return Ok(Err(RUNS_ALREADY));
    };
    output.clear();
    let bytes_max = state.memory_bytes.get();
    if let Err(text) = gather(args, &mut input, &mut spans, bytes_max) {
        return Ok(Err(text));
    }
    output.set_max(bytes_max);
    let (args, protocol) = (Args::new(&input, &spans), state.protocol.get());
    let called = lend::with(|host| host.call(args, protocol, &mut output));
    input.shrink_to(KEPT_BYTES_MAX);
    let Some(ended) = called else {
        return Ok(Err(
            "ERR redis.call can only be called inside a script invocation",
        ));
    };
    state.killed.set(ended);
    state.check_killed().map(Ok)
}

/// Raises or returns an error.
fn fail(lua: &Lua, text: &[u8], raises: bool) -> mlua::Result<Value> {
    if raises {
        return Err(raise_table(text, false));
    }
    Ok(Value::Table(error_table(lua, text, false)?))
}

fn may_call(lua: &Lua, state: &State, args: &MultiValue) -> mlua::Result<Value> {
    let (mut input, mut spans) = (state.input.borrow_mut(), state.spans.borrow_mut());
    if let Err(text) = gather(args, &mut input, &mut spans, state.memory_bytes.get()) {
        return fail(lua, text.as_bytes(), true);
    }
    let args = Args::new(&input, &spans);
    match lend::with(|host| host.may_call(args)) {
        Some(Ok(may)) => Ok(Value::Boolean(may)),
        Some(Err(text)) => fail(lua, format!("ERR {text}").as_bytes(), true),
        None => fail(lua, b"ERR no script is running", true),
    }
}

fn set_protocol(state: &State, args: &MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(raise_table(
            "ERR redis.setresp() requires one argument.",
            false,
        ));
    }
    match number_of(args.front()) {
        Some(2.0) => state.protocol.set(Protocol::Resp2),
        Some(3.0) => state.protocol.set(Protocol::Resp3),
        _ => return Err(raise_table("ERR RESP version must be 2 or 3.", false)),
    }
    Ok(())
}

/// Returns the only argument if it is a string.
fn only_text(args: &MultiValue) -> Option<Vec<u8>> {
    match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

fn error_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Table> {
    let Some(text) = only_text(&args) else {
        return error_table(lua, b"ERR wrong number or type of arguments", false);
    };
    // A text of one word is not a code, so that it gets one.
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    let trimmed = text.strip_suffix(b"\n").unwrap_or(text);
    let trimmed = trimmed.strip_suffix(b"\r").unwrap_or(trimmed);
    if trimmed.contains(&b' ') {
        return error_table(lua, trimmed, false);
    }
    error_table(lua, &[b"ERR ", trimmed].concat(), false)
}

fn status_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Table> {
    let Some(text) = only_text(&args) else {
        return error_table(lua, b"ERR wrong number or type of arguments", false);
    };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", lua.create_string(&text)?)?;
    Ok(table)
}

fn log(_: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        let text = "ERR redis.log() requires two arguments or more.";
        return Err(raise_table(text, false));
    }
    let Some(level) = number_of(args.front()) else {
        let text = "ERR First argument must be a number (log level).";
        return Err(raise_table(text, false));
    };
    if !(0.0..=3.0).contains(&level) {
        return Err(raise_table("ERR Invalid log level.", false));
    }
    let mut text = Vec::new();
    for value in args.iter().skip(1) {
        let start = text.len();
        if start > LOG_BYTES_MAX {
            break;
        }
        if start > 0 {
            text.push(b' ');
        }
        if let Value::String(part) = value {
            let part = part.as_bytes();
            text.extend_from_slice(&part[..part.len().min(LOG_BYTES_MAX)]);
        } else if !push_argument(value, &mut text) {
            text.truncate(start);
        }
    }
    text.truncate(LOG_BYTES_MAX);
    lend::with(|host| host.log(level as u8, &text));
    Ok(())
}

fn sha1hex(state: &State, args: &MultiValue) -> mlua::Result<String> {
    if args.len() != 1 {
        return Err(raise_table("ERR wrong number of arguments", false));
    }
    let mut text = Vec::new();
    if let Some(value) = args.front() {
        push_argument(value, &mut text);
    }
    state.work(text.len())?;
    let digits = hex(&sha1(&text));
    Ok(String::from_utf8_lossy(&digits).into_owned())
}

/// Checks the flags of `redis.set_repl`. Nothing is replicated.
fn set_replication(_: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(raise_table(
            "ERR redis.set_repl() requires one argument.",
            false,
        ));
    }
    let flags = number_of(args.front()).unwrap_or(0.0);
    if !(0.0..4.0).contains(&flags) {
        let text = "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or \
                    REPL_NONE.";
        return Err(raise_table(text, false));
    }
    Ok(())
}

/// Rejects a call of `redis.register_function`.
fn refuse<T>(text: &str) -> mlua::Result<T> {
    Err(raise_table(format!("ERR {text}"), false))
}

/// Runs `redis.register_function`, with a name and a function or with a table.
fn register(state: &State, args: &MultiValue) -> mlua::Result<()> {
    let mut registered = state.registered.borrow_mut();
    let Some(registered) = registered.as_mut() else {
        return refuse("redis.register_function can only be called on FUNCTION LOAD command");
    };
    if registered.len() >= FUNCTIONS_MAX {
        return refuse("the library registers more than 10000 functions");
    }
    let mut name = Vec::new();
    let (function, callback) = match (args.front(), args.get(1)) {
        (Some(Value::Table(table)), None) => named(table)?,
        (Some(_), None) => {
            return refuse(
                "calling redis.register_function with a single argument is only applicable to Lua \
                 table (representing named arguments).",
            );
        }
        _ if args.len() != 2 => {
            return refuse("wrong number of arguments to redis.register_function");
        }
        (Some(given), _) if !push_argument(given, &mut name) => {
            return refuse("first argument to redis.register_function must be a string");
        }
        (_, Some(Value::Function(callback))) => (with_name(&name), callback.clone()),
        _ => return refuse("second argument to redis.register_function must be a function"),
    };
    let size = |function: &Registered| {
        function.name.len() + function.description.as_ref().map_or(0, Vec::len)
    };
    let others: usize = registered.iter().map(|(function, _)| size(function)).sum();
    if others + size(&function) > REGISTERED_BYTES_MAX {
        return refuse("the names and descriptions of the library's functions exceed 1 MB");
    }
    registered.push((function, callback));
    Ok(())
}

fn with_name(name: &[u8]) -> Registered {
    Registered {
        name: name.to_vec(),
        description: None,
        flags: Flags::default(),
    }
}

/// Reads the named arguments of `redis.register_function`.
fn named(table: &Table) -> mlua::Result<(Registered, Function)> {
    let mut function = with_name(b"");
    let mut callback = None;
    table.for_each(|key: Value, value: Value| {
        let key = key
            .as_string()
            .map(|key| key.as_bytes().to_vec())
            .unwrap_or_default();
        match (&key[..], value) {
            (b"function_name", value) => {
                if !push_argument(&value, &mut function.name) {
                    return refuse(
                        "function_name argument given to redis.register_function must be a string",
                    );
                }
            }
            (b"description", Value::String(text)) => {
                function.description = Some(text.as_bytes().to_vec());
            }
            (b"description", _) => {
                return refuse(
                    "description argument given to redis.register_function must be a string",
                );
            }
            (b"callback", Value::Function(given)) => callback = Some(given),
            (b"callback", _) => {
                return refuse(
                    "callback argument given to redis.register_function must be a function",
                );
            }
            (b"flags", Value::Table(flags)) => {
                for index in 1..=flags.raw_len() {
                    let name: Value = flags.raw_get(index)?;
                    let name = name
                        .as_string()
                        .and_then(|name| Flags::named(&name.as_bytes()));
                    match name {
                        Some(flag) => function.flags.add(flag),
                        None => return refuse("unknown flag given"),
                    }
                }
            }
            (b"flags", _) => {
                return refuse(
                    "flags argument to redis.register_function must be a table representing \
                     function flags",
                );
            }
            _ => return refuse("unknown argument given to redis.register_function"),
        }
        Ok(())
    })?;
    if function.name.is_empty() {
        return refuse("redis.register_function must get a function name argument");
    }
    match callback {
        Some(callback) => Ok((function, callback)),
        None => refuse("redis.register_function must get a callback argument"),
    }
}
