//! Function libraries in a Lua state.

use super::{Engine, Finished, Refusal, text_of};
use crate::header::Flags;
use crate::host::Host;
use crate::lend;
use crate::library::{Libraries, Library, LibraryMap, Registered, folded};
use mlua::{Function, Value};
use std::collections::HashMap;
use std::sync::Arc;
use wire::Args;

/// The libraries loaded into a state.
#[derive(Default)]
pub(super) struct Functions {
    /// Registry version last compared with the loaded libraries.
    version: u64,
    /// Whether a library of that registry version could not be loaded.
    has_failed: bool,
    /// Registry version at which removed libraries were last freed.
    freed_version: u64,
    libraries: LibraryMap,
    /// Chunk number and flags of each function, by its name in lower case.
    by_name: HashMap<Vec<u8>, (u32, Flags)>,
}

/// Whether a map contains this exact library, as opposed to another one of the same name.
fn is_in(map: &LibraryMap, library: &Arc<Library>) -> bool {
    let found = map.get(&library.name);
    found.is_some_and(|other| Arc::ptr_eq(other, library))
}

impl Engine {
    /// Runs the code of a library without keeping its functions, and adds them to `library`.
    ///
    /// # Errors
    /// The code does not compile, fails, or registers no functions.
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
        self.settle();
        Ok(())
    }

    /// Runs a library's code and returns the functions that it registers.
    fn run_library(
        &mut self,
        library: &Library,
        host: &mut dyn Host,
    ) -> Result<Vec<(Registered, Function)>, Refusal> {
        let main = self.compile(library.body())?;
        let chunk = self.store(main)?;
        self.state.begin();
        *self.state.registered.borrow_mut() = Some(Vec::new());
        let limit = self.limit_of_run();
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

    /// Loads the libraries added since the last call and removes the deleted ones. Each library
    /// gets its own host, because the host limits how long a library may take. A failing library
    /// does not prevent others from being loaded.
    fn synchronize<H: Host>(
        &mut self,
        libraries: &Libraries,
        new_host: impl Fn() -> H,
    ) -> Result<(), Refusal> {
        self.free_removed(libraries);
        self.functions.version = libraries.version();
        let all = libraries.all();
        let mut loaded = std::mem::take(&mut self.functions.libraries);
        let mut result = Ok(());
        for (name, library) in all.iter() {
            if is_in(&loaded, library) {
                continue;
            }
            match self.load_library(library, &mut new_host()) {
                Ok(()) => {
                    loaded.insert(name.clone(), Arc::clone(library));
                }
                Err(refusal) => result = result.and(Err(refusal)),
            }
        }
        self.functions.libraries = loaded;
        self.functions.has_failed = result.is_err();
        self.settle();
        result
    }

    /// Frees the libraries that were removed or replaced since the last call.
    pub fn free_removed(&mut self, libraries: &Libraries) {
        let version = libraries.version();
        if self.functions.freed_version == version {
            return;
        }
        self.functions.freed_version = version;
        let all = libraries.all();
        let mut loaded = std::mem::take(&mut self.functions.libraries);
        let before = loaded.len();
        loaded.retain(|_, library| {
            let is_kept = is_in(&all, library);
            if !is_kept {
                self.unload(library);
            }
            is_kept
        });
        if loaded.len() < before {
            self.collect();
        }
        self.functions.libraries = loaded;
    }

    /// Loads the functions of a library that is not loaded yet.
    fn load_library(&mut self, library: &Library, host: &mut dyn Host) -> Result<(), Refusal> {
        let mut added = Vec::new();
        for (function, callback) in self.run_library(library, host)? {
            // Other names than those of the registry could belong to another library.
            if !library.has(&function.name) {
                continue;
            }
            match self.store(callback) {
                Ok(chunk) => added.push((function, chunk)),
                Err(refusal) => {
                    added.iter().for_each(|(_, chunk)| self.release(*chunk));
                    return Err(refusal);
                }
            }
        }
        for (function, chunk) in added {
            let name = folded(&function.name).into_owned();
            let replaced = self.functions.by_name.insert(name, (chunk, function.flags));
            if let Some((chunk, _)) = replaced {
                self.release(chunk);
            }
        }
        Ok(())
    }

    /// Removes the functions of a library.
    fn unload(&mut self, library: &Library) {
        for function in &library.functions {
            let removed = self.functions.by_name.remove(&*folded(&function.name));
            if let Some((chunk, _)) = removed {
                self.release(chunk);
            }
        }
    }

    /// Returns a function's flags, or `None` if it does not exist. `new_host` returns the host for
    /// loading one library.
    ///
    /// # Errors
    /// There is no such function, and a library failed to load although it loaded when it was
    /// registered.
    pub fn find_function<H: Host>(
        &mut self,
        libraries: &Libraries,
        name: &[u8],
        new_host: impl Fn() -> H,
    ) -> Result<Option<Flags>, Refusal> {
        let name = &*folded(name);
        let mut result = Ok(());
        let is_missing = self.functions.has_failed && !self.functions.by_name.contains_key(name);
        if self.functions.version != libraries.version() || is_missing {
            result = self.synchronize(libraries, new_host);
        }
        match self.functions.by_name.get(name) {
            Some((_, flags)) => Ok(Some(*flags)),
            None => result.map(|()| None),
        }
    }

    /// Calls a function that [`Engine::find_function`] has just found. Otherwise like
    /// [`Engine::run`].
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
            .get(&*folded(name))
            .ok_or_else(|| "ERR Function not found".to_owned())?;
        Ok(self.run_chunk(chunk, key_count, args, host))
    }
}
