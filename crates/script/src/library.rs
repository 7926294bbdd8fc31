//! Function libraries, shared by all threads.
//!
//! A library is Lua code that registers functions when it is loaded. The registry holds the code of
//! each library and the functions it registered. Each thread loads the code into its own Lua state.

use crate::header::{Flags, Header, HeaderError};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum total size in bytes of all libraries' code.
const LIBRARIES_BYTES_MAX: usize = 64 << 20;

/// A registered function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Name.
    pub name: Vec<u8>,
    /// Description, if one was given.
    pub description: Option<Vec<u8>>,
    /// Flags.
    pub flags: Flags,
}

/// A loaded library.
#[derive(Debug)]
pub struct Library {
    /// Name.
    pub name: Vec<u8>,
    /// Code, including its first line.
    pub code: Vec<u8>,
    /// Length of the first line.
    header_len: usize,
    /// Functions, sorted by name in lower case.
    pub functions: Vec<Registered>,
}

/// Returns a function's name in lower case, because function names ignore case, as in Redis.
pub fn folded(name: &[u8]) -> Cow<'_, [u8]> {
    match name.iter().any(u8::is_ascii_uppercase) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// Whether a name consists of letters, digits and underscores.
fn is_name(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_letter)
}

impl Library {
    /// Parses a library's first line. An engine registers the functions.
    ///
    /// # Errors
    /// The first line is missing or invalid.
    pub fn parse(code: &[u8]) -> Result<Library, HeaderError> {
        let header = Header::parse(code).map_err(|_| "ERR Invalid library metadata")?;
        let header = header.ok_or("ERR Missing library metadata")?;
        let name = header.library_name()?;
        if !is_name(name) {
            let text = "ERR Library names can only contain letters, numbers, or underscores(_) and \
                        must be at least one character long";
            return Err(text.into());
        }
        if !header.engine().eq_ignore_ascii_case(b"lua") {
            let engine = String::from_utf8_lossy(header.engine()).into_owned();
            return Err(format!("ERR Engine '{engine}' not found"));
        }
        Ok(Library {
            name: name.to_vec(),
            header_len: header.len,
            code: code.to_vec(),
            functions: Vec::new(),
        })
    }

    /// Returns the code after the first line, including that line's line end.
    pub fn body(&self) -> &[u8] {
        &self.code[self.header_len..]
    }

    /// Returns a function's index, or the index at which it would be inserted.
    fn place_of(&self, name: &[u8]) -> Result<usize, usize> {
        let name = folded(name);
        self.functions
            .binary_search_by(|known| folded(&known.name).cmp(&name))
    }

    /// Whether the library has registered a function with this name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.place_of(name).is_ok()
    }

    /// Adds a function registered by the code.
    ///
    /// # Errors
    /// The name is invalid or taken.
    pub fn register(&mut self, function: Registered) -> Result<(), &'static str> {
        if !is_name(&function.name) {
            return Err(
                "ERR Library names can only contain letters, numbers, or underscores(_) and \
                        must be at least one character long",
            );
        }
        match self.place_of(&function.name) {
            Ok(_) => Err("ERR Function already exists in the library"),
            Err(at) => {
                self.functions.insert(at, function);
                Ok(())
            }
        }
    }
}

/// Map of libraries by name.
pub type LibraryMap = BTreeMap<Vec<u8>, Arc<Library>>;

/// The registry.
#[derive(Default)]
pub struct Libraries {
    libraries: Mutex<Arc<LibraryMap>>,
    version: AtomicU64,
}

impl Libraries {
    fn locked(&self) -> MutexGuard<'_, Arc<LibraryMap>> {
        self.libraries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that changes whenever the registry does.
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Returns the flags of the function with this name.
    pub fn flags_of(&self, name: &[u8]) -> Option<Flags> {
        let all = self.all();
        all.values()
            .find_map(|library| Some(library.functions[library.place_of(name).ok()?].flags))
    }

    /// Whether there are no libraries.
    pub fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    /// Returns all libraries.
    pub fn all(&self) -> Arc<LibraryMap> {
        Arc::clone(&self.locked())
    }

    /// Changes the libraries atomically.
    ///
    /// # Errors
    /// `change` failed, two libraries have a function of the same name, or the libraries are too
    /// large.
    pub fn change(
        &self,
        change: impl FnOnce(&mut LibraryMap) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut locked = self.locked();
        let mut changed = LibraryMap::clone(&locked);
        change(&mut changed)?;
        let mut names = Vec::new();
        for library in changed.values() {
            let is_old = |known: &Arc<Library>| Arc::ptr_eq(known, library);
            let is_new = !locked.get(&library.name).is_some_and(is_old);
            let functions = library.functions.iter().map(|function| &function.name[..]);
            names.extend(functions.map(|name| (folded(name), is_new, name)));
        }
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let name = String::from_utf8_lossy(pair[1].2).into_owned();
            return Err(format!("ERR Function {name} already exists"));
        }
        let bytes: usize = changed.values().map(|library| library.code.len()).sum();
        if bytes > LIBRARIES_BYTES_MAX {
            return Err("ERR the function libraries exceed 64 MB".into());
        }
        *locked = Arc::new(changed);
        self.version.fetch_add(1, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_belongs_to_one_library() {
        let library = |text: &str, function: &str| {
            let mut library = Library::parse(text.as_bytes()).expect("valid");
            let registered = Registered {
                name: function.into(),
                description: None,
                flags: Flags::default(),
            };
            library.register(registered.clone()).expect("the first");
            assert!(library.register(registered.clone()).is_err());
            let other_case = Registered {
                name: function.to_ascii_uppercase().into(),
                ..registered
            };
            assert!(library.register(other_case).is_err());
            library
        };
        let libraries = Libraries::default();
        let add = |library: Library| {
            libraries.change(|map| {
                map.insert(library.name.clone(), Arc::new(library));
                Ok(())
            })
        };
        assert_eq!(add(library("#!lua name=a\n", "f")), Ok(()));
        let taken = Err("ERR Function f already exists".to_owned());
        assert_eq!(add(library("#!lua name=b\n", "f")), taken);
        let taken = Err("ERR Function F already exists".to_owned());
        assert_eq!(add(library("#!lua name=b\n", "F")), taken);
        assert_eq!(add(library("#!lua name=b\n", "g")), Ok(()));
        assert_eq!((libraries.all().len(), libraries.version()), (2, 2));
    }

    #[test]
    fn first_lines_are_checked() {
        for (text, error) in [
            ("return 1", "ERR Missing library metadata"),
            ("#!lua name=a", "ERR Invalid library metadata"),
            ("#!js name=a\n", "ERR Engine 'js' not found"),
            ("#!lua\n", "ERR Library name was not given"),
            (
                "#!lua name=a-b\n",
                "ERR Library names can only contain letters",
            ),
        ] {
            let refused = Library::parse(text.as_bytes()).expect_err(text);
            assert!(refused.starts_with(error), "{text}: {refused}");
        }
    }
}
