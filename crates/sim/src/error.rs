//! What can stop a simulation.

use std::fmt;

/// Why a trace could not be simulated.
#[derive(Debug)]
pub enum Error {
    /// The trace cannot be read.
    Trace(trace::Error),
    /// The trace has no request.
    Empty {
        /// Its name.
        trace: String,
    },
    /// More of something than ids can name.
    TooMany {
        /// The trace's name.
        trace: String,
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The memory allowed does not do.
    TooLarge {
        /// The trace's name.
        trace: String,
        /// Requests read so far.
        requests: u64,
        /// Objects met so far.
        objects: u64,
        /// Bytes that would be needed next.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Deadlines would not fit into a tick.
    TooLong {
        /// The trace's name.
        trace: String,
    },
    /// A policy that must know the future, and a trace that does not have it.
    NoFuture {
        /// The trace's name.
        trace: String,
    },
    /// The segment engine cannot be had so.
    Segments {
        /// What is wrong.
        problem: String,
    },
    /// A cluster that cannot be simulated.
    Cluster {
        /// What is wrong.
        problem: String,
    },
    /// A size that is none.
    BadSize {
        /// As given.
        given: String,
        /// What is wrong.
        problem: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Trace(error) => error.fmt(f),
            Error::Empty { trace } => write!(f, "{trace}: there is no request in it"),
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
                "{trace}: {requests} requests for {objects} objects need more than the {} MiB of \
                 memory that may be used ({} MiB): cut or sample the trace, simulate fewer \
                 configurations at once (--jobs), or raise --memory-limit",
                limit >> 20,
                needed.div_ceil(1 << 20)
            ),
            Error::TooLong { trace } => write!(
                f,
                "{trace}: it spans more than 4,400 years: is its time in another unit than the \
                 format says? give --request-rate or --ignore-ttl"
            ),
            Error::NoFuture { trace } => write!(
                f,
                "{trace}: this is a part of another trace (cut or sampled: what it tells of later \
                 requests does not fit its own, or --sample was given), and a policy that knows \
                 the future would be wrong: leave it out, or give the whole trace"
            ),
            Error::Segments { problem } => write!(f, "segcache: {problem}"),
            Error::Cluster { problem } => f.write_str(problem),
            Error::BadSize { given, problem } => write!(f, "size {given}: {problem}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Its text is this error's own.
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
