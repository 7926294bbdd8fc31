//! Keys from Python objects: elements of lists, generators and object arrays.

use crate::failure::Failure;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};

/// Reads one key from each element of an iterable. All elements must be of one type: integers,
/// `str` or `bytes`.
pub fn of_iterable(name: &str, elements: &Bound<'_, PyAny>) -> Result<Vec<u64>, Failure> {
    let mut keys = Vec::new();
    let mut first: Option<&'static str> = None;
    let (mut has_negative, mut has_large) = (false, false);
    for (row, element) in elements.try_iter()?.enumerate() {
        let element = element?;
        let (kind, key) = key_of(name, row, &element)?;
        if kind == "int" && key > i64::MAX as u64 {
            // As keys, -1 and 2^64 - 1 are the same 64 bits.
            let is_negative = element.lt(0)?;
            has_negative |= is_negative;
            has_large |= !is_negative;
            if has_negative && has_large {
                return Err(Failure::Value(format!(
                    "column '{name}', row {row}: {element}: expected no integers from 2^63 on \
                     beside negative ones"
                )));
            }
        }
        match first {
            None => first = Some(kind),
            Some(first) if first != kind => {
                return Err(Failure::Type(format!(
                    "column '{name}', row {row}: a key of type {kind}, but row 0 is {first}: \
                     expected keys of one type"
                )));
            }
            Some(_) => {}
        }
        keys.push(key);
        if keys.len() % (1 << 16) == 0 {
            elements.py().check_signals()?;
        }
    }
    Ok(keys)
}

fn key_of(
    name: &str,
    row: usize,
    element: &Bound<'_, PyAny>,
) -> Result<(&'static str, u64), Failure> {
    if let Ok(text) = element.cast::<PyString>() {
        return Ok(("str", trace::key_of_field(text.to_str()?.as_bytes())));
    }
    if let Ok(bytes) = element.cast::<PyBytes>() {
        return Ok(("bytes", trace::key_of_field(bytes.as_bytes())));
    }
    // Booleans are integers in Python, and seldom meant as keys. NumPy's integers are no `int`.
    let is_integer = element.is_instance_of::<PyInt>() || element.hasattr("__index__")?;
    if is_integer && !element.is_instance_of::<PyBool>() {
        let wide = |error: PyErr| match error.is_instance_of::<PyOverflowError>(element.py()) {
            true => Failure::Value(format!(
                "column '{name}', row {row}: {element}: expected an integer of at most 64 bits"
            )),
            false => error.into(),
        };
        let key = match element.extract::<i64>() {
            Ok(key) => key as u64,
            Err(_) => element.extract::<u64>().map_err(wide)?,
        };
        return Ok(("int", key));
    }
    Err(Failure::Type(format!(
        "column '{name}', row {row}: a key of type {}: expected int, str or bytes",
        element.get_type().name()?
    )))
}
