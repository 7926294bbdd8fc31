//! State shared by the callbacks of one Lua state.

use crate::failure::{raise, raise_table};
use crate::lend;
use crate::library::Registered;
use mlua::{Function, Lua};
use std::any::Any;
use std::cell::{Cell, RefCell};
use wire::{Output, Protocol, Span};

/// Maximum size in bytes of a reply that is converted outside of the memory limit. Converting under
/// the limit costs a protected call per value.
const UNLIMITED_BYTES_MAX: usize = 16 << 10;

/// Minimum stack size in bytes of a thread that runs scripts. Lua's calls to C functions take up to
/// 2 MB of it, and the libraries' recursive functions up to half.
pub const STACK_BYTES: usize = 16 << 20;
/// Maximum number of steps that Lua's own pattern matcher may take in one call, which takes less
/// than a second.
const STEPS_MAX: f64 = 2e8;
/// Units of work between two calls of `Host::tick`. A unit is about one copied byte.
const TICK_UNITS: usize = 4096;

/// Panic of a command called by a script, kept until the script has ended.
pub type Panic = Box<dyn Any + Send>;

/// Failure of a script.
#[derive(Debug, Default)]
pub struct Failure {
    /// Text of the error reply, without the leading `-`.
    pub text: Vec<u8>,
    /// Whether the error came from a command and was counted by the host.
    pub is_counted: bool,
    /// Source and line, if known.
    pub place: Option<(String, usize)>,
}

/// State shared by the callbacks of one Lua state.
pub struct State {
    /// Protocol of the replies that the script receives from commands.
    pub protocol: Cell<Protocol>,
    /// Memory limit of the state in bytes while a script runs.
    pub limit_bytes: Cell<usize>,
    /// Maximum memory in bytes of a running script.
    pub memory_bytes: Cell<usize>,
    /// Reason why the script must end, if it must.
    pub killed: Cell<Option<&'static str>>,
    /// Failure of the running script.
    pub failure: RefCell<Option<Failure>>,
    /// Functions that the library being loaded has registered; `None` while none is loaded.
    pub registered: RefCell<Option<Vec<(Registered, Function)>>>,
    /// Panic of a command called by the running script.
    pub panic: Cell<Option<Panic>>,
    /// Whether the output buffer holds a reply that has not been converted yet.
    pub has_reply: Cell<bool>,
    /// Maximum number of steps that Lua's own pattern matcher may take in one call.
    pub steps_max: Cell<f64>,
    /// Address of the stack where the script started.
    pub stack_start: Cell<usize>,
    /// Units of work until the next call of `Host::tick`.
    pub units_left: Cell<usize>,
    /// Buffer for a command's arguments.
    pub input: RefCell<Vec<u8>>,
    /// Spans of the arguments in `input`.
    pub spans: RefCell<Vec<Span>>,
    /// Buffer for a reply.
    pub output: RefCell<Output>,
}

/// Returns the approximate address of the top of the stack: the address of a local variable.
#[inline(never)]
fn stack_top() -> usize {
    let variable = 0u8;
    std::hint::black_box(std::ptr::from_ref(&variable)).addr()
}

impl State {
    /// Creates the state for scripts that may allocate this many bytes.
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

    /// Prepares the state for a run.
    pub fn begin(&self) {
        self.killed.set(None);
        self.has_reply.set(false);
        self.stack_start.set(stack_top());
        self.units_left.set(TICK_UNITS);
    }

    /// Raises an error if the stack is half full. Recursive functions call it at each level.
    pub fn check_stack(&self, lua: &Lua) -> mlua::Result<()> {
        if self.stack_start.get().abs_diff(stack_top()) > STACK_BYTES / 2 {
            return Err(raise(lua, "C stack overflow"));
        }
        Ok(())
    }

    /// Counts work that Lua's instruction count does not include. Raises an error if the script
    /// must end.
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

    /// Checks with the host whether the script must end, and raises an error if so.
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

    /// Runs the conversion of a small reply without the cost of the memory limit.
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

/// Purpose of a Lua state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Scripts of EVAL.
    Scripts,
    /// Function libraries.
    Functions,
}

impl Purpose {
    /// Returns the chunk name shown in error messages.
    pub fn chunk_name(self) -> &'static str {
        match self {
            Purpose::Scripts => "@user_script",
            Purpose::Functions => "@user_function",
        }
    }
}
