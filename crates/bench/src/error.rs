//! Errors of experiments.

use std::fmt;
use std::io;

/// Reason why an experiment could not run. `main` reports it once.
#[derive(Debug)]
pub enum Error {
    /// Arguments that contradict each other or cannot be satisfied.
    Usage(String),
    /// A system call failed.
    System {
        /// Action that was attempted.
        doing: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A server did not start, or replied with an error or a malformed reply.
    Server {
        /// Name of the server.
        label: String,
        /// Description of the problem.
        problem: String,
    },
    /// A trace that cannot be read.
    Trace(trace::Error),
    /// A TTL mix that cannot be parsed.
    Mix(trace::TtlMixError),
}

/// Result of an experiment's steps.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a closure that converts an I/O error into [`Error::System`] with a description of
    /// the attempted action.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::System { doing, source }
    }

    /// Returns an error about a server.
    pub(crate) fn server(label: &str, problem: impl Into<String>) -> Error {
        Error::Server {
            label: label.into(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(text) => write!(f, "{text}"),
            Error::System { doing, source } => write!(f, "{doing}: {source}"),
            Error::Server { label, problem } => write!(f, "{label}: {problem}"),
            Error::Trace(error) => write!(f, "{error}"),
            Error::Mix(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message includes the trace error's own text, so that the cause is the next error
            // in the chain.
            Error::Trace(error) => error.source(),
            _ => None,
        }
    }
}

impl From<trace::Error> for Error {
    fn from(error: trace::Error) -> Self {
        Error::Trace(error)
    }
}

impl From<trace::TtlMixError> for Error {
    fn from(error: trace::TtlMixError) -> Self {
        Error::Mix(error)
    }
}
