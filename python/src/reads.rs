//! Reads of a cache, `cache.get(key)` and `cache[key]`, as C functions without a PyO3 frame.
//!
//! A PyO3 frame parses arguments, checks the type of the object, and counts attachments of the
//! thread, which took 204 of 729 instructions of `get` and 92 of 575 of a subscript
//! (`docs/lab/python.md`). The class `Cache` is therefore a subclass of PyO3's class that replaces
//! these two functions. Everything else is in `cache.rs`.
//!
//! Without PyO3's count, objects that Rust code drops would be released later, not wrongly. A read
//! drops none.

use crate::cache::Cache;
use crate::search::Raised;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

const TEXT: &std::ffi::CStr = c"Cache(capacity, *, ttl=None, tti=None, jitter=0.0, \
policy='s3fifo-w', weigher=None, listener=None, clock=None)\n--\n\n\
A mapping whose entries expire on time.\n\n\
Expired entries are never returned, and a background thread removes them within milliseconds.\n\n\
capacity: maximum number of entries, or maximum total weight if there is a weigher.\n\
ttl: time to live: seconds after its insertion at which an entry expires; never if None.\n\
tti: time to idle: seconds after its last read at which an entry expires; never if None.\n\
jitter: largest random share by which each TTL is shortened, from 0 to 1.\n\
policy: eviction policy with its parameters, such as \"lru\" or \"s3fifo:small=0.2\".\n\
weigher: function of key and value that returns the weight of an entry, an integer.\n\
listener: function of key, value and cause that is called after an entry has left. The cause is\n    \
\"expired\", \"evicted\", \"replaced\" or \"removed\".\n\
clock: time source for tests. With it, expired entries are removed only by calls.";

const GET_TEXT: &std::ffi::CStr = c"get($self, key, default=None, /)\n--\n\n\
Returns the value of a key and registers a hit, or returns `default`.";

/// Creates the class `Cache`, derived from PyO3's class.
pub fn class<'py>(base: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let bases = PyTuple::new(base.py(), [base])?;
    let definition = ffi::PyMethodDef {
        ml_name: c"get".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFast: get,
        },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: GET_TEXT.as_ptr(),
    };
    // The class refers to the definition as long as the process runs.
    let methods = Box::leak(Box::new([definition, ffi::PyMethodDef::zeroed()]));
    let subscript: ffi::binaryfunc = subscript;
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_mp_subscript, subscript as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_doc, TEXT.as_ptr().cast_mut().cast()),
        ffi::PyType_Slot::default(),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"mayfly._native.Cache".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the slots and the methods end with an empty one, and all texts are static. A size of
    // 0 is that of the base class.
    let class = unsafe { ffi::PyType_FromSpecWithBases(&raw mut spec, bases.as_ptr()) };
    // SAFETY: the function returns an owned reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(base.py(), class) }
}

/// Implements `cache.get(key, default=None, /)`.
///
/// # Safety
/// The arguments are valid for a method with `METH_FASTCALL` of the class `Cache`.
unsafe extern "C" fn get(
    this: *mut ffi::PyObject,
    arguments: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    if count != 1 && count != 2 {
        // SAFETY: the interpreter has called this function.
        let py = unsafe { Python::assume_attached() };
        let text = format!("get: {count} arguments: expected a key and at most one default");
        PyTypeError::new_err(text).restore(py);
        return null_mut();
    }
    // SAFETY: there is at least one argument.
    let key = unsafe { *arguments };
    // SAFETY: the object is a `Cache`, which the method's descriptor has checked.
    match unsafe { read(this, key) } {
        Ok(Some(value)) => value,
        Ok(None) => {
            let default = match count {
                // SAFETY: a static object.
                1 => unsafe { ffi::Py_None() },
                _ => {
                    // SAFETY: there are two arguments.
                    let second = unsafe { arguments.add(1) };
                    // SAFETY: as above.
                    unsafe { *second }
                }
            };
            // SAFETY: the caller owns the argument, and `None` is static.
            unsafe { ffi::Py_NewRef(default) }
        }
        Err(Raised) => null_mut(),
    }
}

/// Implements `cache[key]`.
///
/// # Safety
/// The arguments are valid for the slot `mp_subscript` of the class `Cache`.
unsafe extern "C" fn subscript(
    this: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the object is a `Cache`.
    match unsafe { read(this, key) } {
        Ok(Some(value)) => value,
        Ok(None) => {
            // SAFETY: the key is an object that the caller owns. A tuple as the only argument of
            // the exception would be taken for all of them.
            let arguments = unsafe { ffi::PyTuple_Pack(1, key) };
            if !arguments.is_null() {
                // SAFETY: the interpreter has set this class before it loads a module.
                let class = unsafe { ffi::PyExc_KeyError };
                // SAFETY: a class and an object.
                unsafe { ffi::PyErr_SetObject(class, arguments) };
                // SAFETY: this frame owns the tuple.
                unsafe { ffi::Py_DecRef(arguments) };
            }
            null_mut()
        }
        Err(Raised) => null_mut(),
    }
}

/// Returns an owned reference to the value of a live entry, and registers a hit.
///
/// # Safety
/// The thread is attached to the interpreter, `this` is a `Cache`, and `key` an object.
#[inline(always)]
unsafe fn read(
    this: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
) -> Result<Option<*mut ffi::PyObject>, Raised> {
    // SAFETY: the caller is attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller owns the object during the call.
    let this = unsafe { Borrowed::from_ptr(py, this) };
    // SAFETY: it is a `Cache`.
    let this = unsafe { this.cast_unchecked::<Cache>() };
    // SAFETY: as for the cache.
    let key = unsafe { Borrowed::from_ptr(py, key) };
    let found = catch_unwind(AssertUnwindSafe(|| this.get().find(py, &key)));
    let value = found.unwrap_or_else(|_| {
        PyRuntimeError::new_err("a read of the cache failed, which is a defect").restore(py);
        Err(Raised)
    })?;
    Ok(value.map(Py::into_ptr))
}
