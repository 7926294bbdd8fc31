//! A Lua state in which scripts run.
//!
//! The interpreter is the original Lua 5.1.5, without the fixes that Redis made to its copy. The
//! sandbox (`prelude.lua`) prevents scripts from reaching the faulty code:
//!
//! - The parser does not keep a chunk's name alive (CVE-2025-49844). Names are arguments of the
//!   function that calls the parser, or values in the registry. The parser reads a single string,
//!   so that no function of the script runs during parsing.
//! - `unpack` computes the number of results in 32 bits (CVE-2025-46817). The sandbox's own version
//!   first computes it as a number and rejects numbers that do not fit.
//! - The lexer counts the equals signs of a long bracket in 32 bits (CVE-2025-46819). A script's
//!   code has at most 64 MiB, and its body is at most as long as an argument, 1 GiB.
//! - Metatables of basic types are shared by all scripts (CVE-2025-46818). The metatable of strings
//!   is read-only, as is the one of arrays decoded by `cjson`. The other types have none, and
//!   `setmetatable` accepts only tables.
//! - Bytecode is not verified. `string.dump` does not exist, and loading bytecode is refused.
//! - Finalizers (`__gc`) could run while the state is being closed. Scripts have no `newproxy`.

mod functions;
mod natives;

use crate::cache::{Digest, Script};
use crate::direct::{self, Parts};
use crate::failure::is_counted;
use crate::host::Host;
use crate::reply::{ERROR_KIND, Writer};
use crate::state::{Failure, Purpose, State};
use crate::{lend, lib_bit, lib_cmsgpack, lib_json, lib_redis, lib_struct};
use mlua::chunk::ChunkMode;
use mlua::{Either, Function, HookTriggers, IntoLua, Lua, LuaOptions, LuaString};
use mlua::{StdLib, Table, Value, Variadic, VmState};
use natives::natives;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use wire::{Args, Protocol, Reply};

/// Lua code that builds the environment.
const PRELUDE: &str = include_str!("prelude.lua");
/// Maximum number of keys and arguments that are passed on Lua's stack.
const STACK_ARGS_MAX: usize = 64;
/// Memory that function libraries may keep between calls, as a multiple of the memory that one run
/// may allocate.
const KEPT_RUNS: usize = 4;
/// Growth of the state in bytes, beyond twice its size, that triggers an immediate garbage
/// collection.
const GROWTH_BYTES: usize = 4 << 20;

/// Options of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Version reported as `redis.REDIS_VERSION`.
    pub version: &'static str,
    /// Maximum memory in bytes that a running script may allocate.
    pub memory_bytes: usize,
}

/// Reason why a script cannot run: the text of the error reply without the leading `-`.
pub type Refusal = String;

/// Argument whose conversion turns the memory limit on, after the other arguments were pushed.
struct LimitOn(usize);

impl IntoLua for LimitOn {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        lua.set_memory_limit(self.0)?;
        Ok(Value::Nil)
    }
}

/// Values returned by the prelude's functions: whether the script succeeded, its value, and how to
/// convert a table.
type Returned = (bool, Value, Option<u8>, Value);

/// Result of a finished script that has not been written yet.
pub struct Finished(End);

/// Outcome of a script.
enum End {
    /// The script succeeded. Its value is on Lua's stack.
    OnStack,
    /// The script failed.
    Failed,
    /// Outcome as returned by the prelude's functions.
    General(mlua::Result<Returned>),
}

/// A compiled script.
struct Compiled {
    script: Arc<Script>,
    chunk: u32,
}

/// A Lua state with its compiled scripts. It stays on one thread.
pub struct Engine {
    lua: Lua,
    state: Rc<State>,
    parts: Parts,
    /// Prelude function that calls a library function.
    call: Function,
    /// Prelude function that runs a script or function with many keys and arguments.
    run_tables: Function,
    load: Function,
    kind_of: Function,
    /// Prelude function that restores the prelude's state after a failure.
    reset: Function,
    /// Prelude function that sets the memory limit.
    limit: Function,
    purpose: Purpose,
    functions: functions::Functions,
    by_digest: HashMap<Digest, Compiled>,
    by_body: HashMap<Arc<[u8]>, Digest>,
    /// The script that ran last.
    last: Option<(Arc<Script>, u32)>,
    free_chunks: Vec<u32>,
    chunk_count: u32,
    /// Number of compiled scripts at which those evicted from the cache are removed.
    sweep_at: usize,
    /// Size of the state after the last garbage collection.
    settled_bytes: usize,
    memory_bytes: usize,
}

/// Returns the text of one of the binding's errors, without the traceback after its first line.
fn text_of(error: &mlua::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("runtime error: ").unwrap_or(line);
    let line = line.strip_prefix("syntax error: ").unwrap_or(line);
    line.strip_prefix("memory error: ")
        .unwrap_or(line)
        .to_owned()
}

impl Engine {
    /// Number of instructions between two calls of [`Host::tick`].
    pub const TICK_INSTRUCTIONS: u32 = 2_000;

    /// Creates a state for EVAL scripts.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(options: &Options) -> Result<Engine, Refusal> {
        Engine::build(options, Purpose::Scripts).map_err(|error| format!("ERR {}", text_of(&error)))
    }

    /// Creates a state for function libraries.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn for_functions(options: &Options) -> Result<Engine, Refusal> {
        Engine::build(options, Purpose::Functions)
            .map_err(|error| format!("ERR {}", text_of(&error)))
    }

    fn build(options: &Options, purpose: Purpose) -> mlua::Result<Engine> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let state = Rc::new(State::new(options.memory_bytes));
        let tables = lua.create_table()?;
        tables.raw_set(
            "redis",
            lib_redis::create(&lua, &state, options.version, purpose)?,
        )?;
        let array_metatable = lua.create_table()?;
        tables.raw_set("cjson", lib_json::create(&lua, &state, &array_metatable)?)?;
        tables.raw_set("cmsgpack", lib_cmsgpack::create(&lua, &state)?)?;
        tables.raw_set("struct", lib_struct::create(&lua, &state)?)?;
        tables.raw_set("bit", lib_bit::create(&lua)?)?;
        let prelude = lua.load(PRELUDE).set_name("=prelude").into_function()?;
        let native = natives(&lua, &state)?;
        native.raw_set("array_metatable", array_metatable)?;
        if purpose == Purpose::Functions {
            let library = lib_redis::create_for_loading(&lua, &state, options.version)?;
            native.raw_set("redis_of_loading", library)?;
        }
        native.raw_set("memory_bytes", options.memory_bytes as f64)?;
        type Built = (
            Table,
            Table,
            Function,
            Function,
            Function,
            Function,
            Table,
            Function,
            Function,
        );
        let (env, chunks, call, run_tables, load, kind_of, real, reset, limit): Built =
            prelude.call((&native, tables))?;
        lua.set_globals(env)?;
        set_hook(&lua, &state)?;
        // The parser does not keep the names of chunks alive.
        lua.set_named_registry_value("chunk names", lua.create_string(purpose.chunk_name())?)?;
        let settled_bytes = lua.used_memory();
        Ok(Engine {
            lua,
            state,
            parts: Parts {
                real,
                chunks,
                on_error: native.raw_get("on_error")?,
            },
            call,
            run_tables,
            load,
            kind_of,
            reset,
            limit,
            purpose,
            functions: functions::Functions::default(),
            by_digest: HashMap::new(),
            by_body: HashMap::new(),
            last: None,
            free_chunks: Vec::new(),
            chunk_count: 0,
            sweep_at: 1024,
            settled_bytes,
            memory_bytes: options.memory_bytes,
        })
    }

    /// Returns the memory that the state uses, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Sets the maximum memory that a running script may allocate, in bytes.
    pub fn set_memory_bytes(&mut self, bytes: usize) {
        if self.memory_bytes == bytes {
            return;
        }
        self.memory_bytes = bytes;
        self.state.memory_bytes.set(bytes);
        // It fails only without memory; the collector then goes by the former limit.
        let _ = self.limit.call::<()>(bytes as f64);
    }

    /// Returns a compiled script with this text, unless it was evicted from the cache.
    pub fn find_body(&mut self, body: &[u8]) -> Option<Arc<Script>> {
        if let Some((script, _)) = &self.last
            && script.is_cached()
            && script.body() == body
        {
            return Some(Arc::clone(script));
        }
        let digest = *self.by_body.get(body)?;
        self.find_digest(&digest)
    }

    /// Returns a compiled script with this digest, unless it was evicted from the cache.
    pub fn find_digest(&mut self, digest: &Digest) -> Option<Arc<Script>> {
        if let Some((script, _)) = &self.last
            && script.is_cached()
            && script.digest() == digest
        {
            return Some(Arc::clone(script));
        }
        let script = &self.by_digest.get(digest)?.script;
        script.is_cached().then(|| Arc::clone(script))
    }

    /// Compiles code without keeping it.
    ///
    /// # Errors
    /// The code has a syntax error, or there is not enough memory.
    pub fn check(&self, code: &[u8]) -> Result<(), Refusal> {
        self.compile(code).map(|_| ())
    }

    fn compile(&self, code: &[u8]) -> Result<Function, Refusal> {
        let limit = self.lua.used_memory().saturating_add(self.memory_bytes);
        let limited = self.lua.set_memory_limit(limit);
        let chunk = self
            .lua
            .load(code)
            .set_name(self.purpose.chunk_name())
            .set_mode(ChunkMode::Text);
        let compiled = limited.and_then(|_| chunk.into_function());
        let unlimited = self.lua.set_memory_limit(0);
        compiled
            .and_then(|function| unlimited.map(|_| function))
            .map_err(|error| {
                let text = text_of(&error);
                match self.purpose {
                    Purpose::Scripts => {
                        format!("ERR Error compiling script (new function): {text}")
                    }
                    Purpose::Functions => format!("ERR Error compiling function: {text}"),
                }
            })
    }

    /// Returns the number of a script's chunk, which is compiled if necessary.
    fn chunk_of(&mut self, script: &Arc<Script>) -> Result<u32, Refusal> {
        if let Some((last, chunk)) = &self.last
            && Arc::ptr_eq(last, script)
        {
            return Ok(*chunk);
        }
        if let Some(compiled) = self.by_digest.get(script.digest()) {
            let chunk = compiled.chunk;
            self.last = Some((Arc::clone(&compiled.script), chunk));
            return Ok(chunk);
        }
        let function = self.compile(script.code())?;
        if self.by_digest.len() >= self.sweep_at {
            self.sweep();
        }
        let chunk = self.store(function)?;
        let compiled = Compiled {
            script: Arc::clone(script),
            chunk,
        };
        self.by_body.insert(script.shared_body(), *script.digest());
        self.by_digest.insert(*script.digest(), compiled);
        self.last = Some((Arc::clone(script), chunk));
        Ok(chunk)
    }

    /// Stores a function and returns its number.
    fn store(&mut self, function: Function) -> Result<u32, Refusal> {
        let chunk = self.free_chunks.pop().unwrap_or_else(|| {
            self.chunk_count += 1;
            self.chunk_count
        });
        let stored = self.parts.chunks.raw_set(chunk, function);
        stored.map_err(|error| format!("ERR {}", text_of(&error)))?;
        Ok(chunk)
    }

    /// Removes the scripts that the cache has evicted.
    fn sweep(&mut self) {
        let (chunks, free) = (&self.parts.chunks, &mut self.free_chunks);
        self.by_digest.retain(|_, compiled| {
            let is_kept = compiled.script.is_cached();
            if !is_kept && chunks.raw_set(compiled.chunk, Value::Nil).is_ok() {
                free.push(compiled.chunk);
            }
            is_kept
        });
        let kept = &self.by_digest;
        self.by_body.retain(|_, digest| kept.contains_key(digest));
        self.last = None;
        self.sweep_at = self.by_digest.len() * 2 + 1024;
    }

    /// Runs a script. `args` contains its `key_count` keys followed by its arguments. The result
    /// must be passed to [`Engine::write`] before the next run.
    ///
    /// # Errors
    /// The script does not compile.
    pub fn run(
        &mut self,
        script: &Arc<Script>,
        key_count: usize,
        args: Args<'_>,
        host: &mut dyn Host,
    ) -> Result<Finished, Refusal> {
        let chunk = self.chunk_of(script)?;
        Ok(self.run_chunk(chunk, key_count, args, host))
    }

    /// Returns the memory limit of the state for a run. Functions may keep values between runs, so
    /// the memory of their state is limited as a whole.
    fn limit_of_run(&mut self) -> usize {
        let used = self.lua.used_memory();
        if self.purpose == Purpose::Scripts {
            return used.saturating_add(self.memory_bytes);
        }
        let max = self.memory_bytes.saturating_mul(KEPT_RUNS);
        let is_near = used.saturating_add(self.memory_bytes) > max;
        if is_near && used > self.settled_bytes.saturating_add(self.memory_bytes / 4) {
            self.collect();
        }
        let wanted = self.lua.used_memory().saturating_add(self.memory_bytes);
        wanted.min(max)
    }

    fn run_chunk(
        &mut self,
        chunk: u32,
        key_count: usize,
        args: Args<'_>,
        host: &mut dyn Host,
    ) -> Finished {
        self.state.protocol.set(Protocol::Resp2);
        self.state.begin();
        let limit = self.limit_of_run();
        self.state.limit_bytes.set(limit);
        let is_direct = self.purpose == Purpose::Scripts && args.len() <= STACK_ARGS_MAX;
        let end = lend::lend(host, || match is_direct {
            true => self.run_direct(chunk, key_count, args, limit),
            false => End::General(self.run_general(chunk, key_count, args, limit)),
        });
        Finished(end)
    }

    /// Runs a script with few keys and arguments.
    fn run_direct(&self, chunk: u32, key_count: usize, args: Args<'_>, limit: usize) -> End {
        let lists = (args.first(key_count), args.from(key_count));
        let run = direct::run(&self.lua, &self.state, &self.parts, chunk, lists, limit);
        match run {
            Ok(true) => End::OnStack,
            Ok(false) => match self.reset.call::<()>(()) {
                Ok(()) => End::Failed,
                Err(error) => End::General(Err(error)),
            },
            Err(error) => End::General(Err(error)),
        }
    }

    fn run_general(
        &self,
        chunk: u32,
        key_count: usize,
        args: Args<'_>,
        limit: usize,
    ) -> mlua::Result<Returned> {
        let returned = self.call(chunk, key_count, args, limit);
        self.lua.set_memory_limit(0)?;
        if let Some(panic) = self.state.panic.take() {
            self.state.failure.take();
            std::panic::resume_unwind(panic);
        }
        returned
    }

    /// Writes a script's reply. `name` returns the script's name for errors. Returns whether the
    /// reply is an error from a command that the script ran. The host can abort the writing as
    /// well.
    pub fn write(
        &mut self,
        finished: Finished,
        name: impl FnOnce() -> Vec<u8>,
        reply: &mut Reply<'_>,
        host: &mut dyn Host,
    ) -> bool {
        let start = reply.position();
        let written = lend::lend(host, || match finished.0 {
            End::OnStack => match direct::take_value(&self.lua, &self.state, reply) {
                direct::Returned::Written => Ok(false),
                direct::Returned::General(value) => self.push_table(value, reply),
            },
            End::Failed => self.push((false, Value::Nil, None, Value::Nil), reply),
            End::General(returned) => returned.and_then(|returned| self.push(returned, reply)),
        });
        if let Err(error) = &written {
            self.fail(match self.state.killed.get() {
                Some(reason) => reason.into(),
                None => format!("ERR {}", text_of(error)).into(),
            });
        }
        let mut is_counted = written.unwrap_or(false);
        if let Some(failure) = self.state.failure.take() {
            reply.truncate(start);
            write_failure(&failure, &name(), reply);
            is_counted = failure.is_counted;
        }
        self.settle();
        is_counted
    }

    fn fail(&self, text: Vec<u8>) {
        let mut failure = self.state.failure.borrow_mut();
        failure.get_or_insert(Failure {
            text,
            ..Failure::default()
        });
    }

    fn call(
        &self,
        chunk: u32,
        key_count: usize,
        args: Args<'_>,
        limit: usize,
    ) -> mlua::Result<Returned> {
        let pushed = |bytes| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Either::Left(text)),
            Err(_) => self.lua.create_string(bytes).map(Either::Right),
        };
        if args.len() > STACK_ARGS_MAX {
            self.lua.set_memory_limit(limit)?;
            let table = |args: &mut dyn Iterator<Item = &[u8]>| {
                let table = self.lua.create_table()?;
                for (index, bytes) in args.enumerate() {
                    table.raw_seti(index + 1, self.lua.create_string(bytes)?)?;
                }
                mlua::Result::Ok(table)
            };
            let keys = table(&mut args.iter().take(key_count))?;
            let argv = table(&mut args.iter().skip(key_count))?;
            return self.run_tables.call((chunk, keys, argv));
        }
        match args.len() {
            0 => self.call.call((chunk, key_count, LimitOn(limit))),
            1 => self
                .call
                .call((chunk, key_count, pushed(&args[0])?, LimitOn(limit))),
            2 => {
                let (first, second) = (pushed(&args[0])?, pushed(&args[1])?);
                self.call
                    .call((chunk, key_count, first, second, LimitOn(limit)))
            }
            _ => {
                let list: mlua::Result<Vec<Either<&str, LuaString>>> =
                    args.iter().map(pushed).collect();
                let list = list?.into_iter().map(Either::Left);
                let last = std::iter::once(Either::Right(LimitOn(limit)));
                let list: Variadic<_> = list.chain(last).collect();
                self.call.call((chunk, key_count, list))
            }
        }
    }

    fn push_table(&self, value: Value, reply: &mut Reply<'_>) -> mlua::Result<bool> {
        let (kind, field): (u8, Value) = self.kind_of.call(&value)?;
        self.push((true, value, Some(kind), field), reply)
    }

    /// Writes a script's value. Returns whether it is an error that the host has already counted.
    fn push(&self, returned: Returned, reply: &mut Reply<'_>) -> mlua::Result<bool> {
        let (is_ok, value, kind, field) = returned;
        if !is_ok {
            self.fail(b"ERR not enough memory".to_vec());
            return Ok(false);
        }
        let mut writer = Writer {
            kind_of: &self.kind_of,
            has_booleans: self.state.protocol.get() == Protocol::Resp3,
            start: reply.position(),
            reply,
            state: &self.state,
            lua: &self.lua,
        };
        let kind = kind.unwrap_or(0);
        writer.write(&value, kind, &field)?;
        match &value {
            Value::Table(table) if kind == ERROR_KIND => is_counted(table),
            _ => Ok(false),
        }
    }

    /// Collects garbage if the last script left a large amount of it.
    fn settle(&mut self) {
        if self.state.killed.get().is_some() {
            // A finalizer may have replaced the hook. The old one stays if memory is short.
            let _ = set_hook(&self.lua, &self.state);
        }
        if self.lua.used_memory() <= self.settled_bytes * 2 + GROWTH_BYTES {
            return;
        }
        self.collect();
    }

    fn collect(&mut self) {
        let _ = self.reset.call::<()>(());
        // Twice, because finalizers run between the two. An error would leave the garbage to the
        // collector's own steps.
        let _ = self.lua.gc_collect().and_then(|()| self.lua.gc_collect());
        self.settled_bytes = self.lua.used_memory();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Turns the prelude's finalizer off, because it would call functions that are freed
        // already.
        let _ = self.limit.call::<()>(-1.0);
    }
}

/// Writes the reply of a script that failed.
fn write_failure(failure: &Failure, name: &[u8], reply: &mut Reply<'_>) {
    let mut text = failure.text.clone();
    text.extend_from_slice(b" script: ");
    text.extend_from_slice(name);
    if let Some((source, line)) = &failure.place {
        text.extend_from_slice(format!(", on {source}:{line}").as_bytes());
    }
    text.push(b'.');
    reply.error_bytes(&text);
}

/// Installs the hook that ends a script at the host's request.
fn set_hook(lua: &Lua, state: &Rc<State>) -> mlua::Result<()> {
    let state = Rc::clone(state);
    let triggers = HookTriggers::new().every_nth_instruction(Engine::TICK_INSTRUCTIONS);
    lua.set_global_hook(triggers, move |_, _| {
        state.tick().map(|()| VmState::Continue)
    })
}

#[cfg(test)]
mod tests;
