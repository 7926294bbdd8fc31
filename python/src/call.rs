//! Fast path of cached functions, which makes a key from the arguments and looks it up.
//!
//! The function that computes a result is not called from here but from `direct.rs`, because at
//! program exit, other threads are stopped inside such calls.

use crate::cache::Cache;
use crate::direct;
use crate::search::Raised;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// A callable that returns the cached result for its arguments. If there is none, it calls
/// `missed(key, arguments, keywords)`. If an entry has less than `stale` seconds left, it calls
/// `refresh(value, key, arguments, keywords)` instead, which returns the current value.
#[pyclass(
    frozen,
    dict,
    weakref,
    subclass,
    module = "mayfly._native",
    name = "_Call"
)]
pub struct Call {
    cache: Py<Cache>,
    missed: Py<PyAny>,
    refresh: Option<Py<PyAny>>,
    stale: f64,
    is_typed: bool,
    /// First part of each key, if several functions share the cache.
    scope: Option<Py<PyAny>>,
    /// Whether a single integer or text is its own key, and no result is refreshed.
    has_plain_keys: bool,
}

impl Call {
    /// Returns the key of arguments: a single integer or text itself, else a tuple. Keywords follow
    /// a mark, in the order of the call.
    fn key<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        let keywords = keywords.filter(|keywords| !keywords.is_empty());
        if keywords.is_none() && !self.is_typed && self.scope.is_none() {
            if arguments.len() == 1 {
                let only = arguments.get_item(0)?;
                if is_plain(&only) {
                    return Ok(only);
                }
            }
            return Ok(arguments.clone().into_any());
        }
        let scope = self.scope.iter().map(|scope| scope.bind(py).clone());
        let mut parts: Vec<Bound<'py, PyAny>> = scope.chain(arguments.iter()).collect();
        if let Some(keywords) = keywords {
            // No argument is this type itself, so that it separates keywords.
            parts.push(py.get_type::<Call>().into_any());
            for (name, value) in keywords {
                parts.push(name);
                parts.push(value);
            }
        }
        if self.is_typed {
            let types: Vec<_> = parts
                .iter()
                .map(|part| part.get_type().into_any())
                .collect();
            parts.extend(types);
        }
        Ok(PyTuple::new(py, parts)?.into_any())
    }

    /// Does what [`Call::result`] does, with a short path for a single integer or text.
    #[inline]
    fn find<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> Result<Py<PyAny>, Raised> {
        if self.has_plain_keys
            && keywords.is_none()
            && arguments.len() == 1
            && let Ok(only) = arguments.get_borrowed_item(0)
            && is_plain(&only)
        {
            if let Some(value) = self.cache.get().find(py, &only)? {
                return Ok(value);
            }
            let request = direct::request(py, &self.missed, (only, arguments, keywords));
            return request.map_err(|error| raised(py, error));
        }
        let result = self.result(py, arguments, keywords);
        result.map_err(|error| raised(py, error))
    }

    /// Returns the result for arguments, or a request to call one of the two functions.
    fn result<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let key = self.key(arguments, keywords)?;
        let cache = self.cache.get();
        let Some(value) = cache.look(py, &key)? else {
            return direct::request(py, &self.missed, (key, arguments, keywords));
        };
        if let Some(refresh) = &self.refresh
            && cache.left(&key)?.is_some_and(|left| left < self.stale)
        {
            return direct::request(py, refresh, (value, key, arguments, keywords));
        }
        Ok(value)
    }
}

/// Looks up the result of a call, for `direct.rs`, without a PyO3 frame. Such a frame took 290
/// of 1,225 instructions of a hit with an integer as argument (`docs/lab/python.md`).
///
/// # Safety
/// The caller must pass valid arguments of the slot `tp_call` of the class `Call`.
pub unsafe extern "C-unwind" fn look_up(
    object: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter has called the slot.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller owns the object during the call.
    let object = unsafe { Borrowed::from_ptr(py, object) };
    // SAFETY: it is a `Call`.
    let object = unsafe { object.cast_unchecked::<Call>() };
    // SAFETY: as for the object.
    let arguments = unsafe { Borrowed::from_ptr(py, arguments) };
    // SAFETY: it is a tuple.
    let arguments = unsafe { arguments.cast_unchecked::<PyTuple>() };
    // SAFETY: a dictionary that the caller owns, or null.
    let keywords = unsafe { Borrowed::from_ptr_or_opt(py, keywords) };
    // SAFETY: it is a dictionary.
    let keywords = keywords.map(|keywords| unsafe { keywords.cast_unchecked::<PyDict>() });
    let find = || object.get().find(py, &arguments, keywords.as_deref());
    let found = catch_unwind(AssertUnwindSafe(find)).unwrap_or_else(|_| {
        PyRuntimeError::new_err("a cached function failed, which is a defect").restore(py);
        Err(Raised)
    });
    match found {
        Ok(value) => value.into_ptr(),
        Err(Raised) => null_mut(),
    }
}

fn raised(py: Python<'_>, error: PyErr) -> Raised {
    error.restore(py);
    Raised
}

fn is_plain(argument: &Bound<'_, PyAny>) -> bool {
    argument.is_exact_instance_of::<PyInt>() || argument.is_exact_instance_of::<PyString>()
}

#[pymethods]
impl Call {
    #[new]
    fn new(
        cache: Py<Cache>,
        missed: Py<PyAny>,
        refresh: Option<Py<PyAny>>,
        stale: f64,
        is_typed: bool,
        scope: Option<Py<PyAny>>,
    ) -> Call {
        Call {
            has_plain_keys: !is_typed && scope.is_none() && refresh.is_none(),
            cache,
            missed,
            refresh,
            stale,
            is_typed,
            scope,
        }
    }

    /// Returns the key under which the result for these arguments is stored.
    #[pyo3(signature = (*arguments, **keywords))]
    fn cache_key<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.key(arguments, keywords)
    }

    fn __get__<'py>(
        slf: Bound<'py, Self>,
        object: &Bound<'py, PyAny>,
        kind: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = kind;
        if object.is_none() {
            return Ok(slf.into_any());
        }
        let method = slf.py().import("types")?.getattr("MethodType")?;
        method.call1((slf, object))
    }

    /// A function is pickled by its name, and copies are the function itself.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr("__qualname__")
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        let _ = memo;
        slf
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)?;
        visit.call(&self.missed)?;
        visit.call(&self.scope)?;
        visit.call(&self.refresh)
    }
}
