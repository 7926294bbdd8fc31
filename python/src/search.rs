//! Look-ups of Python objects: the keys that the library compares, and the results of comparisons.
//!
//! `__eq__` runs only here, and only for a key that is looked up. Each look-up keeps its findings
//! in its own [`Search`], so that look-ups inside of `__eq__`, of any cache, do not affect it.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::{Cell, OnceCell};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// Key of an entry. Stored keys are equal only if they are the same object. A key being looked up
/// is also compared by `__eq__`.
pub enum Key {
    /// Key of the cache, and its hash.
    Stored(Py<PyAny>, u64),
    /// Key that is looked up.
    Wanted(Pointer),
}

const _: () = assert!(size_of::<Key>() == 16);

/// Address of a [`Search`], which exists for as long as the key that holds it.
#[derive(Clone, Copy)]
pub struct Pointer(NonNull<Search>);

// SAFETY: a search is used by the call that made it, and that call does not leave its thread.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

/// Look-up of one object, with the results of its comparisons with stored keys. It belongs to a
/// single call, because `__eq__` may look up other keys, in this cache or another one.
pub struct Search {
    /// Object that the caller keeps during the look-up.
    object: *mut ffi::PyObject,
    /// Hash of the object.
    pub hash: u64,
    /// Whether the stored key is kept in `matched`.
    keeps_match: bool,
    matched: Cell<Option<Py<PyAny>>>,
    /// First exception that `__eq__` raised.
    raised: OnceCell<Box<PyErr>>,
}

/// Marker that an exception is set in the interpreter. Unlike a `PyErr`, it takes no space in
/// results.
pub struct Raised;

impl Search {
    /// Hashes an object that the caller keeps. An exception of `__hash__` is returned.
    #[inline]
    pub fn new(object: &Bound<'_, PyAny>, keeps_match: bool) -> PyResult<Search> {
        let begun = Search::begin(object, keeps_match);
        begun.map_err(|Raised| PyErr::fetch(object.py()))
    }

    /// Hashes an object that the caller keeps. An exception of `__hash__` stays set.
    #[inline]
    pub fn begin(object: &Bound<'_, PyAny>, keeps_match: bool) -> Result<Search, Raised> {
        // SAFETY: the thread has the interpreter's lock, and the object exists.
        let hash = unsafe { ffi::PyObject_Hash(object.as_ptr()) };
        if hash == -1 {
            return Err(Raised);
        }
        Ok(Search {
            hash: hash as u64,
            object: object.as_ptr(),
            keeps_match,
            matched: Cell::new(None),
            raised: OnceCell::new(),
        })
    }

    /// Returns the key for the library, which must not be used longer than the search.
    #[inline]
    pub fn key(&self) -> Wanted<'_> {
        Wanted {
            key: Key::Wanted(Pointer(NonNull::from(self))),
            search: PhantomData,
        }
    }

    /// Compares a stored key by identity and by `__eq__`. After an exception every key differs.
    #[inline]
    fn is(&self, stored: &Py<PyAny>, hash: u64) -> bool {
        if hash != self.hash {
            return false;
        }
        let is_equal = stored.as_ptr() == self.object || self.compare(stored);
        if is_equal && self.keeps_match {
            // SAFETY: keys are looked for in calls of this module only, and all of them hold the
            // interpreter's lock.
            let py = unsafe { Python::assume_attached() };
            self.matched.set(Some(stored.clone_ref(py)));
        }
        is_equal
    }

    fn compare(&self, stored: &Py<PyAny>) -> bool {
        if self.raised.get().is_some() {
            return false;
        }
        // SAFETY: this thread has the interpreter's lock. The caller of the look-up keeps the
        // object, and the library the stored key, even if `__eq__` removes its entry.
        match unsafe { ffi::PyObject_RichCompareBool(stored.as_ptr(), self.object, ffi::Py_EQ) } {
            0 => false,
            1 => true,
            _ => {
                // SAFETY: as in `is`.
                let py = unsafe { Python::assume_attached() };
                // The first exception is the one that is raised.
                let _ = self.raised.set(Box::new(PyErr::fetch(py)));
                false
            }
        }
    }

    /// Returns the matching object, if any, or the exception that `__eq__` raised.
    #[inline]
    pub fn end(self) -> PyResult<Option<Py<PyAny>>> {
        match self.raised.into_inner() {
            None => Ok(self.matched.into_inner()),
            Some(error) => Err(*error),
        }
    }

    /// Sets the exception that `__eq__` raised, if any, in the interpreter.
    #[inline]
    pub fn close(self, py: Python<'_>) -> Result<(), Raised> {
        match self.raised.into_inner() {
            None => Ok(()),
            Some(error) => {
                error.restore(py);
                Err(Raised)
            }
        }
    }
}

/// Key that is looked up. It cannot outlive its search.
pub struct Wanted<'a> {
    key: Key,
    search: PhantomData<&'a Search>,
}

impl Deref for Wanted<'_> {
    type Target = Key;
    #[inline]
    fn deref(&self) -> &Key {
        &self.key
    }
}

impl Pointer {
    #[inline]
    fn search(&self) -> &Search {
        // SAFETY: the key borrows the search, by `Wanted`.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        match self {
            Key::Stored(object, hash) => {
                Key::Stored(Python::attach(|py| object.clone_ref(py)), *hash)
            }
            Key::Wanted(pointer) => Key::Wanted(*pointer),
        }
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(match self {
            Key::Stored(_, hash) => *hash,
            Key::Wanted(pointer) => pointer.search().hash,
        });
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        match (self, other) {
            (Key::Stored(object, hash), Key::Wanted(pointer))
            | (Key::Wanted(pointer), Key::Stored(object, hash)) => {
                pointer.search().is(object, *hash)
            }
            (Key::Stored(one, hash), Key::Stored(two, other)) => {
                hash == other && one.as_ptr() == two.as_ptr()
            }
            (Key::Wanted(one), Key::Wanted(two)) => one.0 == two.0,
        }
    }
}

impl Eq for Key {}
