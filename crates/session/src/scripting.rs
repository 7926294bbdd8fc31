//! State of scripts: the cache that all workers share, and the Lua state of each worker.

use script::{Engine, Libraries, Options, Scripts};
use settings::version::REDIS_VERSION;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Growth of a Lua state in bytes below which the total is not updated.
const ACCOUNT_STEP_BYTES: i64 = 4096;

/// Number for the next [`Scripting`].
static NUMBERS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Lua state of this thread for scripts.
    static STATE: RefCell<Option<LuaState>> = const { RefCell::new(None) };
    /// Lua state of this thread for functions.
    static FUNCTIONS: RefCell<Option<LuaState>> = const { RefCell::new(None) };
}

/// Lua state of a worker.
struct LuaState {
    /// Number of the server that the state belongs to.
    number: u64,
    engine: Engine,
    /// Size that was added to the server's total.
    accounted_bytes: i64,
}

/// State of scripts of one server.
pub struct Scripting {
    /// Identifies the server, because tests run several on one thread.
    number: u64,
    /// Scripts by digest.
    pub cache: Scripts,
    /// Function libraries.
    pub libraries: Libraries,
    /// Memory of all Lua states in bytes.
    vm_bytes: AtomicI64,
    /// Whether a script has exceeded `busy-reply-threshold`.
    pub is_busy: AtomicBool,
    /// Whether the busy script has written.
    pub has_written: AtomicBool,
    /// Whether SCRIPT KILL has requested the end of the busy script.
    pub is_killed: AtomicBool,
}

impl Default for Scripting {
    fn default() -> Self {
        Scripting {
            number: NUMBERS.fetch_add(1, Relaxed),
            cache: Scripts::default(),
            libraries: Libraries::default(),
            vm_bytes: AtomicI64::new(0),
            is_busy: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
        }
    }
}

impl Scripting {
    /// Calls `work` with this thread's Lua state for scripts, which is created if necessary.
    ///
    /// # Errors
    /// There is not enough memory for a Lua state, or a script is running on this thread.
    pub fn with_engine<R>(
        &self,
        memory_bytes: usize,
        work: impl FnOnce(&mut Engine) -> R,
    ) -> Result<R, String> {
        STATE.with(|state| self.with_state(state, Engine::new, memory_bytes, work))
    }

    /// Calls `work` with this thread's Lua state for functions, which is created if necessary.
    ///
    /// # Errors
    /// There is not enough memory for a Lua state, or a script is running on this thread.
    pub fn with_functions<R>(
        &self,
        memory_bytes: usize,
        work: impl FnOnce(&mut Engine) -> R,
    ) -> Result<R, String> {
        FUNCTIONS.with(|state| self.with_state(state, Engine::for_functions, memory_bytes, work))
    }

    fn with_state<R>(
        &self,
        state: &RefCell<Option<LuaState>>,
        create: fn(&Options) -> Result<Engine, String>,
        memory_bytes: usize,
        work: impl FnOnce(&mut Engine) -> R,
    ) -> Result<R, String> {
        let Ok(mut state) = state.try_borrow_mut() else {
            return Err("ERR a script is running on this thread".into());
        };
        let state = match &mut *state {
            Some(state) if state.number == self.number => state,
            empty => {
                let options = Options {
                    version: REDIS_VERSION,
                    memory_bytes,
                };
                empty.insert(LuaState {
                    number: self.number,
                    engine: create(&options)?,
                    accounted_bytes: 0,
                })
            }
        };
        state.engine.set_memory_bytes(memory_bytes);
        let result = work(&mut state.engine);
        self.account(state);
        Ok(result)
    }

    /// Frees the memory of removed libraries in this thread's Lua state for functions, and the
    /// whole state if no library is left.
    pub fn free_removed(&self) {
        FUNCTIONS.with(|slot| {
            let Ok(mut slot) = slot.try_borrow_mut() else {
                return;
            };
            let is_own = |state: &&mut LuaState| state.number == self.number;
            let Some(state) = slot.as_mut().filter(is_own) else {
                return;
            };
            if self.libraries.is_empty() {
                self.vm_bytes.fetch_sub(state.accounted_bytes, Relaxed);
                *slot = None;
                return;
            }
            state.engine.free_removed(&self.libraries);
            self.account(state);
        });
    }

    /// Adds the growth of a state to the total.
    fn account(&self, state: &mut LuaState) {
        let used = state.engine.used_bytes() as i64;
        let change = used - state.accounted_bytes;
        if change.abs() >= ACCOUNT_STEP_BYTES {
            state.accounted_bytes = used;
            self.vm_bytes.fetch_add(change, Relaxed);
        }
    }

    /// Frees this thread's Lua state for functions.
    pub fn free_functions(&self) {
        let state = FUNCTIONS.take();
        let own = state.filter(|state| state.number == self.number);
        let bytes = own.map_or(0, |state| state.accounted_bytes);
        self.vm_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Returns the memory of all Lua states in bytes.
    pub fn vm_bytes(&self) -> u64 {
        self.vm_bytes.load(Relaxed).max(0) as u64
    }
}
