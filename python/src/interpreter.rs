//! The one interpreter of a process that may import the module.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Refuses the import in a second interpreter of the process: the objects of one must not reach
/// another, and the cache has threads and state of the process.
pub fn refuse_others() -> PyResult<()> {
    static FIRST: AtomicI64 = AtomicI64::new(-1);
    // SAFETY: the thread that imports is attached to an interpreter.
    let state = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: the call before returned the state of this interpreter.
    let id = unsafe { ffi::PyInterpreterState_GetID(state) };
    match FIRST.compare_exchange(-1, id, Relaxed, Relaxed) {
        Err(first) if first != id => Err(PyImportError::new_err(
            "mayfly cannot be imported in several sub-interpreters of one process: expected the \
             interpreter that imported it first",
        )),
        _ => Ok(()),
    }
}
