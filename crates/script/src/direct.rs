//! Fast paths between a script and Rust for starting a script, returning its value, and
//! `redis.call`.
//!
//! The binding keeps every value that it passes on a second stack, allocates per call, and protects
//! each step against Lua errors separately. For a command that takes a microsecond, this costs more
//! than the command itself. Here, strings and numbers are read from and pushed onto Lua's stack
//! directly. All other values are left to the general functions, which use the binding.
//!
//! # Errors of Lua
//! Lua raises an error with a jump that skips Rust frames. A function here that Lua calls therefore
//! holds no value with a destructor while it calls anything that may raise an error. [`perform`]
//! never raises one, and the [`Answer`] that it returns is plain data.

#![expect(
    unsafe_code,
    reason = "the safe functions of the binding take twice the time of a short script"
)]

use crate::lend;
use crate::number::integral;
use crate::state::State;
use mlua::{Function, LightUserData, Lua, Table, Value, ffi};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::slice::from_raw_parts;
use wire::number::{Text, parse_i64};
use wire::{Args, Output, Protocol, Reply, Span};

/// Maximum size of a buffer that is kept after a command, and of a reply that is converted by the
/// fast path.
pub const KEPT_BYTES_MAX: usize = 64 << 10;
/// Number of slots on Lua's stack needed to start a script.
const PLACES: c_int = 16;

/// Stack of a Lua state or of one of its coroutines.
///
/// A value may exist only while the state does: within a function that Lua has called with it, or
/// while the binding's owner of the state is borrowed. Its allocating methods raise an error when a
/// memory limit is reached, so they must be called within a protected call or without a limit.
#[derive(Clone, Copy)]
struct Stack(*mut ffi::lua_State);

impl Stack {
    fn len(self) -> c_int {
        // SAFETY: the state exists; this reads a number of it.
        unsafe { ffi::lua_gettop(self.0) }
    }

    /// Removes the values above `len`. The stack must have at least `len` values.
    fn truncate(self, len: c_int) {
        debug_assert!(len <= self.len());
        // SAFETY: the state exists, and the stack has at least this many values.
        unsafe { ffi::lua_settop(self.0, len) }
    }

    /// Type of the value at `index`, which may be beyond the last one.
    fn kind(self, index: c_int) -> c_int {
        // SAFETY: the state exists, and any index below the top of a function's stack may be
        // tested.
        unsafe { ffi::lua_type(self.0, index) }
    }

    /// Bytes of the string at `index`; `None` for any other value. They are valid until the value
    /// is removed.
    fn text<'s>(self, index: c_int) -> Option<&'s [u8]> {
        if self.kind(index) != ffi::LUA_TSTRING {
            return None;
        }
        let mut len = 0;
        // SAFETY: the value is a string, which is not converted, so that nothing is allocated.
        let start = unsafe { ffi::lua_tolstring(self.0, index, &raw mut len) };
        // SAFETY: Lua returns the start and the length of the string, which the stack keeps alive.
        Some(unsafe { from_raw_parts(start.cast(), len) })
    }

    /// The number at `index`; `None` for any other value.
    fn number(self, index: c_int) -> Option<f64> {
        if self.kind(index) != ffi::LUA_TNUMBER {
            return None;
        }
        // SAFETY: the value is a number, which is only read.
        Some(unsafe { ffi::lua_tonumber(self.0, index) })
    }

    fn is_true(self, index: c_int) -> bool {
        // SAFETY: the state exists; this only reads a value.
        unsafe { ffi::lua_toboolean(self.0, index) != 0 }
    }

    fn push_text(self, text: &[u8]) {
        // SAFETY: the pointer is valid for this number of bytes, which Lua copies. Callers have
        // reserved a place.
        unsafe { ffi::lua_pushlstring_(self.0, text.as_ptr().cast(), text.len()) }
    }

    fn push_number(self, number: f64) {
        // SAFETY: callers have reserved a place.
        unsafe { ffi::lua_pushnumber(self.0, number) }
    }

    fn push_boolean(self, is_true: bool) {
        // SAFETY: callers have reserved a place.
        unsafe { ffi::lua_pushboolean(self.0, c_int::from(is_true)) }
    }

    fn push_copy(self, index: c_int) {
        // SAFETY: callers pass the index of a value or an upvalue and have reserved a place.
        unsafe { ffi::lua_pushvalue(self.0, index) }
    }

    /// Pushes a new table with space for this many elements and fields.
    fn push_table(self, elements: usize, fields: usize) {
        let (elements, fields) = (elements as c_int, fields as c_int);
        // SAFETY: callers have reserved a place, and pass small numbers.
        unsafe { ffi::lua_createtable(self.0, elements, fields) }
    }

    /// Replaces the table on top by the table's element with this number.
    fn replace_by_element(self, number: u32) {
        // SAFETY: callers have pushed a table, and have reserved a place.
        unsafe { ffi::lua_rawgeti_(self.0, -1, number as c_int) }
        // SAFETY: the table is below the value.
        unsafe { ffi::lua_remove(self.0, -2) }
    }

    /// Pops a value and stores it as an element of the table below it.
    fn set_element(self, number: usize) {
        // SAFETY: callers have pushed a table and a value.
        unsafe { ffi::lua_rawseti_(self.0, -2, number as c_int) }
    }

    /// Pops a key and a value and stores the value in the table below them.
    fn set_field(self) {
        // SAFETY: callers have pushed a table, a key that is a string, and a value.
        unsafe { ffi::lua_rawset(self.0, -3) }
    }

    /// Moves the value on top to the bottom of the function's stack.
    fn move_to_bottom(self) {
        // SAFETY: callers have pushed a value.
        unsafe { ffi::lua_insert(self.0, 1) }
    }

    /// Reserves this many slots. Returns false if that fails.
    fn reserve(self, places: c_int) -> bool {
        // SAFETY: the state exists, and no memory limit is set.
        unsafe { ffi::lua_checkstack(self.0, places) != 0 }
    }

    /// Calls the function below `count` arguments and keeps one result. An error propagates.
    fn call(self, count: c_int) {
        // SAFETY: callers have pushed a function and this many arguments, and no value of theirs
        // has a destructor.
        unsafe { ffi::lua_call(self.0, count, 1) }
    }

    /// Calls the function on top, with the error handler at `handler`, and replaces it by the
    /// result or the error. Returns whether it succeeded.
    fn call_protected(self, handler: c_int) -> bool {
        // SAFETY: callers have pushed a handler and a function without arguments. Errors do not
        // leave the protected call.
        unsafe { ffi::lua_pcall(self.0, 0, 1, handler) == ffi::LUA_OK }
    }

    /// Raises the string on top as an error.
    fn raise(self) -> ! {
        // SAFETY: only a function that Lua has called raises, and no value of it has a destructor.
        unsafe { ffi::lua_error(self.0) }
    }

    /// Returns the address of the [`State`] that is the running function's first upvalue.
    fn state(self) -> *const State {
        // SAFETY: only `command` calls this, whose closure has this upvalue.
        unsafe { ffi::lua_touserdata(self.0, ffi::lua_upvalueindex(1)).cast() }
    }

    /// Pushes a table with one list of strings under a name in the table on top.
    fn set_list<'a>(self, name: &str, list: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.push_text(name.as_bytes());
        self.push_table(list.len(), 0);
        for (index, text) in list.enumerate() {
            self.push_text(text);
            self.set_element(index + 1);
        }
        self.set_field();
    }
}

/// Result of `redis.call` on the fast path.
#[derive(Clone, Copy)]
enum Answer {
    Number(f64),
    Boolean(bool),
    /// Bytes in the reply buffer, which the next command overwrites.
    Text(*const u8, usize),
    /// Bytes of a status reply in the reply buffer.
    Status(*const u8, usize),
    /// The general function performs or completes the call.
    General,
    /// The command has panicked.
    Panicked,
}

/// Creates `redis.call` or `redis.pcall`. `general` is the same function without the fast path.
pub fn command_function(lua: &Lua, state: &Rc<State>, general: Function) -> mlua::Result<Function> {
    let address = LightUserData(Rc::as_ptr(state).cast_mut().cast());
    let create = |raw| {
        // SAFETY: both upvalues are on the stack. `general` keeps the state alive as long as the
        // closure, because it owns a reference to it.
        unsafe { ffi::lua_pushcclosure(raw, command, 2) }
    };
    // SAFETY: the closure pops two values and pushes one; it owns nothing.
    unsafe { lua.exec_raw((address, general), create) }
}

unsafe extern "C-unwind" fn command(raw: *mut ffi::lua_State) -> c_int {
    let stack = Stack(raw);
    // SAFETY: see `command_function`.
    let state = unsafe { &*stack.state() };
    // Lua provides 20 free places to each function that it calls.
    match perform(state, stack) {
        Answer::Number(number) => stack.push_number(number),
        Answer::Boolean(is_true) => stack.push_boolean(is_true),
        // SAFETY: nothing has used the buffer since `perform` has returned.
        Answer::Text(start, len) => stack.push_text(unsafe { from_raw_parts(start, len) }),
        Answer::Status(start, len) => {
            stack.push_table(0, 1);
            stack.push_text(b"ok");
            // SAFETY: as above; a collection of garbage does not run commands.
            stack.push_text(unsafe { from_raw_parts(start, len) });
            stack.set_field();
        }
        Answer::General => {
            let count = stack.len();
            stack.push_copy(ffi::lua_upvalueindex(2));
            stack.move_to_bottom();
            stack.call(count);
        }
        Answer::Panicked => {
            stack.push_text(b"internal error");
            stack.raise();
        }
    }
    1
}

/// Performs a command whose arguments are strings and numbers.
fn perform(state: &State, stack: Stack) -> Answer {
    let performed = catch_unwind(AssertUnwindSafe(|| try_to_perform(state, stack)));
    performed.unwrap_or_else(|panic| {
        state.panic.set(Some(panic));
        Answer::Panicked
    })
}

fn try_to_perform(state: &State, stack: Stack) -> Answer {
    let (Ok(mut input), Ok(mut spans), Ok(mut output)) = (
        state.input.try_borrow_mut(),
        state.spans.try_borrow_mut(),
        state.output.try_borrow_mut(),
    ) else {
        return Answer::General;
    };
    if !gather(stack, &mut input, &mut spans, state.memory_bytes.get()) {
        return Answer::General;
    }
    output.clear();
    output.set_max(state.memory_bytes.get());
    let (args, protocol) = (Args::new(&input, &spans), state.protocol.get());
    match lend::with(|host| host.call(args, protocol, &mut output)) {
        Some(None) => {}
        None => return Answer::General,
        Some(ended) => {
            state.killed.set(ended);
            return Answer::General;
        }
    }
    input.shrink_to(KEPT_BYTES_MAX);
    simple(&output).unwrap_or_else(|| {
        state.has_reply.set(true);
        Answer::General
    })
}

/// Copies the arguments into one buffer. Returns false if one is neither a string nor a number, or
/// if they are larger than `bytes_max`.
fn gather(stack: Stack, input: &mut Vec<u8>, spans: &mut Vec<Span>, bytes_max: usize) -> bool {
    input.clear();
    spans.clear();
    let lens = (1..=stack.len()).map(|index| stack.text(index).map_or(0, <[u8]>::len));
    if lens.sum::<usize>() > bytes_max {
        return false;
    }
    for index in 1..=stack.len() {
        let start = input.len();
        if let Some(text) = stack.text(index) {
            input.extend_from_slice(text);
        } else if let Some(number) = stack.number(index) {
            let text = match integral(number) {
                Some(whole) => Text::integer(whole),
                None => Text::double(number),
            };
            input.extend_from_slice(text.as_bytes());
        } else {
            return false;
        }
        // Positions have 32 bits.
        let (Ok(start), Ok(_)) = (u32::try_from(start), u32::try_from(input.len())) else {
            return false;
        };
        let len = input.len() as u32 - start;
        spans.push(Span { start, len });
    }
    !spans.is_empty()
}

/// Converts a reply that is a number, a short string or a status.
fn simple(reply: &Output) -> Option<Answer> {
    if reply.is_cut_off() || reply.len() > KEPT_BYTES_MAX {
        return None;
    }
    let (sigil, rest) = reply.split_first()?;
    let line = rest.strip_suffix(b"\r\n")?;
    match sigil {
        b':' => Some(Answer::Number(parse_i64(line)? as f64)),
        b'+' => Some(Answer::Status(line.as_ptr(), line.len())),
        b'$' if line == b"-1" => Some(Answer::Boolean(false)),
        b'$' => {
            let digits = line.iter().position(|byte| *byte == b'\r')?;
            let text = line.get(digits + 2..)?;
            Some(Answer::Text(text.as_ptr(), text.len()))
        }
        _ => None,
    }
}

/// Lua objects needed to start a script.
pub struct Parts {
    /// Table with the contents of the environment.
    pub real: Table,
    /// Table of compiled scripts by number.
    pub chunks: Table,
    /// Error handler.
    pub on_error: Function,
}

/// Runs a script. If it succeeds, its value stays on the stack until [`take_value`] is called.
pub fn run(
    lua: &Lua,
    state: &State,
    parts: &Parts,
    chunk: u32,
    (keys, argv): (Args<'_>, Args<'_>),
    limit: usize,
) -> mlua::Result<bool> {
    lua.exec_raw_lua(|raw| {
        let stack = Stack(raw.state());
        stack.truncate(0);
        if !stack.reserve(PLACES) {
            return Ok(false);
        }
        // SAFETY: places are reserved, and no memory limit is set.
        unsafe { raw.push(&parts.on_error) }?;
        // SAFETY: as above.
        unsafe { raw.push(&parts.real) }?;
        stack.set_list("KEYS", keys.iter());
        stack.set_list("ARGV", argv.iter());
        stack.truncate(1);
        // SAFETY: as above.
        unsafe { raw.push(&parts.chunks) }?;
        stack.replace_by_element(chunk);
        lua.set_memory_limit(limit)?;
        let is_done = stack.call_protected(1);
        lua.set_memory_limit(0)?;
        let bytes = |args: Args<'_>| args.iter().map(<[u8]>::len).sum::<usize>();
        if bytes(keys) + bytes(argv) > KEPT_BYTES_MAX {
            // Others stay until the next script.
            let len = stack.len();
            // SAFETY: as above.
            unsafe { raw.push(&parts.real) }?;
            stack.set_list("KEYS", [].into_iter());
            stack.set_list("ARGV", [].into_iter());
            stack.truncate(len);
        }
        if let Some(panic) = state.panic.take() {
            stack.truncate(0);
            state.failure.take();
            resume_unwind(panic);
        }
        Ok(is_done)
    })
}

/// A script's value, as handled by [`take_value`].
pub enum Returned {
    /// The value was written to the reply.
    Written,
    /// The general function must convert this value.
    General(Value),
}

/// Removes a script's value from the stack and writes it, unless it is a table.
pub fn take_value(lua: &Lua, state: &State, reply: &mut Reply<'_>) -> Returned {
    let has_booleans = state.protocol.get() == Protocol::Resp3;
    lua.exec_raw_lua(|raw| {
        let stack = Stack(raw.state());
        match stack.kind(-1) {
            ffi::LUA_TSTRING => reply.bulk(stack.text(-1).unwrap_or_default()),
            ffi::LUA_TNUMBER => {
                let number = stack.number(-1).unwrap_or_default();
                reply.integer(crate::reply::whole(number));
            }
            ffi::LUA_TBOOLEAN if has_booleans => reply.boolean(stack.is_true(-1)),
            ffi::LUA_TBOOLEAN if stack.is_true(-1) => reply.integer(1),
            ffi::LUA_TTABLE => {
                // SAFETY: there is a value on the stack, and no memory limit is set.
                let value = unsafe { raw.pop_value() };
                stack.truncate(0);
                return Returned::General(value);
            }
            _ => reply.null(),
        }
        stack.truncate(0);
        Returned::Written
    })
}
