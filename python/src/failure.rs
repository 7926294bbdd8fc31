//! Errors of the simulator as Python exceptions with the same messages.

use pyo3::exceptions::{PyMemoryError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::error::Error as _;
use std::io;

pyo3::create_exception!(
    mayfly,
    TraceError,
    PyValueError,
    "A trace that cannot be read: a malformed line, record or row, or an unknown format."
);

/// Reason why a call has no result.
#[derive(Debug)]
pub enum Failure {
    /// A value that is not accepted.
    Value(String),
    /// A value of a type that is not accepted.
    Type(String),
    /// A trace that cannot be read.
    Trace(trace::Error),
    /// A file that cannot be opened.
    File(String, io::Error),
    /// A simulation that failed.
    Sim(sim::Error),
    /// An exception that code of the caller raised.
    Raised(PyErr),
    /// The caller was interrupted.
    Stopped,
}

impl From<sim::Error> for Failure {
    fn from(error: sim::Error) -> Self {
        match error {
            sim::Error::Trace(error) => Failure::Trace(error),
            sim::Error::Stopped => Failure::Stopped,
            other => Failure::Sim(other),
        }
    }
}

impl From<trace::Error> for Failure {
    fn from(error: trace::Error) -> Self {
        Failure::Trace(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Raised(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Value(text) => PyValueError::new_err(text),
            Failure::Type(text) => PyTypeError::new_err(text),
            Failure::Trace(error) => {
                let source = error.source().map(|source| format!(": {source}"));
                TraceError::new_err(format!("{error}{}", source.unwrap_or_default()))
            }
            // With number, text and name, Python chooses the class, such as FileNotFoundError.
            Failure::File(name, error) => match error.raw_os_error() {
                Some(number) => {
                    let text = error.to_string();
                    let text = text.split(" (os error").next().unwrap_or_default();
                    PyOSError::new_err((number, text.to_owned(), name))
                }
                None => PyOSError::new_err(format!("{name}: {error}")),
            },
            Failure::Sim(error @ sim::Error::TooLarge { .. }) => {
                PyMemoryError::new_err(in_words_of_python(&error.to_string()))
            }
            Failure::Sim(error) => PyValueError::new_err(in_words_of_python(&error.to_string())),
            Failure::Raised(error) => error,
            Failure::Stopped => PyValueError::new_err("the call was stopped before its end"),
        }
    }
}

/// Replaces options of the command line by the arguments of the same meaning.
fn in_words_of_python(text: &str) -> String {
    let names = [
        ("--memory-limit", "memory_limit"),
        ("--jobs", "jobs"),
        ("--request-rate", "request_rate"),
        ("--ignore-ttl", "ignore_ttl"),
        ("--sample", "sample"),
        ("--explain", "explain"),
    ];
    let replace = |text: String, (option, argument): &(&str, &str)| text.replace(option, argument);
    names.iter().fold(text.to_owned(), replace)
}
