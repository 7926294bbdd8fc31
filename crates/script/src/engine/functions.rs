//! Function libraries in a Lua state.

use super::{Engine, Finished, Refusal, text_of};
use crate::header::Flags;
use crate::host::Host;
use crate::lend;
use crate::library::{Libraries, Library, LibraryMap, Registered};
use mlua::{Function, Value};
use std::collections::HashMap;
use std::sync::Arc;
use wire::Args;

/// The libraries that a state has loaded.
#[derive(Default)]
pub(super) struct Functions {
    /// Version of the registry that was loaded.
    version: u64,
    libraries: Arc<LibraryMap>,
    /// Functions by name: number of the chunk, and flags.
    by_name: HashMap<Vec<u8>, (u32, Flags)>,
}

impl Engine {
    /// Runs the code of a library without keeping its functions, and adds them to `library`.
    ///
    /// # Errors
    /// The code does not compile, it fails, or it registers no functions.
    pub fn try_library(
        &mut self,
        library: &mut Library,
        host: &mut dyn Host,
    ) -> Result<(), Refusal> {
        let registered = self.run_library(library, host)?;
        if registered.is_empty() {
            return Err("ERR No functions registered".into());
        }
        for (function, _) in registered {
            let added = library.register(function);
            added.map_err(|text| format!("ERR Error registering functions: {text}"))?;
        }
        Ok(())
    }

    /// Runs the code of a library and returns what it registers.
    fn run_library(
        &mut self,
        library: &Library,
        host: &mut dyn Host,
    ) -> Result<Vec<(Registered, Function)>, Refusal> {
        let main = self.compile(library.body())?;
        let chunk = self.store(main)?;
        self.state.begin();
        *self.state.registered.borrow_mut() = Some(Vec::new());
        let limit = self.lua.used_memory().saturating_add(self.memory_bytes);
        let ran = lend::lend(host, || {
            self.lua.set_memory_limit(limit)?;
            let ran = self.load.call::<bool>(chunk);
            self.lua.set_memory_limit(0)?;
            ran
        });
        let registered = self.state.registered.take().unwrap_or_default();
        self.release(chunk);
        let failure = self.state.failure.take();
        match (ran, failure) {
            (Ok(true), None) => Ok(registered),
            (Err(error), None) => Err(format!("ERR {}", text_of(&error))),
            (_, failure) => {
                let text = failure.map(|failure| failure.text);
                let text = text.unwrap_or_else(|| b"ERR not enough memory".to_vec());
                let text = String::from_utf8_lossy(&text).into_owned();
                Err(format!("ERR Error registering functions: {text}"))
            }
        }
    }

    /// Frees a chunk.
    fn release(&mut self, chunk: u32) {
        if self.parts.chunks.raw_set(chunk, Value::Nil).is_ok() {
            self.free_chunks.push(chunk);
        }
    }

    /// Loads the libraries that were added since the last call and removes the others.
    fn synchronize(&mut self, libraries: &Libraries, host: &mut dyn Host) -> Result<(), Refusal> {
        let version = libraries.version();
        if version == self.functions.version {
            return Ok(());
        }
        let all = libraries.all();
        let loaded = Arc::clone(&self.functions.libraries);
        let is_same = |map: &LibraryMap, library: &Arc<Library>| {
            map.get(&library.name)
                .is_some_and(|other| Arc::ptr_eq(other, library))
        };
        for library in loaded.values().filter(|library| !is_same(&all, library)) {
            for function in &library.functions {
                if let Some((chunk, _)) = self.functions.by_name.remove(&function.name) {
                    self.release(chunk);
                }
            }
        }
        for library in all.values().filter(|library| !is_same(&loaded, library)) {
            for (function, callback) in self.run_library(library, host)? {
                let chunk = self.store(callback)?;
                let (name, flags) = (function.name, function.flags);
                self.functions.by_name.insert(name, (chunk, flags));
            }
        }
        self.functions.libraries = all;
        self.functions.version = version;
        self.settle();
        Ok(())
    }

    /// Returns the flags of a function; `None` if it does not exist.
    ///
    /// # Errors
    /// A library fails to load, as it did not when it was registered.
    pub fn find_function(
        &mut self,
        libraries: &Libraries,
        name: &[u8],
        host: &mut dyn Host,
    ) -> Result<Option<Flags>, Refusal> {
        self.synchronize(libraries, host)?;
        Ok(self.functions.by_name.get(name).map(|(_, flags)| *flags))
    }

    /// Calls a function that [`Engine::find_function`] has just found, as [`Engine::run`].
    ///
    /// # Errors
    /// There is no such function.
    pub fn call_function(
        &mut self,
        name: &[u8],
        key_count: usize,
        args: Args<'_>,
        host: &mut dyn Host,
    ) -> Result<Finished, Refusal> {
        let (chunk, _) = *self
            .functions
            .by_name
            .get(name)
            .ok_or_else(|| "ERR Function not found".to_owned())?;
        Ok(self.run_chunk(chunk, key_count, args, host))
    }
}
