//! Errors of simulations.

use std::fmt;

/// Reason why a trace could not be simulated.
#[derive(Debug)]
pub enum Error {
    /// The trace cannot be read.
    Trace(trace::Error),
    /// The trace has no requests.
    Empty {
        /// Name of the trace.
        trace: String,
    },
    /// The trace has more requests or objects than ids can number.
    TooMany {
        /// Name of the trace.
        trace: String,
        /// Subject of the limit: `requests` or `objects`.
        what: &'static str,
        /// Maximum number that ids can represent.
        limit: usize,
    },
    /// The trace needs more memory than allowed.
    TooLarge {
        /// Name of the trace.
        trace: String,
        /// Number of requests read so far.
        requests: u64,
        /// Number of objects seen so far.
        objects: u64,
        /// Bytes that would be needed next.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The trace is too long for deadlines to fit into a tick.
    TooLong {
        /// Name of the trace.
        trace: String,
    },
    /// A policy needs future requests, and the trace is a part of another.
    NoFuture {
        /// Name of the trace.
        trace: String,
    },
    /// The segment engine does not support the configuration.
    Segments {
        /// Description of the problem.
        problem: String,
    },
    /// The cluster cannot be simulated.
    Cluster {
        /// Description of the problem.
        problem: String,
    },
    /// The caller stopped the replays before their end (see [`crate::STOPPED`]).
    Stopped,
    /// The cache size is not valid for the trace.
    BadSize {
        /// Size as given.
        given: String,
        /// Description of the problem.
        problem: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Trace(error) => error.fmt(f),
            Error::Empty { trace } => write!(f, "{trace}: the trace has no requests"),
            Error::TooMany { trace, what, limit } => {
                write!(
                    f,
                    "{trace}: more than {limit} {what}: cut or sample the trace"
                )
            }
            Error::TooLarge {
                trace,
                requests,
                objects,
                needed,
                limit,
            } => write!(
                f,
                "{trace}: {requests} requests for {objects} objects need {} MiB of \
                 memory, but {} MiB are allowed: cut or sample the trace, simulate fewer \
                 configurations at once (--jobs), or raise --memory-limit",
                needed.div_ceil(1 << 20),
                limit >> 20
            ),
            Error::TooLong { trace } => write!(
                f,
                "{trace}: it spans more than 4,400 years: if its timestamps are in another unit than the \
                 format's, give --request-rate or --ignore-ttl"
            ),
            Error::NoFuture { trace } => write!(
                f,
                "{trace}: this is a part of another trace (its annotations of future requests do not \
                 match, or --sample was given), so a policy that needs future requests cannot \
                 be used, nor --foresight: leave it out, or use the whole trace"
            ),
            Error::Segments { problem } => write!(f, "segcache: {problem}"),
            Error::Stopped => f.write_str("the replays were stopped before their end"),
            Error::Cluster { problem } => f.write_str(problem),
            Error::BadSize { given, problem } => write!(f, "size {given}: {problem}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message is that of the inner error. Therefore the inner error's source is
            // returned, too.
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
