//! State that the callbacks of one Lua state share.

use crate::failure::{raise, raise_table};
use crate::lend;
use crate::library::Registered;
use mlua::{Function, Lua};
use std::any::Any;
use std::cell::{Cell, RefCell};
use wire::{Output, Protocol, Span};

/// Size in bytes of a reply up to which it is converted outside of the memory limit. A conversion
/// under the limit costs a protected call per value.
const UNLIMITED_BYTES_MAX: usize = 16 << 10;

/// Size of the stack in bytes that a thread which runs scripts must have. Lua's calls of C
/// functions take up to 2 MB of it, and the recursive functions of the libraries up to a half.
pub const STACK_BYTES: usize = 16 << 20;
/// Number of steps that Lua's own matcher of patterns may take in one call: less than a second.
const STEPS_MAX: f64 = 2e8;
/// Units of work between two calls of `Host::tick`. A unit is about a byte that is copied.
const TICK_UNITS: usize = 4096;

/// Panic of a command that a script has called, until the script has ended.
pub type Panic = Box<dyn Any + Send>;

/// Failure of a script.
#[derive(Debug, Default)]
pub struct Failure {
    /// Text of the error reply, without the leading `-`.
    pub text: Vec<u8>,
    /// Whether the error is a command's, which the host has counted.
    pub is_counted: bool,
    /// Source and line, if they are known.
    pub place: Option<(String, usize)>,
}

/// State that the callbacks of one Lua state share.
pub struct State {
    /// Protocol of the replies that commands give to the script.
    pub protocol: Cell<Protocol>,
    /// Limit of the state's memory in bytes while a script runs.
    pub limit_bytes: Cell<usize>,
    /// Maximum memory of a running script in bytes.
    pub memory_bytes: Cell<usize>,
    /// Reason why the script must end.
    pub killed: Cell<Option<&'static str>>,
    /// Failure of the running script.
    pub failure: RefCell<Option<Failure>>,
    /// Functions that the library being loaded has registered; `None` while none is loaded.
    pub registered: RefCell<Option<Vec<(Registered, Function)>>>,
    /// Panic of a command that the running script has called.
    pub panic: Cell<Option<Panic>>,
    /// Whether the buffer of the reply holds one that is not converted yet.
    pub has_reply: Cell<bool>,
    /// Number of steps that Lua's own matcher of patterns may take in one call.
    pub steps_max: Cell<f64>,
    /// Address of the stack where the script started.
    pub stack_start: Cell<usize>,
    /// Units of work until the next call of `Host::tick`.
    pub units_left: Cell<usize>,
    /// Buffer of a command.
    pub input: RefCell<Vec<u8>>,
    /// Arguments in that buffer.
    pub spans: RefCell<Vec<Span>>,
    /// Buffer of a reply.
    pub output: RefCell<Output>,
}

/// Address of the top of the stack, as nearly as a variable is to it.
#[inline(never)]
fn stack_top() -> usize {
    let variable = 0u8;
    std::hint::black_box(std::ptr::from_ref(&variable)).addr()
}

impl State {
    /// Creates the state of scripts that may allocate this number of bytes.
    pub fn new(memory_bytes: usize) -> State {
        State {
            protocol: Cell::new(Protocol::Resp2),
            limit_bytes: Cell::new(0),
            memory_bytes: Cell::new(memory_bytes),
            killed: Cell::new(None),
            failure: RefCell::default(),
            registered: RefCell::default(),
            panic: Cell::new(None),
            has_reply: Cell::new(false),
            steps_max: Cell::new(STEPS_MAX),
            stack_start: Cell::new(0),
            units_left: Cell::new(0),
            input: RefCell::default(),
            spans: RefCell::default(),
            output: RefCell::default(),
        }
    }

    /// Begins a run.
    pub fn begin(&self) {
        self.killed.set(None);
        self.has_reply.set(false);
        self.stack_start.set(stack_top());
        self.units_left.set(TICK_UNITS);
    }

    /// Raises an error if the stack is half full, which a recursive function requests at each
    /// level.
    pub fn check_stack(&self, lua: &Lua) -> mlua::Result<()> {
        if self.stack_start.get().abs_diff(stack_top()) > STACK_BYTES / 2 {
            return Err(raise(lua, "C stack overflow"));
        }
        Ok(())
    }

    /// Counts work of a function that Lua's own count of instructions does not include. Raises an
    /// error if the script must end.
    #[inline]
    pub fn work(&self, units: usize) -> mlua::Result<()> {
        match self.units_left.get().checked_sub(units) {
            Some(left) => {
                self.units_left.set(left);
                Ok(())
            }
            None => self.tick(),
        }
    }

    /// Requests from the host whether the script must end, and raises an error then.
    #[cold]
    pub fn tick(&self) -> mlua::Result<()> {
        self.units_left.set(TICK_UNITS);
        if let Some(reason) = lend::with(|host| host.tick()).flatten() {
            self.killed.set(Some(reason));
        }
        self.check_killed()
    }

    /// Raises an error if the script must end.
    pub fn check_killed(&self) -> mlua::Result<()> {
        match self.killed.get() {
            Some(reason) => Err(raise_table(reason, false)),
            None => Ok(()),
        }
    }

    /// Converts a small reply without the cost of the memory limit.
    pub fn unlimited<R>(
        &self,
        lua: &Lua,
        bytes: usize,
        work: impl FnOnce() -> mlua::Result<R>,
    ) -> mlua::Result<R> {
        if bytes > UNLIMITED_BYTES_MAX {
            return work();
        }
        lua.set_memory_limit(0)?;
        let result = work();
        lua.set_memory_limit(self.limit_bytes.get())?;
        result
    }
}

/// Purpose of a state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Scripts of EVAL.
    Scripts,
    /// Function libraries.
    Functions,
}

impl Purpose {
    /// Returns the name of chunks, which error messages show.
    pub fn chunk_name(self) -> &'static str {
        match self {
            Purpose::Scripts => "@user_script",
            Purpose::Functions => "@user_function",
        }
    }
}
