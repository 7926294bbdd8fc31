//! State that the callbacks of one Lua state share.

use crate::library::Registered;
use mlua::{Function, Lua};
use std::any::Any;
use std::cell::{Cell, RefCell};
use wire::{Output, Protocol, Span};

/// Size in bytes of a reply up to which it is converted outside of the memory limit. A conversion
/// under the limit costs a protected call per value.
const UNLIMITED_BYTES_MAX: usize = 16 << 10;

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
    /// Buffer of a command.
    pub input: RefCell<Vec<u8>>,
    /// Arguments in that buffer.
    pub spans: RefCell<Vec<Span>>,
    /// Buffer of a reply.
    pub output: RefCell<Output>,
}

impl State {
    /// Whether a library is being loaded, which may not call commands.
    pub fn is_loading(&self) -> bool {
        self.registered.borrow().is_some()
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
