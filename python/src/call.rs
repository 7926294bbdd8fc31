//! The fast path of cached functions: makes a key of the arguments and looks it up.
//!
//! The function that computes a result is not called from here but from `direct.rs`, because the
//! end of the program stops other threads inside of such calls.

use crate::cache::Cache;
use crate::direct;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

/// A callable that returns the cached result for its arguments, or returns to `direct.rs` that
/// `missed(key, arguments, keywords)` must be called. If an entry has less than `stale` seconds
/// left, that is `refresh(value, key, arguments, keywords)`, which returns the present value.
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
                if only.is_exact_instance_of::<PyInt>() || only.is_exact_instance_of::<PyString>() {
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
            cache,
            missed,
            refresh,
            stale,
            is_typed,
            scope,
        }
    }

    #[pyo3(signature = (*arguments, **keywords))]
    fn __call__<'py>(
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
