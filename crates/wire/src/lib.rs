//! RESP2 and RESP3, and memcached's protocol, as sans-I/O parsing and encoding: bytes in, commands out;
//! replies in, bytes out.
//!
//! No sockets, no clock, no dependencies, and no allocation per request beyond buffers that are
//! reused. Every length that a peer announces is checked against a bound before anything is done
//! with it, and nothing is allocated on the word of a length: memory grows with bytes that came.
//!
//! Start with [`Parser`] (what a server reads), [`Reply`] (what it writes) and [`number`] (how both
//! sides spell numbers); [`memcached`] is a house of its own. [`response`] is the other end of the wire, for load generators and tests.
#![forbid(unsafe_code)]

pub mod args;
pub mod dump;
mod inline;
mod long_double;
pub mod memcached;
pub mod number;
pub mod reply;
pub mod request;
pub mod response;

pub use args::{Args, Span};
pub use long_double::LongDouble;
pub use reply::{Protocol, Reply};
pub use request::{Limits, Parsed, Parser, ProtocolError};
pub use response::{ReplyScanner, ResponseError, Value, encode_command, skip_reply};
