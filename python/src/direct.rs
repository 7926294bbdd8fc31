//! Calls of Python functions that compute for long, without a Rust frame that must not be unwound.
//!
//! Before Python 3.14, a daemon thread that waits for the interpreter's lock at program exit is
//! ended by unwinding its stack. PyO3's frames catch that, and the process aborts. The class `Call`
//! therefore does not call the function that computes a result: it returns a request, and the frame
//! that makes the call has no destructors and catches nothing.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function for the slot `tp_call`.
pub type Ternary = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// First element of a request, an object that no caller can have.
static MARK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// Address of [`MARK`], for a frame without a token of the interpreter.
static MARK_AT: AtomicPtr<ffi::PyObject> = AtomicPtr::new(null_mut());
/// Address of the function that looks a result up.
static LOOK_UP: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Returns a request to call a function, which [`call`] performs.
pub fn request<'py>(
    py: Python<'py>,
    function: &Py<PyAny>,
    arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Py<PyAny>> {
    let mark = MARK.get(py).map(|mark| mark.clone_ref(py));
    let request = (mark, function.clone_ref(py), arguments.into_pyobject(py)?);
    Ok(request.into_pyobject(py)?.into_any().unbind())
}

/// Creates the class `Call`, derived from PyO3's class. `look_up` receives the arguments of a call,
/// and returns a result or a request, which the class performs.
pub fn class<'py>(base: &Bound<'py, PyType>, look_up: Ternary) -> PyResult<Bound<'py, PyAny>> {
    let py = base.py();
    let object = py.import("builtins")?.getattr("object")?.call0()?;
    let mark = MARK.get_or_init(py, || object.unbind());
    MARK_AT.store(mark.as_ptr(), Relaxed);
    LOOK_UP.store(look_up as *mut c_void, Relaxed);
    let bases = PyTuple::new(py, [base])?;
    let call: Ternary = call;
    let mut slots = [
        ffi::PyType_Slot {
            slot: ffi::Py_tp_call,
            pfunc: call as *mut c_void,
        },
        ffi::PyType_Slot::default(),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"mayfly._native.Call".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the slots end with an empty one, and the name is static. A size of 0 is that of the
    // base class.
    let class = unsafe { ffi::PyType_FromSpecWithBases(&raw mut spec, bases.as_ptr()) };
    // SAFETY: the function returns an owned reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, class) }
}

/// Looks up the result of a call, and calls the function of a request. Nothing in this frame needs
/// to be dropped, so the frame may be unwound when the thread ends.
///
/// # Safety
/// The arguments are valid for a slot `tp_call`: an instance of `Call`, a tuple, and a dictionary
/// or null.
unsafe extern "C-unwind" fn call(
    object: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: `class` has stored the function before an instance can exist.
    let look_up = unsafe { std::mem::transmute::<*mut c_void, Ternary>(LOOK_UP.load(Relaxed)) };
    // SAFETY: the arguments are passed on as they are.
    let found = unsafe { look_up(object, arguments, keywords) };
    if found.is_null() {
        return found;
    }
    // SAFETY: the look-up has returned an object.
    if unsafe { ffi::PyTuple_CheckExact(found) } == 0 {
        return found;
    }
    // SAFETY: the object is a tuple.
    if unsafe { ffi::PyTuple_Size(found) } != 3 {
        return found;
    }
    // SAFETY: the tuple has three elements.
    if unsafe { ffi::PyTuple_GetItem(found, 0) } != MARK_AT.load(Relaxed) {
        return found;
    }
    // SAFETY: as above.
    let function = unsafe { ffi::PyTuple_GetItem(found, 1) };
    // SAFETY: as above.
    let values = unsafe { ffi::PyTuple_GetItem(found, 2) };
    let perform: ffi::ternaryfunc = ffi::PyObject_Call;
    // SAFETY: the two types differ only in that a call may unwind.
    let perform = unsafe { std::mem::transmute::<ffi::ternaryfunc, Ternary>(perform) };
    // SAFETY: a request has a function and a tuple, which the request keeps.
    let result = unsafe { perform(function, values, null_mut()) };
    // SAFETY: the reference is owned by this frame.
    unsafe { ffi::Py_DecRef(found) };
    result
}
